"""Joints read out of a tree that was compiled for them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from valuesparse import _junction
from valuesparse.models import FactorGraph

__all__ = ["full_joint"]


def full_joint(
    tree: _junction.CliqueTree,
    q: int,
    wanted: tuple[int, ...],
    graph: FactorGraph,
    gone: float = 0.0,
) -> npt.NDArray[np.float64]:
    """Return the joint of set q over all states; `gone` stands at those that are impossible."""
    table, order = tree.joint(q)
    full = np.full([graph.cardinalities[v] for v in wanted], gone)
    alive = [tree.alive(v) for v in wanted]
    axes = [order.index(v) for v in wanted if v in order]
    block = table.transpose(axes).reshape([len(a) for a in alive])
    full[np.ix_(*alive)] = block
    return full
