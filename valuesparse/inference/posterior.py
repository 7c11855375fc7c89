"""Samples from the posterior and probabilities of given configurations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse._validation import as_count, as_generator
from valuesparse.inference._engines import engine_of, for_graphs
from valuesparse.inference._watch import Watch
from valuesparse.models import Chain, FactorGraph, Tree
from valuesparse.threads import resolve

__all__ = ["log_prob", "sample"]


def sample(
    model: Chain | Tree | FactorGraph,
    size: int,
    rng: np.random.Generator | int | None = None,
    *,
    threads: int | None = None,
    deadline: float | None = None,
    progress: Callable[[int, int], object] | None = None,
    evidence: Mapping[Any, Any] | None = None,
    memory_limit: int | None = None,
) -> npt.NDArray[np.int64]:
    """Draw exact samples from the posterior.

    Parameters
    ----------
    model : Chain, Tree or FactorGraph
        The model.
    size : int
        Number of samples, at least 0.
    rng : numpy.random.Generator, int or None
        Source of randomness, or a seed for one.
    threads : int, optional
        At least 1; samples do not depend on it.
    deadline : float, optional
        Seconds after which the call gives up with `DeadlineError`.
    progress : callable, optional
        Called as ``progress(done, total)`` now and then, from this thread, and at the end.
    evidence : mapping, optional
        Graphs only: evidence instead of the graph's own.
    memory_limit : int, optional
        Graphs only: bytes that exact tables may take.

    Returns
    -------
    ndarray of int64, shape (size, N)
        One configuration per row.

    Raises
    ------
    InfeasibleError
        When a sequence has no possible configuration.
    DeadlineError
        When `deadline` passed.
    ValueError
        For `size` < 0 or `threads` < 1.

    Notes
    -----
    Forward filtering, backward sampling: the last label is drawn from the forward message, then
    each label given the one after it.

    Examples
    --------
    >>> import numpy as np
    >>> import valuesparse as vs
    >>> chain = vs.Chain(np.zeros((2, 2)), [[0.0, -np.inf], [-np.inf, 0.0]])
    >>> x = vs.sample(chain, 100, rng=0)
    >>> x.shape, bool((x[:, 0] == x[:, 1]).all())
    ((100, 2), True)
    """
    engine = engine_of(model)
    count = as_count("size", size, at_least=0)
    workers = resolve(threads)
    generator = as_generator(rng)
    watch = Watch(deadline, progress)
    more = for_graphs(engine, evidence, memory_limit)
    return engine.sample(model, count, generator, workers, watch, **more)


def log_prob(
    model: Chain | Tree | FactorGraph,
    states: npt.ArrayLike,
    *,
    threads: int | None = None,
    evidence: Mapping[Any, Any] | None = None,
    memory_limit: int | None = None,
) -> npt.NDArray[np.float64]:
    """Return the log-probability of given labels, per sequence.

    Parameters
    ----------
    model : Chain, Tree or FactorGraph
        The model.
    states : array_like of int, shape (N,)
        One label per position.
    threads : int, optional
        At least 1.
    evidence, memory_limit : optional
        Graphs only, as for :func:`infer`: the probability is that given the evidence.

    Returns
    -------
    ndarray of float64, shape (B,)
        Score of the configuration minus ``log_z``; −inf where it is forbidden.

    Raises
    ------
    ValueError
        When `states` has the wrong shape, is not integer, or names no label.

    Notes
    -----
    ``log_z`` of chains and trees takes one pass, forward or upward, which keeps no messages: about
    half of the time of the marginals, and no memory of their size. A sequence whose scores are so
    far apart that the pass cannot bound its own error is done in both directions.

    Examples
    --------
    >>> import numpy as np
    >>> import valuesparse as vs
    >>> chain = vs.Chain(np.zeros((3, 2)), np.zeros((2, 2)))
    >>> float(np.exp(vs.log_prob(chain, [0, 1, 1])[0]).round(6))
    0.125
    """
    engine = engine_of(model)
    more = for_graphs(engine, evidence, memory_limit)
    if isinstance(model, FactorGraph) and evidence is not None:
        model = model.with_evidence(evidence)
    log_z = engine.log_z(model, resolve(threads), more.get("memory_limit"))
    return engine.score(model, states) - log_z
