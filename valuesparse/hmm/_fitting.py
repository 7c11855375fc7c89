"""Baum-Welch: iterations, and restarts of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse import _hmm
from valuesparse._validation import as_count
from valuesparse.hmm._estimator import as_random_state
from valuesparse.hmm._monitor import ConvergenceMonitor
from valuesparse.hmm._passes import Passes
from valuesparse.hmm._settings import as_doubles
from valuesparse.threads import resolve

__all__ = ["fit", "normalised"]

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]


def normalised(prior: Any, counts: Floats, before: Floats, keep_zeros: bool = False) -> Floats:
    """Return rows of counts, with those of a Dirichlet prior, that sum to 1.

    Where a prior takes more away than there is, 0 is left. Rows without any count stay as they were
    `before`; with `keep_zeros`, what was 0 stays 0. The counts are overwritten.
    """
    prior = np.asarray(prior, dtype=np.float64)
    if prior.ndim:
        counts += prior - 1.0
        prior = np.ones(())
    counts, before = as_doubles("counts", counts), as_doubles("parameters", before)
    if counts.shape != before.shape:
        raise ValueError(f"counts of shape {counts.shape} cannot set parameters {before.shape}")
    _hmm.dirichlet(counts, before, float(prior) - 1.0, keep_zeros)
    return counts


def fit(model: Any, X: Array, lengths: Any) -> None:
    """See :meth:`valuesparse.hmm.BaseHMM.fit`."""
    restarts = as_count("n_restarts", model.n_restarts, at_least=1)
    as_count("n_iter", model.n_iter, at_least=0)
    threads = resolve(model.threads)
    passes = Passes(len(X), as_count("n_components", model.n_components, at_least=1), lengths)
    if type(model.monitor_) is ConvergenceMonitor:  # parameters may have been set since
        model.monitor_ = ConvergenceMonitor(model.tol, model.n_iter, model.verbose)
    given = model._copied() if restarts > 1 else None
    model._init(X, passes.lengths)
    model._check()
    data = model._prepared(X)
    if given is None:
        _iterate(model, data, passes, threads)
    else:
        _restart(model, X, data, passes, threads, given, restarts)


#: Parameters that are probabilities.
_SHARES = {"startprob_", "transmat_", "emissionprob_", "weights_"}


def _read(model: Any, shapes: dict[str, tuple[int, ...]]) -> None:
    """Take what an M-step or a monitor has made of the parameters: C++ trusts them."""
    for name, shape in shapes.items():
        value = getattr(model, name)
        array = as_doubles(name.lstrip("_"), value)
        if array.shape != shape:
            raise ValueError(
                f"{name.lstrip('_')} must keep its shape {shape} while fit runs, got {array.shape}"
            )
        if not np.isfinite(array).all() or (name in _SHARES and array.min(initial=0.0) < 0.0):
            wanted = "finite and not negative" if name in _SHARES else "finite"
            raise ValueError(f"{name.lstrip('_')} must be {wanted} while fit runs")
        if array is not value:
            setattr(model, name, array)


def _iterate(model: Any, data: Any, passes: Passes, threads: int) -> None:
    """Improve the parameters until the monitor says that it is enough."""
    monitor = model.monitor_
    monitor._reset()
    shapes = {name: np.shape(getattr(model, name)) for name in model._letters.values()}
    with np.errstate(under="ignore"):  # probabilities may be as small as they like
        for _ in range(model.n_iter):
            _read(model, shapes)
            sums = model._e_step(data, passes, threads, "t" in model.params)
            log_prob = float(passes.log_z.sum())
            stats: dict[str, Any] = model._accumulate(data, passes, threads)
            stats["start"], stats["trans"] = passes.starts(), sums
            model._do_mstep(stats)
            monitor.report(log_prob)
            if monitor.converged:
                break
    model._check_last()


def _restart(
    model: Any, X: Array, data: Any, passes: Passes, threads: int, given: Any, restarts: int
) -> None:
    """Start several times, first from where the model is; the parameters end at the best found.

    Starts that fail count for nothing; where all do, the first error is raised.
    """
    monitor = model.monitor_
    seeds: Any = ()

    def outcome() -> tuple[float, Any, list[float], int]:
        history = list(monitor.history)
        return (history[-1] if history else -np.inf), model._copied(), history, monitor.iter

    best: Any = None
    failed: Any = None  # the first error, and what that start left
    try:
        for start in range(restarts):
            if start == 1:
                random = as_random_state(model.random_state)
                seeds = random.randint(np.iinfo(np.int32).max, size=restarts - 1)
            if start:
                given()
                model._restarted = np.random.RandomState(seeds[start - 1])
                model._init(X, passes.lengths)
                model._check()
            try:
                _iterate(model, data, passes, threads)
            except ValueError as error:
                failed = failed or (error, outcome())
                continue
            found = outcome()
            if best is None or found[0] > best[0]:
                best = found
    finally:
        model._restarted = None
        if best is not None or failed is not None:
            _, keep, history, monitor.iter = failed[1] if best is None else best
            keep()
            monitor.history.clear()
            monitor.history.extend(history)
    if best is None:
        raise failed[0]
