"""Sums along long sequences: nothing that grows with the length is lost, in any arithmetic."""

from __future__ import annotations

import math

import numpy as np
import pytest

import valuesparse as vs
from valuesparse.hmm import CategoricalHMM, GaussianHMM

pytestmark = pytest.mark.simd

EPS = np.finfo(float).eps


def one_way(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Return unary (n, 2) and transition (2, 2), and log Z.

    Scores of neighbours differ by 900 and 2,000, so that one way has all of the mass, and only
    logarithms can hold it.
    """
    rng = np.random.default_rng(seed)
    unary = rng.normal(size=(n, 2))
    unary[::2, 1] -= 900.0
    unary[1::2, 0] -= 900.0
    transition = np.array([[0.0, -2000.0], [-2000.0, 0.0]]) + rng.normal(size=(2, 2))
    d = vs.decode(vs.Chain(unary, transition), n_best=2)
    assert d.score[0, 0] - d.score[1, 0] > 60.0
    y = d.states[0]
    scores = unary[np.arange(n), y].tolist() + transition[y[:-1], y[1:]].tolist()
    return unary, transition, math.fsum(scores)


def models(unary: np.ndarray, transition: np.ndarray) -> dict[str, vs.Chain | vs.Tree]:
    n = len(unary)
    return {
        "chain": vs.Chain(unary, transition),
        "tree": vs.Tree(np.arange(-1, n - 1), unary, transition),
        "from the end": vs.Tree(np.append(np.arange(1, n), -1), unary, transition.T.copy()),
    }


@pytest.mark.parametrize("n", [3000, 20_000])
@pytest.mark.parametrize("seed", range(4))
def test_bounds_of_log_z_hold_in_logarithms(n: int, seed: int) -> None:
    unary, transition, exact = one_way(n, seed)
    for name, model in models(unary, transition).items():
        r = vs.infer(model)
        assert abs(r.log_z[0] - exact) <= 2 * EPS * abs(exact), name
        for proved in (vs.infer(model, tol=1e-3), r.certify()):
            assert proved.log_z_lower[0] <= exact <= proved.log_z_upper[0], name


def test_bounds_beside_islands_in_logarithms() -> None:
    unary, transition, exact = one_way(3000, 5)
    for name, model in models(unary, transition).items():
        c = vs.infer(model, zeta=0.9).certify()
        assert c.log_z_lower[0] <= exact <= c.log_z_upper[0], name


@pytest.mark.parametrize("labels", [2, 9, 30])
@pytest.mark.parametrize("sequences", [1, 5])
def test_what_tables_of_each_edge_are_divided_by(labels: int, sequences: int) -> None:
    rng = np.random.default_rng(labels)
    n = 3000
    lengths = [n] * sequences
    unary = rng.normal(size=(n * sequences, labels))
    shape = (sequences * (n - 1), labels, labels)
    transition = np.round(rng.normal(size=shape) * 2**10) / 2**10
    moved = transition + (0.1 + np.abs(rng.normal(size=(shape[0], 1, 1))) * 1e3)
    more = (moved.max(axis=(1, 2)) - transition.max(axis=(1, 2))).reshape(sequences, n - 1)
    before = vs.infer(vs.Chain(unary, transition, lengths)).log_z
    after = vs.infer(vs.Chain(unary, moved, lengths)).log_z
    for s in range(sequences):
        exact = before[s] + math.fsum(more[s].tolist())
        assert abs(after[s] - exact) <= EPS * abs(exact)


def longer(unary: np.ndarray, transition: np.ndarray) -> dict[str, vs.Result]:
    """Return the answers of a chain of order 2, and of segments of one position, that are it."""
    k = len(transition)
    table = np.broadcast_to(transition, (k, k, k)).copy()
    return {
        "order 2": vs.infer(vs.Chain(unary, table, order=2, first=transition)),
        "segments": vs.infer(vs.SegmentChain(unary, transition, max_length=1)),
    }


@pytest.mark.parametrize("labels", [2, 3, 9])
def test_longer_chains_answer_as_the_chain_that_they_are(labels: int) -> None:
    rng = np.random.default_rng(labels)
    n = 20_000
    unary, transition = rng.normal(size=(n, labels)), rng.normal(size=(labels, labels))
    c = vs.infer(vs.Chain(unary, transition))
    for name, r in longer(unary, transition).items():
        assert np.abs(r.marginals - c.marginals).max() < 1e-14, name
        assert abs(r.log_z[0] - c.log_z[0]) <= 4 * EPS * abs(c.log_z[0]), name
        assert abs(r.entropy()[0] - c.entropy()[0]) <= 1e-13 * abs(c.log_z[0]), name
    counts = longer(unary, transition)["segments"].expectations()
    np.testing.assert_allclose(counts, c.expectations(), rtol=1e-11)


def test_longer_chains_in_logarithms() -> None:
    unary, transition, exact = one_way(6000, 1)
    c = vs.infer(vs.Chain(unary, transition))
    for name, r in longer(unary, transition).items():
        assert "in logarithms for 1 of 1" in r.reason
        assert abs(r.log_z[0] - exact) <= 2 * EPS * abs(exact), name
        assert np.abs(r.marginals - c.marginals).max() < 1e-12, name
        assert r.marginals.max() <= 1.0 + 2 * EPS, name
        assert abs(r.entropy()[0]) < 1e-14 * abs(exact), name
        edges = len(unary) - (2 if name == "order 2" else 1)
        assert abs(r.expectations().sum() - edges) < 1e-9, name


@pytest.mark.parametrize("longest", [2, 5])
def test_segments_in_both_arithmetics(longest: int) -> None:
    """Scores of some labels are far below the others, which only logarithms can hold."""
    rng = np.random.default_rng(longest)
    n, labels = 4000, 3
    unary, transition = rng.normal(size=(n, labels)), rng.normal(size=(labels, labels))
    duration = rng.normal(size=(longest, labels))
    plain = vs.infer(vs.SegmentChain(unary, transition, max_length=longest, duration=duration))
    # A label that is next to impossible, in a place where its scores cannot be scaled.
    wide = np.concatenate([unary, np.full((n, 1), -300.0)], axis=1)
    wide[n // 2, 3] = 0.0
    wide[n // 2, :3] -= 600.0
    more = np.zeros((labels + 1, labels + 1))
    more[:labels, :labels] = transition
    far = np.concatenate([duration, np.zeros((longest, 1))], axis=1)
    r = vs.infer(vs.SegmentChain(wide, more, max_length=longest, duration=far))
    assert plain.reason == "two passes"
    assert "in logarithms for 1 of 1" in r.reason
    for answer in (plain, r):
        assert np.abs(answer.marginals.sum(axis=1) - 1.0).max() < 1e-14
        segments = answer.segments()
        covered = np.zeros(n)
        for d in range(1, longest + 1):
            share = segments[:, d - 1].sum(axis=1)
            for back in range(d):
                covered[back:] += share[: n - back] if back else share
        assert np.abs(covered - 1.0).max() < 1e-12


@pytest.mark.parametrize("states", [2, 5, 16, 17])
def test_score_of_a_hidden_markov_model(states: int) -> None:
    rng = np.random.default_rng(states)
    symbols = rng.integers(0, 7, size=(200_000, 1))
    model = CategoricalHMM(states)
    model.startprob_ = rng.dirichlet(np.ones(states))
    model.transmat_ = rng.dirichlet(np.ones(states), size=states)
    model.emissionprob_ = rng.dirichlet(np.ones(7), size=states)
    with np.errstate(divide="ignore"):
        chain = vs.Chain(
            np.log(model.emissionprob_).T[symbols[:, 0]],
            np.log(model.transmat_),
            start=np.log(model.startprob_),
        )
    exact = vs.infer(chain).log_z[0]
    assert abs(model.score(symbols) - exact) <= 8 * EPS * abs(exact)


def test_score_of_rows_far_from_all_means() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50_000, 1))
    x[::7] += 1e4
    model = GaussianHMM(3, "diag")
    model.startprob_, model.transmat_ = np.full(3, 1 / 3), np.full((3, 3), 1 / 3)
    model.means_, model.covars_ = np.array([[-1.0], [0.0], [1.0]]), np.ones((3, 1))
    rows = -0.5 * (np.log(2 * np.pi) + (x - model.means_.T) ** 2) - np.log(3)
    top = rows.max(axis=1)
    exact = math.fsum((top + np.log(np.exp(rows - top[:, None]).sum(axis=1))).tolist())
    assert abs(model.score(x) - exact) <= 8 * EPS * abs(exact)


@pytest.mark.parametrize("labels", [2, 5])
@pytest.mark.parametrize("kind", ["chain", "order 2", "segments"])
def test_scores_of_best_labellings(kind: str, labels: int) -> None:
    """Best, n-best and given ones, two sequences, ends and a mask among them.

    Lists of chains after the best have the plain sums by which they are in order.
    """
    rng = np.random.default_rng(labels)
    lengths = [60_000, 40_000]
    n, second = sum(lengths), lengths[0]
    unary, table = 5 * rng.normal(size=(n, labels)), rng.normal(size=(labels,) * 3)
    allowed = rng.random((n, labels)) < 0.9
    allowed[:, 0] = True
    arguments = {"lengths": lengths, "start": table[0, 0], "end": table[1, 1], "allowed": allowed}
    models = {
        "chain": lambda: vs.Chain(unary, table[0], **arguments),
        "order 2": lambda: vs.Chain(unary, table, order=2, first=table[0], **arguments),
        "segments": lambda: vs.SegmentChain(unary, table[0], max_length=3, **arguments),
    }
    model = models[kind]()
    d = vs.decode(model, n_best=3)
    np.testing.assert_array_equal(vs.decode(model).score, d.score[0])
    assert (np.diff(d.score, axis=0) <= 0.0).all()
    for rank, (states, score) in enumerate(zip(d.states, d.score, strict=True)):
        y = model.labels(states) if kind == "segments" else states
        given = vs.log_prob(model, states) + vs.infer(model).log_z
        for s, (begin, end) in enumerate([(0, second), (second, n)]):
            terms = [table[0, 0, y[begin]], table[1, 1, y[end - 1]]]
            terms += unary[np.arange(begin, end), y[begin:end]].tolist()
            steps = np.arange(begin + 1, end)
            if kind == "segments":
                steps = steps[states[steps] >= 0]
            elif kind == "order 2":
                terms.append(table[0, y[begin], y[begin + 1]])
                steps = steps[1:]
            at = (y[steps - 2],) if kind == "order 2" else (0,)
            terms += table[(*at, y[steps - 1], y[steps])].tolist()
            exact = math.fsum(terms)
            plain = kind == "chain" and rank > 0
            assert abs(score[s] - exact) <= (n if plain else 2) * EPS * exact
            assert abs(given[s] - exact) <= 8 * EPS * exact


@pytest.mark.parametrize("size", [1e6, 1e9, 1e12, 1e15])
def test_segments_of_large_scores(size: float) -> None:
    """Two cuts, of which one is better by a half."""
    table = np.zeros((1, 1))
    chain = vs.SegmentChain(
        np.zeros((2, 1)), table, max_length=2, duration=[[size], [2 * size + 0.5]]
    )
    r = vs.infer(chain)
    p = 1 / (1 + np.exp(-0.5))
    np.testing.assert_allclose(r.segments()[0, 1, 0], p, atol=10 * EPS * size)
    np.testing.assert_allclose(r.log_z[0] - 2 * size, np.logaddexp(0.0, 0.5), atol=8 * EPS * size)
    expected = -(p * np.log(p) + (1 - p) * np.log(1 - p))
    np.testing.assert_allclose(r.entropy()[0], expected, atol=100 * EPS * size)


@pytest.mark.parametrize("seed", range(20))
def test_longer_chains_of_scores_that_leave_nothing_but_rounding(seed: int) -> None:
    rng = np.random.default_rng(seed)
    unary, table = rng.normal(size=(4, 2)) * 1e18, rng.normal(size=(2, 2, 2)) * 1e18
    second = vs.infer(vs.Chain(unary, table, order=2))
    segments = vs.infer(vs.SegmentChain(unary, table[0], max_length=2))
    for r in (second, segments):
        assert np.isfinite(r.marginals).all()
    np.testing.assert_allclose(second.marginals.sum(axis=1), 1.0, rtol=1e-15)


@pytest.mark.parametrize("labels", [2, 4, 9])
@pytest.mark.parametrize("size", [1.0, 1e2, 1e4, 1e7, 1e10])
def test_entropy_of_large_scores(size: float, labels: int) -> None:
    """Where one labelling is possible nothing is left to chance; else it is that of the chain."""
    n, rng = 40, np.random.default_rng(labels)
    for _ in range(10):
        unary = size * rng.normal(size=(n, labels))
        transition = size * rng.normal(size=(labels, labels))
        exact = vs.infer(vs.Chain(unary, transition)).entropy()[0]
        for name, r in longer(unary, transition).items():
            assert abs(r.entropy()[0] - exact) <= 16 * EPS * n * size, name
        only = np.where(np.arange(labels) == np.arange(n)[:, None] % labels, unary, -np.inf)
        for name, r in longer(only, transition).items():
            assert 0.0 <= r.entropy()[0] <= 16 * EPS * n * size, name
