"""Islands on factor graphs: what comes out is what was promised, by enumeration."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from graph_oracle import graph_of, log_joint, log_sum, marginal, models, probabilities
from hypothesis import given, settings
from hypothesis import strategies as st

import valuesparse as vs
from valuesparse.inference import _forest_islands
from valuesparse.inference._forest_islands import forest_part
from valuesparse.inference._watch import NOBODY
from valuesparse.models._evidence import Known
from valuesparse.schedule import record


def _check(cards, factors, evidence, zeta: float, revisit: int | None) -> None:
    full = log_joint(cards, factors, evidence)
    graph = graph_of(cards, factors)
    if full.max() == -np.inf:
        with pytest.raises(vs.InfeasibleError):
            vs.infer(graph, zeta=zeta, revisit=revisit, evidence=evidence)
        return
    r = vs.infer(graph, zeta=zeta, revisit=revisit, evidence=evidence)
    held = {v: int(x) for v, x in enumerate(r.islands) if x >= 0}
    assert not set(held) & {v for v, x in evidence.items() if isinstance(x, int)}
    given_all = log_joint(cards, factors, evidence) + log_joint(cards, [], held)
    assert r.log_z == pytest.approx(log_sum(given_all), rel=1e-9, abs=1e-9)
    for v, found in enumerate(r.marginals):
        others = {u: x for u, x in held.items() if u != v}
        p = probabilities(full + log_joint(cards, [], others))
        np.testing.assert_allclose(found, marginal(p, [v]), rtol=0, atol=1e-9)
    if r.converged:
        for v, x in held.items():
            assert r.marginals[v][x] == r.marginals[v].max() >= zeta
        if r.stats["released"] == 0:
            hard = {v for v, x in evidence.items() if isinstance(x, int)}
            for v in set(range(len(cards))) - set(held) - hard:
                assert r.marginals[v].max() < zeta


@settings(max_examples=200)
@given(
    model=models(most=8),
    zeta=st.sampled_from([0.0, 0.3, 0.6, 0.8, 0.95, 0.999]),
    revisit=st.sampled_from([None, None, 0, 1]),
)
def test_what_comes_out(model, zeta: float, revisit: int | None) -> None:
    _check(*model, zeta, revisit)


@settings(max_examples=100)
@given(
    model=models(most=6),
    other=models(most=3),
    zeta=st.sampled_from([0.0, 0.3, 0.6, 0.9]),
    revisit=st.sampled_from([None, 0, 1, 2]),
)
def test_what_lies_beside_a_component_changes_nothing(
    model, other, zeta: float, revisit: int | None
) -> None:
    """Rounds that another component needs for its contradictions are none of this one's."""
    cards, factors, evidence = model
    if log_joint(cards, factors, evidence).max() == -np.inf:
        return
    if log_joint(other[0], other[1], {}).max() == -np.inf:
        return
    n = len(cards)
    more = [(tuple(n + v for v in scope), table) for scope, table in other[1]]
    alone, beside = (
        vs.infer(graph_of(*of), zeta=zeta, revisit=revisit, evidence=evidence)
        for of in ((cards, factors), (cards + other[0], factors + more))
    )
    assert beside.islands[:n].tolist() == alone.islands.tolist()
    for a, b in zip(alone.marginals, beside.marginals, strict=False):
        np.testing.assert_allclose(b, a, rtol=0, atol=1e-9)


def test_a_contradiction_takes_no_round_from_another_component() -> None:
    """Islands of four variables change in each of three rounds, whatever others do meanwhile."""
    rng = np.random.default_rng(6)
    graph, both = vs.FactorGraph([3] * 4), vs.FactorGraph([3] * 4 + [2] * 3)
    for v in range(4):
        tables = [((v,), rng.normal(size=3))]
        tables += [((u, v), 2.0 * rng.normal(size=(3, 3))) for u in range(v)]
        for scope, table in tables:
            graph.add(scope, table)
            both.add(scope, table)
    for v, p in enumerate((0.99, 0.98, 0.6)):
        both.add([4 + v], np.log([p, 1 - p]))
    both.add([4, 5, 6], np.where(np.arange(8).reshape(2, 2, 2) < 2, -np.inf, 0.0))
    for revisit in range(4):
        alone = vs.infer(graph, zeta=0.6, revisit=revisit)
        beside = vs.infer(both, zeta=0.6, revisit=revisit)
        assert beside.stats["released"] >= alone.stats["released"] + 2
        assert beside.islands[:4].tolist() == alone.islands.tolist()
        assert alone.converged == (revisit == 3)
        assert beside.converged == alone.converged


