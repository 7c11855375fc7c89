"""The schedule that runs is the schedule that can be seen and simulated."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import valuesparse as vs
from valuesparse import _pool
from valuesparse.schedule import (
    Kind,
    chain_schedule,
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

    _pool.run_schedule(s.waits, s.succ_ptr, s.succ, note, threads)
    assert count == s.n_tasks
    for task in range(s.n_tasks):
        after = s.succ[s.succ_ptr[task] : s.succ_ptr[task + 1]]
        assert (place[after] > place[task]).all()


def test_the_first_error_of_a_task_comes_out() -> None:
    def fail(task: int, worker: int) -> None:
        if task >= 3:
            raise RuntimeError(f"task {task}")

    s = chain_schedule([50])
    with pytest.raises(RuntimeError, match="task"):
        _pool.run_schedule(s.waits, s.succ_ptr, s.succ, fail, 2)


def test_plan_wants_a_model() -> None:
    with pytest.raises(TypeError, match="model"):
        plan([1, 2])


def _kinds(s) -> set[int]:
    return set(s.kind.tolist())


def _tree(n: int) -> vs.Tree:
    rng = np.random.default_rng(1)
    parent = np.r_[-1, [int(rng.integers(max(0, i - 500), i)) for i in range(1, n)]]
    parent[n // 2] = -1  # a forest
    return vs.Tree(parent, rng.normal(size=(n, 4)), rng.normal(size=(4, 4)))


def test_plan_of_a_tree() -> None:
    model = _tree(30_000)
    p = plan(model)
    s = p.schedule
    assert sorted(p.order.tolist()) == list(range(30_000))
    up, down = s.kind == Kind.UPWARD, s.kind == Kind.DOWNWARD
    assert up.sum() == down.sum() == s.n_tasks // 2 > 4
    place = np.empty(30_000, dtype=np.int64)
    place[p.order] = np.arange(30_000)
    for which in (up, down):  # every node once in each direction
        first, last = s.begin[which], s.end[which]
        assert sorted(range(30_000)) == sorted(
            x for a, b in zip(first, last, strict=True) for x in range(a, b)
        )
    # A node's message goes up before its parent's, and its marginal is known after its parent's.
    turn = _turns(s, 30_000)
    to = np.flatnonzero(model.parent >= 0)
    child, above = place[to], place[model.parent[to]]
    assert (turn[0][child] <= turn[0][above]).all()
    assert (turn[1][child] >= turn[1][above]).all()
    assert 1.0 < simulate(s, 2).speedup <= 2.0
    path = vs.Tree(np.arange(2001) - 1, np.zeros((2001, 20)), np.zeros((20, 20)))
    assert simulate(plan(path).schedule, 2).speedup > 1.9  # from its middle, as a chain


def _turns(s, n: int) -> np.ndarray:
    """When each position is worked on, up and down, in an order that only dependencies decide."""
    finish = simulate(s, 8).finish
    turn = np.full((2, n), np.nan)
    for t in range(s.n_tasks):
        turn[int(s.kind[t] == Kind.DOWNWARD), s.begin[t] : s.end[t]] = finish[t]
    assert not np.isnan(turn).any()
    return turn


def _grid(side: int, states: int) -> vs.FactorGraph:
    rng = np.random.default_rng(0)
    graph = vs.FactorGraph([states] * side * side)
    for v in range(side * side):
        if v % side:
            graph.add([v - 1, v], rng.normal(0, 1, (states, states)))
        if v >= side:
            graph.add([v - side, v], rng.normal(0, 1, (states, states)))
    return graph


@pytest.mark.parametrize("make", [lambda: _grid(8, 5), lambda: _grid(5, 2), lambda: _forest(300)])
def test_plan_of_a_graph(make) -> None:
    jt = vs.JunctionTree(make())
    p = plan(jt)
    s = p.schedule
    n = len(jt.cliques)
    (middle,) = np.flatnonzero(s.kind == Kind.COMBINE)
    assert s.n_messages == 2 * n
    works = np.isin(s.kind, [Kind.UPWARD, Kind.DOWNWARD, Kind.MERGE])
    for half in (np.arange(s.n_tasks) < middle, np.arange(s.n_tasks) > middle):
        done = [
            p.order[x] for t in np.flatnonzero(works & half) for x in range(s.begin[t], s.end[t])
        ]
        assert sorted(done) == list(range(n))  # every clique once in each direction
    finish, start = simulate(s, 8).finish, simulate(s, 8).start
    ends = np.full((2, n), np.nan)
    for t in np.flatnonzero(works):
        ends[int(t > middle), p.order[s.begin[t] : s.end[t]]] = finish[t]
    parent = np.array(jt.parent)
    child = np.flatnonzero(parent >= 0)
    assert (ends[0, child] <= ends[0, parent[child]]).all()
    assert (ends[1, child] >= ends[1, parent[child]]).all()
    assert (finish[:middle] <= start[middle]).all()
    rows = np.flatnonzero(s.kind == Kind.ROWS)
    if rows.size:
        assert simulate(s, 2).speedup > 1.5
    assert simulate(s, 1).makespan == pytest.approx(s.total_cost)


def test_plans_of_graphs_run_on_the_pool() -> None:
    s = plan(_grid(8, 5)).schedule
    assert _kinds(s) >= {Kind.SPLIT, Kind.ROWS, Kind.MERGE, Kind.COMBINE}
    done: list[int] = []
    _pool.run_schedule(s.waits, s.succ_ptr, s.succ, lambda task, worker: done.append(task), 3)
    place = np.empty(s.n_tasks, dtype=np.int64)
    place[done] = np.arange(s.n_tasks)
    for task in range(s.n_tasks):
        assert (place[s.succ[s.succ_ptr[task] : s.succ_ptr[task + 1]]] > place[task]).all()


def test_plan_of_a_tree_with_evidence_is_that_of_its_evidence() -> None:
    jt = vs.JunctionTree(_grid(6, 3))
    before = plan(jt).schedule.total_cost
    jt.infer({0: 1, 7: 2})
    assert plan(jt).schedule.total_cost == before
    assert plan(vs.JunctionTree(_grid(6, 3), evidence={7: 0})).schedule.total_cost < before
    assert plan(vs.FactorGraph([])).schedule.n_tasks == 1


def _forest(n: int) -> vs.FactorGraph:
    graph = vs.FactorGraph([2] * n)
    for v in range(1, n):
        if v % 50:
            graph.add([(v - 1) // 2 if v % 50 > 25 else v - 1, v], np.zeros((2, 2)))
    return graph
