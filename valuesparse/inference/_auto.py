"""Loopy inference of "auto": the methods that are tried, and bounds on log Z beside the answer."""

from __future__ import annotations

from typing import Any

import numpy as np

from valuesparse.errors import DeadlineError
from valuesparse.inference import _loopy
from valuesparse.inference._mean_field import NoForestError
from valuesparse.inference._methods import BP, TRW, Loopy, StructuredMeanField
from valuesparse.inference._trw import trw_dual_bound
from valuesparse.inference._watch import Watch
from valuesparse.models import FactorGraph
from valuesparse.models._blocks import n_wide, structured_factors
from valuesparse.results import GraphResult

__all__ = ["infer"]

#: Factors of two and more variables above which spanning forests take longer than messages.
_MOST_FACTORS = 50_000
#: Variables of structured factors times factors of two and more variables above which structured
#: mean field takes a thousand times as long as messages.
_MOST_CROSSINGS = 20_000
#: For lower bounds. Ten iterations take as long as naive mean field until it converges, and give a
#: far better bound; more iterations improve it little.
_FIELD = StructuredMeanField(max_iterations=10)
#: Change of a log-ratio from which messages are far from any fixed point.
_WANDERING = 1.0


_LOG_Z = {
    "bp": "log_z is the Bethe free energy",
    "trw": "log_z is an upper bound once they have converged",
}


def infer(
    model: FactorGraph,
    reason: str,
    start: GraphResult | None,
    given: dict[int, Any],
    workers: int,
    watch: Watch,
) -> GraphResult:
    """Return the result of belief propagation, damped if need be, with bounds on log Z."""
    tries: list[tuple[Loopy, str]] = [
        (BP(start=start), ""),
        (BP(damping=0.5), "damped, since it did not converge without"),
        (TRW(), "in the end tree-reweighted messages, since it did not converge"),
    ]
    best: GraphResult | None = None
    words, done, total = "", 0, sum(_loopy.steps_of(method) for method, _ in tries)
    for method, why in tries:
        if isinstance(method, TRW) and best is not None and best.residuals[-1] < _WANDERING:
            break
        progress = watch.part(done, done := done + _loopy.steps_of(method), total)
        try:
            found = _loopy.infer(model, method, reason, given, workers, watch, progress)
        except DeadlineError:
            if best is None:
                raise
            break
        if best is None or found.converged or found.residuals[-1] < best.residuals[-1]:
            best, words = found, why
        if found.converged:
            break
    assert best is not None
    words = ", ".join(filter(None, [words, _LOG_Z[best.method]]))
    best = best.replaced(reason=f"{best.reason}; {words}")
    bounded = _bounded(best, model, given, workers, watch)
    watch.finish(total)
    return bounded


def _bounded(
    result: GraphResult, model: FactorGraph, given: dict[int, Any], workers: int, watch: Watch
) -> GraphResult:
    """Return a result of loopy inference with the bounds of structured mean field and the TRW dual.

    A bound stays infinite where the deadline leaves no time for it.
    """
    lower, upper, why = -np.inf, np.inf, ""
    own = structured_factors(model).values()
    left_out = sum(len(factor.scope) for factor in own) * n_wide(model) > _MOST_CROSSINGS
    if n_wide(model) > _MOST_FACTORS:
        why = f"the graph has more than {_MOST_FACTORS} factors of two and more variables"
    else:
        try:
            if not left_out:
                field = _loopy.infer(model, _FIELD, "", given, workers, watch)
                lower = float(field.log_z)
            upper = _bound(model, given, workers, watch)
        except DeadlineError:
            why = "the deadline left no time"
        except NoForestError:
            why = "no forest holds every structured factor"
    if why:
        words = f"; bounds on log Z were not computed: {why} (vs.bounds.log_z gives them)"
    elif left_out:
        words = f"; log Z is at most {upper:.6g} (TRW dual); a lower bound by structured mean "
        words += "field would take far longer than the messages (vs.bounds.log_z gives it)"
    else:
        words = f"; log Z lies between {lower:.6g} (structured mean field)"
        words += f" and {upper:.6g} (TRW dual)"
    if lower == -np.inf and not (why or left_out):
        words += "; no mean field was found that avoids the zeros (vs.bounds.log_z looks further)"
    return result.replaced(_log_z_bounds=(lower, upper), reason=result.reason + words)


def _bound(model: FactorGraph, given: dict[int, Any], workers: int, watch: Watch) -> float:
    graph = model.copy()
    graph.know(given)
    bound = trw_dual_bound(graph, threads=workers, deadline=watch.left())
    return bound.upper
