"""Chains of order 2 and chains of segments: what each public function does with one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse import _higher
from valuesparse._validation import require_room
from valuesparse.errors import InfeasibleError
from valuesparse.inference._watch import NOBODY, Watch
from valuesparse.models import SecondOrderChain, SegmentChain
from valuesparse.results import SecondOrderResult, SegmentResult
from valuesparse.threads import resolve

__all__ = [
    "METHODS", "decode", "entropy", "expected", "infer", "joint", "log_z", "sample", "score",
]  # fmt: skip

Floats = npt.NDArray[np.float64]
Model = SecondOrderChain | SegmentChain

METHODS = ("auto", "exact")

#: Partial sums of expected counts at most: as many threads are of use; and numbers that all of them
#: hold (256 MiB), unless one has more.
_CHUNKS, _CHUNK_NUMBERS = 16, 1 << 25


def _ask(model: Model, workers: int, watch: Watch = NOBODY, **wanted: Any) -> tuple[Floats, int]:
    """Return ``log_z`` (B,), or the best scores (n_best, B), and fill the arrays `wanted`.

    The number is that of the sequences which were answered in logarithms.
    """
    k = model.n_labels
    start, end = (
        np.zeros(k) if x is None else np.ascontiguousarray(x, np.float64)
        for x in (model.start, model.end)
    )
    table = np.ascontiguousarray(model.transition, np.float64)
    first = duration = segment = None
    if isinstance(model, SegmentChain):
        longest = model.max_length
        duration, segment = (
            None if x is None else np.ascontiguousarray(x, np.float64)
            for x in (model.duration, model.segment)
        )
    else:
        longest = 0
        first = np.zeros((k, k)) if model.first is None else model.first.astype(np.float64)
    best = wanted.get("best")
    value = np.empty((() if best is None else best.shape[:1]) + (model.n_sequences,))
    n = model.n_positions
    in_logarithms, impossible = _higher.answer(
        model.offset, model.scores(), table, start, end, first, duration, segment, longest,
        model.edge, workers, value, deadline=watch.left(), progress=watch.part(0, n, n),
        late=watch.late, **wanted,
    )  # fmt: skip
    if impossible is not None:
        raise InfeasibleError(*impossible)
    watch.finish(n)
    return value, in_logarithms


def infer(
    model: Model,
    zeta: float,
    rounds: int,
    workers: int,
    method: str,
    deadline: float | None,
    progress: Callable[[int, int], object] | None,
) -> SecondOrderResult | SegmentResult:
    """See :func:`valuesparse.infer`."""
    if zeta < 1.0:
        raise ValueError(f"a {type(model).__name__} takes no islands, got zeta={zeta:g}")
    marginals = np.empty((model.n_positions, model.n_labels))
    value, widened = _ask(model, workers, Watch(deadline, progress), marginals=marginals)
    kind = SegmentResult if isinstance(model, SegmentChain) else SecondOrderResult
    return kind(model, marginals.astype(model.dtype, copy=False), value, widened)


def joint(model: Model, threads: int | None) -> npt.NDArray[Any]:
    """Return the marginals of pairs of neighbours, or of segments."""
    k = model.n_labels
    rows = (model.n_positions, model.max_length) if isinstance(model, SegmentChain) else (
        int(model.edge[-1]), k
    )  # fmt: skip
    answer = np.empty((*rows, k))
    _ask(model, resolve(threads), joint=answer)
    return answer.astype(model.dtype, copy=False)


def expected(model: Model, threads: int | None) -> Floats:
    """Return the expected counts of the transition's entries, in its shape."""
    shape = model.transition.shape
    # A function of the model alone, so that bits do not depend on threads.
    most = min(model.n_sequences, _CHUNKS, _CHUNK_NUMBERS // max(model.transition.size, 1))
    sums = np.zeros((max(most, 1), *shape))
    _ask(model, resolve(threads), expected=sums)
    return sums.sum(axis=0) if most > 1 else sums.reshape(shape)


def entropy(model: Model, threads: int | None) -> Floats:
    """Return the entropy of each sequence (B,)."""
    found = np.empty(model.n_sequences)
    _ask(model, resolve(threads), entropy=found)
    return np.maximum(found, 0.0)


def log_z(model: Model, workers: int, memory_limit: int | None = None) -> Floats:
    """Return log Z alone."""
    return _ask(model, workers)[0]


def decode(model: Model, k: int, workers: int, watch: Watch) -> tuple[Any, ...]:
    """Return states (k, N) and scores (k, B)."""
    require_room("n_best", k, model.n_positions)
    states = np.empty((k, model.n_positions), np.int64)
    return states, _ask(model, workers, watch, best=states)[0]


def sample(
    model: Model, count: int, generator: np.random.Generator, workers: int, watch: Watch
) -> npt.NDArray[np.int64]:
    """Return samples (count, N)."""
    numbers = 2 if isinstance(model, SegmentChain) else 1  # of a position
    require_room("size", count, numbers * model.n_positions)
    uniforms = generator.random((count, numbers * model.n_positions))
    samples = np.empty((count, model.n_positions), np.int64)
    _ask(model, workers, watch, samples=samples, uniforms=uniforms)
    return samples


def score(model: Model, states: npt.ArrayLike, workers: int) -> Floats:
    """Return the sum of the log-potentials of given states (N,), per sequence."""
    return model.score(states)
