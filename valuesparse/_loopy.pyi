from collections.abc import Callable
from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]

class Engine:
    entries: int
    table_entries: int
    edge_at: Array
    def __init__(
        self, cards: Array, scopes: list[tuple[int, ...]], tables: list[Array]
    ) -> None: ...
    def weigh(self, rho: Array | None) -> None: ...
    def run(
        self,
        local: Array,
        messages: Array,
        schedule: int,
        best: bool,
        damping: float,
        tolerance: float,
        max_iterations: int,
        threads: int,
        deadline: float | None,
        progress: Callable[[int, int], object] | None,
        late: BaseException | None,
    ) -> tuple[int, bool, Array, int]: ...
    def beliefs(
        self, local: Array, messages: Array, threads: int, marginals: Array, joints: Array | None
    ) -> tuple[int, float]: ...
    def forests(
        self,
        local: Array,
        messages: Array,
        ptr: Array,
        factors: Array,
        deadline: float | None,
        late: BaseException | None,
    ) -> tuple[int, Array, float]: ...
    def mean_field(
        self,
        local: Array,
        q: Array,
        max_iterations: int,
        tolerance: float,
        deadline: float | None,
        progress: Callable[[int, int], object] | None,
        late: BaseException | None,
    ) -> tuple[float, float, bool, Array, int]: ...
