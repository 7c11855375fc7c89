"""The targets of fuzzing, and their list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TypeAlias

from fuzz.mutators import Mutate

__all__ = ["TARGETS", "Read", "Reading", "Target", "target"]

#: Reads a damaged file and uses what it holds; raises what the reader raises. The generator is for
#: choices among several uses.
Read: TypeAlias = Callable[[bytes, Random], object]


@dataclass(frozen=True)
class Reading:
    """A target that has been set up.

    Attributes
    ----------
    seeds : sequence of bytes
        Files that can be read.
    mutate : callable
        Makes a damaged file.
    read : callable
        Reads it. Without an error it counts as taken.
    allowed : tuple of exceptions
        The documented ones.
    named : tuple of str
        Every message must hold one of them: the name of the file where the reader is given one.
    """

    seeds: Sequence[bytes]
    mutate: Mutate
    read: Read
    allowed: tuple[type[Exception], ...] = (ValueError,)
    named: tuple[str, ...] = ("",)


@dataclass(frozen=True)
class Target:
    """A reader or a state file.

    Attributes
    ----------
    name : str
        The name of the target.
    make : callable
        Sets it up in a folder of its own.
    share : float
        Share of the number of files: less than 1 where a reader is slow.
    needs : tuple of str
        Packages without which it cannot run.
    """

    name: str
    make: Callable[[Path], Reading]
    share: float
    needs: tuple[str, ...]


TARGETS: dict[str, Target] = {}


def target(
    name: str,
    share: float = 1.0,
    needs: tuple[str, ...] = (),
    targets: dict[str, Target] = TARGETS,
) -> Callable[[Callable[[Path], Reading]], Callable[[Path], Reading]]:
    """Put what sets a target up on a list."""

    def add(make: Callable[[Path], Reading]) -> Callable[[Path], Reading]:
        assert name not in targets, name
        targets[name] = Target(name, make, share, needs)
        return make

    return add
