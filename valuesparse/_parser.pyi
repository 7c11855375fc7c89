from typing import Any

import numpy.typing as npt
from typing_extensions import Self

Array = npt.NDArray[Any]
Arcs = tuple[Array, Array, Array]
# sizes, keys, slots
Named = tuple[Array, Array, Array]
# projective, single_root
Trees = tuple[bool, bool]
# relaxed, epsilon, rounds, iterations, tolerance, damping
How = tuple[int, float, int, int, float, float]

FIELDS: int
MOST_BITS: int
LEAST_BITS: int
MOST_KEYS: int

def encode(
    forms: list[str],
    lemmas: list[str] | None,
    coarse: list[str] | None,
    fine: list[str] | None,
    morph: list[str] | None,
    words: Array,
) -> None: ...
def weights_of_labels(n_labels: int, bits: int) -> int: ...
def weights_of_parts(order: int, bits: int) -> int: ...
def templates_of_parts(order: int) -> int: ...
def weights_of_dictionary(order: int, dictionary: Named) -> int: ...
def count_features(
    words: Array,
    offset: Array,
    heads: Array,
    arcs: Arcs | None,
    order: int,
    trees: bool,
    least: int,
    threads: int,
) -> tuple[Array, Array, Array, Array] | None: ...
def learn_labels(
    n_labels: int,
    bits: int,
    words: Array,
    offset: Array,
    heads: Array,
    gold: Array,
    order: Array,
    weights: Array,
    late: Array,
    time: int,
) -> int: ...

class Learner:
    n_weights: int
    cut_short: int
    def __new__(
        cls,
        words: Array,
        offset: Array,
        heads: Array,
        arcs: Arcs | None,
        order: int,
        bits: int,
        projective: bool,
        single_root: bool,
        dictionary: Named | None,
    ) -> Self: ...
    def parts(self, i: int) -> tuple[Array, Array]: ...
    def scores(self, i: int, weights: Array) -> Array: ...
    def gold(self, i: int) -> Array: ...
    def marginals(self, i: int, potentials: Array) -> tuple[float, Array]: ...
    def best(self, i: int, potentials: Array) -> tuple[float, Array]: ...
    def point(self, i: int, potentials: Array) -> Array | None: ...
    def gradient(self, i: int, residual: Array) -> tuple[Array, Array]: ...
    def sweep(
        self,
        beta: float,
        gamma: float,
        longest: float,
        order: Array,
        batch: int,
        least: float,
        weights: Array,
        late: Array,
        touched: Array,
        time: int,
        threads: int,
    ) -> tuple[float, int]: ...
    def prune(self, weights: Array, threads: int) -> Arcs: ...

class Predictor:
    def __new__(
        cls,
        order: int,
        bits: int,
        weights: Array,
        pruner_bits: int,
        pruner_weights: Array | None,
        n_labels: int,
        label_bits: int,
        label_weights: Array,
        dictionary: Named | None = None,
    ) -> Self: ...
    def parts(self, words: Array, prune: bool, trees: Trees) -> tuple[Array, Array, Array]: ...
    def beliefs(
        self, words: Array, how: How, prune: bool, trees: Trees
    ) -> tuple[float, Array, Array, Array, int, int]: ...
    def label(self, words: Array, heads: Array) -> Array: ...
    def predict(
        self, words: Array, offset: Array, how: How, prune: bool, trees: Trees, threads: int
    ) -> tuple[Array, Array, Array, Array]: ...
    def solve(
        self,
        words: Array,
        offset: Array,
        tolerance: float,
        max_iterations: int,
        prune: bool,
        trees: Trees,
        threads: int,
    ) -> tuple[Array, Array, Array, Array]: ...
