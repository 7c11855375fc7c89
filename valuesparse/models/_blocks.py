"""Factors of a graph: objects, and blocks of features or tables that stay in columns."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from valuesparse import _forest, _junction
from valuesparse._validation import as_count, largest_entry
from valuesparse.factors import Factor, Feature, Features, Structured, Table
from valuesparse.factors._table import Tables
from valuesparse.models._checks import check_table
from valuesparse.models._evidence import Observed

__all__ = [
    "Factors",
    "Stamp",
    "ToMake",
    "all_tables",
    "append_tables",
    "feature_indices",
    "is_wide",
    "local_tables",
    "n_wide",
    "same_factors",
    "scopes_of",
    "structured_factors",
    "tables_to_make",
    "wide_tables",
]


# How far from one the rows of a conditional table may sum: what normalising leaves.
_ROUNDING = 1e-13

Block = Features | Tables


class Stamp:
    """Graphs with the same stamp have the same variables and factors."""

    __slots__ = ("__weakref__", "to_make")

    #: The tables to be made for these factors, once asked.
    to_make: ToMake


#: The structured factors of all graphs with the same factors.
_STRUCTURED: weakref.WeakKeyDictionary[Stamp, dict[int, Structured]] = weakref.WeakKeyDictionary()


class Factors(Observed):
    """Factors over variables, in the order they were added."""

    __slots__ = ("_all", "_factors", "as_read", "blocks", "conditional", "stamp")

    #: None where the factor stands in a block and was never asked for as an object.
    _factors: list[Factor | None]
    #: All of them as objects, where somebody asked since one was added.
    _all: tuple[Factor, ...] | None
    #: First index, and the features or tables from there on.
    blocks: list[tuple[int, Block]]
    #: Factor: the variable, its last one, that it is a distribution of given the others.
    conditional: dict[int, int]
    #: Whether rows of these may be off one as in their file: then none is left out as barren.
    as_read: bool
    #: Another one with each factor: what engines prepare belongs to a stamp.
    stamp: Stamp

    @property
    def n_factors(self) -> int:
        """Number of factors."""
        return len(self._factors)

    @property
    def factors(self) -> tuple[Factor, ...]:
        """The factors, in the order they were added."""
        if self._all is not None:
            return self._all
        for start, block in self.blocks:
            here = self._factors[start : start + len(block)]
            if any(factor is None for factor in here):
                made: Sequence[Factor] = block.objects(self.cards)
                self._factors[start : start + len(block)] = [
                    new if old is None else old for old, new in zip(here, made, strict=True)
                ]
        self._all = tuple(cast("list[Factor]", self._factors))
        return self._all

    def factor(self, index: int) -> Factor:
        """Return a factor as an object, made now if it stands in a block.

        ValueError where there is no factor of that number.
        """
        if not 0 <= as_count("index", index, at_least=0) < len(self._factors):
            raise ValueError(
                f"index is {index}: there are {len(self._factors)} factors, numbered from 0"
            )
        factor = self._factors[index]
        if factor is None:
            start, block = next(b for b in reversed(self.blocks) if b[0] <= index)
            factor = self._factors[index] = block[index - start]
        return factor

    def _written(self) -> list[Factor | None]:
        """Return the factors as pickles have them: what stands in a block is there only."""
        factors = self._factors.copy()
        for start, block in self.blocks:
            factors[start : start + len(block)] = [None] * len(block)
        return factors

    def alone(self) -> npt.NDArray[np.int64]:
        """Return the indices of the factors that stand in no block."""
        alone = np.ones(len(self._factors), dtype=np.bool_)
        for start, block in self.blocks:
            alone[start : start + len(block)] = False
        return np.flatnonzero(alone)

    def _taken(
        self, factors: npt.NDArray[np.int64]
    ) -> tuple[list[Factor | None], list[tuple[int, Block]]]:
        """Return some of the factors; those of a block stay in one where they can."""
        blocks: list[tuple[int, Block]] = []
        own = self._factors
        ascending = not factors.size or bool((np.diff(factors) > 0).all())
        if self.blocks and ascending:
            # Factors of a block stay in one: no object for each.
            if factors.size and factors[-1] - factors[0] + 1 == factors.size:
                taken = own[int(factors[0]) : int(factors[-1]) + 1]
            elif own.count(None) == len(own):  # all in blocks
                taken = [None] * factors.size
            else:
                taken = list(map(own.__getitem__, factors.tolist()))
            for start, block in self.blocks:
                first, end = np.searchsorted(factors, [start, start + len(block)])
                if first < end:
                    rows = factors[first:end] - start
                    run = rows[-1] - rows[0] + 1 == rows.size
                    which = slice(int(rows[0]), int(rows[-1]) + 1) if run else rows
                    blocks.append((int(first), block.take(which)))
        else:
            taken = [self.factor(i) for i in factors.tolist()]
        return taken, blocks

    def _fill(self, other: Factors, factors: npt.NDArray[np.int64]) -> None:
        """Give another one the same variables, and some of the factors."""
        other._share(self)
        other._evidence = self._evidence
        other.magnitude, other._soft = self.magnitude, self._soft
        other._factors, other.blocks = self._taken(factors)
        other._all = None
        other.stamp = Stamp()
        other.as_read, known = self.as_read, self.conditional
        other.conditional = (
            {new: known[old] for new, old in enumerate(factors.tolist()) if old in known}
            if known
            else {}
        )

    def _append(self, factor: Factor, largest: float) -> int:
        """Add a checked factor of this magnitude and return its index."""
        self._factors.append(factor)
        self._all = None
        self.magnitude += largest
        self.stamp = Stamp()
        return len(self._factors) - 1

    def _append_block(self, block: Block) -> range:
        """Add a checked block and return the indices of its factors."""
        first = len(self._factors)
        self.blocks.append((first, block))
        self._factors.extend([None] * len(block))
        self._all = None
        self.stamp = Stamp()
        return range(first, len(self._factors))

    def _freeze(self, first: int) -> None:
        """Make tables read-only, from a factor on: they are nobody else's."""
        _junction.freeze(f.log_table for f in self._factors[first:] if isinstance(f, Table))

    def mark_conditional(self, index: int) -> None:
        """Note that a table is a distribution of its last variable, if its rows sum to one."""
        table = self._factors[index]
        if isinstance(table, Table) and table.scope:
            sums = np.exp(table.log_table).sum(axis=-1)
            if np.abs(sums - 1.0).max() <= _ROUNDING:
                self.conditional[index] = table.scope[-1]

    def stacked(
        self,
    ) -> tuple[list[Factor | None], list[tuple[int, npt.NDArray[np.int64], Any]]]:
        """Return the factors, and those of blocks (None, or not looked at, there) as arrays.

        An array stands for each block whose tables have one shape: (index of the first, scopes
        (m, k), tables (m, ...)); a table that all share has a step of 0.
        """
        factors: list[Factor | None] = list(self._factors)
        stacks = _stacks(self)
        made = {start for start, _, _ in stacks}
        for start, block in self.blocks:
            here = factors[start : start + len(block)]
            if start not in made and any(f is None for f in here):
                factors[start : start + len(block)] = block.objects(self.cards)
        return factors, stacks

    def table_of(self, factor: Factor, index: int) -> Any:
        """Return the log-table of a factor, checked unless it is one already."""
        if type(factor) is Feature:  # checked when it was added
            return factor.table(self._shape(factor.scope))
        if isinstance(factor, Table):
            return factor.log_table
        return self._made_table(factor, index)[0]

    def _made_table(self, factor: Factor, index: int) -> tuple[Any, float]:
        """Return the log-table that a factor makes, checked, and its largest magnitude."""
        try:
            table = factor.table(self._shape(factor.scope))
        except ValueError as error:
            if not isinstance(factor, Structured):
                raise
            raise ValueError(f"factor {index}: {error}") from None
        return check_table(self, factor.scope, table, index, "table")


