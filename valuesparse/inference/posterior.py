"""Samples from the posterior and probabilities of given configurations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import numpy.typing as npt

from valuesparse._validation import as_array, as_count, as_flag, as_generator
from valuesparse.errors import InfeasibleError
from valuesparse.inference import _graphs
from valuesparse.inference._engines import engine_of, for_graphs
from valuesparse.inference._frames import frame_of
from valuesparse.inference._watch import Watch
from valuesparse.models import Chain, FactorGraph, SecondOrderChain, SegmentChain, Tree
from valuesparse.models._evidence import known_of
from valuesparse.threads import resolve

if TYPE_CHECKING:
    import pandas

__all__ = ["log_prob", "sample"]


@overload
def sample(
    model: Chain | Tree | FactorGraph | SecondOrderChain | SegmentChain,
    size: int,
    rng: np.random.Generator | int | None = None,
    *,
    threads: int | None = None,
    deadline: float | None = None,
    progress: Callable[[int, int], object] | None = None,
    evidence: Mapping[Any, Any] | None = None,
    likelihood: Mapping[Any, Any] | None = None,
    memory_limit: int | None = None,
    frame: Literal[False] = False,
) -> npt.NDArray[np.int64]: ...
@overload
def sample(
    model: FactorGraph,
    size: int,
    rng: np.random.Generator | int | None = None,
    *,
    threads: int | None = None,
    deadline: float | None = None,
    progress: Callable[[int, int], object] | None = None,
    evidence: Mapping[Any, Any] | None = None,
    likelihood: Mapping[Any, Any] | None = None,
    memory_limit: int | None = None,
    frame: Literal[True],
) -> pandas.DataFrame: ...
def sample(
    model: Chain | Tree | FactorGraph | SecondOrderChain | SegmentChain,
    size: int,
    rng: np.random.Generator | int | None = None,
    *,
    threads: int | None = None,
    deadline: float | None = None,
    progress: Callable[[int, int], object] | None = None,
    evidence: Mapping[Any, Any] | None = None,
    likelihood: Mapping[Any, Any] | None = None,
    memory_limit: int | None = None,
    frame: bool = False,
) -> npt.NDArray[np.int64] | pandas.DataFrame:
    """Draw exact samples from the posterior.

    Parameters
    ----------
    model : Chain, Tree, FactorGraph, SecondOrderChain or SegmentChain
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
    likelihood : mapping, optional
        Graphs only: {variable: a likelihood for each state}, numbers >= 0 (no logarithms), beside
        the evidence.
    memory_limit : int, optional
        Graphs only: bytes that exact tables may take.
    frame : bool, default False
        Graphs only: return a pandas DataFrame with the names of variables and of states.

    Returns
    -------
    ndarray of int64, shape (size, N), or DataFrame
        One configuration per row; of a frame the columns are the variables, categories where
        their states have names.

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
    workers, frame = resolve(threads), as_flag("frame", frame)
    generator = as_generator(rng)
    watch = Watch(deadline, progress)
    more = for_graphs(engine, evidence, memory_limit, model=model, likelihood=likelihood)
    if not frame:
        return engine.sample(model, count, generator, workers, watch, **more)
    if not isinstance(model, FactorGraph):
        raise ValueError("frame=True can be given with a FactorGraph only")
    return frame_of(model, engine.sample(model, count, generator, workers, watch, **more))


