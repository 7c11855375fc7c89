"""Every call of the command line into inference on graphs, in one place."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from valuesparse import Decoding, FactorGraph, JunctionTree, Result
    from valuesparse.inference import Division

__all__ = ["Forecast", "LogPartition", "best_states", "forecast", "marginals", "mass"]


class Forecast(NamedTuple):
    """The cost of exact inference, and the choice that `infer` would make."""

    tree: JunctionTree | None  # None: the search was given up
    division: Division | None  # None: it is refused
    compiling: float  # seconds that it took to find the tree
    method: str | None  # None: refused
    reason: str


def forecast(graph: FactorGraph, memory_limit: int | None, zeta: float | None = None) -> Forecast:
    """Return what `infer` would do, without doing it."""
    import valuesparse as vs
    from valuesparse.inference._graphs import choose

    began = time.perf_counter()
    exact = choose(graph, memory_limit=memory_limit)
    compiling = time.perf_counter() - began
    choice = exact if zeta is None else choose(graph, zeta, memory_limit=memory_limit)
    division = None
    if exact.tree is not None:
        with contextlib.suppress(vs.MemoryLimitError):
            division = exact.tree.divide()
    return Forecast(exact.tree, division, compiling, choice.method, choice.reason)


class LogPartition(NamedTuple):
    """The log partition function, and how it came about."""

    log_z: float
    method: str
    reason: str


def mass(
    graph: FactorGraph,
    *,
    threads: int | None,
    memory_limit: int | None,
    progress: Callable[[int, int], object] | None,
) -> LogPartition:
    """Return the exact log partition function alone."""
    from valuesparse.inference._graphs import mass as mass_of
    from valuesparse.threads import resolve

    found, slices = mass_of(graph, resolve(threads), memory_limit, progress)
    reason = "messages upwards suffice for the partition function"
    return LogPartition(found, "exact", f"{reason}; {slices}" if slices else reason)


def marginals(
    graph: FactorGraph,
    *,
    zeta: float | None,
    threads: int | None,
    memory_limit: int | None,
    progress: Callable[[int, int], object] | None,
) -> Result:
    """Return the result of `infer`: ``marginals``, ``log_z``, ``method`` and ``reason``."""
    import valuesparse as vs

    return vs.infer(
        graph,
        zeta=1.0 if zeta is None else zeta,
        threads=threads,
        memory_limit=memory_limit,
        progress=progress,
    )


def best_states(
    graph: FactorGraph,
    *,
    threads: int | None,
    memory_limit: int | None,
    progress: Callable[[int, int], object] | None,
) -> Decoding:
    """Return the result of `decode`: ``states`` and ``score``."""
    import valuesparse as vs

    return vs.decode(graph, threads=threads, memory_limit=memory_limit, progress=progress)
