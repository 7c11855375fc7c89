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
    touching : list of list
        The factors of several variables of each variable, ascending.
    alone : list of ndarray
        The score of each state of each variable by all that it has to itself.
    constant : float
        The score of factors without variables.
    """

    def __init__(self, model: FactorGraph, soft: dict[int, Array]) -> None:
        self.model = model
        self.alone = [
            np.array(soft[v]) if v in soft else np.zeros(card)
            for v, card in enumerate(model.cardinalities)
        ]
        self.scopes: list[tuple[int, ...]] = []
        self.tables: list[Array] = []
        self.touching: list[list[int]] = [[] for _ in range(model.n_variables)]
        self.constant = 0.0
        snapshot = snapshot_of(model)
        for scope, table in zip(snapshot.scopes, snapshot.arrays(), strict=True):
            if len(scope) > 1:
                for v in scope:
                    self.touching[v].append(len(self.scopes))
                self.scopes.append(scope)
                self.tables.append(table)
            elif scope:
                self.alone[scope[0]] += table
            else:
                self.constant += float(table)

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
        for f in self.touching[v]:
            if all(u == v or held[u] >= 0 for u in self.scopes[f]):
                score += self.table(f, held)
        return score


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
        wide = sorted({f for v in variables for f in factors.touching[v]})
        scopes, tables = [], []
        for f in wide:
            scope = factors.free(f, held)
            if len(scope) > 1:
                scopes.append(tuple(self.number[v] for v in scope))
                tables.append(np.ascontiguousarray(factors.table(f, held)))
        self.pairs = [(i, factors.local(v, held)) for i, v in enumerate(variables)]
        self.tree = _junction.CliqueTree(_junction.Snapshot(cards, scopes, tables), [])
        soft = self.soft({})
        search = within(limit)
        ends = watch.left(), None, watch.late
        if self.tree.prepare(np.full(len(variables), -1, np.int64), soft, search, *ends) >= 0:
            raise impossible(model, True)
        check_memory(self.tree, model, limit, used, _ADVICE, variables)
        self.bytes = int(self.tree.cost()[2])
        flat = np.empty(int(cards.sum()))
        dead, self.log_z = self.tree.infer(soft, workers, flat, *ends)
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

    def log_masses(self, v: int, factors: list[int]) -> Array:
        """Return the log mass of the component for each value of an island beside it.

        Parameters
        ----------
        v : int
            The island.
        factors : list of int
            Those that it shares with the component, each with one free variable.
        """
        card = self.factors.model.cardinalities[v]
        near = sorted({u for f in factors for u in self.factors.free(f, self.held)})
        if len(near) == 1:
            found = self._by_marginal(v, factors, near[0])
            if found is not None:
                return found
        masses = np.full(card, self.log_z)
        held = list(self.held)
        for x in range(card):
            if x == self.held[v]:
                continue
            held[v] = x
            changed = {self.number[u]: self.factors.local(u, held) for u in near}
            masses[x] = -np.inf
            if all(score.max() > -np.inf for score in changed.values()):
                dead, log_z = self.tree.infer(
                    self.soft(changed), self.workers, None, self.watch.left(), None, self.watch.late
                )
                self.solved += self.tree.n_cliques()
                masses[x] = -np.inf if dead else log_z
        return masses

    def _by_marginal(self, v: int, factors: list[int], u: int) -> Array | None:
        """Return the same where only `u` is near: Z(x) = Z E[exp(score(x, u) - score(now, u))].

        None where the marginal of `u` has not the digits for it.
        """
        held = list(self.held)
        held[v] = -1
        scores = np.zeros((self.factors.model.cardinalities[v], self.pairs[self.number[u]][1].size))
        for f in factors:
            table = self.factors.table(f, held)
            scores += table if self.factors.free(f, held) == [v, u] else table.T
        now = scores[self.held[v]]
        if not np.isfinite(now).all():
            return None
        gain = scores - now
        if gain.max() - gain[gain > -np.inf].min() > _SPAN:
            return None
        mean = np.exp(gain) @ self.marginals[self.number[u]]
        with np.errstate(divide="ignore"):
            return np.asarray(self.log_z + np.log(mean))


#: Errors of a marginal, relative to one, may grow by the exponential of this.
_SPAN = math.log(1e3)
