from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]

def width(states: int) -> int: ...
def expect(
    offset: Array,
    scores: Array,
    start: Array,
    table: Array,
    work: Array,
    top: Array,
    posteriors: Array,
    log_z: Array,
    sums: Array | None,
    threads: int,
) -> bool: ...
def diagonal(
    rows: Array,
    means: Array,
    scale: Array,
    constant: Array,
    least: float,
    scores: Array,
    threads: int,
) -> None: ...
