"""The bytes of a CRFsuite model file, checked before they are used.

A file is a 48-byte header and five chunks, all little-endian. The header gives the offset of each
chunk; each chunk gives its own size.

============ ===================================================================================
``FEAT``     features: kind (0 state, 1 transition), source, target (uint32), weight (float64);
             a state feature leads from an attribute to a label, a transition from label to label
``CQDB``     the names of the labels: records (id, size, text, NUL), 256 hash tables that find a
             record by its text, and an array that finds a record by its id
``CQDB``     the names of the attributes
``LFRF``     for each label, which features are transitions out of it
``AFRF``     for each attribute, which features are its state features
============ ===================================================================================

Two rules keep memory in proportion to the file: a count is compared with the bytes that would have
to hold that many things before anything is allocated, and no two things may share bytes.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from valuesparse.io.errors import ModelFormatError

__all__ = ["MAX_WEIGHT", "Parts", "parse_model"]

MAX_WEIGHT = 1e100
"""Largest magnitude of a weight: sums of a few must stay finite, and real ones stay below 1e4."""

_HEADER = struct.Struct("<4sI4s4I20x")
_CHUNK_HEADER = 12
_FEATURE = np.dtype(
    [("kind", "<u4"), ("source", "<u4"), ("target", "<u4"), ("weight", "<f8")], align=False
)
_STATE, _TRANSITION = 0, 1

_NAMES_HEADER = struct.Struct("<4s5I")
_BYTE_ORDER = 0x62445371
_TABLES = 256
_NAMES_DATA = _NAMES_HEADER.size + 8 * _TABLES
# A record (id, size, NUL), its place in the array by id and its bucket in a hash table.
_NAME_BYTES = 9 + 4 + 8

_FEATURES = "features (FEAT)"
_LABELS = "labels (CQDB)"
_ATTRIBUTES = "attributes (CQDB)"
_LABEL_REFS = "label references (LFRF)"
_ATTRIBUTE_REFS = "attribute references (AFRF)"

Ints = npt.NDArray[np.int64]


class Parts(NamedTuple):
    """The contents of a file: the arguments of ``CrfsuiteModel``."""

    labels: tuple[str, ...]
    attributes: tuple[str, ...]
    transition: npt.NDArray[np.float64]  # (K, K) [from, to]
    state_weights: Any  # csr_array (A, K)


class _Header(NamedTuple):
    magic: bytes
    size: int
    kind: bytes
    version: int
    n_features: int
    n_labels: int
    n_attributes: int


class _Chunk(NamedTuple):
    """One chunk: the bytes ``begin`` to ``end`` (exclusive) of ``data``."""

    data: bytes
    name: str
    begin: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.begin

    def array(self, dtype: npt.DTypeLike, offset: int, count: int) -> npt.NDArray[Any]:
        """View ``count`` items that begin ``offset`` bytes after the chunk's beginning."""
        return np.frombuffer(self.data, dtype, count, self.begin + offset)

    def error(self, offset: int, problem: str) -> ModelFormatError:
        """Return the error for the field ``offset`` bytes after the chunk's beginning."""
        return ModelFormatError(self.name, self.begin + int(offset), problem)


