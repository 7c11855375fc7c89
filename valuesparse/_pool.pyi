from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

api: Any

def get_num_threads() -> int: ...
def set_num_threads(n: int) -> None: ...
def hardware_threads() -> int: ...
def run_schedule(
    waits: npt.NDArray[np.int32],
    succ_ptr: npt.NDArray[np.int64],
    succ: npt.NDArray[np.int64],
    run: Callable[[int, int], object],
    threads: int,
) -> None: ...
