"""The KL divergence that adding one factor brings: RS10, section 4.1."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse.factors import Factor, Features
from valuesparse.models import FactorGraph
from valuesparse.relaxed._beliefs import Beliefs
from valuesparse.relaxed._candidates import as_parts
from valuesparse.relaxed._formulas import feature_gain, log_gain, table_gain
from valuesparse.relaxed._parts import FeaturePart, TableGroup
from valuesparse.results import GraphResult

__all__ = ["gain", "gains_of"]

Floats = npt.NDArray[np.float64]


def gain(
    graph: FactorGraph,
    factors: Iterable[int] | Factor | Iterable[Factor] | Features,
    result: GraphResult,
) -> Floats:
    r"""Return the gain of each factor: the KL divergence that adding it alone would bring.

    Parameters
    ----------
    graph : FactorGraph
        The full model.
    factors : iterable of int, Factor, iterable of Factor, or Features
        Candidates: factors of the graph by index, or others over its variables.
    result : GraphResult
        The result of inference in a part of the graph (``infer(graph, factors=...)``).

    Returns
    -------
    ndarray of float64
        One number >= 0 for each candidate; ∞ for one that forbids what `result` allows.

    Raises
    ------
    ValueError
        For an index or variable that does not exist.

    Notes
    -----
    For a feature (RS10, Proposition 1):
    :math:`g = \log(1 - \mu + \mu e^\theta) - \mu \theta`; for a general table Ψ
    :math:`g = \log E[\Psi] - E[\log \Psi]`. μ comes from the joint where the engine has it (the
    variables are independent, or a factor that was used holds them, a structured one up to 8), else
    from the product of beliefs, and the gain is an approximation. Structured factors tell the
    joints of all pairs at once where tables differ by at most 4 within; such a gain errs by less
    than 1e-9. A joint within one that is below 2.3e-308 counts as 0, unless `result` comes from a
    junction tree.

    Examples
    --------
    >>> import valuesparse as vs
    >>> graph = vs.FactorGraph([2, 2])
    >>> edge = graph.add_feature([0, 1], [1, 1], 2.0)
    >>> first = vs.infer(graph, factors=[])
    >>> vs.gain(graph, [edge], first).round(4).tolist()
    [0.4545]
    """
    if not isinstance(graph, FactorGraph):
        raise TypeError(f"graph must be a valuesparse.FactorGraph, got {type(graph).__name__}")
    if not isinstance(result, GraphResult):
        raise TypeError(f"result must be that of a FactorGraph, got {type(result).__name__}")
    if result.graph.cards.tobytes() != graph.cards.tobytes():
        raise ValueError("result must be of a graph with the same variables")

    def indices(items: Any) -> npt.NDArray[np.int64]:
        if isinstance(items, range):
            found = np.arange(items.start, items.stop, items.step)
        elif isinstance(items, np.ndarray):
            found = items
        else:
            found = np.array([_index(i, at) for at, i in enumerate(items)], dtype=np.int64)
        if found.size == 0:
            return np.empty(0, dtype=np.int64)
        if found.ndim != 1 or found.dtype.kind not in "iu":
            raise ValueError(
                f"factors must be indices, got an array of {found.dtype} of shape {found.shape}"
            )
        bad = (found < 0) | (found >= graph.n_factors)
        if bad.any():
            at = int(bad.argmax())
            raise ValueError(
                f"factors[{at}] is {found[at]}: there are {graph.n_factors} factors, numbered "
                "from 0"
            )
        return found.astype(np.int64, copy=False)

    count, parts = as_parts(Beliefs(result), graph, factors, indices)
    return gains_of(count, parts)


def _index(item: Any, at: int) -> int:
    try:
        if not isinstance(item, bool):
            return operator.index(item)
    except TypeError:
        pass
    raise TypeError(f"factors[{at}] must be the index of a factor, like all others, got {item!r}")


def gains_of(count: int, parts: Iterable[FeaturePart | TableGroup]) -> Floats:
    """Return the gains of `count` factors, told piece by piece; 0 where nothing is told."""
    out = np.zeros(count)
    for part in parts:
        rows, log_p = part.tiny
        if isinstance(part, FeaturePart):
            found = feature_gain(part.mu, part.theta, part.off)
        else:
            found = table_gain(part.table, part.joint)
        if rows.size:
            table = (
                np.stack([np.zeros(rows.size), part.theta[rows]], axis=1)
                if isinstance(part, FeaturePart)
                else part.table[rows]
            )
            found[rows] = log_gain(log_p, table)
        out[part.at] = found
    return out
