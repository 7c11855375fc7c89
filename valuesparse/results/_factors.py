"""Joints and entropy of a factor graph's result: what is computed when it is asked for."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from valuesparse._junction import freeze, split
from valuesparse._owned import ReadOnly
from valuesparse.factors import Structured
from valuesparse.models import FactorGraph
from valuesparse.models._blocks import scopes_of, structured_factors
from valuesparse.results._base import Result

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["CONDITIONED", "EXACT", "FactorResult", "frozen", "marginal_of"]

FloatArray = npt.NDArray[np.float64]

#: The method of what a junction tree beyond the memory limit gave slice by slice.
CONDITIONED = "conditioned_junction_tree"
#: Methods whose answer is that of the factors that were used.
EXACT = ("exact", "junction_tree", CONDITIONED)

#: The method whose distribution is the product of its marginals.
_PRODUCT = "mean_field"

#: The method whose distribution is a graph without cycles.
_FOREST = "structured_mean_field"


class ExactEngine(Protocol):
    """The questions that a result hands to an exact engine; graphs have their evidence in them."""

    def joint(
        self, graph: FactorGraph, variables: list[int], threads: int | None, limit: int | None
    ) -> FloatArray:
        """Return the joint of a set of variables."""

    def iter_joints(
        self, graph: FactorGraph, sets: list[tuple[int, ...]], threads: int | None, limit: int
    ) -> Iterator[FloatArray]:
        """Yield the joint of each set of variables."""

    def entropy(self, graph: FactorGraph, threads: int | None, limit: int) -> float:
        """Return the entropy in nats."""

    def magnitude(self, graph: FactorGraph) -> float:
        """Return the sum of the largest magnitudes of all factors."""

    def memory_allowed(self, limit: int | None) -> int:
        """Return the bytes that a question may use: the default, or what the answer might."""


class FactorResult(Result):
    """The distribution of a result: its factors, and what can be asked of sets of variables."""

    __slots__ = ()

    #: The engine that answers the questions whose answers a result does not hold.
    _engine: ClassVar[ExactEngine]

    @classmethod
    def ask(cls, engine: ExactEngine) -> None:
        """Hand over the engine that answers; it lies above results, which cannot import it."""
        cls._engine = engine

    _model: FactorGraph
    evidence: dict[int, Any]
    factors: npt.NDArray[np.int64]
    #: All marginals in one array, and the list of them; one of the two until both are asked for.
    _flat: FloatArray | None
    _marginals: list[FloatArray] | None
    #: The part of the model that was solved; None where it has to be made again.
    _solved: FactorGraph | None
    #: Bytes that the answer was allowed; None where it needed no tree, or came from elsewhere.
    _limit: int | None
    state: Any

    @property
    def marginals(self) -> list[FloatArray]:
        """``marginals[v]``: probabilities of the states of variable v; see the class."""
        if self._marginals is None:
            assert self._flat is not None
            # Views, made when asked for: there may be many, and most calls read few.
            flat = np.ascontiguousarray(self._flat, np.float64)
            self._fill(_marginals=split(flat, self._model.cards))
        assert self._marginals is not None
        return self._marginals

    def replaced(self, **fields: Any) -> Self:
        """Return a copy with other fields."""
        other = type(self).__new__(type(self))
        names = (*Result.__slots__, *type(self).__slots__)
        own = {name: getattr(self, name) for name in names if name != "marginals"}
        if "marginals" in fields:
            freeze(fields["marginals"])
            own.update(_flat=None, _marginals=fields.pop("marginals"))
        other._fill(**own | fields)
        return other

    def part(self) -> FactorGraph:
        """Return the graph that was solved."""
        model = self._model
        if self._solved is None and self.factors.size < model.n_factors:
            self._fill(_solved=model.part(self.factors))
        return self._solved or model

    def joint(self, variables: Iterable[Any], *, threads: int | None = None) -> FloatArray:
        """Return the joint marginal of a set of variables, one axis each.

        Exact results, islands and mean fields have the joint of any set; exact ones of graphs with
        structured factors that have no cycle, and loopy inference, have the belief of the first
        table that holds them all, and raise a ValueError where there is none.

        Examples
        --------
        >>> import numpy as np
        >>> import valuesparse as vs
        >>> graph = vs.FactorGraph([2, 2])
        >>> _ = graph.add([0, 1], np.log([[4.0, 1.0], [1.0, 4.0]]))
        >>> vs.infer(graph).joint([1, 0]).tolist()
        [[0.4, 0.1], [0.1, 0.4]]
        """
        return frozen(self._joint(variables, threads))

    def _joint(self, variables: Iterable[Any], threads: int | None) -> FloatArray:
        wanted = list(self._model.variable_numbers("variables", variables))
        if len(set(wanted)) != len(wanted):
            raise ValueError("variables must not name one twice")
        if self.method == _FOREST:
            for i, factor in structured_factors(self.part()).items():
                if not factor.has_table:
                    raise self._no_joint(i, factor, wanted)
            return self._engine.joint(self.state.graph(self._model), wanted, threads, None)
        if self.state is not None:
            found: FloatArray | None = self.state.joint(self.part(), wanted)
            return self._belief(wanted) if found is None else found
        if self.method == _PRODUCT:
            return self._product(wanted)
        graph, limit = self._conditioned().posterior(), self.memory_allowed()
        return self._engine.joint(graph, wanted, threads, limit)

    def factor_marginals(self, *, threads: int | None = None) -> list[FloatArray]:
        """Return the marginal of the scope of every factor that was used, in their order.

        A structured factor has P(y = 1) of each of its k variables, (k,).

        After loopy inference: the beliefs of the factors, which are the derivatives of the Bethe
        free energy with respect to their tables. A factor without variables has a 1.

        Examples
        --------
        >>> import numpy as np
        >>> import valuesparse as vs
        >>> graph = vs.FactorGraph([2, 2])
        >>> _ = graph.add((0, 1), np.log([[4.0, 1.0], [1.0, 4.0]]))
        >>> vs.infer(graph, method="bp").factor_marginals()[0].round(12).tolist()
        [[0.4, 0.1], [0.1, 0.4]]
        """
        return [frozen(table) for _, table in self._iter_factors(threads)]

    def pairwise(self, *, threads: int | None = None) -> dict[tuple[Any, Any], FloatArray]:
        """Return the joint marginal of every two variables that some factor has in its scope.

        Returns
        -------
        dict
            ``{(a, b): table}`` with names (or numbers) of variables and an array of shape
            (cardinality of a, cardinality of b); in the order of the factors that were used and
            of their scopes, every pair once and in that order only; `joint` takes any variables.
            Loopy inference has beliefs in their place.

        See Also
        --------
        joint : The joint of any variables.
        factor_marginals : One table for each factor.

        Examples
        --------
        >>> import numpy as np
        >>> import valuesparse as vs
        >>> graph = vs.FactorGraph([2, 2], names=["a", "b"])
        >>> _ = graph.add(("b", "a"), np.log([[4.0, 1.0], [3.0, 2.0]]))
        >>> {pair: table.round(3).tolist() for pair, table in vs.infer(graph).pairwise().items()}
        {('b', 'a'): [[0.4, 0.1], [0.3, 0.2]]}
        """
        return dict(self.iter_pairwise(threads=threads))

    def iter_pairwise(
        self, *, threads: int | None = None
    ) -> Iterator[tuple[tuple[Any, Any], FloatArray]]:
        """Yield what `pairwise` returns one by one, to spare memory: ``((a, b), table)``.

        Examples
        --------
        >>> import valuesparse as vs
        >>> graph = vs.FactorGraph([2, 2, 2])
        >>> _ = graph.add_feature((0, 1, 2), [1, 1, 1], 1.0)
        >>> [pair for pair, _ in vs.infer(graph).iter_pairwise()]
        [(0, 1), (0, 2), (1, 2)]
        """
        names = self._model.names
        seen: set[tuple[int, int]] = set()
        for scope, table in self._iter_factors(threads):
            if table.ndim < len(scope):  # structured: it has no joints
                continue
            for a, b in itertools.combinations(scope, 2):
                pair = min(a, b), max(a, b)
                if pair not in seen:
                    seen.add(pair)
                    yield (names[a], names[b]), frozen(marginal_of(table, scope, (a, b)))

    def entropy(self, *, threads: int | None = None) -> float:
        """Return the entropy of the posterior in nats.

        Notes
        -----
        For exact results and islands: log Z less the expected score. Where scores are so
        large that rounding would be seen, by the chain rule over the cliques of a junction tree,
        whose tables then have to fit in memory. After loopy inference it is the
        entropy that the free energy in ``log_z`` is made with: the Bethe entropy, or its
        reweighted form, both of which may be negative. Mean fields have the entropy of their
        product, or of their forest.

        Examples
        --------
        >>> import numpy as np
        >>> import valuesparse as vs
        >>> graph = vs.FactorGraph([2, 2, 2])
        >>> bool(np.isclose(vs.infer(graph).entropy(), 3 * np.log(2)))
        True
        """
        if self.method == _FOREST:
            return self._engine.entropy(
                self.state.graph(self._model), threads, self.memory_allowed()
            )
        if self.state is None and self.method != _PRODUCT:
            return self._engine.entropy(
                self._conditioned().posterior(), threads, self.memory_allowed()
            )
        if self.state is not None:
            return float(self.state.entropy(self.part(), self.marginals))
        from scipy.special import entr

        return float(np.array([entr(p).sum() for p in self.marginals]).sum())

    def _conditioned(self) -> Self:
        """Return the result of one distribution: under `zeta` that given all final islands."""
        held = np.flatnonzero(self.islands >= 0).tolist()
        if not held:
            return self
        marginals, evidence = list(self.marginals), dict(self.evidence)
        for v in held:
            state = evidence[v] = int(self.islands[v])
            marginals[v] = np.zeros(self._model.cardinalities[v])
            marginals[v][state] = 1.0
        none = np.full(len(marginals), -1, dtype=np.int32)
        return self.replaced(
            method="exact",
            marginals=marginals,
            evidence=ReadOnly(evidence),
            islands=none,
            _bounds=None,
        )

    def memory_allowed(self) -> int:
        """Return the bytes that a question may use: the default, or more if the answer might."""
        return self._engine.memory_allowed(self._limit)

    def posterior(self) -> FactorGraph:
        """Return the graph that was solved, with what was known as its evidence."""
        graph = self.part().copy()
        graph.know(self.evidence)
        return graph

    def _iter_factors(self, threads: int | None) -> Iterator[tuple[tuple[int, ...], FloatArray]]:
        """Yield the scope of each factor that was used, and its marginal."""
        if (held := self._conditioned()) is not self:
            yield from held._iter_factors(threads)
            return
        part = self.posterior()
        scopes, own = scopes_of(part), structured_factors(part)
        if self.state is not None:
            beliefs = self.state.joints(self.part())
            yield from (
                (scope, beliefs[i] if i in beliefs else self._product(scope))
                for i, scope in enumerate(scopes)
            )
            return
        tables: Iterator[FloatArray] = iter(())
        wide = [s for i, s in enumerate(scopes) if len(s) > 1 and i not in own]
        if wide and self.method != _PRODUCT:
            tables = self._engine.iter_joints(part, wide, threads, self.memory_allowed())
        for i, scope in enumerate(scopes):
            if i in own:
                yield scope, np.array([self.marginals[v][1] for v in scope])
            elif len(scope) > 1 and self.method != _PRODUCT:
                yield scope, next(tables)
            else:
                yield scope, self._product(scope)

    def _product(self, variables: Sequence[int]) -> FloatArray:
        if len(variables) == 1:
            return self.marginals[variables[0]].copy()
        product: FloatArray = np.ones(())
        for v in variables:
            product = np.multiply.outer(product, self.marginals[v])
        return product

    def _belief(self, wanted: list[int]) -> FloatArray:
        if len(wanted) < 2:
            return self._product(wanted)
        for scope, table in self._iter_factors(None):
            if table.ndim == len(scope) and set(wanted) <= set(scope):
                return marginal_of(table, scope, wanted)
        names = [self._model.names[v] for v in wanted]
        for i, factor in structured_factors(self.part()).items():
            if set(wanted) <= set(factor.scope):
                raise self._no_joint(i, factor, wanted)
        own = structured_factors(self.part())
        if own and self.method in EXACT:
            i, factor = next(iter(own.items()))
            raise ValueError(
                f"no factor has the variables {names} in its scope: a graph with structured "
                f"factors, such as factor {i}, {factor.described}, is answered by messages, "
                f"which know the joint of a table's variables only; {self._advice(names)}"
            )
        raise ValueError(
            f"no factor has the variables {names} in its scope: method {self.method!r} knows the "
            "joint of a factor's variables only"
        )

    def _no_joint(self, index: int, factor: Structured, wanted: list[int]) -> ValueError:
        names = [self._model.names[v] for v in wanted]
        return ValueError(
            f"factor {index}, {factor.described}, gives no joint of the variables {names}: "
            "factor_marginals() has P(y = 1) of each of its own, and "
            f"{self._advice(names)}"
        )

    def _advice(self, names: list[Any]) -> str:
        """Say how to come by a joint that messages through structured factors do not have."""
        if all(factor.has_table for factor in structured_factors(self.part()).values()):
            return "infer(method='junction_tree') has that of any variables, if its tables fit"
        return (
            f"infer with evidence on {names[0]!r}, one state after the other, has the others given "
            "that"
        )


def frozen(array: FloatArray) -> FloatArray:
    array.flags.writeable = False
    return array


def marginal_of(table: FloatArray, scope: Sequence[int], wanted: Sequence[int]) -> FloatArray:
    """Return the marginal of some variables of a table over `scope`, axes in the order wanted."""
    if tuple(wanted) == tuple(scope):
        return table
    axes = [scope.index(v) for v in wanted]
    kept = sorted(axes)
    rest = tuple(a for a in range(table.ndim) if a not in axes)
    return np.asarray(np.transpose(table.sum(axis=rest), [kept.index(a) for a in axes]))
