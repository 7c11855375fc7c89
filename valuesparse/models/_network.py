"""Bayesian networks: factors that are the conditional tables of variables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy as np
import numpy.typing as npt

from valuesparse._extras import require
from valuesparse._rounding import EPS
from valuesparse._validation import as_reals
from valuesparse.factors import Table
from valuesparse.models._blocks import Factors
from valuesparse.models._checks import check_table
from valuesparse.models._families import Families

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ConditionalFactors", "Fit"]

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]

#: How far the sum of a row may be from one: what float32 leaves of long rows.
_TOLERANCE = 1e-5


class Fit:
    """How :meth:`FactorGraph.fit` went.

    Attributes
    ----------
    rows : int
        Rows of the frame.
    iterations : int
        Rounds of EM; 0 where no value was missing.
    log_likelihood : ndarray of float64
        That of the rows, before each round, and after the last.
    converged : bool
        Whether it came to rest before `max_iterations`.
    """

    __slots__ = ("converged", "iterations", "log_likelihood", "rows")

    def __init__(
        self, rows: int, iterations: int, log_likelihood: Iterable[float], converged: bool
    ) -> None:
        self.rows, self.iterations, self.converged = rows, iterations, converged
        self.log_likelihood = np.array(list(log_likelihood), dtype=np.float64)
        self.log_likelihood.flags.writeable = False

    def __repr__(self) -> str:
        last = f"{self.log_likelihood[-1]:.6g}" if self.log_likelihood.size else "none"
        return (
            f"Fit(rows={self.rows}, iterations={self.iterations}, converged={self.converged}, "
            f"log_likelihood={last})"
        )


class TableLearner(Protocol):
    """Who learns tables from data; it lies above models."""

    def fit(
        self,
        graph: Any,
        frame: Any,
        *,
        prior: float,
        max_iterations: int,
        tol: float,
        seed: int,
        threads: int | None,
        progress: Callable[[int, int], object] | None,
    ) -> tuple[list[tuple[int, Floats]], Fit]:
        """Return the log-table of each factor that was learnt, and how it went."""


class ConditionalFactors(Factors):
    """Factors, some of which are conditional tables."""

    __slots__ = ("_by_child", "fitted")

    _learner: ClassVar[TableLearner]

    #: `conditional` by variable, as far as it was needed; None before.
    _by_child: Families | None

    #: How the last `fit` of this graph went; None before.
    fitted: Fit | None

    @classmethod
    def learn_with(cls, learner: TableLearner) -> None:
        """Hand over who learns tables from data; it lies above models, which cannot import it."""
        cls._learner = learner

    def add_cpt(
        self, child: Any, parents: Iterable[Any] = (), table: npt.ArrayLike | None = None
    ) -> int:
        """Add the conditional probability table of a variable and return the factor's index.

        Parameters
        ----------
        child : variable
            Name (or number).
        parents : sequence of variables
            Names (or numbers) of its parents; none for a root.
        table : array_like, optional
            Probabilities, an axis for each parent in this order and the child's last: every row
            (the child's states, given a state of each parent) sums to one. 0 is fine. Left out,
            all states are equally likely, until :meth:`fit`.

        Returns
        -------
        int
            Index of the factor.

        Raises
        ------
        ValueError
            For an unknown variable, a child that has a table already or is its own ancestor, a
            table of another shape, negative or infinite numbers, and a row that does not sum to
            one (to within 1e-5; rows are divided by their sums): it is named by its states.
        TypeError
            For complex, text or object arrays.

        Notes
        -----
        The arrays of pgmpy's `TabularCPD` have the child first: ``cpd.values`` with its first
        axis moved to the end is what this takes. `from_pgmpy` does it.

        Examples
        --------
        >>> import valuesparse as vs
        >>> graph = vs.FactorGraph({"rain": ["no", "yes"], "wet": ["no", "yes"]})
        >>> graph.add_cpt("rain", [], [0.8, 0.2])
        0
        >>> graph.add_cpt("wet", ["rain"], [[0.9, 0.1], [0.2, 0.8]])
        1
        >>> vs.infer(graph, evidence={"wet": "yes"})["rain", "yes"]
        0.667
        """
        index = self.n_factors
        v = self.variable(child)
        above = self.variable_numbers("parents", parents)
        scope = (*above, v)
        names = [self.names[u] for u in scope]
        if len(set(scope)) != len(scope):
            raise ValueError(f"the table of {names[-1]!r} has a variable twice: {names}")
        families = self._by_variable()
        if v in families.own:
            raise ValueError(
                f"variable {names[-1]!r} has a conditional table already, factor {families.own[v]}"
            )
        if families.closes_cycle(v, above):
            raise self._cycle(v, above)
        shape = self._shape(scope)
        if table is None:
            numbers: Floats = np.full(shape, 1.0 / shape[-1])
        else:
            numbers = self._rows(scope, as_reals(f"table of {names[-1]!r}", table))
        with np.errstate(divide="ignore"):
            logs, largest = check_table(self, scope, np.log(numbers), index)
        self._append(Table(scope, logs), largest)
        self.conditional[index] = v
        families.add(index, scope)
        return index

    def _by_variable(self) -> Families:
        """Return the conditional tables by their variables; readers only fill `conditional`."""
        families = self._by_child
        if families is None or families.size != len(self.conditional):
            families = self._by_child = Families()
            for f in self.conditional:
                *parents, v = scope = self.factor(f).scope
                families.closes_cycle(v, tuple(parents))
                families.add(f, scope)
        return families

    def _rows(self, scope: tuple[int, ...], given: Array) -> Floats:
        """Return a conditional table, checked: every row sums to one."""
        *parents, child = (repr(self.names[v]) for v in scope)
        shape = self._shape(scope)
        if given.shape != shape:
            axes = ", ".join([*parents, child])
            raise ValueError(
                f"table of {child} must have shape {shape}, an axis for each of {axes}, the "
                f"variable itself last, got {given.shape}"
            )
        table = given.astype(np.float64)
        wrong = ~((table >= 0.0) & (table < np.inf))
        if wrong.any():
            at = tuple(np.argwhere(wrong)[0].tolist())
            raise ValueError(
                f"table of {child}: the entry at {self._at(scope, at)} is {float(table[at]):g}; "
                "probabilities are numbers between 0 and 1"
            )
        sums = table.sum(axis=-1, keepdims=True)
        off = np.abs(sums - 1.0)
        if off.max() > _TOLERANCE:
            at = tuple(np.unravel_index(int(off.argmax()), off.shape[:-1]))
            row = f"the row {self._at(scope[:-1], at)}" if at else "its one row"
            hint = ""
            if table.ndim > 1 and np.abs(table.sum(axis=0) - 1.0).max() <= _TOLERANCE:
                hint = (
                    f"; it sums to one over the first axis, {parents[0]}: the variable itself "
                    "comes last here, np.moveaxis(table, 0, -1) puts it there"
                )
            raise ValueError(
                f"table of {child}: {row} sums to {float(sums[at][0]):.6g}, not 1{hint}"
            )
        # Rows that rounding alone keeps from 1 stay as they are.
        return np.where(off > EPS * shape[-1], table / sums, table)

    def _at(self, scope: tuple[int, ...], states: Iterable[Any]) -> str:
        """Return states for people: ``rain='yes', wet=1``."""
        return ", ".join(
            f"{self.names[v]}={self.state_name(v, int(x))!r}"
            for v, x in zip(scope, states, strict=True)
        )

    def _cycle(self, child: int, parents: tuple[int, ...]) -> ValueError:
        """Return the error for a variable that is among the ancestors of its own parents."""
        above = self._by_variable().above
        seen: dict[int, int] = dict.fromkeys(parents, child)
        left = list(parents)
        while (v := left.pop()) != child:
            for u in above.get(v, ()):
                if u not in seen:
                    seen[u] = v
                    left.append(u)
        path = [child, seen[child]]
        while path[-1] != child:
            path.append(seen[path[-1]])
        shown = " -> ".join(str(self.names[u]) for u in path)
        return ValueError(f"variable {self.names[child]!r} would be its own ancestor: {shown}")

    def conditional_tables(self, what: str) -> dict[int, int]:
        """Return the factor that is the conditional table of each variable, by numbers.

        Raises
        ------
        ValueError
            Unless each variable has one and there is no other factor; `what` needs that.
        """
        own: dict[int, int] = {}
        for f in range(self.n_factors):
            v = self.conditional.get(f)
            if v is None:
                raise ValueError(
                    f"factor {f} is no conditional table, and {what} takes nothing else: add_cpt "
                    "makes one; of a UAI file they are such if it says BAYES and rows sum to 1"
                )
            if v in own:
                raise ValueError(
                    f"variable {self.names[v]!r} has two conditional tables, factors {own[v]} and "
                    f"{f}"
                )
            own[v] = f
        for v, name in enumerate(self.names):
            if v not in own:
                raise ValueError(
                    f"variable {name!r} has no conditional table: add one with add_cpt"
                )
        return own

    def parents(self, variable: Any) -> tuple[Any, ...]:
        """Return the names (or numbers) of a variable's parents; ValueError where it has no table.

        Examples
        --------
        >>> import valuesparse as vs
        >>> graph = vs.FactorGraph({"rain": 2, "wet": 2})
        >>> graph.add_cpt("wet", ["rain"])
        0
        >>> graph.parents("wet")
        ('rain',)
        """
        v = self.variable(variable)
        factor = self._by_variable().own.get(v)
        if factor is None:
            raise ValueError(f"variable {self.names[v]!r} has no conditional table")
        return tuple(self.names[u] for u in self.factor(factor).scope[:-1])

    def fit(
        self,
        frame: Any,
        prior: float = 1.0,
        *,
        max_iterations: int = 200,
        tol: float = 1e-6,
        seed: int = 0,
        threads: int | None = None,
        progress: Callable[[int, int], object] | None = None,
    ) -> Self:
        """Learn the conditional tables of a Bayesian network from data; return the graph.

        Parameters
        ----------
        frame : pandas.DataFrame, mapping or ndarray
            A row for each observation, a column for each variable, by name; states by name or
            number, and None, NaN, −1 or a masked entry where a value is missing. A variable
            without a column is never seen. An array of states has shape (rows, n).
        prior : float, default 1.0
            Dirichlet prior: how often each state was seen before the data, in each row of a
            table. 0 is maximum likelihood; rows that were never seen stay as they are then.
        max_iterations : int, default 200
            Rounds of EM, at most.
        tol : float, default 1e-6
            EM ends when the penalised log-likelihood grows by less than this for each row.
        seed : int, default 0
            Seed of the small differences that EM starts from where a variable was never seen
            beside its parents and its table has equal entries.
        threads : int, optional
            At least 1; results do not depend on it.
        progress : callable, optional
            Called as ``progress(done, total)`` after each round of EM; `total` is
            `max_iterations`.

        Returns
        -------
        FactorGraph
            This graph, with new tables; trees and results that were made before keep the old ones.
            ``graph.fitted`` says how it went.

        Raises
        ------
        ValueError
            For a graph that is no Bayesian network (each variable has one conditional table and
            there is nothing else), an unknown column or state, or a prior that is negative or
            above 1e200.
        InfeasibleError
            When a row is impossible under every table that EM can reach.

        Notes
        -----
        Without missing values tables are counts, plus the prior, over their sums. Otherwise counts
        are expectations: EM, each round one exact pass over all rows in a junction tree, that
        starts from the rows in which a variable and its parents were seen. With a prior the
        objective is the log-likelihood plus ``prior`` times the sum of all log-probabilities.

        Examples
        --------
        >>> import valuesparse as vs
        >>> graph = vs.FactorGraph({"rain": ["no", "yes"], "wet": ["no", "yes"]})
        >>> _ = graph.add_cpt("rain"), graph.add_cpt("wet", ["rain"])
        >>> data = {"rain": ["no", "no", "yes", None], "wet": ["no", "yes", "yes", "yes"]}
        >>> graph = graph.fit(data)
        >>> vs.infer(graph, evidence={"wet": "yes"})["rain", "yes"]
        0.47
        >>> graph.fitted.converged
        True
        """
        learnt, fitted = self._learner.fit(
            self, frame, prior=prior, max_iterations=max_iterations, tol=tol, seed=seed,
            threads=threads, progress=progress,
        )  # fmt: skip
        for index, logs in learnt:
            self.replace_table(index, logs)
        self.fitted = fitted
        return self

    def replace_table(self, index: int, logs: Floats) -> None:
        """Give a conditional table other entries."""
        old = self.factor(index)
        assert isinstance(old, Table)
        before = self.magnitude
        self.magnitude -= check_table(self, old.scope, old.log_table, index)[1]
        try:
            table, largest = check_table(self, old.scope, logs, index)
        except ValueError:
            self.magnitude = before
            raise
        self._append(Table(old.scope, table), largest)
        self._factors[index] = self._factors.pop()

    def summary(self) -> str:
        """Return what the graph holds, in a few lines of text.

        Examples
        --------
        >>> import valuesparse as vs
        >>> graph = vs.FactorGraph({"rain": ["no", "yes"], "wet": 3})
        >>> _ = graph.add_cpt("rain", [], [0.8, 0.2]), graph.add_cpt("wet", ["rain"])
        >>> print(graph.summary())
        Bayesian network: 2 variables, 1 arc, 5 free parameters
        states: 2 to 3; largest table: 'wet' given 'rain', 6 entries
        evidence: none
        """
        from valuesparse.models import _drawing  # few draw

        return _drawing.summary(self)

    def _repr_html_(self) -> str:
        """Return the summary and a table of the variables, for notebooks."""
        from valuesparse.models import _drawing  # few draw

        return _drawing.html(self)

    def to_dot(self) -> str:
        """Return the graph in the language of Graphviz.

        Arcs of a Bayesian network go from parents to children; other factors are boxes with a line
        to each of their variables. Variables with evidence are filled. Where two nodes would have
        one text, such as variables named 1 and "1", nodes are numbered, and texts are labels.

        Examples
        --------
        >>> import valuesparse as vs
        >>> graph = vs.FactorGraph({"rain": 2, "wet": 2})
        >>> _ = graph.add_cpt("rain"), graph.add_cpt("wet", ["rain"])
        >>> print(graph.to_dot())
        digraph {
          "rain";
          "wet";
          "rain" -> "wet";
        }
        """
        from valuesparse.models import _drawing  # few draw

        return _drawing.dot(self)

    def draw(self, ax: Axes | None = None) -> Axes:
        """Draw the graph with matplotlib, for where there is no Graphviz; return the axes.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to; by default on a figure of its own, which no window shows.

        Raises
        ------
        MissingExtraError
            matplotlib is not installed.
        """
        require("cli", "matplotlib")
        from valuesparse.models import _drawing  # few draw

        return _drawing.draw(self, ax)
