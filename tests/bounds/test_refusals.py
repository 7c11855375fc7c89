"""Bounds refuse structured factors that are too large for a table, and say what works there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import valuesparse as vs
from valuesparse.factors import AtMostOne, Or, Xor
from valuesparse.inference import trw_dual_bound

FIELD = "infer(method='structured_mean_field')"


def graph_of(*factors: Any) -> vs.FactorGraph:
    graph = vs.FactorGraph([2] * 33)
    graph.add([0], [0.0, 1.0])
    for factor in factors:
        graph.add(factor, *([np.zeros([2] * len(factor))] if isinstance(factor, list) else []))
    return graph


@pytest.mark.parametrize("bound", [vs.bounds.log_z, vs.bounds.preconditioner])
@pytest.mark.parametrize(
    ("factors", "evidence", "exact", "field"),
    [
        ((Xor(*range(30)), [29, 30]), {}, True, True),
        ((Xor(*range(30)), AtMostOne(0, 1)), {}, False, False),
        ((Xor(*range(30)), AtMostOne(0, 1)), {0: 0}, True, False),
        ((Xor(*range(30)), [0, 1]), {}, False, True),
        ((Xor(*range(30)), [0, 1, 2]), {}, False, False),
        ((Xor(*range(30)), [0, 30], [30, 31], [31, 0]), {}, True, True),  # a cycle, but apart
        ((Xor(*range(28)), Or(27, 28, 29), [0, 29, 30]), {}, False, False),
    ],
)
def test_the_advice_is_taken(
    bound: Callable[..., Any],
    factors: tuple[Any, ...],
    evidence: dict[int, int],
    exact: bool,
    field: bool,
) -> None:
    graph = graph_of(*factors)
    with pytest.raises(ValueError, match=r"factor 1, a Xor over \d+ variables, has no") as error:
        bound(graph, evidence=evidence)
    words = str(error.value)
    assert ("infer(graph) has log Z exactly" in words, FIELD in words) == (exact, field)
    assert "valuesparse.inference.trw_dual_bound" in words
    upper = trw_dual_bound(graph, evidence=evidence).upper
    log_z = vs.infer(graph, evidence=evidence)
    assert log_z.exact == exact
    if exact:
        assert log_z.log_z <= upper
    if field:
        found = vs.infer(graph, evidence=evidence, method="structured_mean_field")
        assert found.log_z <= upper
    else:
        with pytest.raises(ValueError, match="needs a forest that holds every structured factor"):
            vs.infer(graph, evidence=evidence, method="structured_mean_field")


def test_too_many_states_are_refused_before_anything_is_allocated(monkeypatch) -> None:
    monkeypatch.setattr("valuesparse.inference._memory.default_memory_limit", lambda: 2**33)
    graph = vs.FactorGraph([2**31 - 1, 2])
    graph.add_feature([0, 1], [5, 1], 1.0)
    with pytest.raises(
        vs.MemoryLimitError, match=r"marginals alone need \S+ bytes .* of variable 0"
    ):
        vs.bounds.log_z(graph, memory_limit=10**6)
