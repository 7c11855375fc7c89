"""Marginals: exact, or with islands of certainty."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from valuesparse import _chain
from valuesparse._validation import as_count, as_seconds, as_zeta
from valuesparse.errors import DeadlineError, InfeasibleError
from valuesparse.models import Chain
from valuesparse.results import Result
from valuesparse.threads import resolve

__all__ = ["infer"]

_METHODS = ("auto", "exact", "islands")


def infer(
    model: Chain,
    *,
    zeta: float = 1.0,
    revisit: int | None = None,
    threads: int | None = None,
    method: str = "auto",
    deadline: float | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Result:
    r"""Return the marginals and the log partition function of a model.

    Parameters
    ----------
    model : Chain
        The model; it is not changed.
    zeta : float, default 1.0
        Threshold of SMM11 in [0, 1]: a variable whose largest marginal reaches it is held at its
        mode, an island of certainty. 1 is exact.
    revisit : int, optional
        Largest number of rounds in which islands are reconsidered. By default rounds go on until
        nothing changes; 0 keeps the islands of the first 2n messages.
    threads : int, optional
        At least 1; by default :func:`valuesparse.get_num_threads`. Results do not depend on it.
    method : {"auto", "exact", "islands"}
        Forces an engine; "auto" takes the islands when ``zeta < 1``.
    deadline : float, optional
        Seconds after which the call gives up with `DeadlineError`.
    progress : callable, optional
        Called as ``progress(positions_done, positions)`` now and then, from this thread.

    Returns
    -------
    Result
        Marginals, ``log_z`` and what was done.

    Raises
    ------
    InfeasibleError
        When a sequence has no possible configuration (of the full model, never of the islands).
    DeadlineError
        When `deadline` passed.
    ValueError
        For `zeta` outside [0, 1], `revisit` < 0, `threads` < 1 or an unknown `method`.

    Notes
    -----
    *Exact* (SMM11, section 2): :math:`m_i \propto \alpha_i \beta_i` with
    :math:`\alpha_i = \psi_i (\alpha_{i-1} \Psi)` and :math:`\beta_{i-1} = \Psi (\psi_i \beta_i)`,
    in scaled linear arithmetic. Entries that would underflow are held at a floor, and what the
    floor can have added is bounded at every position; a sequence for which it is not negligible
    is done again in a wider domain (``stats["sequences_widened"]``).

    *Islands* (SMM11, section 3), in an order-free formulation. Round 0: variables whose local
    factor has a mode >= ζ are islands; in the gaps between them a forward and a backward pass
    meet in the middle, and a variable becomes an island as soon as its local factor times the
    message (in the second half of a pass: the actual marginal m′) reaches ζ. Out of an island a
    message is one row of the transition. Later rounds read all events off the actual marginals
    m′ of the round before: a segment without mass given its islands releases them; an island
    without a value >= ζ is released; one whose mode has moved takes the new value once and is
    released the second time; a free variable, never released, with m′ >= ζ becomes an island.
    Only messages between a change and the next unchanged island are computed again.

    *Termination.* A variable can become an island, flip and be released at most once each, and a
    released variable never becomes an island again: at most 3n events. Every round but the last
    has an event, so at most 3n rounds are needed.

    *Order.* The paper's queue makes islands depend on which message came first. Here a gap is
    decided by its own data and rounds are synchronous, so results are the same for any number of
    threads and any cutting of the work.

    What comes out: the marginals of the model conditioned on its final islands (an island's own
    m′: conditioned on the others). When ``r.converged``, every island has a mode of m′ equal to
    its value and at least ζ, and no other variable reaches ζ unless it was released.

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
    if not isinstance(model, Chain):
        raise TypeError(f"model must be a valuesparse.Chain, got {type(model).__name__}")
    zeta = as_zeta(zeta)
    rounds = -1 if revisit is None else as_count("revisit", revisit, at_least=0)
    workers = resolve(threads)
    if method not in _METHODS:
        raise ValueError(f"method must be one of {', '.join(_METHODS)}, got {method!r}")
    if method == "exact" and zeta < 1.0:
        raise ValueError(f"method 'exact' takes no islands, got zeta={zeta}; leave zeta at 1")
    if method == "islands" and zeta >= 1.0:
        raise ValueError("method 'islands' needs zeta < 1")
    if deadline is not None:
        deadline = as_seconds("deadline", deadline)
    if progress is not None and not callable(progress):
        raise ValueError(f"progress must be callable, got {progress!r}")

    marginals = np.empty((model.n_positions, model.n_labels), dtype=model.dtype)
    log_z = np.empty(model.n_sequences)
    islands = np.full(model.n_positions, -1, dtype=np.int32)
    late = None if deadline is None else DeadlineError(f"no answer within {deadline} s")
    infeasible, counts = _chain.infer(
        model._batch, workers, zeta, rounds, marginals, log_z, islands,
        None, 0, 0, None, deadline, progress, late,
    )  # fmt: skip
    if infeasible is not None:
        raise InfeasibleError(*infeasible)
    return Result(model, marginals, log_z, islands, zeta, counts)


def edge_marginals(
    model: Chain, threads: int | None, edges: tuple[int, int] | None
) -> np.ndarray[Any, Any]:
    """Return pairwise marginals of `edges` (first, last), or their (K, K) sum when None."""
    log_z = np.empty(model.n_sequences)
    k = model.n_labels
    pairwise: np.ndarray[Any, Any] | None = None
    sums: np.ndarray[Any, Any] | None = None
    first, last = edges or (0, 0)
    if edges is None:
        sums = np.zeros((k, k))
    else:
        pairwise = np.empty((last - first, k, k), dtype=model.dtype)
    infeasible, _ = _chain.infer(
        model._batch, resolve(threads), 1.0, 0, None, log_z, None,
        pairwise, first, last, sums, None, None, None,
    )  # fmt: skip
    if infeasible is not None:
        raise InfeasibleError(*infeasible)
    answer = pairwise if sums is None else sums
    assert answer is not None
    return answer


def iter_edge_marginals(
    model: Chain, threads: int | None, block: int
) -> Iterator[np.ndarray[Any, Any]]:
    """Yield pairwise marginals `block` edges at a time, float64, from one pass of messages."""
    n, k = model.n_positions, model.n_labels
    log_forward, log_outgoing = np.empty((n, k)), np.empty((n, k))
    log_mass = np.empty(n)
    infeasible = _chain.log_messages(
        model._batch, resolve(threads), np.empty(model.n_sequences),
        log_forward, log_outgoing, log_mass,
    )  # fmt: skip
    if infeasible is not None:
        raise InfeasibleError(*infeasible)
    inner = np.ones(n, dtype=bool)
    inner[model._offset[1:][model.lengths > 0] - 1] = False
    left = np.flatnonzero(inner)  # the position before each edge
    for first in range(0, left.size, block):
        at = left[first : first + block]
        t = model.transition
        if t.ndim == 3:
            t = t[first : first + at.size]
        scores = log_forward[at, :, None] + t + log_outgoing[at, None, :]
        yield np.exp(scores - log_mass[at, None, None])
