"""Trees: what is refused, progress, deadlines, and a call from within another."""

from __future__ import annotations

import pickle
from functools import partial
from typing import Any

import numpy as np
import pytest
from checks import assert_same_bits, assert_same_result, refused
from forest_checks import (
    random_forest,
    random_parent,
    tree,
)
from tree_oracles import (
    trees_of,
)

import valuesparse as vs

pytestmark = pytest.mark.simd


# -------------------------------------------------------------------------------------- errors


U, T = np.zeros((3, 2)), np.zeros((2, 2))


@pytest.mark.parametrize(
    ("arguments", "error", "parts"),
    [
        (([-1, 0, 3], U, T), ValueError, ["parent[2]", 3]),
        (([-1, 0, -2], U, T), ValueError, ["parent[2]", -2]),
        (([-1, 1, 0], U, T), ValueError, ["parent[1]", "own parent"]),
        (([-1, 2, 1], U, T), ValueError, ["parent", "cycle", 1]),
        (([-1, 0], U, T), ValueError, ["parent", "(3,)"]),
        (([-1.0, 0.0, 0.0], U, T), ValueError, ["parent", "float64"]),
        ((["a", "b", "c"], U, T), TypeError, ["parent"]),
        (([-1, 0, 0], U[0], T), ValueError, ["unary", "(2,)"]),
        (([-1, 0, 0], U[:, :0], T), ValueError, ["unary", "(3, 0)"]),
        (([-1, 0, 0], [[0, 0], [0, np.nan], [0, 0]], T), ValueError, ["unary[1, 1]", "NaN"]),
        (([-1, 0, 0], U, [[0, np.inf], [0, 0]]), ValueError, ["pairwise[0, 1]", "+inf"]),
        (([-1, 0, 0], U, np.zeros((2, 2, 2))), ValueError, ["pairwise", "edge_type"]),
        (([-1, 0, 0], U.astype(complex), T), TypeError, ["unary", "complex128"]),
        (([-1, 0, 0], U, np.zeros((2, 2), object)), TypeError, ["pairwise", "object"]),
    ],
)
def test_refusals(arguments: Any, error: type[Exception], parts: list[Any]) -> None:
    with pytest.raises(error) as info:
        vs.Tree(*arguments)
    for part in parts:
        assert str(part) in str(info.value)


def test_more_refusals() -> None:
    types = np.zeros((2, 2, 2))
    with refused(ValueError, "edge_type[1]", 2):
        vs.Tree([-1, 0, 0], U, types, edge_type=[9, 2, 0])
    vs.Tree([-1, 0, 0], U, types, edge_type=[9, 1, 0])  # the root's is ignored
    with refused(ValueError, "pairwise", "types"):
        vs.Tree([-1, 0, 0], U, T, edge_type=[0, 0, 0])
    with refused(TypeError, "allowed", "int64"):
        vs.Tree([-1, 0, 0], U, T, allowed=np.ones((3, 2), dtype=np.int64))
    with refused(ValueError, "allowed", "(3, 2)"):
        vs.Tree([-1, 0, 0], U, T, allowed=np.ones((3, 1), dtype=bool))
    with refused(ValueError, "allowed must be one array"):
        vs.Tree([-1, 0, 0], U, T, allowed=[[True, False], [True], [True, True]])
    with refused(ValueError, "parent must be one array"):
        vs.Tree([-1, [0], 0], U, T)
    with refused(ValueError, "edge_type must be one array"):
        vs.Tree([-1, 0, 0], U, types, edge_type=[0, [0, 1], 0])
    for call in (
        vs.Tree([-1, 0, 0], U, T).conditioned,
        partial(vs.log_prob, vs.Tree([-1, 0, 0], U, T)),
    ):
        with refused(ValueError, "states must be one array"):
            call([0, [1, 0], 0])
    with refused(ValueError, "n_best", "chains"):
        vs.decode(vs.Tree([-1, 0, 0], U, T), n_best=2)
    with refused(ValueError, "states", "(3,)"):
        vs.log_prob(vs.Tree([-1, 0, 0], U, T), [0, 1])
    u = U.copy()
    u[2] = -np.inf
    with refused(vs.InfeasibleError, "tree", "root", "node", 2):
        vs.infer(vs.Tree([-1, 0, 0], u, T))


def test_nothing_at_all() -> None:
    r = vs.infer(vs.Tree(np.zeros(0, dtype=int), np.zeros((0, 2)), T))
    assert r.marginals.shape == (0, 2)
    assert r.log_z.shape == (0,)
    assert r.pairwise().shape == (0, 2, 2)


@pytest.mark.smoke
def test_models_and_results_are_records(rng: np.random.Generator) -> None:
    model = tree(random_forest(rng, random_parent(rng, 30, 2), 3, kind=1, peak=4.0))
    for zeta in (1.0, 0.8):
        r = vs.infer(model, zeta=zeta)
        assert_same_result(r, pickle.loads(pickle.dumps(r)))
    again = pickle.loads(pickle.dumps(model))
    assert repr(again) == repr(model)
    assert_same_bits(vs.infer(again).marginals, vs.infer(model).marginals)
    with pytest.raises(AttributeError):
        model.unary = U
    with pytest.raises(ValueError, match="read-only"):
        model.unary[0, 0] = 1
    for result in (r, pickle.loads(pickle.dumps(r))):
        for array in (result.marginals, result.log_z, result.islands):
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0
    frame = r.to_frame(labels=list("abc"))
    frame.iloc[0, 0] = 7.0  # a copy
    assert r.marginals[0, 0] <= 1
    assert list(frame.index.names) == ["tree", "node"]
    np.testing.assert_array_equal(frame.index.get_level_values(0), trees_of(model.parent))


def test_blocks_of_wide_edges_stay_small() -> None:
    wide = vs.infer(vs.Tree([-1, 0, 0, 0], np.zeros((4, 1500)), np.zeros((1500, 1500))))
    assert [part.shape[0] for part in wide.iter_pairwise()] == [1, 1, 1]
    assert [part.shape[0] for part in wide.iter_pairwise(2)] == [2, 1]
    with refused(ValueError, "block"):
        next(wide.iter_pairwise(0))


def test_progress_and_deadline(rng: np.random.Generator) -> None:
    n = 300_000
    model = vs.Tree(random_parent(rng, n), rng.normal(size=(n, 8)), np.zeros((8, 8)))
    calls: list[tuple[int, int]] = []
    vs.infer(model, progress=lambda done, total: calls.append((done, total)))
    assert all(0 <= done <= total == n for done, total in calls)
    with pytest.raises(vs.DeadlineError):
        vs.infer(model, deadline=1e-9)


@pytest.mark.parametrize("zeta", [1.0, 0.9])
def test_a_call_from_within_progress_works_in_its_own_memory(
    zeta: float, rng: np.random.Generator
) -> None:
    large = tree(random_forest(rng, random_parent(rng, 100_000), 9, peak=5.0))
    small = tree(random_forest(rng, random_parent(rng, 3_000), 9, peak=5.0))
    alone, inner = vs.infer(large, zeta=zeta), vs.infer(small, zeta=zeta)
    seen = []

    def progress(done: int, total: int) -> None:
        if len(seen) < 3:
            seen.append(vs.infer(small, zeta=zeta))

    r = vs.infer(large, zeta=zeta, progress=progress, threads=1)
    assert seen
    assert_same_result(alone, r, derived=False)
    for other in seen:
        assert_same_result(inner, other, derived=False)
