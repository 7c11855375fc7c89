from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]

class Engine:
    def __init__(
        self,
        n_labels: int,
        item: Array,
        ids: Array,
        values: Array | None,
        offset: Array,
        edge: Array,
        gold: Array,
        first: Array,
        label: Array,
        move: Array,
        n_weights: int,
    ) -> None: ...
    def evaluate(
        self, weights: Array, gradient: Array | None, threads: int
    ) -> tuple[float, int]: ...
    def decode(self, weights: Array, states: Array, threads: int) -> int: ...
    def scores(self, sequence: int, weights: Array, unary: Array) -> None: ...
    def transitions(self, weights: Array, table: Array) -> None: ...
    def learn(
        self,
        order: Array,
        weights: Array,
        late: Array,
        touched: Array,
        time: int,
        kind: int,
        beta: float,
        gamma: float,
        longest: float,
        slack: int,
        c: float,
        error_sensitive: bool,
        variance: Array | None,
    ) -> tuple[float, int, int]: ...
    def descend(
        self,
        order: Array,
        scaled: Array,
        factor: float,
        time: int,
        decay: float,
        t0: float,
        eta: float,
        step: bool,
    ) -> tuple[float, float, int, int]: ...
    def pull(self, sequence: int, residual: Array) -> tuple[Array, Array]: ...

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
def name_table(text: bytes, begin: Array) -> bytes: ...
