"""Relaxed marginal inference: RS10, Algorithm 1."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from valuesparse._validation import as_count, as_flag, as_threshold
from valuesparse.inference._methods import Loopy
from valuesparse.models import FactorGraph
from valuesparse.models._evidence import Evidence, asked
from valuesparse.relaxed._beliefs import Beliefs
from valuesparse.relaxed._lazy import Candidates, Lazy
from valuesparse.relaxed._solver import PartSolver, Solve, first_factors, solver_of
from valuesparse.relaxed.gain import gains_of
from valuesparse.relaxed.select import without
from valuesparse.results import GraphResult

__all__ = ["relax"]


def relax(
    graph: FactorGraph,
    *,
    first: Iterable[int] | None = None,
    threshold: float = 1e-4,
    max_rounds: int | None = None,
    max_divergence: float | None = None,
    candidates: Candidates | None = None,
    exhaustive: bool = False,
    solver: str | Loopy | Solve = "auto",
    evidence: Evidence | None = None,
    likelihood: Evidence | None = None,
    threads: int | None = None,
    memory_limit: int | None = None,
) -> GraphResult:
    r"""Infer in a part of a graph that grows by the factors that would matter (RS10).

    Parameters
    ----------
    graph : FactorGraph
        The full model, or with `candidates` as much of it as is to be written down.
    first : iterable of int, optional
        Factors to start with; by default those of at most one variable, and structured ones, which
        have to be among them.
    threshold : float, default 1e-4
        ε: a factor is added when its gain is larger (:func:`valuesparse.gain`).
    max_rounds : int, optional
        How often factors are added at most; each time is one more inference.
    max_divergence : float, optional
        Stop as soon as the bound on the divergence to the full model is at most this: proved
        where ``r.rigorous``, an estimate elsewhere.
    candidates : callable, optional
        Called with every result; yields factors of the full model beyond those in `graph`, one by
        one or as `Features`, all of them or those worth a look. Only what is added is kept.
        Among equal factors each call skips the first n that it yields, n being the number of them
        that were added before.
    exhaustive : bool, default False
        Promise that every call of `candidates` yields all factors of the full model that are not
        in `graph`. Without it nothing can be said about the distance to the full model.
    solver : str, record or callable, default "auto"
        A `method` of :func:`valuesparse.infer`, or ``solver(graph, previous)`` that returns the
        result for a graph; `previous` is the result of the round before (None at first), for a
        solver that starts from it.
    evidence, likelihood, threads, memory_limit : optional
        As for :func:`valuesparse.infer`.

    Returns
    -------
    GraphResult
        For the last part. ``r.factors`` are indices into ``r.graph``: a copy of `graph` with the
        factors of `candidates` that were added behind its own. ``r.converged`` is False when
        `max_rounds` stopped it. ``r.stats`` has ``rounds``, ``first`` and ``added``;
        ``r.divergence_bound``, ``r.marginal_lower`` and ``r.marginal_upper`` say how far the full
        model can be.

    Raises
    ------
    ValueError
        For a negative threshold, an unknown index, ``exhaustive`` without `candidates`.
    MemoryLimitError
        When factors to add need tables that do not fit. The gain of a feature needs none, however
        many variables it has.

    Notes
    -----
    The marginals returned are always those of the last part: with ``max_rounds=1`` the first
    factors are solved, others are added and the result is solved again.

    References
    ----------
    RS10: Riedel, Smith, "Relaxed Marginal Inference and its Application to Dependency Parsing".

    Examples
    --------
    >>> import valuesparse as vs
    >>> graph = vs.FactorGraph([2, 2, 2])
    >>> for v in range(3):
    ...     _ = graph.add([v], [0.0, 1.0])
    >>> for i, j, weight in [(0, 1, 0.01), (1, 2, -3.0), (0, 2, 0.0)]:
    ...     _ = graph.add_feature([i, j], [1, 1], weight)
    >>> r = vs.relax(graph)
    >>> r.factors.tolist(), r.stats["rounds"], r.divergence_bound < 0.005
    ([0, 1, 2, 4], 1, True)
    """
    epsilon = as_threshold("threshold", threshold)
    rounds = None if max_rounds is None else as_count("max_rounds", max_rounds, at_least=0)
    enough = None if max_divergence is None else as_threshold("max_divergence", max_divergence)
    if candidates is not None and not callable(candidates):
        raise ValueError(f"candidates must be callable, got {candidates!r}")
    exhaustive = as_flag("exhaustive", exhaustive)
    if exhaustive and candidates is None:
        raise ValueError("exhaustive is a promise about candidates, which are not given")
    known = evidence if likelihood is None else asked(graph, evidence, likelihood)
    run = PartSolver(graph, solver_of(solver), known, threads, memory_limit)
    kept = first_factors(graph, first)
    n_own, n_first = graph.n_factors, kept.size
    if candidates is not None:
        run.graph = graph.copy()
    lazy = Lazy(candidates, run.graph)
    result = run(kept, None)
    done, why, converged = 0, "", True
    while True:
        bounds = None
        if enough is not None:
            bounds = lazy.bounds(result, n_own, exhaustive)
            if bounds.divergence <= enough:
                what = "is at most" if bounds.rigorous else "is estimated at no more than"
                why = f"divergence {what} {bounds.divergence:.3g} <= max_divergence"
                break
        rest = without(n_own, kept[kept < n_own])
        beliefs = Beliefs(result, above=epsilon)
        gains = gains_of(rest.size, beliefs.walk(run.graph, rest))
        chosen = rest[gains > epsilon]
        found = lazy.worth(beliefs, result, epsilon)
        if not chosen.size and not found:
            why = f"no factor left has a gain above {epsilon:g}{beliefs.doubt()}"
            break
        if rounds is not None and done >= rounds:
            why, converged = f"max_rounds={rounds} is reached", False
            break
        fresh = lazy.take(found)
        kept = np.sort(np.concatenate([kept, chosen, fresh]))
        result = run(kept, result)
        done += 1
    if bounds is None and candidates is not None:
        bounds = lazy.bounds(result, n_own, exhaustive)
    stats = {**result.stats, "rounds": done, "first": n_first, "added": kept.size - n_first}
    return result.replaced(
        stats=stats,
        _bounds=bounds,
        converged=converged and result.converged,
        reason=f"{why}; {result.reason}",
    )