def wide_star(rng: np.random.Generator, states: int, leaves: int) -> list:
    """Return the factors of a tree: one variable of many states, and binary ones around it."""
    factors = [((0,), rng.normal(size=states))]
    for v in range(1, leaves + 1):
        factors += [((0, v), 2.0 * rng.normal(size=(states, 2))), ((v,), rng.normal(size=2))]
    return factors


@pytest.mark.parametrize("zeta", [0.0, 0.5, 0.7, 0.9])
def test_trees_are_not_padded_to_far_more_than_they_have(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, zeta: float
) -> None:
    """They are answered by the rules of graphs; narrow ones beside them stay a forest."""
    monkeypatch.setattr(_forest_islands, "_BYTES", 0)
    for _ in range(10):
        cards = [25, 2, 2, 2, 2, 3, 2, 2]
        factors = [*wide_star(rng, 25, 4), ((5, 6), rng.normal(size=(3, 2))), ((7,), np.zeros(2))]
        known = Known({}, np.full(len(cards), -1), [])
        found = forest_part(graph_of(cards, factors), known, 1 << 30, NOBODY)
        assert found is not None
        assert found.variables.tolist() == [5, 6, 7]
        assert found.others == list(range(9))
        for evidence in ({}, {2: 1}, {0: 3}, {1: np.array([0.5, -1.0])}):
            for revisit in (None, 0, 1):
                _check(cards, factors, evidence, zeta, revisit)


def test_a_hub_of_more_neighbours_than_states_is_padded(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_forest_islands, "_BYTES", 0)
    for leaves, padded in ((40, False), (100, True)):
        cards = [20] + [2] * leaves
        graph = graph_of(cards, wide_star(rng, 20, leaves))
        found = forest_part(graph, Known({}, np.full(len(cards), -1), []), 1 << 30, NOBODY)
        assert (found is not None) == padded


def test_a_wide_tree_needs_the_memory_of_its_own_tables(rng: np.random.Generator) -> None:
    graph = graph_of([100] + [2] * 40, wide_star(rng, 100, 40))
    r = vs.infer(graph, zeta=0.9, memory_limit=1_000_000)  # padded it would take 3 MB
    assert r.method == "islands"
    assert r.converged


def test_contradicting_islands_release_each_other() -> None:
    graph = vs.FactorGraph([2, 2, 2])
    for v, p in enumerate((0.99, 0.98, 0.6)):
        graph.add([v], np.log([p, 1 - p]))
    graph.add([0, 1], [[-np.inf, 0.0], [0.0, 0.0]])
    r = vs.infer(graph, zeta=0.9)
    assert r.stats["released"] >= 2
    assert r.converged
    exact = vs.infer(graph)
    for a, b in zip(r.marginals[:2], exact.marginals[:2], strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)


def test_islands_split_a_graph_that_is_too_wide(rng: np.random.Generator) -> None:
    side = 30
    graph = vs.FactorGraph([2] * side * side)
    peaked = rng.random(side * side) < 0.8
    for v in range(side * side):
        graph.add([v], [0.0, (6.0 if peaked[v] else 0.3) * rng.choice([-1, 1])])
        if v % side:
            graph.add([v - 1, v], [[0.2, 0.0], [0.0, 0.2]])
        if v >= side:
            graph.add([v - side, v], [[0.2, 0.0], [0.0, 0.2]])
    with pytest.raises(vs.MemoryLimitError):
        vs.infer(graph, method="exact", memory_limit=10_000_000)
    r = vs.infer(graph, zeta=0.9, memory_limit=10_000_000)
    assert r.method == "islands"
    assert r.stats["islands"] > 600
    assert r.stats["segments"] > 50
    assert r.converged
    for threads in (1, 2, 3, 8):
        again = vs.infer(graph, zeta=0.9, threads=threads)
        assert again.islands.tolist() == r.islands.tolist()
        assert all(
            a.tobytes() == b.tobytes() for a, b in zip(r.marginals, again.marginals, strict=True)
        )


