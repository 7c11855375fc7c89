"""Factor graphs, evidence and answers: words and numbers, as text and as gzip."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np

import valuesparse as vs
from fuzz.core import Reading, target
from fuzz.mutators import packed, texts
from valuesparse.io import (
    ModelFormatError,
    TextFormatError,
    UaiResult,
    read_uai_evidence,
    read_uai_result,
)

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
    b"variable a{type discrete[2]{x,y};}variable b{type discrete[2]{x,y};}\n"
    b"probability(b|a){table .1,.2,.9,.8;}probability(a){table 1e-1 .9;}",
]
EVIDENCE = [b"2 0 1 2 2", b"2\n1 2 1\n2 0 0 1 1\n", b"1\n0\n", b"1\n2 0 1 2 2\n"]
RESULTS = [
    b"PR\n-2.5\n",
    b"MAR\n2\n2 2 .25 .75 1 1\n2 2 .5 .5 1 1\n",
    b"MPE\n3 0 1 2\n-BEGIN-\n1 0",
]
BIF_WORDS = (b"variable", b"probability", b"table", b"default", b"network", b"/*", b"*/", b"//")


def unpacked_size(data: bytes) -> int:
    """Return how many bytes a gzip file holds, as far as it can be read."""
    total = 0
    while data[:2] == b"\x1f\x8b":
        engine = zlib.decompressobj(31)
        try:
            total += len(engine.decompress(data))
        except zlib.error:
            break
        data = engine.unused_data
    return total


def assert_clear(error: ValueError, path: Path | None) -> None:
    """Check that an error says where: in which file, if there is one."""
    text, file = str(error), "" if path is None else f"{path}: "
    if isinstance(error, ModelFormatError):
        assert text.startswith(file), text
    if isinstance(error, TextFormatError):
        assert text.startswith(f"{file}line {error.line}, {error.chunk}: "), text
        assert error.line >= 1


def use_graph(graph: vs.FactorGraph, r: Random) -> None:
    """Check that a graph is one, and ask it."""
    assert sum(graph.cardinalities) < 1 << 21
    if graph.n_factors > 10_000:
        return
    again = vs.FactorGraph(graph.cardinalities, names=graph.names, states=graph.states)
    for factor in graph.factors:
        again.add(factor)  # checks scope, shape and entries
    if graph.n_variables > 100 or sum(graph.cardinalities) > 1000:
        return
    try:
        result = vs.infer(graph) if r.random() < 0.8 else vs.infer(graph, method="bp")
    except (vs.InfeasibleError, vs.MemoryLimitError):
        return
    for table in result.marginals:
        assert np.isfinite(table).all()
        assert abs(table.sum() - 1.0) < 1e-9


def use_evidence(evidence: dict[int, int], _: Random) -> None:
    assert all(v >= 0 and state >= 0 for v, state in evidence.items())


def use_answer(result: UaiResult, _: Random) -> None:
    assert result.task in ("PR", "MAR", "MPE")


def reading(
    read: Callable[..., object], use: Callable[..., None], path: Path
) -> Callable[[bytes, Random], None]:
    """Return what reads and uses; of several samples, one. Some data are read from `path`."""

    def both(data: bytes, r: Random) -> None:
        source: bytes | Path = data
        if r.random() < 0.1:
            path.write_bytes(data)
            source = path
        try:
            found = read(source)
        except ValueError as error:
            assert_clear(error, None if source is data else path)
            if "samples: choose one" not in str(error):
                raise
            found = read(source, sample=r.randrange(2))
        use(found, r)

    return both


GRAPH = vs.read_uai(UAI[0])


def evidence_of_graph(data: bytes | Path, sample: int | None = None) -> dict[int, int]:
    return read_uai_evidence(data, graph=GRAPH, sample=sample)


def add(
    name: str,
    read: Callable[..., object],
    seeds: list[bytes],
    use: Callable[..., None],
    words: tuple[bytes, ...] = (),
) -> None:
    """List a reader twice, for text and for gzip."""

    def text(folder: Path) -> Reading:
        return Reading(seeds, texts(*words), reading(read, use, folder / "file"))

    def gzip(folder: Path) -> Reading:
        plain = text(folder)
        return Reading(seeds, packed(plain.mutate), plain.read)

    target(name)(text)
    target(f"{name}.gz")(gzip)


add("uai", vs.read_uai, UAI, use_graph, (b"MARKOV", b"BAYES"))
add("fg", vs.read_fg, FG, use_graph)
add("uai-evidence", read_uai_evidence, EVIDENCE, use_evidence)
add("uai-evidence-of-graph", evidence_of_graph, EVIDENCE, use_evidence)
add("uai-result", read_uai_result, RESULTS, use_answer, (b"PR", b"MAR", b"MPE", b"-BEGIN-"))
add("bif", vs.read_bif, BIF, use_graph, BIF_WORDS)
