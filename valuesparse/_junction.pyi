from collections.abc import Callable, Iterable
from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]

TOO_LARGE: int

def freeze(arrays: Iterable[Array]) -> None: ...

class Snapshot:
    entries: int
    cards: Array
    scopes: list[tuple[int, ...]]
    conditional: dict[int, int]
    def __init__(
        self,
        cards: Array,
        scopes: list[tuple[int, ...]],
        tables: list[Array],
        conditional: dict[int, int] = ...,
    ) -> None: ...
    def split(self, flat: Array) -> list[Array]: ...
    def arrays(self) -> list[Array]: ...

class Soft:
    def __init__(self, n: int, pairs: list[tuple[int, Array]]) -> None: ...
    def variables(self) -> list[int]: ...

class CliqueTree:
    def __init__(self, snapshot: Snapshot, joints: list[tuple[int, ...]]) -> None: ...
    def prepare(
        self,
        held: Array,
        soft: Soft | None,
        search: tuple[float, int, float, float],
        deadline: float | None = ...,
        progress: Callable[[int, int], object] | None = ...,
        late: BaseException | None = ...,
    ) -> int: ...
    def cost(self) -> tuple[int, float, float, float, list[int], float, int]: ...
    def schedule(self, up: bool) -> tuple[list[Any], ...]: ...
    def seconds(self) -> float: ...
    def cliques(self) -> tuple[list[list[int]], list[int]]: ...
    def n_cliques(self) -> int: ...
    def alive(self, v: int) -> list[int]: ...
    def infer(
        self,
        soft: Soft | None,
        threads: int,
        marginals: Array | None,
        deadline: float | None,
        progress: Callable[[int, int], object] | None,
        late: BaseException | None,
        logs: bool = ...,
    ) -> tuple[bool, float]: ...
    def joint(self, q: int) -> tuple[Array, list[int]]: ...
    def decode(
        self,
        soft: Soft | None,
        threads: int,
        states: Array,
        above: float,
        deadline: float | None,
        progress: Callable[[int, int], object] | None,
        late: BaseException | None,
    ) -> tuple[bool, float]: ...
    def sample(
        self,
        soft: Soft | None,
        threads: int,
        uniforms: Array,
        states: Array,
        deadline: float | None,
        progress: Callable[[int, int], object] | None,
        late: BaseException | None,
    ) -> bool: ...
    def release(self) -> None: ...
    def forget(self) -> None: ...
    def widened(self) -> bool: ...
    def faithful(self) -> bool: ...
    def reused(self) -> int: ...
