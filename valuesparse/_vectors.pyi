from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]

def dot(x: Array, y: Array, threads: int) -> float: ...
def direction(
    order: Array,
    s: Array,
    y: Array,
    sy: Array,
    scale: float,
    diagonal: Array | None,
    gradient: Array,
    out: Array,
    threads: int,
) -> None: ...
def mean(x: Array, late: Array, count: float, out: Array, threads: int) -> None: ...
def halves(x: Array, out: Array, threads: int) -> None: ...