def log_prob(
    model: Chain | Tree | FactorGraph | SecondOrderChain | SegmentChain,
    states: npt.ArrayLike | Mapping[Any, Any],
    *,
    threads: int | None = None,
    evidence: Mapping[Any, Any] | None = None,
    likelihood: Mapping[Any, Any] | None = None,
    memory_limit: int | None = None,
) -> npt.NDArray[np.float64]:
    """Return the log-probability of given labels, per sequence, or of many configurations.

    Parameters
    ----------
    model : Chain, Tree, FactorGraph, SecondOrderChain or SegmentChain
        The model.
    states : array_like of int, shape (N,) or (m, N), or mapping
        One label per position, or m such rows, as `sample` returns them, and `decode` with `n_best`
        where no row is missing; of a graph also {variable: state} by name or number, of all
        variables or of some: the probability is that of these then, summed over the others.
    threads : int, optional
        At least 1.
    evidence, likelihood, memory_limit : optional
        Graphs only, as for :func:`infer`: the probability is that given the evidence.

    Returns
    -------
    ndarray of float64, shape (B,) or (m, B)
        Score of the configuration minus ``log_z``; −inf where it is forbidden. A graph has a
        scalar, or (m,). Rows have the bits of calls one by one; ``log_z`` is computed once.

    Raises
    ------
    ValueError
        When `states` has the wrong shape, is not integer, or names no label; a row is named
        ``states[row]``.

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
    >>> np.exp(vs.log_prob(chain, vs.sample(chain, 2, rng=0))).round(6).tolist()
    [[0.125], [0.125]]
    >>> graph = vs.FactorGraph({"rain": ["no", "yes"], "wet": ["no", "yes"]})
    >>> _ = graph.add_cpt("rain", [], [0.75, 0.25])
    >>> _ = graph.add_cpt("wet", ["rain"], [[0.9, 0.1], [0.2, 0.8]])
    >>> float(np.exp(vs.log_prob(graph, {"rain": "yes", "wet": "yes"})))
    0.2
    >>> float(np.exp(vs.log_prob(graph, {"wet": "yes"})))
    0.275
    """
    engine = engine_of(model)
    more = for_graphs(engine, evidence, memory_limit, model=model, likelihood=likelihood)
    limit, workers = more.get("memory_limit"), resolve(threads)
    if isinstance(model, FactorGraph):
        if more.get("evidence") is not None:
            known = known_of(model, more["evidence"]).given
            model = model.copy()
            model.know(known)
        if isinstance(states, Mapping):
            named = model.resolve_states("states", states)
            if len(named) < model.n_variables:
                return _log_prob_of_some(model, named, workers, limit)
            states = [named[v] for v in range(model.n_variables)]
    elif isinstance(states, Mapping):
        raise ValueError("states can be a mapping with a FactorGraph only")
    given = as_array("states", states)
    scored: Callable[..., npt.NDArray[np.float64]] = engine.score
    if limit is not None:  # with a graph only
        scored = partial(_graphs.score, memory_limit=limit)
    if given.ndim != 2:
        score = scored(model, given, workers)
        log_z = engine.log_z(model, workers, limit)
    else:
        scores = [_score_of_row(scored, model, row, i, workers) for i, row in enumerate(given)]
        log_z = engine.log_z(model, workers, limit)
        score = np.array(scores).reshape(len(given), *np.shape(log_z))  # there may be no rows
    return np.minimum(score - log_z, 0.0)  # rounding of large scores


def _score_of_row(
    scored: Callable[..., npt.NDArray[np.float64]],
    model: Any,
    row: npt.NDArray[Any],
    index: int,
    workers: int,
) -> npt.NDArray[np.float64]:
    try:
        return scored(model, row, workers)
    except ValueError as error:
        raise ValueError(str(error).replace("states", f"states[{index}]", 1)) from None


def _log_prob_of_some(
    model: FactorGraph, states: dict[int, int], workers: int, limit: int | None
) -> npt.NDArray[np.float64]:
    """Return the log-probability that some variables are in these states, given the evidence."""
    log_z, known = _graphs.log_z(model, workers, limit), model.evidence
    total, asked = 0.0, model.copy()
    for v, state in states.items():
        value = known.get(v)
        if isinstance(value, np.ndarray):  # a state takes the place of likelihoods
            total += float(value[state])
        elif value is not None and value != state:
            total = -np.inf
    if total > -np.inf:
        asked.know({**known, **states})
        with suppress(InfeasibleError):
            found = total + _graphs.log_z(asked, workers, limit) - log_z
            return np.array(min(found, 0.0))
    return np.array(-np.inf)
