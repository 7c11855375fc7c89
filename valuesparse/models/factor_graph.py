"""Factor graphs: variables of any cardinality, factors of any scope."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, cast, overload

import numpy as np
import numpy.typing as npt

from valuesparse import _chain, _graph
from valuesparse._owned import owned
from valuesparse._validation import as_array, excessive, largest_entry, weighed
from valuesparse.errors import MemoryLimitError
from valuesparse.factors import Factor, Feature, Features, Table
from valuesparse.factors._base import require_small
from valuesparse.models._check import Finding, findings

__all__ = ["FactorGraph"]

Name = Hashable
#: Hard evidence by state, soft evidence by a log-likelihood for each state.
Evidence = Mapping[Any, Any]

# How far from one the rows of a conditional table may sum: what normalising leaves.
_ROUNDING = 1e-13


class FactorGraph:
    r"""A product of factors over discrete variables, built step by step.

    .. math::

        p(y) \propto \exp \sum_f \theta_f(y_{\text{scope}(f)})

    Parameters
    ----------
    cardinalities : sequence of int
        Number of states of each variable, at least 1.
    names : sequence of hashable, optional
        A name for each variable; by default they are numbered.
    states : sequence, optional
        For each variable a sequence of state names, or None for numbers.
    evidence : mapping, optional
        What is known from the start; `infer` uses it unless told otherwise. See
        :meth:`set_evidence`.

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
    >>> graph = vs.FactorGraph([2, 2], names=["rain", "wet"], states=[["no", "yes"]] * 2)
    >>> graph.add(["rain"], np.log([0.8, 0.2]))
    0
    >>> graph.add(["rain", "wet"], np.log([[0.9, 0.1], [0.2, 0.8]]))
    1
    >>> r = vs.infer(graph, evidence={"wet": "yes"})
    >>> r["rain"].round(3).tolist()
    [0.333, 0.667]
    """

    __slots__ = (
        "_blocks",
        "_cards",
        "_conditional",
        "_factors",
        "_layout",
        "_made",
        "_number",
        "_snapshot",
        "_soft",
        "_state_number",
        "_sum",
        "cardinalities",
        "evidence",
        "names",
        "states",
    )

    cardinalities: tuple[int, ...]
    names: tuple[Any, ...]
    states: tuple[tuple[Any, ...] | None, ...]
    evidence: dict[int, int | npt.NDArray[np.float64]]
    #: What the magnitudes of a graph of this kind may sum to.
    _MOST: ClassVar[float] = _chain.LARGEST_SUM
    #: The sum of the largest finite magnitude of each factor whose table is known (of a part: of
    #: the whole); of those that make their own, once these are made; of soft evidence.
    _sum: float
    _made: float
    _soft: float

    def __init__(
        self,
        cardinalities: Sequence[int] | npt.NDArray[np.integer[Any]],
        *,
        names: Sequence[Name] | None = None,
        states: Sequence[Sequence[Any] | None] | None = None,
        evidence: Evidence | None = None,
    ) -> None:
        cards = _cardinalities(cardinalities)
        n = len(cards)
        self.cardinalities = cards
        self._cards = np.array(cards, dtype=np.int64)
        self.names = tuple(range(n)) if names is None else _names(names, n)
        self._number = None if names is None else {v: i for i, v in enumerate(self.names)}
        self.states = (None,) * n if states is None else _states(states, cards, self.names)
        self._state_number: dict[int, dict[Any, int]] = {}
        #: None where the factor stands in a block and nobody has asked for it as an object.
        self._factors: list[Factor | None] = []
        #: First index, and the features from there on.
        self._blocks: list[tuple[int, Features]] = []
        self._snapshot: _graph.Snapshot | None = None
        self._layout: Any = None  # of the last snapshot, for loopy inference
        #: Factor: the variable, its last one, that it is a distribution of given the others.
        self._conditional: dict[int, int] = {}
        self._sum = self._made = self._soft = 0.0
        self.evidence = {}
        if evidence is not None:
            self.set_evidence(evidence)

    @property
    def n_variables(self) -> int:
        """Number of variables."""
        return len(self.cardinalities)

    @property
    def n_factors(self) -> int:
        """Number of factors."""
        return len(self._factors)

    @property
    def factors(self) -> tuple[Factor, ...]:
        """The factors, in the order they were added."""
        for start, block in self._blocks:
            here = self._factors[start : start + len(block)]
            if any(factor is None for factor in here):
                made = block.objects(self._cards)
                self._factors[start : start + len(block)] = [
                    new if old is None else old for old, new in zip(here, made, strict=True)
                ]
        return tuple(cast("list[Factor]", self._factors))

    def _factor(self, index: int) -> Factor:
        """Return a factor as an object, made now if it stands in a block."""
        factor = self._factors[index]
        if factor is None:
            start, block = next(b for b in reversed(self._blocks) if b[0] <= index)
            factor = self._factors[index] = block[index - start]
        return factor

    @overload
    def add(self, scope: Factor) -> int: ...
    @overload
    def add(self, scope: Iterable[Any], log_table: npt.ArrayLike) -> int: ...
    def add(self, scope: Any, log_table: Any = None) -> int:
        """Add a factor and return its index.

        Parameters
        ----------
        scope : sequence of variables, or Factor
            Names (or numbers) of its variables, or a factor that knows them.
        log_table : array_like
            Log-potentials, one axis per variable of `scope`; −inf forbids.

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
        """
        index = len(self._factors)
        largest = 0.0
        if isinstance(scope, Factor):
            if log_table is not None:
                raise ValueError("log_table must not be given with a Factor, which has its own")
            self._check_scope(getattr(scope, "scope", None), index)
            factor = scope
            if isinstance(scope, Feature):
                self._check_feature(scope, index)
                largest = self._weigh_feature(scope.weight, index)
                factor = scope._owned()
            if isinstance(scope, Table):
                table, largest = self._check_table(scope.scope, scope.log_table, index)
                factor = Table(scope.scope, table)
        else:
            if log_table is None:
                raise ValueError("log_table must be given: an array with one axis per variable")
            variables = self._numbers("scope", scope)
            if len(set(variables)) != len(variables):  # the one thing that may still be wrong
                self._check_scope(variables, index)
            table, largest = self._check_table(variables, log_table, index)
            factor = Table(variables, table)
        self._factors.append(factor)
        self._sum += largest
        self._snapshot = None
        return index

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
        variables = self._numbers("scope", scope)
        self._check_scope(variables, index)
        number = as_array(f"weight of factor {index}", weight)
        if number.ndim or number.dtype.kind not in "fiub":
            raise TypeError(f"weight of factor {index} must be a real number, got {weight!r}")
        theta = float(weight)
        if not theta < np.inf:
            raise ValueError(f"weight of factor {index} is {theta}; it must be finite or -inf")
        largest = self._weigh_feature(theta, index)
        where = self._where(variables, fires, index)
        self._factors.append(Feature(variables, where, theta))
        self._sum += largest
        self._snapshot = None
        return index

    def _where(
        self, variables: tuple[int, ...], fires: Any, index: int
    ) -> npt.NDArray[np.bool_] | list[int]:
        """Return where a feature fires: a table, or the states of one assignment."""
        cards = self._shape(variables)
        if callable(fires):
            require_small(f"the predicate of factor {index}", cards)
            values = [
                range(k) if (named := self.states[v]) is None else named
                for v, k in zip(variables, cards, strict=True)
            ]
            truth = [_ask(fires, states, index) for states in itertools.product(*values)]
            return owned(truth, np.array(truth, dtype=np.bool_).reshape(cards))
        if isinstance(fires, (bool, np.bool_)):  # what is left of a table without axes
            fires = np.asarray(fires)
        if isinstance(fires, str) or not isinstance(fires, (Sequence, np.ndarray)):
            raise ValueError(
                f"fires of factor {index} must be a sequence of states or a callable, got {fires!r}"
            )
        flat = isinstance(fires, np.ndarray) and fires.ndim == 0
        if not flat and any(
            isinstance(row, list) for row in fires
        ):  # which is the name of no state
            fires = as_array(f"fires of factor {index}", fires)
        if isinstance(fires, np.ndarray) and (fires.dtype == np.bool_ or fires.ndim != 1):
            all_named = all(self.states[v] is not None for v in variables)
            if fires.shape != (len(variables),) or not all_named:
                if fires.dtype != np.bool_ or fires.shape != cards:
                    raise ValueError(
                        f"fires of factor {index}, a table, must hold bools in shape {cards}, one "
                        f"for each assignment of its variables, got {fires.dtype} of shape "
                        f"{fires.shape}"
                    )
                return owned(None, fires)
        if len(fires) != len(variables):
            raise ValueError(
                f"fires of factor {index} must have one state for each of {len(variables)} "
                f"variables, got {len(fires)}"
            )
        return [self.state(v, s) for v, s in zip(variables, fires, strict=True)]

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
        self._check_features(features)
        weights = features.weights
        largest = float(np.abs(weights[weights > -np.inf]).sum())
        if not self._fits(largest):
            (at,), value = largest_entry(weights)
            raise self._excessive(f"weights[{at}]", value, largest)
        self._sum += largest
        first = len(self._factors)
        self._blocks.append((first, features))
        self._factors.extend([None] * len(features))
        self._snapshot = None
        return range(first, len(self._factors))

    def _check_features(self, features: Features) -> None:
        if not isinstance(features, Features):
            raise TypeError(
                "features must be a valuesparse.factors.Features, got "
                f"{type(features).__name__}; add_feature adds one"
            )
        scopes, n = features.scopes, self.n_variables
        k = scopes.shape[1]
        for a in range(k):
            column = scopes[:, a]
            bad = (column < 0) | (column >= n)
            if bad.any():
                at = int(bad.argmax())
                raise ValueError(
                    f"scopes[{at}, {a}] is {column[at]}: there are {n} variables, numbered from 0"
                )
            for b in range(a):
                bad = column == scopes[:, b]
                if bad.any():
                    at = int(bad.argmax())
                    raise ValueError(f"scopes[{at}] has variable {column[at]} twice")
            cards = self._cards[column]
            if features.assignments is None:
                assert features.fires is not None
                bad = cards != features.fires.shape[a]
                if bad.any():
                    at = int(bad.argmax())
                    raise ValueError(
                        f"fires has {features.fires.shape[a]} states on axis {a}, but variable "
                        f"{column[at]} of scopes[{at}] has {cards[at]}"
                    )
            else:
                state = features.assignments[:, a]
                bad = (state < 0) | (state >= cards)
                if bad.any():
                    at = int(bad.argmax())
                    raise ValueError(
                        f"assignments[{at}, {a}] is {state[at]}: variable {column[at]} has "
                        f"{cards[at]} states, numbered from 0"
                    )

    def _feature_indices(self, n_factors: int) -> list[int]:
        """Return the indices, below `n_factors`, of the factors that are features."""
        return [
            i
            for i, f in enumerate(itertools.islice(self._factors, n_factors))
            if f is None or isinstance(f, Feature)
        ]

    def _derived(self) -> FactorGraph:
        """Return the same variables without factors or evidence, for what is made from them."""
        other = self._part(np.empty(0, dtype=np.int64), Derived)
        other.evidence = {}
        other._sum = other._made = other._soft = 0.0
        return other

    def _part(
        self, factors: npt.NDArray[np.int64], kind: type[FactorGraph] | None = None
    ) -> FactorGraph:
        """Return the same variables with some of the factors only."""
        kind = kind or FactorGraph
        other = kind.__new__(kind)
        for name in ("cardinalities", "_cards", "names", "_number", "states", "_state_number"):
            setattr(other, name, getattr(self, name))
        other.evidence = dict(self.evidence)
        other._sum, other._made, other._soft = self._sum, self._made, self._soft
        other._blocks = []
        own = self._factors
        ascending = not factors.size or bool((np.diff(factors) > 0).all())
        if self._blocks and ascending:
            # What stands in a block stays in one: no object for each.
            if factors.size and factors[-1] - factors[0] + 1 == factors.size:
                other._factors = own[int(factors[0]) : int(factors[-1]) + 1]
            elif own.count(None) == len(own):  # all in blocks
                other._factors = [None] * factors.size
            else:
                other._factors = list(map(own.__getitem__, factors.tolist()))
            for start, block in self._blocks:
                first, end = np.searchsorted(factors, [start, start + len(block)])
                if first < end:
                    rows = factors[first:end] - start
                    run = rows[-1] - rows[0] + 1 == rows.size
                    which = slice(int(rows[0]), int(rows[-1]) + 1) if run else rows
                    other._blocks.append((int(first), block.take(which)))
        else:
            other._factors = [self._factor(i) for i in factors.tolist()]
        other._snapshot = other._layout = None
        known = self._conditional
        other._conditional = (
            {new: known[old] for new, old in enumerate(factors.tolist()) if old in known}
            if known
            else {}
        )
        return other

    def _is_wide(self) -> bool:
        """Whether a factor has two variables or more."""
        if any(block.scopes.shape[1] > 1 for _, block in self._blocks):
            return True
        if self._factors.count(None) == len(self._factors):  # all in blocks
            return False
        return any(f is not None and len(f.scope) > 1 for f in self._factors)

    def _wide_scopes(self) -> list[tuple[int, ...]]:
        """Return the scopes of two variables and more; features in blocks stay there."""
        scopes = [f.scope for f in self._factors if f is not None and len(f.scope) > 1]
        for start, block in self._blocks:
            if block.scopes.shape[1] > 1:
                made = self._factors[start : start + len(block)]
                rows = block.scopes
                if any(f is not None for f in made):
                    rows = rows[[f is None for f in made]]
                scopes += map(tuple, rows.tolist())
        return scopes

    def _stacked(
        self,
    ) -> tuple[list[Factor | None], list[tuple[int, npt.NDArray[np.int64], Any]]]:
        """Return the factors, and those of blocks (None, or not looked at, there) as arrays.

        An array stands for each block whose tables have one shape: (index of the first, scopes
        (m, k), tables (m, ...)).
        """
        factors: list[Factor | None] = list(self._factors)
        stacks = []
        for start, block in self._blocks:
            stack = block.stack(self._cards)
            if stack is not None:
                scopes = np.ascontiguousarray(block.scopes, dtype=np.int64)
                stacks.append((start, scopes, stack))
            elif any(f is None for f in factors[start : start + len(block)]):
                factors[start : start + len(block)] = block.objects(self._cards)
        return factors, stacks

    def _local(self) -> tuple[npt.NDArray[np.float64], float]:
        """Return the sum of all tables of one variable, flat, and of those of none."""
        at = np.concatenate([[0], np.cumsum(self._cards)])
        local, constant = np.zeros(int(at[-1])), 0.0
        alone = np.ones(len(self._factors), dtype=np.bool_)
        for start, block in self._blocks:
            alone[start : start + len(block)] = False
            k = block.scopes.shape[1]
            if k == 0:
                constant += sum(float(table) for table in block.tables(self._cards))
            elif k == 1:
                first = at[block.scopes[:, 0]]
                if block.assignments is not None:
                    np.add.at(local, first + block.assignments[:, 0], block.weights)
                elif block.fires is not None:
                    for state in np.flatnonzero(block.fires).tolist():
                        np.add.at(local, first + state, block.weights)
        which: list[int] = []
        tables: list[Any] = []
        for i in np.flatnonzero(alone).tolist():
            f = self._factors[i]
            if f is None or len(f.scope) > 1:
                continue
            table = f.log_table if type(f) is Table else self._table_of(f, i)
            if f.scope:
                which.append(f.scope[0])
                tables.append(table)
            else:
                constant += float(table)
        if which:
            sizes = self._cards[which]
            first = np.repeat(at[which] - np.cumsum(sizes) + sizes, sizes)
            np.add.at(local, first + np.arange(first.size), np.concatenate(tables))
        return local, constant

    def _given(self, evidence: Evidence) -> FactorGraph:
        """Return the same graph with this evidence instead of its own."""
        other = self._copy()
        other.set_evidence(evidence)
        return other

    def _copy(self) -> FactorGraph:
        """Return a graph that can grow on its own; factors in blocks stay there."""
        other = self._part(np.empty(0, dtype=np.int64))
        other._factors, other._blocks = list(self._factors), list(self._blocks)
        other._conditional = dict(self._conditional)
        other._snapshot = self._snapshot
        return other

    def _is_same(self, other: FactorGraph) -> bool:
        """Return whether another graph has the same variables and the very same factors."""
        return (
            np.array_equal(self._cards, other._cards)
            and len(self._factors) == len(other._factors)
            and all(map(operator.is_, self._factors, other._factors))
            and [start for start, _ in self._blocks] == [start for start, _ in other._blocks]
            and all(a is b for (_, a), (_, b) in zip(self._blocks, other._blocks, strict=True))
        )

    def _extend(self, tables: Iterable[Table]) -> None:
        """Add tables that a reader has checked already: one call for all of a file."""
        first = len(self._factors)
        for table in tables:
            # Logarithms of what fits a double: no file is long enough for them to be too much.
            self._sum += _chain.weigh(table.log_table)[1]
            self._factors.append(table)
        self._freeze(first)
        self._snapshot = None

    def _freeze(self, first: int) -> None:
        """Make tables read-only, from a factor on: they are nobody else's."""
        _graph.freeze(f.log_table for f in self._factors[first:] if isinstance(f, Table))

    def _fits(self, more: float) -> bool:
        """Whether magnitudes of so much may be added."""
        return self._sum + self._soft + more <= self._MOST

    def _excessive(self, place: str, value: float, more: float) -> ValueError:
        """Return the error for an entry with which magnitudes sum to too much."""
        total = self._sum + self._soft + more
        return excessive(place, value, total, "of all factors and soft evidence", self._MOST)

    def _weigh_feature(self, weight: float, index: int) -> float:
        """Return the magnitude of a weight, checked."""
        largest = abs(weight) if weight > -np.inf else 0.0
        if not self._fits(largest):
            raise self._excessive(f"weight of factor {index}", weight, largest)
        return largest

    @property
    def _magnitude(self) -> float:
        """At least the sum of the largest finite magnitudes of factors and of its evidence."""
        return self._sum + self._made + self._soft

    def _mark_conditional(self, index: int) -> None:
        """Note that a table is a distribution of its last variable, if its rows sum to one."""
        table = self._factors[index]
        if isinstance(table, Table) and table.scope:
            sums = np.exp(table.log_table).sum(axis=-1)
            if np.abs(sums - 1.0).max() <= _ROUNDING:
                self._conditional[index] = table.scope[-1]

    def check(self) -> list[Finding]:
        """Return what looks like a mistake in the model; nothing is changed, and nothing inferred.

        Returns
        -------
        list of valuesparse.models.Finding
            Records with ``kind``, ``factor`` (an index, or None), ``variables`` (a tuple of names)
            and ``message``; those about factors first, in their order. Empty where nothing is
            found. Of kinds there are

            - "probabilities": a table without a negative entry that sums to 1, as a whole or over
              one of its variables: its logarithm was probably meant;
            - "forbids everything": no configuration is possible, by one factor or by those of one
              variable; "impossible states": some states of a variable are not;
              "impossible evidence": one that the evidence says it is in;
            - "constant": a table with equal entries, or a feature that always or never fires;
            - "duplicate": a factor that equals an earlier one over the same variables;
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

    def variable(self, name: Any) -> int:
        """Return the number of a variable, given its name (or, without names, its number).

        Raises
        ------
        ValueError
            When there is no such variable.
        """
        if self._number is not None:
            try:
                return self._number[name]
            except (KeyError, TypeError):
                raise ValueError(f"there is no variable named {name!r}") from None
        try:
            number = operator.index(name)
        except TypeError:
            raise ValueError(
                f"variables of this graph have no names: give a number, not {name!r}"
            ) from None
        if not 0 <= number < len(self.cardinalities):
            raise ValueError(
                f"variable {number} is out of range: there are {len(self.cardinalities)}, "
                "numbered from 0"
            )
        return number

    def _numbers(self, argument: str, variables: Any) -> tuple[int, ...]:
        """Return the numbers of several variables; a name alone is told from a sequence of them."""
        if isinstance(variables, str) or not isinstance(variables, Iterable):
            raise ValueError(
                f"{argument} must be a sequence of variables, got {variables!r}; write "
                f"[{variables!r}]"
            )
        return tuple(self.variable(v) for v in variables)

    def state(self, variable: int, state: Any) -> int:
        """Return the number of a state of a variable (both numbered), given its name or number.

        Raises
        ------
        ValueError
            When the variable has no such state.
        """
        named = self.states[variable]
        if named is not None:
            try:
                return self._numbers_of(variable)[state]
            except (KeyError, TypeError):
                raise ValueError(
                    f"variable {self.names[variable]!r} has no state {state!r}: its states are "
                    f"{_listed(named)}"
                ) from None
        try:
            number = operator.index(state)
        except TypeError:
            raise ValueError(
                f"states of variable {self.names[variable]!r} have no names: give a number, not "
                f"{state!r}"
            ) from None
        if not 0 <= number < self.cardinalities[variable]:
            raise ValueError(
                f"variable {self.names[variable]!r} has no state {number}: it has "
                f"{self.cardinalities[variable]}, numbered from 0"
            )
        return number

    def set_evidence(self, evidence: Evidence) -> None:
        """Replace the evidence that belongs to the graph.

        Parameters
        ----------
        evidence : mapping
            Variable (name or number): its state (name or number), or a log-likelihood for each
            of its states, an array of shape (cardinality,).

        Raises
        ------
        ValueError
            For an unknown variable or state, a likelihood of another shape, or likelihoods with
            which the magnitudes of the graph sum to more than 1e17.
        """
        self.evidence = self.resolve_evidence(evidence)
        self._soft = soft_sum(self.evidence)

    def resolve_evidence(
        self, evidence: Evidence, *, beside: float = 0.0
    ) -> dict[int, int | npt.NDArray[np.float64]]:
        """Return `evidence` by numbers: of states, or vectors of log-likelihoods.

        `beside`: magnitudes of likelihoods that are known already.
        """
        if not isinstance(evidence, Mapping):
            raise ValueError(f"evidence must be a mapping {{variable: state}}, got {evidence!r}")
        found: dict[int, int | npt.NDArray[np.float64]] = {}
        total = 0.0
        for name, value in evidence.items():
            v = self.variable(name)
            if v in found:
                raise ValueError(f"evidence names variable {name!r} twice")
            known = found[v] = self._known(v, value, f"evidence[{name!r}]")
            if not isinstance(known, int):
                total += _chain.weigh(known)[1]
        if total and self._sum + beside + total > self._MOST:
            soft = {v: largest_entry(x) for v, x in found.items() if not isinstance(x, int)}
            v, ((at,), value) = max(soft.items(), key=lambda item: abs(item[1][1]))
            place = f"evidence[{self.names[v]!r}][{at}]"
            raise self._excessive(place, value, beside + total - self._soft)
        return found

    def _known(self, v: int, value: Any, label: str) -> int | npt.NDArray[np.float64]:
        """Return the number of a state, or a vector of log-likelihoods, checked."""
        several = isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim)
        if not several or self._is_state(v, value):  # a tuple may be the name of a state
            return self.state(v, value)
        array = as_array(label, value)
        if array.dtype.kind not in "fiub" and self.states[v] is not None:
            return self.state(v, value)  # says which states there are
        soft, _ = weighed(label, array, np.dtype(np.float64), self._MOST)
        if soft.shape != (self.cardinalities[v],):
            raise ValueError(
                f"{label} must have shape {(self.cardinalities[v],)}, a log-likelihood "
                f"for each state, got {soft.shape}"
            )
        return owned(value, soft)

    def _is_state(self, variable: int, value: Any) -> bool:
        """Whether this is the name of a state."""
        try:
            return value in self._numbers_of(variable)
        except TypeError:  # it has no hash
            return False

    def _numbers_of(self, variable: int) -> dict[Any, int]:
        """Return the number of each state by its name; empty without names."""
        named = self.states[variable]
        if named is None:
            return {}
        table = self._state_number.get(variable)
        if table is None:
            table = self._state_number[variable] = {s: i for i, s in enumerate(named)}
        return table

    def _check_scope(self, scope: Any, index: int) -> None:
        if not isinstance(scope, tuple) or not all(isinstance(v, (int, np.integer)) for v in scope):
            raise TypeError(
                f"factor {index} must have a tuple of variable numbers as its scope, got {scope!r}"
            )
        if len(set(scope)) != len(scope):
            twice = next(v for i, v in enumerate(scope) if v in scope[:i])
            raise ValueError(
                f"factor {index} has variable {self.names[twice]!r} twice in its scope"
            )
        for v in scope:
            if not 0 <= v < len(self.cardinalities):
                raise ValueError(
                    f"factor {index} has variable {v} in its scope: there are "
                    f"{len(self.cardinalities)}, numbered from 0"
                )

    def _check_feature(self, feature: Feature, index: int) -> None:
        fires, shape = feature.fires, self._shape(feature.scope)
        if isinstance(fires, tuple):
            fits = len(fires) == len(shape) and all(
                0 <= x < k for x, k in zip(fires, shape, strict=True)
            )
        else:
            fits = fires.shape == shape
        if not fits or not feature.weight < np.inf:
            raise ValueError(
                f"factor {index}, {feature!r}, does not fit variables of {shape} states, or its "
                f"weight, {feature.weight}, is neither finite nor -inf"
            )

    def _check_table(
        self, scope: tuple[int, ...], table: Any, index: int, what: str = "log_table"
    ) -> tuple[Any, float]:
        """Return a table as one of float64, and its largest finite magnitude."""
        name = f"factor {index}: {what}"
        array, largest = weighed(name, table, np.dtype(np.float64), self._MOST)
        shape = self._shape(scope)
        if array.shape != shape:
            raise ValueError(
                f"{name} must have shape {shape} for variables "
                f"{_listed([self.names[v] for v in scope])}, got {array.shape}"
            )
        if self._sum + self._soft + largest > self._MOST:
            at, value = largest_entry(array)
            raise self._excessive(f"{name}[{', '.join(map(str, at))}]", value, largest)
        return owned(table, array), largest

    def _shape(self, scope: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(map(self.cardinalities.__getitem__, scope))

    def _table_of(self, factor: Factor, index: int) -> Any:
        """Return the log-table of a factor, checked unless it is one already."""
        if type(factor) is Feature:  # checked when it was added
            return factor.table(self._shape(factor.scope))
        if isinstance(factor, Table):
            return factor.log_table
        return self._made_table(factor, index)[0]

    def _made_table(self, factor: Factor, index: int) -> tuple[Any, float]:
        """Return the log-table that a factor makes, checked, and its largest magnitude."""
        table = factor.table(self._shape(factor.scope))
        return self._check_table(factor.scope, table, index, "table")

    def _compiled(self) -> _graph.Snapshot:
        """Return the native snapshot of what has been added so far."""
        if self._snapshot is None:
            self._require_room()
            n = len(self._factors)
            scopes: list[tuple[int, ...]] = [()] * n
            tables: list[Any] = [None] * n
            for start, block in self._blocks:
                end = start + len(block)
                scopes[start:end] = map(tuple, block.scopes.tolist())
                tables[start:end] = block.tables(self._cards)
            made = 0.0
            for i, f in enumerate(self._factors):
                if f is None or tables[i] is not None:
                    continue
                scopes[i] = f.scope
                if isinstance(f, Table) or type(f) is Feature:
                    tables[i] = self._table_of(f, i)
                    continue
                tables[i], largest = self._made_table(f, i)
                made += largest
                if not self._fits(made):
                    at, value = largest_entry(tables[i])
                    place = f"factor {i}: table[{', '.join(map(str, at))}]"
                    raise self._excessive(place, value, made)
            self._made = made
            self._snapshot = _graph.Snapshot(self._cards, scopes, tables, self._conditional)
        return self._snapshot

    def _require_room(self) -> None:
        """Refuse to make the tables of factors that have none, if they do not fit in memory."""
        from valuesparse.inference._memory import default_memory_limit

        count, size, largest, kind = 0, 0.0, 0.0, "Feature"
        most: tuple[int, ...] = ()
        in_blocks = np.zeros(len(self._factors), dtype=np.bool_)
        cards = self._cards
        same = float(cards[0]) if cards.size and bool((cards == cards[0]).all()) else None
        for start, block in self._blocks:
            in_blocks[start : start + len(block)] = True
            if same is not None:
                sizes = np.full(min(len(block), 1), 8.0 * same ** block.scopes.shape[1])
                count, size = count + len(block), size + len(block) * float(sizes.sum())
            else:
                sizes = 8.0 * self._cards[block.scopes].prod(axis=1, dtype=np.float64)
                count, size = count + len(block), size + float(sizes.sum())
            if sizes.size and sizes.max() > largest:
                most, largest = tuple(block.scopes[sizes.argmax()]), float(sizes.max())
        for i in np.flatnonzero(~in_blocks).tolist():
            f = self._factors[i]
            if f is None or isinstance(f, Table):
                continue
            own = 8.0 * math.prod(self.cardinalities[v] for v in f.scope)
            count, size = count + 1, size + own
            if own > largest:
                most, largest, kind = f.scope, own, type(f).__name__
        limit = default_memory_limit()
        if size > limit:
            raise MemoryLimitError(
                f"the tables to be made of {count} factors need {size:.3g} bytes, above half of "
                f"what the machine has ({limit:.3g}); the largest is that of a {kind} over "
                f"{len(most)} variables"
            )

    def __getstate__(self) -> dict[str, Any]:
        return {
            "cardinalities": self.cardinalities,
            "names": None if self._number is None else self.names,
            "states": self.states,
            "factors": self._factors,
            "blocks": self._blocks,
            "conditional": self._conditional,
            "evidence": self.evidence,
            "sum": self._sum,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        FactorGraph.__init__(
            self, state["cardinalities"], names=state["names"], states=state["states"]
        )
        self._factors = list(state["factors"])
        self._freeze(0)
        self._blocks = list(state.get("blocks", ()))
        self._conditional = dict(state["conditional"])
        self.evidence = dict(state["evidence"])
        self._sum, self._soft = state["sum"], soft_sum(self.evidence)

    def __repr__(self) -> str:
        entries = sum(f.log_table.size if isinstance(f, Table) else 0 for f in self._factors)
        return (
            f"FactorGraph(n_variables={self.n_variables}, n_factors={self.n_factors}, "
            f"table_entries={entries}, evidence={len(self.evidence)})"
        )


class Derived(FactorGraph):
    """A graph made from a user's: the arithmetic carries more than what users may give it."""

    __slots__ = ()
    _MOST = _chain.CARRIED_SUM


