"""Measure engines against each other on the same sentences: time, agreement, errors, work."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import valuesparse as vs
from valuesparse.inference._certified import floor_of

#: Timed repetitions; the median counts.
ROUNDS = 7
#: Sentences that python-crfsuite is timed on: it needs one Python call per position and label.
RIVAL_SENTENCES = 200
#: Thresholds that are tried unless others are asked for.
ZETAS = (0.0, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999)
#: Tolerances that are tried, likewise.
TOLS = (1e-1, 1e-2, 1e-3)

FloatArray = npt.NDArray[np.floating[Any]]


class Row(NamedTuple):
    """The cost of one engine, and the worth of its answers.

    Attributes
    ----------
    name : str
        ``"exact"``, ``"ζ = 0.9"`` or ``"tol = 0.001"``.
    zeta : float or None
        The threshold of SMM11; None for exact.
    speed : float
        Tokens per second, log-potentials in, marginals out.
    agreement : float
        Share of the tokens whose best tag is that of the exact marginals.
    accuracy : float
        Share of the tokens whose best tag is the one in the corpus.
    mean_error, max_error : float
        A token's largest absolute error over its labels: mean and maximum over tokens.
    islands : float
        Share of the tokens that are held deterministic.
    full : float
        Share of the messages that cost K*K; the others cost K.
    tol : float or None
        The tolerance; None where none was asked for.
    proved : float
        The largest error that is proved: by the result, or by its ``certify()``.
    """

    name: str
    zeta: float | None
    speed: float
    agreement: float
    accuracy: float
    mean_error: float
    max_error: float
    islands: float
    full: float
    tol: float | None = None
    proved: float = math.nan


class Rival(NamedTuple):
    """python-crfsuite on a sample of the same sentences.

    Attributes
    ----------
    speed : float
        Tokens per second for all marginals through its Python interface, which asks for them one
        by one; scoring the attributes (``set``) is subtracted.
    core_speed : float
        Tokens per second of its C forward-backward alone: ``set`` and one marginal, minus ``set``.
    difference : float
        The largest absolute difference between its marginals and our exact ones.
    sentences : int
        The size of the sample.
    """

    speed: float
    core_speed: float
    difference: float
    sentences: int


class Measurements(NamedTuple):
    """Everything the demo measures; `results` are in the order of `rows`."""

    rows: list[Row]
    results: list[vs.Result]
    rival: Rival


def median_seconds(
    functions: Mapping[str, Callable[[], object]],
    rounds: int = ROUNDS,
    on_round: Callable[[], object] | None = None,
) -> dict[str, float]:
    """Time functions in alternation and return medians; see `sample_seconds`.

    Examples
    --------
    >>> sorted(median_seconds({"sum": lambda: sum(range(9)), "max": lambda: max(range(9))}))
    ['max', 'sum']
    """
    samples = sample_seconds(functions, rounds, on_round)
    return {name: statistics.median(times) for name, times in samples.items()}


def sample_seconds(
    functions: Mapping[str, Callable[[], object]],
    rounds: int = ROUNDS,
    on_round: Callable[[], object] | None = None,
) -> dict[str, list[float]]:
    """Time functions in alternation: a warm-up of each, then several rounds.

    Parameters
    ----------
    functions : mapping of str to callable
        Functions to time, by name.
    rounds : int
        Timed calls of each; one of each per round, so that a slow spell meets them all.
    on_round : callable, optional
        Called after the warm-up and after each round.

    Returns
    -------
    dict of str to list of float
        Seconds of each timed call.
    """
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for turn in range(rounds + 1):
        for name, function in functions.items():
            begin = time.perf_counter()
            function()
            if turn > 0:
                seconds[name].append(time.perf_counter() - begin)
        if on_round is not None:
            on_round()
    return seconds


def name_of(zeta: float) -> str:
    """Return the name of a threshold's row.

    Examples
    --------
    >>> name_of(0.0), name_of(0.999)
    ('ζ = 0', 'ζ = 0.999')
    """
    return f"ζ = {zeta:g}"


def provable(chain: vs.Chain, tols: Sequence[float]) -> tuple[list[float], str | None]:
    """Return the tolerances that can be proved for a chain, and a sentence on the others if any."""
    least = floor_of(chain)
    found = [tol for tol in tols if tol >= least]
    if len(found) == len(tols):
        return found, None
    others = ", ".join(f"tol = {tol:g}" for tol in tols if tol < least)
    return found, f"Not measured: {others}. Rounding leaves {least:.2e} or more to prove here."


def compare(
    marginals: FloatArray, exact: FloatArray, gold: npt.NDArray[np.int64]
) -> dict[str, float]:
    """Compare marginals with the exact ones and with the corpus.

    Parameters
    ----------
    marginals, exact : (N, K) ndarray
        Marginals.
    gold : (N,) int64 ndarray
        Label indices of the corpus.

    Returns
    -------
    dict of str to float
        The fields `agreement`, `accuracy`, `mean_error` and `max_error` of a `Row`.

    Examples
    --------
    >>> exact = np.array([[0.9, 0.1], [0.4, 0.6]])
    >>> compare(np.array([[1.0, 0.0], [0.5, 0.5]]), exact, np.array([0, 1]))
    {'agreement': 0.5, 'accuracy': 0.5, 'mean_error': 0.1, 'max_error': 0.1}
    """
    best = marginals.argmax(axis=1)
    errors = np.abs(marginals - exact).max(axis=1)
    return {
        "agreement": float((best == exact.argmax(axis=1)).mean()),
        "accuracy": float((best == gold).mean()),
        "mean_error": float(errors.mean()),
        "max_error": float(errors.max()),
    }


def full_share(stats: Mapping[str, Any]) -> float:
    """Return the share of messages that cost K*K; 1 when there are no messages at all.

    Examples
    --------
    >>> full_share({"messages_full": 1, "messages_sparse": 3})
    0.25
    """
    messages = stats["messages_full"] + stats["messages_sparse"]
    return float(stats["messages_full"] / messages) if messages else 1.0


class Ladder:
    """Exact inference and ladders of ζ and tol on the same chain: results, what to time, rows.

    Parameters
    ----------
    chain : Chain
        Sequences, scored.
    zetas : sequence of float
        Thresholds of SMM11, in [0, 1].
    threads : int or None
        As for `valuesparse.infer`.
    tols : sequence of float, optional
        Tolerances; by default those of `TOLS` that can be proved.

    Raises
    ------
    ValueError
        When one of `tols` cannot be proved.
    """

    def __init__(
        self,
        chain: vs.Chain,
        zetas: Sequence[float],
        threads: int | None,
        tols: Sequence[float] | None = None,
    ) -> None:
        self.chain = chain
        if tols is None:
            tols, _ = provable(chain, TOLS)
        self.zetas = [None, *(float(zeta) for zeta in zetas), *[None] * len(tols)]
        self.tols = [None, *[None] * len(zetas), *(float(tol) for tol in tols)]
        self.functions: dict[str, Callable[[], Any]] = {
            "exact": partial(vs.infer, chain, threads=threads)
        }
        for zeta in zetas:
            self.functions[name_of(zeta)] = partial(vs.infer, chain, zeta=zeta, threads=threads)
        for tol in tols:
            run = partial(vs.infer, chain, tol=tol, threads=threads)
            self.functions[f"tol = {tol:g}"] = run
        self.results = {name: run() for name, run in self.functions.items()}
        self.proved = {
            name: float(result.certify(threads=threads).error.max(initial=0.0))
            for name, result in self.results.items()
        }

    def rows(self, seconds: Mapping[str, float], gold: npt.NDArray[np.int64] | None) -> list[Row]:
        """Return a row for exact and for each ζ and tol; without `gold` the accuracy is NaN."""
        exact = self.results["exact"].marginals
        known = np.full(self.chain.n_positions, -1) if gold is None else gold
        rows = [
            Row(
                name=name,
                zeta=zeta,
                speed=self.chain.n_positions / seconds[name],
                islands=float((result.islands >= 0).mean()),
                full=full_share(result.stats),
                tol=tol,
                proved=self.proved[name],
                **compare(result.marginals, exact, known),
            )
            for (name, result), zeta, tol in zip(
                self.results.items(), self.zetas, self.tols, strict=True
            )
        ]
        return rows if gold is not None else [row._replace(accuracy=math.nan) for row in rows]


def measure(
    model_path: Path,
    attributes: Sequence[Sequence[Sequence[str]]],
    chain: vs.Chain,
    labels: Sequence[str],
    gold: npt.NDArray[np.int64],
    zetas: Sequence[float],
    threads: int | None = 1,
    on_round: Callable[[], object] | None = None,
    tols: Sequence[float] | None = None,
) -> Measurements:
    """Run exact inference, every ζ and tol and python-crfsuite on the same sentences; time them.

    Parameters
    ----------
    model_path : Path
        The CRFsuite model.
    attributes : sequence of sequence of sequence of str
        Per sentence and position, the attributes: what python-crfsuite gets.
    chain : Chain
        The same sentences, scored: what we get.
    labels : sequence of str
        The labels, in the order of the chain's columns.
    gold : (N,) int64 ndarray
        Label indices of the corpus.
    zetas : sequence of float
        Thresholds of SMM11, in [0, 1].
    threads : int or None
        Threads of ours; python-crfsuite always uses one.
    on_round : callable, optional
        Called ``ROUNDS + 1`` times.
    tols : sequence of float, optional
        Tolerances, as of `Ladder`.

    Returns
    -------
    Measurements
        First row: exact. Then one per ζ and one per tolerance, in the order given.
    """
    ladder = Ladder(chain, zetas, threads, tols)
    functions: dict[str, Callable[[], object]] = dict(ladder.functions)
    exact = ladder.results["exact"].marginals

    rival = _RivalTagger(model_path, attributes, labels, chain.lengths)
    functions.update({"set": rival.set_only, "one": rival.set_and_one, "all": rival.set_and_all})
    try:
        seconds = median_seconds(functions, on_round=on_round)
        difference = float(np.abs(rival.marginals() - exact[rival.positions]).max())
    finally:
        rival.close()

    tokens = len(rival.positions)
    # A timer's noise must not turn a tiny sample's difference into zero or less.
    per_core = max(seconds["one"] - seconds["set"], 1e-9)
    per_all = max(seconds["all"] - seconds["set"], per_core)
    return Measurements(
        ladder.rows(seconds, gold),
        list(ladder.results.values()),
        Rival(tokens / per_all, tokens / per_core, difference, rival.n_sentences),
    )


class _RivalTagger:
    """python-crfsuite's tagger on an evenly spaced sample of the sentences."""

    def __init__(
        self,
        model_path: Path,
        attributes: Sequence[Sequence[Sequence[str]]],
        labels: Sequence[str],
        lengths: npt.NDArray[np.integer[Any]],
    ) -> None:
        import pycrfsuite

        self._tagger = pycrfsuite.Tagger()
        self._tagger.open(str(model_path))
        self._labels = list(labels)
        sample = range(0, len(attributes), max(1, len(attributes) // RIVAL_SENTENCES))
        chosen = list(sample)[:RIVAL_SENTENCES]
        # Converted once, outside the clock: that is not inference.
        self._sequences = [pycrfsuite.ItemSequence(attributes[i]) for i in chosen]
        self._lengths = [int(lengths[i]) for i in chosen]
        begins = np.concatenate([[0], np.cumsum(lengths)])
        self.positions = np.concatenate([np.arange(begins[i], begins[i + 1]) for i in chosen])
        self.n_sentences = len(chosen)

    def close(self) -> None:
        """Release the model file; Windows cannot remove it before."""
        self._tagger.close()

    def set_only(self) -> None:
        for sequence in self._sequences:
            self._tagger.set(sequence)

    def set_and_one(self) -> None:
        label = self._labels[0]
        for sequence in self._sequences:
            self._tagger.set(sequence)
            self._tagger.marginal(label, 0)

    def set_and_all(self) -> list[float]:
        marginal = self._tagger.marginal
        out = []
        for sequence, length in zip(self._sequences, self._lengths, strict=True):
            self._tagger.set(sequence)
            out += [marginal(label, i) for i in range(length) for label in self._labels]
        return out

    def marginals(self) -> FloatArray:
        return np.array(self.set_and_all()).reshape(-1, len(self._labels))
