"""Loopy inference on factor graphs: messages that go round cycles.

A layout, made once per graph, numbers factors of two and more variables and their messages; tables
of one variable and evidence are summed into one log-vector per variable. See `ext/loopy/engine.h`
for the updates.
"""

from __future__ import annotations

import numbers
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from valuesparse import _loopy
from valuesparse._validation import as_count
from valuesparse.errors import DeadlineError
from valuesparse.inference.junction_tree import impossible
from valuesparse.models import FactorGraph
from valuesparse.results import GraphResult

__all__ = ["METHODS", "OPTIONS", "Options", "infer", "options_of"]

Array = npt.NDArray[Any]

#: Engines of this module, and the options that each takes.
OPTIONS: dict[str, frozenset[str]] = {
    "bp": frozenset({"schedule", "damping", "tolerance", "max_iterations", "start"}),
}
METHODS = tuple(OPTIONS)

_SCHEDULES = {"flooding": 0}

# The log of a zero in messages that were computed for other evidence: it may not be one any more.
_DOUBTED = -30.0


class Options(NamedTuple):
    """How messages are passed; see :func:`valuesparse.infer`."""

    schedule: str = "flooding"
    damping: float = 0.0
    tolerance: float = 1e-6
    max_iterations: int = 1000
    start: GraphResult | None = None


def options_of(method: str, given: dict[str, Any]) -> Options:
    """Return checked options; ValueError for one that `method` does not take."""
    for name in given:
        if name not in OPTIONS[method]:
            taking = [m for m, names in OPTIONS.items() if name in names]
            raise ValueError(f"{name} goes with method {' or '.join(taking)}, not {method!r}")
    o = Options(**given)
    if o.schedule not in _SCHEDULES:
        raise ValueError(f"schedule must be one of {', '.join(_SCHEDULES)}, got {o.schedule!r}")
    if not _is_number(o.damping) or not 0.0 <= float(o.damping) < 1.0:
        raise ValueError(f"damping must lie in [0, 1), got {o.damping!r}; 0 damps nothing")
    if not _is_number(o.tolerance) or not 0.0 <= float(o.tolerance) < np.inf:
        raise ValueError(f"tolerance must be a number >= 0, got {o.tolerance!r}")
    as_count("max_iterations", o.max_iterations, at_least=1)
    if o.start is not None and not (isinstance(o.start, GraphResult) and o.start._state):
        raise ValueError("start must be a result of loopy inference, with messages to begin from")
    return o._replace(damping=float(o.damping), tolerance=float(o.tolerance))


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real)


class Layout:
    """Numbers and native engine of one graph; made once, used by every call."""

    __slots__ = ("at", "cards", "constant", "engine", "factors", "local", "lock", "scopes",
                 "snapshot", "tables")  # fmt: skip

    def __init__(self, graph: FactorGraph) -> None:
        self.snapshot = graph._compiled()
        self.cards = graph._cards
        self.at = np.concatenate([[0], np.cumsum(self.cards)])
        scopes, tables = self.snapshot.scopes, self.snapshot.arrays()
        arity = [len(scope) for scope in scopes]
        #: Indices of the factors that send messages.
        self.factors = [f for f, k in enumerate(arity) if k > 1]
        self.scopes = [scopes[f] for f in self.factors]
        self.tables = [tables[f] for f in self.factors]
        self.constant = float(sum(float(tables[f]) for f, k in enumerate(arity) if k == 0))
        self.local = np.zeros(int(self.at[-1]))
        single = [f for f, k in enumerate(arity) if k == 1]
        if single:
            sizes = np.array([tables[f].size for f in single])
            first = self.at[[scopes[f][0] for f in single]]
            offset = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            where = np.repeat(first, sizes) + offset
            np.add.at(self.local, where, np.concatenate([tables[f] for f in single]))
        self.engine = _loopy.Engine(self.cards, self.scopes, self.tables)
        self.lock = threading.Lock()

    def with_evidence(self, evidence: dict[int, Any]) -> Array:
        """Return the log-vectors of all variables, evidence included."""
        local = self.local.copy()
        for v, known in evidence.items():
            row = local[self.at[v] : self.at[v + 1]]
            if isinstance(known, int):
                kept = row[known]
                row[:] = -np.inf
                row[known] = kept
            else:
                row += known
        return local


