"""Models of pgmpy, in both directions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse._extras import require
from valuesparse.io._tables import factors_to_write, graph_of, numbers_of, require_graph
from valuesparse.models import FactorGraph

__all__ = ["from_pgmpy", "to_pgmpy"]

_DIRECTED = {"DiscreteBayesianNetwork", "BayesianNetwork"}  # the second until pgmpy 0.1.26
_UNDIRECTED = {"DiscreteMarkovNetwork", "MarkovNetwork", "FactorGraph"}


def from_pgmpy(model: Any) -> FactorGraph:
    """Return a discrete model of pgmpy as a factor graph.

    Parameters
    ----------
    model : DiscreteBayesianNetwork, DiscreteMarkovNetwork or FactorGraph of pgmpy
        The model, also of a version before 1.0; it is not changed.

    Returns
    -------
    FactorGraph
        Variables in pgmpy's order, with their names, and with their state names where those are
        not 0, 1, 2 and so on. Tables are the logs of pgmpy's own numbers, not normalised; of a
        conditional probability table the variable itself comes last.

    Raises
    ------
    TypeError
        For other kinds of models.
    ValueError
        For a variable without a table, factors that disagree about the states of a variable, and
        tables with negative, infinite or undefined numbers.

    See Also
    --------
    to_pgmpy

    Examples
    --------
    >>> from pgmpy.models import DiscreteBayesianNetwork  # doctest: +SKIP
    >>> model = DiscreteBayesianNetwork([("rain", "wet")])  # doctest: +SKIP
    >>> model.add_cpds(rain, wet)  # doctest: +SKIP
    >>> vs.from_pgmpy(model).names  # doctest: +SKIP
    ('rain', 'wet')
    """
    kinds = {kind.__name__ for kind in type(model).__mro__}
    if kinds & _DIRECTED:
        names = list(model.nodes())
        factors = [model.get_cpds(name) for name in names]
        for name, factor in zip(names, factors, strict=True):
            if factor is None:
                raise ValueError(f"variable {name!r} of the pgmpy model has no CPD")
    elif kinds & _UNDIRECTED:
        factors = list(model.get_factors())
        # A factor graph's nodes are its factors, too.
        names = [node for node in model.nodes() if not hasattr(node, "values")]
    else:
        raise TypeError(
            "model must be a discrete Bayesian network, Markov network or factor graph of pgmpy, "
            f"got {type(model).__module__}.{type(model).__qualname__}"
        )
    states: dict[Any, list[Any]] = {}
    for factor in factors:
        if not hasattr(factor, "values") or not hasattr(factor, "state_names"):
            raise TypeError(f"{factor!r} is no table: only discrete models can be converted")
        # A variable's own table comes before others' in what decides the order of its states.
        if kinds & _DIRECTED:
            states[factor.variable] = _states_of(factor, factor.variable)
    for factor in factors:
        for name in factor.variables:
            states.setdefault(name, _states_of(factor, name))
    unknown = [name for name in names if name not in states]
    if unknown:
        raise ValueError(f"variable {unknown[0]!r} of the pgmpy model is in no factor")
    return graph_of(
        names,
        [
            None if states[name] == list(range(len(states[name]))) else states[name]
            for name in names
        ],
        [len(states[name]) for name in names],
        (_table(factor, states, bool(kinds & _DIRECTED)) for factor in factors),
        directed=bool(kinds & _DIRECTED),
    )


def _states_of(factor: Any, name: Any) -> list[Any]:
    size = int(factor.cardinality[list(factor.variables).index(name)])
    return list(factor.state_names.get(name, range(size)))


def _table(
    factor: Any, states: dict[Any, list[Any]], directed: bool
) -> tuple[Sequence[Any], npt.ArrayLike, str]:
    """Return scope, table and a name for messages, with states in the graph's order."""
    scope = list(factor.variables)
    values = factor.values
    if hasattr(values, "detach"):  # pgmpy can be told to keep torch tensors
        values = values.detach().cpu().numpy()
    where = f"table of {', '.join(map(str, scope))}"
    for axis, name in enumerate(scope):
        own = _states_of(factor, name)
        if own == states[name]:
            continue
        if sorted(map(repr, own)) != sorted(map(repr, states[name])):
            raise ValueError(
                f"{where} has states {own!r} for variable {name!r}, another {states[name]!r}"
            )
        values = np.take(values, [own.index(state) for state in states[name]], axis=axis)
    if directed:
        return [*scope[1:], scope[0]], np.moveaxis(values, 0, -1), where
    return scope, values, where


def to_pgmpy(graph: FactorGraph) -> Any:
    """Return a factor graph as a Markov network of pgmpy.

    Parameters
    ----------
    graph : FactorGraph
        The model.

    Returns
    -------
    pgmpy.models.DiscreteMarkovNetwork
        One factor for each of the graph's, with the graph's names and states; `MarkovNetwork` in
        versions of pgmpy before 1.0.

    Raises
    ------
    MissingExtraError
        pgmpy is not installed.
    ValueError
        For log-potentials below -708.4 (but −inf) or above 709.8, which numbers cannot stand for.

    Notes
    -----
    Markov networks have no evidence, no constants and no variables without factors: evidence
    becomes factors over one variable (0 and 1, or likelihoods), constants are multiplied into the
    first factor, and a variable without factors gets one of ones.

    See Also
    --------
    from_pgmpy

    Examples
    --------
    >>> import numpy as np
    >>> import valuesparse as vs
    >>> graph = vs.FactorGraph([2, 2], names=["a", "b"])
    >>> graph.add(["a", "b"], np.log([[0.5, 0.125], [0.25, 0.125]]))
    0
    >>> vs.to_pgmpy(graph).get_factors()  # doctest: +SKIP
    [<DiscreteFactor representing phi(a:2, b:2) at 0x7f9c4d0a1c50>]
    """
    require_graph(graph)
    require("pgmpy", "pgmpy")
    from pgmpy import models
    from pgmpy.factors.discrete import DiscreteFactor

    network = getattr(models, "DiscreteMarkovNetwork", None) or models.MarkovNetwork
    result = network()
    result.add_nodes_from(graph.names)
    constant = 0.0
    tables = []
    for scope, logs, where in factors_to_write(graph, hard=True, cover=True):
        if scope:
            tables.append((scope, logs, where))
        else:
            constant += float(logs)
    if constant and not tables:
        raise ValueError("a Markov network of pgmpy needs a variable, and this graph has none")
    for i, (scope, logs, where) in enumerate(tables):
        names = [graph.names[v] for v in scope]
        result.add_edges_from(combinations(names, 2))
        known = {
            graph.names[v]: list(graph.states[v] or range(graph.cardinalities[v])) for v in scope
        }
        numbers = numbers_of(logs + constant if i == 0 and constant else logs, where)
        result.add_factors(DiscreteFactor(names, numbers.shape, numbers, state_names=known))
    return result
