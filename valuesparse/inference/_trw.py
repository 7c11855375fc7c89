"""Weights of tree-reweighted messages, and the upper bound that their forests prove."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from valuesparse._validation import as_count
from valuesparse.inference import _spanning
from valuesparse.inference._methods import TRW, refuse
from valuesparse.inference._network import (
    Held,
    LoopyCall,
    Network,
    first_messages,
)
from valuesparse.inference._refusals import as_graph
from valuesparse.inference._watch import Watch
from valuesparse.models import FactorGraph
from valuesparse.models._evidence import Evidence, Known, asked, known_of
from valuesparse.threads import resolve

__all__ = ["DualBound", "best_forest", "probabilities", "shares", "trw_dual_bound"]

#: Damping beyond which messages that wander are left alone.
_MOST_DAMPING = 0.95

Array = npt.NDArray[Any]


def probabilities(network: Network, method: TRW, watch: Watch) -> Array:
    """Return the weight of each group."""
    given = method.edge_probabilities
    native = network.native
    if isinstance(given, str):
        if _spanning.in_reach(network):
            return _spanning.spanning_tree_probabilities(network)
        kept = network.covers
        if kept is None or kept[0] != method.seed:
            forests = _spanning.cover(network, 8, method.seed, watch)
            kept = network.covers = (method.seed, shares(network.n_groups, forests))
        return kept[1].copy()
    rho = np.asarray(given, dtype=np.float64)
    if rho.shape != (network.n_factors,):
        raise ValueError(
            f"edge_probabilities must have shape {(network.n_factors,)}, one for each factor of "
            f"the graph, got {rho.shape}"
        )
    rho = rho[native.wide]
    bad = np.flatnonzero(~((rho > 0.0) & (rho <= 1.0)))
    if bad.size:
        f = native.wide[bad[0]]
        raise ValueError(f"edge_probabilities[{f}] is {rho[bad[0]]}; it must lie in (0, 1]")
    # The largest of a group's weights: forests that hold one of its tables at a time hold the group
    # at least that often, and a smaller weight keeps the bound.
    weights = np.zeros(network.n_groups)
    np.maximum.at(weights, native.group, rho)
    return weights


def shares(count: int, forests: list[Array], weights: Array | None = None) -> Array:
    """Return the total weight of the forests that hold each group."""
    rho = np.zeros(count)
    for t, tree in enumerate(forests):
        rho[tree] += 1.0 / len(forests) if weights is None else weights[t]
    return np.minimum(rho, 1.0)


def best_forest(task: LoopyCall, marginals: Array, tables: Array) -> Array:
    """Return the forest of the largest mutual information: where the bound falls fastest."""
    from scipy.special import entr

    network = task.network
    native = network.native
    if not network.n_groups:
        return np.empty(0, dtype=np.int64)
    entropies = np.add.reduceat(entr(marginals), network.at[:-1])
    own = np.add.reduceat(entr(tables), native.table_at[:-1])
    information = np.add.reduceat(entropies[native.scope], native.ptr[:-1]) - own
    # A forest without a structured factor has mass where the graph has none.
    information[network.structured()] = np.inf
    return network.forest(np.argsort(-information, kind="stable"), task.watch)


class DualBound(NamedTuple):
    """An upper bound on log Z, and the forests that prove it.

    Attributes
    ----------
    upper : float
        At least log Z, rounding included.
    trees : list of (float, list of int)
        Weight of each forest, and its factors of two and more variables.
    """

    upper: float
    trees: list[tuple[float, list[int]]]


def trw_dual_bound(
    graph: FactorGraph,
    *,
    evidence: Evidence | Known | None = None,
    likelihood: Evidence | None = None,
    trees: int = 8,
    method: TRW | None = None,
    threads: int | None = None,
    deadline: float | None = None,
) -> DualBound:
    r"""Return an upper bound on log Z that holds however far messages have come.

    Parameters
    ----------
    graph : FactorGraph
        Any tables, zeros included.
    evidence : mapping, optional
        Instead of the graph's own.
    likelihood : mapping, optional
        {variable: a likelihood for each state}, numbers >= 0 (no logarithms), beside the evidence.
    trees : int, default 8
        Forests to begin with; more where it takes more to hold every factor.
    method : TRW, optional
        How messages are passed, by default ``vs.TRW(max_iterations=200)``. Each step of
        ``optimise`` adds the forest of the largest mutual information; ``seed`` is that of the
        forests, which take the place of ``edge_probabilities``.
    threads, deadline : optional
        As for :func:`valuesparse.infer`.

    Returns
    -------
    DualBound

    Raises
    ------
    InfeasibleError
        When messages prove that there is no configuration.

    Notes
    -----
    With :math:`\sum_T w_T \theta_T = \theta`, the model's tables, Hölder's inequality gives
    :math:`\log Z(\theta) \le \sum_T w_T \log Z(\theta_T)`. Tree-reweighted messages shift tables
    between the forests; any messages give a bound, a fixed point the best one for these weights.
    Where messages make it worse and do not converge, they are damped more, up to 0.95.

    Examples
    --------
    >>> import numpy as np
    >>> import valuesparse as vs
    >>> from valuesparse.inference import trw_dual_bound
    >>> graph = vs.FactorGraph([2, 2, 2])
    >>> for edge in [(0, 1), (1, 2), (0, 2)]:
    ...     _ = graph.add(edge, [[1.0, 0.0], [0.0, 1.0]])
    >>> trw_dual_bound(graph).upper >= vs.infer(graph).log_z
    True
    """
    as_graph(graph)
    as_count("trees", trees, at_least=1)
    given = known_of(graph, asked(graph, evidence, likelihood)).given
    if method is None:
        method = TRW(max_iterations=200)
    elif not isinstance(method, TRW):
        raise ValueError(f"method must be a valuesparse.TRW, got {method!r}")
    refuse(method, ("edge_probabilities",), "trw_dual_bound, whose forests give them")
    workers = resolve(threads)
    task = LoopyCall.of(graph, given, Watch(deadline, None))
    network = task.network
    found = _spanning.cover(network, trees, method.seed, task.watch)
    weights = np.full(len(found), 1.0 / len(found))
    messages = first_messages(network, task.local, method.start)
    best: tuple[float, Array, list[Array]] = np.inf, np.empty(0), []
    with Held(network, task.watch) as native:

        def note() -> float:
            nonlocal best
            masses, slack = task.forests(native, messages, found, False)
            upper = float(weights @ masses) + network.constant + slack
            if upper < best[0]:
                best = upper, weights, found.copy()
            return upper

        damping = method.damping
        for step in range(method.optimise + 1):
            native.weigh(shares(network.n_groups, found, weights))
            first, begun = note(), messages.copy()
            converged, *_ = task.run(native, messages, method, damping=damping, workers=workers)
            # Messages that have made it worse may not have been damped enough.
            while (worse := note() > first) and not converged and damping < _MOST_DAMPING:
                damping = 0.5 * (1.0 + damping)
                messages[:] = begun
                converged, *_ = task.run(native, messages, method, damping=damping, workers=workers)
            if worse:
                messages[:] = begun
            if step < method.optimise:
                found.append(best_forest(task, *task.beliefs(native, messages, workers)[:2]))
                share = 2.0 / (step + 4.0)
                weights = np.append((1.0 - share) * weights, share)
    upper, weights, found = best
    named = zip(weights.tolist(), map(network.members, found), strict=True)
    return DualBound(upper, list(named))
