from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Encoded = tuple[
    npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.float64], npt.NDArray[np.int64]
]

class ItemSequence:
    def __init__(self, pyseq: ItemSequence | Iterable[Any]) -> None: ...
    def items(self) -> list[dict[str, float]]: ...
    def __len__(self) -> int: ...

class Dictionary:
    def __init__(self, names: Iterable[str] = ()) -> None: ...
    def __len__(self) -> int: ...
    def names(self) -> list[str]: ...
    def find(self, name: str | bytes) -> int: ...
    def encode(
        self,
        xseqs: ItemSequence | Iterable[Any],
        grow: bool = False,
        *,
        single: bool = False,
        characters: bool = False,
    ) -> Encoded: ...

class Scorer:
    def __new__(
        cls,
        names: Iterable[str],
        indptr: npt.NDArray[np.int64],
        labels: npt.NDArray[np.int32],
        weights: npt.NDArray[np.float64],
        transition: Floats,
    ) -> Self: ...
    def under(self, transition: Floats, start: Floats, end: Floats) -> Scorer: ...
    def unary(
        self,
        xseqs: ItemSequence | Iterable[Any],
        single: bool,
        characters: bool,
        limit: float,
    ) -> tuple[Floats, npt.NDArray[np.int64]]: ...
    def tag(
        self, xseq: ItemSequence | Iterable[Any], labels: list[str]
    ) -> tuple[Floats, list[str]]: ...
    def marginals(self, xseq: ItemSequence | Iterable[Any]) -> tuple[Floats, Floats, float]: ...
    def decode_scores(
        self, unary: Floats, allowed: Mask | None, n_best: int
    ) -> tuple[npt.NDArray[np.int64], Floats]: ...
    def infer_scores(
        self, unary: Floats, allowed: Mask | None, zeta: float
    ) -> tuple[Floats, float]: ...
    def pairwise(self, unary: Floats, allowed: Mask | None) -> Floats: ...
    def tag_batch(
        self,
        xseqs: Iterable[ItemSequence | Iterable[Any]],
        masks: Callable[[int, int], Mask | None] | None,
        labels: list[str],
        threads: int,
    ) -> list[list[str]]: ...
    def marginals_batch(
        self,
        xseqs: Iterable[ItemSequence | Iterable[Any]],
        masks: Callable[[int, int], Mask | None] | None,
        zeta: float,
        threads: int,
    ) -> list[Floats]: ...

class Evaluator:
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
        source: Array,
        target: Array,
        n_weights: int,
        sets: Array | None,
        members: Array | None,
        banned: Array | None,
        start: Array | None,
        end: Array | None,
    ) -> None: ...
    def evaluate(
        self,
        weights: Array,
        gradient: Array | None,
        threads: int,
        most: Array | None = None,
        scores: Array | None = None,
        went: Array | None = None,
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
