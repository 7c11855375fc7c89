"""Training on files: held-out data that say when to stop, and which weights to keep."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from valuesparse.crf.metrics import Tally
from valuesparse.crf.training._data import Corpus, Dataset, corpus_of
from valuesparse.crf.training._features import FeatureSet
from valuesparse.crf.training._objective import Objective
from valuesparse.crf.training._progress import Progress
from valuesparse.crf.training.trainer import Trainer
from valuesparse.threads import resolve

__all__ = ["CorpusTrainer", "DevScore"]

Weights = npt.NDArray[np.float64]


class DevScore(NamedTuple):
    """How well the weights of an iteration label the held-out sentences.

    Attributes
    ----------
    iteration : int
        Counted from 1.
    accuracy : float
        The share of tokens with the right label.
    entity_f1 : float or None
        F1 of entities; None where labels are not those of entities.
    """

    iteration: int
    accuracy: float
    entity_f1: float | None

    @property
    def value(self) -> float:
        """The number that decides: F1 of entities where there are such, else accuracy."""
        return self.accuracy if self.entity_f1 is None else self.entity_f1


class CorpusTrainer(Trainer):
    """A trainer that is told how well it does on held-out sentences, and keeps its best weights.

    Attributes
    ----------
    accuracy : float or None
        The share of tokens trained on that the model labels rightly.
    best : DevScore or None
        The iteration whose weights the model has; None without held-out sentences.
    """

    accuracy: float | None = None
    best: DevScore | None = None
    _dev: tuple[list[Any], list[Sequence[str]]] | None = None
    _patience = 0
    _stopped = False
    _improved = 0
    _kept: Weights | None = None
    _corpus: Corpus | None = None
    _tester: Objective | None = None
    _names: Sequence[str] = ()

    def hold_out(
        self, items: Iterable[Any], labels: Iterable[Sequence[str]], patience: int
    ) -> None:
        """Take sentences that are not trained on; nothing of them gets into the model.

        Training stops where `patience` iterations brought nothing better.
        """
        self._dev, self._patience = (list(items), list(labels)), patience

    def _prepare(self, holdout: int, data: Dataset) -> tuple[Corpus, Corpus | None, FeatureSet]:
        corpus, held, features = super()._prepare(holdout, data)
        self._names = data.labels.names
        self._corpus, self._tester, self._kept, self.best = corpus, None, None, None
        self._stopped = False
        if self._dev is not None:
            encoded = corpus_of(self._dev[0], data.attributes)
            self._tester = self._objective(encoded, features)
        return corpus, held, features

    def _objective(self, corpus: Corpus, features: FeatureSet) -> Objective:
        found = self._rules.of(self._names)
        return Objective(corpus, features, resolve(self._threads), found)

    def measured(self, progress: Progress) -> bool:
        """Measure the weights of an iteration; return whether training is to stop.

        The results are among the numbers of `progress`, as ``dev_accuracy`` and
        ``dev_entity_f1``.
        """
        if self._tester is None:
            return False
        assert self._dev is not None
        names, tester = self._names, self._tester
        states, offset = tester.decode(progress.weights).tolist(), tester.corpus.offset.tolist()
        tally = Tally()
        for i, gold in enumerate(self._dev[1]):
            tally.add(gold, [names[k] for k in states[offset[i] : offset[i + 1]]])
        entities = tally.all_entities()
        found = DevScore(progress.number, tally.accuracy, None if entities is None else entities.f1)
        progress.info["dev_accuracy"] = found.accuracy
        if found.entity_f1 is not None:
            progress.info["dev_entity_f1"] = found.entity_f1
        if self.best is None or found.value > self.best.value:
            self._improved = progress.number
        if self.best is None or found.value >= self.best.value:
            # The last among equals, whose loss is smaller.
            self.best, self._kept = found, progress.weights.copy()
        self._stopped = progress.number - self._improved >= self._patience
        return self._stopped

    def _store(
        self,
        store: Callable[[bytes], object],
        features: FeatureSet,
        weights: Weights,
        data: Dataset,
    ) -> None:
        if self._stopped:
            self.reason = "dev"
        if self._kept is not None:
            weights, self._kept = self._kept, None
        corpus, self._corpus, self._tester = self._corpus, None, None
        if corpus is not None and corpus.n_items:
            states = self._objective(corpus, features).decode(weights)
            self.accuracy = float(np.mean(states == corpus.gold))
        super()._store(store, features, weights, data)