@pytest.mark.parametrize("cards", [(2,), (2, 3), (2, 10)])
@pytest.mark.parametrize("forbidden", [0.0, 0.1])
@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_islands_of_grids_are_asked_as_trees_would(
    rng: np.random.Generator, cards: tuple[int, ...], forbidden: float, scale: float
) -> None:
    """Against a junction tree of all, each island given the others.

    Scores that plain numbers cannot hold are added by tables that cancel: islands are the same.
    """
    side = 7
    graph = vs.FactorGraph([int(k) for k in rng.choice(cards, side * side)])
    for v, k in enumerate(graph.cardinalities):
        graph.add([v], rng.choice([0.5, 3.0]) * rng.normal(size=k))
        for u in [v - 1] * (v % side > 0) + [v - side] * (v >= side):
            table = rng.normal(0.0, 1.0, (graph.cardinalities[u], k))
            table[1:][rng.random(table[1:].shape) < forbidden] = -np.inf
            graph.add([u, v], table)
    if scale > 1.0:
        for v in range(side * side - side):
            table = scale * rng.normal(size=[graph.cardinalities[u] for u in (v, v + side)])
            for sign in (1.0, -1.0):
                graph.add([v, v + side], sign * table)
    for v in (3, 20):
        graph.add(
            [v, v + 1, v + 7], rng.normal(size=[graph.cardinalities[u] for u in (v, v + 1, v + 7)])
        )
    r = vs.infer(graph, zeta=0.8)
    held = {v: int(x) for v, x in enumerate(r.islands) if x >= 0}
    assert 5 < len(held) < 45
    whole = vs.infer(graph, evidence=held)
    assert r.log_z == pytest.approx(whole.log_z, rel=1e-11, abs=1e-11 * scale)
    for v, found in enumerate(r.marginals):
        others = {u: x for u, x in held.items() if u != v}
        want = vs.infer(graph, evidence=others) if v in held else whole
        np.testing.assert_allclose(found, want.marginals[v], rtol=0, atol=1e-11 * scale)


@pytest.mark.parametrize("scale", [1.0, 30.0, 3000.0])
@pytest.mark.parametrize("states", [2, 4])
def test_islands_beside_segments_whose_numbers_are_large(
    rng: np.random.Generator, scale: float, states: int
) -> None:
    """Messages that are made again tell the same as a tree with the island in it."""
    rows, columns = 3, 12
    graph = vs.FactorGraph([states] * (rows * columns))
    for v in range(rows * columns):
        graph.add([v], scale * rng.normal(size=states))
        for u in [v - 1] * (v % rows > 0) + [v - rows] * (v >= rows):
            graph.add([u, v], scale * rng.normal(size=(states, states)))
    r = vs.infer(graph, zeta=0.8)
    held = {v: int(x) for v, x in enumerate(r.islands) if x >= 0}
    free = len(r.islands) - len(held)
    assert held
    assert free
    for v, found in enumerate(r.marginals):
        others = {u: x for u, x in held.items() if u != v}
        want = vs.infer(graph, evidence=others).marginals[v]
        np.testing.assert_allclose(found, want, rtol=1e-9 * scale, atol=1e-300)


@pytest.mark.parametrize("forbidden", [0.0, 0.1])
def test_a_graph_asked_again_answers_the_same(rng: np.random.Generator, forbidden: float) -> None:
    """Trees that earlier calls left do not show, whatever zeta, limit or evidence they had."""
    side = 8

    def graph() -> vs.FactorGraph:
        built = vs.FactorGraph([3] * side * side)
        for scope, table in zip(scopes, tables, strict=True):
            built.add(scope, table)
        return built

    scopes = [(v,) for v in range(side * side)]
    scopes += [(v - 1, v) for v in range(side * side) if v % side]
    scopes += [(v - side, v, v - side + 1) for v in range(side, side * side, 5)]
    tables = [1.5 * rng.normal(size=[3] * len(scope)) for scope in scopes]
    for table in tables:
        if table.ndim > 1:
            table[1:][rng.random(table[1:].shape) < forbidden] = -np.inf
    kept = graph()
    for zeta, limit, evidence in (
        (0.9, None, {}),
        (0.7, None, {}),
        (0.9, None, {}),
        (0.9, None, {5: 1, 20: [0.0, 1.0, 0.5]}),
        (0.9, 200_000, {}),
        (0.9, None, {5: 1, 20: [0.0, 1.5, 0.5]}),
        (0.8, None, {5: 2}),
        (0.9, None, {}),
    ):
        ours, new = (
            vs.infer(g, zeta=zeta, memory_limit=limit, evidence=evidence) for g in (kept, graph())
        )
        assert ours.islands.tolist() == new.islands.tolist()
        assert ours.log_z == new.log_z
        assert ours.stats["rounds"] == new.stats["rounds"]
        for a, b in zip(ours.marginals, new.marginals, strict=True):
            assert a.tobytes() == b.tobytes()


def test_zeta_one_is_exact(rng: np.random.Generator) -> None:
    graph = vs.FactorGraph([2, 2])
    graph.add([0, 1], rng.normal(0, 1, (2, 2)))
    graph.add([0], [0.0, 50.0])
    a, b = vs.infer(graph), vs.infer(graph, zeta=1.0)
    assert a.marginals[1].tobytes() == b.marginals[1].tobytes()
    assert b.method == "exact"
    with pytest.raises(ValueError, match="does not go with zeta"):
        vs.infer(graph, zeta=0.5, method="junction_tree")


