"""Sentences as they are parsed, and how that went."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse.parsing._sentences import Sentence

__all__ = ["ParseTally", "Parses", "Summary"]


@dataclass
class Summary:
    """How the sentences were parsed that have been yielded so far, or are about to be.

    Attributes
    ----------
    sentences : int
        How many they are.
    pairs : int
        Pairs of the arcs that were looked at: siblings and grandparents. 0 of order 1.
    used : int
        Those that took part; of "relaxed" those that were added.
    scored : int
        Those whose potentials were wanted.
    rounds : int
        How often "relaxed" added pairs.
    iterations : int
        Those of belief propagation, or of "ad3".
    converged : int
        The sentences whose last messages had converged, or that were exact; of "ad3" those where it
        reached its tolerance.
    integral : int
        Sentences whose optimum in "lp" or "ad3" was a tree. The others were rounded.
    """

    sentences: int = 0
    pairs: int = 0
    used: int = 0
    scored: int = 0
    rounds: int = 0
    iterations: int = 0
    converged: int = 0
    integral: int = 0


class ParseTally:
    """Counts of the engines, added up over sentences."""

    def __init__(self) -> None:
        self.summary = Summary()

    def add(self, told: npt.NDArray[Any]) -> None:
        """Take rows (B, 7): the fields of a summary behind `sentences`."""
        names = ("pairs", "used", "scored", "rounds", "iterations", "converged", "integral")
        for name, count in zip(names, told.sum(axis=0).tolist(), strict=True):
            setattr(self.summary, name, getattr(self.summary, name) + count)
        self.summary.sentences += len(told)

    def add_program(self, pairs: int, *, converged: bool, integral: bool) -> None:
        """Take a sentence that was solved as a linear program."""
        self.add(np.array([[pairs, pairs, pairs, 0, 0, converged, integral]]))


class Parses(Iterator[Sentence]):
    """Iterates over parsed sentences; parses some thousands of words at a time.

    Attributes
    ----------
    summary : Summary
        Complete once all sentences have been yielded.
    """

    def __init__(self, sentences: Iterator[Sentence], tally: ParseTally) -> None:
        self._sentences, self._tally = sentences, tally

    def __next__(self) -> Sentence:
        return next(self._sentences)

    def __repr__(self) -> str:
        return f"Parses({self.summary.sentences} sentences parsed so far)"

    @property
    def summary(self) -> Summary:
        """How the sentences were parsed; complete once all of them have been yielded."""
        return self._tally.summary
