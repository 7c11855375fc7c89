"""Which weights a model has: CRFsuite's rules, and the order of its model files."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from valuesparse.crf.training._data import Corpus

__all__ = ["FeatureSet", "generate"]


class FeatureSet(NamedTuple):
    """S state features and T transitions; a weight each, state features first."""

    attribute: npt.NDArray[np.int64]  # (S,), ascending
    label: npt.NDArray[np.int32]  # (S,), ascending for each attribute
    first: npt.NDArray[np.int64]  # (A + 1,), the first state feature of each attribute
    source: npt.NDArray[np.int64]  # (T,), ascending
    target: npt.NDArray[np.int64]  # (T,), ascending for each source
    start: npt.NDArray[np.int64]  # (K + 1,), the first transition of each source

    @property
    def n_weights(self) -> int:
        return len(self.label) + len(self.source)


def generate(
    corpus: Corpus,
    n_attributes: int,
    n_labels: int,
    minfreq: float = 0.0,
    possible_states: bool = False,
    possible_transitions: bool = False,
    allowed: npt.NDArray[np.bool_] | None = None,
) -> FeatureSet:
    """Choose the features of a corpus as CRFsuite does.

    A state feature is a pair of an attribute and a label that occur together, a transition a pair
    of labels that follow each other. The frequency of a state feature is the sum of the
    attribute's values; what is less frequent than `minfreq` is left out (so is, with `minfreq` 0,
    what adds up to less than 0).

    An item whose label is one of a set counts for each of them in equal shares; where it may be any
    label, for none. Labels that neighbours may have by their sets have a transition.

    Parameters
    ----------
    corpus : Corpus
        The sequences to train on.
    n_attributes, n_labels : int
        A and K.
    minfreq : float
        ``feature.minfreq``.
    possible_states : bool
        Pair every attribute that occurs with every label; frequency 0 where they do not meet.
    possible_transitions : bool
        Pair every label with every label, likewise.
    allowed : (K, K) array of bool, optional
        Pairs of labels that may follow each other; others get no transition.

    Returns
    -------
    FeatureSet
        In the order of CRFsuite's files: state features by attribute and label, then transitions.
    """
    sizes = np.diff(corpus.item)
    key = corpus.ids.astype(np.int64)
    key *= n_labels
    values = corpus.values
    if corpus.sets is None:
        key += np.repeat(corpus.gold, sizes)
    else:
        key, values = _shared(corpus, key, sizes)
    state, frequency = _count(key, values)
    if possible_states and minfreq <= 0.0:  # else pairs that never meet are left out again
        seen = np.flatnonzero(np.bincount(corpus.ids))
        _require_few(len(seen) * n_labels, "feature.possible_states")
        every = (seen[:, None] * n_labels + np.arange(n_labels)).ravel()
        state, frequency = every, _spread(state, frequency, every)
    state = state[frequency >= minfreq]

    inner = np.ones(corpus.n_items, bool)
    inner[corpus.offset[:-1][np.diff(corpus.offset) > 0]] = False
    to = np.flatnonzero(inner)
    known = to[(corpus.gold[to - 1] >= 0) & (corpus.gold[to] >= 0)]
    step = corpus.gold[known - 1].astype(np.int64) * n_labels + corpus.gold[known]
    if len(known) < len(to):
        step = np.concatenate([step, _steps(corpus, to, n_labels)])
    moves, frequency = _count(step, None)
    if possible_transitions and minfreq <= 0.0:
        _require_few(n_labels * n_labels, "feature.possible_transitions")
        every = np.arange(n_labels * n_labels)
        moves, frequency = every, _spread(moves, frequency, every)
    moves = moves[frequency >= minfreq]
    if allowed is not None:
        moves = moves[allowed.ravel()[moves]]

    attribute = state // max(n_labels, 1)
    first = np.zeros(n_attributes + 1, np.int64)
    np.cumsum(np.bincount(attribute, minlength=n_attributes), out=first[1:])
    _require_few(len(state) + len(moves), "feature.possible_states")
    source = moves // max(n_labels, 1)
    start = np.zeros(n_labels + 1, np.int64)
    np.cumsum(np.bincount(source, minlength=n_labels), out=start[1:])
    return FeatureSet(
        attribute=attribute,
        label=(state - attribute * n_labels).astype(np.int32),
        first=first,
        source=source,
        target=moves % max(n_labels, 1),
        start=start,
    )


def _require_few(count: int, cause: str) -> None:
    """Raise ValueError, before memory for them is asked for, where there are too many features."""
    if count > np.iinfo(np.int32).max:
        raise ValueError(
            f"{count} features are too many; raise feature.minfreq or do without {cause}"
        )


def _shared(
    corpus: Corpus, key: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return pairs of an attribute and a label, and their values; `key` (M,) is A × K."""
    assert corpus.sets is not None
    assert corpus.members is not None
    item = np.repeat(np.arange(corpus.n_items), sizes)
    values = np.ones(len(key)) if corpus.values is None else corpus.values
    known = corpus.gold[item] >= 0
    members = np.diff(corpus.sets)[item]  # 0 of known ones, and where it may be any label
    first = np.repeat(corpus.sets[item], members)
    within = np.arange(len(first)) - np.repeat(np.cumsum(members) - members, members)
    more = np.repeat(key, members) + corpus.members[first + within]
    shares = np.repeat(values / np.maximum(members, 1), members)
    return (
        np.concatenate([key[known] + corpus.gold[item[known]], more]),
        np.concatenate([values[known], shares]),
    )


def _steps(corpus: Corpus, to: npt.NDArray[np.int64], n_labels: int) -> npt.NDArray[np.int64]:
    """Return pairs of labels, once each, that neighbours not both of a known label may have."""
    assert corpus.sets is not None
    assert corpus.members is not None
    unknown = to[(corpus.gold[to - 1] < 0) | (corpus.gold[to] < 0)]
    every = np.ones(n_labels, bool)
    wide = (corpus.gold < 0) & (np.diff(corpus.sets) == 0)
    if (wide[unknown - 1] & wide[unknown]).any():
        _require_few(n_labels * n_labels, "neighbours of which nothing is known")
        return np.arange(n_labels * n_labels)
    seen = np.zeros((n_labels, n_labels), bool)

    def labels(i: int) -> npt.NDArray[Any]:
        if corpus.gold[i] >= 0:
            return corpus.gold[i : i + 1]
        return every if wide[i] else members[sets[i] : sets[i + 1]]

    sets, members = corpus.sets, corpus.members
    for i in unknown.tolist():
        before, after = labels(i - 1), labels(i)
        if before is every:
            seen[:, after] = True
        elif after is every:
            seen[before] = True
        else:
            seen[np.ix_(before, after)] = True
    return np.flatnonzero(seen)


def _count(
    key: npt.NDArray[np.int64], values: npt.NDArray[np.float64] | None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return the distinct keys, ascending, and the sums of their values (None: all 1)."""
    if values is None:
        distinct, count = np.unique(key, return_counts=True)
        return distinct, count.astype(np.float64)
    distinct, inverse = np.unique(key, return_inverse=True)
    return distinct, np.bincount(inverse, values, len(distinct)).astype(np.float64, copy=False)


def _spread(
    key: npt.NDArray[np.int64], count: npt.NDArray[np.float64], every: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """Return the counts of `every` key, 0 where it is not among `key`."""
    spread = np.zeros(len(every))
    spread[np.searchsorted(every, key)] = count
    return spread