def parse_model(data: bytes, max_labels: int | None = None) -> Parts:
    """Read a whole model file.

    Parameters
    ----------
    data : bytes
        The contents of the file.
    max_labels : int, optional
        Refuse models with more labels; None allows 1,024, and more where the (K, K) transition
        takes no more than 64 bytes for each byte of the file.

    Returns
    -------
    Parts
        Arrays that share no memory with ``data``.

    Raises
    ------
    ModelFormatError
        The file is not a model that can be read and used.
    """
    header = _read_header(data)
    # The numbers are the bytes of the header at which the chunks' offsets stand.
    features_at = _find_chunk(data, _FEATURES, b"FEAT", 28, _CHUNK_HEADER)
    labels_at = _find_chunk(data, _LABELS, b"CQDB", 32, _NAMES_DATA)
    attributes_at = _find_chunk(data, _ATTRIBUTES, b"CQDB", 36, _NAMES_DATA)
    label_refs_at = _find_chunk(data, _LABEL_REFS, b"LFRF", 40, _CHUNK_HEADER)
    attribute_refs_at = _find_chunk(data, _ATTRIBUTE_REFS, b"AFRF", 44, _CHUNK_HEADER)
    _check_apart([features_at, labels_at, attributes_at, label_refs_at, attribute_refs_at])

    n_labels, n_attributes = header.n_labels, header.n_attributes
    # Names first: they prove the header's counts, with which the features are then checked.
    labels = _read_names(labels_at, n_labels)
    attributes = _read_names(attributes_at, n_attributes)
    features = _read_features(features_at, header)
    # Files reserve two more places, always empty, for labels before the first and after the last.
    out_of, from_label = _read_references(label_refs_at, n_labels, 2, len(features))
    of, from_attribute = _read_references(attribute_refs_at, n_attributes, 0, len(features))
    _check_references(label_refs_at, features, _TRANSITION, out_of, from_label)
    _check_references(attribute_refs_at, features, _STATE, of, from_attribute)
    _check_all_referenced(features_at, features, from_label, from_attribute)

    _check_transition_size(len(data), n_labels, max_labels)
    transition = np.zeros((n_labels, n_labels))
    moves = features[from_label]
    transition[moves["source"], moves["target"]] = moves["weight"]

    states = features[from_attribute]
    index_type = np.int32 if len(features) < 2**31 else np.int64
    ends = np.zeros(n_attributes + 1, index_type)
    np.cumsum(np.bincount(of, minlength=n_attributes), out=ends[1:])
    from scipy.sparse import csr_array  # the import takes longer than all of ours

    state_weights = csr_array(
        (states["weight"], states["target"].astype(index_type), ends),
        shape=(n_attributes, n_labels),
    )
    state_weights.sort_indices()
    return Parts(labels, attributes, transition, state_weights)


def _read_header(data: bytes) -> _Header:
    """Read and check all fields of the header but the offsets of chunks."""
    if len(data) < _HEADER.size:
        raise ModelFormatError(
            "header", 0, f"{len(data)} bytes, fewer than a header's {_HEADER.size}"
        )
    header = _Header._make(_HEADER.unpack_from(data))
    if header.magic != b"lCRF":
        raise ModelFormatError(
            "header", 0, f"begins with {header.magic!r}, not b'lCRF': not a CRFsuite model"
        )
    if header.size != len(data):
        raise ModelFormatError(
            "header", 4, f"says that the file has {header.size} bytes, but it has {len(data)}"
        )
    if header.kind != b"FOMC":
        raise ModelFormatError(
            "header", 8, f"model type {header.kind!r}, but only b'FOMC' (crf1d) can be read"
        )
    if header.version != 100:
        raise ModelFormatError(
            "header", 12, f"version {header.version}, but only version 100 can be read"
        )
    return header


def _find_chunk(data: bytes, name: str, magic: bytes, field: int, least: int) -> _Chunk:
    """Return the chunk whose offset is at byte ``field``; it has ``least`` bytes or more."""
    (begin,) = struct.unpack_from("<I", data, field)
    if begin < _HEADER.size or begin + least > len(data):
        raise ModelFormatError(
            "header",
            field,
            f"{name} cannot begin at {begin} and have {least} bytes or more: "
            f"the header ends at {_HEADER.size} and the file at {len(data)}",
        )
    found, size = struct.unpack_from("<4sI", data, begin)
    if found != magic:
        raise ModelFormatError(name, begin, f"begins with {found!r}, not {magic!r}")
    if size < least or begin + size > len(data):
        raise ModelFormatError(
            name,
            begin + 4,
            f"chunk size {size} is not between {least} and the {len(data) - begin} bytes left",
        )
    return _Chunk(data, name, begin, begin + size)


def _check_apart(chunks: Sequence[_Chunk]) -> None:
    """Check that no two chunks share a byte."""
    order = sorted(chunks, key=lambda chunk: chunk.begin)
    for before, after in pairwise(order):
        if after.begin < before.end:
            raise ModelFormatError(
                after.name, after.begin, f"overlaps {before.name}, which ends at {before.end}"
            )