def _stacks(graph: Factors) -> list[tuple[int, npt.NDArray[np.int64], Any]]:
    """Return the blocks whose tables have one shape: first index, scopes and tables of each."""
    stacks = []
    for start, block in graph.blocks:
        stack = block.stack(graph.cards)
        if stack is not None:
            scopes = np.ascontiguousarray(block.scopes, dtype=np.int64)
            stacks.append((start, scopes, stack))
    return stacks


def append_tables(graph: Factors, tables: Iterable[Table]) -> None:
    """Add tables that a reader has checked already: one call for all of a file."""
    first = len(graph._factors)
    for table in tables:
        # Logarithms of what fits a double: no file is long enough for them to be too much.
        graph.magnitude += _forest.weigh(table.log_table)[1]
        graph._factors.append(table)
    graph._freeze(first)
    graph._all = None
    graph.stamp = Stamp()


def structured_factors(graph: Factors) -> dict[int, Structured]:
    """Return the structured factors by their index."""
    found = _STRUCTURED.get(graph.stamp)
    if found is None:
        own = ((i, graph._factors[i]) for i in graph.alone().tolist())
        found = {i: f for i, f in own if isinstance(f, Structured)}
        _STRUCTURED[graph.stamp] = found
    return found


def is_wide(graph: Factors) -> bool:
    """Whether a factor has two variables or more."""
    return n_wide(graph) > 0 or bool(structured_factors(graph))


