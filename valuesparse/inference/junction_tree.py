"""Exact inference by a junction tree: compile once, ask often."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse import _graph
from valuesparse._validation import as_count
from valuesparse.errors import InfeasibleError, MemoryLimitError
from valuesparse.inference._barren import prune
from valuesparse.inference._memory import as_limit
from valuesparse.inference._search import within
from valuesparse.inference._watch import NOBODY, Progress, Watch
from valuesparse.models import FactorGraph
from valuesparse.models.factor_graph import Evidence
from valuesparse.results import GraphResult
from valuesparse.threads import resolve

__all__ = ["JunctionTree"]

Array = npt.NDArray[Any]

_UNIFORMS = 4_000_000  # of samples, drawn at once

#: Of an array of numpy.
_MOST_AXES = 64


class JunctionTree:
    """An exact engine for one factor graph: triangulated once, asked with any evidence.

    Parameters
    ----------
    graph : FactorGraph
        The model, as it is now; factors added later are not seen.
    evidence : mapping, optional
        Hard or soft evidence that every question takes for granted; by default that of the graph.
        Variables it decides are removed before the graph is triangulated, so that the tree is
        smaller; :meth:`infer` may add to it, not contradict it.
    memory_limit : int, optional
        Bytes that a question may use; by default half of what the machine has.
    effort : float, default 1.0
        How long to look for a good elimination order, relative to the time that one propagation
        takes, or that one would take that just fits in `memory_limit`; 0 takes the first.
    seed : int, default 0
        Of the restarts of that search.
    deadline : float, optional
        Seconds after which the search gives up with `DeadlineError`.

    Attributes
    ----------
    width : int
        Variables of the largest clique of the triangulation, minus one.
    table_size : float
        Entries of all clique tables together.
    memory : int
        Bytes that a question needs.
    flops : float
        Multiplications and additions of one propagation.
    seconds : float
        Estimate of how long the first :meth:`infer` takes on one thread of a machine of 2020.
    cliques : list of tuple
        Variables (names) of each clique; children before their parents.
    parent : list of int
        Parent of each clique, −1 at roots.

    Raises
    ------
    InfeasibleError
        When the evidence leaves a variable no state.
    DeadlineError
        When `deadline` passed.

    Notes
    -----
    Before triangulating, states that no table supports are removed (arc consistency on the zeros
    of the tables), and so are variables with one state left. Orders: min-fill, weighted min-fill
    and min-weight, then restarts with random ties under a budget of operations; the smallest
    tables win. Costs are known before anything is allocated.

    Examples
    --------
    >>> import numpy as np
    >>> import valuesparse as vs
    >>> graph = vs.FactorGraph([2, 2, 2])
    >>> for edge in [(0, 1), (1, 2), (0, 2)]:
    ...     _ = graph.add(edge, [[1.0, 0.0], [0.0, 1.0]])
    >>> jt = vs.JunctionTree(graph)
    >>> jt.width, jt.infer(evidence={0: 1}).marginals[2].round(3).tolist()
    (2, [0.193, 0.807])
    """

    def __init__(
        self,
        graph: FactorGraph,
        *,
        evidence: Evidence | None = None,
        memory_limit: int | None = None,
        effort: float = 1.0,
        seed: int = 0,
        deadline: float | None = None,
    ) -> None:
        self._start(graph, evidence, memory_limit, effort, seed, Watch(deadline, None))

    @classmethod
    def _of_mass(
        cls, graph: FactorGraph, evidence: Evidence | None, memory_limit: int | None, watch: Watch
    ) -> JunctionTree:
        """Return a tree for :meth:`log_z` with this evidence only: barren variables are gone."""
        self = cls.__new__(cls)
        self._start(graph, evidence, memory_limit, 1.0, 0, watch, barren=False)
        return self

    @classmethod
    def _of_call(
        cls,
        graph: FactorGraph,
        evidence: Evidence | None,
        memory_limit: int | None,
        watch: Watch,
        *,
        quit: bool = False,
    ) -> JunctionTree:
        """Return a tree for one call; `quit`: MemoryLimitError as soon as it is hopeless."""
        self = cls.__new__(cls)
        self._start(graph, evidence, memory_limit, 1.0, 0, watch, quit=quit)
        return self

    def _start(
        self,
        graph: FactorGraph,
        evidence: Evidence | None,
        memory_limit: int | None,
        effort: float,
        seed: int,
        watch: Watch,
        barren: bool = True,
        quit: bool = False,
    ) -> None:
        if not isinstance(graph, FactorGraph):
            raise TypeError(f"graph must be a valuesparse.FactorGraph, got {type(graph).__name__}")
        if not 0.0 <= float(effort) < float("inf"):
            raise ValueError(f"effort must be a number >= 0, got {effort!r}")
        self.memory_limit = as_limit(memory_limit)
        self._given = graph.evidence if evidence is None else graph.resolve_evidence(evidence)
        seed = as_count("seed", seed, at_least=0)
        self._search = within(self.memory_limit, effort=float(effort), seed=seed, quit=quit)
        self._snapshot = graph._compiled()
        self._graph = graph = graph._copy()  # the builder may grow: answers are about this one
        self._lock = threading.RLock()
        self._busy = False
        self._small: tuple[Any, _graph.Tree, Array] | None = None
        self._held, self._soft = self._split(self._given)
        if not barren:
            some = [v for v, _ in self._soft]
            self._snapshot, self._held = prune(self._snapshot, self._held, some)
        self._tree = _graph.Tree(self._snapshot, [])
        self._prepare(*self._with(None)[:2], watch)
        self.width, self.table_size, bytes_, self.flops, *_ = self._tree.cost()
        self.memory = int(bytes_) + outputs(graph)
        self.seconds = self._tree.seconds()

    @property
    def cliques(self) -> list[tuple[Any, ...]]:
        """Variables (names) of each clique; children before their parents."""
        names = self._graph.names
        return [tuple(names[v] for v in clique) for clique in self._tree.cliques()[0]]

    @property
    def parent(self) -> list[int]:
        """Parent of each clique, −1 at roots."""
        return list(self._tree.cliques()[1])

    def infer(
        self,
        evidence: Evidence | None = None,
        *,
        threads: int | None = None,
        deadline: float | None = None,
        progress: Callable[[int, int], object] | None = None,
    ) -> GraphResult:
        """Return the posterior of every variable, and the log partition function.

        Parameters
        ----------
        evidence : mapping, optional
            More evidence, hard or soft, beside what the tree was built with.
        threads : int, optional
            At least 1; by default :func:`valuesparse.get_num_threads`. Results do not depend on it.
        deadline : float, optional
            Seconds after which the call gives up with `DeadlineError`.
        progress : callable, optional
            Called as ``progress(done, total)`` now and then, from this thread; every
            clique counts twice, on the way up and on the way down.

        Returns
        -------
        GraphResult
            ``log_z`` is the log-sum over the configurations that agree with the evidence: for a
            Bayesian network, log P(evidence).

        Raises
        ------
        InfeasibleError
            When no configuration agrees with the evidence.
        MemoryLimitError
            When the tables need more than `memory_limit`.
        """
        watch = Watch(deadline, progress)
        return self._infer(evidence, threads, watch, "junction_tree", "")

    def _infer(
        self,
        evidence: Evidence | None,
        threads: int | None,
        watch: Watch,
        method: str,
        reason: str,
    ) -> GraphResult:
        graph = self._graph
        workers = resolve(threads)
        held, soft, given = self._with(evidence)
        snapshot = self._snapshot
        flat = np.empty(snapshot.entries)
        with self._asking():
            self._prepare(held, soft, watch)
            self._check_memory()
            dead, log_z = self._tree.infer(
                soft, workers, flat, watch.left(), watch.progress, watch.late
            )
            cost = self._tree.cost()
            widened = self._tree.widened()
        if dead:
            raise impossible(graph, bool(given))
        if not reason:
            reason = f"a junction tree of width {cost[0]} was asked for"
        stats = {
            "cliques": self._tree.n_cliques(),
            "table_entries": int(cost[1]),
            "width": cost[0],
            "orders_tried": cost[6],
            "widened": int(widened),
        }
        return GraphResult(
            graph,
            given,
            snapshot.split(flat),
            log_z,
            method,
            reason,
            stats,
        )

    def log_z(
        self,
        evidence: Evidence | None = None,
        *,
        threads: int | None = None,
        deadline: float | None = None,
        progress: Callable[[int, int], object] | None = None,
    ) -> float:
        """Return the log partition function alone: half the work of :meth:`infer`, or less.

        Parameters
        ----------
        evidence : mapping, optional
            As for :meth:`infer`; for a Bayesian network the answer is log P(evidence).
        threads, deadline, progress : optional
            As for :meth:`infer`.

        Returns
        -------
        float
            The log-sum over the configurations that agree with the evidence.

        Notes
        -----
        In a Bayesian network (of `read_bif`, `from_pgmpy` or `from_pyagrum`) only ancestors of
        the evidence matter: a tree of their own is built, and kept for evidence on the same
        variables. Without evidence there is nothing to do.

        Examples
        --------
        >>> import numpy as np
        >>> import valuesparse as vs
        >>> graph = vs.FactorGraph([2, 2])
        >>> _ = graph.add([0, 1], np.log([[4.0, 1.0], [1.0, 4.0]]))
        >>> round(vs.JunctionTree(graph).log_z({0: 1}), 6) == round(float(np.log(5)), 6)
        True
        """
        workers = resolve(threads)
        watch = Watch(deadline, progress)
        held, soft, given = self._with(evidence)
        with self._asking():
            tree, held = self._pruned(held, soft, watch)
            self._prepare(held, soft, watch, tree)
            check_memory(tree, self._graph, self.memory_limit)
            dead, log_z = tree.infer(soft, workers, None, watch.left(), progress, watch.late)
        if dead:
            raise impossible(self._graph, bool(given))
        return float(log_z)

    def _pruned(
        self, held: Array, soft: _graph.Soft | None, watch: Watch
    ) -> tuple[_graph.Tree, Array]:
        """Return the tree that gives log P(evidence), and what it is told about variables."""
        known = (held >= 0).tobytes(), () if soft is None else tuple(soft.variables())
        if self._small is None or self._small[0] != known:
            snapshot, masked = prune(self._snapshot, held, known[1])
            tree = self._tree
            if masked is not held:
                tree = _graph.Tree(snapshot, [])
                # Evidence comes later: a tree takes what refines what it was compiled for.
                self._prepare(np.where(held == masked, self._held, masked), soft, watch, tree)
            self._small = known, tree, masked
        _, tree, masked = self._small
        return tree, np.where(held >= 0, held, masked)

    def joint(
        self,
        variables: Iterable[Any],
        evidence: Evidence | None = None,
        *,
        threads: int | None = None,
    ) -> npt.NDArray[np.float64]:
        """Return the joint marginal of any set of variables.

        Parameters
        ----------
        variables : sequence
            Names (or numbers), without repetition; one axis each, in this order.
        evidence : mapping, optional
            As for :meth:`infer`.
        threads : int, optional
            At least 1.

        Returns
        -------
        ndarray of float64
            Sums to 1.

        Notes
        -----
        A tree of its own is built in which one clique holds them all. In a Bayesian network it
        leaves out what neither they nor the evidence descend from.
        """
        graph = self._graph
        wanted = tuple(graph.variable(v) for v in variables)
        if len(set(wanted)) != len(wanted):
            raise ValueError("variables must not name one twice")
        if len(wanted) > _MOST_AXES:
            raise ValueError(
                f"variables must be {_MOST_AXES} at most, the axes of an array; got {len(wanted)}"
            )
        held, soft, given = self._with(evidence)
        some = [] if soft is None else soft.variables()
        snapshot, held = prune(self._snapshot, held, some, wanted)
        tree = _graph.Tree(snapshot, [wanted])
        other = JunctionTree.__new__(JunctionTree)
        other.__dict__.update(self.__dict__)
        other._tree = tree
        other._prepare(held, soft, NOBODY)
        # The table as the tree has it, turned, and with the states that are impossible.
        alive = math.prod(len(tree.alive(v)) for v in wanted)
        size = 8 * (6 * alive + math.prod(graph.cardinalities[v] for v in wanted))
        rest = tree.cost()[2]
        if size + rest > self.memory_limit:
            raise MemoryLimitError(
                f"the joint of {len(wanted)} variables needs {size:.3g} bytes beside a junction "
                f"tree of {rest:.3g}, above memory_limit={self.memory_limit:.3g}; ask for fewer "
                "variables, give evidence or raise memory_limit"
            )
        other._check_memory()
        flat = np.empty(int(graph._cards.sum()))
        dead, _ = tree.infer(soft, resolve(threads), flat, None, None, None)
        if dead:
            raise impossible(graph, bool(given))
        return full_joint(tree, 0, wanted, graph)

    def decode(
        self,
        evidence: Evidence | None = None,
        *,
        threads: int | None = None,
        deadline: float | None = None,
        progress: Progress | None = None,
    ) -> tuple[npt.NDArray[np.int64], float]:
        """Return a most probable configuration (n,) given the evidence, and its score.

        `deadline` and `progress` as for :meth:`infer`; every clique counts once.
        """
        return self._decode(evidence, resolve(threads), Watch(deadline, progress))

    def _decode(
        self, evidence: Evidence | None, workers: int, watch: Watch
    ) -> tuple[npt.NDArray[np.int64], float]:
        graph = self._graph
        held, soft, given = self._with(evidence)
        states = np.empty(graph.n_variables, dtype=np.int64)
        with self._asking():
            self._prepare(held, soft, watch)
            self._check_memory()
            n = self._tree.n_cliques()
            dead, score = self._tree.decode(
                soft, workers, states, watch.left(), watch.part(0, n, n), watch.late
            )
        if dead:
            raise impossible(graph, bool(given))
        watch.finish(n)
        return states, score

    def sample(
        self,
        size: int,
        rng: np.random.Generator | int | None = None,
        evidence: Evidence | None = None,
        *,
        threads: int | None = None,
        deadline: float | None = None,
        progress: Progress | None = None,
    ) -> npt.NDArray[np.int64]:
        """Draw exact samples from the posterior, (size, n).

        `deadline` and `progress` as for :meth:`infer`; every clique counts once, and once more
        for each sample.
        """
        count = as_count("size", size, at_least=0)
        generator = np.random.default_rng(rng)
        watch = Watch(deadline, progress)
        return self._sample(count, generator, evidence, resolve(threads), watch)

    def _sample(
        self,
        count: int,
        generator: np.random.Generator,
        evidence: Evidence | None,
        workers: int,
        watch: Watch,
    ) -> npt.NDArray[np.int64]:
        graph = self._graph
        held, soft, given = self._with(evidence)
        states = np.empty((count, graph.n_variables), dtype=np.int64)
        with self._asking():
            self._prepare(held, soft, watch)
            self._check_memory()
            n = self._tree.n_cliques()
            total = n * (count + 1)
            # Blocks bound the memory of the uniforms; messages stay from one to the next.
            block, dead = max(1, _UNIFORMS // max(1, n)), False
            for first in range(0, max(count, 1), block):
                rows = states[first : first + block]
                uniforms = generator.random((rows.shape[0], n))
                last = n * (first + rows.shape[0] + 1)
                dead = self._tree.sample(
                    soft, workers, uniforms, rows,
                    watch.left(), watch.part(n * first, last, total), watch.late,
                )  # fmt: skip
                if dead:
                    break
        if dead:
            raise impossible(graph, bool(given))
        watch.finish(total)
        return states

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """One question at a time: other threads wait, a question within a question is refused."""
        with self._lock:
            if self._busy:
                raise RuntimeError(
                    "a JunctionTree cannot be asked from its own progress callback; build another"
                )
            self._busy = True
            try:
                yield
            finally:
                self._busy = False

    def _split(self, given: dict[int, Any]) -> tuple[Array, list[tuple[int, Array]]]:
        held = np.full(self._graph.n_variables, -1, dtype=np.int64)
        soft = []
        for v, value in given.items():
            if isinstance(value, int):
                held[v] = value
            else:
                soft.append((v, value))
        return held, soft

    def _with(self, evidence: Evidence | None) -> tuple[Array, _graph.Soft | None, dict[int, Any]]:
        """Return what the engine wants for the tree's evidence and more."""
        graph = self._graph
        if not evidence:
            held, soft = self._held, self._soft
            given = self._given
        else:
            more = graph.resolve_evidence(evidence)
            held, soft = self._split(more)
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
        pairs = sorted(merged.items(), key=lambda pair: pair[0])
        return held, _graph.Soft(graph.n_variables, pairs) if pairs else None, given

    def _prepare(
        self,
        held: Array,
        soft: _graph.Soft | None,
        watch: Watch,
        tree: _graph.Tree | None = None,
    ) -> None:
        tree = tree or self._tree
        empty = tree.prepare(held, soft, self._search, watch.left(), watch.late)
        if empty == _graph.HOPELESS:
            raise MemoryLimitError(
                f"a junction tree needs more than {8 * self._search.hopeless:.3g} bytes, far above "
                f"memory_limit={self.memory_limit:.3g}"
            )
        if empty >= 0:
            raise InfeasibleError(
                0,
                int(empty),
                message="no configuration agrees with the evidence: variable "
                f"{self._graph.names[empty]!r} has no state left",
            )

    def _schedules(self) -> tuple[tuple[list[Any], ...], tuple[list[Any], ...]]:
        """Return the way up and the way down with the evidence that the tree was built with."""
        with self._asking():
            self._prepare(*self._with(None)[:2], NOBODY)
            return self._tree.schedule(True), self._tree.schedule(False)

    def _check_memory(self) -> None:
        check_memory(self._tree, self._graph, self.memory_limit)

    def __repr__(self) -> str:
        return (
            f"JunctionTree(cliques={self._tree.n_cliques()}, width={self.width}, "
            f"table_size={self.table_size:.3g}, memory={self.memory:.3g})"
        )


