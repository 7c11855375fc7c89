from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]

trees: object
LARGEST: float

def free_workspaces() -> None: ...
def ready(scores: list[Any], words: Array) -> bool: ...
def tables(flat: Array, words: Array) -> list[Array]: ...
def run(
    scores: list[Array],
    words: Array,
    projective: bool,
    single_root: bool,
    threads: int,
    values: Array,
    marginals: Array | None = None,
    heads: Array | None = None,
    parts: tuple[Array, Array, Array] | None = None,
    of_parts: Array | None = None,
) -> tuple[int, int, int] | None: ...
def arcs(
    scores: Array,
    projective: bool,
    single_root: bool,
    all_ratios: bool = True,
    later: bool = False,
    least: float = 0.0,
) -> tuple[float, Array, Array, Array]: ...
def joints(scores: Array, single_root: bool, pairs: Array) -> tuple[float, Array]: ...
def projective_max(scores: Array, single_root: bool) -> tuple[float, Array]: ...
def head_joints(
    scores: Array, projective: bool, single_root: bool, lists: list[tuple[int, Array]]
) -> tuple[float, list[tuple[Array, Array]]]: ...
