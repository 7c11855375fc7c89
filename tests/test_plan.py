"""The schedule that runs is the schedule that can be seen and simulated."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import valuesparse as vs
from valuesparse.schedule import (
    Kind,
    chain_schedule,
    execute_pool,
    execute_serial,
    plan,
    simulate,
)


def batch(lengths: list[int], k: int) -> vs.Chain:
    rng = np.random.default_rng(0)
    return vs.Chain(rng.normal(size=(sum(lengths), k)), rng.normal(size=(k, k)), lengths)


def test_messages_of_a_batch_are_all_planned() -> None:
    lengths = [3, 40, 0, 7, 7, 1, 25] * 20
    p = plan(batch(lengths, 30), threads=1)
    s = p.schedule
    assert set(s.kind.tolist()) == {Kind.SEGMENT}
    assert s.cost.sum() == vs.infer(batch(lengths, 30)).stats["messages_full"]
    assert sorted(p.order.tolist()) == [i for i, n in enumerate(lengths) if n]
    sizes = np.array(lengths)[p.order]
    assert (np.diff(sizes) <= 0).all()
    # Tasks cover all positions once, in order.
    assert s.begin[0] == 0
    assert s.end[-1] == sum(lengths)
    np.testing.assert_array_equal(s.begin[1:], s.end[:-1])


def test_a_long_chain_is_cut_in_half_passes_that_meet() -> None:
    p = plan(batch([2001], 20), threads=2).schedule
    assert p.kind.tolist() == [Kind.FORWARD, Kind.BACKWARD, Kind.FORWARD, Kind.BACKWARD]
    assert p.waits.tolist() == [0, 0, 2, 2]
    assert list(zip(p.begin.tolist(), p.end.tolist(), strict=True)) == [
        (0, 1000), (1000, 2001), (1000, 2001), (0, 1000)
    ]  # fmt: skip
    assert simulate(p, 1).makespan == p.total_cost
    assert simulate(p, 2).speedup == pytest.approx(2, rel=1e-3)
    assert plan(batch([2001], 20), threads=1).schedule.n_tasks == 1


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_the_pool_runs_every_task_once_and_in_order(threads: int) -> None:
    islands = np.full(60, -1)
    islands[::7] = 0
    s = chain_schedule([60], islands, n_labels=4)
    place = np.full(s.n_tasks, -1)
    lock = threading.Lock()
    count = 0

    def note(task: int, worker: int) -> None:
        nonlocal count
        assert 0 <= worker < threads
        with lock:
            assert place[task] == -1
            place[task] = count
            count += 1

    execute_pool(s, note, threads=threads)
    assert count == s.n_tasks
    for task in range(s.n_tasks):
        after = s.succ[s.succ_ptr[task] : s.succ_ptr[task + 1]]
        assert (place[after] > place[task]).all()
    serial: list[int] = []
    execute_serial(s, serial.append)
    assert serial == list(range(s.n_tasks))


def test_the_first_error_of_a_task_comes_out() -> None:
    def fail(task: int, worker: int) -> None:
        if task >= 3:
            raise RuntimeError(f"task {task}")

    with pytest.raises(RuntimeError, match="task"):
        execute_pool(chain_schedule([50]), fail, threads=2)


def test_plan_wants_a_model() -> None:
    with pytest.raises(TypeError, match="model"):
        plan([1, 2])
