"""Islands of certainty on factor graphs (SMM11, section 3), order-free.

Round 0: variables whose local factor (unary tables and soft evidence) has a mode >= zeta are held
at it. Held variables are evidence: they leave the graph, which falls into components; each is
solved exactly by a junction tree. Later rounds read all events off the marginals of the one before:

    components without mass given their islands   -> those islands are released
    an island whose m' has no value >= zeta       -> released
    an island whose mode has moved                -> takes the new value once, then is released
    a free variable, never released, with >= zeta -> island

m' of an island is its marginal given the other islands. A component around it has a mass for each
value that the island could take: one upward pass of the component's tree, and none where a single
variable of it is near, whose marginal tells. Where factors of three variables and more lie between,
or for islands with many states, the island is freed, and solved together with what is around. A
variable can become an island, flip and be released once each, so at most 3 n events, and every
round but the last has one. Only what a change touches is solved again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse import csgraph

from valuesparse.errors import InfeasibleError
from valuesparse.inference._components import Component, Sliced
from valuesparse.inference._forest_islands import forest_part
from valuesparse.inference._refusals import check_states, impossible
from valuesparse.inference._watch import Watch
from valuesparse.models import FactorGraph
from valuesparse.models._evidence import Known
from valuesparse.results import GraphResult

__all__ = ["infer_islands"]

Array = npt.NDArray[Any]
Marginals = dict[int, npt.NDArray[np.float64]]

#: States of an island for each of which a pass is faster than a tree with the island in it.
_PASSES = 8


class _Islands:
    """The state of one call: who is held, and what is known of everybody."""

    def __init__(
        self,
        model: FactorGraph,
        zeta: float,
        workers: int,
        known: Known,
        memory_limit: int,
        watch: Watch,
    ) -> None:
        self.model, self.zeta, self.workers = model, zeta, workers
        self.memory_limit, self.watch = memory_limit, watch
        n = model.n_variables
        self.factors = Sliced(model, dict(known.soft))
        self.given = known.held
        self.held = self.given.copy()
        self.released = np.zeros(n, dtype=bool)
        self.flipped = np.zeros(n, dtype=bool)
        self.marginals: Marginals = {}
        self.solved = 0
        # The component of each free variable, by its first one; whoever is held has none.
        self.parts: dict[int, Component] = {}
        self.first = np.full(n, -1, dtype=np.int64)
        self.used = 0  # bytes of their trees
        # Pairs of variables that share a factor.
        shared = {pair for scope in self.factors.scopes for pair in combinations(scope, 2)}
        self.edges = np.array(sorted(shared), dtype=np.int64).reshape(-1, 2)

    def island(self, v: int) -> bool:
        return bool(self.held[v] >= 0 and self.given[v] < 0)

    def islands(self) -> list[int]:
        found: list[int] = np.flatnonzero((self.held >= 0) & (self.given < 0)).tolist()
        return found

    def near(self, variables: Iterable[int]) -> set[int]:
        """Return the variables that share a factor with some, and these."""
        factors = self.factors
        found = {u for v in variables for u, _ in factors.pairs[v]}
        found |= {u for v in variables for f in factors.wider[v] for u in factors.scopes[f]}
        return found.union(variables)

    def components(self) -> list[list[int]]:
        """Return the free variables of each component, ascending."""
        free = np.flatnonzero(self.held < 0)
        number = np.full(self.held.size, -1, dtype=np.int64)
        number[free] = np.arange(free.size)
        at = number[self.edges]
        a, b = at[(at >= 0).all(axis=1)].T
        adjacency = sparse.csr_array((np.ones(a.size), (a, b)), shape=(free.size, free.size))
        count, label = csgraph.connected_components(adjacency, directed=False)
        order = np.argsort(label, kind="stable")
        ends = np.cumsum(np.bincount(label, minlength=count))
        return [part.tolist() for part in np.split(free[order], ends[:-1])] if count else []

    def component(self, variables: list[int], held: list[int], used: int) -> Component:
        """Solve free variables that no other free one meets; raise where nothing is possible."""
        return Component(
            self.factors, variables, held, self.workers, self.watch, self.memory_limit, used
        )

    def start(self) -> None:
        for v in np.flatnonzero(self.held < 0).tolist():
            p = self.distribution(v, self.factors.alone[v])
            if max(p.tolist()) >= self.zeta:
                self.held[v] = int(p.argmax())

    def distribution(self, v: int, score: Array) -> Array:
        """Return the distribution of a variable whose states have these scores."""
        top = max(score.tolist())
        if top == -math.inf:
            raise InfeasibleError(
                0, v, message=f"variable {self.model.names[v]!r} has no state of positive weight"
            )
        weight = np.exp(score - top)
        return np.asarray(weight / weight.sum())

    def contradictions(self) -> Array:
        """Return the islands of factors and components that have no mass given their islands."""
        guilty: set[int] = set()
        held, factors = self.held.tolist(), self.factors
        for f, scope in enumerate(factors.scopes):
            if all(held[v] >= 0 for v in scope) and factors.table(f, held) == -np.inf:
                self.blame(scope, guilty)
        for free in self.components():
            try:
                self.component(free, held, 0)
            except InfeasibleError:
                self.blame(self.near(free), guilty)
        for v, score in enumerate(factors.alone):
            if held[v] >= 0 and score[held[v]] == -np.inf:
                self.blame([v], guilty)
        return np.array(sorted(guilty), dtype=np.int64)

    def blame(self, variables: Iterable[int], guilty: set[int]) -> None:
        islands = {int(v) for v in variables if self.island(int(v))}
        if not islands:  # nothing but evidence and the model itself
            raise impossible(self.model, bool((self.given >= 0).any()))
        guilty |= islands

    def refresh(self, changed: set[int] | None) -> None:
        """Solve again what `changed` variables touch; None: everything."""
        held = self.held.tolist()
        if changed is None:
            self.parts, beside = {}, set(range(len(held)))
        else:
            beside = self.near(changed)
        self.parts = {
            first: part for first, part in self.parts.items() if beside.isdisjoint(part.variables)
        }
        self.first.fill(-1)
        stale, self.used = beside, sum(part.bytes for part in self.parts.values())
        for free in self.components():
            self.first[free] = free[0]
            if free[0] not in self.parts:
                part = self.parts[free[0]] = self.component(free, held, self.used)
                self.used += part.bytes
                self.solved += part.solved
                self.marginals.update(zip(free, part.marginals, strict=True))
                stale = stale | self.near(free)
        for v in self.islands():
            if v in stale:
                self.marginals[v] = self.reconsidered(v, held)

    def reconsidered(self, v: int, held: list[int]) -> Array:
        """Return m' of an island: its marginal given the other islands."""
        factors, first = self.factors, self.first
        value, held[v] = held[v], -1
        score = factors.local(v, held)
        narrow = score.size <= _PASSES and all(
            len(factors.free(f, held)) <= 2 for f in factors.wider[v]
        )
        if not narrow:
            beside = {int(first[u]) for u in self.near([v]) if u != v and held[u] < 0}
            variables = sorted([v, *(u for q in beside for u in self.parts[q].variables)])
            # The tree of all of them may stand beside those of each: the limit is for one.
            instead = sum(self.parts[q].bytes for q in beside)
            part = self.component(variables, held, self.used - instead)
            self.solved += part.solved
            held[v] = value
            return part.marginals[variables.index(v)]
        held[v] = value
        around: dict[int, dict[int, Array]] = {}
        for u, gain in factors.gains(v, held).items():
            around.setdefault(int(first[u]), {})[u] = gain
        for q, gains in around.items():
            before = self.parts[q].solved
            score = score + self.parts[q].log_masses(v, gains)
            self.solved += self.parts[q].solved - before
        if max(score.tolist()) == -math.inf:
            raise impossible(self.model, True)
        return self.distribution(v, score)

    def dead(self) -> set[int]:
        """Return the islands whose value is impossible given the others."""
        return {v for v in self.islands() if self.marginals[v][self.held[v]] == 0.0}

    def decide(self) -> set[int]:
        """Apply all events of the marginals at hand; return the variables that changed."""
        changed = set()
        for v in range(self.held.size):
            if self.given[v] >= 0:
                continue
            p = self.marginals[v]
            top = max(p.tolist())
            if self.held[v] >= 0:
                if top < self.zeta:
                    self.release(v)
                elif p[self.held[v]] < top:
                    if self.flipped[v]:
                        self.release(v)
                    else:
                        self.flipped[v] = True
                        self.held[v] = int(p.argmax())
                else:
                    continue
            elif not self.released[v] and top >= self.zeta:
                self.held[v] = int(p.argmax())
            else:
                continue
            changed.add(v)
        return changed

    def release(self, v: int) -> None:
        self.held[v] = -1
        self.released[v] = True


