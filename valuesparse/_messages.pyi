from collections.abc import Callable
from typing import Any

import numpy.typing as npt
from typing_extensions import Self

Array = npt.NDArray[Any]

dual: object

def forest(
    n: int,
    ptr: Array,
    scope: Array,
    order: Array,
    deadline: float | None,
    late: Exception | None,
) -> Array: ...

class SpanningTrees:
    columns: int
    laplacian: tuple[Array, Array, Array]
    def __new__(cls, n: int, pairs: Array) -> Self: ...
    def read(self, ptr: Array, row: Array, factor: Array, pivot: Array, order: Array) -> Array: ...

class Structured:
    def __new__(cls, kind: Any, k: int, numbers: tuple[int, ...] | Array = ()) -> Self: ...
    def log_potential(self, states: Array) -> Array: ...
    def sum_product(self, messages: Array) -> tuple[float, Array, Array]: ...
    def best(self, messages: Array) -> tuple[float, Array]: ...
    def max_marginals(self, messages: Array) -> Array: ...
    def project(self, point: Array) -> Array | None: ...
    def joint(self, messages: Array, pairs: Array) -> Array: ...

def worth(
    scopes: Array,
    states: Array,
    weights: Array,
    chance: Array,
    offset: Array,
    pairs: Array,
    maybe: Array,
    above: float,
) -> Array: ...

class Network:
    entries: int
    table_entries: int
    at: Array
    edge_at: Array
    wide: Array
    group: Array
    ptr: Array
    scope: Array
    table_at: Array
    local: Array
    constant: float
    structured_groups: list[int]
    def __new__(
        cls,
        cards: Array,
        factors: list[Any],
        stacks: list[tuple[int, Array, Array]],
        plain: Any,
        make: Callable[[Any, int], Array | Structured],
        deadline: float | None,
        late: Exception | None,
    ) -> Self: ...
    def is_structured(self, group: int) -> bool: ...
    def table(self, group: int) -> Array: ...
    def incoming(self, group: int) -> Array: ...
    def split(self, flat: Array) -> list[Array]: ...
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
        marginals: Array | None,
    ) -> tuple[int, bool, Array, int, float]: ...
    def beliefs(
        self,
        local: Array,
        messages: Array,
        threads: int,
        marginals: Array,
        joints: Array | None,
        deadline: float | None,
        late: BaseException | None,
    ) -> tuple[int, float]: ...
    def assign(
        self,
        local: Array,
        messages: Array,
        threads: int,
        deadline: float | None,
        late: BaseException | None,
    ) -> tuple[int, Array, float]: ...
    def forests(
        self,
        local: Array,
        messages: Array,
        ptr: Array,
        factors: Array,
        best: bool,
        deadline: float | None,
        late: BaseException | None,
    ) -> tuple[int, Array, float]: ...
    def flat_tables(self) -> Array: ...
    def spread_starts(self, q: Array) -> None: ...
    def mean_field(
        self,
        local: Array,
        q: Array,
        max_iterations: int,
        tolerance: float,
        threads: int,
        deadline: float | None,
        progress: Callable[[int, int], object] | None,
        late: BaseException | None,
    ) -> tuple[int, float, float, bool, Array, int]: ...
    def structured(
        self,
        local: Array,
        forest: Array,
        node: Array,
        table: Array,
        max_iterations: int,
        tolerance: float,
        threads: int,
        deadline: float | None,
        progress: Callable[[int, int], object] | None,
        late: BaseException | None,
    ) -> tuple[int, Array, Array, Array, float, float, bool, Array, int] | None: ...

class Dual:
    possible: bool
    def __new__(
        cls,
        network: Network,
        local: Array,
        deadline: float | None,
        late: BaseException | None,
    ) -> Self: ...
    def score(self, states: Array) -> float: ...
    def bound(self, share: Array, deadline: float | None, late: BaseException | None) -> float: ...
    def round(
        self, point: Array, deadline: float | None, late: BaseException | None
    ) -> tuple[Array, float]: ...
    def solve(
        self,
        tolerance: float,
        max_iterations: int,
        threads: int,
        deadline: float | None,
        progress: Callable[[int, int], object] | None,
        late: BaseException | None,
    ) -> tuple[Array, float, float, Array, bool, bool] | None: ...
