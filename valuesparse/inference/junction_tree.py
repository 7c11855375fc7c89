"""Exact inference by a junction tree: compile once, ask often."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import numpy.typing as npt

from valuesparse._validation import as_count, as_flag, as_generator, as_rounds, as_zeta
from valuesparse.inference._conditioning import ASKED, WHOLE
from valuesparse.inference._frames import frame_of
from valuesparse.inference._graph_islands import infer_islands
from valuesparse.inference._many import ManyQuestions
from valuesparse.inference._memory import default_memory_limit
from valuesparse.inference._refusals import as_graph, impossible, outputs
from valuesparse.inference._watch import NOBODY, Progress, Watch
from valuesparse.models import FactorGraph
from valuesparse.models._evidence import Evidence, Known, asked
from valuesparse.results import Decoding, GraphResult
from valuesparse.threads import resolve

if TYPE_CHECKING:
    import pandas

__all__ = ["Division", "JunctionTree"]

#: Axes of a numpy array, at most.
_MOST_AXES = 64


@dataclass(frozen=True)
class Division:
    """How a question to a junction tree is divided to fit in memory.

    Attributes
    ----------
    conditioned : tuple
        Variables (names) that it is conditioned on; none where the tree fits.
    slices : int
        Joint states of these variables, asked for one after the other: 1 where the tree fits.
    memory : int
        Bytes that the largest slice needs.
    seconds : float
        Estimate for all slices, on one thread of a machine of 2020.
    """

    conditioned: tuple[Any, ...]
    slices: int
    memory: int
    seconds: float


class JunctionTree(ManyQuestions):
    """An exact engine for one factor graph: triangulated once, asked with any evidence.

    Parameters
    ----------
    graph : FactorGraph
        The model, as it is now; factors added later are not seen.
    evidence : mapping, optional
        Hard or soft evidence that every question takes for granted; by default that of the graph.
        Variables it decides are removed before the graph is triangulated, so that the tree is
        smaller; :meth:`infer` may add to it, not contradict it.
    likelihood : mapping, optional
        {variable: a likelihood for each state}, numbers >= 0 (no logarithms), beside the evidence.
    memory_limit : int, optional
        Bytes that a question may use; by default half of what the machine has.
    effort : float, default 1.0
        Time of the search for an elimination order, relative to that of one propagation, or of one
        that just fits in `memory_limit`; 0 takes the first order (min fill), and anything above
        compares three rules at least.
    seed : int, default 0
        Random seed of the restarts of that search.
    deadline : float, optional
        Seconds after which the search gives up with `DeadlineError`.

    Attributes
    ----------
    width : int
        Variables of the largest clique of the triangulation, minus one.
    table_size : float
        Entries of all clique tables together.
    memory : int
        Bytes that a question needs where it is answered in one piece, tables included that factors
        other than tables were made into; :meth:`divide` returns the slices where that exceeds
        `memory_limit`.
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
        When the states alone need more memory than there is, or tables that factors have to make
        more than `memory_limit`. Large cliques are refused by the questions, so that `width` and
        `memory` can be read.

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
        likelihood: Evidence | None = None,
        memory_limit: int | None = None,
        effort: float = 1.0,
        seed: int = 0,
        deadline: float | None = None,
    ) -> None:
        watch = Watch(deadline, None)
        known = evidence if likelihood is None else asked(as_graph(graph), evidence, likelihood)
        self._start(graph, known, memory_limit, watch, effort=effort, seed=seed)

    @classmethod
    def _of_call(
        cls,
        graph: FactorGraph,
        evidence: Evidence | Known | None,
        memory_limit: int | None,
        watch: Watch,
        *,
        barren: bool = True,
        give_up: bool = False,
        budget: float = ASKED,
    ) -> JunctionTree:
        """Return a tree for one call; the options are those of `Compiled._start`.

        Once it has answered, `_keep` leaves what was compiled to later calls.
        """
        self = cls.__new__(cls)
        self._start(
            graph, evidence, memory_limit, watch, barren=barren, give_up=give_up, budget=budget,
            keep=True,
        )  # fmt: skip
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
        self._start(evidence=None, watch=NOBODY, **state)

    @property
    def cliques(self) -> list[tuple[Any, ...]]:
        """Variables (names) of each clique; children before their parents."""
        names = self._graph.names
        return [tuple(names[v] for v in clique) for clique in self._looked_at().cliques()[0]]

    @property
    def parent(self) -> list[int]:
        """Parent of each clique, −1 at roots."""
        return list(self._looked_at().cliques()[1])

    def possible_states(self, variable: Any) -> list[int]:
        """Return the states of a variable (name or number) that zeros of the tables leave.

        They are numbers, ascending. ValueError where there is no such variable.
        """
        return self._looked_at().alive(self._graph.variable(variable))

    def divide(self, *, deadline: float | None = None) -> Division:
        """Return how a question is divided: one piece where it fits, else slices.

        Where the tree does not fit in `memory_limit`, this searches for variables to condition on.
        The first question does so otherwise; the search is not repeated.

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
            When questions are refused, with the same text.

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
        slices = self._accepted(self._own_slices(Watch(deadline, None)))
        if slices is WHOLE:
            return Division((), 1, self.memory, self.seconds)
        bytes_ = int(slices.bytes) + outputs(self._graph)
        return Division(self._names(slices), len(slices.parts), bytes_, slices.seconds)

    def infer(
        self,
        evidence: Evidence | None = None,
        *,
        likelihood: Evidence | None = None,
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
        likelihood : mapping, optional
            {variable: a likelihood for each state}, numbers >= 0 (no logarithms), beside that.
        zeta, revisit : optional
            As for :func:`valuesparse.infer`: below 1, variables that are this certain are held.
            They leave the graph and split it, so that smaller trees than this one are built.
        threads : int, optional
            At least 1; by default :func:`valuesparse.get_num_threads`. Results do not depend on it.
        deadline : float, optional
            Seconds after which the call gives up with `DeadlineError`.
        progress : callable, optional
            Called as ``progress(done, total)`` now and then, from this thread; every
            clique counts twice, on the way up and on the way down. While tables are laid out for
            new evidence, `done` is 0 and slices are not counted yet.

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
        known = self._more(evidence, likelihood)
        zeta = as_zeta(zeta)
        rounds = as_rounds(revisit)
        watch = Watch(deadline, progress)
        if zeta == 1.0:
            return self._infer(known, resolve(threads), watch)
        held, merged, given = self._merged(known)
        # Likelihoods of variables that are held, too.
        rest = sum(float(x[held[v]]) for v, x in merged.items() if held[v] >= 0)
        if rest == -np.inf:
            raise impossible(self._graph, True)
        workers, limit = resolve(threads), self.memory_limit
        found = infer_islands(self._graph, zeta, rounds, workers, given, limit, watch)
        return found.replaced(log_z=found.log_z + rest) if rest else found

    def log_z(
        self,
        evidence: Evidence | None = None,
        *,
        likelihood: Evidence | None = None,
        threads: int | None = None,
        deadline: float | None = None,
        progress: Callable[[int, int], object] | None = None,
    ) -> float:
        """Return the log partition function alone: half the work of :meth:`infer`, or less.

        Parameters
        ----------
        evidence, likelihood : mapping, optional
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
        known = self._more(evidence, likelihood)
        return self._mass(known, resolve(threads), Watch(deadline, progress))[0]

    def joint(
        self,
        variables: Iterable[Any],
        evidence: Evidence | None = None,
        *,
        likelihood: Evidence | None = None,
        threads: int | None = None,
        deadline: float | None = None,
        progress: Progress | None = None,
    ) -> npt.NDArray[np.float64]:
        """Return the joint marginal of any set of variables.

        Parameters
        ----------
        variables : sequence
            Names (or numbers), without repetition; one axis each, in this order.
        evidence, likelihood : mapping, optional
            As for :meth:`infer`.
        threads, deadline, progress : optional
            As for :meth:`infer`; the cliques of the tree for this question are counted.

        Returns
        -------
        ndarray of float64
            Sums to 1.

        Notes
        -----
        The joint of variables that share a clique comes from this tree. Otherwise, and where it
        would leave out most of a large tree, one of its own is built in which a clique holds them
        all. In a Bayesian network, it leaves out the variables from which neither they nor the
        evidence descend.
        """
        watch = Watch(deadline, progress)
        wanted = self._graph.variable_numbers("variables", variables)
        if len(set(wanted)) != len(wanted):
            raise ValueError("variables must not name one twice")
        if len(wanted) > _MOST_AXES:
            raise ValueError(
                f"variables must be {_MOST_AXES} at most, the axes of an array; got {len(wanted)}"
            )
        known = self._more(evidence, likelihood)
        return self._joint(wanted, known, resolve(threads), watch)

    def decode(
        self,
        evidence: Evidence | None = None,
        *,
        likelihood: Evidence | None = None,
        threads: int | None = None,
        deadline: float | None = None,
        progress: Progress | None = None,
    ) -> Decoding:
        """Return a most probable configuration given the evidence, as :func:`valuesparse.decode`.

        Parameters
        ----------
        evidence, likelihood : mapping, optional
            As for :meth:`infer`.
        threads, deadline, progress : optional
            As for :meth:`infer`; every clique counts once.

        Returns
        -------
        Decoding
            ``states`` (n,), their ``score``, and the variables that they were ``conditioned`` on.

        Examples
        --------
        >>> import valuesparse as vs
        >>> graph = vs.FactorGraph([2, 2])
        >>> _ = graph.add([0, 1], [[0.0, 1.0], [2.0, 3.0]])
        >>> d = vs.JunctionTree(graph).decode({1: 0})
        >>> d.states.tolist(), float(d.score)
        ([1, 0], 2.0)
        """
        known = self._more(evidence, likelihood)
        return self._decode(known, resolve(threads), Watch(deadline, progress))

    @overload
    def sample(
        self,
        size: int,
        rng: np.random.Generator | int | None = None,
        *,
        threads: int | None = None,
        deadline: float | None = None,
        progress: Progress | None = None,
        evidence: Evidence | None = None,
        likelihood: Evidence | None = None,
        frame: Literal[False] = False,
    ) -> npt.NDArray[np.int64]: ...
    @overload
    def sample(
        self,
        size: int,
        rng: np.random.Generator | int | None = None,
        *,
        threads: int | None = None,
        deadline: float | None = None,
        progress: Progress | None = None,
        evidence: Evidence | None = None,
        likelihood: Evidence | None = None,
        frame: Literal[True],
    ) -> pandas.DataFrame: ...
    def sample(
        self,
        size: int,
        rng: np.random.Generator | int | None = None,
        *,
        threads: int | None = None,
        deadline: float | None = None,
        progress: Progress | None = None,
        evidence: Evidence | None = None,
        likelihood: Evidence | None = None,
        frame: bool = False,
    ) -> npt.NDArray[np.int64] | pandas.DataFrame:
        """Draw exact samples from the posterior, as :func:`valuesparse.sample`.

        Parameters
        ----------
        size : int
            Number of samples, at least 0.
        rng : numpy.random.Generator, int or None
            Source of randomness, or a seed for one.
        threads, deadline, progress : optional
            As for :meth:`infer`; every clique counts once, and once more for each sample.
        evidence, likelihood : mapping, optional
            As for :meth:`infer`.
        frame : bool, default False
            Return a pandas DataFrame with the names of variables and of states.

        Returns
        -------
        ndarray of int64, shape (size, n), or DataFrame
            One configuration per row.
        """
        count, frame = as_count("size", size, at_least=0), as_flag("frame", frame)
        generator = as_generator(rng)
        watch = Watch(deadline, progress)
        known = self._more(evidence, likelihood)
        states = self._sample(count, generator, known, resolve(threads), watch)
        return frame_of(self._graph, states) if frame else states

    def __repr__(self) -> str:
        return (
            f"JunctionTree(cliques={self._looked_at().n_cliques()}, width={self.width}, "
            f"table_size={self.table_size:.3g}, memory={self.memory:.3g})"
        )
