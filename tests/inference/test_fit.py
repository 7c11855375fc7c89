"""`FactorGraph.fit`: counts, priors, and EM against enumeration and pgmpy."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from checks import assert_same_bits

import valuesparse as vs


def network() -> vs.FactorGraph:
    graph = vs.FactorGraph({"a": ["x", "y"], "b": 3, "c": 2, "d": 2})
    graph.add_cpt("a", [], [0.7, 0.3])
    graph.add_cpt("b", ["a"], [[0.2, 0.5, 0.3], [0.6, 0.2, 0.2]])
    graph.add_cpt("c", ["a"], [[0.9, 0.1], [0.25, 0.75]])
    graph.add_cpt("d", ["c", "b"], np.array([[0.1, 0.5, 0.9], [0.8, 0.4, 0.3]])[..., None] * [1, -1]
                  + np.array([0, 1]))  # fmt: skip
    return graph


def data(rows: int, missing: float, seed: int = 0) -> np.ndarray:
    states = vs.sample(network(), rows, seed)
    rng = np.random.default_rng(seed + 1)
    return np.where(rng.random(states.shape) < missing, -1, states)


def tables_of(graph: vs.FactorGraph) -> list[np.ndarray]:
    return [np.exp(f.log_table) for f in graph.factors]


def enumerated_step(
    graph: vs.FactorGraph, codes: np.ndarray, prior: float
) -> tuple[float, list[np.ndarray]]:
    """Log-likelihood, and the tables after one round of EM, by enumeration."""
    counts = [np.zeros(f.log_table.shape) for f in graph.factors]
    tables = tables_of(graph)
    total = 0.0
    every = list(itertools.product(*map(range, graph.cardinalities)))
    for row in codes:
        weights = {}
        for y in every:
            if all(k in (-1, x) for k, x in zip(row, y, strict=True)):
                weights[y] = np.prod([
                    t[tuple(y[v] for v in f.scope)]
                    for t, f in zip(tables, graph.factors, strict=True)
                ])  # fmt: skip
        mass = sum(weights.values())
        total += float(np.log(mass))
        for y, w in weights.items():
            for n, f in zip(counts, graph.factors, strict=True):
                n[tuple(y[v] for v in f.scope)] += w / mass
    new = [(n + prior) / (n + prior).sum(axis=-1, keepdims=True) for n in counts]
    return total, new


@pytest.mark.parametrize("prior", [0.0, 1.0, 0.3])
def test_complete_data_are_counted(prior: float) -> None:
    codes = data(200, 0.0)
    graph = network().fit(codes, prior=prior)
    _, expected = enumerated_step(network(), codes, prior)
    for found, table in zip(tables_of(graph), expected, strict=True):
        np.testing.assert_allclose(found, table, rtol=1e-13)
    assert graph.fitted is not None
    assert (graph.fitted.iterations, graph.fitted.converged, graph.fitted.rows) == (0, True, 200)
    states = [vs.log_prob(graph, row) for row in codes]
    assert graph.fitted.log_likelihood.tolist() == [pytest.approx(float(np.sum(states)))]


@pytest.mark.smoke
@pytest.mark.simd
@pytest.mark.parametrize("prior", [0.0, 1.0])
def test_rounds_of_em_against_enumeration(prior: float) -> None:
    codes = data(60, 0.3)
    first = network().fit(codes, prior=prior, max_iterations=1, tol=0.0)
    second = network().fit(codes, prior=prior, max_iterations=2, tol=0.0)
    likelihood, expected = enumerated_step(first, codes, prior)
    assert first.fitted is not None
    assert second.fitted is not None
    assert first.fitted.log_likelihood[1] == pytest.approx(likelihood, rel=1e-12)
    assert second.fitted.log_likelihood[1] == pytest.approx(likelihood, rel=1e-12)
    for found, table in zip(tables_of(second), expected, strict=True):
        np.testing.assert_allclose(found, table, rtol=0, atol=1e-12)
    assert not second.fitted.converged


def test_em_climbs_and_comes_to_rest() -> None:
    codes = data(400, 0.25, 3)
    graph = network().fit(codes, prior=0.0, tol=1e-9, max_iterations=500)
    assert graph.fitted is not None
    assert graph.fitted.converged
    steps = np.diff(graph.fitted.log_likelihood)
    assert (steps > -1e-9).all()
    _, fixed = enumerated_step(graph, codes, 0.0)
    for found, table in zip(tables_of(graph), fixed, strict=True):
        np.testing.assert_allclose(found, table, rtol=0, atol=1e-3)


def test_much_data_bring_the_network_back() -> None:
    graph = network().fit(data(20_000, 0.2, 5))
    for found, table in zip(tables_of(graph), tables_of(network()), strict=True):
        np.testing.assert_allclose(found, table, rtol=0, atol=0.04)


def test_a_variable_that_is_never_seen() -> None:
    """A mixture: EM has to leave the point where all components are alike."""
    rng = np.random.default_rng(0)
    hidden = rng.random(2000) < 0.4
    seen = np.where(hidden[:, None], rng.random((2000, 6)) < 0.9, rng.random((2000, 6)) < 0.15)
    graph = vs.FactorGraph({"h": 2, **{f"x{i}": 2 for i in range(6)}})
    graph.add_cpt("h")
    for i in range(6):
        graph.add_cpt(f"x{i}", ["h"])
    graph.fit({f"x{i}": seen[:, i].astype(int) for i in range(6)})
    on = np.exp(graph.factors[1].log_table)[:, 1]
    assert sorted(on.round(1).tolist()) == pytest.approx([0.15, 0.9], abs=0.06)
    assert graph.fitted is not None
    assert graph.fitted.converged


@pytest.mark.simd
def test_bits_do_not_depend_on_threads() -> None:
    codes = data(3000, 0.3, 7)
    first = network().fit(codes, threads=1, max_iterations=5)
    for threads in (2, 3, 8):
        other = network().fit(codes, threads=threads, max_iterations=5)
        for f, g in zip(first.factors, other.factors, strict=True):
            assert_same_bits(f.log_table, g.log_table)


def test_frames_with_names_and_rows_never_seen() -> None:
    graph = vs.FactorGraph({"rain": ["no", "yes"], "wet": ["no", "yes"]})
    graph.add_cpt("rain", [], [0.5, 0.5])
    graph.add_cpt("wet", ["rain"], [[0.5, 0.5], [0.125, 0.875]])
    tree = vs.JunctionTree(graph)
    fitted = graph.fit({"rain": ["no", "no", "no"], "wet": ["no", "no", "yes"]}, prior=0.0)
    assert fitted is graph
    np.testing.assert_allclose(np.exp(graph.factors[0].log_table), [1.0, 0.0])
    np.testing.assert_allclose(np.exp(graph.factors[1].log_table), [[2 / 3, 1 / 3], [0.125, 0.875]])
    assert vs.infer(graph)["wet", "yes"] == pytest.approx(1 / 3)
    assert tree.infer()["rain"].tolist() == [0.5, 0.5]  # it was built before
    copy = pickle.loads(pickle.dumps(graph))
    assert copy.fitted is not None
    assert copy.fitted.log_likelihood.tolist() == graph.fitted.log_likelihood.tolist()  # type: ignore[union-attr]
    assert graph.check() == [] or all(f.kind == "impossible states" for f in graph.check())
    assert vs.FactorGraph([2]).fitted is None


def test_rows_never_seen_stay_where_others_have_missing_values() -> None:
    """Neither the numbers that EM starts from nor those of a round are anybody's there."""
    codes = data(100, 0.4)
    codes[:, 0], codes[:, 1] = 0, np.where(codes[:, 1] == 2, 1, codes[:, 1])
    codes[codes[:, 1] < 0, 1] = 0  # the last state of b is never seen, nor expected
    before = tables_of(network())
    for rounds in (1, 50):
        _, b, c, d = tables_of(network().fit(codes, prior=0.0, max_iterations=rounds))
        assert_same_bits(b[1], before[1][1])
        assert_same_bits(c[1], before[2][1])
        assert_same_bits(d[:, 2], before[3][:, 2])
        assert b[0, 2] == 0.0
        assert not (d[:, :2] == before[3][:, :2]).any()
    graph = vs.FactorGraph({"a": 2, "b": 2})
    graph.add_cpt("a")
    graph.add_cpt("b", ["a"])  # nothing is seen, and it is shaken
    graph.fit({"a": [0, 0, 0], "b": [None] * 3}, prior=0.0)
    np.testing.assert_array_equal(np.exp(graph.factors[1].log_table)[1], [0.5, 0.5])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("prior", [1e-98, 1e-101, 1e-200, 5e-324])
