from collections.abc import Callable
from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]

LARGEST: dict[str, float]
LARGEST_SUM: float
CARRIED_SUM: float

class Batch:
    def __init__(
        self,
        unary: Array,
        transition: Array,
        start: Array | None,
        end: Array | None,
        allowed: Array | None,
        offset: Array,
        edge: Array,
    ) -> None: ...

def infer(
    batch: Batch,
    threads: int,
    zeta: float,
    revisit: int,
    marginals: Array | None,
    log_z: Array,
    islands: Array | None,
    pairwise: Array | None,
    first: int,
    last: int,
    expectations: Array | None,
    deadline: float | None,
    progress: Callable[[int, int], object] | None,
    late: BaseException | None,
    weights: Array | None = None,
    energies: Array | None = None,
) -> tuple[tuple[int, int] | None, tuple[int, ...]]: ...
def log_messages(
    batch: Batch,
    threads: int,
    log_z: Array,
    log_forward: Array,
    log_outgoing: Array,
) -> tuple[int, int] | None: ...
def show(batch: Batch, threads: int) -> None: ...
def decode(
    batch: Batch,
    n_best: int,
    threads: int,
    states: Array,
    scores: Array,
    deadline: float | None = ...,
    progress: Callable[[int, int], object] | None = ...,
    late: BaseException | None = ...,
) -> tuple[int, int] | None: ...
def sample(
    batch: Batch,
    size: int,
    uniforms: Array,
    states: Array,
    threads: int,
    deadline: float | None = ...,
    progress: Callable[[int, int], object] | None = ...,
    late: BaseException | None = ...,
) -> tuple[int, int] | None: ...
def score(batch: Batch, states: Array, scores: Array) -> None: ...
def freeze(first: Array, second: Array, third: Array) -> None: ...
def weigh(array: Array) -> tuple[int, float]: ...
def simd_level() -> str: ...
def set_simd_level(name: str | None) -> bool: ...
def peak_flops(array: Array, iterations: int) -> float: ...
def message_flops(array: Array, labels: int, rows: int, positions: int) -> float: ...
def expected(
    batch: Batch,
    marginals: Array,
    energies: Array,
    largest: Array,
    value: Array,
    size: Array,
) -> None: ...
def free_workspaces() -> None: ...
