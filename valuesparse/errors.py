"""The exceptions that valuesparse adds to Python's."""

from __future__ import annotations

__all__ = ["DeadlineError", "InfeasibleError"]


class InfeasibleError(ValueError):
    """A model has no configuration of positive probability.

    Attributes
    ----------
    sequence : int
        Index of the first sequence without a configuration.
    position : int
        First position of that sequence, counted from its start, at which no label is left.
    """

    def __init__(self, sequence: int, position: int) -> None:
        super().__init__(
            f"sequence {sequence} has no possible configuration: at its position {position} "
            "no label is left; look for -inf in unary, transition, start, end or allowed there"
        )
        self.sequence = sequence
        self.position = position

    def __reduce__(self) -> tuple[type[InfeasibleError], tuple[int, int]]:
        return type(self), (self.sequence, self.position)


class DeadlineError(TimeoutError):
    """A call did not finish within the ``deadline`` that it was given."""