def _read_features(chunk: _Chunk, header: _Header) -> npt.NDArray[Any]:
    """View the features, with kinds, ids and weights checked."""
    (count,) = struct.unpack_from("<I", chunk.data, chunk.begin + 8)
    if chunk.size != _CHUNK_HEADER + _FEATURE.itemsize * count:
        raise chunk.error(
            8,
            f"{count} features of {_FEATURE.itemsize} bytes do not fill a chunk of "
            f"{chunk.size} bytes",
        )
    # CRFsuite 0.12 leaves the header's count at 0.
    if header.n_features not in (0, count):
        raise ModelFormatError(
            "header", 16, f"says {header.n_features} features, but the chunk FEAT has {count}"
        )
    features = chunk.array(_FEATURE, _CHUNK_HEADER, count)

    def refuse(bad: npt.NDArray[np.bool_], field: str, problem: str) -> None:
        if bad.any():
            i = int(bad.argmax())
            assert _FEATURE.fields is not None
            offset = _CHUNK_HEADER + _FEATURE.itemsize * i + _FEATURE.fields[field][1]
            raise chunk.error(offset, f"feature {i}: {field} {features[field][i]} {problem}")

    kind, source = features["kind"], features["source"]
    refuse(kind > _TRANSITION, "kind", "is neither 0 (state) nor 1 (transition)")
    state = kind == _STATE
    refuse(
        state & (source >= header.n_attributes),
        "source",
        f"is not one of {header.n_attributes} attributes",
    )
    refuse(
        ~state & (source >= header.n_labels), "source", f"is not one of {header.n_labels} labels"
    )
    refuse(
        features["target"] >= header.n_labels, "target", f"is not one of {header.n_labels} labels"
    )
    with np.errstate(invalid="ignore"):
        # Written so that NaN, which compares false, is refused too.
        bad = ~(np.abs(features["weight"]) <= MAX_WEIGHT)
    refuse(bad, "weight", f"is not a number between -{MAX_WEIGHT:g} and {MAX_WEIGHT:g}")
    _check_unique(chunk, features, header.n_labels)
    return features


def _check_unique(chunk: _Chunk, features: npt.NDArray[Any], n_labels: int) -> None:
    """Check that no two features have the same kind, source and target."""
    # Ids are below the number of names, which the file holds, so that the key fits.
    key = features["source"].astype(np.int64)
    key *= n_labels
    key += features["target"]
    key *= 2
    key += features["kind"]
    order = np.argsort(key, kind="stable")
    same = np.flatnonzero(np.diff(key[order]) == 0)
    if same.size:
        first, second = order[same[0]], order[same[0] + 1]
        raise chunk.error(
            _CHUNK_HEADER + _FEATURE.itemsize * int(second),
            f"feature {second} has the kind, source and target of feature {first}",
        )


def _read_names(chunk: _Chunk, count: int) -> tuple[str, ...]:
    """Read the names of a name table in the order of their ids."""
    _, _, _, byte_order, by_id_size, by_id_at = _NAMES_HEADER.unpack_from(chunk.data, chunk.begin)
    if byte_order != _BYTE_ORDER:
        raise chunk.error(
            12,
            f"byte order mark {byte_order:#x} is not {_BYTE_ORDER:#x}: damaged, or written on "
            "a big-endian machine",
        )
    if _NAMES_DATA + _NAME_BYTES * count > chunk.size:
        raise chunk.error(4, f"{chunk.size} bytes cannot hold {count} names")
    if by_id_size < count:
        raise chunk.error(16, f"the array by id has {by_id_size} places for {count} names")
    # An empty table has no array by id, and its offset is 0.
    if count and not _NAMES_DATA <= by_id_at <= chunk.size - 4 * count:
        raise chunk.error(
            20, f"the array by id, {4 * count} bytes at {by_id_at}, is not in the chunk's data"
        )
    starts = chunk.array("<u4", by_id_at if count else 0, count).astype(np.int64)
    stops = _record_ends(chunk, starts, by_id_at)
    tables = chunk.array("<u4", _NAMES_HEADER.size, 2 * _TABLES).reshape(-1, 2).astype(np.int64)
    _check_records_apart(chunk, starts, stops, tables, by_id_at)
    _check_tables(chunk, starts, tables)

    names: list[str] = []
    text = memoryview(chunk.data)
    begins = (starts + (chunk.begin + 8)).tolist()
    ends = (stops + (chunk.begin - 1)).tolist()
    for begin, end in zip(begins, ends, strict=True):
        try:
            name = str(text[begin:end], "utf-8")
        except UnicodeDecodeError as error:
            raise ModelFormatError(
                chunk.name, begin + error.start, f"name {len(names)} is not UTF-8: {error.reason}"
            ) from None
        if "\0" in name:
            raise ModelFormatError(chunk.name, begin, f"name {len(names)} has a NUL inside")
        names.append(name)
    if len(set(names)) != len(names):
        seen: set[str] = set()
        for begin, name in zip(begins, names, strict=True):
            if name in seen:
                raise ModelFormatError(chunk.name, begin, f"the name {name!r} appears twice")
            seen.add(name)
    return tuple(names)


