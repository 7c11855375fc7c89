from collections.abc import Callable
from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]

class Table:
    fine: bool
    width: int
    shift: float
    def __init__(self, transition: Array, norms: float = 1.0, delta: float = 1.0) -> None: ...

class Order:
    def __init__(self, offset: Array, parent: Array | None = None) -> None: ...

def infer(
    table: Table,
    order: Order,
    unary: Array,
    start: Array | None,
    end: Array | None,
    allowed: Array | None,
    components: Array,
    tol: float,
    price: Array,
    threads: int,
    marginals: Array,
    radius: Array,
    slack: Array,
    error: Array,
    log_z: Array,
    deadline: float | None = None,
    progress: Callable[[int, int], object] | None = None,
    late: BaseException | None = None,
    budget: Array | None = None,
    entered: Array | None = None,
) -> tuple[Array, Array]: ...
def message(
    table: Table,
    backward: bool,
    low: Array,
    slack: Array,
    radius: float,
    weight: Array,
    share: float,
    again: Array | None = None,
) -> tuple[Array, Array, float, float, float] | None: ...
def product(
    table: Table, x: tuple[Array, Array, float], y: tuple[Array, Array, float]
) -> tuple[Array, Array, float, float] | None: ...
