"""Factor graphs: variables of any cardinality, factors of any scope."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from valuesparse import _forest
from valuesparse._owned import ReadOnly
from valuesparse.factors import Factor, Feature, Features, Table
from valuesparse.factors._table import Tables
from valuesparse.models._blocks import Stamp
from valuesparse.models._check import Finding, findings
from valuesparse.models._checks import (
    as_scopes,
    as_tables,
    as_weight,
    check_features,
    check_scope,
    check_table,
    logs_of,
    taken_over,
    weigh_feature,
    weigh_features,
    where_it_fires,
)
from valuesparse.models._evidence import Evidence
from valuesparse.models._names import Cardinalities, Name
from valuesparse.models._network import ConditionalFactors

__all__ = ["FactorGraph"]


class FactorGraph(ConditionalFactors):
    r"""A product of factors over discrete variables, built step by step.

    .. math::

        p(y) \propto \exp \sum_f \theta_f(y_{\text{scope}(f)})

    Parameters
    ----------
    cardinalities : sequence of int, or mapping
        Number of states of each variable, at least 1; or {name: number of states, or a sequence of
        their names}, in which case `names` and `states` are left out.
    names : sequence of hashable, optional
        A name for each variable; by default they are numbered.
    states : sequence, optional
        For each variable a sequence of state names, or None for numbers.
    evidence : mapping, optional
        Evidence from the start; `infer` uses it unless told otherwise. See
        :meth:`set_evidence`.
    likelihood : mapping, optional
        {variable: a likelihood for each state}, numbers >= 0 (no logarithms), beside the evidence.

    Attributes
    ----------
    cardinalities : tuple of int
    names : tuple
        Names of the variables: their numbers where none were given.
    states : tuple
        For each variable a tuple of state names, or None.
    factors : tuple of Factor
        In the order they were added.
    evidence : dict
        Variable number: state number, or log-likelihood vector.
    n_variables, n_factors : int
    fitted : valuesparse.models.Fit or None
        How the last :meth:`fit` of this graph went.

    Raises
    ------
    ValueError
        For cardinalities below 1, names that are not unique, or states that do not fit.

    Notes
    -----
    The largest finite magnitudes of all factors and of soft evidence may sum to 1e17; what goes
    beyond is refused where it is added (a factor that makes its table itself: where that is asked
    for). Up to there the arithmetic of every engine is proven to hold.

    A builder: inference takes a snapshot. Arrays are copied, so that writing to them afterwards
    changes nothing; those that nobody can write to (``flags.writeable`` is False, also of the
    array that they are a view of, or a read-only `numpy.memmap`) are kept as they are where they
    are contiguous float64. The tables of ``factors`` are read-only. Factors of a kind of your own
    are asked for their tables when inference first needs them.

    Examples
    --------
    >>> import numpy as np
    >>> import valuesparse as vs
    >>> graph = vs.FactorGraph([2, 2])
    >>> graph.add([0], np.log([0.8, 0.2]))
    0
    >>> graph.add([0, 1], np.log([[0.9, 0.1], [0.2, 0.8]]))
    1
    >>> vs.infer(graph, evidence={1: 1}).marginals[0].round(3).tolist()
    [0.333, 0.667]

    With names, as a Bayesian network:

    >>> graph = vs.FactorGraph({"rain": ["no", "yes"], "wet": ["no", "yes"]})
    >>> graph.add_cpt("rain", [], [0.8, 0.2])
    0
    >>> graph.add_cpt("wet", ["rain"], [[0.9, 0.1], [0.2, 0.8]])
    1
    >>> vs.infer(graph, evidence={"wet": "yes"})["rain", "yes"]
    0.667
    """

    __slots__ = ("__weakref__",)

    def __init__(
        self,
        cardinalities: Cardinalities,
        *,
        names: Sequence[Name] | None = None,
        states: Sequence[Sequence[Any] | None] | None = None,
        evidence: Evidence | None = None,
        likelihood: Evidence | None = None,
    ) -> None:
        super().__init__(cardinalities, names, states)
        self._factors, self.blocks, self.conditional = [], [], {}
        self.as_read, self.stamp = False, Stamp()
        self.magnitude = self._soft = 0.0
        self._evidence = ReadOnly()
        self._all = self._by_child = self.fitted = None
        if evidence is not None or likelihood is not None:
            self.set_evidence({} if evidence is None else evidence, likelihood=likelihood)

    @overload
    def add(self, scope: Factor) -> int: ...
    @overload
    def add(self, scope: Iterable[Any], log_table: npt.ArrayLike) -> int: ...
    @overload
    def add(
        self, scope: Iterable[Any], log_table: None = None, *, probabilities: npt.ArrayLike
    ) -> int: ...
    def add(self, scope: Any, log_table: Any = None, *, probabilities: Any = None) -> int:
        """Add a factor and return its index.

        Parameters
        ----------
        scope : sequence of variables, or Factor
            Names (or numbers) of its variables, or a factor that knows them.
        log_table : array_like
            Log-potentials, one axis per variable of `scope`; −inf forbids.
        probabilities : array_like
            Instead of these: probabilities or other weights >= 0, of which the logarithms are
            taken; 0 forbids. Conditional tables of a Bayesian network: :meth:`add_cpt`.

        Returns
        -------
        int
            Index of the factor.

        Raises
        ------
        ValueError
            For an unknown or repeated variable, a table of another shape, NaN or +inf, or scores
            with which the magnitudes of the graph sum to more than 1e17.
        TypeError
            For complex, text or object arrays.

        Examples
        --------
        >>> import numpy as np
        >>> import valuesparse as vs
        >>> graph = vs.FactorGraph([2, 3])
        >>> graph.add((0, 1), np.zeros((2, 3))), graph.add([1], [0.0, 1.0, 2.0])
        (0, 1)
        >>> graph.add([0], probabilities=[0.25, 0.75])
        2
        """
        index = len(self._factors)
        if isinstance(scope, Factor):
            if log_table is not None or probabilities is not None:
                name = "log_table" if probabilities is None else "probabilities"
                raise ValueError(f"{name} must not be given with a Factor, which has its own")
            factor, largest = taken_over(self, scope, index)
        else:
            if probabilities is not None:
                if log_table is not None:
                    raise ValueError("log_table and probabilities must not both be given")
                log_table = logs_of(index, probabilities)
            if log_table is None:
                raise ValueError("log_table must be given: an array with one axis per variable")
            variables = self.variable_numbers("scope", scope)
            if len(set(variables)) != len(variables):  # the one thing that may still be wrong
                check_scope(self, variables, index)
            table, largest = check_table(self, variables, log_table, index)
            factor = Table(variables, table)
        return self._append(factor, largest)

    def add_many(self, scopes: Any, tables: npt.ArrayLike) -> range:
        """Add many factors of one shape at once and return their indices.

        They stay in columns, and answers have the bits that `add`, one by one, would give.

        Parameters
        ----------
        scopes : array_like, shape (m, k)
            The variables of each factor: numbers, or names where the graph has names.
        tables : array_like
            Log-potentials: one table for all, an axis for each of the k variables, or a table for
            each, (m, ...); −inf forbids.

        Returns
        -------
        range
            Indices of the factors; ``graph.factors[i]`` makes an object of one.

        Raises
        ------
        ValueError
            As for :meth:`add`, naming ``scopes[i]`` or ``tables[i]``; for scopes of several
            lengths, or variables whose numbers of states differ from those of the first. Nothing is
            added then.
        TypeError
            For complex, text or object arrays.

        Examples
        --------
        >>> import numpy as np
        >>> import valuesparse as vs
        >>> graph = vs.FactorGraph([2] * 1000)
        >>> v = np.arange(1000)
        >>> graph.add_many(np.stack([v[:-1], v[1:]], axis=1), np.eye(2))
        range(0, 999)
        >>> graph.factors[3]
        Table(3, 4)
        """
        numbers = as_scopes(self, scopes)
        if not len(numbers):
            return range(self.n_factors, self.n_factors)
        log_tables, self.magnitude = as_tables(self, numbers, tables)
        return self._append_block(Tables(numbers, log_tables))

    def add_feature(
        self,
        scope: Iterable[Any],
        fires: Sequence[Any] | npt.NDArray[Any] | Callable[..., Any],
        weight: float,
    ) -> int:
        r"""Add the factor :math:`\exp(\theta \varphi(y))`, φ in {0, 1}, and return its index.

        Parameters
        ----------
        scope : sequence of variables
            Names (or numbers).
        fires : sequence of states, ndarray of bool, or callable
            Where φ is 1: one assignment, a state (name or number) for each variable of `scope`;
            a table of bool with an axis for each; or a predicate that is called once for every
            assignment with a state for each, and returns True or False.
        weight : float
            θ; −inf forbids that φ is 1.

        Returns
        -------
        int
            Index of the factor. ``r.expectations()`` has one number for each feature.

        Raises
        ------
        ValueError
            For an unknown or repeated variable, an unknown state, a table of another shape, a
            predicate that raises, a weight that is NaN or +inf, or one with which the magnitudes
            of the graph sum to more than 1e17.
        TypeError
            For a weight that is no real number, or a predicate that returns neither True nor False.

        Examples
        --------
        >>> import numpy as np
        >>> import valuesparse as vs
        >>> graph = vs.FactorGraph([2, 2])
        >>> graph.add_feature((0, 1), lambda a, b: a == b, np.log(3))
        0
        >>> graph.add_feature([0], [1], 0.0)
        1
        >>> vs.infer(graph).expectations().tolist()
        [0.75, 0.5]
        """
        index = len(self._factors)
        variables = self.variable_numbers("scope", scope)
        check_scope(self, variables, index)
        theta = as_weight(weight, index)
        largest = weigh_feature(self, theta, index)
        where = where_it_fires(self, variables, fires, index)
        return self._append(Feature(variables, where, theta), largest)

    def add_features(self, features: Features) -> range:
        """Add many features at once, by numbers, and return their indices.

        They stay in columns: millions are fine as long as inference runs on few of them
        (:func:`valuesparse.select`, :func:`valuesparse.relax`, ``infer(graph, factors=...)``).

        Raises
        ------
        ValueError
            For a variable or state that does not exist, a variable twice in a scope, or weights
            with which the magnitudes of the graph sum to more than 1e17.

        Examples
        --------
        >>> import valuesparse as vs
        >>> graph = vs.FactorGraph([2, 2, 2])
        >>> graph.add_features(vs.factors.Features([[0, 1], [1, 2]], [0.5, -1.0]))
        range(0, 2)
        """
        check_features(self, features)
        self.magnitude += weigh_features(self, features)
        return self._append_block(features)

    def check(self) -> list[Finding]:
        """Return what looks like a mistake in the model; nothing is changed, and nothing inferred.

        Returns
        -------
        list of valuesparse.models.Finding
            Records with ``kind``, ``factor`` (an index, or None), ``variables`` (a tuple of names)
            and ``message``; those about factors first, in their order. Empty where nothing is
            found. The kinds are

            - "probabilities": a table without a negative entry that sums to 1, as a whole or over
              one of its variables: its logarithm was probably meant;
            - "forbids everything": no configuration is possible, by one factor or by those of one
              variable; "impossible states": some states of a variable are not;
              "impossible evidence": one that the evidence says it is in;
            - "constant": a table with equal entries, or a feature that always or never fires;
            - "duplicate": a factor that equals an earlier one over the same variables;
            - "error": a factor of a kind of your own raises an exception, or returns what it must
              not;
            - "no table": a variable of a Bayesian network without a conditional table;
            - "unused variable": one that is in no factor.

        Notes
        -----
        Hints: any of these may be meant. A table that holds 1 and 0 only, such as an identity, may
        be scores as well as probabilities, and is told as the latter. Factors are looked at one by
        one: a model without findings may still be impossible.

        Examples
        --------
        >>> import numpy as np
        >>> import valuesparse as vs
        >>> graph = vs.FactorGraph([2, 2], names=["rain", "wet"])
        >>> _ = graph.add(["rain"], np.log([0.8, 0.2]))
        >>> _ = graph.add(["rain", "wet"], [[0.9, 0.1], [0.2, 0.8]])
        >>> [(f.kind, f.factor, f.variables) for f in graph.check()]
        [('probabilities', 1, ('rain', 'wet'))]
        """
        return findings(self)

    def with_evidence(
        self, evidence: Evidence, *, likelihood: Evidence | None = None
    ) -> FactorGraph:
        """Return the same graph with this evidence instead of its own: see `set_evidence`."""
        other = self.copy()
        other.set_evidence(evidence, likelihood=likelihood)
        return other

    def with_names(self, names: Sequence[Name]) -> FactorGraph:
        """Return the same graph with these names of variables instead of its own.

        Large graphs are built by number and named at the end: `add_many` looks names up one by one.

        Parameters
        ----------
        names : sequence of hashable
            A name for each variable.

        Raises
        ------
        ValueError
            For names that are not unique, or of another number than there are variables.

        Examples
        --------
        >>> import valuesparse as vs
        >>> graph = vs.FactorGraph([2, 2])
        >>> graph.add_many([[0], [1]], [0.0, 1.0])
        range(0, 2)
        >>> graph.with_names(["rain", "wet"]).variable("wet")
        1
        """
        other = self.copy()
        other._rename(names)
        return other

    def copy(self) -> FactorGraph:
        """Return a graph that can grow on its own; factors in blocks stay there."""
        other = FactorGraph.__new__(FactorGraph)
        other._share(self)
        other._factors, other.blocks = self._factors.copy(), self.blocks.copy()
        other.conditional, other.as_read = self.conditional.copy(), self.as_read
        other._evidence, other.stamp = self._evidence, self.stamp
        other.magnitude, other._soft = self.magnitude, self._soft
        other._all, other._by_child, other.fitted = self._all, None, self.fitted
        return other

    def part(
        self, factors: npt.NDArray[np.int64], kind: type[FactorGraph] | None = None
    ) -> FactorGraph:
        """Return the same variables with some of the factors only."""
        other = FactorGraph.__new__(kind or FactorGraph)
        self._fill(other, factors)
        other._by_child = other.fitted = None
        return other

    def derived(self) -> FactorGraph:
        """Return the same variables without factors or evidence, for a graph made from them."""
        other = self.part(np.empty(0, dtype=np.int64), Derived)
        other._evidence = ReadOnly()
        other.magnitude = other._soft = 0.0
        return other

    def __getstate__(self) -> dict[str, Any]:
        return {
            "cardinalities": self.cardinalities,
            "names": None if self._number is None else self.names,
            "states": self.states,
            "factors": self._written(),
            "blocks": self.blocks,
            "conditional": self.conditional,
            "as_read": self.as_read,
            "evidence": self._evidence,
            "sum": self.magnitude,
            "fitted": self.fitted,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        FactorGraph.__init__(
            self, state["cardinalities"], names=state["names"], states=state["states"]
        )
        self._factors = list(state["factors"])
        self._freeze(0)
        self.blocks = list(state.get("blocks", ()))
        self.conditional = dict(state["conditional"])
        self.as_read = state.get("as_read", False)
        self.magnitude = state["sum"]
        self.fitted = state.get("fitted")
        self.know(state["evidence"])

    def __repr__(self) -> str:
        own = (self._factors[i] for i in self.alone().tolist())
        entries = sum(f.log_table.size for f in own if isinstance(f, Table))
        entries += sum(b.log_tables.size for _, b in self.blocks if isinstance(b, Tables))
        return (
            f"FactorGraph(n_variables={self.n_variables}, n_factors={self.n_factors}, "
            f"table_entries={entries}, evidence={len(self.evidence)})"
        )


class Derived(FactorGraph):
    """A graph made from a user's: the arithmetic carries more than what users may give it."""

    __slots__ = ()
    _MOST = _forest.CARRIED_SUM
