"""Exact inference by a junction tree: compile once, ask often."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse import _graph
from valuesparse._validation import as_count, as_generator, as_zeta
from valuesparse.errors import MemoryLimitError
from valuesparse.inference._barren import prune
from valuesparse.inference._compiled import Compiled
from valuesparse.inference._conditioning import (
    ASKED,
    WHOLE,
    Mixture,
    Slices,
    answer,
    each,
    masses,
)
from valuesparse.inference._graph_islands import infer_islands
from valuesparse.inference._memory import default_memory_limit
from valuesparse.inference._read_out import full_joint
from valuesparse.inference._refusals import ADVICE, bytes_of, impossible, outputs
from valuesparse.inference._watch import NOBODY, Progress, Watch
from valuesparse.models import FactorGraph
from valuesparse.models._evidence import Evidence, Known
from valuesparse.results import Decoding, GraphResult
from valuesparse.results._graph import CONDITIONED
from valuesparse.threads import resolve

__all__ = ["Division", "JunctionTree"]

Array = npt.NDArray[Any]

_UNIFORMS = 4_000_000  # of samples, drawn at once

#: Of an array of numpy.
_MOST_AXES = 64


@dataclass(frozen=True)
class Division:
    """What a question to a junction tree is made of.

    Attributes
    ----------
    conditioned : tuple
        Variables (names) that it is conditioned on; none where the tree fits.
    slices : int
        Joint states of these, each asked for in turn: 1 where the tree fits.
    memory : int
        Bytes that the largest slice needs.
    seconds : float
        Estimate for all slices, on one thread of a machine of 2020.
    """

    conditioned: tuple[Any, ...]
    slices: int
    memory: int
    seconds: float


class JunctionTree(Compiled):
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
        takes, or that one would take that just fits in `memory_limit`; 0 takes the first (min
        fill), and anything above compares three rules at least.
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
        Bytes that a question needs where it is answered in one piece; :meth:`divide` says what is
        done where that exceeds `memory_limit`.
    flops : float
        Multiplications and additions of one propagation.
    seconds : float
        Estimate of how long the first :meth:`infer` takes in one piece, on one thread of a machine
        of 2020.
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
    MemoryLimitError
        When the marginals alone need more memory than there is. Large cliques are refused by the
        questions, so that `width` and `memory` can be looked at.

    Notes
    -----
    Before triangulating, states that no table supports are removed (arc consistency on the zeros
    of the tables), and so are variables with one state left. Orders: min-fill, weighted min-fill
    and min-weight, then restarts with random ties under a budget of operations; the smallest
    tables win. Costs are known before anything is allocated.

    Attributes were found when the tree was built, for the evidence that it was built with: reading
    one, or printing the tree, does no work and waits for no question.

    Pickles hold the graph and these arguments; the tree is compiled again from them, with the same
    result.

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
        cls,
        graph: FactorGraph,
        evidence: Evidence | Known | None,
        memory_limit: int | None,
        watch: Watch,
    ) -> JunctionTree:
        """Return a tree for :meth:`log_z` with this evidence only: barren variables are gone."""
        self = cls.__new__(cls)
        self._start(graph, evidence, memory_limit, 1.0, 0, watch, barren=False)
        return self

    @classmethod
    def _of_call(
        cls,
        graph: FactorGraph,
        evidence: Evidence | Known | None,
        memory_limit: int | None,
        watch: Watch,
        *,
        quit: bool = False,
        patience: float = ASKED,
    ) -> JunctionTree:
        """Return a tree for one call; `quit`: MemoryLimitError as soon as it is hopeless.

        `patience`: seconds that conditioning may take where the tree does not fit.
        """
        self = cls.__new__(cls)
        self._start(graph, evidence, memory_limit, 1.0, 0, watch, quit=quit, patience=patience)
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Return what it was built from: compiled again, it gives the same bits."""
        graph = self._graph.copy()
        graph.know(self._given)
        limit = self.memory_limit
        return {
            "graph": graph,
            # The default depends on the machine.
            "memory_limit": None if limit == default_memory_limit() else limit,
            "effort": self._search.effort,
            "seed": self._search.seed,
            "barren": self._barren,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        graph, limit = state["graph"], state["memory_limit"]
        self._start(graph, None, limit, state["effort"], state["seed"], NOBODY, state["barren"])

    @property
    def cliques(self) -> list[tuple[Any, ...]]:
        """Variables (names) of each clique; children before their parents."""
        names = self._graph.names
        return [tuple(names[v] for v in clique) for clique in self._tree.cliques()[0]]

    @property
    def parent(self) -> list[int]:
        """Parent of each clique, −1 at roots."""
        return list(self._tree.cliques()[1])

    def divide(self, *, deadline: float | None = None) -> Division:
        """Return what a question is made of: one piece where it fits, else slices.

        Where the tree does not fit in `memory_limit`, this looks for variables to condition on;
        the first question would do so, and neither does it again.

        Parameters
        ----------
        deadline : float, optional
            Seconds after which the call gives up with `DeadlineError`.

        Returns
        -------
        Division
            For questions without evidence of their own; evidence may make fewer slices do.

        Raises
        ------
        MemoryLimitError
            When questions are refused, in their words.

        Examples
        --------
        >>> import numpy as np
        >>> import valuesparse as vs
        >>> graph = vs.FactorGraph([20] * 4)
        >>> for edge in [(0, 1), (1, 2), (2, 3), (0, 3)]:
        ...     _ = graph.add(edge, np.zeros((20, 20)))
        >>> whole = vs.JunctionTree(graph)
        >>> whole.divide().slices
        1
        >>> part = vs.JunctionTree(graph, memory_limit=whole.memory - 1).divide()
        >>> part.conditioned, part.slices
        ((3,), 20)
        """
        slices = self._slices(Watch(deadline, None))
        if isinstance(slices, str):
            raise MemoryLimitError(f"{slices}: {ADVICE}")
        if slices is WHOLE:
            return Division((), 1, self.memory, self.seconds)
        bytes_ = int(slices.bytes) + outputs(self._graph)
        return Division(self._names(slices), len(slices.parts), bytes_, slices.seconds)

    def _names(self, slices: Slices) -> tuple[Any, ...]:
        """Return the variables that slices are conditioned on, as the graph names them."""
        return tuple(self._graph.names[v] for v in slices.variables)

    def infer(
        self,
        evidence: Evidence | None = None,
        *,
        zeta: float = 1.0,
        revisit: int | None = None,
        threads: int | None = None,
        deadline: float | None = None,
        progress: Callable[[int, int], object] | None = None,
    ) -> GraphResult:
        """Return the posterior of every variable, and the log partition function.

        Parameters
        ----------
        evidence : mapping, optional
            More evidence, hard or soft, beside what the tree was built with. Likelihoods of one
            variable multiply.
        zeta, revisit : optional
            As for :func:`valuesparse.infer`: below 1, variables that are this certain are held.
            They leave the graph and split it, so that smaller trees than this one are built.
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
        zeta = as_zeta(zeta)
        rounds = -1 if revisit is None else as_count("revisit", revisit, at_least=0)
        watch = Watch(deadline, progress)
        if zeta == 1.0:
            return self._infer(evidence, threads, watch, "junction_tree", "")
        held, merged, given = self._merged(evidence)
        # Of variables that are held by more than their likelihood.
        rest = sum(float(x[held[v]]) for v, x in merged.items() if held[v] >= 0)
        if rest == -np.inf:
            raise impossible(self._graph, True)
        workers, limit = resolve(threads), self.memory_limit
        found = infer_islands(self._graph, zeta, rounds, workers, given, limit, watch)
        return found.replaced(log_z=found.log_z + rest) if rest else found

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
        snapshot = self._snapshot
        with self._asking():
            held, soft, given = self._with(evidence)
            flat = np.empty(snapshot.entries)
            case = self._prepare(held, soft, watch)
            self._make_room(self._tree, self._tree)
            slices = self._divided(case)
            cost = self._tree.cost()
            if slices is not WHOLE:
                method, reason = CONDITIONED, self._words(slices)
            found = answer(case, slices, workers, flat)
        if not found.arrays:
            raise impossible(graph, bool(given))
        flat = found.arrays[0]
        if not reason:
            reason = f"a junction tree of width {cost[0]} was asked for"
        stats = {
            "cliques": self._tree.n_cliques(),
            "table_entries": int(cost[1] if slices is WHOLE else slices.entries),
            "width": cost[0],
            "orders_tried": cost[6],
            "widened": int(found.widened),
        }
        if slices is not WHOLE:
            stats["slices"] = len(slices.parts)
        return GraphResult(
            graph,
            given,
            snapshot.split(flat),
            found.log_z,
            method,
            reason,
            stats,
            flat=flat,
            limit=self.memory_limit,
            faithful=found.faithful,
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
        return self._mass(evidence, resolve(threads), Watch(deadline, progress))[0]

    def _mass(self, evidence: Evidence | None, workers: int, watch: Watch) -> tuple[float, Slices]:
        """Return log Z, and how it was put together."""
        held, soft, given = self._with(evidence)
        with self._asking():
            tree, held = self._pruned(held, soft, watch)
            case = self._prepare(held, soft, watch, tree)
            self._make_room(tree, tree)
            slices = self._divided(case)
            log_z = answer(case, slices, workers).log_z
        if log_z == -np.inf:
            raise impossible(self._graph, bool(given))
        return log_z, slices

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
            if self._small is not None and self._small[1] is not self._tree:
                self._last.pop(self._small[1], None)
            self._small = known, tree, masked
        _, tree, masked = self._small
        return tree, np.where(held >= 0, held, masked)

    def joint(
        self,
        variables: Iterable[Any],
        evidence: Evidence | None = None,
        *,
        threads: int | None = None,
        deadline: float | None = None,
        progress: Progress | None = None,
    ) -> npt.NDArray[np.float64]:
        """Return the joint marginal of any set of variables.

        Parameters
        ----------
        variables : sequence
            Names (or numbers), without repetition; one axis each, in this order.
        evidence : mapping, optional
            As for :meth:`infer`.
        threads, deadline, progress : optional
            As for :meth:`infer`; it is cliques of the tree for this question that are counted.

        Returns
        -------
        ndarray of float64
            Sums to 1.

        Notes
        -----
        A tree of its own is built in which one clique holds them all. In a Bayesian network it
        leaves out what neither they nor the evidence descend from.
        """
        graph, watch = self._graph, Watch(deadline, progress)
        wanted = graph.variable_numbers("variables", variables)
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
        other._tree, other._last = tree, {}
        case = other._prepare(held, soft, watch)
        # The table as the tree has it, turned, and with the states that are impossible.
        alive = math.prod(len(tree.alive(v)) for v in wanted)
        size = 8 * (6 * alive + math.prod(graph.cardinalities[v] for v in wanted))
        rest = tree.cost()[2]
        slices: Slices | str
        if size + rest > self.memory_limit:
            slices = other._sliced(case, size)
            if isinstance(slices, str):
                raise MemoryLimitError(
                    f"the joint of {len(wanted)} variables needs {bytes_of(size)} beside "
                    f"{bytes_of(rest)} of a junction tree, above "
                    f"memory_limit={bytes_of(self.memory_limit)}; ask for fewer variables, give "
                    "evidence or raise memory_limit"
                )
        else:
            slices = other._divided(case)
        # Joints come with marginals.
        flat = np.empty(int(graph.cards.sum()))
        _, table = answer(
            case, slices, resolve(threads), flat, lambda: [full_joint(tree, 0, wanted, graph)]
        ).arrays or (flat, None)
        if table is None:
            raise impossible(graph, bool(given))
        return table

    def decode(
        self,
        evidence: Evidence | None = None,
        *,
        threads: int | None = None,
        deadline: float | None = None,
        progress: Progress | None = None,
    ) -> Decoding:
        """Return a most probable configuration given the evidence, as :func:`valuesparse.decode`.

        Parameters
        ----------
        evidence : mapping, optional
            As for :meth:`infer`.
        threads, deadline, progress : optional
            As for :meth:`infer`; every clique counts once.

        Returns
        -------
        Decoding
            ``states`` (n,), their ``score``, and what this question was ``conditioned`` on.

        Examples
        --------
        >>> import valuesparse as vs
        >>> graph = vs.FactorGraph([2, 2])
        >>> _ = graph.add([0, 1], [[0.0, 1.0], [2.0, 3.0]])
        >>> d = vs.JunctionTree(graph).decode({1: 0})
        >>> d.states.tolist(), float(d.score)
        ([1, 0], 2.0)
        """
        return self._decode(evidence, resolve(threads), Watch(deadline, progress))

    def _decode(self, evidence: Evidence | None, workers: int, watch: Watch) -> Decoding:
        graph = self._graph
        held, soft, given = self._with(evidence)
        states = np.empty(graph.n_variables, dtype=np.int64)
        with self._asking():
            case = self._prepare(held, soft, watch)
            self._make_room(self._tree, None)
            slices = self._divided(case)
            n = self._tree.n_cliques()
            total = n * len(slices.parts)
            best: tuple[npt.NDArray[np.int64], float] | None = None
            for i in each(case, slices):
                above = -math.inf if best is None else best[1]
                dead, score = self._tree.decode(
                    soft, workers, states, above,
                    watch.left(), watch.part(n * i, n * (i + 1), total), watch.late,
                )  # fmt: skip
                if not dead and score > above:
                    best = states.copy(), score
        if best is None:
            raise impossible(graph, bool(given))
        watch.finish(total)
        value: Any = np.float64(best[1])  # of a graph a scalar
        return Decoding(best[0], value, conditioned=self._names(slices))

    def sample(
        self,
        size: int,
        rng: np.random.Generator | int | None = None,
        *,
        threads: int | None = None,
        deadline: float | None = None,
        progress: Progress | None = None,
        evidence: Evidence | None = None,
    ) -> npt.NDArray[np.int64]:
        """Draw exact samples from the posterior, as :func:`valuesparse.sample`.

        Parameters
        ----------
        size : int
            Number of samples, at least 0.
        rng : numpy.random.Generator, int or None
            Source of randomness, or a seed for one.
        threads, deadline, progress : optional
            As for :meth:`infer`; every clique counts once, and once more for each sample.
        evidence : mapping, optional
            As for :meth:`infer`.

        Returns
        -------
        ndarray of int64, shape (size, n)
            One configuration per row.
        """
        count = as_count("size", size, at_least=0)
        generator = as_generator(rng)
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
        size = 8 * count * graph.n_variables
        if size > self.memory_limit:
            raise MemoryLimitError(
                f"size={count} samples of {graph.n_variables} variables need {bytes_of(size)}, "
                f"above memory_limit={bytes_of(self.memory_limit)}; draw them in several calls"
            )
        states = np.empty((count, graph.n_variables), dtype=np.int64)
        with self._asking():
            case = self._prepare(held, soft, watch)
            self._make_room(self._tree, self._tree)
            slices = self._divided(case)
            if slices is WHOLE:
                dead = self._draw(soft, generator, workers, watch, states)
            else:
                # A sample moves on to a slice with the share that this has in all so far.
                dead, total = True, Mixture(slices)
                for mass in masses(case, slices, workers):
                    dead = False
                    moves = generator.random(count) < total.add(mass)
                    if moves.any():
                        rows = states[moves]
                        self._draw(soft, generator, workers, watch.silent(), rows)
                        states[moves] = rows
        if dead:
            raise impossible(graph, bool(given))
        return states

    def _draw(
        self,
        soft: _graph.Soft | None,
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
            last = n * (first + rows.shape[0] + 1)
            if self._tree.sample(
                soft, workers, uniforms, rows,
                watch.left(), watch.part(n * first, last, total), watch.late,
            ):  # fmt: skip
                return True
        watch.finish(total)
        return False

    def _schedules(self) -> tuple[tuple[list[Any], ...], tuple[list[Any], ...]]:
        """Return the way up and the way down with the evidence that the tree was built with."""
        with self._asking():
            self._prepare(*self._with(None)[:2], NOBODY)
            return self._tree.schedule(True), self._tree.schedule(False)

    def __repr__(self) -> str:
        return (
            f"JunctionTree(cliques={self._tree.n_cliques()}, width={self.width}, "
            f"table_size={self.table_size:.3g}, memory={self.memory:.3g})"
        )
