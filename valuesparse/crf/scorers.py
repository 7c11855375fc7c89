"""Scorers for scikit-learn: the names of ``sklearn_crfsuite.scorers``.

Examples
--------
>>> from valuesparse.crf import CRF, scorers
>>> X, y = [[["w=the"], ["w=cat"]], [["w=a"]]], [["DET", "NOUN"], ["DET"]]
>>> scorers.flat_accuracy(CRF().fit(X, y), X, y), scorers.sequence_accuracy(CRF().fit(X, y), X, y)
(1.0, 1.0)
"""

from __future__ import annotations

from valuesparse._extras import require
from valuesparse.crf import metrics

try:
    from sklearn.metrics import make_scorer
except ModuleNotFoundError:
    require("sklearn", "sklearn")  # if it is missing, this says how to get it
    raise

__all__ = ["flat_accuracy", "sequence_accuracy"]

flat_accuracy = make_scorer(metrics.flat_accuracy_score)
flat_accuracy.__doc__ = """Return the share of items whose label an estimator predicts.

Call it as ``flat_accuracy(estimator, X, y)``, or give it as ``scoring=``.
"""
sequence_accuracy = make_scorer(metrics.sequence_accuracy_score)
sequence_accuracy.__doc__ = """Return the share of sequences whose labels an estimator all predicts.

Call it as ``sequence_accuracy(estimator, X, y)``, or give it as ``scoring=``.
"""
