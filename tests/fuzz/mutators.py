"""Damage: to bytes, to words and numbers of texts, to gzip; a format has its own beside it.

An operation takes a random generator, a file and the seeds of its format, and returns another file.
"""

from __future__ import annotations

import gzip
import re
import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import TypeAlias

__all__ = ["BYTES", "TEXT", "Mutate", "Operation", "damaged", "packed", "texts", "words_of"]

Seeds: TypeAlias = Sequence[bytes]
Operation: TypeAlias = Callable[[Random, bytes, Seeds], bytes]
#: Makes the damaged file of a generator, from the seeds.
Mutate: TypeAlias = Callable[[Random, Seeds], bytes]

INTEGERS = (0, 1, 2, 3, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 4, 2**32 - 1, 2**32,
            2**53, 2**63 - 1, 2**63, 2**64 - 1)  # fmt: skip
FLOATS = (0.0, -0.0, 1.0, -1.0, 5e-324, 1e-300, 1e99, -1e100, 1e290, 1.7e308, float("nan"),
          float("inf"), float("-inf"))  # fmt: skip
NUMBERS = (b"0", b"-0", b"1", b"-1", b"2", b"3", b"64", b"0.5", b"-0.5", b"1e3", b"1e-400",
           b"1e400", b"-1e400", b"nan", b"NaN", b"inf", b"-inf", b"Infinity", b"2147483647",
           b"2147483648", b"4294967296", b"9223372036854775807", b"9223372036854775808",
           b"18446744073709551616", b"9" * 40, b"9" * 5000, b"1000", b"4096", b"65536", b"1000000",
           b"8388608", b"16777216", b"1_0", b"0x10", b"+1", b"1.", b".5", b".", b"1e",
           b"00012", b"\xd9\xa1", b"\xc2\xbd")  # fmt: skip
BITS = (b"\n", b"\r\n", b"\r", b"\t", b" ", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\x0b\x0c",
        b"\xed\xa0\x80", b"\xe2\x80\xa8", b"\xc2\x85", b"#", b'"', b"\\", b":", b"|", b",", b"%",
        b"[", b"]", b"{", b"}", b"(", b")", b";", b"\x1f\x8b", b"a" * 300)  # fmt: skip
# A file is made this long at most, and seldom.
_LARGE = 1 << 20
_NUMBER = re.compile(rb"[+-]?\d+\.?\d*(?:[eE][+-]?\d+)?")
_WORD = re.compile(rb"\S+")


def flip(r: Random, data: bytes, _: Seeds) -> bytes:
    """Change bits or bytes, up to eight."""
    changed = bytearray(data)
    for _i in range(r.randint(1, 8) if data else 0):
        at = r.randrange(len(changed))
        changed[at] = r.randrange(256) if r.random() < 0.5 else changed[at] ^ (1 << r.randrange(8))
    return bytes(changed)


def cut(r: Random, data: bytes, _: Seeds) -> bytes:
    """Leave out the end."""
    return data[: r.randint(0, len(data))]


def remove(r: Random, data: bytes, _: Seeds) -> bytes:
    """Leave out a part."""
    at = r.randint(0, len(data))
    return data[:at] + data[at + _length(r) :]


