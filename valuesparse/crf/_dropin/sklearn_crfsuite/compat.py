"""The names of sklearn-crfsuite's way to scikit-learn."""

from __future__ import annotations

from valuesparse._extras import require

try:
    from sklearn.base import BaseEstimator
except ModuleNotFoundError:
    require("sklearn", "sklearn")  # says how to get it, if that is what is missing
    raise

__all__ = ["BaseEstimator"]
