from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

def answer(
    offset: Integers,
    unary: Floats,
    transition: Floats,
    start: Floats,
    end: Floats,
    first: Floats | None,
    duration: Floats | None,
    segment: Floats | None,
    longest: int,
    edge: Integers | None,
    threads: int,
    log_z: Floats,
    marginals: Floats | None = None,
    joint: Floats | None = None,
    expected: Floats | None = None,
    entropy: Floats | None = None,
    best: Integers | None = None,
    samples: Integers | None = None,
    uniforms: Floats | None = None,
    deadline: float | None = None,
    progress: Callable[[int, int], Any] | None = None,
    late: BaseException | None = None,
) -> tuple[int, tuple[int, int] | None]: ...
