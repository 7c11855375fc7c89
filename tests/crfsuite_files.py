"""CRFsuite model files for the tests, laid out by hand."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

__all__ = ["small_file", "write_model"]

Weights = Mapping[tuple[int, int], float]


def _name_table(names: Sequence[bytes]) -> bytes:
    """Lay out a name table; the hashes are made up, since only their lowest byte is checked."""
    records, starts = b"", []
    for i, name in enumerate(names):
        starts.append(2072 + len(records))
        records += struct.pack("<2I", i, len(name) + 1) + name + b"\0"
    tables, references = b"", b""
    for table in range(256):
        members = [start for i, start in enumerate(starts) if i * 37 % 256 == table]
        at = 2072 + len(records) + len(tables) if members else 0
        references += struct.pack("<2I", at, 2 * len(members))
        for start in members:
            tables += struct.pack("<4I", 0x500 + table, start, 0, 0)
    by_id = struct.pack(f"<{len(names)}I", *starts)
    by_id_at = 2072 + len(records) + len(tables) if names else 0
    size = 2072 + len(records) + len(tables) + len(by_id)
    header = struct.pack("<4s5I", b"CQDB", size, 0, 0x62445371, len(names), by_id_at)
    return header + references + records + tables + by_id


def _references(magic: bytes, begin: int, lists: Sequence[Sequence[int]], reserved: int) -> bytes:
    """Lay out lists of features; ``begin`` is where the chunk will begin in the file."""
    offsets, body = [], b""
    for features in lists:
        offsets.append(begin + 12 + 4 * (len(lists) + reserved) + len(body))
        body += struct.pack(f"<{len(features) + 1}I", len(features), *features)
    offsets += [0] * reserved
    size = 12 + 4 * len(offsets) + len(body)
    return struct.pack(f"<4s{2 + len(offsets)}I", magic, size, len(offsets), *offsets) + body


def write_model(
    labels: Sequence[str | bytes],
    attributes: Sequence[str | bytes],
    states: Weights,
    transitions: Weights,
    *,
    reserved: int = 2,
    pad: int = 4,
) -> bytes:
    """Return a model file; ``states`` is by (attribute, label), ``transitions`` by (from, to)."""
    names = [
        _name_table([n if isinstance(n, bytes) else n.encode() for n in table])
        for table in (labels, attributes)
    ]
    features = [(0, *key, weight) for key, weight in states.items()]
    features += [(1, *key, weight) for key, weight in transitions.items()]
    body = struct.pack("<4s2I", b"FEAT", 12 + 20 * len(features), len(features))
    body += b"".join(struct.pack("<3Id", *feature) for feature in features)
    offsets = [48, 48 + len(body), 48 + len(body) + len(names[0])]
    body += names[0] + names[1]
    for magic, kind, count, more in (
        (b"LFRF", 1, len(labels), reserved),
        (b"AFRF", 0, len(attributes), 0),
    ):
        body += bytes(-len(body) % pad)
        offsets.append(48 + len(body))
        lists: list[list[int]] = [[] for _ in range(count)]
        for i, feature in enumerate(features):
            if feature[0] == kind:
                lists[feature[1]].append(i)
        body += _references(magic, offsets[-1], lists, more)
    counts = [0, len(labels), len(attributes)]
    header = struct.pack("<4sI4s9I", b"lCRF", 48 + len(body), b"FOMC", 100, *counts, *offsets)
    return header + body


def small_file() -> bytes:
    """Return a model file of three labels and five attributes."""
    return write_model(
        ["A", "é", "ラベル"],
        ["x", "y", "ü=1", "", "a long name, longer than the others"],
        {(0, 0): 1.5, (0, 2): -2.25, (1, 1): 0.125, (2, 2): 3.0, (3, 0): 1.0, (4, 1): -0.5},
        {(0, 0): 0.5, (0, 1): -1.0, (2, 1): 1e-3, (1, 2): 7.0},
    )
