"""The rules of docs/islands.md for one chain, gap by gap, with nothing shared or kept.

Tables forbid nothing. Decisions compare shares with ζ as they are: models whose shares lie within
rounding of it are not for this.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


@dataclass
class Chain:
    """Weights of a chain (n, K), of its transitions (K, K), and what is held now."""

    psi: Array
    table: Array
    zeta: float
    held: dict[int, int] = field(default_factory=dict)
    released: set[int] = field(default_factory=set)
    flipped: set[int] = field(default_factory=set)
    rounds: int = 0
    nearest: float = np.inf  # the least distance of a share that was asked from ζ

    def right(self, i: int, into: Array) -> Array:
        """The message of i to i + 1, where `into` has come from i − 1."""
        if i in self.held:
            return self.table[self.held[i]]
        out = (self.psi[i] * into) @ self.table
        return out / out.max()

    def left(self, i: int, into: Array) -> Array:
        """The message of i to i − 1, where `into` has come from i + 1."""
        if i in self.held:
            return self.table[:, self.held[i]]
        out = self.table @ (self.psi[i] * into)
        return out / out.max()

    def reaches(self, weights: Array) -> bool:
        """Say whether the mode has a share of ζ."""
        share = float(weights.max() / weights.sum())
        self.nearest = min(self.nearest, abs(share - self.zeta))
        return share >= self.zeta

    def messages(self) -> tuple[list[Array], list[Array]]:
        """Return all messages into each variable, from the left and from the right."""
        n, ones = len(self.psi), np.ones(self.psi.shape[1])
        f, b = [ones] * n, [ones] * n
        for i in range(1, n):
            f[i] = self.right(i - 1, f[i - 1])
        for i in range(n - 2, -1, -1):
            b[i] = self.left(i + 1, b[i + 1])
        return f, b


def first_round(chain: Chain, late: bool) -> None:
    """Decide by local factors, then in each gap by what its halves know (round 0)."""
    n = len(chain.psi)
    for i in range(n):
        if chain.reaches(chain.psi[i]):
            chain.held[i] = int(chain.psi[i].argmax())
    bounds = [-1, *sorted(chain.held), n]
    found: dict[int, int] = {}
    for a, b in itertools.pairwise(bounds):
        if b - a > 1:
            found |= decide_gap(chain, a + 1, b - 1, late)
    chain.held |= found


def decide_gap(whole: Chain, a: int, b: int, late: bool) -> dict[int, int]:
    """Return the islands that a gap of variables a to b gets."""
    chain = Chain(whole.psi, whole.table, whole.zeta, dict(whole.held))
    ones = np.ones(chain.psi.shape[1])
    middle, odd = (a + b) // 2, (b - a) % 2 == 0
    f, back = {a: ones}, {b: ones}
    if a > 0:
        f[a] = chain.right(a - 1, ones)
    if b + 1 < len(chain.psi):
        back[b] = chain.left(b + 1, ones)
    first, second = (middle, middle) if odd else (middle, middle + 1)  # the centres
    for i in range(a, second):
        decide(chain, i, chain.psi[i] * f[i])
        f[i + 1] = chain.right(i, f[i])
    for i in range(b, first, -1):
        decide(chain, i, chain.psi[i] * back[i])
        back[i - 1] = chain.left(i, back[i])
    centres = [i for i in {first, second} if i not in chain.held and (late or odd)]
    m = {i: chain.psi[i] * f[i] * back[i] for i in centres}
    for i in centres:
        decide(chain, i, m[i])
    if late:
        on_the_left, on_the_right = dict(chain.held), dict(chain.held)
        chain.held = on_the_right
        for i in range(second, b):
            f[i] = chain.right(i - 1, f[i - 1]) if i > first else f[i]
            f[i + 1] = chain.right(i, f[i])
            decide(chain, i + 1, chain.psi[i + 1] * f[i + 1] * back[i + 1])
        chain.held = on_the_left
        for i in range(first, a, -1):
            back[i] = chain.left(i + 1, back[i + 1]) if i < second else back[i]
            back[i - 1] = chain.left(i, back[i])
            decide(chain, i - 1, chain.psi[i - 1] * f[i - 1] * back[i - 1])
        chain.held = on_the_left | on_the_right
    whole.nearest = min(whole.nearest, chain.nearest)
    return {i: v for i, v in chain.held.items() if i not in whole.held}


def decide(chain: Chain, i: int, weights: Array) -> None:
    """Hold i at the mode where that has a share of ζ, unless it is held already."""
    if i not in chain.held and chain.reaches(weights):
        chain.held[i] = int(weights.argmax())


def next_round(chain: Chain) -> bool:
    """Take all events at once; False: there are none."""
    f, b = chain.messages()
    m = [chain.psi[i] * f[i] * b[i] for i in range(len(chain.psi))]
    reach = [chain.reaches(w) for w in m]
    events = 0
    for i, w in enumerate(m):
        mode = int(w.argmax())
        if i not in chain.held:
            if not reach[i] or i in chain.released:
                continue
            chain.held[i] = mode
        elif reach[i] and mode == chain.held[i]:
            continue
        elif reach[i] and i not in chain.flipped:
            chain.flipped.add(i)
            chain.held[i] = mode
        else:
            chain.released.add(i)
            del chain.held[i]
        events += 1
    chain.rounds += events > 0
    return events > 0


def find(unary: Any, transition: Any, zeta: float, revisit: int | None) -> Chain:
    """Return the chain with its islands in the end."""
    scores = np.asarray(unary, float)
    table = np.exp(transition - np.max(transition))
    chain = Chain(np.exp(scores - scores.max(axis=1, keepdims=True)), table, zeta)
    first_round(chain, revisit != 0)
    while (revisit is None or chain.rounds < revisit) and next_round(chain):
        pass
    return chain
