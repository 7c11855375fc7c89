"""How well sequences are labelled: the functions of ``sklearn_crfsuite.metrics``, and entities.

``flat_`` functions take all items of all sequences together and hand their other arguments to
scikit-learn. Entities are counted as seqeval counts them, without it.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain, compress
from typing import Any, NamedTuple, TypeAlias

from valuesparse._extras import require
from valuesparse.crf._entities import SCHEMES, Entity, as_scheme, find, tags_entities

__all__ = [
    "SCHEMES",
    "Entity",
    "Score",
    "Tally",
    "entities",
    "entity_f1_score",
    "entity_scores",
    "flat_accuracy_score",
    "flat_classification_report",
    "flat_f1_score",
    "flat_fbeta_score",
    "flat_precision_score",
    "flat_recall_score",
    "sequence_accuracy_score",
]

Labels: TypeAlias = "Iterable[Sequence[str]]"


def _paired(y_true: Labels, y_pred: Labels) -> tuple[list[Sequence[str]], list[Sequence[str]]]:
    """Return the labels of both, after checking that there are as many."""
    true, predicted = list(y_true), list(y_pred)
    if len(true) != len(predicted):
        raise ValueError(f"y_true has {len(true)} sequences, y_pred has {len(predicted)}")
    for i, (one, other) in enumerate(zip(true, predicted, strict=True)):
        if len(one) != len(other):
            raise ValueError(f"y_true[{i}] has {len(one)} labels, y_pred[{i}] has {len(other)}")
    return true, predicted


def _flat(y_true: Labels, y_pred: Labels) -> tuple[list[str], list[str]]:
    """Return the labels of all items, after checking that there are as many."""
    true, predicted = _paired(y_true, y_pred)
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
    """Return ``sklearn.metrics.precision_score`` of all items.

    Parameters
    ----------
    y_true, y_pred : sequences of sequences of str
        The right labels, and those that were predicted.
    **kwargs
        Other arguments of that function, such as ``average="weighted"``.
    """
    return _metrics().precision_score(*_flat(y_true, y_pred), **kwargs)


def flat_recall_score(y_true: Labels, y_pred: Labels, **kwargs: Any) -> Any:
    """Return ``sklearn.metrics.recall_score`` of all items.

    Parameters
    ----------
    y_true, y_pred : sequences of sequences of str
        The right labels, and those that were predicted.
    **kwargs
        Other arguments of that function, such as ``average="weighted"``.
    """
    return _metrics().recall_score(*_flat(y_true, y_pred), **kwargs)


def flat_f1_score(y_true: Labels, y_pred: Labels, **kwargs: Any) -> Any:
    """Return ``sklearn.metrics.f1_score`` of all items.

    Parameters
    ----------
    y_true, y_pred : sequences of sequences of str
        The right labels, and those that were predicted.
    **kwargs
        Other arguments of that function, such as ``average="weighted"``.
    """
    return _metrics().f1_score(*_flat(y_true, y_pred), **kwargs)


def flat_fbeta_score(y_true: Labels, y_pred: Labels, beta: float, **kwargs: Any) -> Any:
    """Return ``sklearn.metrics.fbeta_score`` of all items.

    Parameters
    ----------
    y_true, y_pred : sequences of sequences of str
        The right labels, and those that were predicted.
    beta : float
        How many times as much recall weighs as precision.
    **kwargs
        Other arguments of that function, such as ``average="weighted"``.
    """
    return _metrics().fbeta_score(*_flat(y_true, y_pred), beta=beta, **kwargs)


def flat_classification_report(
    y_true: Labels, y_pred: Labels, labels: Sequence[str] | None = None, **kwargs: Any
) -> Any:
    """Return ``sklearn.metrics.classification_report`` of all items.

    Parameters
    ----------
    y_true, y_pred : sequences of sequences of str
        The right labels, and those that were predicted.
    labels : sequence of str, optional
        The labels to report, in this order; by default all.
    **kwargs
        Other arguments of that function, such as ``digits=3``.
    """
    return _metrics().classification_report(*_flat(y_true, y_pred), labels=labels, **kwargs)


def sequence_accuracy_score(y_true: Labels, y_pred: Labels) -> float:
    """Return the share of sequences all of whose labels are right; 0 when there are none.

    Parameters
    ----------
    y_true, y_pred : sequences of sequences of str
        The right labels, and those that were predicted.

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


class Score(NamedTuple):
    """How well one label, or one type of entity, is found; shares are 0 where they are undefined.

    Attributes
    ----------
    precision : float
        The share of those predicted that are right.
    recall : float
        The share of the right ones that were predicted.
    f1 : float
        The harmonic mean of the two.
    support : int
        How many there are.
    """

    precision: float
    recall: float
    f1: float
    support: int


class _LabelCounts:
    """Counts of what is there, what was predicted, and what is both, by label or type."""

    def __init__(self) -> None:
        self.there: Counter[str] = Counter()
        self.said: Counter[str] = Counter()
        self.both: Counter[str] = Counter()

    def add(self, there: set[Entity], said: set[Entity]) -> None:
        for counter, found in (
            (self.there, there), (self.said, said), (self.both, there & said),
        ):  # fmt: skip
            counter.update(entity.type for entity in found)

    def scores(self) -> dict[str, Score]:
        names = sorted(self.there | self.said)
        return {n: _score(self.both[n], self.said[n], self.there[n]) for n in names}

    def total(self) -> Score:
        return _score(self.both.total(), self.said.total(), self.there.total())


def _score(both: int, said: int, there: int) -> Score:
    precision = both / said if said else 0.0
    recall = both / there if there else 0.0
    total = precision + recall
    return Score(precision, recall, 2 * precision * recall / total if total else 0.0, there)


