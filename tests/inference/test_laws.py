"""Laws: an answer depends on the component it is for, not on how that is written down.

A path answers alike as a chain, from either end, as a tree rooted anywhere, with its edge types
spelled out, and beside any other component; a graph that is a tree has the islands of the tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import valuesparse as vs

ZETAS = (0.3, 0.5, 0.6, 0.8, 0.9, 0.95, 0.99, 1.0)
ROUNDS = (None, None, 0, 1, 2)


@dataclass
class Model:
    """A random tree: tables [parent, child] of each edge, and how to ask."""

    parent: np.ndarray
    unary: np.ndarray
    tables: np.ndarray
    zeta: float
    revisit: int | None

    def ask(self, model: Any) -> Any:
        return vs.infer(model, zeta=self.zeta, revisit=self.revisit if self.zeta < 1 else None)


def draw(rng: np.random.Generator, *, path: bool, shared: bool, dtype: type) -> Model:
    n, k = int(rng.integers(1, 32)), int(rng.integers(1, 6))
    parent = np.arange(-1, n - 1) if path else np.array([rng.integers(-1, i) for i in range(n)])
    parent[0] = -1
    unary = rng.normal(size=(n, k)) * rng.choice([0.5, 2.0, 5.0])
    tables = rng.normal(size=(1 if shared else n, k, k)) * rng.choice([0.3, 1.0, 2.0])
    if rng.random() < 0.25:  # forbidden pairs, with every variable's staying as it is allowed
        tables[rng.random(tables.shape) < 0.2] = -np.inf
        tables[:, np.arange(k), np.arange(k)] = 0.0
    tables = np.broadcast_to(tables, (n, k, k))
    zeta = float(rng.choice(ZETAS))
    revisit = ROUNDS[rng.integers(len(ROUNDS))]
    return Model(parent, unary.astype(dtype), tables.astype(dtype), zeta, revisit)


def rerooted(model: Model, root: int) -> vs.Tree:
    """Return the same tree with another root, which is `root`."""
    n = len(model.parent)
    parent, tables = np.full(n, -1), np.zeros_like(model.tables)
    stack, seen = [root], {root}
    while stack:
        i = stack.pop()
        for j in range(n):
            if j in seen or not (model.parent[j] == i or model.parent[i] == j):
                continue
            parent[j] = i
            tables[j] = model.tables[j] if model.parent[j] == i else model.tables[i].T
            seen.add(j)
            stack.append(j)
    return vs.Tree(parent, model.unary, tables)


def one_tree(model: Model) -> bool:
    return int((model.parent < 0).sum()) == 1


def assert_alike(model: Model, one: Any, other: Any, at: Any = slice(None)) -> None:
    """Compare islands and marginals; `at`: where `other` has them.

    Where the arithmetic differs, a marginal within its rounding of zeta may go either way.
    """
    exact = model.unary.dtype == np.float64
    tolerance = 1e-12 if exact else 2e-5
    if not exact and (np.abs(np.max(one.marginals, axis=1) - model.zeta) < 1e-3).any():
        return
    if model.zeta < 1.0:
        np.testing.assert_array_equal(one.islands, other.islands[at])
    marginals = np.array([p for p in other.marginals])[at]
    np.testing.assert_allclose(one.marginals, marginals, rtol=0, atol=tolerance)


def check(seed: int, dtype: type = np.float64) -> None:
    """One random path and one random tree, asked in every way."""
    rng = np.random.default_rng(seed)
    path = draw(rng, path=True, shared=bool(rng.integers(2)), dtype=dtype)
    n, k = path.unary.shape
    chain = path.ask(vs.Chain(path.unary, path.tables[1:]))
    if (path.tables == path.tables[0]).all():
        assert_alike(path, chain, path.ask(vs.Chain(path.unary, path.tables[0])))
        spelled = vs.Tree(path.parent, path.unary, path.tables[:1], edge_type=np.zeros(n, int))
        assert_alike(path, chain, path.ask(spelled))
        assert_alike(path, chain, path.ask(vs.Tree(path.parent, path.unary, path.tables[0])))
    back = path.ask(
        vs.Chain(path.unary[::-1].copy(), path.tables[1:][::-1].transpose(0, 2, 1).copy())
    )
    assert_alike(path, chain, back, slice(None, None, -1))
    tree = path.ask(vs.Tree(path.parent, path.unary, path.tables))
    assert_alike(path, chain, tree)
    assert_alike(path, chain, path.ask(rerooted(path, int(rng.integers(n)))))
    # Beside a star, in one forest; and beside other sequences, in one batch.
    m = int(rng.integers(1, 6))
    beside = vs.Tree(
        np.r_[path.parent, -1, np.full(m, n)],
        np.r_[path.unary, rng.normal(size=(m + 1, k)).astype(dtype)],
        np.r_[path.tables, rng.normal(size=(m + 1, k, k)).astype(dtype)],
    )
    assert_alike(path, tree, path.ask(beside), slice(0, n))
    batch = vs.Chain(
        np.r_[path.unary[:m], path.unary, path.unary[-m:]],
        np.r_[path.tables[1 : min(m, n)], path.tables[1:], path.tables[n - min(m, n) + 1 :]],
        lengths=[min(m, n), n, min(m, n)],
    )
    together = path.ask(batch)
    np.testing.assert_array_equal(
        together.marginals[min(m, n) : min(m, n) + n], chain.marginals, strict=True
    )
    if path.zeta < 1.0:
        np.testing.assert_array_equal(together.islands[min(m, n) : min(m, n) + n], chain.islands)

    forest = draw(rng, path=False, shared=False, dtype=dtype)
    tree = forest.ask(vs.Tree(forest.parent, forest.unary, forest.tables))
    if one_tree(forest):
        other = forest.ask(rerooted(forest, int(rng.integers(len(forest.parent)))))
        assert_alike(forest, tree, other)
        np.testing.assert_allclose(tree.log_z, other.log_z, rtol=1e-6 if dtype is np.float32 else 0,
                                   atol=1e-3 if dtype is np.float32 else 1e-9)  # fmt: skip
    if dtype is np.float64:
        check_graph(rng, forest, tree)


def check_graph(rng: np.random.Generator, forest: Model, tree: Any) -> None:
    """A graph that is a forest, alone and beside a component with a cycle."""
    n, k = forest.unary.shape
    graph = vs.FactorGraph([k] * n + [2] * 3)
    for i in range(n):
        graph.add((i,), forest.unary[i])
        if forest.parent[i] >= 0:
            graph.add((int(forest.parent[i]), i), forest.tables[i])
    found = forest.ask(graph)
    for p, q in zip(tree.marginals, found.marginals, strict=False):
        np.testing.assert_allclose(p, q, rtol=0, atol=1e-12)
    for a, b in ((0, 1), (1, 2), (2, 0)):
        graph.add((n + a, n + b), 2.0 * rng.normal(size=(2, 2)))
    cycle = forest.ask(graph)
    for p, q in zip(tree.marginals, cycle.marginals, strict=False):
        np.testing.assert_allclose(p, q, rtol=0, atol=1e-12)
    if forest.zeta < 1.0:
        np.testing.assert_array_equal(tree.islands, found.islands[:n])
        np.testing.assert_array_equal(tree.islands, cycle.islands[:n])


def draw_wide(rng: np.random.Generator, n_types: int) -> tuple[Model, np.ndarray, np.ndarray]:
    """A path of so many labels that islands may not pay, its tables, and which edge has which."""
    n, k = int(rng.integers(1, 320)), int(rng.choice([32, 40, 49]))
    unary = 0.5 * rng.normal(size=(n, k))
    peaked = np.flatnonzero(rng.random(n) < rng.choice([0.15, 0.3, 0.4, 0.5, 0.8]))
    unary[peaked, rng.integers(k, size=peaked.size)] += rng.choice([7.0, 12.0])
    tables = rng.normal(size=(n_types, k, k)) * rng.choice([0.3, 1.0, 2.0])
    types = rng.integers(n_types, size=n)
    zeta = float(rng.choice([0.8, 0.9, 0.95]))
    return Model(np.arange(-1, n - 1), unary, tables[types], zeta, None), tables, types


def check_wide(seed: int, n_types: int) -> bool:
    """A path whose edges share tables, asked in every way; say whether islands did not pay.

    Edges with tables of their own have another rule (docs/islands.md).
    """
    rng = np.random.default_rng(seed)
    path, tables, types = draw_wide(rng, n_types)
    n, k = path.unary.shape
    one = path.ask(vs.Tree(path.parent, path.unary, tables, edge_type=types))
    # Rooted elsewhere, edges above the root are read from the other end.
    both = np.concatenate([tables, tables.transpose(0, 2, 1)])
    for root in (int(rng.integers(n)), n - 1):
        at, above = np.arange(n), np.arange(n) < root
        parent = np.where(above, at + 1, np.where(at == root, -1, at - 1))
        turned = np.where(above, np.roll(types, -1) + n_types, types)
        tree = path.ask(vs.Tree(parent, path.unary, both, edge_type=turned))
        assert_alike(path, one, tree)
        assert tree.method == one.method
    m = int(rng.integers(1, 6))
    beside = vs.Tree(
        np.r_[path.parent, -1, np.full(m, n)],
        np.r_[path.unary, rng.normal(size=(m + 1, k))],
        tables,
        edge_type=np.r_[types, rng.integers(n_types, size=m + 1)],
    )
    assert_alike(path, one, path.ask(beside), slice(0, n))
    if n_types == 1:
        table, at = tables[0], min(m, n)
        assert_alike(path, one, path.ask(vs.Tree(path.parent, path.unary, table)))
        assert_alike(path, one, path.ask(vs.Chain(path.unary, table)))
        back = path.ask(vs.Chain(path.unary[::-1].copy(), table.T.copy()))
        assert_alike(path, one, back, slice(None, None, -1))
        rows = np.r_[path.unary[:at], path.unary, path.unary[-at:]]
        together = path.ask(vs.Chain(rows, table, lengths=[at, n, at]))
        assert_alike(path, one, together, slice(at, at + n))
    return bool(one.stats["sequences_without_islands"])


@pytest.mark.parametrize("n_types", [1, 3])
def test_whether_islands_pay_depends_on_no_writing_either(n_types: int) -> None:
    without = [check_wide(3_000_000 + seed, n_types) for seed in range(40)]
    assert 5 <= sum(without) <= 35  # the rule was asked, and said both


@pytest.mark.parametrize("block", range(20))
def test_answers_do_not_depend_on_how_a_model_is_written(block: int) -> None:
    for seed in range(12):
        check(1000 * block + seed)


@pytest.mark.parametrize("block", range(4))
def test_answers_in_float32_do_not_either(block: int) -> None:
    for seed in range(25):
        check(1_000_000 + 1000 * block + seed, np.float32)


@pytest.mark.parametrize("scale", [50.0, 200.0, 400.0, 2000.0])
def test_scores_far_apart_do_not_show_in_islands(scale: float) -> None:
    """What floors may have decided in an early round is done again, from either end."""
    rng = np.random.default_rng(0)
    for _ in range(500):
        n, k = int(rng.integers(2, 6)), int(rng.integers(2, 4))
        unary = rng.normal(size=(n, k)) * scale
        tables = rng.normal(size=(n, k, k)) * scale * rng.choice([0.5, 1.0, 2.0])
        zeta = float(rng.choice([0.0, 0.5, 0.9]))
        path = Model(np.arange(-1, n - 1), unary, tables, zeta, None)
        chain = path.ask(vs.Chain(unary, tables[1:]))
        for root in (0, n - 1):
            np.testing.assert_array_equal(path.ask(rerooted(path, root)).islands, chain.islands)


@pytest.mark.slow
def test_laws_at_length() -> None:
    for seed in range(2_000_000, 2_010_000):
        check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("n_types", [1, 3])
def test_laws_of_many_labels_at_length(n_types: int) -> None:
    for seed in range(3_100_000, 3_101_000):
        check_wide(seed, n_types)
