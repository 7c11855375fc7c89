"""Model files of parsers.

A file is a magic word, the version, the length of a header in JSON, that header, arrays, and the
SHA-256 of all before it. Version 1 has hashed features: its arrays are the weights of parts, of the
pruner and of labels as float16. Version 2 has features with names: the header says how many keys
each template has, and before the weights are the keys as uint32, which features each has as uint16,
and how often it was met as uint32. A header says "nonprojective" where the model has weights of
non-projective arcs, behind those of pairs. All numbers are little-endian. The sizes of arrays
follow from the header and the keys, and have to add up to the size of the file, before anything is
made of them.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from valuesparse import _parser, _vectors
from valuesparse._validation import as_flag, as_reals
from valuesparse.io._files import naming, read_file, write_bytes
from valuesparse.io._json import parse_json
from valuesparse.io.errors import ModelFormatError
from valuesparse.parsing._dictionary import (
    FEATURES,
    Dictionary,
    as_features,
    featureless,
    not_ascending,
    require_order,
)
from valuesparse.parsing._encoding import IGNORABLE, as_ignored
from valuesparse.parsing._examples import (
    CONSTRAINTS,
    as_bits,
    as_constraint,
    as_order,
    require_nonprojective,
    sets_of,
)
from valuesparse.parsing._sentences import Sentence

__all__ = [
    "ParserModel",
    "bytes_of",
    "checked",
    "model_of",
    "read_model",
    "require_labels",
    "rounded",
    "write_model",
]

_MAGIC = b"vsparser"
_HASHED, _NAMED = 1, 2  # versions
# Numbers of each key in a file: the key, its features, how often it was met.
_ARRAYS = ("<u4", "<u2", "<u4")
_BYTES = sum(np.dtype(x).itemsize for x in _ARRAYS)
_START = struct.Struct("<8sII")
_DIGEST = hashlib.sha256().digest_size
# The largest header, and its largest numbers.
_LARGEST_HEADER, _MOST_LABELS = 1 << 20, 10_000
# The largest weight that is finite as float16.
_LARGEST = float(np.finfo(np.float16).max)
# No cell of a treebank holds these: ends of columns and lines, and halves of characters.
_UNFIT = re.compile("[\t\n\r\ud800-\udfff]")


class ParserModel(NamedTuple):
    """All that a parser is made of."""

    order: int  #: 1: arcs; 2: pairs of arcs, too
    bits: int  #: of the templates of parts
    pruner_bits: int
    label_bits: int
    constraint: str  #: what trees have to be unless said: "tree" or "projective"
    single_root: bool
    ignore: tuple[str, ...]
    labels: tuple[str, ...]
    weights: npt.NDArray[np.float32]  #: of parts; all three as :func:`rounded`
    pruner: npt.NDArray[np.float32] | None
    labeller: npt.NDArray[np.float32]
    features: str = "hashed"  #: "hashed", "supported" or "complete"
    dictionary: Dictionary | None = None  #: of features with names
    nonprojective: bool = False  #: whether arcs have features for being non-projective

    @property
    def sets(self) -> int:
        """The order of the model as the engine takes it."""
        return sets_of(self.order, self.nonprojective)


def checked(model: object) -> ParserModel:
    """Return a model as the engine takes it; arrays of other numbers are converted.

    Raises
    ------
    TypeError
        It is no model, or holds something of another type.
    ValueError
        A field of it is wrong, or has not the size that the others ask for.
    """
    if not isinstance(model, ParserModel):
        raise TypeError(f"model must be a ParserModel, not {type(model).__name__}")
    order, constraint = as_order(model.order), as_constraint(model.constraint)
    bits, pruner_bits, label_bits = (
        as_bits(getattr(model, name), f"model.{name}")
        for name in ("bits", "pruner_bits", "label_bits")
    )
    nonprojective = require_nonprojective(
        as_flag("model.nonprojective", model.nonprojective), order, constraint
    )
    given: object = model.labels
    labels = list(given) if isinstance(given, (tuple, list)) else []
    if not labels or not _names(labels, _MOST_LABELS):
        raise ValueError(
            "model.labels must be a tuple of cells of files, all different, at least one, got "
            f"{model.labels!r:.60}"
        )
    dictionary = model.dictionary
    if (as_features(model.features) == "hashed") != (dictionary is None):
        raise ValueError(
            f"model.features is {model.features!r}, model.dictionary "
            f"{'is None' if dictionary is None else 'is given'}: hashed features have none"
        )
    sets = sets_of(order, nonprojective)
    if dictionary is None:
        size = _parser.weights_of_parts(sets, bits)
    else:
        if not isinstance(dictionary, Dictionary):
            raise TypeError(
                f"model.dictionary must be a Dictionary, not {type(dictionary).__name__}"
            )
        dictionary = dictionary.checked("model.dictionary")
        require_order(dictionary, sets)
        size = dictionary.n_features
    pruner = model.pruner
    if pruner is not None:
        pruner = _weights("pruner", pruner, _parser.weights_of_parts(0, pruner_bits))
    return ParserModel(
        order=order, bits=bits, pruner_bits=pruner_bits, label_bits=label_bits,
        constraint=constraint, single_root=as_flag("model.single_root", model.single_root),
        ignore=as_ignored(model.ignore), labels=tuple(map(str, labels)),
        weights=_weights("weights", model.weights, size), pruner=pruner,
        labeller=_weights(
            "labeller", model.labeller, _parser.weights_of_labels(len(labels), label_bits)
        ),
        features=model.features, dictionary=dictionary, nonprojective=nonprojective,
    )  # fmt: skip


def _weights(name: str, weights: Any, size: int) -> npt.NDArray[np.float32]:
    """Return weights of a model, float32, each of which a file can hold."""
    array = as_reals(f"model.{name}", weights)
    if array.shape != (size,):
        raise ValueError(f"model.{name} must have shape {(size,)}, not {array.shape}")
    with np.errstate(over="ignore"):  # too large for float32
        found = np.ascontiguousarray(array, np.float32)
    if size and not (found.min() >= -_LARGEST and found.max() <= _LARGEST):  # not where one is NaN
        bad = int(np.argmin(np.abs(found) <= _LARGEST))
        raise ValueError(
            f"model.{name}[{bad}] is {array[bad]}; weights of a parser lie within {_LARGEST:g}, "
            "as files hold them"
        )
    return found


def rounded(weights: npt.NDArray[np.float64], threads: int = 1) -> npt.NDArray[np.float32]:
    """Return weights as a file holds them: half the bytes, and three digits are enough."""
    found = np.empty(weights.shape, np.float32)
    _vectors.halves(weights, found, threads)
    return found


def require_labels(sentences: Sequence[Sentence]) -> None:
    """Raise ValueError where a file could not hold the labels of these sentences."""
    names = sorted({label for sentence in sentences for label in sentence.labels})
    for name in names:
        if name and not _UNFIT.search(name):
            continue
        i, words = next((i, s.labels) for i, s in enumerate(sentences) if name in s.labels)
        problem = "it is empty" if not name else "it has a tab, the end of a line or half a letter"
        raise ValueError(
            f"treebank: sentence {i + 1}, label of word {words.index(name) + 1}: {problem}, which "
            "no model file can hold; write _ for what is missing"
        )
    if len(names) > _MOST_LABELS or len(json.dumps(names)) > _LARGEST_HEADER // 2:
        raise ValueError(
            f"treebank has {len(names):,} labels; a parser takes {_MOST_LABELS:,}, of "
            f"{_LARGEST_HEADER // 2:,} letters in all"
        )


def bytes_of(model: ParserModel) -> bytes:
    """Return the contents of a model file."""
    header = model._asdict()
    weights = [header.pop("weights"), header.pop("pruner"), header.pop("labeller")]
    header["pruner"] = weights[1] is not None
    if not header["nonprojective"]:
        del header["nonprojective"]  # as files had none
    dictionary = header.pop("dictionary")
    parts: list[bytes] = []
    if dictionary is None:
        del header["features"]  # hashed, in files of version 1
    else:
        header["keys"] = dictionary.sizes.tolist()
        for array, dtype in zip(dictionary[1:], _ARRAYS, strict=True):
            parts.append(np.ascontiguousarray(array, dtype).tobytes())
    parts += [np.ascontiguousarray(w, "<f2").tobytes() for w in weights if w is not None]
    text = json.dumps(header, ensure_ascii=True, sort_keys=True).encode()
    version = _HASHED if dictionary is None else _NAMED
    body = b"".join([_START.pack(_MAGIC, version, len(text)), text, *parts])
    return body + hashlib.sha256(body).digest()


def write_model(path: str | os.PathLike[str], model: ParserModel) -> None:
    """Write a model file in one piece."""
    write_bytes(path, bytes_of(model))


def read_model(path: str | os.PathLike[str]) -> ParserModel:
    """Read a model file; see :func:`model_of` for errors."""
    with naming(path):
        return model_of(read_file(path))


def model_of(data: bytes) -> ParserModel:
    """Return the model that a file holds.

    Raises
    ------
    ModelFormatError
        It is none, of another version, cut off, or damaged.
    """
    if len(data) < _START.size + _DIGEST or not data.startswith(_MAGIC):
        raise ModelFormatError("header", 0, "this is no model of a parser")
    _, version, size = _START.unpack_from(data)
    if version not in (_HASHED, _NAMED):
        raise ModelFormatError(
            "header", 8, f"version {version}, but only {_HASHED} and {_NAMED} can be read"
        )
    end = len(data) - _DIGEST
    if hashlib.sha256(memoryview(data)[:end]).digest() != data[end:]:
        raise ModelFormatError("checksum", end, "it is wrong: the file is damaged or cut off")
    if size > min(_LARGEST_HEADER, end - _START.size):
        raise ModelFormatError("header", 12, f"{size} bytes, but the file ends before")
    header = _header(data[_START.size : _START.size + size], version)
    at = _START.size + size
    sets = sets_of(header["order"], header.get("nonprojective", False))
    sizes, dictionary = header.pop("keys", None), None
    if sizes is not None:
        dictionary, at = _dictionary(data[:end], at, sets, sizes)
    wanted = [
        _parser.weights_of_parts(sets, header["bits"])
        if dictionary is None
        else dictionary.n_features,
        _parser.weights_of_parts(0, header["pruner_bits"]) if header["pruner"] else 0,
        _parser.weights_of_labels(len(header["labels"]), header["label_bits"]),
    ]
    if at + 2 * sum(wanted) != end:
        raise ModelFormatError("weights", at, f"{sum(wanted)} are wanted, the file has others")
    arrays = []
    for count in wanted:
        array = np.frombuffer(data, "<f2", count, at).astype(np.float32)
        if not np.isfinite(array).all():
            bad = int(np.flatnonzero(~np.isfinite(array))[0])
            raise ModelFormatError("weights", at + 2 * bad, f"{array[bad]} is no weight")
        arrays.append(array)
        at += 2 * count
    has_pruner = header.pop("pruner")
    return ParserModel(
        **header, weights=arrays[0], pruner=arrays[1] if has_pruner else None, labeller=arrays[2],
        dictionary=dictionary,
    )  # fmt: skip


def _dictionary(data: bytes, at: int, sets: int, sizes: list[int]) -> tuple[Dictionary, int]:
    """Return the dictionary whose arrays begin at a place, checked, and where they end."""
    begin, total = at, sum(sizes)
    if total > min(_parser.MOST_KEYS, (len(data) - at) // _BYTES):
        raise ModelFormatError("keys", at, f"{total} are wanted, but the file ends before")
    arrays = []
    for dtype in _ARRAYS:
        array = np.frombuffer(data, dtype, total, at)
        arrays.append(array.astype(array.dtype.newbyteorder("=")))
        at += array.nbytes
    found = Dictionary(np.array(sizes, np.int64), *arrays)
    bad = not_ascending(found)
    if len(bad):
        raise ModelFormatError("keys", begin + 4 * int(bad[0]), "they do not ascend")
    empty = featureless(found)
    if len(empty):
        place = begin + 4 * total + 2 * int(empty[0])
        raise ModelFormatError("keys", place, f"key {int(empty[0])} has no feature")
    try:
        _parser.weights_of_dictionary(sets, found.native)
    except ValueError as error:
        raise ModelFormatError("keys", begin, str(error)) from None
    return found, at


def _header(text: bytes, version: int) -> dict[str, Any]:
    """Return the header with every field checked."""
    try:
        header = parse_json(text)
    except ValueError:
        raise ModelFormatError("header", _START.size, "it is not JSON") from None
    bits = range(_parser.LEAST_BITS, _parser.MOST_BITS + 1)
    checks: dict[str, Callable[[Any], bool]] = {
        "order": lambda x: type(x) is int and x in (1, 2),
        "bits": lambda x: type(x) is int and x in bits,
        "pruner_bits": lambda x: type(x) is int and x in bits,
        "label_bits": lambda x: type(x) is int and x in bits,
        "constraint": lambda x: x in CONSTRAINTS,
        "single_root": lambda x: type(x) is bool,
        "pruner": lambda x: type(x) is bool,
        "ignore": lambda x: _names(x, len(IGNORABLE)) and set(x) <= IGNORABLE.keys(),
        "labels": lambda x: _names(x, _MOST_LABELS) and len(x) > 0,
    }
    if version == _NAMED:
        checks["features"] = lambda x: x in FEATURES and x != "hashed"
        checks["keys"] = lambda x: isinstance(x, list) and all(type(k) is int and k >= 0 for k in x)
    if isinstance(header, dict) and "nonprojective" in header:
        checks["nonprojective"] = lambda x: x is True and _of_any_kind(header)
    if not isinstance(header, dict) or header.keys() != checks.keys():
        raise ModelFormatError("header", _START.size, "it has other fields than those of a parser")
    for name, fits in checks.items():
        if not fits(header[name]):
            raise ModelFormatError("header", _START.size, f"{name!r} is {header[name]!r:.60}")
    sets = sets_of(header["order"], header.get("nonprojective", False))
    if version == _NAMED and len(header["keys"]) != _parser.templates_of_parts(sets):
        raise ModelFormatError("header", _START.size, "'keys' is of other templates")
    return {**header, "ignore": tuple(header["ignore"]), "labels": tuple(header["labels"])}


def _of_any_kind(header: dict[str, Any]) -> bool:
    return bool(header.get("order") == 2 and header.get("constraint") == "tree")


def _names(value: object, most: int) -> bool:
    """Return whether a value is a list of at most so many names, all different cells of files."""
    if not isinstance(value, list) or len(value) > most:
        return False
    if not all(isinstance(x, str) and x and not _UNFIT.search(x) for x in value):
        return False
    return len(set(value)) == len(value)
