"""The names of sklearn-crfsuite's estimator."""

from __future__ import annotations

# By the package, which says how to get scikit-learn where it is missing.
from valuesparse.crf import CRF

from ._fileresource import FileResource
from .compat import BaseEstimator
from .trainer import LinePerIterationTrainer

__all__ = ["CRF", "BaseEstimator", "FileResource", "LinePerIterationTrainer"]
