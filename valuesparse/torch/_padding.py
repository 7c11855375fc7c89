"""Padded batches, as PyTorch's layers make them, and the ragged rows that chains are made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Padding"]

Array = npt.NDArray[Any]
Indices = npt.NDArray[np.int64]


class Padding:
    """Which entries of a padded batch are steps of which sequence.

    Parameters
    ----------
    steps, sequences : int
        Sizes of the two leading axes of the batch: T, at least 1, and B.
    mask : ndarray of bool or None
        Which steps there are, of shape (T, B), or (B, T) when `batch_first`; None: all of them.
    batch_first : bool
        Which of the two axes comes first.

    Attributes
    ----------
    lengths : ndarray of int64, shape (B,)
        Steps of each sequence.
    offset : ndarray of int64, shape (B + 1,)
        Where the rows of each sequence begin when sequences are laid end to end: N in all.

    Raises
    ------
    ValueError
        When a sequence goes on after a step that is masked.

    Examples
    --------
    >>> padding = Padding(3, 2, np.array([[True, True], [True, False], [True, False]]), False)
    >>> padding.lengths.tolist()
    [3, 1]
    >>> padding.gather(np.arange(6).reshape(3, 2)).tolist()
    [0, 2, 4, 1]
    """

    def __init__(
        self, steps: int, sequences: int, mask: npt.NDArray[np.bool_] | None, batch_first: bool
    ) -> None:
        self.batch_first = batch_first
        self.steps = steps
        self.sequences = sequences
        self.lengths = np.full(sequences, steps, dtype=np.int64)
        self._index: Indices | None = None  # of each row in the flattened batch; None: all there
        if mask is not None and not mask.all():
            rows = mask if batch_first else mask.T
            self.lengths = rows.sum(axis=1, dtype=np.int64)
            self._require_runs(rows)
        self.offset = np.zeros(sequences + 1, dtype=np.int64)
        np.cumsum(self.lengths, out=self.offset[1:])
        if mask is not None and self.n_rows < steps * sequences:
            owner = self.owner
            step = np.arange(self.n_rows) - self.offset[owner]
            self._index = owner * steps + step if batch_first else step * sequences + owner

    def _require_runs(self, rows: npt.NDArray[np.bool_]) -> None:
        wrong = rows != (np.arange(self.steps) < self.lengths[:, None])
        if wrong.any():
            sequence = int(wrong.any(axis=1).argmax())
            step = int(rows[sequence].argmin())
            place = (sequence, step) if self.batch_first else (step, sequence)
            raise ValueError(
                f"mask{list(place)} is off although a later step of sequence {sequence} is on; "
                "the steps of a sequence must come first, its padding after them"
            )

    @property
    def n_rows(self) -> int:
        """N, the number of steps of all sequences."""
        return int(self.offset[-1])

    @property
    def owner(self) -> Indices:
        """The sequence of each row, (N,)."""
        return np.repeat(np.arange(self.sequences), self.lengths)

    def place(self, row: int) -> tuple[int, int]:
        """Return the two leading indices, in the padded batch, of a row."""
        sequence = int(np.searchsorted(self.offset, row, side="right")) - 1
        step = row - int(self.offset[sequence])
        return (sequence, step) if self.batch_first else (step, sequence)

    def gather(self, padded: Array) -> Array:
        """Return the rows of a padded batch, (N, ...), sequences laid end to end."""
        tail = padded.shape[2:]
        if self._index is not None:
            return padded.reshape(-1, *tail).take(self._index, axis=0)
        if not self.batch_first:
            padded = padded.swapaxes(0, 1)
        return padded.reshape(-1, *tail)

    def spread(self, rows: Array) -> Array:
        """Return the padded batch of rows (N, ...), zero where there is no step."""
        tail = rows.shape[1:]
        shape = (self.sequences, self.steps) if self.batch_first else (self.steps, self.sequences)
        if self._index is not None:
            padded = np.zeros((self.steps * self.sequences, *tail), dtype=rows.dtype)
            padded[self._index] = rows
            return padded.reshape(*shape, *tail)
        if self.batch_first:
            return rows.reshape(*shape, *tail)
        return rows.reshape(self.sequences, self.steps, *tail).swapaxes(0, 1)

    def first(self, padded: Array) -> Array:
        """Return the entries of first steps, (B, ...)."""
        return padded[:, 0] if self.batch_first else padded[0]

    def last(self, padded: Array) -> Array:
        """Return the entries of last steps, (B, ...)."""
        last, every = self.lengths - 1, np.arange(self.sequences)
        return padded[every, last] if self.batch_first else padded[last, every]
