"""Constraints on tags and transitions: read, and held against the tags to learn from."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from valuesparse.torch._functions import Gold
from valuesparse.torch._padding import Padding

__all__ = ["as_constraint", "require_allowed"]

Array = npt.NDArray[Any]


def as_constraint(name: str, value: Any, shape: tuple[int, ...]) -> torch.Tensor | None:
    """Return a constraint as a tensor of bool, checked."""
    if value is None:
        return None
    given = torch.as_tensor(value)
    if given.dtype != torch.bool:
        raise TypeError(f"{name} must be boolean, got {given.dtype}")
    if given.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {tuple(given.shape)}")
    return given.clone()


def require_allowed(padding: Padding, gold: Gold, may: Array | None, crf: Any) -> None:
    """Refuse tags that a constraint forbids: their likelihood is zero, and teaches nothing."""
    tags, first, last = gold.tags, padding.offset[:-1], padding.offset[1:] - 1

    def refuse(rows: Array, name: str) -> None:
        if rows.size:
            row = int(rows[0])
            before = f" after {tags[row - 1]}" if name == "allowed_transitions" else ""
            raise ValueError(
                f"tags{list(padding.place(row))} is {tags[row]}{before}, which {name} forbids; "
                "correct the tags or the constraint"
            )

    if may is not None:
        refuse(np.flatnonzero(~may[np.arange(tags.size), tags]), "allowed")
    for name, rows in (("allowed_start", first), ("allowed_end", last)):
        vector = getattr(crf, name)
        if vector is not None:
            refuse(rows[~vector.cpu().numpy()[tags[rows]]], name)
    if crf.allowed_transitions is not None:
        pairs = ~crf.allowed_transitions.cpu().numpy()[tags[:-1], tags[1:]]
        pairs[first[1:] - 1] = False
        refuse(np.flatnonzero(pairs) + 1, "allowed_transitions")
