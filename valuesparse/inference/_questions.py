"""Questions to a junction tree: each is prepared once, asked of every slice, and put together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse import _junction
from valuesparse.errors import MemoryLimitError
from valuesparse.inference._barren import prune
from valuesparse.inference._compiled import Compiled
from valuesparse.inference._conditioning import (
    WHOLE,
    Mixture,
    Slices,
    answer,
    each,
    masses,
    slices_of,
)
from valuesparse.inference._refusals import MASS, SAMPLES, bytes_of, impossible
from valuesparse.inference._watch import Watch
from valuesparse.models import FactorGraph
from valuesparse.models._evidence import Evidence, Known
from valuesparse.results import Decoding, GraphResult
from valuesparse.results._factors import CONDITIONED

__all__ = ["Questions", "full_joints"]

_UNIFORMS = 4_000_000  # of samples, drawn at once
#: Operations of a propagation that take no longer than compiling a small tree.
_COMPILING = 1e6


def full_joint(
    tree: _junction.CliqueTree, wanted: tuple[int, ...], graph: FactorGraph
) -> npt.NDArray[np.float64]:
    """Return the joint of the first set of a tree over all states."""
    return next(full_joints(tree, [wanted], graph))


def full_joints(
    tree: _junction.CliqueTree,
    sets: Sequence[tuple[int, ...]],
    graph: FactorGraph,
    gone: float = 0.0,
) -> Iterator[npt.NDArray[np.float64]]:
    """Yield the joint of each of a tree's sets over all states; `gone` stands where none is alive.

    There may be thousands of small ones: what they have in common is found once.
    """
    cards = graph.cardinalities
    # The states of a variable that are alive, as the index of an axis with so many axes after it.
    index: dict[tuple[int, int], npt.NDArray[np.intp]] = {}
    for q, wanted in enumerate(sets):
        table, order = tree.joint(q)
        if list(wanted) != order:
            table = table.transpose([order.index(v) for v in wanted if v in order])
        shape = tuple([cards[v] for v in wanted])
        if math.prod(shape) == table.size:  # all states are alive
            yield np.ascontiguousarray(table).reshape(shape)
            continue
        keys = [*zip(wanted, range(len(wanted))[::-1], strict=True)]
        for v, after in keys:
            if (v, after) not in index:
                index[v, after] = np.array(tree.alive(v)).reshape((-1,) + (1,) * after)
        at = tuple([index[key] for key in keys])
        full = np.full(shape, gone) if gone else np.zeros(shape)
        full[at] = table.reshape([x.size for x in at])
        yield full


class Questions(Compiled):
    """The questions of `JunctionTree`, for callers that have checked the arguments."""

    def _names(self, slices: Slices) -> tuple[Any, ...]:
        """Return the variables that slices are conditioned on, as the graph names them."""
        return tuple(self._graph.names[v] for v in slices.variables)

    def _infer(
        self,
        evidence: Evidence | Known | None,
        workers: int,
        watch: Watch,
        method: str = "junction_tree",
        reason: str = "",
    ) -> GraphResult:
        with self._lock:
            question, slices, given = self._ask(evidence, watch)
            width, entries, *_, tried = self._tree.cost()
            if slices is not WHOLE:
                method, reason = CONDITIONED, self._conditioned_because(slices)
                entries = slices.entries
            found = answer(question, slices, workers, np.empty(self._snapshot.entries))
        if not found.arrays:
            raise impossible(self._graph, bool(given))
        (flat,) = found.arrays
        stats = {
            "cliques": self._tree.n_cliques(),
            "table_entries": int(entries),
            "width": width,
            "orders_tried": tried,
            "widened": int(found.widened),
        }
        if slices is not WHOLE:
            stats["slices"] = len(slices.parts)
        return GraphResult(
            self._graph,
            given,
            None,
            found.log_z,
            method,
            reason or f"a junction tree of width {width} was asked for",
            stats,
            flat=flat,
            limit=self.memory_limit,
            faithful=found.faithful,
        )

    def _mass(
        self, evidence: Evidence | Known | None, workers: int, watch: Watch
    ) -> tuple[float, Slices]:
        """Return log Z, and the slices that it was put together from."""
        with self._lock:
            question, slices, given = self._ask(evidence, watch, mass=True, advice=MASS)
            log_z = answer(question, slices, workers).log_z
        if log_z == -np.inf:
            raise impossible(self._graph, bool(given))
        return log_z, slices

    def _joint(
        self, wanted: tuple[int, ...], evidence: Evidence | Known | None, workers: int, watch: Watch
    ) -> npt.NDArray[np.float64]:
        """Return the joint of some variables, from a tree in which a clique holds them all."""
        found = self._joint_here(wanted, evidence, workers, watch)
        if found is not None:
            return found
        question, slices, given = self._ask(evidence, watch, joint=wanted)

        def table() -> list[npt.NDArray[np.float64]]:
            return [full_joint(question.tree, wanted, self._graph)]

        # Joints come with marginals.
        arrays = answer(question, slices, workers, np.empty(self._states), table).arrays
        if not arrays:
            raise impossible(self._graph, bool(given))
        return arrays[1]

    def _joint_here(
        self, wanted: tuple[int, ...], evidence: Evidence | Known | None, workers: int, watch: Watch
    ) -> npt.NDArray[np.float64] | None:
        """Return the joint of variables that share a clique of this tree, else None."""
        graph = self._graph
        with self._lock:
            tree = self._whole(watch)
            held, soft, given = self._evidence(evidence)
            some = [] if soft is None else soft.variables()
            if self.flops > _COMPILING:
                # In a Bayesian network a tree of their ancestors may be far smaller.
                masked = prune(self._snapshot, held, some, wanted)[1]
                if 2 * np.count_nonzero(masked != held) > graph.n_variables:
                    return None
            question = self._prepare(held, soft, watch)
            size = 8 * (6 * math.prod(len(tree.alive(v)) for v in wanted))
            size += 8 * math.prod(graph.cardinalities[v] for v in wanted)
            if self._slices(question) is not WHOLE or tree.bytes() + size > self.memory_limit:
                return None
            try:
                if not tree.ask(wanted):
                    return None
                if not answer(question, WHOLE, workers, np.empty(self._states)).arrays:
                    raise impossible(graph, bool(given))
                return full_joint(tree, wanted, graph)
            finally:
                tree.ask(())

    def _expected(self, workers: int, watch: Watch) -> tuple[float, float, float]:
        """Return log Z, and the expectations of the score and of its factors' magnitudes."""
        with self._lock:
            question = self._prepare(*self._evidence(None)[:2], watch)
            tree, limit = question.tree, self.memory_limit - self._rest
            slices = self._slices(question)
            if slices is WHOLE:
                more = 16.0 * tree.factor_entries()
                if tree.bytes() + more > limit:
                    slices = slices_of(question, self._graph, limit, self._budget, more)
            slices = self._accepted(slices)
            try:
                tree.ask_factors(True)
                flat = np.empty(self._states)
                found = answer(question, slices, workers, flat, lambda: [np.array(tree.expected())])
            finally:
                tree.ask_factors(False)
        if not found.arrays:
            raise impossible(self._graph, bool(self._given))
        score, magnitude = found.arrays[1].tolist()
        return found.log_z, score, magnitude

    def _decode(self, evidence: Evidence | Known | None, workers: int, watch: Watch) -> Decoding:
        tree, states = self._tree, np.empty(self._graph.n_variables, dtype=np.int64)
        best, score = None, -math.inf
        with self._lock:
            question, slices, given = self._ask(evidence, watch, keep=False)
            for progress in each(question, slices, tree.n_cliques()):
                infeasible, found = tree.decode(
                    question.soft, workers, states, score, watch.left(), progress, watch.late
                )
                if not infeasible and found > score:
                    best, score = states.copy(), found
        if best is None:
            raise impossible(self._graph, bool(given))
        value: Any = np.float64(score)  # of a graph a scalar
        return Decoding(best, value, conditioned=self._names(slices), graph=self._graph)

    def _sample(
        self,
        count: int,
        generator: np.random.Generator,
        evidence: Evidence | Known | None,
        workers: int,
        watch: Watch,
    ) -> npt.NDArray[np.int64]:
        n = self._graph.n_variables
        size = 8 * count * n
        if size > self.memory_limit:
            raise MemoryLimitError(
                f"size={count} samples of {n} variables need {bytes_of(size)}, above "
                f"memory_limit={bytes_of(self.memory_limit)}; draw them in several calls"
            )
        states = np.empty((count, n), dtype=np.int64)
        with self._lock:
            question, slices, given = self._ask(evidence, watch, advice=SAMPLES)
            soft = question.soft
            if slices is WHOLE:
                infeasible = self._draw(soft, generator, workers, watch, states)
            else:
                # A sample moves on to a slice with the share that this has of the mass so far.
                infeasible, total = True, Mixture(slices)
                for mass in masses(question, slices, workers):
                    infeasible = False
                    moves = generator.random(count) < total.add(mass)
                    if moves.any():
                        rows = states[moves]
                        self._draw(soft, generator, workers, watch.uncounted(), rows)
                        states[moves] = rows
        if infeasible:
            raise impossible(self._graph, bool(given))
        return states

    def _draw(
        self,
        soft: _junction.Soft | None,
        generator: np.random.Generator,
        workers: int,
        watch: Watch,
        states: npt.NDArray[np.int64],
    ) -> bool:
        """Fill rows with samples of the tree as it is prepared; True where there are none."""
        count, n = states.shape[0], self._tree.n_cliques()
        total = n * (count + 1)
        # Blocks bound the memory of the uniforms; messages stay from one to the next.
        block = max(1, _UNIFORMS // max(1, n))
        for first in range(0, max(count, 1), block):
            rows = states[first : first + block]
            uniforms = generator.random((rows.shape[0], n))
            progress = watch.part(n * first, n * (first + rows.shape[0] + 1), total)
            if self._tree.sample(soft, workers, uniforms, rows, watch.left(), progress, watch.late):
                return True
        watch.finish(total)
        return False
