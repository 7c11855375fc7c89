"""Targets that are defective, each in one way, to test what finds defects."""

from __future__ import annotations

import faulthandler
import os
import signal
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from random import Random

from fuzz.core import Reading, Target, target
from fuzz.mutators import BYTES, damaged

#: The number of the file that is read wrongly.
BAD = 3
#: A list of their own: no reader of the package is among them.
TARGETS: dict[str, Target] = {}


def add(name: str, do: Callable[[bytes], object]) -> None:
    """List a target that is right but for one file."""

    @target(name, targets=TARGETS)
    def make(_: Path) -> Reading:
        seeds, mutate = [bytes(range(200))], damaged(BYTES)
        bad = mutate(Random(f"{name}:0:{BAD}"), seeds)

        def read(data: bytes, _: Random) -> None:
            if data == bad:
                do(data)
            if len(data) % 2:
                raise ValueError("odd")

        return Reading(seeds, mutate, read)


def die(_: bytes) -> None:
    faulthandler.disable()
    os.kill(os.getpid(), signal.SIGKILL) if hasattr(signal, "SIGKILL") else os.abort()


def fill(_: bytes) -> None:
    bytearray(b"x") * (200 << 20)


def shout(_: bytes) -> None:
    raise ValueError("two\nlines")


def undocumented(_: bytes) -> None:
    raise KeyError("name")


add("dies", die)
add("hangs", lambda _: time.sleep(1000))
add("fills", fill)
add("shouts", shout)
add("undocumented", undocumented)
add("warns", lambda _: warnings.warn("unclear", RuntimeWarning, stacklevel=1))
