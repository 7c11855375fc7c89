"""The laws of greedy scheduling, on plans made by hand and random ones."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from handmade_plans import edges_of, plan_of, plans
from hypothesis import given
from hypothesis import strategies as st

import valuesparse as vs
from valuesparse.schedule import Plan, simulate

FIELDS = ("kind", "item", "cost", "waits", "succ_ptr", "succ")


@given(plans(), st.integers(1, 9))
def test_simulation_is_a_valid_run(plan, cores):
    run = simulate(plan, cores)
    np.testing.assert_array_equal(run.finish, run.start + plan.cost)
    for a, b in edges_of(plan):
        assert run.start[b] >= run.finish[a]
    assert ((run.core >= 0) & (run.core < cores)).all()
    for core in range(cores):
        mine = np.flatnonzero(run.core == core)
        mine = mine[np.lexsort((run.finish[mine], run.start[mine]))]
        assert (run.start[mine][1:] >= run.finish[mine][:-1]).all()
        assert run.busy[core] == plan.cost[mine].sum()
    assert run.busy.sum() == run.work == plan.total_cost


@given(plans(), st.integers(1, 9))
def test_makespan_keeps_to_its_bounds(plan, cores):
    run = simulate(plan, cores)
    assert run.span == plan.span
    assert run.makespan >= max(run.span, run.work / cores) - 1e-9
    assert run.makespan <= run.work / cores + (1 - 1 / cores) * run.span + 1e-9
    assert run.utilisation <= 1 + 1e-12


@given(plans())
def test_one_core_takes_all_the_work(plan):
    run = simulate(plan, 1)
    assert run.makespan == plan.total_cost
    assert run.speedup == 1.0


@given(plans())
def test_enough_cores_take_the_span(plan):
    assert simulate(plan, max(plan.n_tasks, 1)).makespan == plan.span


@given(plans(), st.integers(1, 4))
def test_no_core_idles_while_a_task_is_ready(plan, cores):
    run = simulate(plan, cores)
    ready = np.zeros(plan.n_tasks)
    for a, b in edges_of(plan):
        ready[b] = max(ready[b], run.finish[a])
    for task in range(plan.n_tasks):
        for moment in {*run.finish.tolist(), 0.0}:
            if ready[task] <= moment < run.start[task]:
                assert ((run.start <= moment) & (moment < run.finish)).sum() == cores


@given(plans(), st.integers(1, 5))
def test_simulation_is_deterministic(plan, cores):
    one, other = simulate(plan, cores), simulate(pickle.loads(pickle.dumps(plan)), cores)
    np.testing.assert_array_equal(one.start, other.start)
    np.testing.assert_array_equal(one.core, other.core)


def test_longest_path_first_then_lowest_index():
    # Tasks 0, 1 and 2 are ready; 2 heads the longest path, 0 and 1 tie.
    plan = plan_of([1, 1, 1, 5], [(2, 3)])
    run = simulate(plan, 1)
    assert run.start.tolist() == [6, 7, 0, 1]


def test_costs():
    plan = plan_of([1, 0.1, 1, 2], [(0, 1)])
    assert simulate(plan, 1).makespan == pytest.approx(4.1)
    times = np.linspace(0.5, 3, 4)
    assert simulate(plan, 1, costs=times).makespan == pytest.approx(times.sum())
    ran = Plan(**{f: getattr(plan, f) for f in FIELDS}, measured=[5, 6, 7, 8])
    assert simulate(ran, 1, costs="measured").makespan == 26


@given(st.lists(plans(), max_size=4), st.integers(1, 4))
def test_several_plans_run_one_after_the_other(several, cores):
    run = simulate(several, cores)
    alone = [simulate(plan, cores) for plan in several]
    assert run.makespan == sum(one.makespan for one in alone)
    assert run.work == sum(one.work for one in alone)
    assert run.span == sum(one.span for one in alone)
    at, now = 0, 0.0
    for plan, one in zip(several, alone, strict=True):
        end = at + plan.n_tasks
        np.testing.assert_array_equal(run.start[at:end], one.start + now)
        np.testing.assert_array_equal(run.core[at:end], one.core)
        at, now = end, now + one.makespan


@pytest.mark.parametrize(
    ("cores", "costs", "error", "message"),
    [
        (0, "messages", ValueError, "cores = 0: give at least 1"),
        (1.5, "messages", TypeError, "cores has type float"),
        (1, "unit", ValueError, "costs = 'unit': give 'messages'"),
        (1, "measured", ValueError, r"plan 0 was not run: record it with valuesparse.schedule.rec"),
        (1, [1.0], ValueError, r"costs has shape \(1,\): give \(4,\)"),
        (1, [1.0, 1.0, np.inf, 1.0], ValueError, r"costs\[2\] = inf"),
        (1, [1e308] * 4, ValueError, "entries of costs add up to more than a float64 holds"),
        (1, [[1.0], [1.0, 2.0]], ValueError, "costs must be one array, its rows all of one"),
        (1, [1j] * 4, TypeError, "costs has dtype complex128"),
    ],
)
def test_bad_simulation_arguments_are_named(cores, costs, error, message):
    with pytest.raises(error, match=message):
        simulate(plan_of([1, 1, 1, 1], []), cores, costs=costs)


def test_costs_of_several_plans_have_a_sum():
    plan = plan_of([1e308], [])
    assert simulate(plan, 2).makespan == 1e308
    with pytest.raises(ValueError, match="entries of costs add up to more than"):
        simulate([plan, plan], 2)


def test_large_plans_are_simulated():
    n = 100_000  # a second; hours if a loop is quadratic
    edges = [(i, i + 1) for i in range(n - 1) if i % 7]
    assert simulate(plan_of(np.ones(n), edges), 8).utilisation > 0.99


CYCLE = vs.FactorGraph([2] * 9)
for v in range(9):
    CYCLE.add([v, (v + 1) % 9], np.eye(2))
SHORT = vs.Chain(np.zeros((5, 3)), np.zeros((3, 3)), lengths=[1] * 5)


@pytest.mark.parametrize(
    "call", [lambda: vs.infer(CYCLE, method="bp"), lambda: vs.decode(SHORT)], ids=["bp", "decode"]
)
def test_messages_that_nobody_counts_are_no_costs(call):
    with vs.schedule.record() as run:
        call()
    with pytest.raises(ValueError, match=r"costs = 'messages', but tasks of '\w+' count none"):
        simulate(run, 2)
    assert simulate(run, 2, costs="measured").work > 0


@pytest.mark.parametrize(
    "model",
    [SHORT, vs.Tree([-1], np.zeros((1, 2)), np.zeros((2, 2))), vs.FactorGraph([]),
     vs.FactorGraph([2])],
    ids=["chain", "tree", "empty graph", "graph"],
)  # fmt: skip
def test_models_without_messages_cost_what_is_counted(model):
    shown = vs.schedule.plan(model)
    assert simulate(shown, 2).work == shown.total_cost
    with vs.schedule.record() as run:
        vs.infer(model)
    assert simulate(run, 2).work >= 0


def test_recordings_of_nothing_are_simulated():
    with vs.schedule.record() as run:
        pass
    assert simulate(run, 2).makespan == 0
