"""Node marginals of chains, ours beside the rivals'.

Run with ``pytest benchmarks/test_chain.py --benchmark-group-by=group``; ``-k "ours and batch"`` and
the like choose. A call takes log-potentials in and gives marginals out. Beside the raw time,
``extra_info`` holds the time per position and the rate counted as 4 K**2 operations per position,
both less the rival's overhead where it has one (CRFsuite's ``set``), which the table itself still
includes.
"""

from __future__ import annotations

import gc
import time

import numpy as np
import pytest
import rivals
from _inputs import LABELS, random_batch
from _machine import cores, describe

pytest.importorskip("pytest_benchmark", reason="needs pytest-benchmark: the extra bench")

# Rivals warn about this and that when they are imported and called; it is not our business here.
pytestmark = pytest.mark.filterwarnings("ignore")

SLOW = 0.5
TOO_SLOW = 5.0


def _load(name):
    try:
        return rivals.load(name)
    except ImportError as missing:
        pytest.skip(f"{rivals.RIVALS[name].package} is not installed: {missing}")


def _cases():
    for name, rival in rivals.RIVALS.items():
        for n_labels in LABELS:
            for shape in ("batch", "chain"):
                for dtype in rival.dtypes:
                    for threads in (1, 2) if rival.threaded else (1,):
                        yield pytest.param(
                            name,
                            n_labels,
                            shape,
                            dtype,
                            threads,
                            id=f"{name}-{shape}-K{n_labels}-{dtype}-t{threads}",
                        )


@pytest.fixture(scope="module", autouse=True)
def machine(request):
    """Print once what everything ran on."""
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print("", *describe(), sep="\n")


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", list(rivals.RIVALS))
def test_rivals_agree(name, dtype):
    """All rivals compute the same: they agree with a plain log-domain recursion."""
    if dtype not in rivals.RIVALS[name].dtypes:
        pytest.skip("does not compute in this type")
    module = _load(name)
    rng = np.random.default_rng(1)
    lengths = np.array([5, 10, 5, 2])
    unary = rng.normal(0, 2, (int(lengths.sum()), 7)).astype(dtype)
    transition = rng.normal(0, 1, (7, 7)).astype(dtype)
    found = np.asarray(module.marginals(unary, transition, lengths))
    assert found.dtype == dtype
    tolerance = 1e-10 if dtype == "float64" else 1e-4
    np.testing.assert_allclose(found, _expected(unary, transition, lengths), atol=tolerance)


@pytest.mark.parametrize(("name", "n_labels", "shape", "dtype", "threads"), list(_cases()))
def test_marginals(benchmark, name, n_labels, shape, dtype, threads):
    if threads > cores():
        pytest.skip(f"needs {threads} cores")
    module = _load(name)
    positions = 180 if rivals.RIVALS[name].cubic else None
    batch = random_batch(shape, n_labels, dtype, positions=positions)
    try:
        ready = module.prepare(batch.unary, batch.transition, batch.lengths, threads=threads)
        took = _seconds(ready.call)
    except rivals.TooLarge as reason:
        pytest.skip(str(reason))
    if took > TOO_SLOW:
        pytest.skip(f"takes {took:.0f} s a call")
    rounds = 3 if took > SLOW else max(7, min(50, int(SLOW / took)))
    benchmark.group = f"{shape} K={n_labels} n={batch.n_positions} {dtype} {threads}t"
    benchmark.pedantic(ready.call, rounds=rounds, warmup_rounds=1)
    overhead = 0.0
    if ready.overhead is not None:
        overhead = float(np.median([_seconds(ready.overhead) for _ in range(rounds)]))
    if benchmark.stats is not None:
        net = benchmark.stats.stats.median - overhead
        benchmark.extra_info.update(
            positions=batch.n_positions,
            overhead_us=1e6 * overhead,
            net_us_per_position=1e6 * net / batch.n_positions,
            gflops=1e-9 * batch.message_flops / net,
        )


def _seconds(call):
    gc.collect()
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _expected(unary, transition, lengths):
    """Return the marginals of each chain by the textbook recursion in logarithms."""
    rows = []
    for scores in np.split(unary.astype(float), np.cumsum(lengths)[:-1]):
        forward, backward = np.zeros_like(scores), np.zeros_like(scores)
        for i in range(1, len(scores)):
            forward[i] = np.logaddexp.reduce(
                (forward[i - 1] + scores[i - 1])[:, None] + transition, axis=0
            )
        for i in range(len(scores) - 2, -1, -1):
            backward[i] = np.logaddexp.reduce(
                transition + (backward[i + 1] + scores[i + 1])[None, :], axis=1
            )
        log = forward + backward + scores
        rows.append(np.exp(log - np.logaddexp.reduce(log, axis=1, keepdims=True)))
    return np.concatenate(rows)
