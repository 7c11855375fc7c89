from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]

features: int

def width(states: int) -> int: ...
def expect(
    offset: Array,
    scores: Array | None,
    symbols: Array | None,
    emissions: Array | None,
    start: Array,
    table: Array,
    work: Array,
    top: Array,
    posteriors: Array | None,
    log_z: Array,
    sums: Array | None,
    threads: int,
) -> bool: ...
def best(
    offset: Array,
    scores: Array,
    start: Array,
    table: Array,
    work: Array,
    states: Array,
    log_p: Array,
    threads: int,
) -> bool: ...
def normal(
    rows: Array,
    means: Array,
    scale: Array,
    least: float,
    scores: Array,
    threads: int,
) -> None: ...
def proper(p: Array, about: float) -> bool: ...
def dirichlet(counts: Array, before: Array, more: float, keep_zeros: bool) -> None: ...
def by_symbol(symbols: Array, posteriors: Array, sums: Array) -> None: ...
def draw(
    state: int, steps: Array, emissions: Array, uniforms: Array, states: Array, symbols: Array
) -> None: ...