def full_joint(
    tree: _graph.Tree, q: int, wanted: tuple[int, ...], graph: FactorGraph
) -> npt.NDArray[np.float64]:
    """Return the joint of set q of a tree that was asked for it, zeros where states are gone."""
    table, order = tree.joint(q)
    full = np.zeros([graph.cardinalities[v] for v in wanted])
    alive = [tree.alive(v) for v in wanted]
    axes = [order.index(v) for v in wanted if v in order]
    block = table.transpose(axes).reshape([len(a) for a in alive])
    full[np.ix_(*alive)] = block
    return full


def check_memory(tree: _graph.Tree, graph: FactorGraph, limit: int) -> None:
    """Raise MemoryLimitError when the tables of `tree` need more than `limit` bytes."""
    refusal = too_large(tree, graph, limit)
    if refusal is not None:
        raise MemoryLimitError(refusal)


def too_large(tree: _graph.Tree, graph: FactorGraph, limit: int) -> str | None:
    """Return why `tree` does not fit in `limit` bytes, or None when it does."""
    _, _, bytes_, _, clique, entries, _ = tree.cost()
    bytes_ += outputs(graph)
    if bytes_ <= limit:
        return None
    names = [graph.names[v] for v in clique]
    shown = ", ".join(map(str, names[:12])) + (", ..." if len(names) > 12 else "")
    return (
        f"the junction tree needs {bytes_:.3g} bytes, above memory_limit={limit:.3g}: its "
        f"largest clique has {len(clique)} variables and {entries:.3g} entries ({shown}); "
        "give evidence, raise memory_limit or choose an approximation"
    )


def outputs(graph: FactorGraph) -> int:
    """Return the bytes of the marginals, and of what variables hear while they are made."""
    return 16 * int(graph._cards.sum())


def impossible(graph: FactorGraph, evidence: bool) -> InfeasibleError:
    """Return the error that says no configuration is left."""
    what = "agrees with the evidence" if evidence else "has positive weight"
    return InfeasibleError(0, -1, message=f"no configuration of the graph {what}")
