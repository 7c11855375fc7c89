"""Which module answers for which kind of model: the one table that a new kind is entered in."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from valuesparse.inference import _chains, _graphs, _trees
from valuesparse.models import Chain, FactorGraph, Tree

#: Kind of model: the module with ``METHODS``, ``infer``, ``log_z``, ``decode``, ``sample`` and
#: ``score``.
ENGINES: dict[type, ModuleType] = {Chain: _chains, Tree: _trees, FactorGraph: _graphs}


def engine_of(model: Any) -> ModuleType:
    """Return the module for `model`; TypeError when it is no model of ours."""
    engine = ENGINES.get(type(model))
    if engine is None:
        for kind, candidate in ENGINES.items():
            if isinstance(model, kind):
                return candidate
        names = " or ".join(f"valuesparse.{kind.__name__}" for kind in ENGINES)
        raise TypeError(f"model must be a {names}, got {type(model).__name__}")
    return engine


#: What most calls give.
_NOTHING: dict[str, Any] = {}


def for_graphs(
    engine: ModuleType,
    evidence: Any,
    memory_limit: Any,
    factors: Any = None,
    method: Any = None,
) -> dict[str, Any]:
    """Return those arguments that were given; ValueError when the model is no graph."""
    if evidence is None and memory_limit is None and factors is None and method is None:
        return _NOTHING
    given = {
        "evidence": evidence, "memory_limit": memory_limit, "factors": factors, "method": method
    }  # fmt: skip
    given = {name: value for name, value in given.items() if value is not None}
    if engine is not _graphs:
        raise ValueError(f"{' and '.join(given)} can be given with a FactorGraph only")
    return given
