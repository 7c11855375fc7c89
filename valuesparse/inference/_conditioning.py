"""Conditioning: a junction tree too large for memory is answered slice by slice.

With a variable of k states held, every table that it is in has one k-th of the entries. So a tree
that does not fit is asked once for each joint state of a few variables of its largest separators
(a slice), and the answers are put together: masses add up, marginals and joints are averages
weighted by mass, the best configuration is that of the best slice. That is as exact as the whole
tree, takes its time (or a small multiple: what has none of the variables is shared or done again),
and its memory divided by the number of slices, at best.
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
from valuesparse.inference._search import Search
from valuesparse.inference._watch import Watch

__all__ = [
    "ASKED",
    "AUTO",
    "LONG",
    "NEVER",
    "WHOLE",
    "Case",
    "Mixture",
    "Slices",
    "answer",
    "divide",
    "each",
    "hopeless",
    "masses",
]

Array = npt.NDArray[Any]

#: Seconds, as predicted for one thread, that conditioning may take: exact inference was asked for,
#: or "auto" could approximate instead, or only a tree that fits is of use.
ASKED, AUTO, NEVER = 3600.0, 300.0, 0.0

#: Entries that are worth a search of seconds for a tree to divide.
LONG = 4e9

_MOST_SLICES = 256
#: Variables whose effect is measured, of those that promise most.
_CANDIDATES = 12
#: Times too large, or too slow, for parts of it to be looked at; zeros may do more than halve.
_BEYOND = 16.0
#: Shares above this take no digits of what is small: the rest of a double's range is left to it.
_LEAST_SHARE = 1e-30


class Slice(NamedTuple):
    """States of the first variables that are conditioned on; what the tree costs given them."""

    states: tuple[int, ...]
    bytes: float
    seconds: float
    entries: float


class Slices(NamedTuple):
    """What a question is made of: one slice without states where the tree fits as it is."""

    variables: tuple[int, ...]
    parts: tuple[Slice, ...]

    @property
    def bytes(self) -> float:
        """Of the largest: one is there at a time."""
        return max((part.bytes for part in self.parts), default=0.0)

    @property
    def seconds(self) -> float:
        """Of all, one after the other, on one thread."""
        return sum(part.seconds for part in self.parts)

    @property
    def entries(self) -> float:
        """Of all clique tables of all slices."""
        return sum(part.entries for part in self.parts)

    def held(self, held: Array, states: tuple[int, ...]) -> Array:
        """Return what is known in the slice with these states: more than `held`."""
        more = held.copy()
        more[list(self.variables[: len(states)])] = states
        return more

    def words(self, names: Any) -> str:
        """Return what was done, for people."""
        shown = ", ".join(str(names[v]) for v in self.variables)
        return f"conditioned on {shown}: {len(self.parts)} slices"


#: A tree that fits.
WHOLE = Slices((), (Slice((), 0.0, 0.0, 0.0),))


class Mixture:
    """Arrays averaged over slices, weighted by mass; `log_z` is the log of all of it so far.

    With `logs` they are logarithms.
    """

    def __init__(self, slices: Slices, logs: bool = False) -> None:
        self.log_z = -np.inf
        self.arrays: list[Array] = []
        self.widened = False
        self.faithful = True  # every entry, however small, has its digits
        self._logs = logs
        self._alone = len(slices.parts) == 1

    def add(self, log_z: float, arrays: Iterable[Array] = ()) -> float:
        """Add a slice; return the share that it has in all so far."""
        # From the difference of the two masses: shares taken from the sum, whose last digits are
        # those of large numbers, would not add up to one.
        ahead = log_z - self.log_z
        rest, own = -float(np.logaddexp(0.0, ahead)), -float(np.logaddexp(0.0, -ahead))
        before, share = math.exp(rest), math.exp(own)
        if self.arrays and min(before, share) < _LEAST_SHARE:
            self.faithful = False
        if not self.arrays:
            # The next slice writes to the same ones.
            self.arrays = [x if self._alone else x.copy() for x in arrays]
        else:
            for x, y in zip(self.arrays, arrays, strict=True):
                if self._logs:
                    np.logaddexp(x + rest, y + own, out=x)
                    continue
                x *= before
                x += share * y
        self.log_z = float(np.logaddexp(self.log_z, log_z))
        return share


class Case(NamedTuple):
    """A tree that is prepared for a question, and what it is told: states and likelihoods."""

    tree: _junction.CliqueTree
    held: Array
    soft: _junction.Soft | None
    search: Search
    watch: Watch


def each(case: Case, slices: Slices) -> Iterator[int]:
    """Prepare the tree for one slice after the other; yield the numbers of those that have states.

    Neighbours differ in the last variables: what has none of these is not computed again.
    """
    tree, held, soft, search, watch = case
    for number, part in enumerate(slices.parts):
        known = slices.held(held, part.states)
        if tree.prepare(known, soft, search, watch.left(), None, watch.late) < 0:
            yield number


def masses(
    case: Case, slices: Slices, workers: int, flat: Array | None = None, logs: bool = False
) -> Iterator[float]:
    """Ask the tree slice by slice: yield the log mass of each that has one, marginals in `flat`."""
    tree, watch = case.tree, case.watch
    steps = 2 * tree.n_cliques()
    total = steps * len(slices.parts)
    for i in each(case, slices):
        progress = watch.part(steps * i, steps * (i + 1), total)
        dead, log_z = tree.infer(case.soft, workers, flat, watch.left(), progress, watch.late, logs)
        if not dead:
            yield log_z
    watch.finish(total)


def answer(
    case: Case,
    slices: Slices,
    workers: int,
    flat: Array | None = None,
    tables: Callable[[], Iterable[Array]] = tuple,
    logs: bool = False,
) -> Mixture:
    """Ask as `masses` does and put together: log Z, marginals where `flat` is given, `tables()`."""
    total = Mixture(slices, logs)
    for mass in masses(case, slices, workers, flat, logs):
        total.widened = total.widened or case.tree.widened()
        if flat is not None:
            # Numbers that had to be wide may be too small for these.
            clean = case.tree.faithful() and not case.tree.widened()
            total.faithful = total.faithful and clean
        total.add(mass, itertools.chain([] if flat is None else [flat], tables()))
    return total


def hopeless(tree: _junction.CliqueTree, limit: float, patience: float) -> str | None:
    """Return why no way to divide a tree is looked for, or None where one is."""
    if patience <= 0.0:
        return ""
    if tree.cost()[2] > _BEYOND * _MOST_SLICES * limit:
        return "conditioning on variables would not make it small enough"
    if tree.seconds() > _BEYOND * patience:
        return _too_slow("conditioned on variables", tree.seconds(), patience)
    return None


def divide(case: Case, names: Any, limit: float, patience: float) -> Slices | str:
    """Find variables to condition on, so that a tree fits in memory; or say why there are none.

    Parameters
    ----------
    case : Case
        Its tree does not fit; it is prepared as before afterwards.
    limit : float
        Bytes that it may take.
    patience : float
        Seconds that all slices together may take, as predicted for one thread.

    Notes
    -----
    Greedy: of the variables in the largest separators, the one is taken that leaves the largest
    slice the least memory times time, as measured; slices that do not fit are divided by it.
    """
    refusal = hopeless(case.tree, limit, patience)
    if refusal is not None:
        return refusal
    probe = _Probe(case)
    parts = [probe.whole()]
    try:
        while parts and max(part.bytes for part in parts) > limit:
            if not probe.divide(max(parts, key=lambda part: part.bytes)):
                return f"{_words(probe, parts, names)}, nothing would make it smaller"
            fits = [part.bytes <= limit for part in parts]
            parts = [
                finer
                for part, small in zip(parts, fits, strict=True)
                for finer in ([part] if small else probe.parts(part))
            ]
            seconds = sum(part.seconds for part in parts)
            if seconds > patience:
                return _too_slow(_words(probe, parts, names), seconds, patience)
            if len(parts) > _MOST_SLICES:
                most = show_bytes(max(part.bytes for part in parts))
                return f"{_words(probe, parts, names)}, it would still need {most}"
    finally:
        case.tree.prepare(case.held, case.soft, case.search)
    return Slices(tuple(probe.variables), tuple(parts))


class _Probe:
    """What a tree costs with more and more variables held."""

    def __init__(self, case: Case) -> None:
        self.case, self.tree = case, case.tree
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
        self.case.watch.left()  # raises where nothing is left
        known = Slices(tuple(variables), ()).held(self.case.held, states)
        return self.tree.prepare(known, self.case.soft, self.case.search) < 0

    def cost(self, states: tuple[int, ...], variables: list[int]) -> Slice | None:
        """Return a slice; None where it has no configuration."""
        if not self.prepare(states, variables):
            return None
        return self.whole()._replace(states=states)

    def parts(self, part: Slice, variables: list[int] | None = None) -> list[Slice]:
        """Return a slice divided by the last of the variables."""
        variables = variables or self.variables
        self.prepare(part.states, variables[:-1])
        found = [self.cost((*part.states, x), variables) for x in self.tree.alive(variables[-1])]
        return [finer for finer in found if finer is not None]

    def divide(self, part: Slice) -> bool:
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
        """Return variables in the largest separators, and where there are none, in cliques."""
        alive = {v: len(self.tree.alive(v)) for clique in self.cliques for v in clique}
        weight: dict[int, tuple[float, float]] = {}
        for clique, separator in zip(self.cliques, self.separators, strict=True):
            entries = math.prod(float(alive[v]) for v in clique)
            shared = math.prod(float(alive[v]) for v in separator)
            for v in clique:
                if alive[v] > 1:
                    a, b = weight.get(v, (0.0, 0.0))
                    # What holding it saves.
                    part = 1.0 - 1.0 / alive[v]
                    weight[v] = a + part * shared * (v in separator), b + part * entries
        return sorted(weight, key=lambda v: (weight[v], -v), reverse=True)[:_CANDIDATES]


def _words(probe: _Probe, parts: list[Slice], names: Any) -> str:
    if not probe.variables:
        return "conditioned on any variable"
    return Slices(tuple(probe.variables), tuple(parts)).words(names)


def _too_slow(what: str, seconds: float, patience: float) -> str:
    return f"{what}, it would take about {seconds:.2g} s on one thread, above {patience:g} s"
