"""Loopy inference on factor graphs: messages that go round cycles until they converge."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from valuesparse.inference import _forests, _mean_field
from valuesparse.inference._dual import best_forest, probabilities, shares
from valuesparse.inference._methods import (
    BP,
    SCHEDULES,
    TRW,
    Loopy,
    MeanField,
    StructuredMeanField,
    refuse,
)
from valuesparse.inference._network import Held, State, local_of, network_of, slack_of
from valuesparse.inference._refusals import impossible
from valuesparse.inference._warm import first_messages
from valuesparse.inference._watch import Watch
from valuesparse.models import FactorGraph
from valuesparse.results import GraphResult

__all__ = ["decode", "decode_passes", "infer", "two_passes"]

Array = npt.NDArray[Any]

#: Change of a message that is rounding, where evidence cuts all cycles.
_ROUNDING = 1e-9
#: Forests of max-product "trw".
_DECODING_FORESTS = 8


def infer(
    model: FactorGraph,
    method: Loopy,
    reason: str,
    evidence: dict[int, Any],
    workers: int,
    deadline: float | None,
    progress: Callable[[int, int], object] | None,
) -> GraphResult:
    """Return beliefs and the free energy that `method` gives."""
    watch = Watch(deadline, None)
    network = network_of(model, watch)
    local = local_of(network, model, evidence)
    if isinstance(method, MeanField):
        return _mean_field.naive(model, network, local, reason, method, evidence, watch, progress)
    if isinstance(method, StructuredMeanField):
        return _mean_field.structured(
            model, network, local, reason, method, evidence, watch, progress
        )
    assert isinstance(method, (BP, TRW))
    messages = first_messages(network, local, method.start)
    rho = probabilities(network, method, watch) if isinstance(method, TRW) else None
    steps = method.optimise if isinstance(method, TRW) else 0
    marginals = np.empty(local.shape)
    with Held(network, watch) as native:
        for step in range(steps + 1):
            native.weigh(rho)
            dead, converged, residuals, updates, log_z = native.run(
                local,
                messages,
                SCHEDULES[method.schedule],
                False,
                method.damping,
                method.tolerance,
                method.max_iterations,
                workers,
                watch.left(),
                progress,
                watch.late,
                marginals,
            )
            if dead >= 0:
                break
            if rho is not None and step < steps:
                tables = np.empty(network.native.table_entries)
                dead, log_z = native.beliefs(
                    local, messages, workers, marginals, tables, watch.left(), watch.late
                )
                if dead >= 0:
                    break
                chosen = best_forest(network, marginals, tables, watch)
                rho += 2.0 / (step + 4.0) * (np.isin(np.arange(rho.size), chosen) - rho)
    if dead >= 0:
        raise impossible(model, bool(evidence))
    iterations = len(residuals)
    if not converged:
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
        state=State(network, local, messages, rho, False),
        flat=marginals,
    )


def two_passes(
    model: FactorGraph,
    reason: str,
    evidence: dict[int, Any],
    workers: int,
    deadline: float | None,
    progress: Callable[[int, int], object] | None,
) -> GraphResult:
    """Return the exact marginals of a graph without cycles, whatever its factors are."""
    found = infer(model, _passes(model), reason, evidence, workers, deadline, progress)
    return found._with(
        method="exact", reason=reason, converged=True, stats={}, residuals=np.empty(0)
    )


def decode_passes(model: FactorGraph, evidence: dict[int, Any], workers: int, watch: Watch) -> Best:
    """Return the best configuration of a graph without cycles."""
    return decode(model, _passes(model), evidence, workers, watch)._replace(converged=True)


def _passes(model: FactorGraph) -> BP:
    """Return the schedule that is exact without cycles: up and down once for each forest."""
    network = network_of(model)
    groups = np.arange(network.n_groups)
    if network.forest(groups).size == groups.size:
        return BP(schedule="tree", max_iterations=1)
    return BP(schedule="tree", max_iterations=groups.size + 1, tolerance=_ROUNDING)


class Best(NamedTuple):
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
) -> Best:
    """Return a configuration of high score; with "trw" also a bound on the best one."""
    # Max-product messages cannot begin from sum-product ones, and forests are drawn here.
    refuse(method, ("start", "edge_probabilities", "optimise"), "decode")
    network = network_of(model, watch)
    local = local_of(network, model, evidence)
    messages = np.zeros(network.native.entries)
    found = []
    if isinstance(method, TRW):
        found = _forests.cover(network, _DECODING_FORESTS, method.seed, watch)
    upper = None
    with Held(network, watch) as native:
        native.weigh(shares(network.n_groups, found) if found else None)
        dead, converged, *_ = native.run(
            local, messages, SCHEDULES[method.schedule], True, method.damping,
            method.tolerance, method.max_iterations, workers, watch.left(), watch.progress,
            watch.late, None,
        )  # fmt: skip
        if dead < 0:
            dead, states, score = native.assign(local, messages, workers, watch.left(), watch.late)
        if dead < 0 and found:
            ptr = np.cumsum([0] + [len(tree) for tree in found])
            dead, scores, scale = native.forests(
                local, messages, ptr, np.concatenate(found), True, watch.left(), watch.late
            )
            slack = slack_of(network, len(found), scale, evidence)
            upper = float(scores.mean()) + network.constant + slack
    if dead >= 0 or upper == -np.inf:
        raise impossible(model, bool(evidence))
    return Best(states, score + network.constant, converged, upper)
