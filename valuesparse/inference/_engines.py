"""Which engine answers for which kind of model: the one table that a new kind is entered in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from valuesparse.inference import _forest, _graphs, _longer
from valuesparse.inference._memory import as_limit
from valuesparse.inference._watch import Watch
from valuesparse.models import Chain, FactorGraph, SecondOrderChain, SegmentChain, Tree
from valuesparse.models._evidence import asked
from valuesparse.results import Result


class Engine(Protocol):
    """The functions of an engine, which is a module; one for each kind of model.

    That of graphs takes the arguments of :func:`for_graphs` beside these.
    """

    @property
    def METHODS(self) -> tuple[str, ...]:
        """Names of methods that `infer` takes."""

    def infer(
        self,
        model: Any,
        zeta: float,
        rounds: int,
        workers: int,
        method: Any,
        deadline: float | None,
        progress: Callable[[int, int], object] | None,
    ) -> Result:
        """Return marginals and log Z; see :func:`valuesparse.infer`."""

    def log_z(self, model: Any, workers: int, memory_limit: int | None = None) -> Any:
        """Return log Z alone: an array, of a graph a float."""

    def decode(self, model: Any, k: int, workers: int, watch: Watch) -> tuple[Any, ...]:
        """Return states (k, n), scores (k, B) and what else a `Decoding` has."""

    def sample(
        self, model: Any, count: int, generator: np.random.Generator, workers: int, watch: Watch
    ) -> npt.NDArray[np.int64]:
        """Return samples (count, n)."""

    def score(self, model: Any, states: npt.ArrayLike, workers: int) -> npt.NDArray[np.float64]:
        """Return the sum of the log-potentials of given states (n,), per component."""


ENGINES: dict[type, Engine] = {
    Chain: _forest,
    Tree: _forest,
    FactorGraph: _graphs,
    SecondOrderChain: _longer,
    SegmentChain: _longer,
}


def engine_of(model: Any) -> Engine:
    """Return the engine for `model`; TypeError when it is no model of ours."""
    for kind in type(model).__mro__:
        if kind in ENGINES:
            return ENGINES[kind]
    names = " or ".join(f"valuesparse.{kind.__name__}" for kind in ENGINES)
    raise TypeError(f"model must be a {names}, got {type(model).__name__}")


#: The arguments of most calls.
_NOTHING: dict[str, Any] = {}


def for_graphs(
    engine: Engine,
    evidence: Any,
    memory_limit: Any,
    factors: Any = None,
    method: Any = None,
    *,
    model: Any = None,
    likelihood: Any = None,
) -> dict[str, Any]:
    """Return those arguments that were given; ValueError when the model is no graph.

    `likelihood` is put into the evidence: that, or the evidence of `model`.
    """
    if (
        evidence is None
        and memory_limit is None
        and factors is None
        and method is None
        and likelihood is None
    ):
        return _NOTHING
    given = {
        "evidence": evidence, "memory_limit": memory_limit, "factors": factors, "method": method,
        "likelihood": likelihood,
    }  # fmt: skip
    given = {name: value for name, value in given.items() if value is not None}
    if engine is not _graphs:
        raise ValueError(f"{' and '.join(given)} can be given with a FactorGraph only")
    if memory_limit is not None:  # also where nothing will ask for memory
        given["memory_limit"] = as_limit(memory_limit)
    if given.pop("likelihood", None) is not None:
        given["evidence"] = asked(model, evidence, likelihood)
    return given


def only_forests(model: Any, given: Mapping[str, Any]) -> Chain | Tree:
    """Return a chain or a tree; ValueError for others, which do not take what was given."""
    if isinstance(model, (Chain, Tree)):
        return model
    if isinstance(model, (SecondOrderChain, SegmentChain)):
        kind = type(model).__name__ + " (order=2)" * isinstance(model, SecondOrderChain)
        out = "it" if len(given) == 1 else "them"
        raise ValueError(f"a {kind} takes no {' and no '.join(given)}; leave {out} out")
    raise ValueError(f"{' and '.join(given)} can be given with a Chain or a Tree only")
