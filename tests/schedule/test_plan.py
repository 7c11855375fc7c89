"""The plan that `infer` runs is the plan that can be seen, recorded and simulated."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import valuesparse as vs
from valuesparse.schedule import Kind, Plan, plan, record, simulate

ARRAYS = ("kind", "item", "cost", "waits", "succ_ptr", "succ", "order")


def batch(lengths: list[int], k: int) -> vs.Chain:
    rng = np.random.default_rng(0)
    return vs.Chain(rng.normal(size=(sum(lengths), k)), rng.normal(size=(k, k)), lengths)


def tree_of(n: int) -> vs.Tree:
    rng = np.random.default_rng(1)
    parent = np.r_[-1, [int(rng.integers(max(0, i - 500), i)) for i in range(1, n)]]
    parent[n // 2] = -1  # a forest
    return vs.Tree(parent, rng.normal(size=(n, 4)), rng.normal(size=(4, 4)))


def grid(side: int, states: int, copies: int = 1) -> vs.FactorGraph:
    rng = np.random.default_rng(0)
    graph = vs.FactorGraph([states] * side * side * copies)
    for v in range(graph.n_variables):
        if v % side:
            graph.add([v - 1, v], rng.normal(0, 1, (states, states)))
        if v % (side * side) >= side:
            graph.add([v - side, v], rng.normal(0, 1, (states, states)))
    return graph


def forest(n: int) -> vs.FactorGraph:
    graph = vs.FactorGraph([2] * n)
    for v in range(1, n):
        if v % 50:
            graph.add([(v - 1) // 2 if v % 50 > 25 else v - 1, v], np.zeros((2, 2)))
    return graph


MODELS: dict[str, Callable[[], object]] = {
    "batch": lambda: batch([3, 40, 0, 7, 7, 1, 25] * 20, 30),
    "short": lambda: batch([5], 3),
    "long": lambda: batch([2001, 30, 30], 20),
    "edges": lambda: vs.Chain(np.zeros((2000, 20)), np.zeros((1999, 20, 20))),
    "float32": lambda: vs.Chain(np.zeros((2000, 20), "f4"), np.zeros((20, 20), "f4")),
    "tree": lambda: tree_of(30_000),
    "small tree": lambda: tree_of(4),
    "path": lambda: vs.Tree(np.arange(2001) - 1, np.zeros((2001, 20)), np.zeros((20, 20))),
    "grid": lambda: vs.JunctionTree(grid(8, 5)),
    "small grid": lambda: vs.JunctionTree(grid(4, 2)),
    "grids": lambda: vs.JunctionTree(grid(6, 4, 3)),
    "many": lambda: vs.JunctionTree(forest(300)),
}


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("name", MODELS)
def test_what_is_shown_is_what_runs(name: str, threads: int) -> None:
    model = MODELS[name]()
    shown = plan(model, threads=threads)
    with record() as run:
        if isinstance(model, vs.JunctionTree):
            model.infer(threads=threads)
        else:
            vs.infer(model, threads=threads)
    (ran,) = [p for p in run if p.label == shown.label]
    for field in ARRAYS:
        np.testing.assert_array_equal(getattr(ran, field), getattr(shown, field), err_msg=field)
    assert ran.threads == min(shown.threads, shown.n_tasks)
    assert shown.measured is shown.start is shown.worker is None
    Plan(**{field: getattr(shown, field) for field in ARRAYS})  # keeps every law
    assert simulate(shown, 1).makespan == pytest.approx(shown.total_cost)


def test_messages_of_a_batch_are_all_planned() -> None:
    lengths = [3, 40, 0, 7, 7, 1, 25] * 20
    model = batch(lengths, 30)
    p = plan(model, threads=1)
    assert set(p.kind.tolist()) == {Kind.SEQUENCES}
    assert p.total_cost == vs.infer(model).stats["messages_full"]
    assert sorted(p.order.tolist()) == [i for i, n in enumerate(lengths) if n]
    assert (np.diff(np.array(lengths)[p.order]) <= 0).all()
    # Tasks cover all sequences once, in order.
    assert (p.item[0, 0], p.item[-1, 1]) == (0, p.order.size)
    np.testing.assert_array_equal(p.item[1:, 0], p.item[:-1, 1])


def test_a_long_chain_is_cut_in_half_passes_that_meet() -> None:
    model = batch([2000], 20)
    p = plan(model, threads=2)
    assert p.kind.tolist() == [2, 3, 4, 5]
    assert Kind(p.kind[2]) is Kind.FORWARD_MEET
    assert p.waits.tolist() == [0, 0, 2, 2]
    assert p.cost.tolist() == [999, 999, 1000, 1000]
    assert p.total_cost == vs.infer(model).stats["messages_full"]
    assert simulate(p, 2).speedup == 2
    assert plan(model, threads=1).n_tasks == 1


def test_plan_wants_a_model() -> None:
    with pytest.raises(TypeError, match="model"):
        plan([1, 2])


def test_plans_of_longer_chains_are_shown_by_recordings() -> None:
    second = vs.Chain(np.zeros((5, 2)), np.zeros((2, 2, 2)), order=2)
    several = vs.SegmentChain(np.zeros((5, 2)), np.zeros((2, 2)), max_length=2)
    shown = r"run infer\(model\) in a block of vs\.schedule\.record\(\)"
    made = r"got SecondOrderChain, which is what vs\.Chain\(\.\.\., order=2\) makes; "
    for model, said in ((second, made + shown), (several, "got SegmentChain; " + shown)):
        with pytest.raises(TypeError, match=said):
            plan(model)  # type: ignore[arg-type]
        with record() as run:
            vs.infer(model)
        assert len(run) == 1


def test_plan_of_a_tree() -> None:
    model = tree_of(30_000)
    p = plan(model)
    assert sorted(p.order.tolist()) == list(range(30_000))
    up, down = p.kind == Kind.UPWARD, p.kind == Kind.DOWNWARD
    assert up.sum() == down.sum() == p.n_tasks // 2 > 4
    assert p.total_cost == vs.infer(model).stats["messages_full"]
    place = np.empty(30_000, dtype=np.int64)
    place[p.order] = np.arange(30_000)
    # When each node is worked on, up and down, in an order that only dependencies decide.
    finish = simulate(p, 8).finish
    turn = np.full((2, 30_000), np.nan)
    for t, (first, last) in enumerate(p.item):
        assert np.isnan(turn[int(down[t]), first:last]).all()
        turn[int(down[t]), first:last] = finish[t]
    assert not np.isnan(turn).any()
    # A node's message goes up before its parent's, and its marginal is known after its parent's.
    to = np.flatnonzero(model.parent >= 0)
    child, above = place[to], place[model.parent[to]]
    assert (turn[0][child] <= turn[0][above]).all()
    assert (turn[1][child] >= turn[1][above]).all()
    assert 1.0 < simulate(p, 2).speedup <= 2.0
    assert simulate(plan(MODELS["path"]()), 2).speedup > 1.9  # from its middle, as a chain


@pytest.mark.parametrize("name", ["grid", "small grid", "grids", "many"])
def test_plan_of_a_graph(name: str) -> None:
    jt = MODELS[name]()
    p = plan(jt)
    run, n = simulate(p, 8), len(jt.cliques)
    ends = np.full((2, n), np.nan)  # of each clique, up and down
    starts = np.full((2, n), np.nan)
    for t, (kind, (first, last)) in enumerate(zip(p.kind, p.item, strict=True)):
        whole = kind in (Kind.UPWARD, Kind.DOWNWARD)
        for c in p.order[first:last] if whole else [first]:
            way = int(not np.isnan(ends[0, c])) if whole or kind == Kind.ROWS else None
            if whole or kind in (Kind.BEFORE_ROWS, Kind.RESERVE):
                way = int(not np.isnan(starts[0, c]))
                starts[way, c] = run.start[t]
            if whole or kind in (Kind.AFTER_ROWS, Kind.RELEASE):
                way = int(not np.isnan(ends[0, c]))
                assert np.isnan(ends[way, c])
                assert way == (kind == Kind.DOWNWARD) or not whole
                ends[way, c] = run.finish[t]
    assert not np.isnan(ends).any()  # every clique once in each direction
    parent = np.array(jt.parent)
    child, root = np.flatnonzero(parent >= 0), np.flatnonzero(parent < 0)
    assert (ends[0, child] <= ends[0, parent[child]]).all()
    assert (ends[1, child] >= ends[1, parent[child]]).all()
    assert (ends[0, root] <= ends[1, root]).all()
    if name == "grid":
        assert set(p.kind) >= {Kind.BEFORE_ROWS, Kind.ROWS, Kind.AFTER_ROWS}
        assert simulate(p, 2).speedup > 1.5


def test_the_way_down_of_one_component_waits_for_no_other() -> None:
    p = plan(vs.JunctionTree(grid(6, 4, 3)))
    before = [set() for _ in range(p.n_tasks)]
    for task in range(p.n_tasks):
        for after in p.succ[p.succ_ptr[task] : p.succ_ptr[task + 1]]:
            before[after] |= before[task] | {task}
    first_up = [t for t in range(p.n_tasks) if p.waits[t] == 0]
    assert not any(all(t in b for t in first_up) for b in before)


def test_plan_of_a_tree_with_evidence_is_that_of_its_evidence() -> None:
    jt = vs.JunctionTree(grid(6, 3))
    before = plan(jt).total_cost
    jt.infer({0: 1, 7: 2})
    assert plan(jt).total_cost == before
    assert plan(vs.JunctionTree(grid(6, 3), evidence={7: 0})).total_cost < before
    assert plan(grid(6, 3)).total_cost == before


def test_a_graph_without_variables_has_a_plan() -> None:
    assert plan(vs.FactorGraph([])).n_tasks <= 2


def test_a_structured_factor_without_a_table_is_shown_by_recordings() -> None:
    graph = vs.FactorGraph([2] * 40)
    graph.add([3], [0.0, 1.0])
    graph.add(vs.factors.Xor(*range(40)))
    said = r"factor 1, a Xor over 40 variables, is too large .* vs\.schedule\.record\(\)"
    with pytest.raises(ValueError, match=said):
        plan(graph)
    with record() as run:
        assert vs.infer(graph).method == "exact"
    assert len(run) > 0
    small = vs.FactorGraph([2] * 4)
    small.add(vs.factors.Xor(*range(4)))
    assert plan(small).n_tasks > 0
