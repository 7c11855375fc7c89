"""Bounds on log Z that cost about as much as the loopy inference beside which they stand."""

from __future__ import annotations

from typing import Any

import numpy as np

from valuesparse.errors import DeadlineError
from valuesparse.inference import _loopy
from valuesparse.inference._watch import Watch
from valuesparse.models import FactorGraph
from valuesparse.results import GraphResult

__all__ = ["bounded"]

#: Factors of two and more variables above which spanning forests take longer than messages.
_MOST_FACTORS = 50_000


def bounded(
    result: GraphResult, model: FactorGraph, given: dict[int, Any], workers: int, watch: Watch
) -> GraphResult:
    """Return a result of loopy inference with the bounds of mean field and of the TRW dual.

    What a deadline leaves no time for stays infinite: the answer is there.
    """
    lower, upper, why = -np.inf, np.inf, ""
    if len(model._wide_scopes()) > _MOST_FACTORS:
        why = f"the graph has more than {_MOST_FACTORS} factors of two and more variables"
    else:
        try:
            options = _loopy.options_of("mean_field", {})
            field = _loopy.infer(
                model, "mean_field", "", options, given, workers, watch.left(), None
            )
            lower = float(field.log_z)
            upper = _bound(model, given, workers, watch)
        except DeadlineError:
            why = "the deadline left no time"
    if why:
        words = f"; bounds on log Z were not computed: {why} (vs.bounds.log_z gives them)"
    else:
        words = f"; log Z lies between {lower:.6g} (mean field) and {upper:.6g} (TRW dual)"
    return result._with(_log_z_bounds=(lower, upper), reason=result.reason + words)


def _bound(model: FactorGraph, given: dict[int, Any], workers: int, watch: Watch) -> float:
    graph = model._copy()
    graph.evidence = dict(given)
    bound = _loopy.trw_dual_bound(graph, threads=workers, deadline=watch.left())
    return bound.upper
