"""A user's own model and data, as a chain to measure."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import valuesparse as vs
from valuesparse.cli._features import cantonese_attributes
from valuesparse.crf.corpora._features import find_function
from valuesparse.io._corpora import read_attribute_file, read_conllu
from valuesparse.io.crfsuite import CrfsuiteModel

__all__ = ["FORMATS", "Scored", "find_function", "format_of", "load_arrays", "load_text"]

FORMATS = ("attributes", "conllu", "npz")


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


def format_of(path: Path) -> str:
    """Return the format that a file's name tells.

    Examples
    --------
    >>> format_of(Path("en.conllu.gz")), format_of(Path("scores.npz")), format_of(Path("x.txt"))
    ('conllu', 'npz', 'attributes')
    """
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    return {".conllu": "conllu", ".npz": "npz"}.get(suffixes[-1] if suffixes else "", "attributes")


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
    data_path: Path,
    kind: str,
    features: Callable[[Sequence[str]], Sequence[Any]] | None,
    column: str | None,
    tokens: int,
) -> Scored:
    """Score an attribute file or a CoNLL-U file with a CRFsuite model.

    Parameters
    ----------
    model : CrfsuiteModel
        The model.
    data_path : Path
        The text.
    kind : {"attributes", "conllu"}
        Format of the data.
    features : callable or None
        Words of a sentence to attributes of each; None: the built-in extractor.
    column : {"upos", "xpos"} or None
        Which tags of CoNLL-U are the labels; None: those of which the model knows more.
    tokens : int
        About how many to take.
    """
    number = {label: k for k, label in enumerate(model.labels)}
    xseqs: list[Sequence[Any]] = []
    if kind == "attributes":
        sequences = list(read_attribute_file(data_path))
        chosen = sample([len(s.labels) for s in sequences], tokens)
        xseqs += [sequences[i].items for i in chosen]
        tags = [tag for i in chosen for tag in sequences[i].labels]
        total = len(sequences)
    else:
        sentences = list(read_conllu(data_path))
        chosen = sample([len(s.words) for s in sentences], tokens)
        extract = cantonese_attributes if features is None else features
        xseqs += [extract(sentences[i].words) for i in chosen]
        columns = {
            name: [tag for i in chosen for tag in getattr(sentences[i], name)]
            for name in ("upos", "xpos")
        }
        if column is None:
            column = max(columns, key=lambda name: sum(tag in number for tag in columns[name]))
        tags = columns[column]
        total = len(sentences)
    if not tags:
        raise ValueError("there is no sequence in it")
    names = set(model.attributes)
    given = sum(len(item) for xseq in xseqs for item in xseq)
    known = sum(name in names for xseq in xseqs for item in xseq for name in item)
    gold = np.array([number.get(tag, -1) for tag in tags])
    share = known / given if given else 0.0
    return Scored(model.chain(xseqs), gold if (gold >= 0).any() else None, share, total)


def load_arrays(model_path: Path, data_path: Path, tokens: int) -> Scored:
    """Return the chain of two ``.npz`` files, of any model.

    The model's holds ``transition`` (K, K) and may hold ``start`` and ``end`` (K,); the data's
    holds ``unary`` (N, K), and may hold ``lengths`` (B,) and ``gold`` (N,).
    """
    parameters = _arrays(model_path, ("transition",), ("start", "end"))
    scores = _arrays(data_path, ("unary",), ("lengths", "gold"))
    whole = vs.Chain(scores["unary"], lengths=scores.get("lengths"), **parameters)
    gold = scores.get("gold")
    if gold is not None and (gold.shape != (whole.n_positions,) or gold.dtype.kind not in "iu"):
        raise ValueError(f"gold must be integers of shape {(whole.n_positions,)}, one per row")
    chosen = sample(whole.lengths.tolist(), tokens)
    if whole.n_positions == 0:
        raise ValueError("there is no sequence in it")
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
        with open(path, "rb") as stream:  # np.load leaves a damaged one open
            file = np.load(stream, allow_pickle=False)
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise ValueError("one array, not several by name")
            missing = [name for name in needed if name not in file]
            if missing:
                names = ", ".join(file) or "none at all"
                raise ValueError(f"no array {missing[0]!r}, only {names}")
            return {name: file[name] for name in (*needed, *more) if name in file}
    except (zipfile.BadZipFile, EOFError, ValueError) as error:
        raise ValueError(f"{path.name} cannot be used as .npz: {error}") from error
