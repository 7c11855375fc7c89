"""Parsers whose only pairs of arcs are grandparents: RSM10 has them for Dutch and Italian."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse.learning import Aggressive, Online
from valuesparse.parsing import Examples, Parser, Sentence
from valuesparse.parsing._model import rounded

Array = npt.NDArray[np.float64]

# Residuals that are not above this teach nothing, as in `Examples.sweep`.
LEAST = 1e-3
BATCH = 8


class Grandparents:
    """A treebank whose parts are arcs and grandparents: a `PartModel`.

    Siblings are among the parts, with potentials of 0, and no tree has any.
    """

    def __init__(self, examples: Examples) -> None:
        self._examples, self.n_weights = examples, examples.n_weights

    def __len__(self) -> int:
        return len(self._examples)

    def scores(self, i: int, weights: Array) -> Array:
        """Return the potentials of the parts."""
        return self._alone(i, self._examples.scores(i, weights))

    def gold(self, i: int) -> Array:
        """Return the right structure."""
        return self._alone(i, self._examples.gold(i))

    def cost(self, i: int) -> tuple[Array, float]:
        """Return the Hamming distance of arcs."""
        return self._examples.cost(i)

    def marginals(self, i: int, potentials: Array) -> tuple[float, Array]:
        """Return Bethe log Z and beliefs."""
        log_z, p = self._examples.marginals(i, potentials)
        return log_z, self._alone(i, p)

    def best(self, i: int, potentials: Array) -> Array:
        """Return the best structure, where it is known."""
        return self._examples.best(i, potentials)

    def gradient(self, i: int, residual: Array) -> tuple[Any, Array]:
        """Return the gradient of those residuals that are not small."""
        return self._examples.gradient(i, np.where(np.abs(residual) > LEAST, residual, 0.0))

    def _alone(self, i: int, values: Array) -> Array:
        kinds, _ = self._examples.parts(i)
        return np.where(kinds == 1, 0.0, values)


def trained(arcs: Parser, sentences: Sequence[Sentence], epochs: int, seed: int = 0) -> Parser:
    """Return a parser with grandparents, whose training begins from one of order 1."""
    examples = Examples(
        sentences, 2, arcs.constraint, arcs.single_root, ignore=arcs.ignore, bits=arcs.model.bits,
        threads=1,
    )  # fmt: skip
    rule = Aggressive(beta=1.0, gamma=3.0)  # the defaults of `train`
    learner = Online(Grandparents(examples), rule, epochs=epochs, seed=seed, batch=BATCH)
    first = arcs.model.weights
    learner.weights[: len(first)] = first
    learner.touched[: len(first)] = first != 0.0
    for epoch in learner:
        print(f"pass {epoch.number} of {epochs}, loss {epoch.loss:.1f}", flush=True)
    return Parser(arcs.model._replace(order=2, weights=rounded(learner.result())))
