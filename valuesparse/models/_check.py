"""Likely mistakes in a factor graph: `FactorGraph.check`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from valuesparse.errors import MemoryLimitError
from valuesparse.factors import Factor, Feature, Features, Structured, Table
from valuesparse.models._blocks import Factors

__all__ = ["Finding", "findings"]

Array = npt.NDArray[Any]

#: How far the sums of probabilities may be from one: what float32 leaves of long rows.
_ROUNDING = 1e-5
_SHOWN = 10  # states that a message lists


class Finding(NamedTuple):
    """Something about a model that is probably not meant: see `FactorGraph.check`.

    Attributes
    ----------
    kind : str
        "probabilities", "forbids everything", "impossible states", "impossible evidence",
        "constant", "duplicate", "error", "no table" or "unused variable".
    factor : int or None
        Index of the factor that it is about; None where it is about no single one.
    variables : tuple
        Names (or numbers) of the variables that it is about.
    message : str
        The finding and a remedy, for people.
    """

    kind: str
    factor: int | None
    variables: tuple[Any, ...]
    message: str


def findings(graph: Factors) -> list[Finding]:
    """Return what looks like a mistake, in the order of factors, then of variables."""
    check = _Check(graph)
    for start, block in graph.blocks:
        if isinstance(block, Features):
            check.block(start, block)
            continue
        for row in range(len(block)):
            check.factor(start + row, block[row])
    for i in graph.alone().tolist():
        check.factor(i, graph.factor(i))
    check.found.sort(key=lambda finding: -1 if finding.factor is None else finding.factor)
    return check.found + list(check.variables())


def _digest(array: Array) -> bytes:
    """Return what tells arrays apart without keeping them."""
    return hashlib.blake2b(np.ascontiguousarray(array).data, digest_size=16).digest()


class _Check:
    """The findings so far, and the states left to each variable."""

    def __init__(self, graph: Factors) -> None:
        self.graph = graph
        self.found: list[Finding] = []
        self.used = np.zeros(graph.n_variables, dtype=np.bool_)
        #: States that a factor alone makes impossible: which, and the first factor.
        self.gone: dict[int, tuple[npt.NDArray[np.bool_], int]] = {}
        self.seen: dict[Any, int] = {}

    def names(self, scope: Any) -> tuple[Any, ...]:
        return tuple(self.graph.names[v] for v in scope)

    def add(self, kind: str, index: int, scope: Any, what: str) -> None:
        names = self.names(scope)
        over = f" over {', '.join(map(repr, names))}" if names else ""
        self.found.append(Finding(kind, index, names, f"factor {index}{over} {what}"))

    def factor(self, index: int, factor: Factor) -> None:
        """Look at one factor, which may be of a kind that its user wrote."""
        self.used[list(factor.scope)] = True
        try:
            self._factor(index, factor)
        except MemoryLimitError:  # the factor may be right, and its table is too large
            raise
        except Exception as error:
            text = " ".join(str(error).split())
            self.add(
                "error", index, factor.scope,
                f"raises {type(error).__name__}: {text or 'no text'}; inference would, too",
            )  # fmt: skip

    def _factor(self, index: int, factor: Factor) -> None:
        feature = factor if isinstance(factor, Feature) else None
        if feature is not None:
            fires = feature.fires
            key: Any = fires if isinstance(fires, tuple) else _digest(fires)
            self.duplicate(index, feature.scope, (key, feature.weight))
            if feature.weight == 0.0 or (isinstance(fires, tuple) and self.choice(feature.scope)):
                return  # it is to be learnt; or one of many entries differs
        if isinstance(factor, Structured):
            self.structured(index, factor)
            return
        table = self.graph.table_of(factor, index)
        if isinstance(factor, Table):
            self.duplicate(index, factor.scope, _digest(table))
        self.table(index, factor.scope, table, is_feature=feature is not None)

    def choice(self, scope: tuple[int, ...]) -> bool:
        """Whether two variables or more have several states."""
        return sum(self.graph.cardinalities[v] > 1 for v in scope) > 1

    def duplicate(self, index: int, scope: tuple[int, ...], key: Any) -> None:
        first = self.seen.setdefault((scope, key), index)
        if first != index and scope:
            self.add(
                "duplicate", index, scope,
                f"equals factor {first}: they add up; leave one out if it was added twice",
            )  # fmt: skip

    def table(self, index: int, scope: tuple[int, ...], table: Array, *, is_feature: bool) -> None:
        """Look at the entries of a log-table."""
        low, high = float(table.min()), float(table.max())
        if high == -np.inf:
            self.add(
                "forbids everything", index, scope,
                "has only entries of -inf: no configuration is possible",
            )  # fmt: skip
        elif low == -np.inf:
            self.forbid(index, scope, table == -np.inf)
        elif table.size > 1:
            sums = low >= 0.0 and not is_feature and self.probabilities(index, scope, table)
            if sums or low < high or index in self.graph.conditional:
                return
            self.add(
                "constant", index, scope,
                f"has only entries of {low:g}: log_z is all that it changes, by as much",
            )  # fmt: skip

    def structured(self, index: int, factor: Structured) -> None:
        """Look at the states that a structured factor leaves."""
        mass, p, c = factor.checked_sum_product(np.zeros((len(factor.scope), 2)))
        self.duplicate(index, factor.scope, repr(factor))
        if mass == -np.inf:
            self.add(
                "forbids everything", index, factor.scope,
                "allows nothing: no configuration is possible",
            )  # fmt: skip
        for v, *gone in zip(factor.scope, c == 0.0, p == 0.0, strict=True):
            if any(gone) and mass > -np.inf:
                self.forbid(index, (v,), np.array(gone))

    def probabilities(self, index: int, scope: tuple[int, ...], table: Array) -> bool:
        """Look for a table that sums to one, as a whole or over a variable: the last one first."""
        over = None
        if abs(float(table.sum()) - 1.0) <= _ROUNDING:
            over = "in all"
        else:
            for axis in reversed(range(table.ndim)):
                if table.shape[axis] > 1 and (
                    np.abs(table.sum(axis=axis) - 1.0).max() <= _ROUNDING
                ):
                    over = f"over {self.graph.names[scope[axis]]!r}"
                    break
        if over is not None:
            self.add(
                "probabilities", index, scope,
                f"looks like probabilities: entries >= 0 that sum to 1 {over}; tables are "
                "logarithms: add np.log of it, or leave it as it is if these are scores",
            )  # fmt: skip
        return over is not None

    def forbid(self, index: int, scope: tuple[int, ...], never: npt.NDArray[np.bool_]) -> None:
        """Note the states that an entry of -inf everywhere makes impossible."""
        for axis, v in enumerate(scope):
            states = never.all(axis=tuple(a for a in range(never.ndim) if a != axis))
            if states.any():
                before, first = self.gone.get(v, (np.zeros_like(states), index))
                self.gone[v] = before | states, min(first, index)

    def block(self, start: int, block: Features) -> None:
        """Look at features in columns, of which there may be millions."""
        scopes, weights = block.scopes, block.weights
        self.used[scopes.ravel()] = True
        never = np.flatnonzero(weights == -np.inf)
        cards = self.graph.cards
        if block.fires is not None:
            always, silent = bool(block.fires.all()), not block.fires.any()
            for row in never.tolist() if not silent else ():
                feature = block[row]
                if always:
                    self.table(start + row, feature.scope, np.array(-np.inf), is_feature=True)
                else:
                    assert block.fires is not None
                    self.forbid(start + row, feature.scope, block.fires)
        else:
            assert block.assignments is not None
            # An assignment rules a state out where the others have no choice.
            lone = (cards[scopes[never]] > 1).sum(axis=1) <= 1 if never.size else never
            for row in never[lone].tolist() if never.size else ():
                feature = block[row]
                table = feature.table([int(cards[v]) for v in feature.scope])
                self.table(start + row, feature.scope, table, is_feature=True)
        columns = [scopes, weights[:, None]]
        if block.assignments is not None:
            columns.append(block.assignments)
        keys = np.concatenate([np.asarray(c, dtype=np.float64) for c in columns], axis=1)
        _, first, which = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        first = first[which.reshape(-1)]
        for row in np.flatnonzero(first != np.arange(len(block))).tolist():
            self.add(
                "duplicate", start + row, scopes[row].tolist(),
                f"equals factor {start + int(first[row])}: they add up; leave one out if it was "
                "added twice",
            )  # fmt: skip

    def variables(self) -> Iterator[Finding]:
        """Yield the findings about variables."""
        graph = self.graph
        own = set(graph.conditional.values())
        for v in range(graph.n_variables) if own else ():
            if v not in own:
                name = graph.names[v]
                yield Finding(
                    "no table", None, (name,),
                    f"variable {name!r} has no conditional table, and others have: add_cpt gives "
                    "it one",
                )  # fmt: skip
        for v in sorted({*self.gone, *np.flatnonzero(~self.used).tolist(), *graph.evidence}):
            name = graph.names[v]
            if v in self.gone:
                states, factor = self.gone[v]
                listed = [
                    x if (named := graph.states[v]) is None else named[x]
                    for x in np.flatnonzero(states).tolist()
                ]
                if states.all():
                    yield Finding(
                        "forbids everything", None, (name,),
                        f"variable {name!r} has no possible state: factors forbid each of them",
                    )  # fmt: skip
                else:
                    shown = ", ".join(map(repr, listed[:_SHOWN]))
                    shown += f", ... ({len(listed)})" if len(listed) > _SHOWN else ""
                    yield Finding(
                        "impossible states", factor, (name,),
                        f"variable {name!r} cannot be in state {shown}: tables forbid it, the "
                        f"first of them that of factor {factor}",
                    )  # fmt: skip
                known = graph.evidence.get(v)
                if isinstance(known, int) and states[known] and not states.all():
                    yield Finding(
                        "impossible evidence", factor, (name,),
                        f"variable {name!r} is in a state by the evidence that tables forbid, the "
                        f"first of them that of factor {factor}",
                    )  # fmt: skip
            if not self.used[v]:
                yield Finding(
                    "unused variable", None, (name,),
                    f"variable {name!r} is in no factor: nothing but evidence says anything of it",
                )  # fmt: skip
