"""libDAI's factor graphs."""

from __future__ import annotations

import gzip
import io
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graph_files import assert_same_tables, graphs, weights
from hypothesis import given

import valuesparse as vs
from valuesparse.io import TextFormatError

# Three variables; in tables the first changes fastest.
MODEL = b"""# a comment
# another
2

3
7 3 12
2 3 2
4
0 0.25
1 0.5
3 1e-2
11 4 # and one here

1
3
3
0
"""


def written(graph: vs.FactorGraph) -> bytes:
    file = io.BytesIO()
    vs.write_fg(graph, file)
    return file.getvalue()


def test_first_variable_changes_fastest() -> None:
    graph = vs.read_fg(MODEL)
    assert graph.names == (3, 7, 12)
    assert graph.cardinalities == (3, 2, 2)
    first, second = graph.factors
    assert first.scope == (1, 0, 2)
    expected = np.zeros((2, 3, 2))
    expected[0, 0, 0], expected[1, 0, 0], expected[1, 1, 0], expected[1, 2, 1] = 0.25, 0.5, 0.01, 4
    np.testing.assert_allclose(np.exp(first.log_table), expected, rtol=1e-15)
    assert (second.log_table == -np.inf).all()
    assert graph.variable(12) == 2


def test_labels_from_zero_are_the_numbers() -> None:
    graph = vs.read_fg(b"2\n\n1\n1\n2\n1\n0 1\n\n1\n0\n3\n1\n0 1\n")
    assert graph.names == (0, 1)
    assert graph.cardinalities == (3, 2)
    assert vs.read_fg(b"0").n_variables == 0


def test_labels_of_64_bits() -> None:
    graph = vs.read_fg(b"1 2 9007199254740993 -9223372036854775808 1 1 1 0 2")
    assert graph.names == (-(2**63), 2**53 + 1)
    assert vs.read_fg(written(graph)).names == graph.names


@pytest.mark.smoke
def test_sources(tmp_path: Path) -> None:
    path = tmp_path / "m.fg.gz"
    path.write_bytes(gzip.compress(MODEL))
    assert_same_tables(vs.read_fg(path), vs.read_fg(MODEL))
    vs.write_fg(vs.read_fg(MODEL), path)
    assert_same_tables(vs.read_fg(path), vs.read_fg(MODEL))


@given(graphs())
def test_written_and_read_is_the_same(graph: vs.FactorGraph) -> None:
    again = vs.read_fg(written(graph))
    assert again.cardinalities == graph.cardinalities
    for f, g in zip(graph.factors, again.factors, strict=False):
        assert f.scope == g.scope
        assert f.log_table.tobytes() == g.log_table.tobytes()
    np.testing.assert_array_equal(weights(again), weights(graph))
    assert written(again) == written(graph) or graph.evidence


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "line 1, header: the file ends where 1 more number of factors should be"),
        (b"# only this", "the file ends"),
        (b"1\n\nx", "'1' is more than 0"),
        (b"1\n\nx 1 1", "line 3, variables of factor 0: 'x' is not a number"),
        (b"1\n\n2\n0 0\n2 2\n0", "line 4, variables of factor 0: variable '0' stands there twice"),
        (b"1\n\n1\n0.5\n2\n0", "label '0.5' is not a whole number"),
        (b"1\n\n1\n99999999999999999999\n2\n0", "label '99999999999999999999' is not"),
        (b"1\n\n1\n0\n0\n0", "line 5, variables of factor 0: number of states: '0' is less than 1"),
        (b"2\n\n1\n0\n2\n0\n\n1\n0\n3\n0", "line 10, variables of factor 1: variable 0 has '3' st"),
        (
            b"1\n\n1\n0\n2\n3\n0 1\n1 1\n",
            "factor 0: number of entries: '3' is more than 2",
        ),
        (b"1\n\n1\n0\n2\n1\n2 1\n", "line 7, table of factor 0: index: '2' is more than 1"),
        (b"1\n\n1\n0\n2\n1\n-1 1\n", "index: '-1' is less than 0"),
        (b"1\n\n1\n0\n2\n1\n0.5 1\n", "index: '0.5' is not a whole number"),
        (b"1\n\n1\n0\n2\n2\n1 1\n1 2", "line 8, table of factor 0: index '1' stands there twice"),
        (b"1\n\n1\n0\n2\n1\n0 -1\n", "line 7, table of factor 0: '-1' is negative"),
        (b"1\n\n1\n0\n2\n1\n0 inf\n", "'inf' is not a number"),
        (b"1\n\n1\n0\n2\n1\n0 1\n5", "line 8, end of the model: expected nothing more, got '5'"),
        (b"1\n\n3\n0 1 2\n9999 9999 9999\n0", "999700029999"),
    ],
)
def test_errors_name_line_and_word(text: bytes, message: str) -> None:
    with pytest.raises(TextFormatError) as caught:
        vs.read_fg(text)
    assert message in str(caught.value)


@pytest.mark.parametrize("number", [-1, 1.5, "6", True])
def test_a_number_of_entries_is_an_integer(number: Any) -> None:
    with pytest.raises(ValueError, match="max_entries must be an integer >= 0"):
        vs.read_fg(MODEL, max_entries=number)


def test_unnamed_zeros_are_bounded() -> None:
    text = b"1\n\n2\n0 1\n5000 5000\n0\n"
    tracemalloc.start()
    with pytest.raises(TextFormatError, match="max_entries allows more"):
        vs.read_fg(text)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
    assert vs.read_fg(text, max_entries=25_000_000).factors[0].log_table.shape == (5000, 5000)
    with pytest.raises(TextFormatError, match="max_entries"):
        vs.read_fg(MODEL, max_entries=11)


@pytest.mark.parametrize(("rows", "named"), [(1 << 11, 1), (2060, 100_000)])
def test_memory_for_zeros(rows: int, named: int) -> None:
    entries = "".join(f"{40 * i} .5\n" for i in range(named))
    text = f"1\n\n2\n0 1\n{rows} {rows}\n{named}\n{entries}".encode()
    tracemalloc.start()
    graph = vs.read_fg(text)
    assert tracemalloc.get_traced_memory()[1] < (64 << 20) + 64 * len(text)
    tracemalloc.stop()
    assert graph.factors[0].log_table.shape == (rows, rows)
    assert np.isfinite(graph.factors[0].log_table).sum() == named


def test_the_first_variable_changes_fastest(rng: np.random.Generator) -> None:
    cards = [3, 1, 4, 2]
    table = rng.random(cards)
    numbers = "\n".join(f"{i} {x!r}" for i, x in enumerate(table.ravel(order="F").tolist()))
    text = f"1\n\n4\n0 1 2 3\n3 1 4 2\n24\n{numbers}\n"
    np.testing.assert_array_equal(vs.read_fg(text.encode()).factors[0].log_table, np.log(table))


def test_names_that_are_not_labels() -> None:
    graph = vs.FactorGraph([2], names=["rain"])
    graph.add(["rain"], [0.0, -np.inf])
    assert vs.read_fg(written(graph)).names == (0,)
