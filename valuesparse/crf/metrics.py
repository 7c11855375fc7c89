"""How well sequences are labelled: the functions of ``sklearn_crfsuite.metrics``.

``flat_`` functions take all items of all sequences together and hand their other arguments to
scikit-learn.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, TypeAlias

from valuesparse._extras import require

__all__ = [
    "flat_accuracy_score",
    "flat_classification_report",
    "flat_f1_score",
    "flat_fbeta_score",
    "flat_precision_score",
    "flat_recall_score",
    "sequence_accuracy_score",
]

Labels: TypeAlias = "Iterable[Sequence[str]]"


def _flat(y_true: Labels, y_pred: Labels) -> tuple[list[str], list[str]]:
    """Return the labels of all items, after checking that there are as many."""
    true, predicted = list(y_true), list(y_pred)
    if len(true) != len(predicted):
        raise ValueError(f"y_true has {len(true)} sequences, y_pred has {len(predicted)}")
    for i, (one, other) in enumerate(zip(true, predicted, strict=True)):
        if len(one) != len(other):
            raise ValueError(f"y_true[{i}] has {len(one)} labels, y_pred[{i}] has {len(other)}")
    flat = list(chain.from_iterable(true))
    if not flat:
        raise ValueError("y_true has no items to score")
    return flat, list(chain.from_iterable(predicted))


def _metrics() -> Any:
    require("sklearn", "sklearn")
    from sklearn import metrics

    return metrics


def flat_accuracy_score(y_true: Labels, y_pred: Labels) -> float:
    """Return the share of items that have the right label.

    Parameters
    ----------
    y_true, y_pred : sequences of sequences of str
        The right labels, and those that were predicted.

    Raises
    ------
    ValueError
        They have different shapes, or no items.

    Examples
    --------
    >>> flat_accuracy_score([["A", "B"], ["A"]], [["A", "A"], ["A"]])
    0.667
    """
    true, predicted = _flat(y_true, y_pred)
    return sum(map(operator.eq, true, predicted)) / len(true)


def flat_precision_score(y_true: Labels, y_pred: Labels, **kwargs: Any) -> Any:
    """Return ``sklearn.metrics.precision_score`` of all items."""
    return _metrics().precision_score(*_flat(y_true, y_pred), **kwargs)


def flat_recall_score(y_true: Labels, y_pred: Labels, **kwargs: Any) -> Any:
    """Return ``sklearn.metrics.recall_score`` of all items."""
    return _metrics().recall_score(*_flat(y_true, y_pred), **kwargs)


def flat_f1_score(y_true: Labels, y_pred: Labels, **kwargs: Any) -> Any:
    """Return ``sklearn.metrics.f1_score`` of all items."""
    return _metrics().f1_score(*_flat(y_true, y_pred), **kwargs)


def flat_fbeta_score(y_true: Labels, y_pred: Labels, beta: float, **kwargs: Any) -> Any:
    """Return ``sklearn.metrics.fbeta_score`` of all items."""
    return _metrics().fbeta_score(*_flat(y_true, y_pred), beta=beta, **kwargs)


def flat_classification_report(
    y_true: Labels, y_pred: Labels, labels: Sequence[str] | None = None, **kwargs: Any
) -> Any:
    """Return ``sklearn.metrics.classification_report`` of all items."""
    return _metrics().classification_report(*_flat(y_true, y_pred), labels=labels, **kwargs)


def sequence_accuracy_score(y_true: Labels, y_pred: Labels) -> float:
    """Return the share of sequences all of whose labels are right; 0 when there are none.

    Examples
    --------
    >>> sequence_accuracy_score([["A", "B"], ["A", "A"]], [["A", "A"], ["A", "A"]])
    0.5
    """
    true, predicted = list(y_true), list(y_pred)
    if len(true) != len(predicted):
        raise ValueError(f"y_true has {len(true)} sequences, y_pred has {len(predicted)}")
    right = sum(list(a) == list(b) for a, b in zip(true, predicted, strict=True))
    return right / len(true) if true else 0.0
