"""Damaged model files: a clear error or a model that works, never anything else."""

from __future__ import annotations

import importlib.util
import struct
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from valuesparse.io import CrfsuiteModel, ModelFormatError, read_crfsuite

MUTATIONS = 10_000
EXTREMES = (0, 1, 2, 3, 0x7F, 0xFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFC, 0xFFFFFFFF)
WEIGHTS = (np.nan, np.inf, -np.inf, 1e300, -1e100, 1e99, 5e-324, -0.0)


def fields_of(data: bytes) -> list[list[int]]:
    """Return where the integers of a valid file stand that say how to read it, by their kinds."""
    begins = struct.unpack_from("<5I", data, 28)
    header = list(range(4, 48, 4))
    chunks = [begin + at for begin in begins for at in (4, 8)]
    (count,) = struct.unpack_from("<I", data, begins[0] + 8)
    features = [begins[0] + 12 + 20 * i + at for i in range(count) for at in (0, 4, 8)]
    tables: list[int] = []
    names: list[int] = []
    for begin in begins[1:3]:
        size, _, _, _, by_id = struct.unpack_from("<5I", data, begin + 4)
        chunks += [begin + 12, begin + 16, begin + 20]
        tables += range(begin + 24, begin + 2072, 4)
        for at in range(begin + by_id, begin + size, 4) if by_id else ():
            record = begin + struct.unpack_from("<I", data, at)[0]
            names += [at, record, record + 4]
        for table in range(begin + 24, begin + 2072, 8):
            at, buckets = struct.unpack_from("<2I", data, table)
            tables += range(begin + at, begin + at + 8 * buckets, 4) if at else ()
    references: list[int] = []
    for begin in begins[3:]:
        (size,) = struct.unpack_from("<I", data, begin + 4)
        references += range(begin + 12, begin + size, 4)
    return [group for group in (header, chunks, features, tables, names, references) if group]


class Mutator:
    """Damages files at random, most often where it hurts."""

    def __init__(self, seeds: list[bytes], rng: np.random.Generator) -> None:
        self.seeds, self.rng = seeds, rng
        self.fields = [fields_of(data) for data in seeds]

    def pick(self, below: int) -> int:
        return int(self.rng.integers(below))

    def __call__(self) -> bytes:
        which = self.pick(len(self.seeds))
        data = bytearray(self.seeds[which])
        for _ in range(1 + self.pick(3) * self.pick(2)):
            kind = self.pick(10)
            if kind < 4:
                self.number(data, self.fields[which])
            elif kind < 5:
                self.weight(data)
            elif kind < 7:
                self.flip(data)
            elif kind < 8:
                del data[self.pick(len(data) + 1) :]
            else:
                self.splice(data)
        # Half of the files that changed their size say so, so that reading goes on.
        if len(data) >= 8 and self.pick(2):
            struct.pack_into("<I", data, 4, len(data))
        return bytes(data)

    def number(self, data: bytearray, groups: list[list[int]]) -> None:
        fields = groups[self.pick(len(groups))]
        at = fields[self.pick(len(fields))]
        if at + 4 > len(data):
            return
        (old,) = struct.unpack_from("<I", data, at)
        kind = self.pick(4)
        if kind == 0:
            new = EXTREMES[self.pick(len(EXTREMES))]
        elif kind == 1:
            new = old + (-20, -12, -8, -4, -1, 1, 4, 8, 12, 20)[self.pick(10)]
        elif kind == 2:
            new = len(data) + self.pick(5) - 2
        else:
            other = min(fields[self.pick(len(fields))], len(data) - 4)
            (new,) = struct.unpack_from("<I", data, other)
        struct.pack_into("<I", data, at, new & 0xFFFFFFFF)

    def weight(self, data: bytearray) -> None:
        at = 48 + 12 + 12 + 20 * self.pick(8)
        if at + 8 <= len(data):
            struct.pack_into("<d", data, at, WEIGHTS[self.pick(len(WEIGHTS))])

    def flip(self, data: bytearray) -> None:
        for _ in range(1 + self.pick(8) if data else 0):
            at = self.pick(len(data))
            data[at] = self.pick(256) if self.pick(2) else data[at] ^ (1 << self.pick(8))

    def splice(self, data: bytearray) -> None:
        donor = data if self.pick(2) else self.seeds[self.pick(len(self.seeds))]
        begin, at = self.pick(len(donor) + 1), self.pick(len(data) + 1)
        part = bytes(donor[begin : begin + 1 + self.pick(64)])
        over = len(part) if self.pick(2) else self.pick(64)
        data[at : at + over] = part