def layout_of(graph: FactorGraph) -> Layout:
    """Return the layout of `graph`, which keeps it until a factor is added."""
    layout = graph._layout
    if layout is None or layout.snapshot is not graph._compiled():
        layout = graph._layout = Layout(graph)
    return layout


class State:
    """Messages of a result: what a warm start begins from, and what beliefs are made of."""

    __slots__ = ("best", "layout", "local", "messages", "rho")

    def __init__(
        self, layout: Layout | None, local: Array, messages: Array, rho: Array | None, best: bool
    ) -> None:
        self.layout = layout
        self.local = local
        self.messages = messages
        self.rho = rho
        self.best = best

    def __getstate__(self) -> tuple[Any, ...]:
        return self.local, self.messages, self.rho, self.best

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.local, self.messages, self.rho, self.best = state
        self.layout = None

    def joints(self, model: FactorGraph) -> list[Array]:
        """Return the belief of every factor that sends messages, by its place in the layout."""
        layout = self.layout or layout_of(model)
        flat = np.empty(layout.engine.table_entries)
        with _Engine(layout) as engine:
            engine.weigh(self.rho)
            engine.beliefs(self.local, self.messages, 1, np.empty(layout.local.shape), flat)
        ends = np.cumsum([t.size for t in layout.tables])
        parts = np.split(flat, ends[:-1]) if layout.tables else []
        return [p.reshape(t.shape) for p, t in zip(parts, layout.tables, strict=True)]


class _Engine:
    """The engine of a layout for one call; another one where that is busy."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._held = False

    def __enter__(self) -> _loopy.Engine:
        layout = self._layout
        self._held = layout.lock.acquire(blocking=False)
        if self._held:
            return layout.engine
        return _loopy.Engine(layout.cards, layout.scopes, layout.tables)

    def __exit__(self, *_: object) -> None:
        if self._held:
            self._layout.lock.release()


def infer(
    model: FactorGraph,
    method: str,
    reason: str,
    options: Options,
    evidence: dict[int, Any],
    workers: int,
    deadline: float | None,
    progress: Callable[[int, int], object] | None,
) -> GraphResult:
    """Return beliefs and the free energy that `method` gives."""
    layout = layout_of(model)
    local = layout.with_evidence(evidence)
    messages = _first_messages(layout, local, options.start)
    late = None if deadline is None else DeadlineError(f"no answer within {deadline} s")
    marginals = np.empty(local.shape)
    with _Engine(layout) as engine:
        engine.weigh(None)
        dead, converged, residuals, updates = engine.run(
            local,
            messages,
            _SCHEDULES[options.schedule],
            False,
            options.damping,
            options.tolerance,
            options.max_iterations,
            workers,
            deadline,
            progress,
            late,
        )
        if dead < 0:
            dead, log_z = engine.beliefs(local, messages, workers, marginals, None)
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
        layout.snapshot.split(marginals),
        log_z + layout.constant,
        method,
        reason,
        {"iterations": iterations, "messages": updates},
        converged=converged,
        residuals=residuals,
        state=State(layout, local, messages, None, False),
    )


def _first_messages(layout: Layout, local: Array, start: GraphResult | None) -> Array:
    """Return the messages to begin from: those of `start` for the factors that both have."""
    messages = np.zeros(layout.engine.entries)
    if start is None:
        return messages
    state: State = start._state
    old = state.layout or layout_of(start._model)
    if old is layout:
        messages[:] = state.messages
    else:
        place = {f: i for i, f in enumerate(old.factors)}
        ptr = np.cumsum([0] + [len(s) for s in layout.scopes])
        old_ptr = np.cumsum([0] + [len(s) for s in old.scopes])
        for i, f in enumerate(layout.factors):
            j = place.get(f)
            if j is None or old.scopes[j] != layout.scopes[i]:
                continue
            a, b = layout.engine.edge_at[[ptr[i], ptr[i + 1]]]
            c, d = old.engine.edge_at[[old_ptr[j], old_ptr[j + 1]]]
            if b - a == d - c:
                messages[a:b] = state.messages[c:d]
    if old is not layout or not np.array_equal(local, state.local):
        np.maximum(messages, _DOUBTED, out=messages)
    return messages
