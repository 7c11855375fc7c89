"""Conditional tables by their variables, in an order that grows with them."""

from __future__ import annotations

import math

__all__ = ["Families"]


class Families:
    """Conditional tables by their variables: no call looks through all of them.

    Each variable has a level, none below that of a parent. A cycle is looked for up from the
    parent within its level, for at most as many arcs as the root of their number, then down as far
    as levels have to rise (Bender, Fineman, Gilbert and Tarjan 2016, two-way search): n arcs take
    n^1.5 steps in any order, and few in most.
    """

    __slots__ = ("above", "arcs", "below", "level", "own", "size")

    def __init__(self) -> None:
        #: The first table of each variable that has one, and its parents there.
        self.own: dict[int, int] = {}
        self.above: dict[int, tuple[int, ...]] = {}
        #: The children of each variable that has some.
        self.below: dict[int, list[int]] = {}
        #: The level of each variable that is not at 0.
        self.level: dict[int, int] = {}
        #: How many tables these are, several of one variable included, and how many arcs.
        self.size = self.arcs = 0

    def add(self, factor: int, scope: tuple[int, ...]) -> None:
        """Note a conditional table, which closes no cycle."""
        *parents, child = scope
        self.size += 1
        if child in self.own:
            return
        self.own[child], self.above[child] = factor, tuple(parents)
        for v in parents:
            self.below.setdefault(v, []).append(child)
        self.arcs += len(parents)

    def closes_cycle(self, child: int, parents: tuple[int, ...]) -> bool:
        """Whether a variable without a table is among the ancestors of these; else levels rise."""
        level = self.level
        if child not in self.below:
            highest = max((level.get(p, 0) for p in parents), default=0)
            if highest > level.get(child, 0):
                level[child] = highest
            return False
        before: dict[int, int] = {}
        if any(self._closes(child, parent, before) for parent in parents):
            level.update(before)
            return True
        return False

    def _closes(self, child: int, parent: int, before: dict[int, int]) -> bool:
        """Look for a cycle by one arc, raise levels, and note in `before` what they were."""
        level = self.level
        same = level.get(parent, 0)
        if same < level.get(child, 0):
            return False
        met, left, steps = {parent}, [parent], math.isqrt(self.arcs) + 1
        while left and steps > 0:
            for v in self.above.get(left.pop(), ()):
                steps -= 1
                if v == child:
                    return True
                if v not in met and level.get(v, 0) == same:
                    met.add(v)
                    left.append(v)
        if left:  # what is above has not all been seen, and stays below the new level
            met, same = {parent}, same + 1
        elif same == level.get(child, 0):
            return False
        before.setdefault(child, level.get(child, 0))
        level[child] = same
        left = [child]
        while left:
            for v in self.below.get(left.pop(), ()):
                if v in met:
                    return True
                if level.get(v, 0) < same:
                    before.setdefault(v, level.get(v, 0))
                    level[v] = same
                    left.append(v)
        return False
