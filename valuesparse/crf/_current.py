"""The model that a tagger has open, and the sequence that a thread asks it about."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from valuesparse import _forest
from valuesparse._crf import ItemSequence, Scorer
from valuesparse._validation import no_frame, require_room
from valuesparse.crf._constraints import Allowed, Masks, as_mask
from valuesparse.crf._schemes import Rules
from valuesparse.errors import InfeasibleError
from valuesparse.io.crfsuite import CrfsuiteModel, scorer_of
from valuesparse.threads import resolve

__all__ = ["Current", "Floats", "Opened", "Sequence"]

Floats: TypeAlias = npt.NDArray[np.float64]


class LogZ:
    """log Z of single sequences under an open model: messages one way, of which none is kept."""

    __slots__ = ("_ready", "_scores")

    def __init__(self, scores: tuple[Floats, Floats, Floats]) -> None:
        self._scores = scores
        self._ready: tuple[_forest.Table | None, _forest.Prepared] | None = None

    def __call__(self, unary: Floats, allowed: npt.NDArray[np.bool_] | None) -> float:
        """Return log Z of a sequence of one item or more."""
        if self._ready is None:  # two threads may both do it: the outcome is the same
            none = self._laid_out(unary[:0].copy(), None, True)
            self._ready = none.sparse, _forest.Prepared(none)
        sparse, prepared = self._ready
        log_z = np.empty(1)
        infeasible, _ = _forest.infer(
            self._laid_out(unary, allowed, sparse), 1, log_z, prepared=prepared
        )
        if infeasible is not None:
            raise InfeasibleError(*infeasible)
        return log_z.item()

    def _laid_out(
        self,
        unary: Floats,
        allowed: npt.NDArray[np.bool_] | None,
        sparse: _forest.Table | bool | None,
    ) -> _forest.Forest:
        """Return one sequence as the engine takes it; where there are no items, no sequence."""
        table, start, end = self._scores
        n = len(unary)
        mask = None if allowed is None else allowed.view(np.uint8)
        offset = np.array([0, n] if n else [0], dtype=np.int64)
        edge = np.array([0, n - 1] if n else [0], dtype=np.int64)
        return _forest.Forest(unary, table, mask, start, end, offset, edge, sparse=sparse)


class Opened(NamedTuple):
    """An open model; what a call needs is taken from one, whatever other threads open meanwhile."""

    model: CrfsuiteModel
    header: dict[str, str]
    labels: list[str]
    numbers: dict[str, int]
    scorer: Scorer  # the model's, under the constraints
    scores: tuple[Floats, Floats, Floats]  # of pairs of labels, and of the first and last one
    log_z: LogZ  # under the constraints

    @classmethod
    def under(cls, rules: Rules, model: CrfsuiteModel, header: dict[str, str]) -> Opened:
        """Return a model open under the constraints of a tagger."""
        labels = list(model.labels)
        numbers = {name: i for i, name in enumerate(labels)}
        found = rules.of(labels)
        if found is None:
            none = np.zeros(len(labels))
            scores = (np.ascontiguousarray(model.transition), none, none)
            return cls(model, header, labels, numbers, scorer_of(model), scores, LogZ(scores))
        table, start, end = found.log_potentials()
        scores = (np.ascontiguousarray(model.transition + table), start, end)
        scorer = scorer_of(model).under(*scores)
        return cls(model, header, labels, numbers, scorer, scores, LogZ(scores))

    def number(self, name: Any) -> int:
        """Return the number of a label, given as str or UTF-8 bytes."""
        if isinstance(name, (bytes, bytearray)):
            name = bytes(name).decode("utf-8", "surrogateescape")
        if not isinstance(name, str):
            raise TypeError(f"a label must be str, not {type(name).__name__}: {name!r}")
        number = self.numbers.get(name)
        if number is None:
            raise RuntimeError(f"Failed to convert into label identifier: {name}")
        return number

    def ask_many(
        self,
        ask: Callable[..., list[Any]],
        xseqs: Iterable[ItemSequence | Iterable[Any]],
        allowed: Iterable[Allowed | None] | None,
        threads: int | None,
    ) -> list[Any]:
        """Ask the same of many sequences, each with its constraints."""
        if not hasattr(xseqs, "__iter__"):
            raise TypeError(f"xseqs must be an iterable of sequences, not {type(xseqs).__name__}")
        masks = None if allowed is None else Masks(allowed, self.numbers)
        answer = ask(no_frame("xseqs", xseqs), masks=masks, threads=resolve(threads))
        if masks is not None:
            masks.finish(len(answer))
        return answer


class Sequence:
    """A sequence under way: its scores (n, K), the labels allowed (n, K), and answers so far."""

    __slots__ = ("_log_z", "_marginals", "allowed", "opened", "unary")

    def __init__(
        self,
        opened: Opened,
        unary: Floats,
        allowed: npt.NDArray[np.bool_] | None = None,
        log_z: float | None = None,
    ) -> None:
        self.opened = opened
        self.unary = unary
        self.allowed = allowed
        self._marginals: Floats | None = None  # for `marginal` alone
        self._log_z = log_z

    def __len__(self) -> int:
        return len(self.unary)

    def under(self, allowed: Allowed) -> Sequence:
        """Return the sequence under other constraints."""
        mask = as_mask(allowed, len(self), self.opened.numbers)
        return Sequence(self.opened, self.unary, mask)

    def best(self, k: int) -> list[list[str]]:
        """Return the k best label sequences, best first, or as many as there are."""
        n, n_labels = self.unary.shape
        if n == 0:
            return [[]]
        if n * math.log2(n_labels) < 62:  # space for no more than there are
            k = min(k, n_labels**n)
        require_room("n_best", k, n)
        states, scores = self.opened.scorer.decode_scores(self.unary, self.allowed, k)
        labels = self.opened.labels
        return [
            [labels[state] for state in row]
            for row, score in zip(states.tolist(), scores[:, 0], strict=True)
            if score > -math.inf
        ]

    def infer(self, zeta: float = 1.0) -> Floats:
        """Return the marginals (n, K)."""
        scorer = self.opened.scorer
        marginals, log_z = scorer.infer_scores(self.unary, self.allowed, zeta)
        if zeta == 1.0:
            self._log_z = log_z
        return marginals

    def marginal(self, i: int, k: int) -> float:
        """Return the probability of label k at item i."""
        if self._marginals is None:
            self._marginals = self.infer()
        return self._marginals.item(i, k)

    def pairwise(self) -> Floats:
        """Return the marginals of pairs (n - 1, K, K)."""
        return self.opened.scorer.pairwise(self.unary, self.allowed)

    def probability(self, path: npt.NDArray[np.int64]) -> float:
        """Return the probability of labels (n,)."""
        if self._log_z is None:  # says so, too, when nothing at all is possible
            self._log_z = self.opened.log_z(self.unary, self.allowed)
        rows = np.arange(len(self))
        if self.allowed is not None and not self.allowed[rows, path].all():
            return 0.0
        table, start, end = self.opened.scores
        score = float(self.unary[rows, path].sum())
        score += float(table[path[:-1], path[1:]].sum() + start[path[0]] + end[path[-1]])
        return math.exp(min(score - self._log_z, 0.0))  # rounding of large weights


class Current(threading.local):
    """Each thread's own current sequence."""

    sequence: Sequence | None = None