class Tally:
    """Counts sequence by sequence, so that they need not be in memory together.

    Parameters
    ----------
    scheme : str, optional
        As for :func:`entities`.

    Attributes
    ----------
    sequences, items : int
        How many were added.
    right : int
        Items with the right label.
    whole : int
        Sequences all of whose labels are right.

    Examples
    --------
    >>> tally = Tally()
    >>> tally.add(["B-PER", "I-PER", "O"], ["B-PER", "O", "O"])
    >>> tally.right, tally.labels()["O"], tally.entities()
    (2, Score(precision=0.5, recall=1.0, f1=0.666..., support=1), {'PER': Score(precision=0.0, ...
    """

    def __init__(self, scheme: str | None = None) -> None:
        self._scheme = as_scheme(scheme)
        self.sequences = self.items = self.right = self.whole = 0
        self._labels, self._entities = _LabelCounts(), _LabelCounts()
        self._tags: set[str] = set()
        self._other = False  # labels that are no entities' were seen

    def add(self, true: Sequence[str], predicted: Sequence[str]) -> None:
        """Count a sequence.

        Parameters
        ----------
        true, predicted : sequences of n str
            The right labels, and those that were predicted.

        Raises
        ------
        ValueError
            There are more labels of one than of the other, or a label is none of the scheme; the
            message names the item.
        """
        if len(true) != len(predicted):
            raise ValueError(f"{len(true)} right labels, {len(predicted)} predicted ones")
        new = {*true, *predicted} - self._tags
        if new and self._scheme is None and not self._other:
            self._other = not tags_entities({"B", *new})
        # Nothing is counted of a sequence that is refused.
        pairs = None
        if not self._other:
            pairs = [set(find(labels, self._scheme)) for labels in (true, predicted)]
        self._tags |= new
        same = list(map(operator.eq, true, predicted))
        self.sequences += 1
        self.items += len(same)
        self.right += sum(same)
        self.whole += all(same)
        self._labels.there.update(true)
        self._labels.said.update(predicted)
        self._labels.both.update(compress(true, same))
        if pairs is not None:
            self._entities.add(*pairs)

    @property
    def accuracy(self) -> float:
        """The share of items with the right label; 0 when there are none."""
        return self.right / self.items if self.items else 0.0

    def labels(self) -> dict[str, Score]:
        """Return the scores of each label."""
        return self._labels.scores()

    def entities(self) -> dict[str, Score] | None:
        """Return the scores of each type; None where labels are not those of entities."""
        return self._entities.scores() if self._tells_entities() else None

    def all_entities(self) -> Score | None:
        """Return the scores of all entities together; None as for :meth:`entities`."""
        return self._entities.total() if self._tells_entities() else None

    def _tells_entities(self) -> bool:
        return self._scheme is not None or (not self._other and tags_entities(self._tags))


def entities(labels: Sequence[str], scheme: str | None = None) -> list[Entity]:
    """Return the entities of a sequence, as seqeval finds them.

    Parameters
    ----------
    labels : sequence of n str
        Such as B-PER, I-PER and O; B, I and O alone will do.
    scheme : {None, "IOB1", "IOB2", "BIO", "IOBES", "BIOES", "BILOU"}
        None: an entity begins wherever a label or a type says so (seqeval's default). A scheme:
        what breaks its rules is no entity (seqeval's mode "strict"). BIO is IOB2, BIOES is IOBES.

    Returns
    -------
    list of Entity
        Type, first item, and the item after the last one.

    Raises
    ------
    ValueError
        There is no such scheme, or a label is none of it.

    Examples
    --------
    >>> entities(["I-PER", "I-PER", "O", "B-LOC"])
    [Entity(type='PER', begin=0, end=2), Entity(type='LOC', begin=3, end=4)]
    >>> entities(["I-PER", "I-PER", "O", "B-LOC"], "BIO")
    [Entity(type='LOC', begin=3, end=4)]
    """
    return find(labels, as_scheme(scheme))


def _tally(y_true: Labels, y_pred: Labels, scheme: str | None) -> _LabelCounts:
    as_scheme(scheme)
    counts = _LabelCounts()
    for i, pair in enumerate(zip(*_paired(y_true, y_pred), strict=True)):
        found = []
        for name, labels in zip(("y_true", "y_pred"), pair, strict=True):
            try:
                found.append(set(find(labels, scheme)))
            except ValueError as error:
                raise ValueError(f"{name}[{i}]: {error}") from None
        counts.add(*found)
    return counts


def entity_f1_score(y_true: Labels, y_pred: Labels, scheme: str | None = None) -> float:
    """Return the F1 score of entities, all types together, as seqeval's ``f1_score``.

    Parameters
    ----------
    y_true, y_pred : sequences of sequences of str
        The right labels, and those that were predicted.
    scheme : str, optional
        As for :func:`entities`.

    Raises
    ------
    ValueError
        They have different shapes, or a label is none of the scheme.

    Examples
    --------
    >>> entity_f1_score([["B-PER", "I-PER", "O", "B-LOC"]], [["B-PER", "O", "O", "B-LOC"]])
    0.5
    """
    return _tally(y_true, y_pred, scheme).total().f1


def entity_scores(y_true: Labels, y_pred: Labels, scheme: str | None = None) -> dict[str, Score]:
    """Return the scores of each type of entity.

    Parameters
    ----------
    y_true, y_pred, scheme
        As for :func:`entity_f1_score`, which tells what is raised, too.

    Examples
    --------
    >>> entity_scores([["B-PER", "O", "B-LOC"]], [["B-PER", "O", "O"]])["LOC"].recall
    0.0
    """
    return _tally(y_true, y_pred, scheme).scores()
