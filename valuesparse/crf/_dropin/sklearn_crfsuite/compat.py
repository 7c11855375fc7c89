"""The names of sklearn-crfsuite's way to scikit-learn."""

from __future__ import annotations

from valuesparse._extras import require

try:
    from sklearn.base import BaseEstimator
except ModuleNotFoundError:
    require("sklearn", "sklearn")  # if it is missing, this says how to get it
    raise

__all__ = ["BaseEstimator"]
