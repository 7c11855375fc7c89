"""Whether sequences to learn from are possible under constraints, found before training begins."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from valuesparse import _forest
from valuesparse.crf._schemes import Constraints, Rules
from valuesparse.crf.training._data import Corpus
from valuesparse.models import Chain

__all__ = ["ImpossibleSequenceError", "require_possible", "require_tags"]

# Positions × labels that are looked at in one go.
_NUMBERS = 1 << 22


class ImpossibleSequenceError(ValueError):
    """A sequence to learn from has no labels that the constraint allows.

    Attributes
    ----------
    sequence : int
        Its number in the order of `append`.
    item : int
        The first item that the constraint forbids, from 0.
    cause : str
        What is forbidden there, and by which constraint.
    """

    def __init__(self, sequence: int, item: int, cause: str) -> None:
        super().__init__(f"sequence {sequence}, item {item}: {cause}")
        self.sequence, self.item, self.cause = sequence, item, cause

    def __reduce__(self) -> tuple[type[ImpossibleSequenceError], tuple[int, int, str]]:
        return type(self), (self.sequence, self.item, self.cause)


def require_possible(
    corpus: Corpus,
    found: Constraints,
    rules: Rules,
    labels: list[str],
    numbers: npt.NDArray[np.int64],
) -> None:
    """Raise ImpossibleSequenceError for a sequence whose labels are not possible.

    Parameters
    ----------
    corpus : Corpus
        B sequences.
    found, rules : Constraints, Rules
        The constraints, and their names.
    labels : list of str
    numbers : (B,) int64
        The number of each sequence in the order of `append`.
    """
    offset, gold = corpus.offset, corpus.gold.astype(np.int64)
    some = np.flatnonzero(np.diff(offset) > 0)
    first, last = offset[some], offset[some + 1] - 1
    inner = np.ones(len(gold), bool)
    inner[first] = False
    to = np.flatnonzero(inner)
    to = to[(gold[to] >= 0) & (gold[to - 1] >= 0)]
    wrong = to[~found.allowed_transitions[gold[to - 1], gold[to]]]
    begins = first[(gold[first] >= 0) & ~found.allowed_start[gold[first]]]
    ends = last[(gold[last] >= 0) & ~found.allowed_end[gold[last]]]
    for i, words in sorted(
        [(at[0], words) for at, words in
         ((begins, "begins the sequence"), (wrong, "after"), (ends, "ends the sequence"))
         if len(at)]
    ):  # fmt: skip
        s = int(np.searchsorted(offset, i, side="right")) - 1
        before = f" {labels[gold[i - 1]]!r}" if words == "after" else ""
        raise ImpossibleSequenceError(
            int(numbers[s]), int(i - offset[s]),
            f"{labels[gold[i]]!r} {words}{before}, which {rules!r} forbids; correct the labels or "
            "the constraint",
        )  # fmt: skip
    if corpus.sets is not None:
        _require_sets(corpus, found, rules, numbers)


def _require_sets(
    corpus: Corpus, found: Constraints, rules: Rules, numbers: npt.NDArray[np.int64]
) -> None:
    """Raise ImpossibleSequenceError for a sequence with sets of which no choice is possible."""
    assert corpus.sets is not None
    assert corpus.members is not None
    k, offset = len(found.allowed_start), corpus.offset
    table, start, end = found.log_potentials()
    partial = np.flatnonzero(np.add.reduceat(np.append(corpus.gold < 0, False), offset[:-1])
                             * (np.diff(offset) > 0))  # fmt: skip
    at = 0
    while at < len(partial):
        until = at + 1
        size = offset[partial[at] + 1] - offset[partial[at]]
        while until < len(partial):
            more = offset[partial[until] + 1] - offset[partial[until]]
            if (size + more) * k > _NUMBERS:
                break
            size, until = size + more, until + 1
        group = partial[at:until]
        items = np.concatenate([np.arange(offset[s], offset[s + 1]) for s in group])
        chain = Chain(
            np.zeros((len(items), k)), table, np.diff(offset)[group], start=start, end=end,
            allowed=_mask(corpus, items, k),
        )  # fmt: skip
        place, _ = _forest.infer(chain.forest, 1, np.empty(len(group)))
        if place is not None:
            raise ImpossibleSequenceError(
                int(numbers[group[place[0]]]), int(place[1]),
                f"{rules!r} leaves none of the labels allowed there, given those before; correct "
                "the labels or the constraint",
            )  # fmt: skip
        at = until


def _mask(corpus: Corpus, items: npt.NDArray[np.int64], k: int) -> npt.NDArray[np.bool_]:
    """Return the labels that items may have (n, K)."""
    assert corpus.sets is not None
    assert corpus.members is not None
    gold, size = corpus.gold[items], np.diff(corpus.sets)[items]
    mask = np.zeros((len(items), k), bool)
    mask[(gold < 0) & (size == 0)] = True
    known = np.flatnonzero(gold >= 0)
    mask[known, gold[known]] = True
    for i in np.flatnonzero(size):
        mask[i, corpus.members[corpus.sets[items[i]] : corpus.sets[items[i] + 1]]] = True
    return mask


def require_tags(found: Constraints, rules: Rules, corpus: Corpus) -> None:
    """Raise ValueError where a sequence of a length that is held out cannot be tagged at all."""
    sizes = np.diff(corpus.offset)
    reached = found.allowed_start.copy()
    for n in range(1, int(sizes.max(initial=0)) + 1):
        if n > 1:
            reached = np.asarray(found.allowed_transitions[reached].any(axis=0))
        if not (reached & found.allowed_end).any() and (sizes == n).any():
            raise ValueError(
                f"{rules!r} leaves no labels for a held-out sequence of {n} items; train on more "
                "labels, or leave it out"
            )
