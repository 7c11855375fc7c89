"""The messages of a chain as a plan, one task each: the queue of SMM11, section 3.

`infer` runs coarser tasks (`vs.schedule.record` has them). This model is for the figures of the
paper whose tasks are single messages.
"""

from __future__ import annotations

import numpy as np

from valuesparse.schedule import Plan


def message_plan(island: np.ndarray, sparse: float) -> Plan:
    """Return the two passes over one chain, cut at its islands.

    Every edge carries a message each way. It waits for the one into its sender, unless that is an
    island: then it waits for nothing and costs `sparse` instead of 1.

    Parameters
    ----------
    island : (n,) bool
        Where islands are.
    sparse : float
        Cost of a message that leaves an island.
    """
    n = island.size
    item, cost, waits = [], [], []
    for senders, step in ((range(n - 1), 1), (range(n - 1, 0, -1), -1)):
        for at, sender in enumerate(senders):
            waits.append(int(at > 0 and not island[sender]))
            item.append((sender, sender + step))
            cost.append(sparse if island[sender] else 1.0)
    # A waiting task waits for the task before it.
    return Plan(
        kind=np.zeros(len(cost), dtype=np.int8),
        item=item,
        cost=cost,
        waits=waits,
        succ_ptr=np.cumsum([0, *waits[1:], 0]) if cost else [0],
        succ=np.flatnonzero(waits),
    )
