"""Islands of certainty on factor graphs (SMM11, section 3), order-free.

Round 0: variables whose local factor (unary tables and soft evidence) has a mode >= zeta are held
at it. Held variables are evidence: they leave the graph, which falls into components; each is
solved exactly by a junction tree. Later rounds read all events off the marginals of the one before:

    components without mass given their islands   -> those islands are released
    an island whose m' has no value >= zeta       -> released
    an island whose mode has moved                -> takes the new value once, then is released
    a free variable, never released, with >= zeta -> island

m' of an island is its marginal given the other islands. A component around it has a mass for each
value that the island could take: the marginal of a single variable of it that is near tells; where
several are near, the messages between them are made again. Where factors of three variables and
more lie between, or for islands with many states, the island is freed, and solved together with
what is around. A variable can become an island, flip and be released once each, so at most 3 n
events, and every round but the last has one. Only what a change touches is solved again. Rounds
are counted for each component of the graph, so that none depends on what lies beside it.

The rounds are here, what happens in them in ext/junction/segments.cpp; the rules are those of
chains and trees, ext/islands/rules.h.
"""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from valuesparse import _junction
from valuesparse.errors import InfeasibleError
from valuesparse.inference._forest_islands import ForestPart, forest_part
from valuesparse.inference._refusals import ADVICE, check_memory, check_states, impossible, outputs
from valuesparse.inference._snapshots import snapshot_of
from valuesparse.inference._watch import Watch
from valuesparse.models import FactorGraph
from valuesparse.models._blocks import Stamp
from valuesparse.models._evidence import Known
from valuesparse.results import GraphResult

__all__ = ["infer_islands"]

Array = npt.NDArray[Any]

#: Segments have trees of their own, which no variable is conditioned on.
_ADVICE = f"{ADVICE}, or leave zeta at 1, which may need less"


class _Setup(NamedTuple):
    """The start of all calls with the same evidence; none holds the graph it is kept beside.

    `others`: the factors that are in no tree, None where there are no trees; `state`: their
    segments, with the trees of those that were asked before; None where there is nothing to solve.
    """

    forest: ForestPart | None
    others: FactorGraph | None
    state: _junction.Segments | None


#: Setups for later calls: for each graph, by evidence and limit. A call takes one away while
#: it asks; another at the same time, or after an error, makes its own.
_KEPT: weakref.WeakKeyDictionary[Stamp, dict[Any, _Setup]] = weakref.WeakKeyDictionary()
_MOST = 4
#: Bytes of a forest's tables that are kept.
_FOREST_BYTES = 64 << 20


def _setup(model: FactorGraph, known: Known, limit: int, watch: Watch) -> _Setup:
    held, others = known.held, model
    forest = forest_part(model, known, limit, watch)
    if forest is not None:
        # The others never see them: without factors, a state of theirs says nothing.
        held = held.copy()
        held[forest.variables] = 0
        others = model.part(np.array(forest.others, dtype=np.int64))
    state = None
    if (held < 0).any() or others.n_factors:
        pairs = sorted(((v, x) for v, x in known.soft if held[v] < 0), key=lambda pair: pair[0])
        soft = _junction.Soft(model.n_variables, pairs) if pairs else None
        left = float(limit - outputs(model))
        state = _junction.Segments(snapshot_of(others, limit), soft, held, left)
    return _Setup(forest, None if others is model else others, state)


def _keep(stamp: Stamp, key: Any, setup: _Setup) -> None:
    if setup.forest is not None and setup.forest.tree.pairwise.nbytes > _FOREST_BYTES:
        return
    kept = _KEPT.setdefault(stamp, {})
    kept[key] = setup
    for old in list(kept)[:-_MOST]:
        kept.pop(old, None)


