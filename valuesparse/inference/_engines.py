"""Which module answers for which kind of model: the one table that a new kind is entered in."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from valuesparse.inference import _chains, _trees
from valuesparse.models import Chain, Tree

#: Kind of model: the module with ``METHODS``, ``infer``, ``decode``, ``sample`` and ``score``.
ENGINES: dict[type, ModuleType] = {Chain: _chains, Tree: _trees}


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
