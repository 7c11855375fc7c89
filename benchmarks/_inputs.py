"""Seeded inputs for the benchmarks: random chains with readable names."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

LABELS = (9, 22, 49, 95, 256, 1024)
# Ragged, but of few distinct lengths, so that rivals that compile per length can be measured too.
SENTENCE_LENGTHS = (5, 10, 15, 20, 25, 30, 35, 40)


@dataclass(frozen=True)
class Batch:
    """A batch of chains: ``unary`` (N, K), ``transition`` (K, K), ``lengths`` (B,)."""

    name: str
    unary: np.ndarray
    transition: np.ndarray
    lengths: np.ndarray

    @property
    def n_labels(self) -> int:
        """Number of labels K."""
        return int(self.transition.shape[0])

    @property
    def n_positions(self) -> int:
        """Number of positions N of all chains together."""
        return int(self.unary.shape[0])

    @property
    def message_flops(self) -> int:
        """Operations of all messages, counted as 4 K**2 per position."""
        return 4 * self.n_labels**2 * self.n_positions


def random_batch(
    shape: str,
    n_labels: int,
    dtype: str = "float64",
    *,
    positions: int | None = None,
    seed: int = 0,
) -> Batch:
    """Return a random batch, the same for the same seed.

    Parameters
    ----------
    shape : {"batch", "chain"}
        Short ragged sequences, or one long chain.
    n_labels : int
        Number of labels K.
    dtype : {"float64", "float32"}
        Type of the potentials.
    positions : int, optional
        About how many positions, by default as many as keep slow rivals to seconds.
    seed : int
        Seed of the generator.
    """
    rng = np.random.default_rng((seed, n_labels))
    if positions is None:
        # About 1e7 multiply-adds, and never fewer than one of each length.
        positions = max(180, min(5_000, 5_000_000 // n_labels**2))
    if shape == "chain":
        lengths = np.array([positions])
    elif shape == "batch":
        lengths = np.tile(SENTENCE_LENGTHS, max(1, positions // sum(SENTENCE_LENGTHS)))
        lengths = rng.permutation(lengths)
    else:
        raise ValueError(f"shape = {shape!r}: give 'batch' or 'chain'")
    return Batch(
        name=f"{shape}-K{n_labels}-{dtype}",
        unary=rng.normal(0.0, 2.0, (int(lengths.sum()), n_labels)).astype(dtype),
        transition=rng.normal(0.0, 1.0, (n_labels, n_labels)).astype(dtype),
        lengths=lengths,
    )