def assert_usable(model: CrfsuiteModel, size: int) -> None:
    """Check that a model read from a damaged file is a model all the same."""
    n_labels, n_attributes = len(model.labels), len(model.attributes)
    assert 1 <= n_labels <= size
    assert n_attributes <= size
    assert len(set(model.labels)) == n_labels
    assert len(set(model.attributes)) == n_attributes
    assert model.transition.shape == (n_labels, n_labels)
    assert np.isfinite(model.transition).all()
    some = list(model.attributes[:50])
    unary, lengths = model.unary_batch([[some, [], dict.fromkeys(some, 0.5)], [], [["unknown"]]])
    assert unary.shape == (4, n_labels)
    assert np.isfinite(unary).all()
    assert not unary[[1, 3]].any()
    assert lengths.tolist() == [3, 0, 1]
    expected = model.state_weights[: len(some)].sum(axis=0)
    np.testing.assert_allclose(unary[0], expected, rtol=1e-9, atol=1e-9)


def run(mutator: Mutator, count: int) -> tuple[int, int]:
    """Read damaged files; return how many gave a model, and how many an error."""
    models = errors = 0
    for i in range(count):
        data = mutator()
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        model = refusal = None
        try:
            model = read_crfsuite(data)
        except ModelFormatError as error:
            refusal = error
        _, peak = tracemalloc.get_traced_memory()
        # Tables of fixed size, the file's share, and a transition once all else has been checked.
        allowed = 250_000 + 8 * len(data) + (8 * len(model.labels) ** 2 if model else 0)
        assert peak - before < allowed, i
        if refusal is not None:
            errors += 1
            assert 0 <= refusal.offset <= len(data), (i, str(refusal))
            assert str(refusal).startswith(f"{refusal.chunk} at byte {refusal.offset}: "), i
        if model is not None:
            models += 1
            assert_usable(model, len(data))
    return models, errors


@pytest.fixture
def traced() -> Iterator[None]:
    """Trace memory during a test."""
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.usefixtures("traced")
def test_small_files(
    small_file: bytes, write_model: Callable[..., bytes], rng: np.random.Generator
) -> None:
    seeds = [
        small_file,
        write_model(["A"], [], {}, {}),
        write_model(["A", "B"], ["x"], {(0, 1): 1.0}, {(0, 1): 2.0, (1, 0): -1.0}, pad=1),
        write_model(
            [f"L{i}" for i in range(9)],
            [f"attribute {i}" for i in range(40)],
            {(i, i % 9): float(i) for i in range(40)},
            {(i, j): i - j for i in range(9) for j in range(9)},
        ),
    ]
    models, errors = run(Mutator(seeds, rng), 8 * MUTATIONS // 10)
    assert models > 100
    assert errors > 100


@pytest.mark.usefixtures("traced")
def test_trained_files(train: Callable[..., Path], rng: np.random.Generator) -> None:
    seeds = [
        train([[["a", "b"], {"f": 0.5}]] * 2, [["X", "Y"], ["Y", "X"]]).read_bytes(),
        train([[["字"], ["é", "a"]]], [["名詞", "Z"]], feature__possible_states=True).read_bytes(),
    ]
    models, errors = run(Mutator(seeds, rng), 15 * MUTATIONS // 100)
    assert models > 10
    assert errors > 10


@pytest.mark.usefixtures("traced")
def test_shipped_file(rng: np.random.Generator) -> None:
    spec = importlib.util.find_spec("usaddress")
    if spec is None or spec.origin is None:
        pytest.skip("usaddress, which ships the model, is not installed")
    data = (Path(spec.origin).parent / "usaddr.crfsuite").read_bytes()
    models, errors = run(Mutator([data], rng), 5 * MUTATIONS // 100)
    assert models > 10
    assert errors > 10
