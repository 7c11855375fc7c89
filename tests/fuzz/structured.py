"""Damage behind the first checks: values inside JSON, and arrays inside npz with the right CRC."""

from __future__ import annotations

import io
import json
import warnings
import zipfile
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np

from fuzz.mutators import BYTES, FLOATS, INTEGERS, Mutate, Seeds, damaged, texts

__all__ = ["Arrays", "arrays_of", "jsons", "npz_of", "npzs"]

Arrays = dict[str, Any]

DEEP = 3000
#: Texts that mean something, or must not.
TEXTS = ("", "a", "0", "-1", "nan", "\ud800", "\x00", "\u2028", "../m", "/etc/passwd", "a" * 5000,
         "9" * 400, "é" * 40, "\n", "words", "attributes")  # fmt: skip


def value(r: Random, words: tuple[str, ...]) -> Any:
    """Return a JSON value, most often one that does not fit."""
    kind = r.randrange(8)
    if kind < 3:
        return r.choice((*words, *words, *TEXTS) if kind else TEXTS)
    if kind == 3:
        return r.choice((*INTEGERS, -1, 10**400))
    if kind == 4:
        return r.choice(FLOATS)
    return r.choice((None, True, False, [], {}, [[]], {"": {}}, [None], ["a"], {"a": 1}))


def places(found: Any) -> list[tuple[Any, Any]]:
    """Return all containers and keys of a JSON value."""
    listed: list[tuple[Any, Any]] = []
    pairs = found.items() if isinstance(found, dict) else enumerate(found)
    for key, inner in pairs:
        listed.append((found, key))
        if isinstance(inner, (dict, list)):
            listed += places(inner)
    return listed


def change(r: Random, found: Any, words: tuple[str, ...]) -> Any:
    """Change one place of a JSON value."""
    known = places(found) if isinstance(found, (dict, list)) else []
    if not known or r.random() < 0.05:
        return value(r, words)
    at, key = r.choice(known)
    kind = r.randrange(6)
    if kind < 3:
        at[key] = value(r, words)
    elif kind == 3:
        del at[key]
    elif kind == 4 and isinstance(at, dict):
        at[str(value(r, words))] = at.pop(key)
    else:
        other, name = r.choice(known)
        at[key] = json.loads(json.dumps(other.get(name) if isinstance(other, dict) else at[key]))
    return found


def jsons(*words: str, pairs: Sequence[tuple[str, Any]] = ()) -> Mutate:
    """Return what damages JSON: its values, or its text; or sets keys to values that mean much."""
    outside = texts(b"null", b"{}", b"[]", b"1e400", b"NaN", b"-Infinity", b'"', b"\\ud800",
                    b"[" * DEEP, b'{"a":' * DEEP, b'{"a":1,"a":2}')  # fmt: skip

    def mutate(r: Random, seeds: Seeds) -> bytes:
        if r.random() < 0.35:
            return outside(r, seeds)
        if r.random() < 0.02:
            one = r.choice((("[", "]"), ('{"a":', "}")))
            deep = r.choice((100, DEEP, 200_000))
            return (one[0] * deep + "1" + one[1] * deep).encode()
        found = json.loads(r.choice(seeds))
        if pairs and r.random() < 0.3:
            key, new = r.choice(pairs)
            return json.dumps({**found, key: new}).encode()
        for _ in range(r.choice((1, 1, 2, 3))):
            found = change(r, found, words)
        return json.dumps(found, ensure_ascii=r.random() < 0.5).encode("utf-8", "surrogatepass")

    return mutate


def arrays_of(data: bytes) -> Arrays:
    """Return the arrays of an npz file."""
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def npz_of(arrays: Arrays) -> bytes:
    """Return an npz file."""
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def entries(r: Random, array: np.ndarray) -> np.ndarray:
    """Change some entries of an array."""
    changed = np.array(array)
    if changed.dtype.kind not in "iufb" or not changed.size:
        return changed
    flat = changed.reshape(-1)
    for _ in range(r.randint(1, 3)):
        at = r.randrange(flat.size)
        if changed.dtype.kind == "f":
            flat[at] = r.choice((*FLOATS, -float(flat[at])))
        elif changed.dtype.kind == "b":
            flat[at] = not flat[at]
        else:
            near = int(flat[at]) + r.randint(-3, 3)
            whole = r.choice((near, *INTEGERS, -1)) % (1 << 8 * changed.itemsize)
            flat[at] = np.array(whole, f"u{changed.itemsize}").astype(changed.dtype)
    return changed


