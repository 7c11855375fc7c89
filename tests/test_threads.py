"""Threads never show: the same bits for any number of them, from any number of callers."""

from __future__ import annotations

import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from checks import assert_same_bits, assert_same_result, chain
from children import SANITIZERS, run
from strategies import bio_chain, peaked_chain, random_chain

import valuesparse as vs

COUNTS = [1, 2, 3, 8]


@pytest.fixture(autouse=True)
def _restore_threads():
    before = vs.get_num_threads()
    yield
    vs.set_num_threads(before)


@pytest.mark.parametrize("zeta", [1.0, 0.9, 0.5, 0.0])
def test_ragged_batch(zeta: float, rng: np.random.Generator, dtype: type) -> None:
    lengths = np.concatenate([rng.integers(0, 60, size=150), [700, 0, 1]])
    for k in (5, 24):
        model = chain(peaked_chain(rng, lengths, k, dtype=dtype))
        first = vs.infer(model, zeta=zeta, threads=1)
        for threads in COUNTS[1:]:
            assert_same_result(first, vs.infer(model, zeta=zeta, threads=threads))


@pytest.mark.parametrize("zeta", [1.0, 0.9, 0.5])
def test_one_long_chain(zeta: float, rng: np.random.Generator, dtype: type) -> None:
    model = chain(peaked_chain(rng, [30_000], 9, dtype=dtype))
    first = vs.infer(model, zeta=zeta, threads=1)
    for threads in COUNTS[1:]:
        assert_same_result(first, vs.infer(model, zeta=zeta, threads=threads), derived=False)
    assert_same_bits(first.expectations(), vs.infer(model, zeta=zeta, threads=3).expectations())


@pytest.mark.parametrize("zeta", [1.0, 0.9])
@pytest.mark.parametrize("n", [1, 2, 3, 64, 128, 129, 1000])
def test_one_chain_of_some_length(n: int, zeta: float, rng: np.random.Generator) -> None:
    model = chain(peaked_chain(rng, [n], 45))
    first = vs.infer(model, zeta=zeta, threads=1)
    for threads in COUNTS[1:]:
        assert_same_result(first, vs.infer(model, zeta=zeta, threads=threads))


def test_counts_of_a_forest_of_which_a_tree_is_widened(rng: np.random.Generator) -> None:
    n, k = 6000, 12
    parent = np.arange(3 * n) - 1 - rng.integers(0, 5, size=3 * n)
    roots = np.arange(3) * n
    parent = np.maximum(parent, np.repeat(roots, n))
    parent[roots] = -1
    unary = rng.normal(size=(3 * n, k)) * np.repeat([0.4, 60.0, 0.4], n)[:, None]
    table = 4.0 * rng.normal(size=(k, k))
    model = vs.Tree(parent, unary.astype(np.float32), table.astype(np.float32))
    for _ in range(5):
        first = vs.infer(model, zeta=0.9, threads=1)
        assert first.stats["sequences_widened"] >= 1
        for threads in COUNTS[1:]:
            assert vs.infer(model, zeta=0.9, threads=threads).stats == first.stats


@pytest.mark.parametrize("revisit", [None, 0])
@pytest.mark.parametrize(("zeta", "strength"), [(0.5, 2.5), (0.6, 3.0), (0.97, 1.0), (0.9, 1.5)])
@pytest.mark.parametrize("cluster", [[0], [0, 300], [200]])
def test_gaps_that_are_most_of_the_chain(
    cluster: list[int], zeta: float, strength: float, revisit: int | None, rng: np.random.Generator
) -> None:
    # A gap that outweighs a thread's share is run in two halves that meet in its middle; with
    # strong transitions variables are decided in mid-pass, on both sides of it.
    n, k = 400, 24
    unary = rng.normal(size=(n, k))
    for start in cluster:
        unary[start : start + 15, 3] += 60
    model = vs.Chain(unary, strength * rng.normal(size=(k, k)))
    first = vs.infer(model, zeta=zeta, revisit=revisit, threads=1)
    assert strength < 2 or first.stats["islands"] > 30 * len(cluster)
    for threads in COUNTS[1:]:
        again = vs.infer(model, zeta=zeta, revisit=revisit, threads=threads)
        assert_same_result(first, again, derived=False)


def test_contradictions_and_underflow(rng: np.random.Generator, dtype: type) -> None:
    model = bio_chain(rng, [500, 3, 0, 60, 2000], 4, peak=14, dtype=dtype)
    model.unary[::7, 0] -= 9000
    for zeta in (1.0, 0.9, 0.4):
        first = vs.infer(chain(model), zeta=zeta, threads=1)
        for threads in COUNTS[1:]:
            assert_same_result(first, vs.infer(chain(model), zeta=zeta, threads=threads))


