"""A graph compiled to a junction tree, and what a question to it is made of."""

from __future__ import annotations

import threading
from typing import Any

import numpy.typing as npt

from valuesparse import _graph
from valuesparse._validation import as_count
from valuesparse.errors import MemoryLimitError
from valuesparse.inference._barren import prune
from valuesparse.inference._conditioning import ASKED, WHOLE, Case, Slices
from valuesparse.inference._fitting import longer, slices_of
from valuesparse.inference._memory import as_limit, show_bytes
from valuesparse.inference._refusals import (
    ADVICE,
    STATE_BYTES,
    Hopeless,
    bytes_of,
    check_states,
    impossible,
    outputs,
)
from valuesparse.inference._search import within
from valuesparse.inference._snapshots import snapshot_of
from valuesparse.inference._watch import NOBODY, Watch
from valuesparse.models import FactorGraph
from valuesparse.models._evidence import Evidence, Known, known_of, soft_sum, split

__all__ = ["Compiled"]

Array = npt.NDArray[Any]


class _Asking:
    """See `Compiled._asking`; a generator would take longer than a small tree."""

    __slots__ = ("_tree",)

    def __init__(self, tree: Compiled) -> None:
        self._tree = tree

    def __enter__(self) -> None:
        tree = self._tree
        tree._lock.acquire()
        if tree._busy:
            tree._lock.release()
            raise RuntimeError(
                "a JunctionTree cannot be asked from its own progress callback; build another"
            )
        tree._busy = True

    def __exit__(self, *error: object) -> None:
        self._tree._busy = False
        self._tree._lock.release()


