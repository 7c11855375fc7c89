"""Minimising size, divergence, or their sum: RSM10."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from valuesparse._validation import as_count, as_reals, as_threshold
from valuesparse.inference._methods import Loopy
from valuesparse.models import FactorGraph
from valuesparse.models._evidence import Evidence, asked
from valuesparse.relaxed._beliefs import Beliefs
from valuesparse.relaxed._solver import PartSolver, Solve, first_factors, solver_of
from valuesparse.relaxed.gain import gains_of
from valuesparse.results import GraphResult

__all__ = ["largest", "select", "smallest_within"]

Indices = npt.NDArray[np.int64]

_SORTED = 1 << 12  # so few are sorted rather than halved once more


def select(
    graph: FactorGraph,
    *,
    first: Iterable[int] | None = None,
    min_size: float | None = None,
    min_divergence: int | None = None,
    min_joint: float | None = None,
    solver: str | Loopy | Solve = "auto",
    evidence: Evidence | None = None,
    likelihood: Evidence | None = None,
    threads: int | None = None,
    memory_limit: int | None = None,
) -> GraphResult:
    r"""Choose factors by their gain beside a few, and infer with those alone (RSM10).

    Parameters
    ----------
    graph : FactorGraph
        The full model.
    first : iterable of int, optional
        Factors to start with; by default those of at most one variable, and structured ones, which
        have to be among them.
    min_size : float, optional
        ε: as few factors as possible such that the gains of those left out sum to at most ε.
    min_divergence : int, optional
        m: those m factors beyond the first that have the largest gains.
    min_joint : float, optional
        γ: every factor with a gain of at least γ, which minimises divergence plus γ times size.
    solver : str, record or callable, default "auto"
        A `method` of :func:`valuesparse.infer`, or ``solver(graph, previous)`` that returns the
        result for a graph; `previous` is the result of the first factors, None for these.
    evidence, likelihood, threads, memory_limit : optional
        As for :func:`valuesparse.infer`.

    Returns
    -------
    GraphResult
        ``r.factors`` names the factors that were used, the first included;
        ``r.divergence_bound``, ``r.marginal_lower`` and ``r.marginal_upper`` say how far the
        whole graph can be. ``r.stats`` has ``first``, ``candidates`` and ``added``.

    Raises
    ------
    ValueError
        Unless exactly one of the three objectives is given, >= 0; for an unknown index.

    Notes
    -----
    Algorithm 1 of RSM10. The divergence of a choice is approximated by the sum of the gains of
    what it leaves out, under the marginals of the first. At equal size the three choose the same
    set, ties going to the lowest index. All three are linear on average: selection, no sort.

    References
    ----------
    RSM10: Riedel, Smith, McCallum, "Inference by Minimizing Size, Divergence, or their Sum".

    Examples
    --------
    >>> import valuesparse as vs
    >>> graph = vs.FactorGraph([2, 2, 2])
    >>> for v in range(3):
    ...     _ = graph.add([v], [0.0, 1.0])
    >>> for i, j, weight in [(0, 1, 0.1), (1, 2, -3.0), (0, 2, 0.2)]:
    ...     _ = graph.add_feature([i, j], [1, 1], weight)
    >>> r = vs.select(graph, min_divergence=1)
    >>> r.factors.tolist(), r.rigorous
    ([0, 1, 2, 4], True)
    """
    given = {
        "min_size": min_size, "min_divergence": min_divergence, "min_joint": min_joint
    }  # fmt: skip
    named = [name for name, value in given.items() if value is not None]
    if len(named) != 1:
        raise ValueError(
            "exactly one of min_size, min_divergence and min_joint must be given, got "
            f"{' and '.join(named) or 'none'}"
        )
    name = named[0]
    amount: float = (
        as_count(name, given[name], at_least=0)
        if name == "min_divergence"
        else as_threshold(name, given[name])
    )
    known = evidence if likelihood is None else asked(graph, evidence, likelihood)
    run = PartSolver(graph, solver_of(solver), known, threads, memory_limit)
    kept = first_factors(graph, first)
    result = run(kept, None)
    rest = without(graph.n_factors, kept)
    # A gain of γ counts, so that what is told apart lies just below it.
    above = np.nextafter(amount, 0.0) if name == "min_joint" else None
    beliefs = Beliefs(result, above=above)
    gains = gains_of(rest.size, beliefs.walk(graph, rest))
    if name == "min_size":
        chosen = largest(gains, rest.size - smallest_within(gains, amount))
    elif name == "min_divergence":
        chosen = largest(gains, int(amount))
    else:
        chosen = np.flatnonzero(gains >= amount)
    if chosen.size:
        used = np.ones(graph.n_factors, dtype=np.bool_)
        used[rest] = False
        used[rest[chosen]] = True
        kept = np.flatnonzero(used)
        result = run(kept, result)
    stats = {
        **result.stats,
        "first": graph.n_factors - rest.size,
        "candidates": rest.size,
        "added": chosen.size,
    }
    what = f"{name}={amount:g} kept {chosen.size} of {rest.size} factors beyond the first"
    return result.replaced(stats=stats, reason=f"{what}{beliefs.doubt()}; {result.reason}")


def without(n: int, some: Indices) -> Indices:
    """Return 0 ... n − 1 but for `some`."""
    left = np.ones(n, dtype=np.bool_)
    left[some] = False
    return np.flatnonzero(left)


def largest(gains: npt.ArrayLike, m: int) -> npt.NDArray[np.int64]:
    """Return where the m largest entries stand, ascending; among equals the first. O(n).

    Parameters
    ----------
    gains : (n,) array of float
        The numbers.
    m : int
        How many; all where there are no more.

    Examples
    --------
    >>> import numpy as np
    >>> from valuesparse.relaxed import largest
    >>> largest(np.array([0.5, 0.1, 0.5, 0.9]), 2).tolist()
    [0, 3]
    """
    array = _as_gains(gains)
    n = array.size
    if m >= n:
        return np.arange(n)
    if m <= 0:
        return np.empty(0, dtype=np.int64)
    edge = np.partition(array, n - m)[n - m]
    chosen = array > edge
    ties = np.flatnonzero(array == edge)
    chosen[ties[: m - np.count_nonzero(chosen)]] = True
    return np.flatnonzero(chosen)


def _as_gains(gains: npt.ArrayLike) -> npt.NDArray[np.float64]:
    array = as_reals("gains", gains)
    if array.ndim != 1:
        raise ValueError(f"gains must be one number after the other, got shape {array.shape}")
    return array


def smallest_within(gains: npt.ArrayLike, total: float) -> int:
    """Return how many of the smallest entries sum to at most `total`. O(n) on average.

    Parameters
    ----------
    gains : (n,) array of float
        The numbers, none below 0.
    total : float
        What they may sum to.

    Examples
    --------
    >>> import numpy as np
    >>> from valuesparse.relaxed import smallest_within
    >>> smallest_within(np.array([0.5, 0.25, 3.0, 0.25]), 1.0)
    3
    """
    array = _as_gains(gains)
    # Halving: what is below the median fits as a whole, or what is above it never does.
    rest = array[array <= total]
    spent, count = 0.0, 0
    while rest.size > _SORTED:
        half = rest.size // 2
        rest.partition(half)
        low = float(rest[:half].sum())
        if spent + low <= total:
            spent += low
            count += half
            rest = rest[half:]
        else:
            rest = rest[:half]
    return count + int(np.searchsorted(spent + np.cumsum(np.sort(rest)), total, side="right"))
