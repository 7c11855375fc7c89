"""Components of a graph between its islands: each with a junction tree of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse import _junction
from valuesparse.inference._refusals import ADVICE, check_memory, impossible
from valuesparse.inference._search import within
from valuesparse.inference._snapshots import snapshot_of
from valuesparse.inference._watch import Watch
from valuesparse.models import FactorGraph

__all__ = ["Component", "Sliced"]

Array = npt.NDArray[Any]

#: Components have trees of their own, which no variable is conditioned on.
_ADVICE = f"{ADVICE}, or leave zeta at 1, which may need less"


class Sliced:
    """The factors of a graph, of which parts of the variables are held.

    Parameters
    ----------
    model : FactorGraph
        The graph.
    soft : dict
        Log-likelihoods of variables.

    Attributes
    ----------
    scopes : list of tuple
        The variables of each factor of several.
    pairs : list of list
        The factors of two variables, of each of them: the other one, and the table whose rows are
        those of the other one's states.
    wider : list of list
        The factors of more variables, of each of them.
    alone : list of ndarray
        The score of each state of each variable by all that it has to itself.
    constant : float
        The score of factors without variables.
    finite : bool
        Whether no table of several variables forbids anything.
    """

    def __init__(self, model: FactorGraph, soft: dict[int, Array]) -> None:
        self.model = model
        self.alone = [
            np.array(soft[v]) if v in soft else np.zeros(card)
            for v, card in enumerate(model.cardinalities)
        ]
        self.scopes: list[tuple[int, ...]] = []
        self.tables: list[Array] = []
        self.pairs: list[list[tuple[int, Array]]] = [[] for _ in self.alone]
        self.wider: list[list[int]] = [[] for _ in self.alone]
        self.constant = 0.0
        self.finite = True
        snapshot = snapshot_of(model)
        for scope, table in zip(snapshot.scopes, snapshot.arrays(), strict=True):
            if len(scope) > 1:
                self._append(scope, table)
            elif scope:
                self.alone[scope[0]] += table
            else:
                self.constant += float(table)

    def _append(self, scope: tuple[int, ...], table: Array) -> None:
        if len(scope) == 2:
            self.pairs[scope[0]].append((scope[1], table.T))
            self.pairs[scope[1]].append((scope[0], table))
        else:
            for v in scope:
                self.wider[v].append(len(self.scopes))
        self.scopes.append(scope)
        self.tables.append(table)
        self.finite = self.finite and bool(np.isfinite(table).all())

    def table(self, f: int, held: Sequence[int]) -> Array:
        """Return the table of a factor over its free variables, in the order of its scope."""
        at = tuple(held[v] if held[v] >= 0 else slice(None) for v in self.scopes[f])
        return np.asarray(self.tables[f][at])

    def free(self, f: int, held: Sequence[int]) -> list[int]:
        """Return the free variables of a factor."""
        return [v for v in self.scopes[f] if held[v] < 0]

    def local(self, v: int, held: Sequence[int]) -> Array:
        """Return the score of each state of a free variable by factors without another one."""
        score = self.alone[v].copy()
        for u, rows in self.pairs[v]:
            if held[u] >= 0:
                score += rows[held[u]]
        for f in self.wider[v]:
            if all(u == v or held[u] >= 0 for u in self.scopes[f]):
                score += self.table(f, held)
        return score

    def gains(self, v: int, held: Sequence[int]) -> dict[int, Array]:
        """Return what free variables beside an island gain by each other value that it could have.

        For each: scores (values of `v`, states) by factors of these two and others that are held,
        less those of the value that `v` has.
        """
        found: dict[int, Array] = {}
        for u, rows in self.pairs[v]:
            if held[u] < 0:
                scores = rows.T
                found[u] = found[u] + scores if u in found else scores
        wide = list(held)
        wide[v] = -1
        for f in self.wider[v]:
            free = self.free(f, wide)
            if len(free) == 2:
                scores = self.table(f, wide)
                u = free[free[0] == v]
                scores = scores if free[0] == v else scores.T
                found[u] = found[u] + scores if u in found else scores
        now = held[v]
        if self.finite:
            return {u: scores - scores[now] for u, scores in found.items()}
        with np.errstate(invalid="ignore"):  # -inf less -inf
            return {u: scores - scores[now] for u, scores in found.items()}


class Component:
    """Free variables that no other free variable meets, solved exactly.

    Parameters
    ----------
    factors : Sliced
        The factors of the graph.
    variables : list of int
        The variables, ascending.
    held : sequence of int
        The value of each variable that is held, -1 of the others.
    limit, used : int
        Bytes that trees may take, and that those of others do.

    Attributes
    ----------
    marginals : list of ndarray
        Those of the variables.
    log_z : float
        The log mass of all factors that a variable of the component is in.
    """

    def __init__(
        self,
        factors: Sliced,
        variables: list[int],
        held: Sequence[int],
        workers: int,
        watch: Watch,
        limit: int,
        used: int = 0,
    ) -> None:
        self.factors, self.variables, self.held = factors, variables, held
        self.workers, self.watch = workers, watch
        self.number = {v: i for i, v in enumerate(variables)}
        model = factors.model
        cards = model.cards[variables]
        scopes: list[tuple[int, ...]] = []
        tables: list[Array] = []
        for v, i in self.number.items():
            for u, rows in factors.pairs[v]:
                if held[u] < 0 and u > v:
                    scopes.append((self.number[u], i))
                    tables.append(np.ascontiguousarray(rows))
        for f in sorted({f for v in variables for f in factors.wider[v]}):
            scope = factors.free(f, held)
            if len(scope) > 1:
                scopes.append(tuple(self.number[v] for v in scope))
                tables.append(np.ascontiguousarray(factors.table(f, held)))
        self.pairs = [(i, factors.local(v, held)) for i, v in enumerate(variables)]
        self.tree = _junction.CliqueTree(_junction.Snapshot(cards, scopes, tables), [])
        soft = self.soft({})
        search = within(limit)
        nobody = np.full(len(variables), -1, np.int64)
        if self.tree.prepare(nobody, soft, search, watch.left(), None, watch.late) >= 0:
            raise impossible(model, True)
        check_memory(self.tree, model, limit, used, _ADVICE, variables)
        self.bytes = int(self.tree.cost()[2])
        flat = np.empty(int(cards.sum()))
        dead, self.log_z = self.tree.infer(soft, workers, flat, watch.left(), None, watch.late)
        if dead:
            raise impossible(model, True)
        self.marginals: list[Array] = np.split(flat, np.cumsum(cards)[:-1])
        self.solved = self.tree.n_cliques()

    def soft(self, changed: dict[int, Array]) -> _junction.Soft:
        """Return what factors of one variable say of each, some of it replaced."""
        pairs = self.pairs.copy()
        for i, score in changed.items():
            pairs[i] = i, score
        return _junction.Soft(len(pairs), pairs)

    def log_masses(self, v: int, gains: dict[int, Array]) -> Array:
        """Return the log mass of the component for each value of an island, less that as it is.

        Parameters
        ----------
        v : int
            The island.
        gains : dict
            Gains of the component's variables by each value: see :meth:`Sliced.gains`.
        """
        finite = self.factors.finite or all(np.isfinite(gain).all() for gain in gains.values())
        if finite and len(gains) == 1:
            ((u, gain),) = gains.items()
            flat = gain.ravel().tolist()
            if max(flat) - min(flat) <= _SPAN:
                # Z(x) = Z E[exp(score(x, u) - score(now, u))]
                mean = np.exp(gain) @ self.marginals[self.number[u]]
                return np.asarray(np.log(mean))
        now = self.held[v]
        masses = np.zeros(self.factors.model.cardinalities[v])
        held = list(self.held)
        for x in range(masses.size):
            if x == now:
                continue
            held[v] = x
            changed = {
                self.number[u]: self.pairs[self.number[u]][1] + gain[x]
                if finite
                else self.factors.local(u, held)
                for u, gain in gains.items()
            }
            masses[x] = self._log_mass(changed) - self.log_z
        return masses

    def _log_mass(self, changed: dict[int, Array]) -> float:
        """Return the log mass with other scores of some variables."""
        if any(max(score.tolist()) == -math.inf for score in changed.values()):
            return -np.inf
        dead, log_z = self.tree.infer(
            self.soft(changed), self.workers, None, self.watch.left(), None, self.watch.late
        )
        self.solved += self.tree.n_cliques()
        return -np.inf if dead else float(log_z)


#: Errors of a marginal, relative to one, may grow by the exponential of this.
_SPAN = math.log(1e3)
