"""A graph compiled to a junction tree, prepared for one question after the other."""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Mapping
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from valuesparse import _junction
from valuesparse._fork import renew_in_forks
from valuesparse._owned import ReadOnly
from valuesparse._validation import as_count, as_threshold
from valuesparse.errors import MemoryLimitError
from valuesparse.inference._barren import prune
from valuesparse.inference._conditioning import (
    ASKED,
    WHOLE,
    Question,
    Slices,
    longer,
    slices_of,
)
from valuesparse.inference._kept import KeptTree, give_back, key_of, take
from valuesparse.inference._memory import as_limit, show_bytes
from valuesparse.inference._refusals import (
    ADVICE,
    JOINTS,
    STATE_BYTES,
    SearchGivenUp,
    as_graph,
    bytes_of,
    check_states,
    impossible,
    made_bytes,
    outputs,
)
from valuesparse.inference._search import within
from valuesparse.inference._snapshots import snapshot_of
from valuesparse.inference._watch import NOBODY, Watch
from valuesparse.models import FactorGraph
from valuesparse.models._evidence import Evidence, Known, asked, known_of, soft_sum, split

__all__ = ["Compiled"]

Array = npt.NDArray[Any]

_LARGEST_SEED = 2**64 - 1


def _is_some(evidence: Evidence | Known | None) -> TypeGuard[Evidence | Known]:
    """Return whether there is evidence; whatever is no mapping is refused where it is read."""
    return evidence is not None and not (isinstance(evidence, (dict, Mapping)) and not evidence)


class _OneAtATime(type(threading.RLock())):  # type: ignore[misc]  # of C, where it has a class
    """Other threads wait, a question within a question is refused.

    A signal may raise after any call, and at the start of any function of Python. `__exit__`, which
    is inherited, is neither: whatever ends a question, it lets the lock go.
    """

    def __enter__(self) -> None:
        if self._is_owned():
            raise RuntimeError(
                "a JunctionTree cannot be asked from its own progress callback; build another"
            )
        try:
            self.acquire()
        except BaseException:
            if self._is_owned():  # the signal came just after
                self.release()
            raise