def soft_sum(evidence: Mapping[int, int | npt.NDArray[np.float64]]) -> float:
    """Return the sum of the largest finite magnitudes of likelihoods."""
    return math.fsum(_chain.weigh(x)[1] for x in evidence.values() if not isinstance(x, int))


def _ask(predicate: Callable[..., Any], states: tuple[Any, ...], index: int) -> bool:
    """Return what a predicate says of an assignment, checked: users write it."""
    try:
        found = predicate(*states)
    except Exception as error:
        raise ValueError(
            f"fires of factor {index} failed for the states {states}: {error!r}; it must take "
            f"{len(states)} states, one for each variable, and return True or False"
        ) from error
    if not isinstance(found, (int, np.integer, np.bool_)) or found not in (0, 1):
        raise TypeError(
            f"fires of factor {index} must return True or False, got {found!r} for the states "
            f"{states}"
        )
    return bool(found)


def _listed(items: Sequence[Any]) -> str:
    shown = ", ".join(map(repr, items[:10]))
    return f"{shown}, ... ({len(items)})" if len(items) > 10 else shown


def _cardinalities(value: Any) -> tuple[int, ...]:
    try:
        cards = tuple(operator.index(c) for c in value)
    except TypeError:
        raise ValueError(f"cardinalities must be a sequence of integers, got {value!r}") from None
    for v, c in enumerate(cards):
        if c < 1:
            raise ValueError(f"cardinalities[{v}] is {c}; a variable needs at least one state")
        if c >= 2**31:
            raise ValueError(f"cardinalities[{v}] is {c}; a variable has fewer than 2**31 states")
    return cards


