"""Loopy inference on factor graphs: messages that go round cycles until they converge."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from valuesparse import _messages
from valuesparse._buffers import empty
from valuesparse.inference import _mean_field, _spanning
from valuesparse.inference._methods import (
    BP,
    TRW,
    Loopy,
    MeanField,
    StructuredMeanField,
    refuse,
)
from valuesparse.inference._network import (
    LIMIT,
    Held,
    LoopyCall,
    MessageState,
    first_messages,
    network_of,
)
from valuesparse.inference._trw import best_forest, probabilities, shares
from valuesparse.inference._watch import NOBODY, Watch
from valuesparse.models import FactorGraph
from valuesparse.results import GraphResult

__all__ = ["decode", "decode_passes", "infer", "messages_up", "two_passes"]

Array = npt.NDArray[Any]

#: Change of a message that is rounding, where evidence cuts all cycles.
_ROUNDING = 1e-9
#: Forests of max-product "trw".
_DECODING_FORESTS = 8
#: Iterations of max-product messages between two looks at whether they repeat themselves.
_TURN = 48


def infer(
    model: FactorGraph,
    method: Loopy,
    reason: str,
    evidence: dict[int, Any],
    workers: int,
    watch: Watch = NOBODY,
    progress: Callable[[int, int], object] | None = None,
) -> GraphResult:
    """Return beliefs and the free energy that `method` gives."""
    task = LoopyCall.of(model, evidence, watch.uncounted())
    if isinstance(method, (MeanField, StructuredMeanField)):
        ascend = _mean_field.naive if isinstance(method, MeanField) else _mean_field.structured
        return ascend(task, reason, method, workers, progress)
    assert isinstance(method, (BP, TRW))
    network, marginals = task.network, empty(task.local.shape, np.float64)
    messages = first_messages(network, task.local, method.start)
    rho = probabilities(network, method, task.watch) if isinstance(method, TRW) else None
    steps, most = method.optimise if isinstance(method, TRW) else 0, method.max_iterations
    counted = Watch(None, progress)
    best = None
    with Held(network, task.watch) as native:
        for step in range(steps + 1):
            native.weigh(rho)
            ran = converged, residuals, updates, log_z = task.run(
                native, messages, method, marginals, workers=workers,
                progress=counted.part(step * most, (step + 1) * most, steps_of(method)),
            )  # fmt: skip
            if rho is None or not steps:
                continue
            # Fixed points alone are bounds, and a step may lead to a larger one.
            bound = converged and not task.far(messages)
            if best is None or not best[0] or (bound and log_z < best[1][3]):
                best = bound, ran, messages.copy(), marginals.copy(), rho.copy()
            if step < steps:
                chosen = best_forest(task, *task.beliefs(native, messages, workers)[:2])
                rho += 2.0 / (step + 4.0) * (np.isin(np.arange(rho.size), chosen) - rho)
    if best is not None:
        _, (converged, residuals, updates, log_z), messages, marginals, rho = best
    iterations = len(residuals)
    far = task.far(messages) if converged else 0.0
    # Where all messages that grow have come to their end, beliefs are those of the limit. No bound
    # follows from it.
    if far >= LIMIT and isinstance(method, BP):
        reason += f"; messages grew round a cycle to their limit of {LIMIT:.4g}"
    elif far:
        converged = False
        reason += (
            f"; a message has grown to {far:.2g}, beyond all scores, where it no longer changes: "
            "beliefs and log_z are not those of a fixed point (damping= may help)"
        )
    elif not converged:
        reason += (
            f"; the messages still changed by {residuals[-1]:.2g} after {iterations} iterations, "
            "so beliefs and log_z are not those of a fixed point (damping= may help)"
        )
    return GraphResult(
        model,
        evidence,
        None,
        log_z + network.constant,
        method.name,
        reason,
        {"iterations": iterations, "messages": updates},
        converged=converged,
        residuals=residuals,
        state=MessageState(network, task.local, messages, rho),
        flat=marginals,
    )


def steps_of(method: Loopy) -> int:
    """Return how many steps progress is reported of, at most."""
    more = method.optimise if isinstance(method, TRW) else 0
    return (1 + more) * method.max_iterations


def two_passes(
    model: FactorGraph,
    reason: str,
    evidence: dict[int, Any],
    workers: int,
    watch: Watch = NOBODY,
    progress: Callable[[int, int], object] | None = None,
) -> GraphResult:
    """Return the exact marginals of a graph without cycles, whatever its factors are."""
    method = _passes(model)
    found = infer(model, method, reason, evidence, workers, watch, progress)
    Watch(None, progress).finish(steps_of(method))
    return found.replaced(
        method="exact", reason=reason, converged=True, stats={}, residuals=np.empty(0)
    )


def messages_up(
    model: FactorGraph, evidence: dict[int, Any], workers: int, watch: Watch, *, best: bool
) -> tuple[float, Array]:
    """Return log Z and all messages of a graph without cycles; `best`: of maxima, and no log Z."""
    task = LoopyCall.of(model, evidence, watch)
    network = task.network
    messages = np.zeros(network.native.entries)
    marginals = None if best else np.empty(task.local.shape)
    with Held(network, watch) as native:
        native.weigh(None)
        *_, log_z = task.run(
            native, messages, _passes(model), marginals, best=best, workers=workers
        )
    return log_z + network.constant, messages


def decode_passes(
    model: FactorGraph, evidence: dict[int, Any], workers: int, watch: Watch
) -> MaxProduct:
    """Return the best configuration of a graph without cycles."""
    task = LoopyCall.of(model, evidence, watch)
    native = task.network.native
    if np.bincount(native.scope, minlength=1).max() < 2:
        # No two factors share a variable: each decides its own, and no message is of use.
        with Held(task.network, watch) as native:
            native.weigh(None)
            dead, states, score = native.assign(
                task.local, np.zeros(native.entries), workers, watch.left(), watch.late
            )
        if dead < 0 and score > -np.inf:
            watch.finish(1)
            return MaxProduct(states, score + task.network.constant, True, None)
    return decode(model, _passes(model), evidence, workers, watch)._replace(converged=True)


def _passes(model: FactorGraph) -> BP:
    """Return the schedule that is exact without cycles: up and down once for each forest."""
    network = network_of(model)
    groups = np.arange(network.n_groups)
    if network.forest(groups).size == groups.size:
        return BP(schedule="tree", max_iterations=1)
    return BP(schedule="tree", max_iterations=groups.size + 1, tolerance=_ROUNDING)


class MaxProduct(NamedTuple):
    """The result of max-product messages: a configuration, and a bound on the best score."""

    states: Array
    score: float
    converged: bool
    upper: float | None


def decode(
    model: FactorGraph,
    method: BP | TRW,
    evidence: dict[int, Any],
    workers: int,
    watch: Watch,
) -> MaxProduct:
    """Return a configuration of high score; with "trw" also a bound on the best one."""
    # Max-product messages cannot begin from sum-product ones, and forests are drawn here.
    refuse(method, ("start", "edge_probabilities", "optimise"), "decode")
    task = LoopyCall.of(model, evidence, watch)
    network = task.network
    messages = np.zeros(network.native.entries)
    found = []
    if isinstance(method, TRW):
        found = _spanning.cover(network, _DECODING_FORESTS, method.seed, watch)
    upper = None
    with Held(network, watch) as native:
        native.weigh(shares(network.n_groups, found) if found else None)
        converged = _maximise(task, native, messages, method, workers, watch)
        far = task.far(messages)
        converged = converged and (not far or (far >= LIMIT and isinstance(method, BP)))
        dead, states, score = native.assign(task.local, messages, workers, watch.left(), watch.late)
        if dead >= 0:
            raise task.impossible()
        if found:
            scores, slack = task.forests(native, messages, found, True)
            upper = float(scores.mean()) + network.constant + slack
    watch.finish(method.max_iterations)
    return MaxProduct(states, score + network.constant, converged, upper)


def _maximise(
    task: LoopyCall,
    native: _messages.Network,
    messages: Array,
    method: BP | TRW,
    workers: int,
    watch: Watch,
) -> bool:
    """Pass max-product messages in place; return whether they converged.

    Those that do not converge often go round in a few steps, to the bit: turns that end where they
    began are left out.
    """
    most = method.max_iterations
    # Where more than messages counts, or all iterations are asked for.
    if method.schedule != "flooding" or task.network.structured() or method.tolerance == 0.0:
        return task.run(
            native, messages, method, best=True, workers=workers, progress=watch.progress
        )[0]
    done, kept, kept_at = 0, messages.copy(), 0
    while done < most:
        steps = min(_TURN, most - done)
        progress = watch.part(done, done + steps, method.max_iterations)
        converged, *_ = task.run(
            native, messages, method, best=True, iterations=steps, workers=workers,
            progress=progress,
        )  # fmt: skip
        done += steps
        if converged:
            return True
        if np.array_equal(messages, kept):
            most = done + (most - done) % (done - kept_at)
        elif done >= 2 * kept_at:  # so turns of any length are found in the end
            kept, kept_at = messages.copy(), done
    return False