@pytest.mark.parametrize("revisit", [None, 0, 1, 4])
@pytest.mark.parametrize("zeta", [0.0, 0.6, 0.99])
def test_counts_of_sequences_done_twice(
    zeta: float, revisit: int | None, rng: np.random.Generator
) -> None:
    # Counts of a pass that is done again in a wider domain must not show.
    model = chain(peaked_chain(rng, [2000, 1500], 21, peak=10, scale=5, dtype=np.float32))
    first = vs.infer(model, zeta=zeta, revisit=revisit, threads=1)
    for threads in COUNTS[1:]:
        again = vs.infer(model, zeta=zeta, revisit=revisit, threads=threads)
        assert again.stats == first.stats
        assert_same_bits(again.marginals, first.marginals)


def test_many_runs_on_two_threads(rng: np.random.Generator) -> None:
    model = chain(peaked_chain(rng, rng.integers(1, 40, size=64), 9))
    first = vs.infer(model, zeta=0.8, threads=1)
    for _ in range(200):
        again = vs.infer(model, zeta=0.8, threads=2)
        assert_same_result(first, again, derived=False)


# --------------------------------------------------------------------------------- how many


def test_set_and_get() -> None:
    for n in (1, 2, 5):
        vs.set_num_threads(n)
        assert vs.get_num_threads() == n
    vs.set_num_threads(None)
    assert 1 <= vs.get_num_threads() <= (os.cpu_count() or 1)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no CPU affinity here")
def test_affinity_is_respected() -> None:
    done = run(
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "import valuesparse as vs; print(vs.get_num_threads())"
    )
    assert done.stdout.strip() == "1", done.stderr


@pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="no CPU affinity here, or one CPU",
)
def test_affinity_that_changes_counts_when_the_number_is_set_anew() -> None:
    done = run(
        "import os, valuesparse as vs; before = vs.get_num_threads()\n"
        "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "print(vs.get_num_threads() == before)\n"
        "vs.set_num_threads(None); print(vs.get_num_threads())"
    )
    assert done.stdout.split() == ["True", "1"], done.stderr


IDLE = """
import threading
import numpy as np
import valuesparse as vs
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 >> 20
rng = np.random.default_rng(0)
model = vs.Chain(rng.normal(size=(300_000, 9)), rng.normal(size=(9, 9)))
def call():
    for zeta in (1.0, 0.9):
        vs.infer(model, zeta=zeta, threads=1).log_z
    vs.decode(model)
def waiting(count):
    one, go, barrier = threading.Lock(), threading.Event(), threading.Barrier(count + 1)
    def work():
        with one:
            call()
        barrier.wait()
        go.wait()
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    barrier.wait()
    found = resident()
    go.set()
    for thread in threads:
        thread.join()
    return found
few = waiting(2)
print(waiting(8) - few)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="measures memory as Linux tells it")
@pytest.mark.skipif(bool(SANITIZERS), reason="sanitizers keep what was freed for a while")
def test_threads_that_wait_keep_no_memory() -> None:
    done = run(IDLE, MALLOC_ARENA_MAX="1")
    assert int(done.stdout) < 50, done.stderr  # MiB; each call takes more than that


def test_environment() -> None:
    code = "import valuesparse as vs; print(vs.get_num_threads())"
    assert run(code, VALUESPARSE_NUM_THREADS="3").stdout.strip() == "3"
    assert run(code, VALUESPARSE_NUM_THREADS="1").stdout.strip() == "1"


@pytest.mark.parametrize("bad", ["0", "-2", "many", "1.5", "²", "٣", "4097", "1" * 5000])
def test_bad_environment_says_so(bad: str) -> None:
    done = run(
        "import valuesparse as vs, numpy as np\n"
        "vs.infer(vs.Chain(np.zeros((3, 2)), np.zeros((2, 2))))",
        VALUESPARSE_NUM_THREADS=bad,
        PYTHONIOENCODING="utf-8",
    )
    assert done.returncode != 0
    assert "VALUESPARSE_NUM_THREADS" in done.stderr
    assert bad in done.stderr.splitlines()[-1]


FEW_THREADS = """
import os, resource, sys
if len(sys.argv) < 2:  # threads that begin later get stacks of 1 GiB
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    resource.setrlimit(resource.RLIMIT_STACK, (1 << 30, hard))
    os.execv(sys.executable, [sys.executable, "-c", sys.orig_argv[2], "again"])