def _record_ends(chunk: _Chunk, starts: Ints, by_id_at: int) -> Ints:
    """Return where each record ends, with ids, sizes and final NULs checked."""

    def refuse(bad: npt.NDArray[np.bool_], shift: int, problem: str) -> None:
        if bad.any():
            i = int(bad.argmax())
            raise chunk.error(int(starts[i]) + shift, f"name {i} {problem}")

    outside = (starts < _NAMES_DATA) | (starts > chunk.size - 9)
    if outside.any():
        i = int(outside.argmax())
        raise chunk.error(by_id_at + 4 * i, f"name {i} is said to begin at {starts[i]}, outside")
    raw = chunk.array(np.uint8, 0, chunk.size)
    # Records follow texts of any length, so their fields are aligned to nothing.
    fields = raw[starts[:, None] + np.arange(8)].view("<u4")
    refuse(fields[:, 0] != np.arange(len(starts)), 0, "has another id in its record")
    stops = starts + fields[:, 1]
    stops += 8
    refuse((fields[:, 1] < 1) | (stops > chunk.size), 4, "is empty or runs past the chunk")
    refuse(raw[stops - 1] != 0, 8, "does not end with a NUL")
    return stops


def _check_records_apart(
    chunk: _Chunk, starts: Ints, stops: Ints, tables: Ints, by_id_at: int
) -> None:
    """Check that records, hash tables and the array by id lie in the chunk and share no byte."""
    used = tables[:, 1] > 0
    wrong = (tables[:, 0] > 0) != used
    ends = tables[:, 0] + 8 * tables[:, 1]
    wrong |= used & ((tables[:, 0] < _NAMES_DATA) | (ends > chunk.size))
    if wrong.any():
        i = int(wrong.argmax())
        raise chunk.error(
            _NAMES_HEADER.size + 8 * i,
            f"hash table {i}, {tables[i, 1]} buckets at {tables[i, 0]}, is not in the chunk's data",
        )
    begins = np.concatenate([starts, tables[used, 0], [by_id_at] if len(starts) else []])
    ends = np.concatenate([stops, ends[used], [by_id_at + 4 * len(starts)] if len(starts) else []])
    order = np.argsort(begins, kind="stable")
    shared = begins[order[1:]] < ends[order[:-1]]
    if shared.any():
        at = begins[order[1:]][shared.argmax()]
        raise chunk.error(int(at), "two of its records, hash tables and the array by id overlap")


def _check_tables(chunk: _Chunk, starts: Ints, tables: Ints) -> None:
    """Check that the hash tables list every record once, each in the table of its hash."""
    used = np.flatnonzero(tables[:, 1])
    buckets = [chunk.array("<u4", tables[i, 0], 2 * tables[i, 1]).reshape(-1, 2) for i in used]
    rows = np.concatenate([np.empty((0, 2), np.uint32), *buckets])
    table = np.repeat(used, tables[used, 1])
    full = rows[:, 1] > 0
    if not np.array_equal(np.sort(rows[full, 1]), np.sort(starts)):
        raise chunk.error(
            _NAMES_HEADER.size, f"the hash tables do not list each of {len(starts)} names once"
        )
    strayed = full & ((rows[:, 0] & (_TABLES - 1)) != table)
    if strayed.any():
        i = int(table[strayed.argmax()])
        raise chunk.error(int(tables[i, 0]), f"hash table {i} holds a hash of another table")