def shape(r: Random, array: np.ndarray) -> np.ndarray:
    """Change the shape of an array."""
    flat = np.ravel(array)
    kind = r.randrange(8)
    if kind == 0:
        return flat[: r.randint(0, flat.size)]
    if kind == 1:
        return np.concatenate([flat, flat[: r.randint(0, 9)]])
    if kind == 2:
        return array[None]
    if kind == 3:
        return flat[:1].reshape(()) if flat.size else flat.reshape((0, 3))
    if kind == 4:
        return flat[:0]
    if kind == 5:
        return np.tile(flat, r.choice((2, 1000)))
    return np.asarray(array).T if array.ndim > 1 else flat[::-1]


KINDS = ("<f4", ">f8", "<f2", "<c16", "<i8", "<i4", "u1", "?", "<U3", "S5", "<M8[s]", "<f8", "V8")


def kind(r: Random, array: np.ndarray) -> np.ndarray:
    """Change what an array holds, keeping numbers or bytes."""
    new = np.dtype(r.choice(KINDS))
    flat = np.ascontiguousarray(array)
    if r.random() < 0.5 or new.kind in "VM":
        raw = flat.tobytes()
        return np.frombuffer(raw[: len(raw) // new.itemsize * new.itemsize], new)
    try:
        return flat.astype(new)
    except (TypeError, ValueError, RuntimeError):
        return flat


def header(r: Random, array: np.ndarray) -> bytes:
    """Return an .npy file with a damaged header."""
    file = io.BytesIO()
    np.save(file, array)
    data = file.getvalue()
    words = (b"fortran_order", b"True", b"(99999999999,)", b"(9999999,)", b"'|O'", b"(-1,)", b"{",
             b"(", b"'shape'")  # fmt: skip
    inside = texts(*words)(r, [data[:128]])
    return inside + data[128:]


def npzs(seal: Callable[[Random, bytes, bytes], bytes], *, text: Mutate | None = None) -> Mutate:
    """Return what damages npz files.

    Parameters
    ----------
    seal : callable
        Makes of an archive, and of the seed that it was, what has the right checksums: damage then
        gets behind them.
    text : callable, optional
        Damages arrays that hold a text.
    """
    outside, words = damaged(BYTES), texts()

    def mutate(r: Random, seeds: Seeds) -> bytes:
        seed = r.choice(seeds)
        kind = r.random()
        if kind < 0.15:
            return outside(r, seeds)
        if kind < 0.2:
            return seal(r, outside(r, seeds), seed)
        arrays = arrays_of(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of numbers that do not fit
            for _ in range(r.choice((1, 1, 2))):
                one(r, arrays, seeds)
        data = npz_of(arrays) if kind < 0.9 else members(r, arrays)
        return seal(r, data, seed) if r.random() < 0.8 else data

    def one(r: Random, arrays: Arrays, seeds: Seeds) -> None:
        if not arrays:
            return
        name = r.choice(sorted(arrays))
        array = arrays[name]
        what = r.randrange(10)
        if what == 0:
            del arrays[name]
        elif what == 1:
            arrays[r.choice((name + "_", "x", "weights", "rule_", "", "a/b", "é"))] = array
        elif what == 2:
            other = r.choice(sorted(arrays))
            arrays[name], arrays[other] = arrays[other], array
        elif what == 3:
            donor = arrays_of(r.choice(seeds))
            theirs = r.choice(sorted(donor))
            arrays[theirs] = donor[theirs]
        elif array.dtype.kind == "U" and text is not None:
            inside = (text if str(array)[:1] == "{" else words)(r, [str(array).encode()])
            arrays[name] = np.array(inside.decode("utf-8", "replace"))
        elif what == 4:
            arrays[name] = shape(r, array)
        elif what == 5:
            arrays[name] = kind(r, array)
        else:
            arrays[name] = entries(r, array)

    def members(r: Random, arrays: Arrays) -> bytes:
        """Write the file by hand: damaged headers, compression, a member twice, odd names."""
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", r.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as z:
            which = r.choice([*arrays, ""])
            for name, array in arrays.items():
                whole = io.BytesIO()
                np.save(whole, array)
                data = header(r, array) if name == which else whole.getvalue()
                if name == which and r.random() < 0.2:
                    data = r.choice(
                        (b"", data[:100], b"\x93NUMPY", data[:6] + b"\x09\x00" + data[8:])
                    )
                z.writestr(f"{name}.npy" if r.random() < 0.95 or not name else name, data)
        return file.getvalue()

    return mutate
