"""The trainer: pycrfsuite's surface over the engine that uses every core."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from valuesparse._crf import ItemSequence
from valuesparse._validation import InitSignature, as_count, as_tol
from valuesparse.crf._schemes import Constraints, Forbidden, Rules
from valuesparse.crf.training import _algorithms
from valuesparse.crf.training._data import Corpus, Dataset
from valuesparse.crf.training._features import FeatureSet, generate
from valuesparse.crf.training._log import TrainLogParser, score_lines
from valuesparse.crf.training._objective import Objective
from valuesparse.crf.training._parameters import require_apart, whole_number
from valuesparse.crf.training._possible import require_possible, require_tags
from valuesparse.crf.training._progress import asks_to_stop
from valuesparse.crf.training._settings import Settings
from valuesparse.io._crfsuite_format import MAX_WEIGHT
from valuesparse.io._crfsuite_writer import format_model
from valuesparse.io._files import check_target, write_bytes
from valuesparse.learning._checkpoint import Checkpoint
from valuesparse.threads import resolve

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["BaseTrainer", "Trainer"]

Weights: TypeAlias = npt.NDArray[np.float64]


class BaseTrainer(Settings):
    """The common part of trainers: :class:`Trainer` without the reading of its log.

    Parameters are those of :class:`Trainer`. :meth:`message` gets every line of the log.

    Examples
    --------
    >>> BaseTrainer("l2sgd", {"c2": 0.5}, verbose=False).get("c2")
    0.5
    """

    verbose: bool = False
    reason: str | None = None
    iterations: int = 0
    _threads: int | None = None
    _seed: int = 0
    _tol: float | None = None
    _cleared: bool = False
    _data: Dataset
    _rules: Rules
    __signature__: Any = InitSignature()

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Make a trainer; not in __init__, which subclasses of pycrfsuite's need not call."""
        self = super().__new__(cls)
        self._data = Dataset()
        self._rules = Rules(None, None)
        Settings.select(self, "lbfgs")
        return self

    def __init__(
        self,
        algorithm: str | None = None,
        params: Mapping[str, Any] | None = None,
        verbose: bool = True,
        *,
        threads: int | None = None,
        seed: int = 0,
        tol: float | None = None,
        constraints: str | None = None,
        forbidden: Forbidden | None = None,
    ) -> None:
        self.verbose = verbose
        self._rules = Rules(constraints, forbidden)
        self._threads, self._seed = threads, as_count("seed", seed, at_least=0)
        self._tol = None if tol is None else as_tol(tol)
        if algorithm is not None:
            self.select(algorithm)
        if params is not None:
            self.set_params(params)

    def append(
        self,
        xseq: ItemSequence | Iterable[Any],
        yseq: Iterable[str] | None = None,
        group: int = 0,
        *,
        allowed: Iterable[str | Iterable[str] | None] | None = None,
    ) -> None:
        """Add a sequence to train on.

        Parameters
        ----------
        xseq : sequence of n items
            Items are lists, tuples or sets of attributes, or dicts, as pycrfsuite takes them; or an
            ``ItemSequence``.
        yseq : sequence of n str
            The label of each item.
        group : int
            A number that :meth:`train` takes as `holdout`.
        allowed : sequence of n entries, in place of `yseq`
            Each item's label as far as it is known: None (not at all), a label, or several, of
            which it is one. All algorithms learn from that.

        Raises
        ------
        TypeError, ValueError
            An item, attribute, value or label cannot be used, or the lengths differ. Nothing of the
            sequence is kept then.
        """
        group = whole_number("group", group)
        if not -(2**63) <= group < 2**63:
            raise ValueError(f"group must be between -2**63 and 2**63 - 1, not {group}")
        self._data.append(xseq, yseq, group, allowed)
        self._cleared = False

    def clear(self) -> None:
        """Forget all sequences."""
        self._data = Dataset()
        self._cleared = True

    def train(
        self,
        model: str | bytes | os.PathLike[str],
        holdout: int = -1,
        *,
        callback: Callable[[_algorithms.Progress], object] | None = None,
        checkpoint: str | bytes | os.PathLike[str] | None = None,
        checkpoint_every: int = 10,
    ) -> None:
        """Train, and write the model.

        Parameters
        ----------
        model : str or path
            Where the model goes; it appears when it is complete. Empty: nowhere.
        holdout : int
            Sequences of this group are not trained on but labelled after each iteration, for the
            log; -1 trains on all.
        callback : callable, optional
            Called with a :class:`Progress` after each iteration; training stops when it returns
            True.
        checkpoint : str, bytes or path, optional
            A file to keep the state of training in. If it is there already, training goes on from
            it, to the same bits as without an interruption; where it is beyond `max_iterations`,
            the model is written as it stands.
        checkpoint_every : int
            Iterations between two checkpoints.

        Raises
        ------
        ValueError
            A parameter is out of its range, the checkpoint is damaged or belongs to other data or
            parameters, scores are too large for float64 at the beginning, or all sequences were
            cleared.
        OSError
            A file cannot be read or written. Most such failures are found before training
            begins, and the error names the file.
        """
        path = os.fsdecode(model)
        if path:
            check_target(path)  # refused before the work, not after it
            require_apart(checkpoint, path)
        store = partial(write_bytes, path) if path else None
        self._train(store, holdout, callback, checkpoint, checkpoint_every)

    def train_inmemory(
        self,
        holdout: int = -1,
        *,
        callback: Callable[[_algorithms.Progress], object] | None = None,
        checkpoint: str | bytes | os.PathLike[str] | None = None,
        checkpoint_every: int = 10,
    ) -> bytes:
        """Train, and return what :meth:`train` writes to a file.

        Parameters
        ----------
        holdout, callback, checkpoint, checkpoint_every : optional
            As in :meth:`train`.

        Returns
        -------
        bytes
            For ``Tagger.open_inmemory``.

        Raises
        ------
        ValueError, OSError
            As by :meth:`train`.
        """
        models: list[bytes] = []
        self._train(models.append, holdout, callback, checkpoint, checkpoint_every)
        return models[0]

    def _train(
        self,
        store: Callable[[bytes], object] | None,
        holdout: int,
        callback: Callable[[_algorithms.Progress], object] | None,
        checkpoint: str | bytes | os.PathLike[str] | None,
        checkpoint_every: int,
    ) -> None:
        """Train, and hand the model to `store`."""
        if self._cleared:
            raise ValueError("The data is empty. Call Trainer.append before Trainer.train.")
        data = self._data  # a callback may clear the trainer
        holdout = whole_number("holdout", holdout)
        self._before_train()
        _algorithms.check(self._algorithm, self._values, self._tol)
        threads = resolve(self._threads)
        corpus, held, features = self._prepare(holdout, data)
        found = self._rules.of(data.labels.names)
        objective = Objective(corpus, features, threads, found)
        tester = None if held is None else Objective(held, features, threads, found)
        saved = None
        if checkpoint is not None:
            saved = Checkpoint(checkpoint, checkpoint_every, self._fingerprint(corpus, data))
        started = time.perf_counter()
        run = _algorithms.start(
            self._algorithm, objective, self._values, self._seed, self.message, saved, self._tol
        )
        last = time.perf_counter()
        self.reason = None
        for progress in run:
            now = time.perf_counter()
            for line in progress.lines:
                self.message(line)
            self.message(f"Seconds required for this iteration: {now - last:.3f}\n")
            last = now
            if tester is not None:
                states = tester.decode(progress.weights)
                labels = data.labels.names
                for line in score_lines(labels, tester.corpus.gold, states, tester.corpus.offset):
                    self.message(line)
            self.message("\n")
            if callback is not None and asks_to_stop(callback(progress)):
                self.reason = "callback"
                break
        self.reason, self.iterations = self.reason or run.reason, run.done
        for line in run.ending(self.reason):
            self.message(line)
        self.message(f"Total seconds required for training: {time.perf_counter() - started:.3f}\n")
        self.message("\n")
        if store is not None:
            self._store(store, features, run.result(), data)

    def message(self, message: str) -> None:
        """Take one line of the log, and print it where ``verbose`` is true."""
        if self.verbose:
            print(message, end="")

    def _before_train(self) -> None:
        """Do what training begins with."""

    def _prepare(self, holdout: int, data: Dataset) -> tuple[Corpus, Corpus | None, FeatureSet]:
        """Choose sequences and features, telling of it."""
        started = time.perf_counter()
        if holdout != -1:
            self.message(f"Holdout group: {holdout + 1}\n")
            self.message("\n")
        self.message("Feature generation\n")
        self.message("type: CRF1d\n")
        values = self._values
        self.message(f"feature.minfreq: {values['feature.minfreq']:f}\n")
        for name in ("feature.possible_states", "feature.possible_transitions"):
            self.message(f"{name}: {values[name]:d}\n")
        held: Corpus | None = None
        if holdout == -1:
            corpus = data.corpus()
        else:
            wanted = np.array(data.groups, np.int64) != holdout
            corpus = data.corpus(wanted)
            held = data.corpus(~wanted)
        found = self._require_possible(corpus, held, holdout, data)
        whole = bool(values.get("feature.unsupported", False))
        features = generate(
            corpus,
            len(data.attributes),
            len(data.labels.names),
            values["feature.minfreq"],
            values["feature.possible_states"] or whole,
            values["feature.possible_transitions"] or whole,
            None if found is None else found.allowed_transitions,
        )
        for i in range(51):
            self.message("." if i % 5 else str(i // 5))
        self.message("\n")
        self.message(f"Number of features: {features.n_weights}\n")
        self.message(f"Seconds required: {time.perf_counter() - started:.3f}\n")
        self.message("\n")
        return corpus, held, features

    def _require_possible(
        self, corpus: Corpus, held: Corpus | None, holdout: int, data: Dataset
    ) -> Constraints | None:
        """Return the constraints, which all sequences must agree with."""
        if corpus.n_items and not data.labels.names:
            raise ValueError(
                "no label is known of any item: append some sequences with yseq, or name labels in "
                "allowed"
            )
        groups = np.array(data.groups, np.int64)
        if held is not None and held.sets is not None:
            s = np.searchsorted(held.offset, np.flatnonzero(held.gold < 0)[0], side="right") - 1
            raise ValueError(
                f"sequence {np.flatnonzero(groups == holdout)[s]} of the holdout group was "
                "appended with allowed=: it has no labels to compare with"
            )
        found = self._rules.of(data.labels.names)
        if found is not None:
            numbers = np.flatnonzero(groups != holdout) if held else np.arange(len(groups))
            require_possible(corpus, found, self._rules, data.labels.names, numbers)
            if held is not None:
                require_tags(found, self._rules, held)
        return found

    def _fingerprint(self, corpus: Corpus, data: Dataset) -> tuple[Any, ...]:
        """Return all that a run depends on but the number of threads."""
        # The number of iterations may grow between two runs.
        values = {k: v for k, v in self._values.items() if k != "max_iterations"}
        return (
            self._algorithm, sorted(values.items()), self._seed, corpus,
            data.attributes.names(), data.labels.names,
            *(() if self._tol is None else (self._tol,)),
            *([self._rules.scheme, self._rules.forbidden] if self._rules else ()),
        )  # fmt: skip

    def _store(
        self,
        store: Callable[[bytes], object],
        features: FeatureSet,
        weights: Weights,
        data: Dataset,
    ) -> None:
        """Write the model, telling of it."""
        started = time.perf_counter()
        if not (np.abs(weights) <= MAX_WEIGHT).all():  # NaN compares false
            raise ValueError(
                f"training ended with weights beyond ±{MAX_WEIGHT:g}, which cannot be read again; "
                "nothing is written: scale the attributes' values down"
            )
        names = data.attributes.names()
        labels = data.labels.names
        split = len(features.label)
        active = np.flatnonzero(weights[:split])
        used = np.count_nonzero(np.bincount(features.attribute[active]))
        self.message("Storing the model\n")
        total = np.count_nonzero(weights)
        self.message(f"Number of active features: {total} ({len(weights)})\n")
        self.message(f"Number of active attributes: {used} ({len(names)})\n")
        self.message(f"Number of active labels: {len(labels)} ({len(labels)})\n")
        self.message("Writing labels\n")
        self.message("Writing attributes\n")
        self.message("Writing feature references for transitions\n")
        self.message("Writing feature references for attributes\n")
        model = format_model(
            labels,
            names,
            (features.attribute, features.label.astype(np.int64), weights[:split]),
            (features.source, features.target, weights[split:]),
        )
        store(model)
        self.message(f"Seconds required: {time.perf_counter() - started:.3f}\n")
        self.message("\n")


class Trainer(BaseTrainer):
    """Train a linear-chain CRF and write it to a file that CRFsuite opens.

    The surface is ``pycrfsuite.Trainer``'s. The work runs on every core; the same data and
    parameters give the same file, bit for bit, for any number of threads.

    Parameters
    ----------
    algorithm : str, optional
        See :meth:`select`; L-BFGS unless it is given.
    params : dict, optional
        See :meth:`set_params`.
    verbose : bool
        Whether :meth:`message` prints what it is told. True, as in pycrfsuite.
    threads : int, optional
        Threads to train on; None means ``vs.get_num_threads()``.
    seed : int
        Seed of the order in which online algorithms take the data.
    tol : float, optional
        L-BFGS only: marginals may be off by this much, proved, where that is faster. The log has
        the bound on the gradient's error that follows; where it could decide when to stop, and
        where a line search fails, the rest is exact.
    constraints : {"BIO", "BIOES", "IOB1"}, optional
        Only label sequences of this scheme are possible, in training too; a sequence to learn from
        that is none is refused. The file does not hold it: give it to the `Tagger` as well. See
        :func:`valuesparse.crf.constraints`.
    forbidden : iterable of pairs (from, to), optional
        Labels that may not follow each other, likewise.

    Attributes
    ----------
    verbose : bool
        As given.
    logparser : TrainLogParser or None
        The log of the last :meth:`train`, as numbers.
    reason : str or None
        Why the last :meth:`train` ended: ``"converged"``, ``"delta"``, ``"max_iterations"``,
        ``"linesearch"`` or ``"callback"``.
    iterations : int
        Iterations behind the last model, with those before the checkpoint that it went on from.

    Notes
    -----
    L-BFGS minimises Σ −log p(yseq | xseq) + c1·|w| + c2·‖w‖²; there is no ½. Marginals and
    summed edge marginals are exact, and scores of ±10,000 do not overflow.

    Examples
    --------
    >>> trainer = Trainer(params={"c2": 0.1}, verbose=False)
    >>> trainer.append([["word=the"], ["word=cat"]], ["DET", "NOUN"])
    >>> trainer.append([["word=cats"]], ["NOUN"])
    >>> trainer.train("cats.crfsuite")  # doctest: +SKIP
    >>> trainer.get("c2"), trainer.get("max_iterations")
    (0.1, 2147483647)
    """

    logparser: Any = None  # that of pycrfsuite, TrainLogParser

    def message(self, message: str) -> None:
        """Take one line of the log; override it, or the ``on_`` methods, to do something else."""
        if self.logparser is None:
            self._before_train()
        assert self.logparser is not None
        event = self.logparser.feed(message)
        if not self.verbose or event is None:
            return
        log = self.logparser.last_log
        if event == "featgen_progress":
            self.on_featgen_progress(log, self.logparser.featgen_percent)
        elif event == "iteration":
            self.on_iteration(log, self.logparser.last_iteration)
        else:
            getattr(self, f"on_{event}")(log)

    def on_start(self, log: str) -> None:
        """Print how training starts."""
        print(log, end="")

    def on_featgen_progress(self, log: str, percent: int) -> None:
        """Print how far the generation of features is."""
        print(log, end="")

    def on_featgen_end(self, log: str) -> None:
        """Print how many features there are."""
        print(log, end="")

    def on_prepared(self, log: str) -> None:
        """Print the settings of the run that begins."""
        print(log, end="")

    def on_prepare_error(self, log: str) -> None:
        """Print why training cannot begin."""
        print(log, end="")

    def on_iteration(self, log: str, info: dict[str, Any] | None) -> None:
        """Print how an iteration went; `info` has its numbers."""
        print(log, end="")

    def on_optimization_end(self, log: str) -> None:
        """Print why training ended."""
        print(log, end="")

    def on_end(self, log: str) -> None:
        """Print that the model is written."""
        print(log, end="")

    def _before_train(self) -> None:
        self.logparser = TrainLogParser()
