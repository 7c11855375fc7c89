"""Pictures of graphs whose names are odd: alike as text, or mathematics to matplotlib."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest

import valuesparse as vs


def test_nodes_of_equal_text_are_different_ones() -> None:
    graph = vs.FactorGraph({1: 2, "1": 2, 'a"b': 2})
    graph.add([1, 'a"b'], np.zeros((2, 2)))
    graph.add_cpt("1", ['a"b'])
    graph.set_evidence({'a"b': 0})
    assert graph.to_dot().splitlines() == [
        "digraph {",
        '  v0 [label="1"];',
        '  v1 [label="1"];',
        '  v2 [label="a\\"b", style=filled];',
        "  v2 -> v1;",
        '  f0 [shape=box, label="0"];',
        "  f0 -> v0 [dir=none];",
        "  f0 -> v2 [dir=none];",
        "}",
    ]


@pytest.mark.parametrize("name", ["factor 0", "factor 1"])
def test_a_variable_that_is_called_like_a_factor(name: str) -> None:
    graph = vs.FactorGraph({name: 2, "v0": 2, "f0": 2})
    graph.add([name, "v0", "f0"], np.zeros((2, 2, 2)))
    lines = [line for line in graph.to_dot().splitlines()[1:-1] if "->" not in line]
    nodes = [re.sub(r" \[.*\]", "", line).strip(" ;") for line in lines]
    assert len(set(nodes)) == 4
    assert (f'"{name}"' in nodes) == (name == "factor 1")  # there is one factor: no other is 1


@pytest.mark.parametrize("name", ["$a_$", "a $ b $_", r"$\frac{$", "$x$"])
def test_names_are_no_mathematics(name: str) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib draws")
    graph = vs.FactorGraph({name: 2})
    graph.add_cpt(name)
    ax = graph.draw()
    ax.figure.savefig(file := io.BytesIO(), format="png")
    assert file.getvalue()
    assert [text.get_parse_math() for text in ax.texts] == [False]


def test_the_largest_table_is_a_constant() -> None:
    graph = vs.FactorGraph([2])
    graph.add([], 3.0)
    assert "largest table: a constant, 1 entry" in graph.summary()
    graph.add([0], [0.0, 1.0])
    assert "largest table: 0, 2 entries" in graph.summary()