class Compiled:
    """A tree for one graph and the evidence that it is built with; see `JunctionTree`."""

    seconds: float
    #: Whether a fork took away all that was compiled.
    _lost = False

    def _start(
        self,
        graph: FactorGraph,
        evidence: Evidence | Known | None,
        memory_limit: int | None,
        watch: Watch,
        *,
        effort: float = 1.0,
        seed: int = 0,
        barren: bool = True,
        give_up: bool = False,
        budget: float = ASKED,
        keep: bool = False,
    ) -> None:
        """Compile the graph.

        `barren`: keep variables that only log Z does without. `give_up`: MemoryLimitError as soon
        as the first orders are far too large. `budget`: seconds that conditioning may take.
        `keep`: take a tree that an earlier call left; `_keep` leaves it to later ones.
        """
        as_graph(graph)
        effort = as_threshold("effort", effort)
        if math.isinf(effort):
            raise ValueError(f"effort must be a number >= 0 and finite, got {effort!r}")
        self.memory_limit = as_limit(memory_limit)
        check_states(graph, self.memory_limit)  # compiling takes memory for every state
        known = known_of(graph, evidence)
        self._given, self._held, self._soft = known
        seed = as_count("seed", seed, at_least=0, at_most=_LARGEST_SEED)
        self._search = within(self.memory_limit, effort=effort, seed=seed, give_up=give_up)
        self._barren, self._budget = barren, budget
        self._snapshot = snapshot_of(graph, self.memory_limit)
        #: Bytes that every question takes beside a tree.
        self._rest = STATE_BYTES * self._snapshot.entries + made_bytes(graph)
        self._graph = graph = graph.copy()  # the builder may grow: answers are about this one
        self._states = self._snapshot.entries
        self._lock = _OneAtATime()
        self._forget()
        if not keep:  # only its own thread asks the tree of a call
            _TREES.add(self)
        graph._soft = soft_sum(self._given) if self._soft else 0.0
        self._key = key_of(known, self.memory_limit, barren) if keep else None
        if self._taken():
            return
        if not barren:
            some = [v for v, _ in self._soft]
            whole = self._snapshot
            self._snapshot, self._held = prune(whole, self._held, some)
            if self._snapshot is whole and keep:  # the tree of all other questions
                self._key = key_of(known, self.memory_limit, True)
                if self._taken():
                    return
        self._compile(watch)
        if self.memory > self.memory_limit:
            search = longer(self._tree, graph, self._search, self.memory_limit, budget)
            if search is not None:
                self._search = search
                self._compile(watch)
            self._key = None

    def _forget(self) -> None:
        """Hold nothing that questions have made."""
        #: The answer of `_evidence` to questions without evidence of their own, once asked.
        self._own: tuple[Array, _junction.Soft | None, dict[int, Any]] | None = None
        #: The tree of `log_z`, for evidence on the same variables.
        self._pruned_tree: tuple[Any, _junction.CliqueTree, Array] | None = None
        #: The slices found last: for each tree, and for questions without evidence of their own.
        self._found: dict[_junction.CliqueTree, tuple[Any, Slices | str]] = {}
        self._found_own: tuple[int, Slices | str] | None = None

    def _survive(self) -> None:
        """In a forked child, let go of what a thread was at that the child does not have."""
        if self._lock.acquire(blocking=False):  # nobody was, or this very thread is
            self._lock.release()
            return
        self._lock = _OneAtATime()
        self._forget()
        self._tree = _junction.CliqueTree(self._snapshot, [])
        self._lost = True

    def _whole(self, watch: Watch = NOBODY) -> _junction.CliqueTree:
        """Return the tree, compiled; it has to be locked."""
        if self._lost:  # first for the evidence that it was built with
            self._prepare(*self._evidence(None)[:2], watch)
            self._lost = False
        return self._tree

    def _looked_at(self) -> _junction.CliqueTree:
        """Return the tree, compiled, for those who only look at it."""
        if self._lost:
            with self._lock:
                return self._whole()
        return self._tree

    def _taken(self) -> bool:
        """Take the tree of an earlier call; False where there is none."""
        found = None if self._key is None else take(self._graph.stamp, self._key)
        if found is None:
            return False
        self._tree, self._snapshot, self._held, self._search, cost = found
        self.width, self.table_size, self.memory, self.flops, self.seconds = cost
        return True

    def _keep(self) -> None:
        """Leave the tree to later calls; this object is asked no more."""
        if self._key is not None:
            cost = self.width, self.table_size, self.memory, self.flops, self.seconds
            kept = KeptTree(self._tree, self._snapshot, self._held, self._search, cost)
            give_back(self._graph.stamp, self._key, kept)
            self._key = None

    def _compile(self, watch: Watch) -> None:
        """Triangulate, and note what the tree costs with the evidence that it is built with."""
        self._tree = _junction.CliqueTree(self._snapshot, [])
        self._prepare(*self._evidence(None)[:2], watch)
        self.width, self.table_size, bytes_, self.flops, *_ = self._tree.cost()
        self.memory = int(bytes_) + self._rest
        self.seconds = self._tree.seconds()

    def _ask(
        self,
        evidence: Evidence | Known | None,
        watch: Watch,
        *,
        keep: bool = True,
        mass: bool = False,
        joint: tuple[int, ...] | None = None,
        advice: str = ADVICE,
    ) -> tuple[Question, Slices, dict[int, Any]]:
        """Prepare a tree for a question; return it, its slices and all evidence.

        `keep`: the tree's messages, for the next question. `mass`: only log Z is asked for.
        `joint`: variables that a clique has to hold, of a new tree; any other has to be locked.
        `advice`: what an error advises where the question is refused.
        """
        held, soft, given = self._evidence(evidence)
        some = [] if soft is None else soft.variables()
        tree = self._tree if joint is not None else self._whole(watch)
        if joint is not None:
            snapshot, held = prune(self._snapshot, held, some, joint)
            tree = _junction.CliqueTree(snapshot, [joint])
        elif mass:
            tree, held = self._pruned(held, soft, watch)
        question = self._prepare(held, soft, watch, tree)
        if joint is not None:
            return question, self._accepted(self._joint_slices(question, joint)), given
        self._release_others(tree if keep else None)
        return question, self._accepted(self._slices(question), advice), given

    def _evidence(
        self, evidence: Evidence | Known | None
    ) -> tuple[Array, _junction.Soft | None, dict[int, Any]]:
        """Return the tree's evidence and more: states, likelihoods, and both as one mapping."""
        if _is_some(evidence):
            held, merged, known = self._merged(evidence)
            return held, self._numbers(merged), known.given
        if self._own is None:  # results share the mapping
            soft = self._numbers(dict(self._soft))
            self._own = self._held, soft, ReadOnly(self._given)
        return self._own

    def _numbers(self, merged: dict[int, Array]) -> _junction.Soft | None:
        """Return likelihoods as a tree is handed them."""
        if not merged:
            return None
        pairs = sorted(merged.items(), key=lambda pair: pair[0])
        return _junction.Soft(self._graph.n_variables, pairs)

    def _more(
        self, evidence: Evidence | None, likelihood: Evidence | None
    ) -> Evidence | Known | None:
        """Return the evidence of a question, likelihoods included."""
        if likelihood is None:
            return evidence
        return asked(self._graph, {} if evidence is None else evidence, likelihood)

    def _merged(self, evidence: Evidence | Known | None) -> tuple[Array, dict[int, Array], Known]:
        """Return states that are known, likelihoods, and both as one question's evidence."""
        graph = self._graph
        if not _is_some(evidence):
            held, soft = self._held, self._soft
            given = self._given
        else:
            if not isinstance(evidence, Known):
                evidence = split(graph, graph.resolve_evidence(evidence, beside=graph._soft))
            more, held, soft = evidence
            held = held.copy()
            for v in np.flatnonzero(self._held >= 0).tolist():
                if held[v] not in (-1, self._held[v]):
                    raise ValueError(
                        f"evidence for {graph.names[v]!r} contradicts what the tree was built "
                        "with; build another one"
                    )
                held[v] = self._held[v]
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
        soft: _junction.Soft | None,
        watch: Watch,
        tree: _junction.CliqueTree | None = None,
    ) -> Question:
        """Compile a tree once, and lay it out for this evidence."""
        tree = tree or self._tree
        # How many steps there are is known once the tree is.
        start = watch.part(0, 0, 2 * tree.n_cliques()) if tree.n_cliques() else None
        empty = tree.prepare(held, soft, self._search, watch.left(), start, watch.late)
        if empty == _junction.TOO_LARGE:
            raise SearchGivenUp(
                f"every junction tree of a short search needs more than "
                f"{bytes_of(8 * self._search.most)}, far above "
                f"memory_limit={bytes_of(self.memory_limit)} (method='exact' searches longer)"
            )
        if empty >= 0:
            known = soft is not None or bool((held >= 0).any())
            raise impossible(self._graph, known, int(empty))
        return Question(tree, held, soft, self._search, watch)

    def _pruned(
        self, held: Array, soft: _junction.Soft | None, watch: Watch
    ) -> tuple[_junction.CliqueTree, Array]:
        """Return the tree that gives log P(evidence), and the states that are held in it."""
        known = (held >= 0).tobytes(), () if soft is None else tuple(soft.variables())
        if self._pruned_tree is None or self._pruned_tree[0] != known:
            snapshot, masked = prune(self._snapshot, held, known[1])
            tree = self._tree
            if masked is not held:
                tree = _junction.CliqueTree(snapshot, [])
                # It is compiled for all evidence on these variables, and laid out for this later.
                self._prepare(np.where(held == masked, self._held, masked), soft, watch, tree)
            if self._pruned_tree is not None and self._pruned_tree[1] is not self._tree:
                self._found.pop(self._pruned_tree[1], None)
            self._pruned_tree = known, tree, masked
        _, tree, masked = self._pruned_tree
        return tree, np.where(held >= 0, held, masked)

    def _release_others(self, kept: _junction.CliqueTree | None) -> None:
        """Free the messages of all trees but one, where those of two may not fit in memory."""
        tree = kept or self._tree
        if 2.0 * tree.bytes() <= self.memory_limit:
            return
        trees = [self._tree] if self._pruned_tree is None else [self._tree, self._pruned_tree[1]]
        for other in trees:
            if other is not kept:
                other.release()

    def _own_slices(self, watch: Watch = NOBODY) -> Slices | str:
        """Return the slices of a question without evidence of its own, or why it is refused."""
        limit = self.memory_limit
        if self.memory <= limit:
            return WHOLE
        if self._found_own is None or self._found_own[0] != limit:
            with self._lock:
                held, soft, _ = self._evidence(None)
                self._found_own = limit, self._slices(self._prepare(held, soft, watch))
        return self._found_own[1]

    def _slices(self, question: Question) -> Slices | str:
        """Return the slices of a question, or why it is refused; the last ones are kept."""
        tree, held, soft, *_ = question
        # This is asked by every question; `slices_of` only has to find the words of a refusal.
        if tree.bytes() <= self.memory_limit - self._rest:
            return WHOLE
        some = () if soft is None else tuple(soft.variables())
        known = held.tobytes(), some, self.memory_limit
        last = self._found.get(tree)
        if last is None or last[0] != known:
            found = slices_of(question, self._graph, self.memory_limit, self._budget)
            last = self._found[tree] = known, found
        return last[1]

    def _joint_slices(self, question: Question, wanted: tuple[int, ...]) -> Slices | str:
        """Return the slices of a question for a joint, whose table takes memory, too."""
        tree, limit = question.tree, self.memory_limit
        # The table as the tree has it, transposed, and with the states that are impossible.
        alive = math.prod(len(tree.alive(v)) for v in wanted)
        size = 8 * (6 * alive + math.prod(self._graph.cardinalities[v] for v in wanted))
        rest = tree.bytes()
        fits = size + rest <= limit
        slices = slices_of(question, self._graph, limit, self._budget, 0.0 if fits else size)
        if fits or not isinstance(slices, str):
            return slices
        fewer = "ask for fewer variables, " if self.memory <= limit else ""
        raise MemoryLimitError(
            f"the joint of {len(wanted)} variables needs {bytes_of(size)} beside "
            f"{bytes_of(rest)} of a junction tree, above memory_limit={bytes_of(limit)}; "
            f"{fewer}{JOINTS}"
        )

    @staticmethod
    def _accepted(slices: Slices | str, advice: str = ADVICE) -> Slices:
        """Return the slices of a question; MemoryLimitError where it is refused."""
        if isinstance(slices, str):
            raise MemoryLimitError(f"{slices}: {advice}")
        return slices

    def _conditioned_because(self, slices: Slices) -> str:
        """Return why questions are conditioned, with the tree prepared for the whole."""
        width, _, bytes_, *_ = self._tree.cost()
        rest, how = outputs(self._graph), slices.describe(self._graph.names)
        return (
            f"the junction tree has width {width} and needs {show_bytes(bytes_ + rest)}, above "
            f"memory_limit={show_bytes(self.memory_limit)}; {how} of at most "
            f"{show_bytes(slices.bytes + rest)}, exact when put together"
        )

    def _show_plan(self, threads: int) -> None:
        """Show the thread's recorder what a question runs, with the evidence of the tree itself."""
        with self._lock:
            self._prepare(*self._evidence(None)[:2], NOBODY)
            self._tree.show(threads)


#: The trees that threads may ask.
_TREES: weakref.WeakSet[Compiled] = weakref.WeakSet()


@renew_in_forks
def _forked() -> None:
    for tree in _TREES:
        tree._survive()