def duplicate(r: Random, data: bytes, _: Seeds) -> bytes:
    """Repeat a part; seldom so often that the file becomes large."""
    at = r.randint(0, len(data))
    part = data[at : at + _length(r)]
    times = 1 + r.randrange(4)
    if part and r.random() < 0.001:
        times = max(1, _LARGE // len(part))
    return data[:at] + part * times + data[at:]


def splice(r: Random, data: bytes, seeds: Seeds) -> bytes:
    """Put a part of a seed somewhere, over what was there or between."""
    donor = r.choice(seeds)
    begin, at = r.randint(0, len(donor)), r.randint(0, len(data))
    part = donor[begin : begin + _length(r)]
    over = r.choice((0, len(part), _length(r)))
    return data[:at] + part + data[at + over :]


def halves(r: Random, data: bytes, seeds: Seeds) -> bytes:
    """Take the beginning of one and the end of another."""
    other = r.choice(seeds)
    return data[: r.randint(0, len(data))] + other[r.randint(0, len(other)) :]


def field(r: Random, data: bytes, _: Seeds) -> bytes:
    """Write an extreme number over 2, 4 or 8 bytes, little-endian, more often where 4 divides."""
    if len(data) < 8:
        return data
    changed = bytearray(data)
    at = r.randrange(len(data) - 7)
    at -= at % 4 if r.random() < 0.7 else 0
    size, code = r.choice(((2, "<H"), (4, "<I"), (4, "<I"), (8, "<Q"), (8, "<d")))
    if code == "<d":
        struct.pack_into(code, changed, at, r.choice(FLOATS))
        return bytes(changed)
    (old,) = struct.unpack_from(code, changed, at)
    new = r.choice((r.choice(INTEGERS), old + r.randint(-20, 20), len(data) + r.randint(-8, 8)))
    struct.pack_into(code, changed, at, new % (1 << 8 * size))
    return bytes(changed)


def number(r: Random, data: bytes, _: Seeds) -> bytes:
    """Put an extreme in the place of a number, or one that is near to it."""
    found = list(_NUMBER.finditer(data))
    if not found:
        return data
    match = r.choice(found)
    new = r.choice(NUMBERS)
    if r.random() < 0.3 and match[0].isdigit() and len(match[0]) < 18:
        new = str(int(match[0]) + r.choice((-2, -1, 1, 2))).encode()
    return data[: match.start()] + new + data[match.end() :]


def word(r: Random, data: bytes, seeds: Seeds) -> bytes:
    """Leave out a word, repeat it, or put another word of a seed in its place."""
    found = list(_WORD.finditer(data))
    if not found:
        return data
    match = r.choice(found)
    kind = r.randrange(3)
    if kind == 0:
        new = b""
    elif kind == 1:
        new = match[0] + r.choice((b" ", b"\t", b"\n", b"")) + match[0]
    else:
        new = r.choice(_WORD.findall(r.choice(seeds)) or [b""])
    return data[: match.start()] + new + data[match.end() :]


def line(r: Random, data: bytes, seeds: Seeds) -> bytes:
    """Leave out a line, repeat it, swap it with another, or put in one of a seed."""
    lines = data.split(b"\n")
    at, kind = r.randrange(len(lines)), r.randrange(4)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(at, lines[at])
    elif kind == 2:
        other = r.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    else:
        lines.insert(at, r.choice(r.choice(seeds).split(b"\n")))
    return b"\n".join(lines)


def words_of(*more: bytes) -> Operation:
    """Return an operation that puts a bit of the kind that upsets readers, or of `more`, in."""
    known = (*more, *more, *NUMBERS, *BITS)

    def bit(r: Random, data: bytes, _: Seeds) -> bytes:
        at = r.randint(0, len(data))
        over = r.choice((0, 0, 1, 4))
        return data[:at] + r.choice(known) + data[at + over :]

    return bit


def _length(r: Random) -> int:
    """Return a length, short more often than long."""
    return 1 + int(64 ** r.random() * r.choice((1, 1, 8)))


BYTES: tuple[Operation, ...] = (flip, flip, cut, remove, duplicate, splice, halves, field, field)
TEXT: tuple[Operation, ...] = (number, number, number, word, word, line, flip, cut, remove,
                               duplicate, splice, halves)  # fmt: skip


def damaged(operations: Sequence[Operation]) -> Mutate:
    """Return what applies one operation to a seed, or several."""

    def mutate(r: Random, seeds: Seeds) -> bytes:
        data = r.choice(seeds)
        for _ in range(r.choice((1, 1, 1, 2, 2, 3, 5))):
            data = r.choice(operations)(r, data, seeds)
        return data

    return mutate


def texts(*more: bytes) -> Mutate:
    """Return what damages texts of a format in which the words `more` mean something."""
    return damaged((*TEXT, words_of(*more), words_of(*more)))


def endless(r: Random, text: bytes) -> bytes:
    """Repeat a piece of a text up to what a few bytes of gzip data may hold, or beyond."""
    begin = r.randrange(len(text) + 1)
    piece = text[begin : begin + r.choice((1, 2, 4, 8, 30, 300))] or b"1 "
    size = r.choice((1 << 18, (1 << 20) - 1 - len(text), 1 << 21, 9 << 20))
    return text[:begin] + piece * (size // len(piece)) + text[begin:]


def packed(mutate: Mutate) -> Mutate:
    """Return what damages gzip files, or what is in them."""
    outside = damaged(BYTES)

    def mutate_packed(r: Random, seeds: Seeds) -> bytes:
        if r.random() < 0.004:
            return gzip.compress(endless(r, mutate(r, seeds)), 6, mtime=0)
        if r.random() < 0.6:
            data = gzip.compress(mutate(r, seeds), 1, mtime=0)
        else:
            data = outside(r, [gzip.compress(seed, 6, mtime=0) for seed in seeds])
        if r.random() < 0.05:  # several members, or rubbish after the last
            data += r.choice(
                (data, gzip.compress(r.choice(seeds), 1, mtime=0), b"\0" * 9, b"rubbish")
            )
        return data if data[:2] == b"\x1f\x8b" else b"\x1f\x8b" + data[2:]

    return mutate_packed
