"""Factors that a caller hands over: indices, factors or features, checked against a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse.factors import Factor, Feature, Features, Table
from valuesparse.models import FactorGraph
from valuesparse.models._checks import (
    check_feature,
    check_features,
    check_scope,
    check_table,
    weigh_feature,
    weigh_features,
)
from valuesparse.relaxed._beliefs import Beliefs
from valuesparse.relaxed._parts import FeaturePart, TableGroup, require_gain

__all__ = ["as_parts", "check_factors"]

Array = npt.NDArray[Any]


def as_parts(
    beliefs: Beliefs, graph: FactorGraph, items: Any, indices: Callable[[Any], Array]
) -> tuple[int, Iterator[FeaturePart | TableGroup]]:
    """Return how many factors `items` stands for, and what is known about them."""
    if isinstance(items, Factor):
        items = [items]
    if isinstance(items, Features):
        check_features(graph, items)
        weigh_features(graph, items)
        return len(items), beliefs.of_block(items)
    if not isinstance(items, (range, np.ndarray)):
        if not isinstance(items, Iterable):
            raise TypeError(f"factors must be indices or factors, got {items!r}; write [{items!r}]")
        items = list(items)
        if items and all(isinstance(f, Factor) for f in items):
            checked = check_factors(graph, items)
            return len(items), beliefs.of_factors(list(enumerate(checked)))
    found = indices(items)
    return found.size, beliefs.walk(graph, found)


def check_factors(graph: FactorGraph, factors: Sequence[Factor]) -> list[Factor]:
    """Return factors whose scopes and tables fit the variables of `graph`."""
    checked: list[Factor] = []
    for i, factor in enumerate(factors):
        check_scope(graph, factor.scope, i)
        require_gain(factor)
        if isinstance(factor, Table):
            factor = Table(factor.scope, check_table(graph, factor.scope, factor.log_table, i)[0])
        elif isinstance(factor, Feature):
            check_feature(graph, factor, i)
            weigh_feature(graph, factor.weight, i)
        checked.append(factor)
    return checked
