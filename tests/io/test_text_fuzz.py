"""Damaged text files: a clear error or a graph that works, never anything else."""

from __future__ import annotations

import gzip
import string
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import valuesparse as vs
from valuesparse.io import (
    ModelFormatError,
    TextFormatError,
    UaiResult,
    read_uai_evidence,
    read_uai_result,
)

MUTATIONS = 2_000
SLOW_MUTATIONS = 12_000

UAI = [
    b"MARKOV\n3\n2 2 3\n2\n2 0 1\n3 1 0 2\n\n4\n 0.436 0.564\n 0.128 0.872\n\n12\n"
    b" 0.210 0.333 0.457 0.811 0.000 0.189\n 0.2 0.3 0.5 1e-3 2E+2 .5\n",
    b"BAYES 1 2 1 1 0 2 0.5 0.5",
    b"MARKOV\n2\n1 1\n3\n0\n1 1\n2 0 1\n1\n2.5\n1 1\n1 0\n",
]
FG = [
    b"# c\n2\n\n3\n7 3 12\n2 3 2\n4\n0 0.25\n1 0.5\n3 1e-2\n11 4 # and\n\n1\n3\n3\n0\n",
    b"1\n\n0\n\n\n1\n0 2.5\n",
    b"3\n\n1\n0\n2\n2\n0 1\n1 2\n\n1\n1\n2\n2\n0 1\n1 2\n\n2\n0 1\n2 2\n4\n0 1\n1 2\n2 3\n3 4\n",
]
BIF = [
    b"network a {\n}\nvariable rain {\n  type discrete [ 2 ] { no, yes };\n}\n// c\n"
    b"variable wet {\n  type discrete [ 3 ] { a, b, c };\n}\nprobability ( rain ) {\n"
    b"  table 0.8, 0.2;\n}\nprobability ( wet | rain ) {\n  (yes) 0.2, 0.3, 0.5;\n"
    b"  (no) 0.9, 0.1, 0.0;\n}\n",
    b'variable "x" { type discrete[1] { "one" }; }\nprobability ( "x" ) { table 1; }',
]
EVIDENCE = [b"2 3 1 5 0", b"2\n1 3 1\n2 5 0 6 1\n", b"1\n0\n"]
RESULTS = [
    b"PR\n-2.5\n",
    b"MAR\n2\n2 2 .25 .75 1 1\n2 2 .5 .5 1 1\n",
    b"MPE\n3 0 1 2\n-BEGIN-\n1 0",
]

WORDS = [
    b"0", b"1", b"2", b"-1", b"3", b"64", b"1e3", b"0.5", b"nan", b"inf", b"-inf", b"1e999", b"1_0",
    b"4294967296", b"99999999999999999999", b"9223372036854775807", b"0x10", b"MARKOV", b"#", b"\n",
    b"\x00", b"\xff\xfe", b"{", b"}", b"(", b")", b";", b"|", b"table", b"default", b"/*", b"*/",
    b"//", b"variable", b"probability", b'"', b"\xd9\xa1", b"\xc2\xbd",
]  # fmt: skip


class Mutator:
    """Damages texts at random, by words more often than by bytes."""

    def __init__(self, seeds: list[bytes], rng: np.random.Generator) -> None:
        self.seeds, self.rng = seeds, rng

    def pick(self, below: int) -> int:
        return int(self.rng.integers(below))

    def __call__(self) -> bytes:
        data = self.seeds[self.pick(len(self.seeds))]
        for _ in range(1 + self.pick(3) * self.pick(2)):
            kind = self.pick(8)
            if kind < 5:
                data = self.word(data)
            elif kind < 6:
                data = data[: self.pick(len(data) + 1)]
            elif kind < 7:
                data = self.splice(data)
            else:
                data = self.flip(data)
        if self.pick(20) == 0:
            data = gzip.compress(data)
            if self.pick(2):
                data = self.flip(data)
        return data

    def word(self, data: bytes) -> bytes:
        words = data.split(b" ")
        at = self.pick(len(words))
        kind = self.pick(4)
        if kind == 0:
            words[at] = WORDS[self.pick(len(WORDS))]
        elif kind == 1:
            words.insert(at, WORDS[self.pick(len(WORDS))])
        elif kind == 2:
            del words[at]
        else:
            words[at] = words[self.pick(len(words))]
        return b" ".join(words)

    def splice(self, data: bytes) -> bytes:
        donor = self.seeds[self.pick(len(self.seeds))]
        begin, at = self.pick(len(donor) + 1), self.pick(len(data) + 1)
        part = donor[begin : begin + 1 + self.pick(40)]
        return data[:at] + part + data[at + self.pick(40) :]

    def flip(self, data: bytes) -> bytes:
        changed = bytearray(data)
        for _ in range(1 + self.pick(3) if data else 0):
            at = self.pick(len(changed))
            changed[at] = self.pick(256) if self.pick(2) else changed[at] ^ (1 << self.pick(8))
        return bytes(changed)


