"""Warm starts: messages of an earlier result."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse.inference._network import Network, State, network_of, require_same_variables
from valuesparse.results import GraphResult

__all__ = ["first_messages"]

Array = npt.NDArray[Any]

#: The log of a zero in messages that were computed for other evidence: it may not be one any more.
_DOUBTED = -30.0


def first_messages(network: Network, local: Array, start: GraphResult | None) -> Array:
    """Return the messages to begin from: those of `start` for the factors that both have."""
    messages = np.zeros(network.native.entries)
    if start is None:
        return messages
    require_same_variables(network, start)
    state: State = start._state
    # Where pickling dropped the network: that of the factors that were used, in the graph of then.
    old = state.network or network_of(start._part())
    if old is network:
        messages[:] = state.messages
    else:
        new, before = network.native, old.native
        place = {(old.scope(g), before.is_structured(g)): g for g in range(old.n_groups)}
        for g in range(network.n_groups):
            h = place.get((network.scope(g), new.is_structured(g)))
            if h is None:
                continue
            a, b = new.edge_at[new.ptr[[g, g + 1]]]
            c, d = before.edge_at[before.ptr[[h, h + 1]]]
            if b - a == d - c:
                messages[a:b] = state.messages[c:d]
    if old is not network or not np.array_equal(local, state.local):
        np.maximum(messages, _DOUBTED, out=messages)
    return messages
