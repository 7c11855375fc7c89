"""Interpreter exit while threads are inside calls that take the GIL now and then."""

from __future__ import annotations

import signal
import sys
import time

import pytest
from children import run, start

# Threads call without end; the script ends while they are inside. Its printed text must arrive.
LEAVING = """
import sys, threading, time
import numpy as np, valuesparse as vs
from valuesparse.crf import crfsuite
what, limits, delay, endless = sys.argv[1].split(), sys.argv[2], float(sys.argv[3]), sys.argv[4:]
rng = np.random.default_rng(0)
def grid(side, k):
    graph = vs.FactorGraph([k] * side * side)
    for v in range(side * side):
        for u in [v - 1] * (v % side > 0) + [v - side] * (v >= side):
            graph.add([u, v], rng.normal(size=(k, k)))
    return graph
n, k = 50_000, 16
unary, table = rng.normal(size=(n, k)), rng.normal(size=(k, k))
chain = vs.Chain(unary, table, lengths=np.full(n // 100, 100))
long = vs.Chain(unary, table)
tree = vs.Tree((np.arange(n) - 1) // 2, unary, table)
small, large = grid(6, 4), grid(20, 4)
ring = vs.FactorGraph([2] * 12)
for i in range(12):
    ring.add([i], rng.normal(size=2))
    ring.add([i, (i + 1) % 12], rng.normal(size=(2, 2)))
class AllEqual(vs.factors.Structured):
    def log_potential(self, states):
        return np.where((states == states[:, :1]).all(axis=1), 0.0, -np.inf)
    def sum_product(self, messages):
        off, on = messages.sum(axis=0)
        mass = np.logaddexp(off, on)
        k = len(messages)
        return mass, np.full(k, np.exp(on - mass)), np.full(k, np.exp(off - mass))
    def best(self, messages):
        score = messages.sum(axis=0)
        return score.max(), np.full(len(messages), score.argmax())
python = vs.FactorGraph([2] * 12)
for i in range(12):
    python.add([i], rng.normal(size=2))
    python.add([i, (i + 5) % 12], rng.normal(size=(2, 2)))
python.add(AllEqual(range(6)))
def train():
    trainer = crfsuite.Trainer(verbose=False)
    for _ in range(100):
        trainer.append([[f"a{rng.integers(50)}"] for _ in range(20)], rng.choice(["x", "y"], 20))
    return lambda **limit: trainer.train_inmemory()
def ask_tree():
    jt = vs.JunctionTree(small)
    return lambda **limit: jt.infer({0: int(rng.integers(4))}, threads=2, **limit)
CALLS = {
    "chain": lambda: lambda **limit: vs.infer(chain, threads=2, **limit),
    "islands": lambda: lambda **limit: vs.infer(long, zeta=0.9, threads=2, **limit),
    "tree": lambda: lambda **limit: vs.infer(tree, threads=2, **limit),
    "graph": ask_tree,
    "loopy": lambda: lambda **limit: vs.infer(
        large, method=vs.BP(tolerance=0.0, max_iterations=10**6), threads=2, **limit),
    "mean_field": lambda: lambda **limit: vs.infer(
        large, method=vs.MeanField(tolerance=0.0, max_iterations=10**6), **limit),
    "trw": lambda: lambda **limit: vs.infer(
        large, method=vs.TRW(tolerance=0.0, max_iterations=10**6), **limit),
    "decode": lambda: lambda **limit: vs.decode(chain, threads=2, **limit),
    "sample": lambda: lambda **limit: vs.sample(chain, 3, np.random.default_rng(0),
                                           threads=2, **limit),
    "bounds": lambda: lambda **limit: vs.bounds.log_z(small),
    "short_trw": lambda: lambda **limit: vs.infer(ring, method="trw", **limit),
    "structured": lambda: lambda **limit: vs.infer(
        ring, method="structured_mean_field", **limit),
    "relax": lambda: lambda **limit: vs.relax(ring),
    "select": lambda: lambda **limit: vs.select(ring, min_size=0.5),
    "check": lambda: lambda **limit: ring.check(),
    "python": lambda: lambda **limit: vs.infer(
        python, method=vs.BP(tolerance=0.0, max_iterations=10**6), threads=2, **limit),
    "train": train,
}
seen = threading.Event()
def progress(done, total):
    seen.set()
    if endless:
        time.sleep(60)
limit = {}
if "deadline" in limits:
    limit["deadline"] = 1e6
if "progress" in limits:
    limit["progress"] = progress
begun = [threading.Event() for _ in what]
def work(call, event):
    event.set()
    while True:
        call(**limit)
for name, event in zip(what, begun):
    threading.Thread(target=work, args=(CALLS[name](), event), daemon=True).start()
for event in begun:
    event.wait()
if "progress" in limits and not {*what} <= {"bounds", "train", "relax", "select", "check"}:
    assert seen.wait(60)
time.sleep(delay)
print("fine " + "x" * 100_000)
"""

