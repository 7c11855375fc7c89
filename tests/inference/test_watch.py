"""`progress=` and `deadline=` of `decode` and `sample`, for every kind of model."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import valuesparse as vs


def _chain(n: int) -> vs.Chain:
    rng = np.random.default_rng(0)
    return vs.Chain(rng.normal(size=(n, 5)), rng.normal(size=(5, 5)))


def _tree(n: int) -> vs.Tree:
    rng = np.random.default_rng(0)
    parent = np.r_[-1, (np.arange(1, n) - 1) // 2]
    return vs.Tree(parent, rng.normal(size=(n, 5)), rng.normal(size=(5, 5)))


def _path(n: int) -> vs.Tree:
    rng = np.random.default_rng(0)
    return vs.Tree(np.arange(n) - 1, rng.normal(size=(n, 5)), rng.normal(size=(5, 5)))


def _grid(n: int) -> vs.FactorGraph:
    rng, side = np.random.default_rng(0), max(2, int(n**0.5))
    graph = vs.FactorGraph([3] * side * 6)
    for v in range(side * 6):
        if v % 6:
            graph.add([v - 1, v], rng.normal(0, 1, (3, 3)))
        if v >= 6:
            graph.add([v - 6, v], rng.normal(0, 1, (3, 3)))
    return graph


QUESTIONS: list[tuple[str, Callable[..., Any]]] = [
    ("decode", vs.decode),
    ("sample", lambda model, **options: vs.sample(model, 40, 0, **options)),
]
MODELS = [_chain, _tree, _path, _grid]


@pytest.mark.parametrize(("name", "ask"), QUESTIONS)
@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("threads", [1, 2])
def test_progress(make, name: str, ask, threads: int) -> None:
    seen: list[tuple[int, int]] = []
    model = make(60_000 if make is not _grid else 10_000)
    answer = ask(model, threads=threads, progress=lambda *at: seen.append(at))
    assert len({total for done, total in seen if done}) == 1
    assert all(0 <= done <= total for done, total in seen)
    assert seen[-1][0] == seen[-1][1] > 0
    if name == "sample":
        assert [done for done, _ in seen] == sorted(done for done, _ in seen)
        assert (answer == ask(model, threads=threads)).all()
    else:
        assert (answer.states == ask(model, threads=threads).states).all()


@pytest.mark.parametrize("make", MODELS)
def test_progress_of_islands_ends_at_its_total(make) -> None:
    seen: list[tuple[int, int]] = []
    vs.infer(make(144), zeta=0.9, progress=lambda *at: seen.append(at))
    assert len({total for done, total in seen if done}) == 1
    assert all(0 <= done <= total for done, total in seen)
    assert seen[-1][0] == seen[-1][1] > 0


@pytest.mark.parametrize(("name", "ask"), QUESTIONS)
@pytest.mark.parametrize("make", MODELS)
def test_deadline(make, name: str, ask) -> None:
    with pytest.raises(vs.DeadlineError, match="no answer within 1e-09 s"):
        ask(make(1000), deadline=1e-9)
    ask(make(1000), deadline=1000.0)


@pytest.mark.parametrize("make", [_chain, _tree, _grid])
def test_deadline_during_samples(make) -> None:
    with pytest.raises(vs.DeadlineError):
        vs.sample(make(10_000), 100_000 if make is _grid else 20_000, 0, deadline=0.2)


@pytest.mark.parametrize(("name", "ask"), QUESTIONS)
def test_arguments(name: str, ask) -> None:
    for make in MODELS:
        with pytest.raises(ValueError, match="deadline must be a positive number of seconds"):
            ask(make(10), deadline=0)
        with pytest.raises(ValueError, match="progress must be callable"):
            ask(make(10), progress=5)


def test_what_progress_raises_comes_out() -> None:
    def stop(done: int, total: int) -> None:
        raise RuntimeError("enough")

    for make in MODELS:
        for _, ask in QUESTIONS:
            with pytest.raises(RuntimeError, match="enough"):
                ask(make(1000), progress=stop)
    jt = vs.JunctionTree(_grid(100))
    with pytest.raises(RuntimeError, match="enough"):
        jt.decode(progress=stop)
    assert jt.decode().states.shape == (60,)  # and it can be asked again


def test_decode_of_trees_says_how_far_it_is() -> None:
    seen: list[int] = []
    vs.decode(_tree(2_000_000), threads=1, progress=lambda done, total: seen.append(done))
    assert any(0 < done < 2_000_000 for done in seen)


def test_search_for_an_order_ends_with_the_deadline() -> None:
    graph = _square(120)
    for ask in (vs.JunctionTree, vs.decode, vs.infer):
        more = {"method": "junction_tree"} if ask is vs.infer else {}
        with pytest.raises(vs.DeadlineError, match=r"no answer within 0\.02 s"):
            ask(graph, deadline=0.02, **more)


def _square(side: int) -> vs.FactorGraph:
    graph = vs.FactorGraph([2] * side * side)
    for v in range(side * side):
        if v % side:
            graph.add([v - 1, v], np.zeros((2, 2)))
        if v >= side:
            graph.add([v - side, v], np.zeros((2, 2)))
    return graph


def test_junction_tree_counts_cliques_and_samples() -> None:
    jt = vs.JunctionTree(_grid(100))
    seen: list[tuple[int, int]] = []
    jt.sample(7, 0, progress=lambda *at: seen.append(at))
    assert seen[-1] == (8 * len(jt.cliques),) * 2
    jt.decode(progress=lambda *at: seen.append(at))
    assert seen[-1] == (len(jt.cliques),) * 2


def _entries() -> dict[str, Any]:
    """Every public call that takes a deadline, on something small."""
    graph = vs.FactorGraph([2, 2])
    graph.add([0, 1], np.eye(2))
    models = {
        "chain": vs.Chain(np.zeros((2, 2)), np.zeros((2, 2))),
        "tree": vs.Tree([-1, 0], np.zeros((2, 2)), np.zeros((2, 2))),
        "graph": graph,
    }
    jt = vs.JunctionTree(graph)
    found: dict[str, Any] = {
        "JunctionTree": lambda **k: vs.JunctionTree(graph, **k),
        "jt.infer": jt.infer,
        "jt.infer, islands": lambda **k: jt.infer(zeta=0.9, **k),
        "jt.log_z": jt.log_z,
        "jt.decode": jt.decode,
        "jt.sample": lambda **k: jt.sample(2, 0, **k),
    }
    for name, m in models.items():
        found[f"infer, {name}"] = lambda m=m, **k: vs.infer(m, **k)
        found[f"islands, {name}"] = lambda m=m, **k: vs.infer(m, zeta=0.9, **k)
        found[f"decode, {name}"] = lambda m=m, **k: vs.decode(m, **k)
        found[f"sample, {name}"] = lambda m=m, **k: vs.sample(m, 2, 0, **k)
    for method in ("bp", "trw", "mean_field", "structured_mean_field"):
        found[method] = lambda q=method, **k: vs.infer(graph, method=q, **k)
    for method in ("trw", "lp", "ad3"):
        found[f"decode, {method}"] = lambda q=method, **k: vs.decode(graph, method=q, **k)
    return found


ENTRIES = _entries()


@pytest.mark.parametrize("name", ENTRIES)
def test_any_number_of_seconds(name: str) -> None:
    for good in (1e300, 10**400, Fraction(10**400), np.float32(1e9), np.int64(1000), sys.maxsize):
        ENTRIES[name](deadline=good)
    for bad in (np.inf, -np.inf, np.nan, 0, -1, -(10**400), "1", b"1", True, np.True_, [1.0], 1j,
                np.ones(2), Decimal(3)):  # fmt: skip
        with pytest.raises(ValueError, match="deadline must be a positive number of seconds"):
            ENTRIES[name](deadline=bad)
    # A time too short for a double is over at once, or the work is done before anyone looks.
    with contextlib.suppress(vs.DeadlineError):
        ENTRIES[name](deadline=Fraction(1, 10**400))


@pytest.mark.parametrize("huge", [10**400, Fraction(10**400)])
def test_other_numbers_beyond_a_double(huge: Any) -> None:
    graph = vs.FactorGraph([2])
    graph.add([0], [0.0, 1.0])
    assert vs.relax(graph, first=[], threshold=huge).factors.size == 0
    assert vs.select(graph, first=[], min_size=huge).factors.size == 0
    with pytest.raises(ValueError, match="threshold must be a number >= 0"):
        vs.relax(graph, threshold=-huge)
    with pytest.raises(ValueError, match="zeta must lie in"):
        vs.infer(graph, zeta=huge)


@pytest.mark.parametrize("asked", [{}, {"zeta": 0.9}, {"keep": 0.1}, {"tol": 0.1}, {"work": 1e6}])
@pytest.mark.parametrize("make", [_chain, _tree])
def test_progress_of_marginals_ends_where_all_is_done(make, asked: dict[str, float]) -> None:
    """Rounds of islands, which look at a position again, count no more than there are."""
    for n in (1, 20_000):
        seen: list[tuple[int, int]] = []
        model = make(n)
        r = vs.infer(model, progress=lambda *at, seen=seen: seen.append(at), **asked)
        assert {total for _, total in seen} == {n}
        done = [some for some, _ in seen]
        assert done == sorted(done)
        assert done[-1] == n
        np.testing.assert_array_equal(r.marginals, vs.infer(model, **asked).marginals)


def test_a_price_keeps_to_its_deadline() -> None:
    """Bounds from scores alone are made block by block."""
    with pytest.raises(vs.DeadlineError):
        vs.infer(_chain(20_000), work=0, deadline=1e-9)


@pytest.mark.parametrize("n_best", [{}, {"n_best": 3}])
@pytest.mark.parametrize("lengths", [[30_000], [100] * 300, [], [0, 2, 0]])
@pytest.mark.parametrize("order", [2, None])
def test_progress_of_longer_chains_ends_at_their_positions(
    order: int | None, lengths: list[int], n_best: dict[str, int]
) -> None:
    rng, n = np.random.default_rng(0), sum(lengths)
    unary = rng.normal(size=(n, 3))
    model: Any = vs.SegmentChain(unary, rng.normal(size=(3, 3)), lengths, max_length=3)
    if order:
        model = vs.Chain(unary, rng.normal(size=(3, 3, 3)), lengths, order=2)
    for ask in (vs.infer, lambda m, **k: vs.sample(m, 5, 0, **k), vs.decode):
        seen: list[tuple[int, int]] = []
        more = n_best if ask is vs.decode else {}
        ask(model, progress=lambda *at, seen=seen: seen.append(at), **more)
        assert {total for _, total in seen} == {n}
        done = [some for some, _ in seen]
        assert done == sorted(done)
        assert done[-1] == n
