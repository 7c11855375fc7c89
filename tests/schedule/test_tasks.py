"""Plans as data: their own laws, and what is refused."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from handmade_plans import plan_of, plans
from hypothesis import given

from valuesparse import _pool
from valuesparse.schedule import Kind, Plan, simulate

DTYPES = {
    "kind": np.int8,
    "item": np.int64,
    "cost": np.float64,
    "waits": np.int32,
    "succ_ptr": np.int64,
    "succ": np.int64,
}
FIELDS = tuple(DTYPES)


def test_kinds_are_those_of_the_native_code():
    assert [kind.name for kind in Kind] == _pool.task_kinds()
    assert [int(kind) for kind in Kind] == list(range(len(Kind)))


@given(plans())
def test_arrays_are_ready_for_native_code(plan):
    for name in FIELDS:
        array = getattr(plan, name)
        assert array.dtype == DTYPES[name]
        assert array.flags.c_contiguous
        assert not array.flags.writeable


@given(plans())
def test_pickle_round_trip(plan):
    again = pickle.loads(pickle.dumps(plan))
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(again, name), getattr(plan, name))
        assert not getattr(again, name).flags.writeable


def test_inputs_are_copied():
    cost = np.ones(2)
    plan = Plan([0, 0], [(0, 1), (1, 2)], cost, [0, 0], [0, 0, 0], [])
    cost[0] = 5.0
    assert plan.cost.tolist() == [1.0, 1.0]


def test_critical_path_by_hand():
    # 0 -> 1 -> 3 costs 2 + 5 + 1; 0 -> 2 -> 3 costs 2 + 3 + 1; 4 stands alone.
    plan = plan_of([2, 5, 3, 1, 7], [(0, 1), (0, 2), (1, 3), (2, 3)])
    assert plan.path_costs().tolist() == [8, 6, 4, 1, 7]
    assert plan.span == 8
    assert plan.total_cost == 18
    assert plan.path_costs(np.ones(5)).tolist() == [3, 2, 2, 1, 1]


def test_empty_plan():
    plan = plan_of([], [])
    assert (plan.n_tasks, plan.total_cost, plan.span) == (0, 0.0, 0.0)
    run = simulate(plan, 3)
    assert (run.makespan, run.speedup, run.busy.tolist()) == (0.0, 1.0, [0.0] * 3)


GOOD = {
    "kind": [0, 1, 3],
    "item": [[1, 2], [0, 1], [0, 2]],
    "cost": [1.0, 1.0, 0.5],
    "waits": [0, 0, 2],
    "succ_ptr": [0, 1, 2, 2],
    "succ": [2, 2],
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": [0, 99, 3]}, r"kind\[1\] = 99 is no schedule.Kind"),
        ({"kind": [0, 1000, 3]}, "kind holds 1000, which does not fit int8"),
        ({"item": [[1, 2], [0, 1]]}, "item has 2 entries for 3 tasks"),
        ({"item": [1, 0, 0]}, r"item has shape \(3,\): give \(n, 2\)"),
        ({"item": [[1, 2], [-1, 0], [0, 2]]}, r"item\[1\] = \[-1  0\] is negative"),
        ({"measured": [1]}, "measured has 1 entries for 3 tasks"),
        ({"cost": [1.0, np.nan, 0.5]}, r"cost\[1\] = nan is not a finite number >= 0"),
        ({"cost": [1.0, 1.0, -0.5]}, r"cost\[2\] = -0.5 is not a finite number >= 0"),
        ({"cost": [[1.0, 1.0, 0.5]]}, r"cost has 2 dimensions"),
        ({"cost": [1e308, 1e308, 0.5]}, "entries of cost add up to more than a float64"),
        ({"cost": [[1.0], [1.0, 0.5]]}, r"cost must be one array, its rows all of one shape"),
        ({"kind": [[0], [1, 2]]}, r"kind must be one array, its rows all of one shape"),
        ({"threads": -5}, "threads = -5: give at least 1"),
        ({"threads": 0}, "threads = 0: give at least 1"),
        ({"waits": [0, 0, 1]}, r"waits\[2\] = 1, but 2 entries of succ name task 2"),
        ({"succ_ptr": [0, 1, 2]}, r"succ_ptr has 3 entries for 3 tasks: give 4"),
        ({"succ_ptr": [1, 1, 2, 2]}, r"succ_ptr runs from 1 to 2: it must run from 0 to 2"),
        ({"succ_ptr": [0, 2, 1, 2]}, r"succ_ptr\[2\] = 1 is smaller than the entry before it"),
        ({"succ": [2, 3]}, r"succ\[1\] = 3 is no task: there are 3"),
        ({"succ": [0, 2], "waits": [1, 0, 1]}, r"succ\[0\] = 0 follows task 0.*topological"),
        ({"succ": [2, 0], "waits": [1, 0, 1]}, r"succ\[1\] = 0 follows task 1.*topological"),
    ],
)
def test_bad_data_is_named(change, message):
    Plan(**GOOD)
    with pytest.raises(ValueError, match=message):
        Plan(**{**GOOD, **change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"succ": [2.0, 2.0]}, "succ has dtype float64: give int64 values"),
        ({"cost": ["a", "b", "c"]}, "cost has dtype <U1"),
        ({"cost": [1j, 1, 1]}, "cost has dtype complex128"),
        ({"label": 5}, "label must be a str, not int"),
        ({"round": 0.5}, "round must be an integer, not float"),
        ({"threads": None}, "threads must be an integer, not NoneType"),
    ],
)
def test_bad_dtypes_are_named(change, message):
    with pytest.raises(TypeError, match=message):
        Plan(**{**GOOD, **change})