def _names(value: Sequence[Name], n: int) -> tuple[Any, ...]:
    names = _tuple("names", value)
    if len(names) != n:
        raise ValueError(f"names must have one entry for each of {n} variables, got {len(names)}")
    seen = set()
    for v, name in enumerate(names):
        _require_hash(f"names[{v}]", name)
        if name in seen:
            raise ValueError(f"names[{v}] is {name!r}, which another variable has already")
        seen.add(name)
    return names


def _states(
    value: Sequence[Sequence[Any] | None], cards: tuple[int, ...], names: tuple[Any, ...]
) -> tuple[tuple[Any, ...] | None, ...]:
    states = tuple(
        None if s is None else _tuple(f"states[{v}]", s)
        for v, s in enumerate(_tuple("states", value))
    )
    if len(states) != len(cards):
        raise ValueError(
            f"states must have one entry for each of {len(cards)} variables, got {len(states)}"
        )
    for v, s in enumerate(states):
        if s is None:
            continue
        if len(s) != cards[v]:
            raise ValueError(f"states[{v}] must have {cards[v]} entries, got {len(s)}")
        seen = set()
        for i, name in enumerate(s):
            _require_hash(f"states[{v}][{i}]", name)
            if name in seen:
                raise ValueError(
                    f"states[{v}][{i}] (variable {names[v]!r}) is {name!r}: the same name twice"
                )
            seen.add(name)
    return states


def _tuple(name: str, value: Any) -> tuple[Any, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ValueError(f"{name} must be a sequence, got {value!r}")
    return tuple(value)


def _require_hash(place: str, name: Any) -> None:
    try:
        hash(name)
    except TypeError:
        raise TypeError(
            f"{place} is {name!r}, which has no hash; names are text, numbers or tuples"
        ) from None
