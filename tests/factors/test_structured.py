"""Structured factors on their own: every verb against mpmath or enumeration."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from strategies import examples
from structured_oracle import (
    ALLOWED,
    AnyOf,
    best_of,
    check_joints,
    check_sums,
    configurations,
    make,
    messages_of,
    near,
)

import valuesparse as vs
from valuesparse.factors import Budget, Imply, Nand, Or, Structured, Xor

KINDS = sorted(ALLOWED)


@st.composite
def cases(draw):
    """Return a factor and messages with all that is hard about them."""
    kind = draw(st.sampled_from(KINDS))
    k = 2 if kind == "Imply" else draw(st.integers(1, 6))
    negated = draw(st.lists(st.integers(0, k - 1), unique=True))
    factor = make(kind, range(k), negated, draw(st.integers(0, k + 1)))
    return factor, draw(messages_of(factor))


@given(cases())
@examples(1000)
def test_marginals_have_all_digits_of_both_sides(case) -> None:
    check_sums(*case)


@given(cases())
@examples(1000)
def test_best_and_max_marginals(case) -> None:
    factor, messages = case
    score, states = factor.best(messages)
    wanted = best_of(factor, messages)
    np.testing.assert_allclose(score, wanted.max(), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(factor.max_marginals(messages), wanted, rtol=1e-9, atol=1e-9)
    if score > -np.inf:
        assert factor.log_potential(states[None])[0] == 0.0
        assert messages[np.arange(len(states)), states].sum() == pytest.approx(score)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("negated", [(), (0, 1)])
def test_best_of_all_that_can_be_known(kind: str, negated: tuple[int, ...]) -> None:
    factor = make(kind, range(2 if kind == "Imply" else 4), negated)
    allowed = configurations(factor)
    rng = np.random.default_rng(0)
    for known in itertools.product((-1, 0, 1), repeat=len(factor.scope)):
        messages = rng.normal(size=(len(known), 2))
        for i, state in enumerate(known):
            if state >= 0:
                messages[i, 1 - state] = -np.inf
        scores = messages[np.arange(len(known)), allowed].sum(axis=1)
        score, states = factor.best(messages)
        assert score == pytest.approx(scores.max())
        if score > -np.inf:
            assert factor.log_potential(states[None])[0] == 0.0


@given(cases())
@examples(300)
def test_joints_of_two(case) -> None:
    check_joints(*case)


@given(cases(), st.integers(0, 2**32 - 1), st.sampled_from([0.3, 1.0, 30.0]))
@examples(600)
def test_projection_is_the_nearest_point(case, seed: int, scale: float) -> None:
    factor, _ = case
    vertices = configurations(factor)
    point = np.random.default_rng(seed).normal(0.3, scale, len(factor.scope))
    found = factor.project(point)
    # Optimal over a polytope: no vertex lies further in the direction of what is left; and the
    # point of a method which knows no more of the kind than `best`.
    assert ((vertices - found) @ (point - found)).max() <= 1e-9 * scale
    np.testing.assert_allclose(found, Structured.project(factor, point), atol=1e-8)
    np.testing.assert_allclose(factor.project(found), found, atol=1e-9)


@pytest.mark.parametrize("kind", ["Xor", "XorOut", "AtMostOne", "Budget", "Or", "OrOut"])
@pytest.mark.parametrize("far", [2.0**20, 2.0**44])
def test_projections_of_points_far_away(kind: str, far: float) -> None:
    """Hulls with a fixed sum are asked from afar, across to it: the nearest point is the same."""
    rng = np.random.default_rng(7)
    negated = [1, 4]
    factor = make(kind, range(6), negated)
    across = np.ones(6)  # the inputs that are on count up, and an output down
    across[negated] = -1.0
    if kind in ("OrOut", "XorOut"):
        across[5] *= -1.0
    for _ in range(20):
        point = rng.integers(-64, 128, 6) / 64.0
        face = make("Xor" if kind in ("Or", "AtMostOne") else kind, range(6), negated)
        side = -far if kind in ("Or", "OrOut") else far
        on_face = face.project(point)
        if kind in ("Budget", "OrOut"):  # from so far that only the sum counts
            on_face = factor.project(point + np.sign(side) * 16.0 * across)
        found = factor.project(point + side * across)
        np.testing.assert_allclose(found, on_face, rtol=0, atol=1e-12)
    huge = np.where(np.arange(6) == 2, 1e300, -1e300) * across
    corner = factor.project(huge)
    assert factor.log_potential(corner.astype(np.int64)) == 0.0
    assert set(corner.tolist()) <= {0.0, 1.0}


def test_projections_of_ties_and_of_corners() -> None:
    for kind in KINDS:
        for negated in ((), (0, 1)):
            factor = make(kind, range(5), negated)
            k = len(factor.scope)
            for vertex in configurations(factor).astype(float):
                np.testing.assert_allclose(factor.project(vertex), vertex, atol=1e-15)
            for point in (np.zeros(k), np.ones(k), np.full(k, 0.5), np.full(k, -3.0)):
                wanted = Structured.project(factor, point)
                np.testing.assert_allclose(factor.project(point), wanted, atol=1e-9)


@given(cases(), st.integers(0, 2**32 - 1))
@examples(200)
def test_the_best_point_of_the_polytope_is_the_best_configuration(case, seed: int) -> None:
    factor, _ = case
    k = len(factor.scope)
    upper, below, equal, right, more = factor.polytope()
    rows = np.array(list(itertools.product(range(2), repeat=k)))
    assert more == 0
    inside = (upper @ rows.T <= below[:, None]).all(axis=0)
    inside &= (equal @ rows.T == right[:, None]).all(axis=0)
    np.testing.assert_array_equal(rows[inside], configurations(factor))
    np.testing.assert_array_equal(factor.log_potential(rows) == 0.0, inside)
    gain = np.random.default_rng(seed).normal(size=k)
    found = linprog(-gain, upper, below, equal, right, bounds=(0, 1), method="highs")
    score = factor.best(np.stack([np.zeros(k), gain], axis=1))[0]
    assert -found.fun == pytest.approx(score, abs=1e-8)


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


# Budgets of scores that lie far apart sum in numbers with exponents: from 21.8 on here.
@pytest.mark.parametrize(
    ("kind", "scale"), [*((kind, 3.0) for kind in KINDS), ("Budget", 21.7), ("Budget", 22.0)]
)
def test_sixty_variables_of_ordinary_scores(kind: str, scale: float) -> None:
    rng = np.random.default_rng(1)
    factor = make(kind, range(60), [0, 3], budget=7)
    k = len(factor.scope)
    messages = rng.normal(0.0, scale, (k, 2))
    # By counts, in numbers of 60 digits: prefixes of the inputs with c on.
    mass, p, c = factor.sum_product(messages)
    total = counted(factor, messages)
    assert abs(mass - mpmath.log(total)) <= 1e-9
    for i in range(0, k, 7):
        for state, side in ((1, p[i]), (0, c[i])):
            held = messages.copy()
            held[i, 1 - state] = -np.inf
            near(np.array([side]), [counted(factor, held) / total])


def counted(factor: Structured, messages: np.ndarray) -> mpmath.mpf:
    """Return the mass, summed over how many inputs are on (but for the last) and the last one."""
    k = len(messages)
    sides = messages.copy()
    sides[list(factor.negated)] = sides[list(factor.negated), ::-1]
    weights = [[mpmath.exp(mpmath.mpf(x)) for x in row] for row in sides.tolist()]
    masses = [mpmath.mpf(1)]
    for off, on in weights[:-1]:
        grown = [x * off for x in masses] + [mpmath.mpf(0)]
        for i, x in enumerate(masses):
            grown[i + 1] += x * on
        masses = grown
    allows = ALLOWED[type(factor).__name__]
    total = mpmath.mpf(0)
    for count, x in enumerate(masses):
        for last in range(2):
            if allows([1] * count + [0] * (k - 1 - count) + [last], factor):
                total += x * weights[-1][last]
    if type(factor).__name__ == "Imply":  # the order of its two inputs matters
        (a, b), (c, d) = weights
        return a * c + a * d + b * d
    return total


def test_attributes_refusals_and_pickles() -> None:
    factor = Xor(4, 2, negated=[1])
    assert repr(factor) == "Xor(4, 2, negated=(1,))"
    copy = pickle.loads(pickle.dumps(factor))
    assert (copy.scope, copy.negated) == ((4, 2), (1,))
    assert factor.table([2, 2]).tolist() == [[0.0, -np.inf], [-np.inf, 0.0]]
    for ask, words in [
        (lambda: Xor(), "at least one variable"),
        (lambda: Xor(0, 1, 0), "variable 0 twice"),
        (lambda: Xor(0, 1, negated=[2]), "negated has place 2"),
        (lambda: Nand(0, 1, negated=[-1]), "negated has place -1: Nand has 2 variables"),
        (lambda: Budget(0, 1, budget=-1), "budget must be an integer >= 0, got -1"),
        (lambda: Imply(3, 3), "Imply has variable 3 twice"),
        (lambda: vs.FactorGraph([2, 3]).add(Or(0, 1)), "factor 0: Or takes binary variables"),
        (lambda: Xor(*range(27)).table([2] * 27), "has no table"),
        (lambda: factor.sum_product(np.zeros((3, 2))), r"shape \(2, 2\)"),
        (lambda: factor.sum_product([[0.0, np.nan], [0.0, 0.0]]), r"messages\[0, 1\] is NaN"),
        (lambda: factor.sum_product(np.full((2, 2), -1e308)), r"messages\[0, 0\] is -1e\+308"),
        (lambda: factor.joint(np.zeros((2, 2)), [(0, 1), (0, 2)]), r"pairs\[1\] is \(0, 2\)"),
        (lambda: factor.joint(np.zeros((2, 2)), [(-1, 0)]), r"pairs\[0\] is \(-1, 0\)"),
        (lambda: factor.joint(np.zeros((2, 2)), [(0.5, 1)]), "pairs must be integers"),
        (lambda: factor.joint(np.zeros((2, 2)), [(0, 1, 1)]), r"shape \(m, 2\)"),
        (lambda: Budget(0, 1, budget=1.0), "budget must be an integer >= 0, got 1.0"),
        (lambda: factor.project([np.inf, 0.0]), "finite numbers"),
        (lambda: vs.FactorGraph([2, 3]).add(Xor(0, 1)), "factor 0: Xor takes binary variables"),
    ]:
        with pytest.raises(ValueError, match=words):
            ask()
    with pytest.raises(AttributeError, match="read-only"):
        factor.negated = ()
    for wrong, words in (
        (lambda: Xor(0, 1, negated=0), "negated must hold places"),
        (lambda: Xor([0, 1]), "variables of Xor are numbers"),
        (lambda: factor.sum_product(np.zeros((2, 2), complex)), "messages must hold real numbers"),
    ):
        with pytest.raises(TypeError, match=words):
            wrong()
    assert factor.joint(np.zeros((2, 2)), []).shape == (0,)


TREES = [vs.factors.Tree, vs.factors.ProjectiveTree]


@pytest.mark.parametrize("kind", [*KINDS, *TREES])
def test_the_entropy_of_ties_among_large_messages(kind: Any) -> None:
    rng = np.random.default_rng(0)
    arcs = [(h, m) for m in (1, 2, 3) for h in range(4) if h != m]
    for draw in range(150):
        if kind in TREES:
            factor = kind(arcs, range(len(arcs)), bool(draw % 2))
        else:
            k = 2 if kind == "Imply" else 2 + draw % 4
            factor = make(kind, range(k), [0] if draw % 3 == 0 else [], 2)
        k = len(factor.scope)
        messages = rng.choice([-1e4, 0.0, 1e4], (k, 2)) + (draw % 2) * rng.normal(size=(k, 2))
        if draw % 5 == 0:
            messages[0, 1] = -np.inf
        rows = np.array(list(itertools.product(range(2), repeat=k)))
        scores = factor.log_potential(rows) + messages[np.arange(k), rows].sum(axis=1)
        if scores.max() == -np.inf:
            assert factor.entropy(messages) == 0.0
            continue
        p = np.exp(scores - scores.max())
        p = p[p > 0.0] / p.sum()
        assert factor.entropy(messages) == pytest.approx(-(p * np.log(p)).sum(), abs=1e-8)


def test_every_kind_pickles_and_says_what_it_is() -> None:
    for kind in KINDS:
        factor = make(kind, (4, 2), [1], budget=1)
        budget = ", budget=1" if kind == "Budget" else ""
        assert repr(factor) == f"{kind}(4, 2{budget}, negated=(1,))"
        article = "an" if kind in ("AtMostOne", "Imply", "Or", "OrOut") else "a"
        assert factor.described == f"{article} {kind} over 2 variables"
        copy = pickle.loads(pickle.dumps(factor))
        assert (repr(copy), type(copy)) == (repr(factor), type(factor))
        np.testing.assert_array_equal(copy.table([2, 2]), factor.table([2, 2]))


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


def test_log_potential_of_one_configuration_and_of_many() -> None:
    for factor in (
        Xor(4, 5, 6, negated=(1,)),
        vs.factors.Tree([(0, 1), (0, 2), (1, 2)], (0, 1, 2)),
    ):
        rows = np.array(list(itertools.product((0, 1), repeat=3)))
        found = factor.log_potential(rows)
        assert found.shape == (8,)
        assert [float(factor.log_potential(row.tolist())) for row in rows] == found.tolist()
        assert factor.log_potential(rows.astype(bool)).tolist() == found.tolist()
        for bad in ([0, 1], [[0, 1]], 0, [0, 1, 2], [0, 1, -1], [0.0, 1.0, 0.0], []):
            with pytest.raises(ValueError, match="states must"):
                factor.log_potential(bad)


@pytest.mark.parametrize("bad", [[(0, 3)], [(-1, 0)], [0, 1, 2], [(0.0, 1.0)], [(0, 1, 2)]])
def test_pairs_of_a_joint_are_places(bad: object) -> None:
    with pytest.raises(ValueError, match="pairs"):
        Xor(0, 1, 2).joint(np.zeros((3, 2)), bad)
    assert Xor(0, 1, 2).joint(np.zeros((3, 2)), []).shape == (0,)


@pytest.mark.parametrize("size", [1e19, 1e100, 1e200])
def test_messages_that_no_exponent_carries(size: float) -> None:
    """Loops through hard factors make messages of any size: the best configuration is left."""
    rng = np.random.default_rng(3)
    arcs = [(h, m) for m in (1, 2, 3) for h in range(4) if h != m]
    for factor in (
        *(Budget(0, 1, 2, 3, budget=b, negated=(1,)) for b in range(4)),
        vs.factors.Tree(arcs, range(9)),
        vs.factors.Tree(arcs, range(9), single_root=True),
        vs.factors.ProjectiveTree(arcs, range(9)),
    ):
        messages = rng.normal(size=(len(factor.scope), 2)) * size
        score, states = factor.best(messages)
        mass, p, c = factor.sum_product(messages)
        assert mass == pytest.approx(score, rel=1e-12)
        np.testing.assert_array_equal(p, states)
        np.testing.assert_array_equal(c, 1 - states)
        pairs = [(0, 1), (2, 3), (1, 1)]
        both = [states[a] * states[b] for a, b in pairs]
        np.testing.assert_array_equal(factor.joint(messages, pairs), both)


@pytest.mark.parametrize("bad", [("a",), ([0, 1],), (0.0, 1), (None,)])
def test_variables_are_numbers(bad: tuple[object, ...]) -> None:
    with pytest.raises(TypeError, match="variables of Xor are numbers"):
        Xor(*bad)
    assert repr(Xor(*np.arange(2))) == "Xor(0, 1)"
    with pytest.raises(TypeError, match="negated must hold places"):
        Xor(0, 1, negated=1)


class Careless(Structured):
    """A kind of one's own that returns what it is told to."""

    answer: Any = None

    def log_potential(self, states: Any) -> Any:
        return np.zeros(len(states))

    def sum_product(self, messages: Any) -> Any:
        return self.answer

    def best(self, messages: Any) -> Any:
        return self.answer


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((0.0, np.full(2, np.inf), np.full(2, 0.5)), "variable 3 they are inf and 0.5"),
        ((0.0, np.array([0.5, 0.0]), np.array([0.5, 0.0])), "variable 1 they are 0 and 0"),
        ((0.0, np.full(2, 0.5), np.full(2, 0.9)), "must return P"),
        ((0.0, np.full(2, 0.5)), "sum_product of .* must return a tuple of 3"),
        (None, "sum_product of .* must return a tuple of 3, got None"),
        ((np.zeros(1), np.full(2, 0.5), np.full(2, 0.5)), "sum_product of .* one number as its"),
        ((None, np.full(2, 0.5), np.full(2, 0.5)), "sum_product of .* as its log mass, got None"),
        ((0.0, "b", "c"), r"sum_product of .* real numbers of shape \(2,\), got 'b'"),
        ((0.0, [[1], [1, 2]], [0.5, 0.5]), r"sum_product of .* got \[\[1\], \[1, 2\]\]"),
        ((0.0, np.full(2, 0.5 + 0j), np.full(2, 0.5)), r"sum_product of .* got array\(\[0.5\+0"),
    ],
)
@pytest.mark.parametrize("method", ["auto", "bp"])
def test_what_sum_product_of_users_returns_is_checked(answer: Any, words: str, method: str) -> None:
    graph, factor = vs.FactorGraph([2] * 4), Careless((3, 1))
    factor.answer = answer
    graph.add(factor)
    with pytest.raises(ValueError, match=words):
        vs.infer(graph, method=method)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((0.0, np.array([1.5, 0.0])), "states 0 and 1"),
        (None, "best of .* must return a tuple of 2"),
        ((0.0, np.full(2, 1e300)), "states 0 and 1"),
        ((1j, np.zeros(2)), "best of .* must return one number as its score, got 1j"),
        ((0.0, ["a", "b"]), r"best of .* real numbers of shape \(2,\), got \['a', 'b'\]"),
    ],
)
def test_what_best_of_users_returns_is_checked(answer: Any, words: str) -> None:
    graph, factor = vs.FactorGraph([2] * 4), Careless((3, 1))
    factor.answer = answer
    graph.add(factor)
    with pytest.raises(ValueError, match=words):
        vs.decode(graph)


