from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]

class Snapshot:
    def __init__(
        self, cards: Array, scopes: list[tuple[int, ...]], tables: list[Array]
    ) -> None: ...
