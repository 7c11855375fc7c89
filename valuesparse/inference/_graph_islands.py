"""Islands of certainty on factor graphs (SMM11, section 3), order-free.

Round 0: variables whose local factor (unary tables and soft evidence) has a mode >= zeta are held
at it. What is held is evidence: it leaves the graph, which falls into components; each is solved
exactly by a junction tree. Later rounds read all events off the marginals of the round before:

    components without mass given their islands   -> those islands are released
    an island whose m' has no value >= zeta       -> released
    an island whose mode has moved                -> takes the new value once, then is released
    a free variable, never released, with >= zeta -> island

m' of an island is its marginal given the other islands: it is freed, together with others that
share neither a factor nor a component with it, and the components around are solved again. A
variable can become an island, flip and be released once each, so at most 3 n events, and every
round but the last has one. Only what a change touches is solved again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse import csgraph

from valuesparse import _junction
from valuesparse.errors import InfeasibleError
from valuesparse.inference._barren import prune
from valuesparse.inference._forest_islands import forest_part
from valuesparse.inference._refusals import ADVICE, check_memory, check_states, impossible
from valuesparse.inference._search import within
from valuesparse.inference._snapshots import snapshot_of
from valuesparse.inference._watch import Watch
from valuesparse.models import FactorGraph
from valuesparse.models._evidence import Known
from valuesparse.results import GraphResult

__all__ = ["infer_islands"]

Array = npt.NDArray[Any]
Marginals = dict[int, npt.NDArray[np.float64]]

#: Segments have trees of their own, which no variable is conditioned on.
_ADVICE = f"{ADVICE}, or leave zeta at 1, which may need less"


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
        self.scopes = [f.scope for f in model.factors]
        self.tables = snapshot_of(model).arrays()
        self.soft = dict(known.soft)
        self.given = known.held
        self.held = self.given.copy()
        self.released = np.zeros(n, dtype=bool)
        self.flipped = np.zeros(n, dtype=bool)
        self.marginals: Marginals = {}
        self.solved = 0
        members = [(f, v) for f, scope in enumerate(self.scopes) for v in scope]
        rows, columns = np.array(members, dtype=np.int64).reshape(-1, 2).T
        self.incidence = sparse.csr_array(
            (np.ones(rows.size, dtype=np.int64), (rows, columns)), shape=(len(self.scopes), n)
        )
        self.touching = self.incidence.T.tocsr()

    def island(self, v: int) -> bool:
        return bool(self.held[v] >= 0 and self.given[v] < 0)

    def factors_of(self, v: int) -> Array:
        return self.touching.indices[self.touching.indptr[v] : self.touching.indptr[v + 1]]

    def local(self, v: int) -> npt.NDArray[np.float64]:
        """Return the normalised local factor of v; uniform when it has none."""
        score = np.zeros(self.model.cardinalities[v])
        for f in self.factors_of(v):
            if len(self.scopes[f]) == 1:
                score = score + self.tables[f]
        score = score + self.soft.get(v, 0.0)
        top = score.max()
        if top == -np.inf:
            raise InfeasibleError(
                0, v, message=f"variable {self.model.names[v]!r} has no state of positive weight"
            )
        weight = np.exp(score - top)
        return np.asarray(weight / weight.sum())

    def components(self) -> tuple[int, Array]:
        """Return the number of components of free variables, and each one's (-1 where held)."""
        free = np.flatnonzero(self.held < 0)
        label = np.full(self.held.size, -1, dtype=np.int64)
        part = self.incidence[:, free]
        count, found = csgraph.connected_components((part.T @ part).tocsr(), directed=False)
        label[free] = found
        return count, label

    def solve(self, variables: Iterable[int], held: Array) -> Marginals:
        """Return the marginals of `variables`, which no other free variable meets, given `held`."""
        free = sorted(variables)
        tree, soft = self.tree(free, held)
        if tree is None:
            raise impossible(self.model, True)
        cards = self.model.cards
        flat = np.empty(int(cards.sum()))
        dead, _ = tree.infer(soft, self.workers, flat, self.watch.left(), None, self.watch.late)
        if dead:
            raise impossible(self.model, True)
        self.solved += tree.n_cliques()
        start = np.concatenate([[0], np.cumsum(cards)])
        return {v: flat[start[v] : start[v + 1]].copy() for v in free}

    def tree(
        self, free: list[int], held: Array
    ) -> tuple[_junction.CliqueTree | None, _junction.Soft | None]:
        """Return the junction tree of the factors around `free`; None when nothing is possible."""
        wanted = sorted({int(f) for v in free for f in self.factors_of(v)})
        snapshot = _junction.Snapshot(
            self.model.cards, [self.scopes[f] for f in wanted], [self.tables[f] for f in wanted]
        )
        tree = _junction.CliqueTree(snapshot, [])
        outside = np.where(held < 0, 0, held)  # variables that these factors do not name
        outside[free] = -1
        pairs = [(v, self.soft[v]) for v in free if v in self.soft]
        soft = _junction.Soft(self.held.size, pairs) if pairs else None
        if self.prepare(tree, outside, soft) >= 0:
            return None, None
        check_memory(tree, self.model, self.memory_limit, advice=_ADVICE)
        return tree, soft

    def prepare(self, tree: _junction.CliqueTree, held: Array, soft: _junction.Soft | None) -> int:
        search = within(self.memory_limit)
        return tree.prepare(held, soft, search, self.watch.left(), None, self.watch.late)

    def start(self) -> None:
        for v in range(self.held.size):
            if self.held[v] < 0:
                p = self.local(v)
                if p.max() >= self.zeta:
                    self.held[v] = int(p.argmax())

    def contradictions(self) -> Array:
        """Return the islands of factors and components that have no mass given their islands."""
        guilty: set[int] = set()
        for f, scope in enumerate(self.scopes):
            held = self.held[list(scope)]
            if (held >= 0).all() and self.tables[f][tuple(held)] == -np.inf:
                self.blame(scope, guilty)
        count, label = self.components()
        for c in range(count):
            free = np.flatnonzero(label == c).tolist()
            try:
                self.solve(free, self.held)
            except InfeasibleError:
                around = [u for v in free for f in self.factors_of(v) for u in self.scopes[f]]
                self.blame(around, guilty)
        for v, likelihood in self.soft.items():
            if self.island(v) and likelihood[self.held[v]] == -np.inf:
                guilty.add(v)
        return np.array(sorted(guilty), dtype=np.int64)

    def blame(self, variables: Iterable[int], guilty: set[int]) -> None:
        islands = {int(v) for v in variables if self.island(int(v))}
        if not islands:  # nothing but evidence and the model itself
            raise impossible(self.model, bool((self.given >= 0).any()))
        guilty |= islands

    def refresh(self, changed: set[int] | None) -> None:
        """Solve again what `changed` variables touch; None: everything."""
        count, label = self.components()
        if changed is None:
            dirty = set(range(count))
        else:
            near = {u for v in changed for f in self.factors_of(v) for u in self.scopes[f]}
            dirty = {int(label[u]) for u in near | changed if label[u] >= 0}
        todo = np.flatnonzero(np.isin(label, list(dirty))).tolist() if dirty else []
        if todo:
            self.marginals.update(self.solve(todo, self.held))
        # Islands around what has been solved, or beside what has changed.
        islands = np.flatnonzero((self.held >= 0) & (self.given < 0)).tolist()
        cells: dict[int, set[int]] = {}
        stale = []
        for v in islands:
            around = {u for f in self.factors_of(v) for u in self.scopes[f]} - {v}
            cells[v] = {int(label[u]) for u in around if label[u] >= 0}
            if (
                changed is None
                or v in changed
                or cells[v] & dirty
                or any(u in changed for u in around)
            ):
                stale.append(v)
                cells[v] |= {-1 - int(f) for f in self.factors_of(v)}
        # Together those that share neither a component nor a factor.
        groups: list[tuple[set[int], list[int]]] = []
        for v in stale:
            for used, members in groups:
                if not used & cells[v]:
                    used |= cells[v]
                    members.append(v)
                    break
            else:
                groups.append((set(cells[v]), [v]))
        for used, members in groups:
            parts = [c for c in used if c >= 0]
            free = np.flatnonzero(np.isin(label, parts)).tolist() if parts else []
            held = self.held.copy()
            held[members] = -1
            found = self.solve([*free, *members], held)
            self.marginals.update({v: found[v] for v in members})

    def dead(self) -> set[int]:
        """Return the islands whose value is impossible given the others."""
        islands = np.flatnonzero((self.held >= 0) & (self.given < 0)).tolist()
        return {v for v in islands if self.marginals[v][self.held[v]] == 0.0}

    def decide(self) -> set[int]:
        """Apply all events of the marginals at hand; return the variables that changed."""
        changed = set()
        for v in range(self.held.size):
            if self.given[v] >= 0:
                continue
            p = self.marginals[v]
            top = float(p.max())
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
        stats["segments"] += state.components()[0]
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
    """Return the log mass of what agrees with the islands: all else is summed out once more."""
    model, watch = state.model, state.watch
    pairs = sorted(state.soft.items())
    snapshot, held = prune(snapshot_of(model), state.held, state.soft)
    tree = _junction.CliqueTree(snapshot, [])
    soft = _junction.Soft(model.n_variables, pairs) if pairs else None
    lost = state.prepare(tree, held, soft) >= 0
    if not lost:
        check_memory(tree, model, state.memory_limit, advice=_ADVICE)
        lost, log_z = tree.infer(soft, state.workers, None, watch.left(), None, watch.late)
    if lost:  # factors of evidence alone; islands have been looked at
        raise impossible(model, bool((state.given >= 0).any()))
    return float(log_z)