def n_wide(graph: Factors) -> int:
    """Return the number of factors of two variables and more."""
    inside = sum(len(block) for _, block in graph.blocks if block.scopes.shape[1] > 1)
    own = (graph._factors[i] for i in graph.alone().tolist())
    return inside + sum(f is not None and len(f.scope) > 1 for f in own)


def wide_tables(graph: Factors) -> list[npt.NDArray[np.int64]]:
    """Return the scopes, (m, k) each, of factors of two variables and more that are tables."""
    found = [
        block.scopes.astype(np.int64, copy=False)
        for _, block in graph.blocks
        if block.scopes.shape[1] > 1
    ]
    alone: dict[int, list[tuple[int, ...]]] = {}
    for i in graph.alone().tolist():
        factor = cast("Factor", graph._factors[i])
        if len(factor.scope) > 1 and not isinstance(factor, Structured):
            alone.setdefault(len(factor.scope), []).append(factor.scope)
    return found + [np.array(scopes, dtype=np.int64) for scopes in alone.values()]


def scopes_of(graph: Factors) -> list[tuple[int, ...]]:
    """Return the scopes of all factors; those in blocks stay there."""
    scopes: list[tuple[int, ...]] = [() if f is None else f.scope for f in graph._factors]
    for start, block in graph.blocks:
        scopes[start : start + len(block)] = map(tuple, block.scopes.tolist())
    return scopes


def local_tables(graph: Factors) -> tuple[npt.NDArray[np.float64], float]:
    """Return the sum of all tables of one variable, flat, and of those of none."""
    at = np.concatenate([[0], np.cumsum(graph.cards)])
    local, constant = np.zeros(int(at[-1])), 0.0
    for _, block in graph.blocks:
        k = block.scopes.shape[1]
        if k == 0:
            constant += sum(float(table) for table in block.tables(graph.cards))
        elif k == 1:
            first = at[block.scopes[:, 0]]
            if isinstance(block, Tables):
                np.add.at(local, first[:, None] + np.arange(block.log_tables.shape[1]),
                          block.log_tables)  # fmt: skip
            elif block.assignments is not None:
                np.add.at(local, first + block.assignments[:, 0], block.weights)
            elif block.fires is not None:
                for state in np.flatnonzero(block.fires).tolist():
                    np.add.at(local, first + state, block.weights)
    which: list[int] = []
    tables: list[Any] = []
    for i in graph.alone().tolist():
        f = graph._factors[i]
        if f is None or len(f.scope) > 1:
            continue
        table = f.log_table if type(f) is Table else graph.table_of(f, i)
        if f.scope:
            which.append(f.scope[0])
            tables.append(table)
        else:
            constant += float(table)
    if which:
        sizes = graph.cards[which]
        first = np.repeat(at[which] - np.cumsum(sizes) + sizes, sizes)
        np.add.at(local, first + np.arange(first.size), np.concatenate(tables))
    return local, constant