def assert_usable(graph: vs.FactorGraph) -> None:
    """Check that what was read from a damaged file is a graph all the same."""
    assert sum(graph.cardinalities) < 1 << 21
    again = vs.FactorGraph(graph.cardinalities, names=graph.names, states=graph.states)
    for factor in graph.factors:
        again.add(factor)  # checks scope, shape and entries
    graph._compiled()


def assert_samples(evidence: dict[int, int]) -> None:
    assert all(v >= 0 and state >= 0 for v, state in evidence.items())


def assert_answer(result: UaiResult) -> None:
    assert result.task in ("PR", "MAR", "MPE")


def assert_clear(error: ValueError) -> None:
    """Check that a refusal is one line that says where."""
    text = str(error)
    assert 0 < len(text) < 400, text
    assert "\n" not in text, text
    if isinstance(error, TextFormatError):
        assert text.startswith(f"line {error.line}, {error.chunk}: "), text
        assert error.line >= 1
    elif not isinstance(error, ModelFormatError):
        assert "samples: choose one" in text, text


READERS: dict[str, tuple[Callable[[bytes], Any], list[bytes], Callable[[Any], None]]] = {
    "uai": (vs.read_uai, UAI, assert_usable),
    "fg": (vs.read_fg, FG, assert_usable),
    "bif": (vs.read_bif, BIF, assert_usable),
    "evidence": (read_uai_evidence, EVIDENCE, assert_samples),
    "result": (read_uai_result, RESULTS, assert_answer),
}


@pytest.fixture
def quick_pgmpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make pgmpy's grammar small: all letters of Unicode take a second for each file."""
    pyparsing = pytest.importorskip("pyparsing", reason="comes with pgmpy")
    pytest.importorskip("pgmpy.readwrite", reason="pgmpy reads BIF")
    monkeypatch.setattr(pyparsing.unicode, "alphanums", string.ascii_letters + string.digits)


def run(kind: str, rng: np.random.Generator, count: int) -> None:
    read, seeds, check = READERS[kind]
    mutator = Mutator(seeds, rng)
    found = refused = 0
    for i in range(count):
        data = mutator()
        begin = time.perf_counter()
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        refusal: ValueError | None = None
        try:
            model = read(data)
        except ValueError as error:
            refusal = error
        if refusal is None:
            found += 1
            check(model)
        else:
            refused += 1
            assert_clear(refusal)
        _, peak = tracemalloc.get_traced_memory()
        # Tables of zeros that a file does not name are the one thing that may be large.
        allowed = (1 << 28 if kind == "fg" else 1 << 25) + 100 * len(data)
        assert peak - before < allowed, (i, data)
        assert time.perf_counter() - begin < 10, (i, data)
    assert found > count // 100
    assert refused > count // 10


@pytest.mark.parametrize("kind", READERS)
def test_damaged_files(kind: str, rng: np.random.Generator, request: pytest.FixtureRequest) -> None:
    if kind == "bif":
        request.getfixturevalue("quick_pgmpy")
    tracemalloc.start()
    try:
        run(kind, rng, MUTATIONS)
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize("kind", READERS)
def test_many_damaged_files(kind: str, request: pytest.FixtureRequest) -> None:
    if kind == "bif":
        request.getfixturevalue("quick_pgmpy")
    tracemalloc.start()
    try:
        run(kind, np.random.default_rng(1), SLOW_MUTATIONS)
    finally:
        tracemalloc.stop()
