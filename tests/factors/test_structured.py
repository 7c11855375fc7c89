"""Structured factors on their own: every verb against mpmath or enumeration."""

from __future__ import annotations

import itertools
import pickle

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples
from structured_oracle import AnyOf, best_of, sum_product_of

import valuesparse as vs
from valuesparse.factors import Structured, Xor

SCORES = st.sampled_from([0.0, 1.0, -2.5, 10_000.0, -10_000.0, 9_999.5, -np.inf, 700.0, 1e-9])


@st.composite
def cases(draw):
    """Return a factor and messages with all that is hard about them."""
    k = draw(st.integers(1, 6))
    negated = draw(st.lists(st.integers(0, k - 1), unique=True))
    entries = draw(st.lists(SCORES, min_size=2 * k, max_size=2 * k))
    return Xor(*range(k), negated=negated), np.array(entries).reshape(k, 2)


def near(found: np.ndarray, wanted: list) -> None:
    """Compare probabilities to a relative 1e-9; those that no double holds are zero."""
    for x, y in zip(found.tolist(), wanted, strict=True):
        assert abs(mpmath.mpf(x) - y) <= 1e-9 * y + mpmath.mpf("1e-300"), (x, y)


@given(cases())
@examples(300)
def test_marginals_have_all_digits_of_both_sides(case) -> None:
    factor, messages = case
    mass, p, c = factor.sum_product(messages)
    log_mass, on, off = sum_product_of(factor, messages)
    assert not np.isnan([mass, *p, *c]).any()
    if log_mass is None:
        assert mass == -np.inf
        assert not p.any()
        assert not c.any()
        assert factor.entropy(messages) == 0.0
        return
    assert abs(mass - log_mass) <= 1e-9 * max(1, abs(log_mass))
    near(p, on)
    near(c, off)
    entropy = -sum(w * mpmath.log(w) for w in on if w > 0) if not factor.negated else None
    if entropy is not None:  # one is on: the distribution is that of which
        assert abs(factor.entropy(messages) - entropy) <= 1e-7


@given(cases())
@examples(300)
def test_best_and_max_marginals(case) -> None:
    factor, messages = case
    score, states = factor.best(messages)
    wanted = best_of(factor, messages)
    np.testing.assert_allclose(score, wanted.max(), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(factor.max_marginals(messages), wanted, rtol=1e-9, atol=1e-9)
    if score > -np.inf:
        assert factor.log_potential(states[None])[0] == 0.0
        assert messages[np.arange(len(states)), states].sum() == pytest.approx(score)


@given(cases())
@examples(100)
def test_joints_of_two(case) -> None:
    factor, messages = case
    k = len(factor.scope)
    pairs = list(itertools.permutations(range(k), 2))
    found = factor.joint(messages, pairs)
    assert found.shape == (len(pairs),)
    rows = np.array(list(itertools.product(range(2), repeat=k)))
    scores = factor.log_potential(rows) + messages[np.arange(k), rows].sum(axis=1)
    if scores.max() == -np.inf:
        assert not found.any()
        return
    weights = np.exp(scores - scores.max())
    for (a, b), x in zip(pairs, found, strict=True):
        both = weights[(rows[:, a] == 1) & (rows[:, b] == 1)].sum() / weights.sum()
        assert x == pytest.approx(both, abs=1e-9)


@pytest.mark.parametrize("negated", [(), (0, 2)])
def test_projection_is_the_nearest_point(negated: tuple[int, ...]) -> None:
    rng = np.random.default_rng(5)
    factor = Xor(*range(5), negated=negated)
    rows = np.array(list(itertools.product(range(2), repeat=5)))
    vertices = rows[factor.log_potential(rows) == 0.0]
    for _ in range(30):
        point = rng.normal(0.0, 1.0, 5)
        found = factor.project(point)
        # Optimal over a polytope: no vertex lies further in the direction of what is left.
        assert ((vertices - found) @ (point - found)).max() <= 1e-9
        np.testing.assert_allclose(factor.project(found), found, atol=1e-9)


def test_polytope_holds_what_is_possible_and_nothing_else() -> None:
    factor = Xor(0, 1, 2, negated=[1])
    upper, _, equal, right, more = factor.polytope()
    rows = np.array(list(itertools.product(range(2), repeat=3)))
    assert upper.shape == (0, 3)
    assert more == 0
    inside = (equal @ rows.T == right[:, None]).all(axis=0)
    assert (inside == (factor.log_potential(rows) == 0.0)).all()


def test_a_thousand_variables() -> None:
    rng = np.random.default_rng(0)
    messages = rng.normal(0.0, 4.0, (1000, 2))
    mass, p, c = Xor(*range(1000)).sum_product(messages)
    odds = messages[:, 1] - messages[:, 0]
    weights = [mpmath.exp(mpmath.mpf(x)) for x in odds.tolist()]
    total = mpmath.fsum(weights)
    near(p, [w / total for w in weights])
    near(c, [(total - w) / total for w in weights])
    assert abs(mass - (messages[:, 0].sum() + mpmath.log(total))) < 1e-9


def test_attributes_refusals_and_pickles() -> None:
    factor = Xor(4, 2, negated=[1])
    assert repr(factor) == "Xor(4, 2, negated=(1,))"
    copy = pickle.loads(pickle.dumps(factor))
    assert (copy.scope, copy.negated) == ((4, 2), (1,))
    assert factor.table([2, 2]).tolist() == [[0.0, -np.inf], [-np.inf, 0.0]]
    for make, words in [
        (lambda: Xor(), "at least one variable"),
        (lambda: Xor(0, 1, 0), "variable 0 twice"),
        (lambda: Xor(0, 1, negated=[2]), "negated has place 2"),
        (lambda: Xor(*range(27)).table([2] * 27), "has no table"),
        (lambda: factor.sum_product(np.zeros((3, 2))), r"shape \(2, 2\)"),
        (lambda: factor.sum_product([[0.0, np.nan], [0.0, 0.0]]), "without NaN"),
        (lambda: factor.project([np.inf, 0.0]), "finite numbers"),
        (lambda: vs.FactorGraph([2, 3]).add(Xor(0, 1)), "factor 0: Xor takes binary variables"),
    ]:
        with pytest.raises(ValueError, match=words):
            make()
    with pytest.raises(AttributeError, match="read-only"):
        factor.negated = ()


def test_a_kind_of_ones_own_has_the_rest_for_nothing() -> None:
    factor = AnyOf((0, 1, 2))
    messages = np.random.default_rng(1).normal(0.0, 1.0, (3, 2))
    rows = np.array(list(itertools.product(range(2), repeat=3)))
    scores = factor.log_potential(rows) + messages[np.arange(3), rows].sum(axis=1)
    p = np.exp(scores - np.logaddexp.reduce(scores))
    entropy = -(p[p > 0.0] * np.log(p[p > 0.0])).sum()
    assert factor.entropy(messages) == pytest.approx(entropy)
    both = p[(rows[:, 0] == 1) & (rows[:, 2] == 1)].sum()
    assert factor.joint(messages, [(0, 2)]) == pytest.approx(both)
    np.testing.assert_allclose(factor.project([-1.0, -1.0, 0.2]), [0.0, 0.0, 1.0], atol=1e-9)
    for verb in (factor.polytope, lambda: factor.max_marginals(messages)):
        with pytest.raises(NotImplementedError, match="AnyOf"):
            verb()
    assert isinstance(factor, Structured)