def _read_references(
    chunk: _Chunk, count: int, reserved: int, n_features: int
) -> tuple[Ints, Ints]:
    """Read the lists of features of ``count`` labels or attributes.

    Returns
    -------
    owners : (m,) int64
        The label or attribute of each reference, ascending.
    features : (m,) int64
        The feature that it names.
    """
    if chunk.size % 4:
        raise chunk.error(4, f"chunk size {chunk.size} is not a multiple of 4")
    words = chunk.array("<u4", 0, chunk.size // 4)
    places = int(words[2])
    if places not in (count, count + reserved):
        raise chunk.error(8, f"has {places} lists, but the header makes it {count}")
    if 3 + places > len(words):
        raise chunk.error(8, f"{chunk.size} bytes cannot hold the offsets of {places} lists")
    if words[3 + count : 3 + places].any():
        raise chunk.error(_CHUNK_HEADER + 4 * count, "a reserved list is not empty")

    def refuse(bad: npt.NDArray[np.bool_], problem: str) -> None:
        if bad.any():
            i = int(bad.argmax())
            raise chunk.error(_CHUNK_HEADER + 4 * i, f"list {i} at byte {words[3 + i]} {problem}")

    offsets = words[3 : 3 + count].astype(np.int64)
    offsets -= chunk.begin
    refuse(
        (offsets % 4 != 0) | (offsets < 4 * (3 + places)) | (offsets >= chunk.size),
        "does not begin in the chunk's data",
    )
    heads = offsets // 4
    sizes = words[heads].astype(np.int64)
    tails = heads + 1 + sizes
    refuse(tails > len(words), "runs past the chunk")
    order = np.argsort(heads, kind="stable")
    shared = np.zeros(count, bool)
    shared[order[1:]] = heads[order[1:]] < tails[order[:-1]]
    refuse(shared, "overlaps another list")

    # Disjoint lists inside the chunk: their total is bounded by its size.
    owners = np.repeat(np.arange(count, dtype=np.int64), sizes)
    at = np.arange(len(owners), dtype=np.int64)
    at += np.repeat(heads + 1 - (np.cumsum(sizes) - sizes), sizes)
    features = words[at].astype(np.int64)
    bad = features >= n_features
    if bad.any():
        i = int(bad.argmax())
        raise chunk.error(
            4 * int(at[i]), f"list {owners[i]} names feature {features[i]} of {n_features}"
        )
    return owners, features


def _check_references(
    chunk: _Chunk, features: npt.NDArray[Any], kind: int, owners: Ints, listed: Ints
) -> None:
    """Check that each list names features that say the same of themselves."""
    wrong = (features["kind"][listed] != kind) | (features["source"][listed] != owners)
    if wrong.any():
        i = int(wrong.argmax())
        raise chunk.error(
            _CHUNK_HEADER + 4 * int(owners[i]),
            f"list {owners[i]} names feature {listed[i]}, whose kind or source is another",
        )


def _check_all_referenced(
    chunk: _Chunk, features: npt.NDArray[Any], from_label: Ints, from_attribute: Ints
) -> None:
    """Check that each feature is named once."""
    times = np.bincount(from_label, minlength=len(features))
    times += np.bincount(from_attribute, minlength=len(features))
    if (times != 1).any():
        i = int((times != 1).argmax())
        raise chunk.error(
            _CHUNK_HEADER + _FEATURE.itemsize * i,
            f"feature {i} is named {times[i]} times in the lists of references, not once",
        )


def _check_transition_size(file_size: int, n_labels: int, max_labels: int | None) -> None:
    """Refuse a dense transition that the file's size does not justify."""
    limit = max(1024, math.isqrt(8 * file_size)) if max_labels is None else max_labels
    if n_labels > limit:
        raise ModelFormatError(
            "header",
            20,
            f"{n_labels} labels, more than {limit}, need {8 * n_labels**2} bytes for transitions; "
            f"pass max_labels={n_labels} (on the command line --max-labels {n_labels}) if that is "
            "meant",
        )