ALL = [
    *("chain", "islands", "tree", "graph", "loopy", "mean_field", "trw"),
    *("decode", "sample", "bounds", "train", "python"),
    *("short_trw", "structured", "relax", "select", "check"),
]
LIMITS = ["deadline", "progress", "deadline progress"]


def leave(what: str, limits: str, delay: float, *more: str) -> None:
    done = run(LEAVING, what, limits, str(delay), *more, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "fine " + "x" * 100_000 + "\n"


@pytest.mark.parametrize(
    "limits", [*(pytest.param(s, marks=pytest.mark.slow) for s in LIMITS[:2]), LIMITS[2]]
)
def test_exit_while_every_kind_of_call_is_under_way(limits: str, runs: int) -> None:
    for i in range(-(-runs // 3)):
        leave(" ".join(ALL), limits, 0.005 * (i % 20))


@pytest.mark.slow
@pytest.mark.parametrize("what", ALL)
def test_exit_while_two_calls_are_under_way(what: str, runs: int) -> None:
    for i in range(max(3, -(-runs // len(ALL)))):
        leave(f"{what} {what}", LIMITS[i % 3 - 1], 0.007 * (i % 20))


def test_exit_while_a_progress_callback_does_not_end(runs: int) -> None:
    for i in range(max(1, runs // 9)):
        leave("chain loopy tree", "progress", 0.003 * (i % 20), "endless")


# A handler that was registered before the package was imported runs after the package's own.
LATE_HANDLER = """
import atexit
def late():
    seen = []
    limit = {"deadline": 1e6, "progress": lambda done, total: seen.append(done)}
    assert np.isfinite(vs.infer(ring, method="trw").log_z)
    assert vs.infer(chain, threads=2, **limit).marginals.tobytes() == want
    assert seen
    with vs.schedule.record() as run:
        vs.infer(chain, threads=2)
    assert len(run) == 2
    try:
        vs.infer(chain, deadline=1e-9)
    except vs.DeadlineError:
        print("fine")
atexit.register(late)
import numpy as np, valuesparse as vs
rng = np.random.default_rng(0)
chain = vs.Chain(rng.normal(size=(20_000, 20)), rng.normal(size=(20, 20)),
                 lengths=np.full(200, 100))
want = vs.infer(chain).marginals.tobytes()
ring = vs.FactorGraph([2] * 4)
for i in range(4):
    ring.add([i, (i + 1) % 4], rng.normal(size=(2, 2)))
"""


def test_handlers_at_exit_may_compute() -> None:
    done = run(LATE_HANDLER)
    assert (done.returncode, done.stdout, done.stderr) == (0, "fine\n", "")


# The interpreter joins the executor's threads; a second Ctrl-C cuts that short.
JOINED = """
import time
from concurrent.futures import ThreadPoolExecutor
import numpy as np, valuesparse as vs
rng = np.random.default_rng(0)
chain = vs.Chain(rng.normal(size=(50_000, 16)), rng.normal(size=(16, 16)),
                 lengths=np.full(500, 100))
def work(limit):
    while True:
        vs.infer(chain, threads=2, **limit)
pool = ThreadPoolExecutor(2)
for limit in ({"deadline": 1e6}, {"progress": lambda done, total: None}):
    pool.submit(work, limit)
print("ready", flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT to a child")
def test_exit_where_a_join_is_interrupted(runs: int) -> None:
    for i in range(max(2, runs // 9)):
        child = start(JOINED)
        child.stdout.readline()
        time.sleep(0.02 * (i % 10))
        while child.poll() is None:
            child.send_signal(signal.SIGINT)
            time.sleep(0.2)
        _, err = child.communicate(timeout=60)
        assert child.returncode in (0, 1, 120, 130, -signal.SIGINT), (child.returncode, err)
        assert "FATAL" not in err
