"""The exceptions that valuesparse adds to Python's."""

from __future__ import annotations

__all__ = ["DeadlineError", "InfeasibleError", "MemoryLimitError"]


class InfeasibleError(ValueError):
    """A model has no configuration of positive probability.

    Attributes
    ----------
    sequence : int
        Index of the first sequence without a configuration; of a forest: which tree; 0 for a graph.
    position : int
        First position of that sequence, counted from its start, at which no label is left. In a
        tree: the lowest node at which no state is left although each of its children has one. In a
        graph: a variable without a state, or −1 when no single one is to blame.
    root : int or None
        The root of that tree.
    """

    def __init__(
        self, sequence: int, position: int, root: int | None = None, message: str | None = None
    ) -> None:
        if message is None and root is None:
            message = (
                f"sequence {sequence} has no possible configuration: at its position {position} "
                "no label is left; look for -inf in unary, transition, start, end or allowed there"
            )
        elif message is None:
            message = (
                f"tree {sequence} (root {root}) has no possible configuration: at node {position} "
                "no state is left given the nodes below it; look for -inf in unary, pairwise or "
                "allowed there"
            )
        super().__init__(message)
        self.sequence = sequence
        self.position = position
        self.root = root

    def __reduce__(self) -> tuple[type[InfeasibleError], tuple[int, int, int | None, str]]:
        return type(self), (self.sequence, self.position, self.root, str(self))


class DeadlineError(TimeoutError):
    """A call did not finish within the ``deadline`` that it was given."""


class MemoryLimitError(MemoryError):
    """An exact answer needs more than ``memory_limit``; nothing was allocated."""