import numpy as np
import valuesparse as vs
rng = np.random.default_rng(0)
batch = vs.Chain(rng.normal(size=(40_000, 20)), rng.normal(size=(20, 20)), np.full(2000, 20))
long = vs.Chain(rng.normal(size=(40_000, 20)), rng.normal(size=(20, 20)))
models = [(m, z) for m in (batch, long) for z in (1.0, 0.9)]
want = [vs.infer(m, zeta=z, threads=1).marginals.tobytes() for m, z in models]
def room(gibibytes):
    pages = int(open("/proc/self/statm").read().split()[0])
    return pages * resource.getpagesize() + int(gibibytes * 2 ** 30)
hard = resource.getrlimit(resource.RLIMIT_AS)[1]
for gibibytes in (0.5, 2.5):
    resource.setrlimit(resource.RLIMIT_AS, (room(gibibytes), hard))
    for (m, z), bytes_ in zip(models, want):
        assert vs.infer(m, zeta=z, threads=1000).marginals.tobytes() == bytes_
        assert vs.infer(m, zeta=z, threads=2).marginals.tobytes() == bytes_
    print(len(os.listdir("/proc/self/task")))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does")
def test_threads_that_cannot_be_made_are_done_without() -> None:
    done = run(FEW_THREADS, OPENBLAS_NUM_THREADS="1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["1", "3"]


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads as Linux shows them")
def test_no_more_threads_than_tasks() -> None:
    done = run(
        "import os, numpy as np, valuesparse as vs\n"
        "vs.infer(vs.Chain(np.zeros((3_000, 30)), np.zeros((30, 30))), threads=1000)\n"
        "print(len(os.listdir('/proc/self/task')))",
        OPENBLAS_NUM_THREADS="1",
    )
    assert 1 <= int(done.stdout) <= 5, done.stderr  # such a chain is four tasks


@pytest.mark.smoke
def test_threadpoolctl() -> None:
    threadpoolctl = pytest.importorskip("threadpoolctl", reason="limits threads from outside")
    vs.set_num_threads(4)
    with threadpoolctl.threadpool_limits(limits=1):
        assert vs.get_num_threads() == 1
    assert vs.get_num_threads() == 4
    mine = [i for i in threadpoolctl.threadpool_info() if "valuesparse" in str(i.values())]
    assert mine
    assert mine[0]["num_threads"] == 4


def test_a_threadpoolctl_that_nobody_can_join_is_left_alone() -> None:
    old = "import sys, types\nsys.modules['threadpoolctl'] = types.ModuleType('threadpoolctl')\n"
    done = run(old + "import valuesparse as vs; print(vs.get_num_threads() >= 1)")
    assert done.stdout.strip() == "True", done.stderr


# ------------------------------------------------------------------------------ many callers


def test_eight_callers_share_one_model(rng: np.random.Generator, dtype: type) -> None:
    arrays = peaked_chain(rng, rng.integers(0, 80, size=40), 12, dtype=dtype)
    model = chain(arrays)
    want = {z: vs.infer(model, zeta=z) for z in (1.0, 0.9)}
    best, drawn = vs.decode(model).states, vs.sample(model, 3, 5)

    def work(i: int) -> None:
        for _ in range(10):
            for zeta, r in want.items():
                got = vs.infer(model, zeta=zeta, threads=1 + i % 3)
                assert_same_result(r, got, derived=i % 2 == 0)
            assert_same_bits(best, vs.decode(model).states)
            assert_same_bits(drawn, vs.sample(model, 3, 5))

    with ThreadPoolExecutor(8) as pool:
        for future in [pool.submit(work, i) for i in range(8)]:
            future.result(timeout=120)


def test_errors_in_one_caller_leave_the_others_alone(rng: np.random.Generator) -> None:
    good = chain(random_chain(rng, [200] * 5, 8))
    bad = vs.Chain(np.full((200, 8), -np.inf), np.zeros((8, 8)))
    want = vs.infer(good)

    def work(i: int) -> None:
        for _ in range(20):
            if i % 2:
                with pytest.raises(vs.InfeasibleError):
                    vs.infer(bad, threads=2)
            else:
                assert_same_result(want, vs.infer(good, threads=2), derived=False)

    with ThreadPoolExecutor(6) as pool:
        for future in [pool.submit(work, i) for i in range(6)]:
            future.result(timeout=120)


@pytest.mark.parametrize("zeta", [1.0, 0.999])
def test_the_gil_is_released(zeta: float) -> None:
    model = vs.Chain(np.zeros((10_000, 1000), np.float32), np.zeros((1000, 1000), np.float32))

    def turns() -> int:
        worker = threading.Thread(target=lambda: vs.infer(model, threads=1, zeta=zeta))
        worker.start()
        count = 0
        while worker.is_alive():
            time.sleep(1e-4)  # gives the GIL away; it comes back at once, or when the call is over
            count += 1
        return count

    # A busy machine may keep this thread waiting; a call that holds the GIL never lets it in.
    assert any(turns() > 20 for _ in range(20))