class _Rounds:
    """The rounds of one call."""

    def __init__(
        self,
        model: FactorGraph,
        state: _junction.Segments,
        zeta: float,
        workers: int,
        evidence: bool,
        limit: int,
        watch: Watch,
    ) -> None:
        self.model, self.state, self.zeta = model, state, zeta
        self.workers, self.evidence = workers, evidence
        self.limit, self.watch = limit, watch

    def run(self, limit: int) -> tuple[int, bool]:
        """Decide who is held; return how many rounds it took, and whether nothing is left."""
        state, watch = self.state, self.watch
        v = state.start(self.zeta)
        if v >= 0:
            name = self.model.names[v]
            raise InfeasibleError(
                0, v, message=f"variable {name!r} has no state of positive weight"
            )
        asked = 0
        while True:
            possible, fits = state.refresh(self.workers, watch.left(), watch.late)
            self.check(fits)
            if not possible:
                # Only the islands are wrong: whatever limit there is, they have to go.
                found, fits = state.release_contradictions(self.workers, watch.left(), watch.late)
                self.check(fits)
                if not found:  # nothing but evidence and the model itself
                    raise self.impossible()
            elif not state.release_dead() and not state.decide(limit):
                return state.rounds(), state.converged()
            asked += 1
            if watch.progress is not None:
                watch.progress(min(asked, self.most()), self.most())

    def most(self) -> int:
        """Return a number of rounds that none goes beyond, for progress."""
        return 3 * self.model.n_variables

    def check(self, fits: bool) -> None:
        if not fits:
            check_memory(self.state, self.model, self.limit, self.state.used(), _ADVICE)

    def impossible(self) -> InfeasibleError:
        return impossible(self.model, self.evidence)

    def log_mass(self) -> float:
        """Return the log mass of what agrees with the islands."""
        found = self.state.log_mass()
        if found == -np.inf:  # factors of evidence alone; islands have been looked at
            raise self.impossible()
        return found


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
    cards = model.cards
    first = np.cumsum(cards) - cards
    flat = np.zeros(int(cards.sum()))
    islands = np.full(cards.size, -1, dtype=np.int32)
    stats = dict.fromkeys(("islands", "segments", "released", "flipped", "rounds", "cliques"), 0)
    log_z, converged = 0.0, True
    soft = tuple((v, x.tobytes()) for v, x in known.soft)
    key = known.held.tobytes(), soft, memory_limit
    setup = _KEPT.get(model.stamp, {}).pop(key, None)
    setup = setup or _setup(model, known, memory_limit, watch)
    free = np.flatnonzero(known.held < 0)
    fixed = np.flatnonzero(known.held >= 0)
    flat[first[fixed] + known.held[fixed]] = 1.0
    forest = setup.forest
    if forest is not None:
        found = forest.infer(model, zeta, rounds, workers, watch)
        for i, v in enumerate(forest.variables.tolist()):
            flat[first[v] : first[v] + cards[v]] = found.marginals[i, : cards[v]]
        islands[forest.variables] = found.islands
        log_z, converged = float(found.log_z.sum()), bool(found.converged)
        stats.update(found.stats)
        unheld = known.held < 0
        unheld[forest.variables] = False
        free = np.flatnonzero(unheld)
    if setup.state is not None:
        state, evidence = setup.state, bool(fixed.size or forest is not None)
        asked = _Rounds(model, state, zeta, workers, evidence, memory_limit, watch)
        done, at_rest = asked.run(rounds)
        log_z += asked.log_mass()
        converged = converged and at_rest
        state.answer(free, flat, islands)
        if watch.progress is not None:
            watch.progress(asked.most(), asked.most())
        segments, released, flipped, cliques = state.counts()
        stats["islands"] += int(np.count_nonzero(islands[free] >= 0))
        stats["segments"] += segments
        stats["released"] += released
        stats["flipped"] += flipped
        stats["rounds"] = max(stats["rounds"], done)
        stats["cliques"] = cliques
    _keep(model.stamp, key, setup)
    return GraphResult(
        model,
        known.given,
        None,
        log_z,
        "islands",
        f"zeta={zeta:g} was asked for: an approximation, exact given its islands",
        stats,
        flat=flat,
        islands=islands,
        converged=converged,
        limit=memory_limit,
    )
