"""Sequences drawn from hidden Markov models, by the random numbers that hmmlearn's models draw."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from valuesparse import _hmm

__all__ = ["Emitter", "FromMixtures", "FromNormals", "FromTable", "draw"]

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

#: Draws the row of a state.
Emitter = Callable[[int], Any]

#: Rows for which random numbers are drawn at once.
_BLOCK = 1 << 16


class Drawn(Protocol):
    """A model that sequences are drawn from."""

    startprob_: Any
    transmat_: Any

    def _emitter(self, random: np.random.RandomState) -> Emitter: ...

    def _generate_sample_from_state(self, state: int, random_state: Any) -> Any: ...


class FromTable:
    """Draws a symbol of a table of probabilities (K, V)."""

    def __init__(self, table: Floats, random: np.random.RandomState) -> None:
        self.sums = np.cumsum(table, axis=1)
        self.random = random

    def __call__(self, state: int) -> list[int]:
        """Return the row of a state."""
        return [_chosen(self.sums[state], self.random)]


class FromNormals:
    """Draws from normal distributions: means (K, F), covariances (K, F, F)."""

    def __init__(self, means: Floats, covars: Floats, random: np.random.RandomState) -> None:
        self.means, self.roots, self.random = means, _roots(covars), random

    def __call__(self, state: int) -> Floats:
        """Return the row of a state."""
        return _normal(self.means[state], self.roots[state], self.random)


class FromMixtures:
    """Draws from mixtures: weights (K, M), means (K, M, F), covariances (K, M, F, F)."""

    def __init__(
        self, weights: Floats, means: Floats, covars: Floats, random: np.random.RandomState
    ) -> None:
        sums = np.cumsum(weights, axis=1)
        self.sums = sums / sums[:, -1:]
        self.means, self.roots, self.random = means, _roots(covars), random

    def __call__(self, state: int) -> Floats:
        """Return the row of a state."""
        which = _chosen(self.sums[state], self.random)
        return _normal(self.means[state, which], self.roots[state, which], self.random)


def _roots(covars: Floats) -> Floats:
    """Return matrices that make standard normal rows those of `multivariate_normal`."""
    _, values, vectors = np.linalg.svd(covars)
    return np.asarray(np.sqrt(values)[..., None] * vectors)


def _normal(mean: Floats, root: Floats, random: np.random.RandomState) -> Floats:
    return np.asarray(np.dot(random.standard_normal((1, mean.size)), root)[0] + mean)


def _chosen(sums: Any, random: np.random.RandomState) -> int:
    """Return a number by cumulated probabilities: the first possible one where these leave none."""
    at = bisect_right(sums, random.random_sample())
    return at if at < len(sums) else bisect_right(sums, 0.0)


def _emitter(model: Drawn, random: np.random.RandomState) -> Emitter:
    """Return what draws rows: the model's own, unless a subclass has another way for a row."""

    def definer(name: str) -> type:
        return next(base for base in type(model).__mro__ if name in vars(base))

    of_rows, of_row = definer("_emitter"), definer("_generate_sample_from_state")
    if of_row is not of_rows and issubclass(of_row, of_rows):
        return lambda state: model._generate_sample_from_state(state, random)
    return model._emitter(random)


def draw(
    model: Drawn, n: int, random: np.random.RandomState, first: int | None
) -> tuple[Array, Integers]:
    """Return rows (n, F) and states (n,), the first of which may be given."""
    state = _chosen(np.cumsum(model.startprob_), random) if first is None else first
    emit = _emitter(model, random)
    states, rows = [state], [emit(state)]
    sums = np.cumsum(model.transmat_, axis=1)
    if isinstance(emit, FromTable):
        return _symbols(n, state, rows[0][0], sums, emit)
    steps = sums.tolist()
    for _ in range(n - 1):
        state = _chosen(steps[state], random)
        states.append(state)
        rows.append(emit(state))
    return np.atleast_2d(rows), np.array(states, dtype=np.int64)


def _symbols(
    n: int, state: int, symbol: int, steps: Floats, emit: FromTable
) -> tuple[Integers, Integers]:
    """Return what `draw` does where rows are symbols, after the first."""
    symbols, states = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    symbols[0], states[0] = symbol, state
    for begin in range(1, n, _BLOCK):
        end = min(n, begin + _BLOCK)
        uniforms = emit.random.random_sample((end - begin, 2))
        _hmm.draw(int(states[begin - 1]), steps, emit.sums, uniforms, states[begin:end],
                  symbols[begin:end])  # fmt: skip
    return symbols[:, None], states