def test_tiny_priors_are_almost_none(prior: float) -> None:
    """They leave probabilities that EM takes for 0, and these have a logarithm in the penalty."""
    frame = {"a": [0] * 4, "b": [0, 0, 1, None]}
    fits = []
    for each in (0.0, prior):
        graph = vs.FactorGraph({"a": 2, "b": 2})
        graph.add_cpt("a")
        graph.add_cpt("b", ["a"])
        fits.append(graph.fit(frame, prior=each))
    none, tiny = fits
    assert none.fitted is not None
    assert tiny.fitted is not None
    assert tiny.fitted.converged
    assert tiny.fitted.iterations == none.fitted.iterations > 1
    assert tables_of(tiny)[1][0] == pytest.approx(tables_of(none)[1][0], rel=1e-12)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_huge_priors_are_uniform(missing: float) -> None:
    for table in tables_of(network().fit(data(20, missing), prior=1e200)):
        np.testing.assert_array_equal(table, np.full(table.shape, 1 / table.shape[-1]))


def test_progress() -> None:
    seen: list[tuple[int, int]] = []
    codes = data(50, 0.3)
    network().fit(codes, max_iterations=9, progress=lambda i, n: seen.append((i, n)))
    assert seen[-1] == (9, 9)
    assert all(total == 9 for _, total in seen)