def infer_islands(
    model: FactorGraph,
    zeta: float,
    rounds: int,
    workers: int,
    known: Known,
    memory_limit: int,
    watch: Watch,
) -> GraphResult:
    """Return the marginals of `model` conditioned on its final islands."""
    check_states(model, memory_limit)
    held = known.held.copy()
    marginals: list[Array] = [
        np.eye(1, card, int(held[v]))[0] for v, card in enumerate(model.cardinalities)
    ]
    islands = np.full(held.size, -1, dtype=np.int32)
    stats = dict.fromkeys(("islands", "segments", "released", "flipped", "rounds", "cliques"), 0)
    log_z, converged = 0.0, True
    others, part = model, forest_part(model, known, memory_limit)
    if part is not None:
        found = part.infer(model, zeta, rounds, workers, watch)
        for i, v in enumerate(part.variables.tolist()):
            marginals[v] = np.array(found.marginals[i, : model.cardinalities[v]])
        islands[part.variables] = found.islands
        log_z, converged = float(found.log_z.sum()), bool(found.converged)
        stats.update(found.stats)
        # The others never see them: without factors, a state of theirs says nothing.
        held[part.variables] = 0
        others = model.part(np.array(part.others, dtype=np.int64))
    if (held < 0).any() or others.n_factors:
        soft = [(v, x) for v, x in known.soft if held[v] < 0]
        state = _Islands(others, zeta, workers, Known(known.given, held, soft), memory_limit, watch)
        done, settled = _rounds(state, rounds)
        log_z += _log_mass(state)
        converged = converged and settled
        for v in np.flatnonzero(held < 0).tolist():
            marginals[v] = state.marginals[v]
        found_islands = np.where(held < 0, state.held, -1)
        islands[held < 0] = found_islands[held < 0]
        stats["islands"] += int((found_islands >= 0).sum())
        stats["segments"] += len(state.parts)
        stats["released"] += int(state.released.sum())
        stats["flipped"] += int(state.flipped.sum())
        stats["rounds"] = max(stats["rounds"], done)
        stats["cliques"] = state.solved
    return GraphResult(
        model,
        known.given,
        marginals,
        log_z,
        "islands",
        f"zeta={zeta:g} was asked for: an approximation, exact given its islands",
        stats,
        islands=islands,
        converged=converged,
        limit=memory_limit,
    )


