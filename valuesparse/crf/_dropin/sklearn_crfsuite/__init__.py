"""The names of sklearn-crfsuite."""

from __future__ import annotations

from . import _fileresource, compat, estimator, trainer
from .estimator import CRF

__all__ = ["CRF", "_fileresource", "compat", "estimator", "trainer"]