class OddScores(Structured):
    """All configurations, with other answers of one verb."""

    scores: Any = staticmethod(lambda states: np.zeros(len(states)))
    joints: Any = None

    def log_potential(self, states: Any) -> Any:
        return self.scores(states)

    def sum_product(self, messages: Any) -> Any:
        on, mass = messages[:, 1] - messages[:, 0], np.logaddexp(*messages.T).sum()
        return mass, 1.0 / (1.0 + np.exp(-on)), 1.0 / (1.0 + np.exp(on))

    def best(self, messages: Any) -> Any:
        return messages.max(axis=1).sum(), messages.argmax(axis=1)

    def joint(self, messages: Any, pairs: Any) -> Any:
        return super().joint(messages, pairs) if self.joints is None else self.joints


@pytest.mark.parametrize(
    ("scores", "error", "words"),
    [
        (lambda states: 0.0, ValueError, r"shape \(1,\), a number for each row of states, got"),
        (lambda states: None, ValueError, r"shape \(1,\), a number for each row of states, got"),
        (lambda states: np.full(len(states), np.nan), ValueError, "0 or -inf, got nan for states"),
        (lambda states: np.full(len(states), np.inf), ValueError, "0 or -inf, got inf for states"),
        (lambda states: np.zeros(len(states), complex), TypeError, "real numbers, got dtype"),
    ],
)
def test_what_log_potential_of_users_returns_is_checked_in_every_engine(
    scores: Any, error: type[Exception], words: str
) -> None:
    factor = OddScores((2, 0, 1))
    factor.scores = scores
    graph = vs.FactorGraph([2] * 4)
    graph.add(factor)
    graph.add([2, 0], [[0.0, 0.5], [0.5, 0.0]])
    graph.add([0], [0.0, 0.1])
    for ask in (
        lambda: vs.decode(graph, method="ad3"),
        lambda: vs.decode(graph, method="bp"),
        lambda: vs.log_prob(graph, [1, 0, 0, 0]),
    ):
        with pytest.raises(error, match=rf"log_potential of OddScores\(2, 0, 1\) .*{words}"):
            ask()


def test_what_joint_of_users_returns_is_checked() -> None:
    factor = OddScores((0, 1, 2))
    factor.joints = np.zeros(3)
    graph = vs.FactorGraph([2] * 3)
    graph.add(factor)
    graph.add_feature([0, 1], [1, 1], 0.5)
    with pytest.raises(ValueError, match=r"joint of OddScores\(0, 1, 2\) .*shape \(1,\)"):
        vs.relax(graph)


@pytest.mark.parametrize("mask", [[True, False], [0, True], [np.True_]])
def test_a_mask_is_no_list_of_places(mask: list[object]) -> None:
    with pytest.raises(TypeError, match="negated must hold places"):
        vs.factors.Xor(0, 1, negated=mask)  # type: ignore[arg-type]