class Compiled:
    """A tree for one graph and what is known from the start; see `JunctionTree`."""

    def _start(
        self,
        graph: FactorGraph,
        evidence: Evidence | Known | None,
        memory_limit: int | None,
        effort: float,
        seed: int,
        watch: Watch,
        barren: bool = True,
        quit: bool = False,
        patience: float = ASKED,
    ) -> None:
        if not isinstance(graph, FactorGraph):
            raise TypeError(f"graph must be a valuesparse.FactorGraph, got {type(graph).__name__}")
        if not 0.0 <= float(effort) < float("inf"):
            raise ValueError(f"effort must be a number >= 0, got {effort!r}")
        self.memory_limit = as_limit(memory_limit)
        check_states(graph, self.memory_limit)  # compiling looks at every state
        self._given, self._held, self._soft = known_of(graph, evidence)
        seed = as_count("seed", seed, at_least=0)
        self._search = within(self.memory_limit, effort=float(effort), seed=seed, quit=quit)
        self._barren, self._patience = barren, patience
        self._snapshot = snapshot_of(graph)
        self._graph = graph = graph.copy()  # the builder may grow: answers are about this one
        self._states = int(graph.cards.sum())
        self._lock = threading.RLock()
        self._busy = False
        self._small: tuple[Any, _graph.Tree, Array] | None = None
        self._last: dict[_graph.Tree, tuple[Any, Slices | str]] = {}
        self._own: tuple[int, Slices | str] | None = None
        graph._soft = soft_sum(self._given)
        if not barren:
            some = [v for v, _ in self._soft]
            self._snapshot, self._held = prune(self._snapshot, self._held, some)
        self._tree = _graph.Tree(self._snapshot, [])
        self._prepare(*self._with(None)[:2], watch)
        self._look()
        search = None
        if self.memory > self.memory_limit:
            search = longer(self._tree, graph, self._search, self.memory_limit, self._patience)
        if search is not None:
            self._search, self._tree = search, _graph.Tree(self._snapshot, [])
            self._prepare(*self._with(None)[:2], watch)
            self._look()

    def _look(self) -> None:
        """Note what the tree costs with the evidence that it is built with."""
        self.width, self.table_size, bytes_, self.flops, *_ = self._tree.cost()
        self.memory = int(bytes_) + outputs(self._graph)
        self.seconds: float = self._tree.seconds()

    def _asking(self) -> _Asking:
        """One question at a time: other threads wait, a question within a question is refused."""
        return _Asking(self)

    def _with(self, evidence: Evidence | None) -> tuple[Array, _graph.Soft | None, dict[int, Any]]:
        """Return what the engine wants for the tree's evidence and more."""
        held, merged, given = self._merged(evidence)
        pairs = sorted(merged.items(), key=lambda pair: pair[0])
        return held, _graph.Soft(self._graph.n_variables, pairs) if pairs else None, given.given

    def _merged(self, evidence: Evidence | None) -> tuple[Array, dict[int, Array], Known]:
        """Return states that are known, likelihoods, and both as one question's evidence."""
        graph = self._graph
        if not evidence:
            held, soft = self._held, self._soft
            given = self._given
        else:
            more = graph.resolve_evidence(evidence, beside=self._graph._soft)
            _, held, soft = split(graph, more)
            for v, state in enumerate(self._held):
                if state >= 0:
                    if held[v] >= 0 and held[v] != state:
                        raise ValueError(
                            f"evidence for {graph.names[v]!r} contradicts what the tree was built "
                            "with; build another one"
                        )
                    held[v] = state
            soft = [*self._soft, *soft]
            given = {**self._given, **more}
        merged: dict[int, Array] = {}
        for v, value in soft:
            merged[v] = merged[v] + value if v in merged else value
        # Likelihoods of the tree and of the question multiply; a state outweighs them.
        given = {v: int(held[v]) if held[v] >= 0 else merged[v] for v in given}
        soft = [(v, merged[v]) for v in given if held[v] < 0]
        return held, merged, Known(given, held, soft)

    def _prepare(
        self,
        held: Array,
        soft: _graph.Soft | None,
        watch: Watch,
        tree: _graph.Tree | None = None,
    ) -> Case:
        tree = tree or self._tree
        empty = tree.prepare(held, soft, self._search, watch.left(), watch.late)
        if empty == _graph.HOPELESS:
            raise Hopeless(
                f"every junction tree of a short search needs more than "
                f"{bytes_of(8 * self._search.hopeless)}, far above "
                f"memory_limit={bytes_of(self.memory_limit)} (method='exact' searches longer)"
            )
        if empty >= 0:
            known = soft is not None or bool((held >= 0).any())
            raise impossible(self._graph, known, int(empty))
        return Case(tree, held, soft, self._search, watch)

    def _make_room(self, tree: _graph.Tree, kept: _graph.Tree | None) -> None:
        """Let go of messages of earlier questions, but for one tree's, where both may not fit."""
        if 2.0 * tree.cost()[2] <= self.memory_limit:
            return
        trees = [self._tree] if self._small is None else [self._tree, self._small[1]]
        for other in trees:
            if other is not kept:
                other.release()

    def _slices(self, watch: Watch = NOBODY) -> Slices | str:
        """Return what a question without evidence of its own is made of, or why it is refused."""
        limit = self.memory_limit
        if self.memory <= limit:
            return WHOLE
        if self._own is None or self._own[0] != limit:
            with self._asking():
                held, soft, _ = self._with(None)
                self._own = limit, self._sliced(self._prepare(held, soft, watch))
        return self._own[1]

    def _sliced(self, case: Case, more: float = 0.0) -> Slices | str:
        """Return what a question is made of, or why it is refused."""
        # What every question asks is quick: only a refusal looks closer.
        if case.tree.cost()[2] <= self.memory_limit - STATE_BYTES * self._states - more:
            return WHOLE
        some = () if case.soft is None else tuple(case.soft.variables())
        known = case.held.tobytes(), some, self.memory_limit
        last = self._last.get(case.tree)
        if last is None or last[0] != known:
            found = slices_of(case, self._graph, self.memory_limit, self._patience, more)
            last = self._last[case.tree] = known, found
        return last[1]

    def _divided(self, case: Case) -> Slices:
        """Return what a question is made of; MemoryLimitError where it is refused."""
        slices = self._sliced(case)
        if isinstance(slices, str):
            raise MemoryLimitError(f"{slices}: {ADVICE}")
        return slices

    def _words(self, slices: Slices) -> str:
        """Return why questions are conditioned, with the tree prepared for the whole."""
        width, _, bytes_, *_ = self._tree.cost()
        rest = outputs(self._graph)
        return (
            f"the junction tree has width {width} and needs {show_bytes(bytes_ + rest)}, above "
            f"memory_limit={show_bytes(self.memory_limit)}; {slices.words(self._graph.names)} of "
            f"at most {show_bytes(slices.bytes + rest)}, exact when put together"
        )
