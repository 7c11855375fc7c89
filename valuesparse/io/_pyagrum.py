"""Models of pyAgrum."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy.typing as npt

from valuesparse.io._tables import graph_of
from valuesparse.models import FactorGraph

__all__ = ["from_pyagrum"]

_DIRECTED = {"BayesNet"}
_UNDIRECTED = {"MarkovRandomField", "MarkovNet"}  # the second until pyAgrum 1.14


def from_pyagrum(model: Any) -> FactorGraph:
    """Return a Bayesian network or Markov random field of pyAgrum as a factor graph.

    Parameters
    ----------
    model : pyagrum.BayesNet or pyagrum.MarkovRandomField
        The model; it is not changed.

    Returns
    -------
    FactorGraph
        Variables in the order of their ids, with their names and their labels as states. Tables
        are the logs of pyAgrum's own numbers, not normalised; of a conditional probability table
        the variable itself comes last.

    Raises
    ------
    TypeError
        For other kinds of models.
    ValueError
        For tables with negative, infinite or undefined numbers.

    Examples
    --------
    >>> import pyagrum as gum  # doctest: +SKIP
    >>> graph = vs.from_pyagrum(gum.fastBN("rain{no|yes}->wet{no|yes}"))  # doctest: +SKIP
    >>> graph.names, graph.states[0]  # doctest: +SKIP
    (('rain', 'wet'), ('no', 'yes'))
    """
    kinds = {kind.__name__ for kind in type(model).__mro__}
    if kinds & _DIRECTED:
        tables = (model.cpt(v) for v in sorted(model.nodes()))
    elif kinds & _UNDIRECTED:
        tables = (model.factor(scope) for scope in model.factors())
    else:
        raise TypeError(
            "model must be a BayesNet or MarkovRandomField of pyAgrum, got "
            f"{type(model).__module__}.{type(model).__qualname__}"
        )
    variables = [model.variable(v) for v in sorted(model.nodes())]
    return graph_of(
        [v.name() for v in variables],
        [v.labels() for v in variables],
        [v.domainSize() for v in variables],
        _tables(tables),
        directed=bool(kinds & _DIRECTED),
    )


def _tables(tables: Iterator[Any]) -> Iterator[tuple[list[str], npt.ArrayLike, str]]:
    for table in tables:
        names = [table.variable(i).name() for i in range(table.nbrDim())]
        # pyAgrum's first variable changes fastest, numpy's last axis does.
        yield names[::-1], table.toarray(), f"table of {', '.join(names)}"
