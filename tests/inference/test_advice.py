"""Errors advise what works for the question that was refused."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable

import numpy as np
import pytest

import valuesparse as vs

SMALL = 2000


def grid(side: int) -> vs.FactorGraph:
    graph = vs.FactorGraph([3] * side**2)
    for v in range(side**2):
        for w in [v + 1] * ((v + 1) % side > 0) + [v + side] * (v + side < side**2):
            graph.add((v, w), np.eye(3))
    return graph


@pytest.mark.parametrize(
    "sample",
    [
        lambda graph: vs.sample(graph, 1, memory_limit=SMALL),
        lambda graph: vs.JunctionTree(graph, memory_limit=SMALL).sample(1),
    ],
)
def test_samples_are_not_approximated(sample: Callable[[vs.FactorGraph], object]) -> None:
    with pytest.raises(vs.MemoryLimitError, match="or raise memory_limit; samples are exact") as e:
        sample(grid(5))
    assert "method=" not in str(e.value)


def test_log_z_has_methods_elsewhere() -> None:
    graph = grid(5)
    for ask in (
        lambda: vs.JunctionTree(graph, memory_limit=SMALL).log_z(),
        lambda: vs.log_prob(graph, [0] * 25, memory_limit=SMALL),
    ):
        words = r"take infer\(method='bp'\).log_z or vs.bounds.log_z$"
        with pytest.raises(vs.MemoryLimitError, match=words):
            ask()
    log_z = vs.bounds.log_z(graph)
    assert log_z.lower <= vs.infer(graph, method="exact").log_z <= log_z.upper
    assert np.isfinite(vs.infer(graph, method="bp").log_z)


def test_fewer_variables_help_where_the_tree_fits_without_their_joint() -> None:
    graph = grid(5)
    tree = vs.JunctionTree(graph)
    for limit, fewer in ((SMALL, False), (tree.memory + 1000, True)):
        tree = vs.JunctionTree(graph, memory_limit=limit)
        with pytest.raises(vs.MemoryLimitError, match=r"give evidence or raise memory_limit$") as e:
            tree.joint(range(9) if fewer else [0, 1])
        assert ("ask for fewer variables, " in str(e.value)) == fewer


@pytest.mark.parametrize("ask", [vs.infer, vs.decode])
def test_marginals_and_the_best_states_are_approximated(
    ask: Callable[..., vs.Decoding | vs.GraphResult],
) -> None:
    graph = grid(5)
    with pytest.raises(vs.MemoryLimitError, match=r"or approximate with method='bp' \(infer, dec"):
        ask(graph, method="exact", memory_limit=SMALL)
    ask(graph, method="bp", memory_limit=SMALL)


WRITERS = [
    lambda graph: vs.write_uai(graph, io.StringIO()),
    lambda graph: vs.write_fg(graph, io.StringIO()),
]


@pytest.mark.parametrize("write", WRITERS)
def test_a_factor_without_a_table_cannot_be_written(
    write: Callable[[vs.FactorGraph], None],
) -> None:
    graph = vs.FactorGraph([2] * 30)
    graph.add(vs.factors.Xor(*range(30)))
    words = r"factor 0: Xor over 30 variables .* only tables can be written; pickle the graph, or"
    with pytest.raises(ValueError, match=words):
        write(graph)
    again = pickle.loads(pickle.dumps(graph))
    assert vs.infer(again).log_z == vs.infer(graph).log_z
    graph = vs.FactorGraph([2] * 60)
    graph.add_feature(range(60), [1] * 60, 1.0)
    with pytest.raises(vs.MemoryLimitError, match=r"^Feature .*, or pickle the graph") as e:
        write(graph)
    assert "structured" not in str(e.value)
    assert pickle.loads(pickle.dumps(graph)).n_factors == 1


def test_sampling_needs_tables() -> None:
    graph = vs.FactorGraph([2] * 60)
    graph.add(vs.factors.Xor(*range(60)))
    with pytest.raises(ValueError, match=r"and sampling needs one; .* for marginals, which needs"):
        vs.sample(graph, 1)
    assert vs.infer(graph, method="bp").converged
    graph = vs.FactorGraph([2] * 60)
    graph.add_feature(range(60), [1] * 60, 1.0)
    with pytest.raises(vs.MemoryLimitError, match=r"fewer variables: sampling needs tables$"):
        vs.sample(graph, 1)