def test_hundreds_of_factors_between_two_variables() -> None:
    tables = [vs.FactorGraph([2, 2, 2]) for _ in range(2)]
    for graph, count in zip(tables, (1, 256), strict=True):
        graph.add([0], [3.0, 0.0])
        graph.add([0, 1], [[2.0, 0.0], [0.0, 2.0]])
        graph.add([2], [0.0, 0.5])
        for _ in range(count):
            graph.add([1, 2], np.eye(2) / count)
    one, many = (vs.infer(graph, zeta=0.9) for graph in tables)
    assert one.stats["segments"] == many.stats["segments"]
    np.testing.assert_allclose(np.concatenate(one.marginals), np.concatenate(many.marginals))


@pytest.mark.parametrize("zeta", [0.3, 0.6, 0.8, 0.95])
def test_rounds_have_converged_where_more_of_them_change_nothing(
    rng: np.random.Generator, zeta: float
) -> None:
    cut_short = 0
    for _ in range(20):
        side = 4
        cards = rng.integers(2, 4, side * side).tolist()
        graph = vs.FactorGraph(cards)
        for v, k in enumerate(cards):
            graph.add([v], rng.normal(size=k))
            for u in [v - 1] * (v % side > 0) + [v - side] * (v >= side):
                graph.add([u, v], 2.0 * rng.normal(size=(cards[u], k)))
        full = vs.infer(graph, zeta=zeta)
        assert full.converged
        for revisit in range(3):
            r = vs.infer(graph, zeta=zeta, revisit=revisit)
            assert r.converged == (r.stats["rounds"] == full.stats["rounds"])
            cut_short += not r.converged
            if r.converged:
                assert r.islands.tobytes() == full.islands.tobytes()
                assert r.log_z == full.log_z
    assert cut_short


def ladder(columns: int, contradicted: tuple[int, ...] = ()) -> vs.FactorGraph:
    """Return three rows in which every fourth column is certain, and splits what is around.

    An island of each of some of these columns is contradicted by the variable beside it.
    """
    rng = np.random.default_rng(0)
    graph = vs.FactorGraph([2] * (3 * columns))
    for v in range(3 * columns):
        sure = v // 3 % 4 == 3
        graph.add([v], [0.0, 8.0] if sure else 0.3 * rng.normal(size=2))
        for u in [v - 1] * (v % 3 > 0) + [v - 3] * (v >= 3):
            graph.add([u, v], 0.2 * rng.normal(size=(2, 2)))
    for which in contradicted:
        island = 3 * (4 * which + 3)
        beside = island - 2
        graph.add([beside, island], [[-6.0, 6.0], [6.0, -6.0]])
        graph.add([beside], [0.0, 4.0])
    return graph


def work(graph: vs.FactorGraph) -> tuple[Counter[str], int, vs.Result]:
    """Return how many plans of each kind a call runs, how many tasks they have, its answer."""
    with record() as run:
        found = vs.infer(graph, zeta=0.9)
    return Counter(p.label for p in run), sum(p.n_tasks for p in run), found


@pytest.mark.parametrize("contradicted", [(), (3,), (3, 9)])
def test_a_graph_asked_again_makes_no_trees_again(contradicted: tuple[int, ...]) -> None:
    """An elimination order is searched, and its tables laid out, where a tree is made."""
    graph = ladder(80, contradicted)
    first, tasks, one = work(graph)
    again, fewer, other = work(graph)
    assert first["indices"] >= one.stats["segments"]
    assert again == {"up and down": first["up and down"]}
    assert fewer == tasks - first["indices"]
    assert other.log_z == one.log_z
    assert work(graph.copy())[0] == again  # a copy has what the graph has
    assert work(ladder(80, contradicted))[0] == first


def test_a_round_solves_again_what_its_events_touch() -> None:
    """The rest stays, however large it is: the same number of segments, cliques and trees."""
    more = []
    for columns in (40, 80, 160):
        plain, _, calm = work(ladder(columns))
        assert calm.stats["rounds"] == 0
        assert plain["up and down"] == calm.stats["segments"] == columns // 4
        for contradicted in ((3,), (3, 7)):
            found, _, r = work(ladder(columns, contradicted))
            assert r.stats["rounds"] == 2
            assert r.stats["released"] > 0
            count = len(contradicted)
            extra = [found[x] - plain[x] for x in ("up and down", "indices")]
            extra.append(r.stats["cliques"] - calm.stats["cliques"])
            # Two rounds of everything would be twice as many segments as there are.
            assert extra[0] <= 4 * count < columns // 4
            more.append([x / count for x in extra])
    assert all(x == more[0] for x in more)
