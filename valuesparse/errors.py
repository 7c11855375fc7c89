"""The exceptions that valuesparse adds to Python's."""

from __future__ import annotations

__all__ = ["DeadlineError", "InfeasibleError", "MemoryLimitError"]


class InfeasibleError(ValueError):
    """A model has no configuration of positive probability.

    Attributes
    ----------
    sequence : int
        Index of the first sequence without a configuration; 0 for a graph.
    position : int
        First position of that sequence, counted from its start, at which no label is left; for a
        graph a variable without a state, or −1 when no single one is to blame.
    """

    def __init__(self, sequence: int, position: int, message: str | None = None) -> None:
        super().__init__(
            message
            or f"sequence {sequence} has no possible configuration: at its position {position} "
            "no label is left; look for -inf in unary, transition, start, end or allowed there"
        )
        self.sequence = sequence
        self.position = position

    def __reduce__(self) -> tuple[type[InfeasibleError], tuple[int, int, str]]:
        return type(self), (self.sequence, self.position, str(self))


class DeadlineError(TimeoutError):
    """A call did not finish within the ``deadline`` that it was given."""


class MemoryLimitError(MemoryError):
    """An exact answer needs more than ``memory_limit``; nothing was allocated."""
