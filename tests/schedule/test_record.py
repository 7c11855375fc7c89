"""Recorded plans: every plan of a call, every task once, with its time, and the same bits."""

from __future__ import annotations

import copy
import itertools
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import valuesparse as vs
from valuesparse import crf
from valuesparse.schedule import Plan, plan, record, simulate

rng = np.random.default_rng(0)
CHAIN = vs.Chain(rng.normal(size=(6000, 20)), rng.normal(size=(20, 20)), [5000, 300, 700])
TREE = vs.Tree(
    np.r_[-1, [int(rng.integers(max(0, i - 50), i)) for i in range(1, 5000)]],
    3.0 * rng.normal(size=(5000, 8)),
    rng.normal(size=(8, 8)),
)
GRAPH = vs.FactorGraph([4] * 64)
for v in range(64):
    if v % 8:
        GRAPH.add([v - 1, v], rng.normal(size=(4, 4)))
    if v >= 8:
        GRAPH.add([v - 8, v], rng.normal(size=(4, 4)))
LOOPY = vs.FactorGraph([2] * 3000)
for v in range(1, 3000):
    LOOPY.add([int(rng.integers(0, v)), v], rng.normal(size=(2, 2)))
    LOOPY.add([v, int(rng.integers(0, v))], rng.normal(size=(2, 2)))


def learn(threads: int) -> Any:
    """Train a tagger."""
    items = [[{"a": float(i % 3), "b": 1.0}, {"c": 1.0}] for i in range(50)]
    labels = [[str(i % 3), "x"] for i in range(50)]
    return crf.CRF(max_iterations=3, threads=threads).fit(items, labels)


def answer(r: vs.Result) -> list[bytes]:
    return [np.asarray(x).tobytes() for x in (*r.marginals, r.log_z)]


CALLS: dict[str, tuple[Callable[[int], Any], set[str]]] = {
    "chain": (lambda t: answer(vs.infer(CHAIN, threads=t)), {"pack", "exact"}),
    "chain, islands": (lambda t: answer(vs.infer(CHAIN, zeta=0.8, threads=t)), {"islands"}),
    "chain, best": (lambda t: vs.decode(CHAIN, threads=t).states.tobytes(), {"decode"}),
    "chain, n best": (lambda t: vs.decode(CHAIN, n_best=2, threads=t).states.tobytes(), {"decode"}),
    "chain, samples": (
        lambda t: vs.sample(CHAIN, 2, np.random.default_rng(0), threads=t).tobytes(),
        {"sample"},
    ),
    "tree": (lambda t: answer(vs.infer(TREE, threads=t)), {"exact"}),
    "tree, islands": (lambda t: answer(vs.infer(TREE, zeta=0.8, threads=t)), {"islands"}),
    "tree, best": (lambda t: vs.decode(TREE, threads=t).states.tobytes(), {"decode"}),
    "tree, samples": (
        lambda t: vs.sample(TREE, 2, np.random.default_rng(0), threads=t).tobytes(),
        {"exact", "sample"},
    ),
    "graph": (lambda t: answer(vs.infer(GRAPH, threads=t)), {"up and down"}),
    "graph, best": (lambda t: b"".join(map(bytes, vs.decode(GRAPH, threads=t).states)), {"up"}),
    "graph, islands": (lambda t: answer(vs.infer(GRAPH, zeta=0.8, threads=t)), {"up and down"}),
    "loopy": (lambda t: answer(vs.infer(LOOPY, method="bp", threads=t)), {"pairs"}),
    "rounds": (
        lambda t: answer(vs.infer(GRAPH, method=vs.BP(schedule="rounds"), threads=t)),
        {"messages", "variables"},
    ),
    "mean field": (lambda t: answer(vs.infer(GRAPH, method="mean_field", threads=t)), set()),
}


