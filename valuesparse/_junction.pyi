from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]

TOO_LARGE: int

def freeze(arrays: Iterable[Array]) -> None: ...

class Snapshot:
    entries: int
    cards: Array
    conditional: dict[int, int]
    def __init__(
        self,
        cards: Array,
        scopes: Sequence[tuple[int, ...] | None],
        tables: list[Array],
        conditional: dict[int, int] = ...,
        stacks: Sequence[tuple[int, Array, Array]] = ...,
    ) -> None: ...
    @property
    def scopes(self) -> list[tuple[int, ...]]: ...
    def split(self, flat: Array) -> list[Array]: ...
    def arrays(self) -> list[Array]: ...
    def score(self, states: Array) -> float: ...

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
    def show(self, threads: int) -> None: ...
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
    def ask(self, variables: Iterable[int]) -> bool: ...
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
