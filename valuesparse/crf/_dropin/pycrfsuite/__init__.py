"""The names of python-crfsuite."""

from __future__ import annotations

from . import _dumpparser, _logparser, _pycrfsuite
from ._pycrfsuite import *  # noqa: F403

__all__ = [*_pycrfsuite.__all__, "_dumpparser", "_logparser", "_pycrfsuite"]
