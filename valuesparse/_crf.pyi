from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

Encoded = tuple[
    npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.float64], npt.NDArray[np.int64]
]

class ItemSequence:
    def __init__(self, xseq: Iterable[Any]) -> None: ...
    def items(self) -> list[dict[str, float]]: ...
    def __len__(self) -> int: ...

class Dictionary:
    def __init__(self, names: Iterable[str] = ()) -> None: ...
    def __len__(self) -> int: ...
    def names(self) -> list[str]: ...
    def find(self, name: str | bytes) -> int: ...
    def encode(
        self,
        xseqs: Iterable[Any],
        grow: bool = False,
        *,
        single: bool = False,
        characters: bool = False,
    ) -> Encoded: ...

class Scorer:
    def __init__(
        self,
        names: Iterable[str],
        indptr: npt.NDArray[np.int64],
        labels: npt.NDArray[np.int32],
        weights: npt.NDArray[np.float64],
        n_labels: int,
    ) -> None: ...
    def __len__(self) -> int: ...
    def unary(
        self, xseqs: Iterable[Any], single: bool, limit: float
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]: ...
