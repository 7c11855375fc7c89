"""Random models by the million: what a family of them is, how it is run, and what is counted.

A family is a function of a `Case`. Its model is a function of (family, seed, index) alone, so that
whatever fails can be run again by itself.
"""

from __future__ import annotations

import time
import traceback
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

EPS = float(np.finfo(np.float64).eps)
#: Failures of one family that are told; it stops there.
MOST_TOLD = 10


class Wrong(AssertionError):
    """An answer that is not what it has to be."""


class Case:
    """One model: where its numbers come from, and the checks that it goes through."""

    def __init__(self, family: str, seed: int, index: int) -> None:
        self.name = f"{family}/{seed}/{index}"
        self.rng = np.random.default_rng([zlib.crc32(family.encode()), seed, index])
        self.checks = 0
        self.refused = 0
        self.infeasible = 0

    def true(self, what: str, holds: Any, *shown: Any) -> None:
        """Count a check; Wrong unless it holds."""
        self.checks += 1
        if not holds:
            raise Wrong(" ".join([what, *map(repr, shown)]))

    def close(self, what: str, got: Any, want: Any, tol: Any) -> None:
        """Check |got - want| <= tol everywhere, of numbers that are none when they are NaN."""
        got, want = np.asarray(got), np.asarray(want)
        self.true(f"{what}: shape", got.shape == want.shape, got.shape, want.shape)
        # Infinities that agree differ by nothing.
        with np.errstate(invalid="ignore"):
            far = ~((np.abs(got - want) <= tol) | (got == want))
        if far.any():
            at = np.unravel_index(int(far.argmax()), far.shape) if far.ndim else ()
            raise Wrong(f"{what}{[int(i) for i in at]} is {got[at]!r}, not {want[at]!r} +- {tol!r}")

    def chance(self, share: float) -> bool:
        """Return True in this share of cases."""
        return bool(self.rng.random() < share)

    def choice(self, *values: Any) -> Any:
        """Return one of the values."""
        return values[int(self.rng.integers(len(values)))]


@dataclass(frozen=True)
class Family:
    """Models of one kind. share: of a number of models; share_seconds: of a time budget."""

    name: str
    run: Callable[[Case], None]
    share: float
    share_seconds: float = 1.0


@dataclass
class Tally:
    """Numbers of what was run of a family."""

    models: int = 0
    checks: int = 0
    refused: int = 0
    infeasible: int = 0
    seconds: float = 0.0
    failures: list[str] = field(default_factory=list)


FAMILIES: dict[str, Family] = {}


def family(
    share: float, seconds: float = 1.0
) -> Callable[[Callable[[Case], None]], Callable[[Case], None]]:
    """Register a function as a family, under its own name."""

    def register(run: Callable[[Case], None]) -> Callable[[Case], None]:
        FAMILIES[run.__name__] = Family(run.__name__, run, share, seconds)
        return run

    return register


@dataclass(frozen=True)
class Plan:
    """How much is to be run: a number of models or of seconds, and which shard of them."""

    seconds: float | None
    models: int | None
    seed: int = 0
    shard: int = 0
    shards: int = 1

    def indices(self, which: Family) -> Iterator[int]:
        """Yield the numbers of the models of a family that this process is to run."""
        if self.models is not None:
            total = sum(f.share for f in FAMILIES.values())
            count = max(1, round(self.models * which.share / total))
            yield from range(self.shard, count, self.shards)
            return
        assert self.seconds is not None
        total = sum(f.share_seconds for f in FAMILIES.values())
        end = time.perf_counter() + self.seconds * which.share_seconds / total
        index = self.shard
        while True:
            yield index
            index += self.shards
            if time.perf_counter() >= end:
                return


def run_case(which: Family, seed: int, index: int, tally: Tally) -> None:
    """Run one model; what is wrong with it goes to the tally."""
    case = Case(which.name, seed, index)
    try:
        which.run(case)
    except Wrong as error:
        tally.failures.append(f"{case.name}: {error}")
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        words = " ".join(str(error).split())
        tally.failures.append(
            f"{case.name}: {type(error).__name__}: {words} ({last.filename}:{last.lineno})"
        )
    tally.models += 1
    tally.checks += case.checks
    tally.refused += case.refused
    tally.infeasible += case.infeasible


def run_family(which: Family, plan: Plan) -> Tally:
    """Run the models of a family that a plan asks for."""
    tally = Tally()
    begin = time.perf_counter()
    for index in plan.indices(which):
        run_case(which, plan.seed, index, tally)
        if len(tally.failures) >= MOST_TOLD:
            break
    tally.seconds = time.perf_counter() - begin
    return tally


def table(tallies: dict[str, Tally]) -> list[str]:
    """Return the lines of a table of what was run."""
    lines = [
        "| family | models | checks | no configuration | refused by name | failures | ms a model |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    every = Tally()
    for name, t in tallies.items():
        lines.append(_row(name, t))
        every.models += t.models
        every.checks += t.checks
        every.infeasible += t.infeasible
        every.refused += t.refused
        every.seconds += t.seconds
        every.failures += t.failures
    return [*lines, _row("all", every)]


def _row(name: str, t: Tally) -> str:
    each = 1e3 * t.seconds / max(1, t.models)
    return (
        f"| {name} | {t.models:,} | {t.checks:,} | {t.infeasible:,} | {t.refused:,} | "
        f"{len(t.failures)} | {each:.2f} |"
    )
