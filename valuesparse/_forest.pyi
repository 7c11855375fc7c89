from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

Array = npt.NDArray[Any]
Progress = Callable[[int, int], object]
Place = tuple[int, int]  # a component, and a variable of it

LARGEST: dict[str, float]
LARGEST_SUM: float
CARRIED_SUM: float

class Structure:
    def __init__(self, parent: Array, target: int) -> None: ...
    def problem(self) -> tuple[int, int]: ...
    def roots(self) -> npt.NDArray[np.int64]: ...
    def tree_of(self) -> npt.NDArray[np.int64]: ...

class Table:
    @staticmethod
    def of(
        start: Array,
        columns: Array,
        scores: Array,
        rest: float,
        by_row: Array | None,
        by_column: Array | None,
        largest: float,
        array: Array,
    ) -> Table | None: ...
    def pays(self, array: Array) -> bool: ...
    def pairs(self) -> tuple[Array, Array]: ...

class Forest:
    sparse: Table | None
    listed: int | None
    entries: int
    longest: int
    shape: tuple[int, int, int]
    def __init__(
        self,
        unary: Array,
        tables: Array | None,
        allowed: Array | None,
        start: Array | None = None,
        end: Array | None = None,
        offset: Array | None = None,
        edge: Array | None = None,
        structure: Structure | None = None,
        edge_type: Array | None = None,
        sparse: Table | bool | None = True,
    ) -> None: ...

class Prepared:
    def __new__(cls, forest: Forest) -> Self: ...

def infer(
    forest: Forest,
    threads: int,
    log_z: Array,
    marginals: Array | None = None,
    *,
    zeta: float = 1.0,
    revisit: int = 0,
    islands: Array | None = None,
    deadline: float | None = None,
    progress: Progress | None = None,
    late: BaseException | None = None,
    pairwise: Array | None = None,
    edges: tuple[int, int] | Array | None = None,
    expectations: Array | None = None,
    weights: Array | None = None,
    energies: Array | None = None,
    log_left: Array | None = None,
    log_right: Array | None = None,
    log_mass: Array | None = None,
    prepared: Prepared | None = None,
    pairs: Table | None = None,
    components: Array | None = None,
    narrow: bool = False,
    compared: Compared | None = None,
) -> tuple[Place | None, tuple[int, ...]]: ...
def count_listed(marginals: Array, least: float, threads: int) -> Array: ...
def listed(
    marginals: Array,
    least: float,
    threads: int,
    start: Array,
    labels: Array,
    values: Array,
    unlisted: Array,
) -> None: ...

#: Marginals, their labels, error, growth and extra of components; what is filled: far and wrong.
Compared = tuple[Array, Array, Array, Array, Array, Array, Array]

def allowances(radius: Array, slack: Array | float, written: float) -> Array: ...
def allowances_of(
    sizes: Array,
    longest: int,
    step: float,
    once: float,
    slack: float,
    written: float,
    cut: float = 0.0,
) -> Array: ...
def cut_from() -> int: ...
def compare(marginals: Array, owner: Array | None, compared: Compared, threads: int) -> None: ...
def top(marginals: Array | None, k: int, threads: int) -> tuple[npt.NDArray[np.int64], Array]: ...
def show(forest: Forest, threads: int) -> None: ...
def decode(
    forest: Forest,
    n_best: int,
    threads: int,
    states: Array,
    scores: Array,
    deadline: float | None = None,
    progress: Progress | None = None,
    late: BaseException | None = None,
) -> Place | None: ...
def sample(
    forest: Forest,
    uniforms: Array,
    states: Array,
    threads: int,
    deadline: float | None = None,
    progress: Progress | None = None,
    late: BaseException | None = None,
) -> Place | None: ...
def score(forest: Forest, states: Array, scores: Array, threads: int) -> None: ...
def freeze(first: Array, second: Array, third: Array) -> None: ...
def weigh(array: Array) -> tuple[int, float]: ...
def simd_level() -> str: ...
def simd_levels() -> list[str]: ...
def set_simd_level(name: str | None) -> bool: ...
def cut_chains(least: int = 4096, chunk: int = 0, run_in: int = 0, agree: float = 0.0) -> None: ...
def peak_flops(array: Array, iterations: int) -> float: ...
def message_flops(array: Array, labels: int, rows: int, positions: int) -> float: ...
def expected(
    forest: Forest,
    marginals: Array,
    energies: Array,
    largest: Array,
    centred: bool,
    value: Array,
    size: Array,
    threads: int,
) -> None: ...
def entropies(
    forest: Forest, marginals: Array, wanted: Array, value: Array, threads: int
) -> None: ...
def near_likely(forest: Forest, marginals: Array, best: Array, scores: Array) -> None: ...
def free_workspaces() -> None: ...
