"""The names of sklearn-crfsuite's measures."""

from __future__ import annotations

from valuesparse.crf import metrics
from valuesparse.crf.metrics import *  # noqa: F403

from .utils import flatten

__all__ = [*metrics.__all__, "flatten"]
