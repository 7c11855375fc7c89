"""Marginals: exact, or with islands of certainty."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, overload

from valuesparse._validation import (
    as_probability,
    as_rounds,
    as_seconds,
    as_zeta,
    is_choice,
    require_progress,
)
from valuesparse.inference import _tolerance as tolerance
from valuesparse.inference._engines import engine_of, for_graphs, only_forests
from valuesparse.inference._methods import BP, TRW, MeanField, StructuredMeanField, name_of
from valuesparse.models import Chain, FactorGraph, SecondOrderChain, SegmentChain, Tree
from valuesparse.results import (
    ChainResult,
    GraphResult,
    Result,
    SecondOrderResult,
    SegmentResult,
    TreeResult,
)
from valuesparse.threads import resolve

__all__ = ["infer"]


@overload
def infer(
    model: Chain,
    *,
    zeta: float = 1.0,
    revisit: int | None = None,
    threads: int | None = None,
    method: str = "auto",
    deadline: float | None = None,
    progress: Callable[[int, int], object] | None = None,
    keep: float | None = None,
    tol: float | None = None,
    work: float | None = None,
) -> ChainResult: ...
@overload
def infer(
    model: Tree,
    *,
    zeta: float = 1.0,
    revisit: int | None = None,
    threads: int | None = None,
    method: str = "auto",
    deadline: float | None = None,
    progress: Callable[[int, int], object] | None = None,
    keep: float | None = None,
    tol: float | None = None,
    work: float | None = None,
) -> TreeResult: ...
@overload
def infer(
    model: SecondOrderChain,
    *,
    threads: int | None = None,
    method: str = "auto",
    deadline: float | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> SecondOrderResult: ...
@overload
def infer(
    model: SegmentChain,
    *,
    threads: int | None = None,
    method: str = "auto",
    deadline: float | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> SegmentResult: ...
@overload
def infer(
    model: FactorGraph,
    *,
    zeta: float = 1.0,
    revisit: int | None = None,
    threads: int | None = None,
    method: str | BP | TRW | MeanField | StructuredMeanField = "auto",
    deadline: float | None = None,
    progress: Callable[[int, int], object] | None = None,
    evidence: Mapping[Any, Any] | None = None,
    likelihood: Mapping[Any, Any] | None = None,
    memory_limit: int | None = None,
    factors: Iterable[int] | None = None,
) -> GraphResult: ...
@overload
def infer(
    model: Chain | Tree | FactorGraph | SecondOrderChain | SegmentChain,
    *,
    zeta: float = 1.0,
    revisit: int | None = None,
    threads: int | None = None,
    method: str | BP | TRW | MeanField | StructuredMeanField = "auto",
    deadline: float | None = None,
    progress: Callable[[int, int], object] | None = None,
    evidence: Mapping[Any, Any] | None = None,
    likelihood: Mapping[Any, Any] | None = None,
    memory_limit: int | None = None,
    factors: Iterable[int] | None = None,
    keep: float | None = None,
    tol: float | None = None,
    work: float | None = None,
) -> Result: ...
def infer(
    model: Chain | Tree | FactorGraph | SecondOrderChain | SegmentChain,
    *,
    zeta: float = 1.0,
    revisit: int | None = None,
    threads: int | None = None,
    method: str | BP | TRW | MeanField | StructuredMeanField = "auto",
    deadline: float | None = None,
    progress: Callable[[int, int], object] | None = None,
    evidence: Mapping[Any, Any] | None = None,
    likelihood: Mapping[Any, Any] | None = None,
    memory_limit: int | None = None,
    factors: Iterable[int] | None = None,
    keep: float | None = None,
    tol: float | None = None,
    work: float | None = None,
) -> Result:
    r"""Return the marginals and the log partition function of a model.

    Parameters
    ----------
    model : Chain, Tree, FactorGraph, SecondOrderChain or SegmentChain
        The model; it is not changed.
    zeta : float, default 1.0
        Threshold of SMM11 in [0, 1]: a variable whose largest marginal reaches it is held at its
        mode, an island of certainty. 1 is exact.
    revisit : int, optional
        Largest number of rounds in which islands are reconsidered. By default rounds go on until
        nothing changes; 0 keeps the islands of the first 2n messages. Methods without islands
        refuse it; with ``zeta=1`` there are none to reconsider.
    threads : int, optional
        At least 1; by default :func:`valuesparse.get_num_threads`. Results do not depend on it.
    method : {"auto", "exact", "islands", "junction_tree", "bp", "trw", "mean_field", \
            "structured_mean_field"} or record
        Forces an engine: a string with its defaults, or for loopy inference a record with options,
        `vs.BP`, `vs.TRW`, `vs.MeanField` or `vs.StructuredMeanField`. "auto" takes the islands
        when ``zeta < 1``, and for a graph two passes when it has no cycles, else a junction tree
        when that fits in `memory_limit`, as it is or in minutes when it is conditioned on a few
        variables, else loopy belief propagation.
    deadline : float, optional
        Seconds after which the call gives up with `DeadlineError`.
    progress : callable, optional
        Called as ``progress(positions_done, positions)`` now and then, from this thread, and at the
        end; for a graph cliques or iterations are counted.
    evidence : mapping, optional
        Graphs only: hard or soft evidence instead of the graph's own (`FactorGraph.set_evidence`).
    likelihood : mapping, optional
        Graphs only: {variable: a likelihood for each state}, numbers >= 0 (no logarithms), beside
        the evidence.
    memory_limit : int, optional
        Graphs only: bytes that exact tables may take; by default half of what the machine has.
    factors : iterable of int, optional
        Graphs only: indices of the factors to use; the others are ignored, and
        ``r.divergence_bound`` says how far that leads away from the whole graph.
    keep : float, optional
        Chains and trees only: marginals below it, in [0, 1], are not kept, and no array of all is
        written. ``r.sparse()`` has the others and the largest of each variable, ``r.unlisted`` the
        most that any other label has, and ``r.marginals`` zeros for those.
    tol : float, optional
        Chains and trees only: the largest error of any marginal that is allowed, in (0, 1].
        ``r.error`` (N,) is what was proved, ``r.lower`` and ``r.upper`` bound the exact marginals,
        ``r.log_z_lower`` and ``r.log_z_upper`` log Z. The fastest arithmetic is taken whose
        rounding is small enough.
    work : float, optional
        Chains and trees only, instead of `tol`: how many multiply-adds messages may take. They go
        where they narrow most, and ``r.error`` is what they bought.

    Returns
    -------
    Result
        Marginals, ``log_z`` and what was done.

    Raises
    ------
    InfeasibleError
        When a sequence or tree has no possible configuration (of the full model, never of the
        islands), or a graph has none that agrees with the evidence.
    MemoryLimitError
        When exact tables were asked for that exceed `memory_limit`; nothing was allocated.
    DeadlineError
        When `deadline` passed.
    TypeError
        For a `model` that is none.
    ValueError
        For `tol` below what rounding leaves to prove (the message says how much), `tol` or `work`
        beside the other or with `zeta` below 1, `zeta` or `keep` outside [0, 1], `revisit` < 0 or
        without islands, `threads` < 1, an unknown `method`, or an argument that the kind of model
        does not take.

    Notes
    -----
    *Exact* (SMM11, section 2): :math:`m_i \propto \alpha_i \beta_i` with
    :math:`\alpha_i = \psi_i (\alpha_{i-1} \Psi)` and :math:`\beta_{i-1} = \Psi (\psi_i \beta_i)`,
    in scaled linear arithmetic. Entries that would underflow are held at a floor, and what the
    floor can have added is bounded at every position; a sequence for which it is not negligible
    is done again in a wider domain (``stats["sequences_widened"]``).

    *Islands* (SMM11, section 3). Variables whose marginal reaches ζ are held at their mode; rounds
    release, move and add islands until nothing changes. The marginals are those of the model
    conditioned on its final islands (an island's own: conditioned on the others). The rules, which
    look at the data alone, and why they end stand in docs/islands.md and docs/trees.md. With 32
    labels and more, and in paths of more than 4,096 variables, a sequence or tree that would gain
    nothing from islands has none: it is answered exactly
    (``stats["sequences_without_islands"]``).

    References
    ----------
    SMM11: Singh, Martin, McCallum, "Inducing Value Sparsity for Parallel Inference in
    Tree-shaped Models".

    Examples
    --------
    >>> import numpy as np
    >>> import valuesparse as vs
    >>> chain = vs.Chain(np.log([[0.9, 0.1], [0.5, 0.5]]), np.log([[0.8, 0.2], [0.2, 0.8]]))
    >>> vs.infer(chain).marginals.round(3)
    array([[0.9 , 0.1 ],
           [0.74, 0.26]])
    >>> r = vs.infer(chain, zeta=0.85)
    >>> r.islands.tolist(), r.marginals[1].round(3).tolist()
    ([0, -1], [0.8, 0.2])
    """
    engine = engine_of(model)
    zeta = as_zeta(zeta)
    rounds = as_rounds(revisit)
    workers = resolve(threads)
    if not is_choice(name_of(method), engine.METHODS):
        raise ValueError(f"method must be one of {', '.join(engine.METHODS)}, got {method!r}")
    if method == "exact" and zeta < 1.0:
        raise ValueError(f"method 'exact' takes no islands, got zeta={zeta}; leave zeta at 1")
    if revisit is not None and method not in ("auto", "islands"):
        raise ValueError(
            f"method {method!r} takes no islands, got revisit={rounds}; leave revisit out"
        )
    if method == "islands" and zeta >= 1.0:
        raise ValueError("method 'islands' needs zeta < 1")
    if deadline is not None:
        deadline = as_seconds("deadline", deadline)
    require_progress(progress)
    more = for_graphs(engine, evidence, memory_limit, factors, model=model, likelihood=likelihood)
    part = {} if keep is None else {"keep": as_probability("keep", keep)}
    if tol is not None or work is not None:
        asked = {"tol": tol} if work is None else {"work": work}
        chains = only_forests(model, {**asked, **part})
        if tol is not None and work is not None:
            raise ValueError("tol and work are two ways to ask: give one of them")
        if zeta < 1.0:
            raise ValueError(
                f"zeta={zeta:g} has no proof beside it: leave tol and work out, and ask the result "
                "to certify()"
            )
        return tolerance.infer(
            chains, workers, deadline, progress, keep=part.get("keep"), tol=tol, work=work
        )
    if part:
        only_forests(model, part)
    return engine.infer(model, zeta, rounds, workers, method, deadline, progress, **more, **part)