def feature_indices(graph: Factors, n_factors: int) -> list[int]:
    """Return the indices, below `n_factors`, of the factors that are features."""
    is_feature = np.zeros(len(graph._factors), dtype=np.bool_)
    for start, block in graph.blocks:
        is_feature[start : start + len(block)] = isinstance(block, Features)
    own = graph.alone()
    is_feature[own] = [isinstance(graph._factors[i], Feature) for i in own.tolist()]
    return np.flatnonzero(is_feature[:n_factors]).tolist()


def same_factors(graph: Factors, other: Factors) -> bool:
    """Return whether another graph has the same variables and the very same factors."""
    return (
        np.array_equal(graph.cards, other.cards)
        and len(graph._factors) == len(other._factors)
        and [start for start, _ in graph.blocks] == [start for start, _ in other.blocks]
        and all(a is b for (_, a), (_, b) in zip(graph.blocks, other.blocks, strict=True))
        # Those of blocks are made when asked for, by each graph its own.
        and all(graph._factors[i] is other._factors[i] for i in graph.alone().tolist())
    )


class Laid(NamedTuple):
    """Scopes and log-tables of all factors, and the magnitude of those made now.

    Blocks whose tables have one shape are `stacks`: None stands for these factors in the lists.
    """

    scopes: list[tuple[int, ...] | None]
    tables: list[Any]
    stacks: list[tuple[int, npt.NDArray[np.int64], Any]]
    made: float


def all_tables(graph: Factors) -> Laid:
    """Return the scopes and log-tables of all factors."""
    scopes: list[tuple[int, ...] | None] = [None] * len(graph._factors)
    tables: list[Any] = [None] * len(graph._factors)
    stacks = _stacks(graph)
    stacked = {start for start, _, _ in stacks}
    for start, block in graph.blocks:
        if start not in stacked:
            scopes[start : start + len(block)] = map(tuple, block.scopes.tolist())
            tables[start : start + len(block)] = block.tables(graph.cards)
    made = 0.0
    for i in graph.alone().tolist():
        f = cast("Factor", graph._factors[i])
        scopes[i] = f.scope
        if isinstance(f, Table) or type(f) is Feature:
            tables[i] = graph.table_of(f, i)
            continue
        tables[i], largest = graph._made_table(f, i)
        made += largest
        if not graph.fits(made):
            at, value = largest_entry(tables[i])
            place = f"factor {i}: table[{', '.join(map(str, at))}]"
            raise graph._excessive(place, value, made)
    return Laid(scopes, tables, stacks, made)


class ToMake(NamedTuple):
    """Tables that factors have to make: how many, their bytes, and the largest one's factor."""

    number: int
    size: float
    scope: tuple[int, ...]
    kind: str


def tables_to_make(graph: Factors) -> ToMake:
    """Return what the tables of factors that have none would take."""
    found = getattr(graph.stamp, "to_make", None)
    if found is None:
        found = graph.stamp.to_make = _weigh_tables(graph)
    return found


def _weigh_tables(graph: Factors) -> ToMake:
    count, size, largest, kind = 0, 0.0, 0.0, "Feature"
    most: tuple[int, ...] = ()
    cards = graph.cards
    same = float(cards[0]) if cards.size and bool((cards == cards[0]).all()) else None
    for _, block in graph.blocks:
        if isinstance(block, Tables):
            continue
        if same is not None:
            one = math.prod([same] * block.scopes.shape[1], start=8.0)
            sizes = np.full(min(len(block), 1), one)
            count, size = count + len(block), size + len(block) * float(sizes.sum())
        else:
            with np.errstate(over="ignore"):  # inf where a double does not hold it
                sizes = 8.0 * graph.cards[block.scopes].prod(axis=1, dtype=np.float64)
            count, size = count + len(block), size + float(sizes.sum())
        if sizes.size and sizes.max() > largest:
            most, largest = tuple(block.scopes[sizes.argmax()]), float(sizes.max())
    for i in graph.alone().tolist():
        f = graph._factors[i]
        if f is None or isinstance(f, (Structured, Table)):
            continue
        own = math.prod((graph.cardinalities[v] for v in f.scope), start=8.0)
        count, size = count + 1, size + own
        if own > largest:
            most, largest, kind = f.scope, own, type(f).__name__
    return ToMake(count, size, most, kind)