def valid(p: Plan) -> None:
    """Every task ran once, after those that it waits for, and no two at once on one thread."""
    assert p.measured is not None
    assert p.start is not None
    assert p.worker is not None
    assert (p.measured >= 0).all()
    assert (p.start >= 0).all()
    assert ((p.worker >= 0) & (p.worker < max(p.threads, 1))).all()
    end = p.start + p.measured
    before = np.repeat(np.arange(p.n_tasks), np.diff(p.succ_ptr))
    assert (before < p.succ).all()
    assert (end[before] <= p.start[p.succ]).all()
    for worker in set(p.worker.tolist()):
        mine = np.flatnonzero(p.worker == worker)
        mine = mine[np.lexsort((end[mine], p.start[mine]))]
        assert (end[mine][:-1] <= p.start[mine][1:]).all()


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("name", CALLS)
def test_calls_are_recorded_and_answer_alike(name: str, threads: int) -> None:
    call, labels = CALLS[name]
    plain = call(threads)
    for serial in (False, True):
        with record(serial=serial) as run:
            assert call(threads) == plain
        assert labels <= {p.label for p in run}
        for p in run:
            valid(p)
            if serial:
                assert not p.worker.any()
        for one, other in itertools.pairwise(run):
            assert (one.start + one.measured).max() <= other.start.min()
        if len(run):
            time = simulate(run, threads, costs="measured")
            assert time.work == sum(int(p.measured.sum()) for p in run)
            assert time.work / threads - 1e-6 <= time.makespan <= time.work


def test_training_is_recorded() -> None:
    plain = learn(2)
    with record() as run:
        again = learn(2)
    assert again.state_features_ == plain.state_features_
    assert {"loss", "gradient", "vectors"} <= {p.label for p in run}
    for p in run:
        valid(p)


def test_islands_are_a_plan_a_step() -> None:
    with record() as run:
        vs.infer(TREE, zeta=0.8)
    rounds = [p.round for p in run if p.label == "islands"]
    assert rounds == sorted(rounds)
    assert rounds[0] == 0
    assert 4 < len(rounds) < 200
    with pytest.raises(ValueError, match="costs = 'messages', but islands are found on the way"):
        simulate(run, 2)


def test_nothing_is_recorded_outside() -> None:
    with record() as run:
        pass
    vs.infer(CHAIN)
    assert len(run) == 0
    assert run[:] == list(run) == []
    with pytest.raises(IndexError, match="plan 0 of a recording that has 0"):
        run[0]


def test_recordings_nest_and_begin_once() -> None:
    with record() as outer:
        vs.decode(CHAIN)
        with record() as inner:
            vs.infer(CHAIN)
        vs.decode(CHAIN)
    assert [p.label for p in outer] == ["decode"] * 2
    assert [p.label for p in inner] == ["pack", "exact"]
    assert inner[-1].label == "exact"
    with outer:
        vs.decode(CHAIN)
        with pytest.raises(RuntimeError, match="begun already"):
            outer.__enter__()
    assert len(outer) == 3
    first, second = record(), record()
    first.__enter__()
    second.__enter__()
    with pytest.raises(RuntimeError, match="not the last that began on this thread"):
        first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    first.__exit__(None, None, None)


def test_threads_of_python_record_apart() -> None:
    runs: dict[str, list[str]] = {}
    together = threading.Barrier(3)

    def ask(name: str, call: Callable[[], object]) -> None:
        together.wait()
        for _ in range(20):
            with record() as run:
                call()
            runs.setdefault(name, []).append(" ".join(p.label for p in run))
            for p in run:
                valid(p)

    workers = [
        threading.Thread(target=ask, args=("chain", lambda: vs.infer(CHAIN, threads=2))),
        threading.Thread(target=ask, args=("tree", lambda: vs.decode(TREE, threads=2))),
    ]
    with record() as mine:
        for worker in workers:
            worker.start()
        together.wait()
        for worker in workers:
            worker.join()
    assert runs == {"chain": ["pack exact"] * 20, "tree": ["decode"] * 20}
    assert len(mine) == 0


def test_errors_end_a_recording() -> None:
    def fail() -> None:
        vs.decode(CHAIN)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), record() as run:
        fail()
    vs.decode(CHAIN)
    assert [p.label for p in run] == ["decode"]
    with record() as run, pytest.raises(vs.InfeasibleError):
        vs.infer(vs.Chain(np.full((3, 2), -np.inf), np.zeros((2, 2))))
    for p in run:
        valid(p)


