"""Tables of numbers to log-tables and back, and graphs as formats without evidence hold them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse.errors import MemoryLimitError
from valuesparse.factors import Factor, Structured, Table
from valuesparse.factors._base import FEWER
from valuesparse.models import FactorGraph
from valuesparse.models._blocks import append_tables

__all__ = [
    "factors_to_write",
    "graph_of",
    "lines_of_numbers",
    "log_of",
    "network_of",
    "numbers_of",
    "require_graph",
]

Array = npt.NDArray[np.float64]

# How far, in steps of a double, numbers are from exp(log(number)).
_NEAR = 4
# And how much a log-potential may change for which there is no number.
_ROUNDING = 1e-14


def log_of(values: Array, refuse: Callable[[int, str], Exception]) -> Array:
    """Return the logs of non-negative numbers; 0 becomes −inf.

    Parameters
    ----------
    values : ndarray
        Numbers of tables.
    refuse : callable
        Makes the error for a wrong number, from its position and what is wrong with it.
    """
    wrong = ~((values >= 0.0) & (values < np.inf))
    if wrong.any():
        at = int(wrong.argmax())
        value = float(values.flat[at])
        what = "is negative" if value < 0 else "is not finite" if value == value else "is NaN"
        raise refuse(at, f"{what}; tables hold finite numbers that are 0 or more")
    with np.errstate(divide="ignore"):
        return np.log(values)


def numbers_of(log_table: npt.ArrayLike, where: str) -> Array:
    """Return the numbers whose logs are `log_table`, bit for bit where there are such.

    The logs of doubles come back exactly; of other log-potentials, the nearest number is taken.
    Where several numbers have the same logarithm, one of at most 15 digits is preferred.

    Raises
    ------
    ValueError
        For log-potentials below -708.4 or above 709.8, which tables of numbers cannot hold.
    """
    logs = np.asarray(log_table, dtype=np.float64, order="C")
    flat = logs.reshape(-1)
    with np.errstate(divide="ignore", over="ignore"):
        numbers = np.exp(flat)
        off = np.flatnonzero(np.log(numbers) != flat)
        for direction in (0.0, np.inf):
            candidates = numbers[off]
            for _ in range(_NEAR if off.size else 0):
                candidates = np.nextafter(candidates, direction)
                found = np.log(candidates) == flat[off]
                numbers[off[found]] = candidates[found]
                off, candidates = off[~found], candidates[~found]
        error = np.abs(np.log(numbers[off]) - flat[off])
        lost = off[error > _ROUNDING * (1.0 + np.abs(flat[off]))]
    if lost.size:
        value = float(flat[lost[0]])
        raise ValueError(
            f"{where} has the log-potential {value:.6g}: numbers can stand for -inf and for "
            "-708.4 to 709.8; add a constant to the table (which changes log_z)"
        )
    # 0.1 reads better than 0.10000000000000002, whose logarithm is the same.
    short = np.array([float(f"{x:.15g}") for x in numbers.tolist()])
    with np.errstate(divide="ignore"):
        numbers = np.where(np.log(short) == flat, short, numbers)
    return numbers.reshape(logs.shape)


def require_graph(graph: Any) -> None:
    """Raise TypeError for an object that is no factor graph."""
    if not isinstance(graph, FactorGraph):
        raise TypeError(f"graph must be a valuesparse.FactorGraph, got {type(graph).__name__}")


def factors_to_write(
    graph: FactorGraph, *, hard: bool, cover: bool = False
) -> Iterator[tuple[tuple[int, ...], Array, str]]:
    """Yield scope, log-table and a name for messages, with evidence as tables over one variable.

    Parameters
    ----------
    graph : FactorGraph
        Its evidence on states becomes tables of 0 and −inf, likelihoods stay as they are.
    hard : bool
        Whether to include the evidence on states.
    cover : bool, default False
        Give variables that no factor mentions a table of zeros, so that they are not lost.
    """
    mentioned: set[int] = set()
    for i, factor in enumerate(graph.factors):
        mentioned.update(factor.scope)
        yield factor.scope, _table_to_write(graph, factor, i), f"factor {i}"
    for v, known in graph.evidence.items():
        if isinstance(known, np.ndarray):
            yield (v,), known, f"evidence on {graph.names[v]!r}"
        elif hard:
            table = np.full(graph.cardinalities[v], -np.inf)
            table[known] = 0.0
            yield (v,), table, f"evidence on {graph.names[v]!r}"
        else:
            continue
        mentioned.add(v)
    if cover:
        for v in range(graph.n_variables):
            if v not in mentioned:
                yield (v,), np.zeros(graph.cardinalities[v]), f"variable {graph.names[v]!r}"


def _table_to_write(graph: FactorGraph, factor: Factor, index: int) -> Array:
    """Return the log-table of a factor; an error says what works where it has none."""
    if isinstance(factor, Structured) and not factor.has_table:
        raise ValueError(
            f"factor {index}: {factor.lacks_table()}, and only tables can be written; pickle the "
            "graph, or use factors of fewer variables (infer(method='bp') needs no table)"
        )
    try:
        table: Array = graph.table_of(factor, index)
    except MemoryLimitError as error:
        advice = "use factors of fewer variables, or pickle the graph: only tables can be written"
        raise MemoryLimitError(str(error).replace(FEWER, advice)) from None
    return table


def lines_of_numbers(values: Sequence[Any] | npt.NDArray[Any], width: int) -> str:
    """Return numbers with all their digits, `width` on a line."""
    words = [repr(value) for value in np.asarray(values).ravel().tolist()]
    width = max(1, width)
    return "\n".join(" ".join(words[i : i + width]) for i in range(0, len(words), width))


def graph_of(
    names: Sequence[Any],
    states: Sequence[Sequence[Any] | None],
    cardinalities: Sequence[int],
    tables: Iterable[tuple[Sequence[Any], npt.ArrayLike, str]],
    *,
    directed: bool = False,
) -> FactorGraph:
    """Return the graph of tables of numbers: for each its variables, one per axis, and a name.

    Directed: each is the conditional table of its last variable (see `inference._barren`).
    """
    graph = FactorGraph(cardinalities, names=names, states=states)
    for scope, values, where in tables:
        numbers = np.asarray(values, dtype=np.float64, order="C")

        def refuse(
            at: int, problem: str, shape: tuple[int, ...] = numbers.shape, where: str = where
        ) -> ValueError:
            index = tuple(int(i) for i in np.unravel_index(at, shape))
            return ValueError(f"{where}: entry {index} {problem}")

        index = graph.add(scope, log_of(numbers, refuse))
        if directed:
            graph.mark_conditional(index)
    return graph


def network_of(
    names: Sequence[Any],
    states: Sequence[Sequence[Any]],
    scopes: Sequence[tuple[int, ...]],
    probabilities: Array,
) -> FactorGraph:
    """Return the graph of conditional tables, the variable itself last, which a reader has checked.

    `probabilities`: the numbers of all tables, one after the other. They become logs in place.
    """
    cards = [len(own) for own in states]
    graph = FactorGraph(cards, names=names, states=states)
    with np.errstate(divide="ignore"):
        logs = np.log(probabilities, out=probabilities)
    logs.flags.writeable = False
    tables, at = [], 0
    for scope in scopes:
        shape = tuple(cards[v] for v in scope)
        size = math.prod(shape)
        tables.append(Table(scope, logs[at : at + size].reshape(shape)))
        at += size
    append_tables(graph, tables)
    graph.conditional.update((f, scope[-1]) for f, scope in enumerate(scopes))
    return graph
