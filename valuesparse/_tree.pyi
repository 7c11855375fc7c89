from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

class Structure:
    def __init__(self, parent: Array, target: int) -> None: ...
    def problem(self) -> tuple[int, int]: ...
    def roots(self) -> npt.NDArray[np.int64]: ...
    def tree_of(self) -> npt.NDArray[np.int64]: ...

class Forest:
    def __init__(
        self,
        structure: Structure,
        unary: Array,
        pairwise: Array,
        edge_type: Array | None,
        allowed: Array | None,
        kind: int,
    ) -> None: ...

def infer(
    forest: Forest,
    threads: int,
    zeta: float,
    revisit: int,
    marginals: Array | None,
    log_z: Array,
    islands: Array | None,
    log_left: Array | None,
    log_right: Array | None,
    log_mass: Array | None,
    deadline: float | None,
    progress: Callable[[int, int], object] | None,
    late: BaseException | None,
    expectations: Array | None = None,
    energies: Array | None = None,
    pairwise: Array | None = None,
    pairwise_row: Array | None = None,
) -> tuple[tuple[int, int] | None, tuple[int, ...]]: ...
def show(forest: Forest, threads: int) -> None: ...
def decode(
    forest: Forest,
    threads: int,
    states: Array,
    scores: Array,
    deadline: float | None = ...,
    progress: Callable[[int, int], object] | None = ...,
    late: BaseException | None = ...,
) -> tuple[int, int] | None: ...
def sample(
    forest: Forest,
    size: int,
    uniforms: Array,
    states: Array,
    threads: int,
    deadline: float | None = ...,
    progress: Callable[[int, int], object] | None = ...,
    late: BaseException | None = ...,
) -> tuple[int, int] | None: ...
def score(forest: Forest, states: Array, scores: Array) -> None: ...
def expected(
    forest: Forest,
    marginals: Array,
    energies: Array,
    largest: Array,
    value: Array,
    size: Array,
) -> None: ...
def free_workspaces() -> None: ...