def _rounds(state: _Islands, limit: int) -> tuple[int, bool]:
    """Decide who is held; return the number of rounds, and whether nothing is left to decide."""
    state.start()
    changed: set[int] | None = None
    done = 0
    while True:
        try:
            state.refresh(changed)
        except InfeasibleError:
            # Only the islands are wrong: whatever limit there is, they have to go.
            guilty = state.contradictions()
            if guilty.size == 0:
                raise
            for v in guilty:
                state.release(int(v))
            changed = None
            done += 1
            continue
        dead = state.dead()
        if dead:
            for v in dead:
                state.release(v)
            changed = dead
            done += 1
            continue
        if limit >= 0 and done >= limit:
            before = state.held.copy(), state.released.copy(), state.flipped.copy()
            settled = not state.decide()
            state.held, state.released, state.flipped = before
            return done, settled
        changed = state.decide()
        if not changed:
            return done, True
        done += 1
        if state.watch.progress is not None:
            state.watch.progress(done, 3 * state.held.size)


def _log_mass(state: _Islands) -> float:
    """Return the log mass of what agrees with the islands."""
    factors, held = state.factors, state.held.tolist()
    fixed = [factors.constant]
    fixed += [
        float(factors.table(f, held))
        for f, scope in enumerate(factors.scopes)
        if all(held[v] >= 0 for v in scope)
    ]
    fixed += [float(x[held[v]]) for v, x in enumerate(factors.alone) if held[v] >= 0]
    if -np.inf in fixed:  # factors of evidence alone; islands have been looked at
        raise impossible(state.model, bool((state.given >= 0).any()))
    return math.fsum([*fixed, *(part.log_z for part in state.parts.values())])
