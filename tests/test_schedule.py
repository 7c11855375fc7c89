"""Schedules: the data's own laws, chains counted by hand, and the laws of greedy scheduling."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from valuesparse.schedule import (
    Kind,
    Schedule,
    chain_schedule,
    simulate,
)

FIELDS = ("kind", "begin", "end", "cost", "waits", "succ_ptr", "succ")
DTYPES = {
    "kind": np.int8,
    "begin": np.int64,
    "end": np.int64,
    "cost": np.float64,
    "waits": np.int32,
    "succ_ptr": np.int64,
    "succ": np.int64,
}


def plan_of(costs, edges):
    """Return a plan of anonymous tasks with the given dependencies."""
    n = len(costs)
    return Schedule.from_edges(
        kind=np.zeros(n, dtype=np.int8),
        begin=np.arange(n),
        end=np.arange(n) + 1,
        cost=np.asarray(costs, dtype=float),
        before=[a for a, _ in edges],
        after=[b for _, b in edges],
    )


def edges_of(plan):
    """Return the dependencies of a plan as (before, after) pairs."""
    source = np.repeat(np.arange(plan.n_tasks), np.diff(plan.succ_ptr))
    return list(zip(source.tolist(), plan.succ.tolist(), strict=True))


@st.composite
def plans(draw, max_tasks=25):
    """Random acyclic plans; costs are small integers, so sums are exact, and may be 0."""
    n = draw(st.integers(0, max_tasks))
    costs = draw(st.lists(st.integers(0, 9), min_size=n, max_size=n))
    pairs = [(a, b) for b in range(n) for a in range(b)]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=3 * n)) if pairs else []
    return plan_of(costs, edges)


@st.composite
def chains(draw):
    """Ragged batches with random islands."""
    lengths = draw(st.lists(st.integers(0, 12), max_size=5))
    total = sum(lengths)
    values = draw(st.lists(st.integers(-1, 1), min_size=total, max_size=total))
    return lengths, np.asarray(values, dtype=np.int32)


def expected_messages(lengths, islands, sparse):
    """Every message of a batch, edge by edge: {(kind, receiver): cost}."""
    messages = {}
    offset = 0
    for length in lengths:
        for left in range(offset, offset + length - 1):
            right = left + 1
            messages[Kind.FORWARD, right] = sparse if islands[left] >= 0 else 1.0
            messages[Kind.BACKWARD, left] = sparse if islands[right] >= 0 else 1.0
        offset += length
    return messages


# --- the data ---


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
    plan = Schedule.from_edges(kind=[0, 0], begin=[0, 1], end=[1, 2], cost=cost)
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
    assert (plan.n_tasks, plan.n_messages, plan.total_cost, plan.span) == (0, 0, 0.0, 0.0)
    run = simulate(plan, 3)
    assert (run.makespan, run.speedup, run.busy.tolist()) == (0.0, 1.0, [0.0] * 3)


GOOD = {
    "kind": [0, 1, 3],
    "begin": [1, 0, 0],
    "end": [2, 1, 2],
    "cost": [1.0, 1.0, 0.5],
    "waits": [0, 0, 2],
    "succ_ptr": [0, 1, 2, 2],
    "succ": [2, 2],
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": [0, 99, 3]}, r"kind\[1\] = 99 is no schedule.Kind"),
        ({"kind": [0, 1000, 3]}, r"kind\[1\] = 1000 does not fit int8"),
        ({"begin": [1, 0]}, r"begin has 2 entries for 3 tasks"),
        ({"begin": [1, -1, 0]}, r"begin\[1\] = -1 is negative"),
        ({"end": [2, 1, -1]}, r"end\[2\] = -1 lies before begin"),
        ({"cost": [1.0, np.nan, 0.5]}, r"cost\[1\] = nan is not a finite number >= 0"),
        ({"cost": [1.0, 1.0, -0.5]}, r"cost\[2\] = -0.5 is not a finite number >= 0"),
        ({"cost": [[1.0, 1.0, 0.5]]}, r"cost has 2 dimensions"),
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
    Schedule(**GOOD)
    with pytest.raises(ValueError, match=message):
        Schedule(**{**GOOD, **change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"succ": [2.0, 2.0]}, "succ has dtype float64: give int64 values"),
        ({"cost": ["a", "b", "c"]}, "cost has dtype <U1"),
        ({"cost": [1j, 1, 1]}, "cost has dtype complex128"),
    ],
)
def test_bad_dtypes_are_named(change, message):
    with pytest.raises(TypeError, match=message):
        Schedule(**{**GOOD, **change})


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ([0], [1, 1], "before has 1 entries and after has 2"),
        ([0, 2], [1, 1], r"before\[1\] = 2 is no task: there are 2"),
        ([0], [-1], r"after\[0\] = -1 is no task"),
        ([1], [0], "topological"),
    ],
)
def test_bad_dependencies_are_named(before, after, message):
    with pytest.raises(ValueError, match=message):
        Schedule.from_edges(
            kind=[0, 0], begin=[0, 0], end=[1, 1], cost=[1, 1], before=before, after=after
        )


# --- chains ---


@pytest.mark.parametrize("granularity", ["message", "pass", "segment"])
def test_exact_chain_counts(granularity):
    for n in (1, 2, 3, 10, 128):
        plan = chain_schedule([n], granularity=granularity)
        assert plan.n_messages == 2 * (n - 1)
        assert plan.total_cost == 2 * (n - 1)
        tasks = {"message": 2 * (n - 1), "pass": 2, "segment": 1}[granularity]
        assert plan.n_tasks == (tasks if n > 1 else 0)
        assert plan.span == (n - 1) * (2 if granularity == "segment" else 1)


def test_exact_batch_counts():
    lengths = [3, 0, 1, 7, 2]
    plan = chain_schedule(lengths)
    assert plan.n_messages == 2 * sum(max(n - 1, 0) for n in lengths)
    assert plan.span == 6
    assert chain_schedule(5).n_messages == 8
    assert chain_schedule([]).n_tasks == 0
    assert chain_schedule([0, 0]).n_tasks == 0


def test_segments_by_hand():
    # o o X o X X o: islands at 2, 4 and 5; segments of 2, 2, 1 and 1 edges.
    islands = np.array([-1, -1, 0, -1, 3, 3, -1])
    plan = chain_schedule(7, islands, sparse_cost=0.25, granularity="pass")
    assert plan.kind.tolist() == [0, 1] * 4
    assert list(zip(plan.begin.tolist(), plan.end.tolist(), strict=True)) == [
        (1, 3), (0, 2), (3, 5), (2, 4), (5, 6), (4, 5), (6, 7), (5, 6),
    ]  # fmt: skip
    assert plan.cost.tolist() == [2.0, 1.25, 1.25, 1.25, 0.25, 0.25, 0.25, 1.0]
    assert plan.succ.size == 0
    whole = chain_schedule(7, islands, sparse_cost=0.25, granularity="segment")
    assert list(zip(whole.begin.tolist(), whole.end.tolist(), strict=True)) == [
        (0, 3), (2, 5), (4, 6), (5, 7),
    ]  # fmt: skip
    assert whole.cost.tolist() == [3.25, 2.5, 0.5, 1.25]


@given(chains())
def test_every_message_once_at_its_cost(chain):
    lengths, islands = chain
    plan = chain_schedule(lengths, islands, n_labels=8)
    found = {
        (Kind(kind), begin): cost
        for kind, begin, cost in zip(
            plan.kind.tolist(), plan.begin.tolist(), plan.cost.tolist(), strict=True
        )
    }
    assert len(found) == plan.n_tasks
    assert found == expected_messages(lengths, islands, 1 / 8)
    assert (plan.end - plan.begin == 1).all()


@given(chains())
def test_a_message_waits_for_the_one_behind_it_unless_an_island_sends(chain):
    lengths, islands = chain
    plan = chain_schedule(lengths, islands, n_labels=8)
    found = {
        (plan.kind[b].item(), plan.begin[a].item(), plan.begin[b].item()) for a, b in edges_of(plan)
    }
    messages = expected_messages(lengths, islands, 1 / 8)
    wanted = set()
    for kind, receiver in messages:
        sender = receiver - 1 if kind == Kind.FORWARD else receiver + 1
        if (kind, sender) in messages and islands[sender] < 0:
            wanted.add((int(kind), sender, receiver))
    assert found == wanted


@given(chains())
def test_granularities_agree(chain):
    lengths, islands = chain
    fine, passes, segments = (
        chain_schedule(lengths, islands, n_labels=4, granularity=g)
        for g in ("message", "pass", "segment")
    )
    assert fine.n_messages == passes.n_messages == segments.n_messages
    assert passes.total_cost == pytest.approx(fine.total_cost)
    assert segments.total_cost == pytest.approx(fine.total_cost)
    assert passes.span == pytest.approx(fine.span)
    assert passes.n_tasks == 2 * segments.n_tasks


@given(chains(), st.sampled_from(["message", "pass", "segment"]))
def test_combining_waits_for_all_that_comes_in(chain, granularity):
    lengths, islands = chain
    plain = chain_schedule(lengths, islands, n_labels=4, granularity=granularity)
    plan = chain_schedule(lengths, islands, n_labels=4, granularity=granularity, combine_cost=0.5)
    assert plan.n_messages == plain.n_messages
    assert plan.total_cost == pytest.approx(plain.total_cost + 0.5 * sum(lengths))
    combine = plan.kind == Kind.COMBINE
    covered = [
        position
        for begin, end in zip(plan.begin[combine].tolist(), plan.end[combine].tolist(), strict=True)
        for position in range(begin, end)
    ]
    assert covered == list(range(sum(lengths)))

    before = [set() for _ in range(plan.n_tasks)]
    for a, b in edges_of(plan):
        before[b] |= before[a] | {a}
    messages = expected_messages(lengths, islands, 0.25)
    for task in np.flatnonzero(combine):
        for position in range(plan.begin[task], plan.end[task]):
            for kind in (Kind.FORWARD, Kind.BACKWARD):
                if (kind, position) not in messages:
                    continue
                senders = [
                    a for a in before[task]
                    if plan.kind[a] in (kind, Kind.SEGMENT)
                    and plan.begin[a] <= position < plan.end[a]
                ]  # fmt: skip
                assert senders


def test_bool_and_integer_islands_agree():
    mask = np.array([True, False, False, True, False])
    values = np.where(mask, 3, -1)
    one, other = (chain_schedule([5], islands, n_labels=9) for islands in (mask, values))
    np.testing.assert_array_equal(one.cost, other.cost)


def test_sparse_cost_stands_before_n_labels():
    plan = chain_schedule(3, [False, True, False], n_labels=10, sparse_cost=0.5)
    assert plan.total_cost == 3.0


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"lengths": [3, -1]}, ValueError, r"lengths\[1\] = -1 is negative"),
        ({"lengths": [3.0]}, TypeError, "lengths has dtype float64"),
        ({"lengths": [[3]]}, ValueError, "lengths has 2 dimensions"),
        ({"islands": [-1]}, ValueError, r"islands has shape \(1,\): give \(3,\)"),
        ({"islands": [0.0, 0.0, 0.0]}, TypeError, "islands has dtype float64"),
        ({"islands": [1, -1, -1]}, ValueError, "islands need n_labels or sparse_cost"),
        ({"n_labels": 0}, ValueError, "n_labels = 0"),
        ({"n_labels": 2.5}, TypeError, "n_labels has type float"),
        ({"sparse_cost": -1.0}, ValueError, "sparse_cost = -1.0"),
        ({"sparse_cost": "x"}, TypeError, "sparse_cost has type str"),
        ({"combine_cost": np.inf}, ValueError, "combine_cost = inf"),
        ({"granularity": "edge"}, ValueError, "granularity = 'edge'"),
    ],
)
def test_bad_chain_arguments_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        chain_schedule(**{"lengths": [3], **arguments})


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
    plan = chain_schedule([4], [False, True, False, False], n_labels=10)
    assert simulate(plan, 1, costs="unit").makespan == 6
    assert simulate(plan, 1).makespan == pytest.approx(4.2)
    measured = np.linspace(0.5, 3, 6)
    assert simulate(plan, 1, costs=measured).makespan == pytest.approx(measured.sum())


def test_exact_chain_never_gains_more_than_two():
    plan = chain_schedule([128])
    assert [simulate(plan, cores).speedup for cores in (1, 2, 3, 8, 16)] == [1, 2, 2, 2, 2]


def test_even_islands_scale_and_bunched_ones_do_not_lose():
    even = np.zeros(128, dtype=bool)
    even[7::8][:15] = True
    bunched = np.zeros(128, dtype=bool)
    bunched[:15] = True
    for cores in (2, 4, 8, 16):
        assert simulate(chain_schedule(128, even, n_labels=45), cores).speedup > 0.85 * cores
        # The longer of its two passes has one full message more, hence a little less than 2.
        run = simulate(chain_schedule(128, bunched, n_labels=45), cores)
        assert run.speedup > 1.99
        assert run.makespan < simulate(chain_schedule(128), cores).makespan


@pytest.mark.parametrize(
    ("cores", "costs", "error", "message"),
    [
        (0, None, ValueError, "cores = 0: give at least 1"),
        (1.5, None, TypeError, "cores has type float"),
        (1, "measured", ValueError, "costs = 'measured'"),
        (1, [1.0], ValueError, r"costs has shape \(1,\): give \(4,\)"),
        (1, [1.0, 1.0, np.inf, 1.0], ValueError, r"costs\[2\] = inf"),
        (1, [1j] * 4, TypeError, "costs has dtype complex128"),
    ],
)
def test_bad_simulation_arguments_are_named(cores, costs, error, message):
    with pytest.raises(error, match=message):
        simulate(chain_schedule(3), cores, costs=costs)


def test_large_plans_are_simulated():
    islands = np.zeros(50_001, dtype=bool)
    islands[::7] = True
    plan = chain_schedule(islands.size, islands, n_labels=45)
    run = simulate(plan, 8)  # a second; hours if a loop is quadratic
    assert plan.n_tasks == 100_000
    assert run.utilisation > 0.99
