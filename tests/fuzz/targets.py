"""Every reader and state file, in the order in which they run."""

from __future__ import annotations

from fuzz import (
    checkpoints,
    corpora,
    crfsuite_models,
    graph_models,
    logs,
    parsers,
    states,
    treebanks,
)
from fuzz.core import TARGETS

__all__ = [
    "TARGETS", "checkpoints", "corpora", "crfsuite_models", "graph_models", "logs", "parsers",
    "states", "treebanks",
]  # fmt: skip