def broken(how: str) -> vs.FactorGraph:
    graph = network()
    if how == "factor":
        graph.add(["a"], [0.0, 1.0])
    elif how == "evidence":
        graph.set_evidence({"a": 0})
    elif how == "table":
        graph = vs.FactorGraph({"a": 2, "b": 2, "c": 2, "d": 2})
        graph.add_cpt("a")
    return graph


@pytest.mark.parametrize(
    ("how", "arguments", "words"),
    [
        ("factor", {}, "factor 4 is no conditional table"),
        ("evidence", {}, "the graph has evidence of its own, on 'a'"),
        ("table", {}, "variable 'b' has no conditional table"),
        ("", {"prior": -1.0}, "prior must be a number >= 0"),
        ("", {"prior": np.inf}, "prior must be a finite number"),
        ("", {"prior": 1e300}, r"prior must be at most 1e\+200, got 1e\+300"),
        ("", {"tol": -1.0}, "tol must be a number >= 0"),
        ("", {"max_iterations": 0}, "max_iterations must be an integer >= 1"),
        ("", {"frame": {"a": ["z"]}}, r"frame\['a'\]\[0\]: variable 'a' has no state 'z'"),
        ("", {"frame": {}}, "frame has no rows"),
    ],
)
def test_refusals(how: str, arguments: dict[str, Any], words: str) -> None:
    graph = broken(how)
    before = [f.log_table.copy() for f in graph.factors]  # type: ignore[union-attr]
    with pytest.raises(ValueError, match=words):
        graph.fit(**{"frame": np.zeros((1, 4), dtype=int), **arguments})
    for f, table in zip(graph.factors, before, strict=True):
        np.testing.assert_array_equal(f.log_table, table)


def test_the_same_as_pyagrum_learns() -> None:
    gum = pytest.importorskip("pyagrum", reason="pyAgrum is the oracle")
    pytest.importorskip("pandas", reason="frames are those of pandas")
    graph = vs.from_pyagrum(gum.fastBN("a{x|y}->b{p|q|r}->d{u|v}<-c{s|t}<-a"))
    frame = vs.sample(graph, 300, 2, frame=True).astype(str)
    bn = gum.fastBN("a{x|y}->b{p|q|r}->d{u|v}<-c{s|t}<-a")
    learner = gum.BNLearner(frame, bn)
    learner.useSmoothingPrior(1.0)
    theirs = vs.from_pyagrum(learner.learnParameters(bn.dag()))
    graph.fit(frame)
    for f, g in zip(graph.factors, theirs.factors, strict=True):
        assert f.scope == g.scope
        np.testing.assert_allclose(np.exp(f.log_table), np.exp(g.log_table), rtol=1e-6)
