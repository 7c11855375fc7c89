"""The most probable configurations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, overload

from valuesparse._validation import as_count
from valuesparse.inference._engines import engine_of, for_graphs
from valuesparse.inference._methods import AD3, BP, TRW
from valuesparse.inference._watch import Watch
from valuesparse.models import Chain, FactorGraph, SecondOrderChain, SegmentChain, Tree
from valuesparse.results import BoundedDecoding, Decoding
from valuesparse.threads import resolve

__all__ = ["decode"]


@overload
def decode(
    model: FactorGraph,
    *,
    threads: int | None = None,
    deadline: float | None = None,
    progress: Callable[[int, int], object] | None = None,
    evidence: Mapping[Any, Any] | None = None,
    likelihood: Mapping[Any, Any] | None = None,
    method: Literal["ad3", "lp", "trw"] | AD3 | TRW,
) -> BoundedDecoding: ...
@overload
def decode(
    model: Chain | Tree | FactorGraph | SecondOrderChain | SegmentChain,
    *,
    n_best: int | None = None,
    threads: int | None = None,
    deadline: float | None = None,
    progress: Callable[[int, int], object] | None = None,
    evidence: Mapping[Any, Any] | None = None,
    likelihood: Mapping[Any, Any] | None = None,
    memory_limit: int | None = None,
    method: str | AD3 | BP | TRW | None = None,
) -> Decoding: ...
def decode(
    model: Chain | Tree | FactorGraph | SecondOrderChain | SegmentChain,
    *,
    n_best: int | None = None,
    threads: int | None = None,
    deadline: float | None = None,
    progress: Callable[[int, int], object] | None = None,
    evidence: Mapping[Any, Any] | None = None,
    likelihood: Mapping[Any, Any] | None = None,
    memory_limit: int | None = None,
    method: str | AD3 | BP | TRW | None = None,
) -> Decoding:
    """Return the MAP configuration (Viterbi), or the `n_best` best of every sequence.

    Parameters
    ----------
    model : Chain, Tree, FactorGraph, SecondOrderChain or SegmentChain
        The model.
    n_best : int, optional
        Chains only: how many configurations to return; the answer then has a leading axis, also
        for 1.
    threads : int, optional
        At least 1; by default :func:`valuesparse.get_num_threads`.
    deadline : float, optional
        Seconds after which the call gives up with `DeadlineError`.
    progress : callable, optional
        Called as ``progress(done, total)`` now and then, from this thread, and at the end.
    evidence : mapping, optional
        Graphs only: evidence instead of the graph's own.
    likelihood : mapping, optional
        Graphs only: {variable: a likelihood for each state}, numbers >= 0 (no logarithms), beside
        the evidence.
    memory_limit : int, optional
        Graphs only: bytes that exact tables may take.
    method : {"auto", "exact", "bp", "trw", "lp", "ad3"}, BP, TRW or AD3, optional
        Graphs only; a record has options. "bp" passes max-product messages and
        "trw" tree-reweighted ones, whose sum over eight forests also bounds the best score:
        ``upper``. Then variables are decided one after the other, each given those before it;
        without cycles that is exact. Where what was decided leaves a variable no value, the score
        is −inf. "lp" solves the linear program over the local polytope of a graph whose free
        variables are binary (others are known by evidence, or have one state), with the polytopes
        of structured factors (MSFXM10, by HiGHS): ``upper``, ``relaxed`` and ``integral``. "ad3"
        solves the same program by dual decomposition with quadratic steps, faster, and needs only
        `best` of a structured factor; ``upper`` is a bound after any number of iterations. A
        fractional point is rounded to states that are possible (see Notes). By default exact.
        Ctrl-C is heeded within a tenth of a second, but for "lp", which may take seconds: HiGHS
        cannot be interrupted. Its `deadline` is kept.

    Returns
    -------
    Decoding
        ``states`` (N,) and ``score`` (B,), for a graph a scalar; with `n_best` (k, N) and (k, B).
        A sequence with fewer than k configurations has score −inf and states −1 in the rows that
        are missing.

    Raises
    ------
    InfeasibleError
        When a sequence has no possible configuration.
    DeadlineError
        When `deadline` passed.
    MemoryLimitError
        When exact tables exceed `memory_limit`; with another method, when what it makes of the
        tables would take more than half of the memory of the machine.
    ValueError
        For `n_best` or `threads` below 1.

    Notes
    -----
    Ties go to the lowest label, of the last position first (trees: of the root); the first row of
    `n_best` is the answer without it. The recursion is max-sum, in the log-potentials themselves:
    no exponentials, and −inf stays exact.

    Rounding ("lp", "ad3"): structured factors decide one after the other, each by `best` with the
    gain P(y = 1) − ½ of its variables and what was decided before; other variables take the better
    state given their tables. Then all decide again, by what each variable is worth given the states
    of the others, as long as the score grows. "ad3" takes the best of the roundings of its iterates
    and of what the structured factors prefer in its dual. Where no rounding is possible, "lp" takes
    the possible configuration nearest to the point (branch and bound by HiGHS); so does "ad3",
    but with a factor that has no polytope, or where the program does not fit in memory, it fixes
    variables one after the other, depth first.

    Examples
    --------
    >>> import numpy as np
    >>> import valuesparse as vs
    >>> chain = vs.Chain([[0.0, 1.0], [0.5, 0.0]], [[0.0, 0.0], [0.0, 2.0]])
    >>> d = vs.decode(chain)
    >>> d.states, d.score
    (array([1, 1]), array([3.]))
    >>> vs.decode(chain, n_best=2).score.tolist()
    [[3.0], [1.5]]
    >>> graph = vs.FactorGraph({"rain": ["no", "yes"]})
    >>> graph.add_cpt("rain", [], [0.25, 0.75])
    0
    >>> vs.decode(graph)["rain"]
    'yes'
    """
    engine = engine_of(model)
    k = 1 if n_best is None else as_count("n_best", n_best, at_least=1)
    watch = Watch(deadline, progress)
    more = for_graphs(
        engine, evidence, memory_limit, method=method, model=model, likelihood=likelihood
    )
    states, score, *rest = engine.decode(model, k, resolve(threads), watch, **more)
    kind = BoundedDecoding if len(rest) > 1 and rest[1] is not None else Decoding
    found = kind(*((states, score) if n_best is not None else (states[0], score[0])), *rest)
    return found.named(model) if isinstance(model, FactorGraph) else found
