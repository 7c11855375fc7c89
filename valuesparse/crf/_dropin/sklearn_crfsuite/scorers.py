"""The names of sklearn-crfsuite's scorers."""

from __future__ import annotations

from valuesparse.crf.scorers import flat_accuracy, sequence_accuracy

from . import metrics

__all__ = ["flat_accuracy", "metrics", "sequence_accuracy"]
