"""Comparisons that many tests share."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from oracles import Answer, Arrays, clamped, conditioned, sequences, solve, tolerance

import valuesparse as vs

STATS = {
    "islands",
    "segments",
    "messages_full",
    "messages_sparse",
    "released",
    "flipped",
    "rounds",
    "sequences_widened",
}


METHODS = {m.name: m for m in (vs.BP, vs.TRW, vs.MeanField, vs.StructuredMeanField)}


def method_of(name: str, **options: Any) -> Any:
    """Return a method of loopy inference with these options; without any, its own name."""
    return METHODS[name](**options) if options else name


class Given(np.random.Generator):
    """A generator of known numbers."""

    def __init__(self, uniforms: np.ndarray) -> None:
        super().__init__(np.random.PCG64(0))
        self.uniforms = uniforms

    def random(self, out: np.ndarray) -> np.ndarray:
        assert out.shape == self.uniforms.shape
        out[:] = self.uniforms
        return out


def chain(model: Arrays) -> vs.Chain:
    """Build the chain that these arrays describe."""
    return vs.Chain(**model.kwargs())


@contextmanager
def refused(kind: type[Exception], *parts: str | int) -> Iterator[pytest.ExceptionInfo]:
    """Expect an error whose message has every word and every number, as words and numbers."""
    with pytest.raises(kind) as info:
        yield info
    message = str(info.value)
    for part in parts:
        assert re.search(rf"(?<![\w.]){re.escape(str(part))}(?!\w)", message), (
            f"{part!r} is not in the message: {message}"
        )


def noting(kind: type, prefix: str, calls: list[tuple[str, str]]) -> type:
    """Return a subclass that notes the calls of methods of lines whose names begin so."""

    def noted(name: str) -> Any:
        def method(self: Any, line: str) -> Any:
            calls.append((name, line))
            return getattr(super(found, self), name)(line)

        return method

    names = [name for name in dir(kind) if name.startswith(prefix)]
    found = type("Noting", (kind,), {name: noted(name) for name in names})
    return found


def assert_same_bits(a: np.ndarray, b: np.ndarray) -> None:
    """Compare dtype, shape and every bit (so that -0.0 is not 0.0)."""
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    assert np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes()


def assert_same_result(a: vs.Result, b: vs.Result, *, derived: bool = True) -> None:
    """Compare two results bit for bit; ``derived`` also computes what is computed on demand."""
    assert_same_bits(a.marginals, b.marginals)
    assert_same_bits(a.log_z, b.log_z)
    assert_same_bits(a.islands, b.islands)
    assert (a.method, a.reason, a.converged) == (b.method, b.reason, b.converged)
    assert a.stats == b.stats
    if derived:
        assert_same_bits(a.pairwise(), b.pairwise())
        assert_same_bits(a.expectations(), b.expectations())
        assert_same_bits(a.entropy(), b.entropy())


def assert_distribution(model: Arrays, result: vs.Result) -> None:
    """Check what every answer must be, whatever the model: finite, normalised, possible."""
    p = result.marginals
    dtype = model.unary.dtype
    assert p.dtype == dtype
    assert p.shape == model.unary.shape
    assert np.isfinite(p).all()
    assert (p >= 0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-5 if dtype == np.float32 else 1e-12)
    local = [np.zeros((0, p.shape[1])), *(seq.local for seq in sequences(model))]
    assert (p[np.concatenate(local) == -np.inf] == 0).all()
    assert result.log_z.dtype == np.float64
    assert np.isfinite(result.log_z).all()
    assert result.islands.dtype == np.int32
    assert result.islands.shape == (len(p),)
    assert set(result.stats) >= STATS
    assert isinstance(result.reason, str)


def assert_answer(
    model: Arrays, result: vs.Result, answer: Answer, *, multiple: float = 0.0
) -> None:
    """Compare all that a result offers with an oracle's answer.

    The tolerance is 1e-10 or 1e-5, plus ``multiple`` x eps x the largest partial score.
    """
    tol = tolerance(model, multiple)
    scale = 1 + np.abs(answer.log_z)
    assert (np.abs(result.log_z - answer.log_z) <= tol * scale).all(), (
        result.log_z,
        answer.log_z,
    )
    pairwise = result.pairwise()
    assert pairwise.shape == answer.pairwise.shape
    np.testing.assert_allclose(pairwise, answer.pairwise, rtol=0, atol=tol)
    edges, k = max(1, len(pairwise)), model.unary.shape[1]
    expectations = result.expectations()
    assert expectations.shape == (k, k)
    assert expectations.dtype == np.float64
    np.testing.assert_allclose(expectations, answer.pairwise.sum(axis=0), rtol=0, atol=tol * edges)
    entropy = result.entropy()
    assert entropy.dtype == np.float64
    np.testing.assert_allclose(
        entropy, answer.entropy, rtol=0, atol=10 * tol * (1 + len(model.unary)) * k
    )


def assert_exact(
    model: Arrays, result: vs.Result, answer: Answer | None = None, *, multiple: float = 0.0
) -> None:
    """Check an exact result against long-double recursions."""
    answer = solve(model) if answer is None else answer
    assert_distribution(model, result)
    assert result.method == "exact"
    assert result.converged is True
    assert (result.islands == -1).all()
    np.testing.assert_allclose(
        result.marginals, answer.marginals, rtol=0, atol=tolerance(model, multiple)
    )
    assert_answer(model, result, answer, multiple=multiple)


def assert_islands(
    model: Arrays,
    result: vs.Result,
    zeta: float,
    *,
    settled: bool = True,
    multiple: float = 0.0,
    answer: Answer | None = None,
) -> None:
    """Check every promise of SMM11's islands as this package makes them.

    ``settled`` says that revisiting was not cut short (``revisit=None``): only then does every
    island have its mode at its value with at least zeta.
    """
    assert_distribution(model, result)
    assert result.method == "islands"
    islands, p = result.islands, result.marginals
    held = islands >= 0
    assert result.stats["islands"] == held.sum()
    # The marginals of the model conditioned on the islands, and an island's on the others.
    np.testing.assert_allclose(
        p, conditioned(model, islands), rtol=0, atol=tolerance(model, multiple)
    )
    given = clamped(model, islands)
    assert_answer(model, result, solve(given), multiple=multiple)
    exact = solve(model) if answer is None else answer
    scale = 1 + np.abs(exact.log_z)
    assert (result.log_z <= exact.log_z + tolerance(model, 4) * scale).all()
    if settled:
        assert result.converged is True
        slack = 1e-6 if p.dtype == np.float32 else 1e-12
        top = p.max(axis=1, initial=0)
        value = p[held, islands[held]]
        assert (value >= top[held] - slack).all()
        assert (value >= zeta - slack).all()
        others = ~held & (top >= zeta + slack)
        assert others.sum() <= result.stats["released"]


def in_small_stack(work: Callable[[], None], size: int = 256 << 10) -> None:
    """Do something in a thread whose stack has so many bytes."""
    before = threading.stack_size(size)
    try:
        thread = threading.Thread(target=work)
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()


def in_eight_threads(work: Callable[[int], None]) -> None:
    """Call `work` with 0 to 7, each in a thread of its own; they take turns as often as can be."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        workers = [threading.Thread(target=work, args=(t,)) for t in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:
        sys.setswitchinterval(interval)


def require_same_best(one: Any, other: Any, n_best: int) -> None:
    """Require the same best states, ties and bits of scores, or that nothing is possible."""
    asked: list[dict[str, int]] = [{}, {"threads": 3}]
    if n_best > 1:
        asked.append({"n_best": n_best})
    for more in asked:
        try:
            want = vs.decode(other, **more)
        except vs.InfeasibleError:
            with pytest.raises(vs.InfeasibleError):
                vs.decode(one, **more)
            continue
        found = vs.decode(one, **more)
        np.testing.assert_array_equal(found.states, want.states)
        np.testing.assert_array_equal(found.score, want.score)
