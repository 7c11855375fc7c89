"""Conditioning: a junction tree too large for memory is answered slice by slice.

With a variable of k states held, every table that it is in has one k-th of the entries. A tree that
does not fit is therefore asked once for each joint state of a few variables of its largest
separators (a slice). Over the slices s:

    Z = sum Z_s        p(x) = sum Z_s / Z * p_s(x)        best = the best of the slices

The answer is as exact as that of the whole tree. It takes the same time or a small multiple, since
cliques without these variables are shared or computed again; at best it takes the memory of the
whole tree divided by the number of slices.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from valuesparse import _junction
from valuesparse.inference._memory import show_bytes
from valuesparse.inference._refusals import outputs, too_large
from valuesparse.inference._search import Search
from valuesparse.inference._watch import Progress, Watch
from valuesparse.models import FactorGraph

__all__ = [
    "ASKED",
    "AUTO",
    "NEVER",
    "WHOLE",
    "Mixture",
    "Question",
    "Slices",
    "answer",
    "each",
    "longer",
    "masses",
    "slices_of",
]

Array = npt.NDArray[Any]

#: Time budgets of conditioning, in seconds as predicted for one thread: where exact inference was
#: asked for, where "auto" could approximate instead, and where only a tree that fits is of use.
ASKED, AUTO, NEVER = 3600.0, 300.0, 0.0

#: Entries for which a search of seconds is worth its time, before a tree is divided.
_LONG = 4e9

_MOST_SLICES = 256
#: Variables that are tried at each step: those in the largest separators.
_CANDIDATES = 12
#: A tree is refused at once where it is this many times too large, or too slow, for the most
#: slices; below that it may fit, since a held variable can leave others fewer states.
_BEYOND = 16.0
#: The least share of a slice whose small entries keep their digits when they are multiplied by it.
_LEAST_SHARE = 1e-30


class Slice(NamedTuple):
    """Joint states of the leading variables conditioned on, and what the tree costs given them."""

    states: tuple[int, ...]
    bytes: float
    seconds: float
    entries: float


class Slices(NamedTuple):
    """The slices of a question: a single one without states where the tree fits as it is."""

    variables: tuple[int, ...]
    parts: tuple[Slice, ...]

    @property
    def bytes(self) -> float:
        """Bytes of the largest slice: there is one at a time."""
        return max((part.bytes for part in self.parts), default=0.0)

    @property
    def seconds(self) -> float:
        """Seconds of all slices, one after the other, on one thread."""
        return sum(part.seconds for part in self.parts)

    @property
    def entries(self) -> float:
        """Entries of all clique tables of all slices."""
        return sum(part.entries for part in self.parts)

    def held(self, held: Array, states: tuple[int, ...]) -> Array:
        """Return the states that are held in a slice: those of `held`, and its own."""
        more = held.copy()
        more[list(self.variables[: len(states)])] = states
        return more

    def describe(self, names: Any) -> str:
        """Return the variables and the number of slices, for people."""
        shown = ", ".join(str(names[v]) for v in self.variables)
        return f"conditioned on {shown}: {len(self.parts)} slices"


#: The slices of a tree that fits.
WHOLE = Slices((), (Slice((), 0.0, 0.0, 0.0),))


class Mixture:
    """Arrays averaged over slices, weighted by mass; `log_z` is the log of the mass so far.

    With `logs`, the arrays are logarithms.
    """

    def __init__(self, slices: Slices, logs: bool = False) -> None:
        self.log_z = -np.inf
        self.arrays: list[Array] = []
        self.widened = False
        self.faithful = True  # every entry, however small, has its digits
        self._logs = logs
        self._single = len(slices.parts) == 1

    def add(self, log_z: float, arrays: Iterable[Array] = ()) -> float:
        """Add a slice; return its share of the mass so far."""
        # Shares come from the difference of the two masses: taken from their sum, whose last digits
        # are those of large numbers, they would not add up to one.
        ahead = log_z - self.log_z
        rest, own = -float(np.logaddexp(0.0, ahead)), -float(np.logaddexp(0.0, -ahead))
        before, share = math.exp(rest), math.exp(own)
        if self.arrays and min(before, share) < _LEAST_SHARE:
            self.faithful = False
        if not self.arrays:
            # The next slice writes to the same arrays.
            self.arrays = [x if self._single else x.copy() for x in arrays]
        else:
            for x, y in zip(self.arrays, arrays, strict=True):
                if self._logs:
                    np.logaddexp(x + rest, y + own, out=x)
                    continue
                x *= before
                x += share * y
        self.log_z = float(np.logaddexp(self.log_z, log_z))
        return share


class Question(NamedTuple):
    """A tree, and the evidence that it is prepared for: states (−1 elsewhere) and likelihoods."""

    tree: _junction.CliqueTree
    held: Array
    soft: _junction.Soft | None
    search: Search
    watch: Watch


def each(question: Question, slices: Slices, steps: int) -> Iterator[Progress | None]:
    """Prepare the tree for one slice after the other; yield the callback of each that has states.

    Every slice counts `steps`. Neighbours differ in the last variables: messages that depend on
    none of these are not computed again.
    """
    tree, held, soft, search, watch = question
    total = steps * len(slices.parts)
    for i, part in enumerate(slices.parts):
        known, start = slices.held(held, part.states), watch.part(steps * i, steps * i, total)
        if tree.prepare(known, soft, search, watch.left(), start, watch.late) < 0:
            yield watch.part(steps * i, steps * (i + 1), total)
    watch.finish(total)


def masses(
    question: Question,
    slices: Slices,
    workers: int,
    flat: Array | None = None,
    logs: bool = False,
) -> Iterator[float]:
    """Ask the tree slice by slice: yield the log mass of each that has one, marginals in `flat`."""
    tree, soft, watch = question.tree, question.soft, question.watch
    for progress in each(question, slices, 2 * tree.n_cliques()):
        impossible, log_z = tree.infer(
            soft, workers, flat, watch.left(), progress, watch.late, logs
        )
        if not impossible:
            yield log_z


def answer(
    question: Question,
    slices: Slices,
    workers: int,
    flat: Array | None = None,
    tables: Callable[[], Iterable[Array]] = tuple,
    logs: bool = False,
) -> Mixture:
    """Ask every slice; return the mixture: log Z, marginals where `flat` is given, `tables()`."""
    total, tree = Mixture(slices, logs), question.tree
    if slices is WHOLE:  # it is prepared, and there is nothing to put together
        watch, steps = question.watch, 2 * tree.n_cliques()
        impossible, log_z = tree.infer(
            question.soft,
            workers,
            flat,
            watch.left(),
            watch.part(0, steps, steps),
            watch.late,
            logs,
        )
        watch.finish(steps)
        if not impossible:
            total.log_z, total.widened = log_z, tree.widened()
            if flat is not None:
                total.faithful = tree.faithful() and not total.widened
                total.arrays.append(flat)
            total.arrays.extend(tables())
        return total
    for mass in masses(question, slices, workers, flat, logs):
        total.widened = total.widened or tree.widened()
        if flat is not None:
            # Numbers that need a wider range may be too small for a double.
            clean = tree.faithful() and not tree.widened()
            total.faithful = total.faithful and clean
        total.add(mass, itertools.chain([] if flat is None else [flat], tables()))
    return total


def _refuse_division(tree: _junction.CliqueTree, limit: float, budget: float) -> str | None:
    """Return why it is not tried to divide a tree; None where it is."""
    if budget <= 0.0:
        return ""
    if tree.cost()[2] > _BEYOND * _MOST_SLICES * limit:
        return "conditioning on variables would not make it small enough"
    if tree.seconds() > _BEYOND * budget:
        return _too_slow("conditioned on variables", tree.seconds(), budget)
    return None


def _divide(question: Question, names: Any, limit: float, budget: float) -> Slices | str:
    """Return the slices in which a tree fits in memory, or why there are none.

    Parameters
    ----------
    question : Question
        Its tree does not fit; afterwards it is prepared as before.
    names : sequence
        The names of the variables, for the words of a refusal.
    limit : float
        Bytes that a slice may take.
    budget : float
        Seconds that all slices together may take, as predicted for one thread.

    Notes
    -----
    Greedy: the largest slice is divided by each of the variables in the largest separators, and the
    one that leaves the least memory times time is taken for every slice that does not fit.
    """
    refusal = _refuse_division(question.tree, limit, budget)
    if refusal is not None:
        return refusal
    probe = _CostProbe(question)
    parts = [probe.whole()]
    try:
        while parts and max(part.bytes for part in parts) > limit:
            if not probe.add_variable(max(parts, key=lambda part: part.bytes)):
                return f"{_describe(probe, parts, names)}, nothing would make it smaller"
            fits = [part.bytes <= limit for part in parts]
            parts = [
                finer
                for part, small in zip(parts, fits, strict=True)
                for finer in ([part] if small else probe.parts(part))
            ]
            seconds = sum(part.seconds for part in parts)
            if seconds > budget:
                return _too_slow(_describe(probe, parts, names), seconds, budget)
            if len(parts) > _MOST_SLICES:
                most = show_bytes(max(part.bytes for part in parts))
                return f"{_describe(probe, parts, names)}, it would still need {most}"
    finally:
        question.tree.prepare(question.held, question.soft, question.search)
    return Slices(tuple(probe.variables), tuple(parts))


class _CostProbe:
    """Measures what a tree costs with more and more variables held."""

    def __init__(self, question: Question) -> None:
        self.question, self.tree = question, question.tree
        self.variables: list[int] = []
        self.cliques, parent = self.tree.cliques()
        self.separators = [
            set(clique).intersection(self.cliques[above] if above >= 0 else ())
            for clique, above in zip(self.cliques, parent, strict=True)
        ]

    def whole(self) -> Slice:
        """Return what the tree costs as it is prepared."""
        cost = self.tree.cost()
        return Slice((), cost[2], self.tree.seconds(), cost[1])

    def prepare(self, states: tuple[int, ...], variables: list[int]) -> bool:
        """Lay the tree out for a slice; False where it has no configuration."""
        _, held, soft, search, watch = self.question
        known = Slices(tuple(variables), ()).held(held, states)
        return self.tree.prepare(known, soft, search, watch.left(), None, watch.late) < 0

    def cost(self, states: tuple[int, ...], variables: list[int]) -> Slice | None:
        """Return a slice; None where it has no configuration."""
        if not self.prepare(states, variables):
            return None
        return self.whole()._replace(states=states)

    def parts(self, part: Slice, variables: list[int] | None = None) -> list[Slice]:
        """Return the slices that a slice falls into by the last of the variables."""
        variables = variables or self.variables
        self.prepare(part.states, variables[:-1])
        found = [self.cost((*part.states, x), variables) for x in self.tree.alive(variables[-1])]
        return [finer for finer in found if finer is not None]

    def add_variable(self, part: Slice) -> bool:
        """Add the variable that divides a slice best; False where none makes it smaller."""
        self.prepare(part.states, self.variables)
        best, least = -1, math.inf
        for v in self.candidates():
            finer = self.parts(part, [*self.variables, v])
            size = max((x.bytes for x in finer), default=0.0)
            # Half the memory is worth twice the time.
            cost = size * sum(x.seconds for x in finer)
            if size < part.bytes and cost < least:
                best, least = v, cost
        if best >= 0:
            self.variables.append(best)
        return best >= 0

    def candidates(self) -> list[int]:
        """Return variables of the largest separators, or cliques where there are none."""
        alive = {v: len(self.tree.alive(v)) for clique in self.cliques for v in clique}
        weight: dict[int, tuple[float, float]] = {}
        for clique, separator in zip(self.cliques, self.separators, strict=True):
            entries = math.prod(float(alive[v]) for v in clique)
            shared = math.prod(float(alive[v]) for v in separator)
            for v in clique:
                if alive[v] > 1:
                    a, b = weight.get(v, (0.0, 0.0))
                    # Holding it saves this part of the entries.
                    part = 1.0 - 1.0 / alive[v]
                    weight[v] = a + part * shared * (v in separator), b + part * entries
        return sorted(weight, key=lambda v: (weight[v], -v), reverse=True)[:_CANDIDATES]


def _describe(probe: _CostProbe, parts: list[Slice], names: Any) -> str:
    if not probe.variables:
        return "conditioned on any variable"
    return Slices(tuple(probe.variables), tuple(parts)).describe(names)


def _too_slow(what: str, seconds: float, budget: float) -> str:
    return f"{what}, it would take about {seconds:.2g} s on one thread, above {budget:g} s"


def slices_of(
    question: Question, graph: FactorGraph, limit: int, budget: float, more: float = 0.0
) -> Slices | str:
    """Return how a tree, and `more` bytes, fit in `limit`, or why not at all.

    `budget`: seconds, as predicted for one thread, that conditioning may take.
    """
    refusal = too_large(question.tree, graph, limit, more)
    if refusal is None:
        return WHOLE
    found = _divide(question, graph.names, limit - outputs(graph) - more, budget)
    if isinstance(found, str):
        return f"{refusal}; {found}" if found else refusal
    return found


def longer(
    tree: _junction.CliqueTree, graph: FactorGraph, search: Search, limit: int, budget: float
) -> Search | None:
    """Return a longer search for a tree that does not fit, where slices of it may; else None."""
    if search.effort == 0.0 or search.fits >= _LONG or too_large(tree, graph, limit) is None:
        return None
    if _refuse_division(tree, limit - outputs(graph), budget) is not None:
        return None
    return search._replace(fits=_LONG)