def test_a_deadline_leaves_tasks_that_did_not_run() -> None:
    batch = vs.Chain(np.zeros((400_000, 40)), np.zeros((40, 40)), np.full(4000, 100))
    with record() as run, pytest.raises(vs.DeadlineError):
        vs.infer(batch, deadline=0.01, threads=2)
    ran = run[-1]
    assert ran.label == "exact"
    assert (ran.measured < 0).any()
    assert ((ran.measured < 0) == (ran.worker < 0)).all()
    with pytest.raises(ValueError, match=r"task \d+ of plan 1 was not run: the call was stopped"):
        simulate(run, 2, costs="measured")


@pytest.mark.skipif(sys.platform == "win32", reason="no pthread_kill")
def test_ctrl_c_ends_a_recording() -> None:
    batch = vs.Chain(np.zeros((2_000_000, 20)), np.zeros((20, 20)), np.full(20_000, 100))
    main = threading.main_thread().ident
    assert main is not None

    def interrupt() -> None:
        time.sleep(0.05)
        signal.pthread_kill(main, signal.SIGINT)

    worker = threading.Thread(target=interrupt)

    def ask() -> None:
        worker.start()
        for _ in range(200):
            vs.infer(batch)

    # A process that a shell starts in the background ignores Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), record() as run:
            ask()
    finally:
        worker.join()
        signal.signal(signal.SIGINT, before)
    kept = len(run)
    vs.decode(CHAIN)
    assert len(run) == kept


def test_what_a_callback_runs_is_part_of_its_task() -> None:
    seen = []

    def progress(done: int, total: int) -> None:
        with record() as inner:
            vs.decode(CHAIN)
        seen.append(len(inner))

    with record() as run:
        vs.infer(CHAIN, progress=progress)
    assert [p.label for p in run] == ["pack", "exact"]
    assert set(seen) == {1}


def test_recorded_plans_pickle_and_outlive_their_recording() -> None:
    with record() as run:
        vs.infer(CHAIN, threads=2)
    p = run[-1]
    del run
    again = pickle.loads(pickle.dumps(p))
    assert (again.label, again.round, again.threads) == (p.label, p.round, p.threads)
    for name in ("kind", "item", "cost", "waits", "succ_ptr", "succ", "order"):
        np.testing.assert_array_equal(getattr(again, name), getattr(p, name))
        assert not getattr(p, name).flags.writeable
    np.testing.assert_array_equal(again.measured, p.measured)
    assert repr(p).startswith("Plan('exact', n_tasks=")
    assert "measured" not in repr(plan(CHAIN))


def test_a_recording_holds_its_own_plans() -> None:
    with record() as run:
        vs.infer(CHAIN, threads=2)
        first = run[0]
    assert run[0] is run[-2] is run[:1][0] is next(iter(run)) is first
    assert run[1] is not first
    assert run[1] in run
    assert (run.index(run[1]), run.count(first)) == (1, 1)
    assert run[np.int64(1)] is run[1]
    again = copy.copy(run)
    assert again[0] is again[0]


@pytest.mark.parametrize("at", [0.5, "a", None, (0,)])
def test_plans_are_asked_for_by_number(at: Any) -> None:
    with record() as run:
        vs.decode(CHAIN)
    said = f"by an integer or a slice, not by a {type(at).__name__}"
    for some in (run, pickle.loads(pickle.dumps(run))):
        with pytest.raises(TypeError, match=said):
            some[at]


@pytest.mark.parametrize("twin", [copy.deepcopy, lambda run: pickle.loads(pickle.dumps(run))])
def test_recordings_are_copied_with_their_plans(twin: Callable[[Any], Any]) -> None:
    with record() as run:
        vs.infer(CHAIN, threads=2)
    again = twin(run)
    assert (len(again), repr(again)) == (len(run), repr(run))
    np.testing.assert_array_equal(again[-1].measured, run[-1].measured)
    assert [p.label for p in twin(again)[:]] == ["pack", "exact"]
    one, other = (simulate(plans, 2, costs="measured") for plans in (run, again))
    assert one.speedup == other.speedup
    with pytest.raises(RuntimeError, match="make another for each block"), again:
        pass
