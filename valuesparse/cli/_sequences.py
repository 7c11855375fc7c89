"""A user's own model and data, as a chain to measure."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Container, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import valuesparse as vs
from valuesparse.crf._schemes import constraints
from valuesparse.crf.corpora._reader import Extraction, Reader
from valuesparse.crf.crfsuite import ItemSequence
from valuesparse.io._files import read_file
from valuesparse.io.crfsuite import CrfsuiteModel

__all__ = ["NPZ", "Scored", "is_arrays", "load_arrays", "load_text"]

#: The format of files with arrays.
NPZ = "npz"
# Bytes of arrays that any file may hold, and for each byte of a file, which may be compressed.
_FREE, _RATIO = 64 << 20, 100


class Scored(NamedTuple):
    """Data that a model has scored.

    Attributes
    ----------
    chain : Chain
        The sequences, laid end to end.
    gold : (N,) int64 ndarray or None
        The labels that the data give, −1 for one that the model does not know; None: none given.
    known : float
        Share of the attributes that the model knows; 1 for arrays.
    total : int
        Sequences in the data, of which `chain` holds a sample.
    """

    chain: vs.Chain
    gold: npt.NDArray[np.int64] | None
    known: float
    total: int


def is_arrays(path: Path) -> bool:
    """Return whether a file's name says that it holds arrays.

    Examples
    --------
    >>> is_arrays(Path("scores.NPZ")), is_arrays(Path("en.conllu.gz"))
    (True, False)
    """
    return path.suffix.lower() == f".{NPZ}"


def sample(lengths: Sequence[int], tokens: int) -> list[int]:
    """Return evenly spaced sequences that hold about `tokens` tokens, all if there are fewer.

    Examples
    --------
    >>> sample([5, 5, 5, 5], 10)
    [0, 2]
    """
    total = sum(lengths)
    if total <= tokens:
        return list(range(len(lengths)))
    count = max(1, len(lengths) * tokens // total)
    return [i * len(lengths) // count for i in range(count)]


def load_text(
    model: CrfsuiteModel,
    path: Path,
    kind: str | None,
    extraction: Extraction,
    tokens: int,
    scheme: str | None = None,
) -> Scored:
    """Score a file of sentences with a CRFsuite model.

    Parameters
    ----------
    model : CrfsuiteModel
        The model.
    path : Path
        The file; it is read several times, so that memory holds what is measured alone.
    kind : str or None
        Its format; None: its name tells.
    extraction : Extraction
        How it is read. Without a word on tags, CoNLL-U has two columns of them: the one is taken of
        which the model knows more.
    tokens : int
        About how many to take.
    scheme : str, optional
        The tagging scheme that the model was trained under, which `tag` keeps to.
    """
    number = {label: k for k, label in enumerate(model.labels)}
    reader = Reader(path, kind, extraction, labelled=False)
    if reader.kind == "conllu" and extraction.tags is None:
        readers = [
            Reader(path, kind, extraction._replace(tags=tags), labelled=False)
            for tags in ("upos", "xpos")
        ]
        reader = max(readers, key=lambda some: _known(some, number))
    lengths = [len(sentence.rows) for sentence in reader]
    if not lengths:
        raise ValueError("there is no sequence in it")
    chosen = set(sample(lengths, tokens))
    xseqs: list[Sequence[Any]] = []
    tags: list[str | None] = []
    for i, sentence in enumerate(reader):
        if i in chosen:
            xseqs.append(reader.items(sentence))
            tags += sentence.labels or [None] * len(sentence.rows)
    names = set(model.attributes)
    given = known = 0
    for xseq in map(ItemSequence, xseqs):
        for item in xseq.items():
            given += len(item)
            known += len(names & item.keys())
    if not known:
        raise ValueError(
            "the model knows none of its attributes; was it trained on others? --features says how "
            "words become attributes"
        )
    gold = np.array([-1 if tag is None else number.get(tag, -1) for tag in tags])
    chain = model.chain(xseqs)
    if scheme is not None:
        table, start, end = constraints(model.labels, scheme).log_potentials()
        chain = vs.Chain(chain.unary, model.transition + table, chain.lengths, start=start, end=end)
    return Scored(chain, gold if (gold >= 0).any() else None, known / given, len(lengths))


def _known(reader: Reader, labels: Container[str]) -> int:
    """Return how many labels of a file are among some."""
    return sum(label in labels for sentence in reader for label in sentence.labels or ())


def load_arrays(model_path: Path, data_path: Path, tokens: int) -> Scored:
    """Return the chain of two ``.npz`` files, of any model.

    The model's holds ``transition`` (K, K) and may hold ``start`` and ``end`` (K,); the data's
    holds ``unary`` (N, K), and may hold ``lengths`` (B,) and ``gold`` (N,), −1 for a label that the
    model does not have.

    Raises
    ------
    ValueError
        The arrays are no chain. The message names the file, or both.
    """
    parameters: dict[str, Any] = _arrays(model_path, ("transition",), ("start", "end"))
    scores = _arrays(data_path, ("unary",), ("lengths", "gold"))
    try:
        whole = vs.Chain(scores["unary"], lengths=scores.get("lengths"), **parameters)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{model_path.name} and {data_path.name}: {error}") from error
    gold = scores.get("gold")
    if gold is not None and (gold.shape != (whole.n_positions,) or gold.dtype.kind not in "iu"):
        shape = (whole.n_positions,)
        raise ValueError(f"{data_path.name}: gold must be integers of shape {shape}, one per row")
    if gold is not None:
        wrong = np.flatnonzero((gold < -1) | (gold >= whole.n_labels))
        if len(wrong):
            raise ValueError(
                f"{data_path.name}: gold[{wrong[0]}] is {gold[wrong[0]]}, which is no label from 0 "
                f"to {whole.n_labels - 1}; write -1 for one that the model does not have"
            )
    chosen = sample(whole.lengths.tolist(), tokens)
    if whole.n_positions == 0:
        raise ValueError(f"{data_path.name}: there is no sequence in it")
    inside = np.zeros(whole.n_sequences, dtype=bool)
    inside[chosen] = True
    rows = np.repeat(inside, whole.lengths)
    chain = vs.Chain(whole.unary[rows], lengths=whole.lengths[inside], **parameters)
    picked = None if gold is None else gold[rows].astype(np.int64)
    return Scored(chain, picked, 1.0, whole.n_sequences)


def _arrays(
    path: Path, needed: tuple[str, ...], more: tuple[str, ...]
) -> dict[str, npt.NDArray[Any]]:
    """Return arrays of a ``.npz`` file by name."""
    try:
        data = read_file(path)
        if data.startswith(b"\x93NUMPY"):
            raise ValueError("one array, not several by name")
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            missing = [name for name in needed if name not in members]
            if missing:
                names = ", ".join(members) or "none at all"
                raise ValueError(f"no array {missing[0]!r}, only {names}")
            chosen = [name for name in (*needed, *more) if name in members]
            size = sum(members[name].file_size for name in chosen)
            if size > (limit := max(_FREE, _RATIO * len(data))):
                raise ValueError(
                    f"its arrays have {size} bytes, but a file of this size may hold {limit}; save "
                    "it with numpy.savez, not compressed"
                )
            return {name: _array(name, _member(archive, members[name])) for name in chosen}
    except MemoryError:
        raise
    except OSError as error:
        if error.filename is not None:  # there is no such file, or it may not be read
            raise
        raise _unusable(path, error) from None
    except Exception as error:  # zipfile has no list of what a strange archive makes it raise
        raise _unusable(path, error) from None


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """Return what a member holds, of which no more is decompressed than it says."""
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{info.filename} is compressed in a way that numpy does not write")
    with archive.open(info) as member:
        return member.read(info.file_size)


def _unusable(path: Path, error: Exception) -> ValueError:
    problem = " ".join(str(error).split())[:400] or type(error).__name__
    return ValueError(f"{path.name} cannot be used as .npz: {problem}")


def _array(name: str, content: bytes) -> npt.NDArray[Any]:
    """Return the array in a file of NPY format; its header must fit its contents."""
    stream = io.BytesIO(content)
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    elif version == (2, 0):
        shape, fortran, dtype = np.lib.format.read_array_header_2_0(stream)
    else:  # of structures with names beyond ASCII
        raise ValueError(f"array {name!r} holds no numbers")
    if dtype.hasobject:
        raise ValueError(f"array {name!r} holds Python objects, which are not read")
    size = math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or size != len(content) - stream.tell():
        raise ValueError(
            f"array {name!r} has {len(content) - stream.tell()} bytes, but its header says {size}"
        )
    array = np.frombuffer(content, dtype, math.prod(shape), stream.tell())
    return array.reshape(shape, order="F" if fortran else "C")
