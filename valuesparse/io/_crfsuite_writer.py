"""Write a CRFsuite model file: the bytes that `valuesparse.io._crfsuite_format` reads."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from valuesparse._io import name_table

__all__ = ["format_model"]

_HEADER = struct.Struct("<4sI4s9I")
_FEATURE = np.dtype([("kind", "<u4"), ("source", "<u4"), ("target", "<u4"), ("weight", "<f8")])
_LARGEST = 2**32 - 1

Ints = npt.NDArray[np.int64]


def format_model(
    labels: Sequence[str],
    attributes: Sequence[str],
    states: tuple[Ints, Ints, npt.NDArray[np.float64]],
    transitions: tuple[Ints, Ints, npt.NDArray[np.float64]],
) -> bytes:
    """Return the file of a model, laid out as CRFsuite 0.12 lays it out.

    Features of weight 0 are left out, and so are attributes without other features; attributes are
    numbered anew, in the order of their first feature.

    Parameters
    ----------
    labels, attributes : sequence of str
        Names in the order of their ids.
    states : tuple of arrays
        Attribute, label and weight of each state feature.
    transitions : tuple of arrays
        Label from, label to and weight of each transition.

    Returns
    -------
    bytes
        The content of a file that `valuesparse.io.read_crfsuite` and python-crfsuite open.

    Raises
    ------
    ValueError
        The file would be larger than 4 GiB, which the format cannot express.
    """
    kept: list[npt.NDArray[np.void]] = []
    used: list[int] = []
    for kind, (source, target, weight) in enumerate((states, transitions)):
        alive = np.flatnonzero(weight)
        part = np.empty(alive.size, _FEATURE)
        source = np.asarray(source)[alive]
        if kind == 0:
            distinct, place, inverse = np.unique(source, return_index=True, return_inverse=True)
            order = np.argsort(place, kind="stable")
            rank = np.empty(order.size, np.int64)
            rank[order] = np.arange(order.size)
            source = rank[inverse]
            used = distinct[order].tolist()
        part["kind"], part["source"] = kind, source
        part["target"], part["weight"] = np.asarray(target)[alive], np.asarray(weight)[alive]
        kept.append(part)
    features = np.concatenate(kept)
    n_states = kept[0].size
    chunks = [
        struct.pack("<4sII", b"FEAT", 12 + features.nbytes, features.size) + features.tobytes(),
        _names(labels),
        _names([attributes[a] for a in used]),
    ]
    at = _HEADER.size + sum(map(len, chunks))
    # The chunk after the names is aligned: theirs is padded, outside the size that it states.
    chunks[-1] += bytes(-at % 4)
    at += -at % 4
    transition_of = features["source"][n_states:].astype(np.int64)
    chunks.append(_references(b"LFRF", transition_of, n_states, len(labels), 2, at))
    at += len(chunks[-1])
    attribute_of = features["source"][:n_states].astype(np.int64)
    chunks.append(_references(b"AFRF", attribute_of, 0, len(used), 0, at))
    offsets = np.cumsum([_HEADER.size, *map(len, chunks)]).tolist()
    size = offsets.pop()
    if size > _LARGEST:
        raise ValueError(
            f"the model file would have {size} bytes, but CRFsuite's format ends at {_LARGEST}; "
            "train with fewer features (feature.minfreq, c1)"
        )
    header = _HEADER.pack(b"lCRF", size, b"FOMC", 100, 0, len(labels), len(used), *offsets)
    return b"".join([header, *chunks])


def _names(names: Sequence[str]) -> bytes:
    """Return a name table."""
    texts = [name.encode() + b"\0" for name in names]
    begin = np.zeros(len(texts) + 1, np.int64)
    np.cumsum([len(text) for text in texts], out=begin[1:])
    return name_table(b"".join(texts), begin.tobytes())


def _references(magic: bytes, owner: Ints, first: int, count: int, reserved: int, at: int) -> bytes:
    """Return the lists of features of each of `count` owners; features count from `first`."""
    order = np.argsort(owner, kind="stable")
    sizes = np.bincount(owner, minlength=count)
    heads = np.arange(count) + np.cumsum(sizes) - sizes  # where a list's size stands
    words = np.zeros(count + owner.size, "<u4")
    words[heads] = sizes
    body = np.ones(words.size, bool)
    body[heads] = False
    words[body] = first + order
    begin = 12 + 4 * (count + reserved)
    offsets = np.zeros(count + reserved, "<u4")
    # A file that would be too large is refused by the caller, who knows its size.
    offsets[:count] = (at + begin + 4 * heads) & _LARGEST
    size = begin + words.nbytes
    head = struct.pack("<4sII", magic, size & _LARGEST, count + reserved)
    return head + offsets.tobytes() + words.tobytes()
