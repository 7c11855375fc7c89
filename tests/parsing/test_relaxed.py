"""Relaxed parsing adds the pairs of arcs that `vs.relax` adds on the whole graph."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import valuesparse as vs
from tests.parsing.treebank import treebank
from valuesparse import _parser as native
from valuesparse.parsing import Parser, Sentence, write_conll
from valuesparse.parsing._encoding import encode
from valuesparse.parsing._model import ParserModel

Array = npt.NDArray[Any]
BITS = 5
#: Iterations and tolerance with which two engines agree.
LONG, TIGHT = 4000, 1e-13


def by_chance(
    seed: int, scale: float, arcs: float = 1.0, constraint: str = "tree", single_root: bool = False
) -> Parser:
    """Return a parser whose weights are Gaussian; those of pairs have the deviation `scale`."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=native.weights_of_parts(2, BITS)).astype(np.float32)
    first = native.weights_of_parts(1, BITS)
    weights[:first] *= arcs * 0.2
    weights[first:] *= scale
    labeller = np.zeros(native.weights_of_labels(1, BITS), np.float32)
    pruner = rng.normal(size=native.weights_of_parts(0, BITS)).astype(np.float32)
    model = ParserModel(
        order=2, bits=BITS, pruner_bits=BITS, label_bits=BITS, constraint=constraint,
        single_root=single_root, ignore=(), labels=("x",), weights=weights, pruner=pruner,
        labeller=labeller,
    )  # fmt: skip
    return Parser(model)


def of_words(n: int, seed: int = 0) -> Sentence:
    rng = np.random.default_rng(seed)
    tags = rng.choice(["NOUN", "VERB", "DET", "PUNCT", "ADV"], n).tolist()
    return Sentence([f"w{int(k)}" for k in rng.integers(40, size=n)], upos=tags)


def relax(
    parser: Parser, sentence: Sentence, threshold: float, rounds: int | None,
    effort: tuple[int, float, float] = (LONG, TIGHT, 0.0), prune: bool = False,
) -> tuple[float, list[tuple[int, ...]], Array, int, int]:  # fmt: skip
    """Return log Z, the parts that took part, beliefs, rounds and how many pairs were scored."""
    how = (True, threshold, -1 if rounds is None else rounds, *effort)
    trees = (parser.constraint == "projective", parser.single_root)
    log_z, kinds, nodes, beliefs, done, scored = parser._predictor.beliefs(
        encode([sentence]).words, how, prune, trees
    )
    parts = [(int(k), *n) for k, n in zip(kinds, nodes.tolist(), strict=True)]
    return log_z, parts, beliefs, done, scored


def parts_of(parser: Parser, sentence: Sentence, prune: bool = False) -> list[tuple[int, ...]]:
    trees = (parser.constraint == "projective", parser.single_root)
    kinds, nodes, _ = parser._predictor.parts(encode([sentence]).words, prune, trees)
    return [(int(k), *n) for k, n in zip(kinds, nodes.tolist(), strict=True)]


def check(
    parser: Parser, sentence: Sentence, threshold: float, rounds: int | None, prune: bool = False
) -> int:
    """Compare with `vs.relax` on the whole graph; return how many pairs were added."""
    solver = vs.BP(max_iterations=LONG, tolerance=TIGHT)
    graph = parser.graph(sentence, prune=prune)
    expected = vs.relax(graph, threshold=threshold, max_rounds=rounds, solver=solver)
    log_z, used, beliefs, done, scored = relax(parser, sentence, threshold, rounds, prune=prune)
    every, arcs = parts_of(parser, sentence, prune), graph.n_variables
    # Factors: arcs, what holds the tree together, pairs.
    kept = [k - (k > arcs) for k in expected.factors.tolist() if k != arcs]
    assert used == [every[k] for k in kept]
    assert done == expected.stats["rounds"]
    p = np.array([m[1] for m in expected.marginals])
    np.testing.assert_allclose(beliefs[:arcs], p, rtol=0.0, atol=1e-9)
    assert abs(log_z - expected.log_z) < 1e-8
    assert len(used) - arcs <= scored or done > 1
    return len(used) - arcs


@pytest.mark.parametrize("constraint", ["tree", "projective"])
@pytest.mark.parametrize("threshold", [1e-1, 1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("rounds", [0, 1, 2, None])
def test_it_adds_what_relax_adds(constraint: str, threshold: float, rounds: int | None) -> None:
    for seed, (n, scale) in enumerate([(1, 0.1), (5, 0.04), (7, 0.03)]):
        parser = by_chance(seed, scale, 1.0, constraint, bool(seed % 2))
        added = check(parser, of_words(n, seed), threshold, rounds)
        assert (added > 0) == (rounds != 0 and n > 1 and threshold < 0.01) or threshold == 1e-2


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(2, 7),
    arcs=st.sampled_from([0.3, 1.0, 3.0]),
    epsilon=st.floats(-6.0, -1.0),
    projective=st.booleans(),
    single_root=st.booleans(),
)
def test_any_sentence(
    seed: int, n: int, arcs: float, epsilon: float, projective: bool, single_root: bool
) -> None:
    constraint = "projective" if projective else "tree"
    parser = by_chance(seed, 0.03, arcs, constraint, single_root)
    check(parser, of_words(n, seed), 10.0**epsilon, 1)


@pytest.mark.parametrize("constraint", ["tree", "projective"])
@pytest.mark.parametrize("single_root", [False, True])
def test_longer_sentences(constraint: str, single_root: bool) -> None:
    parser = by_chance(1, 0.01, 2.0, constraint, single_root)
    assert check(parser, of_words(15, 1), 1e-4, 1) > check(parser, of_words(15, 1), 1e-3, 2) > 0


def test_pruned_sentences() -> None:
    parser = by_chance(5, 0.05)
    check(parser, of_words(13, 3), 1e-3, 1, prune=True)


def check_one_round(parser: Parser, sentence: Sentence, threshold: float) -> int:
    """Compare the pairs of one round with their gains; return how many were scored."""
    graph = parser.graph(sentence, prune=False)
    arcs = graph.n_variables
    start = vs.infer(graph, factors=range(arcs + 1), method=vs.BP(tolerance=1e-12))
    gains = vs.gain(graph, range(arcs + 1, graph.n_factors), start)
    every = parts_of(parser, sentence)
    _, used, _, _, scored = relax(parser, sentence, threshold, 1, (1, 1e-4, 0.0))
    assert used[arcs:] == [every[arcs + k] for k in np.flatnonzero(gains > threshold).tolist()]
    return scored


def test_large_potentials_of_pairs_one_round() -> None:
    """Bounds are far from tight there; the pairs of one round do not hang on messages."""
    for seed in range(3):
        check_one_round(by_chance(seed, 1.0, 4.0), of_words(6, seed), 1e-4)


@pytest.mark.parametrize("constraint", ["tree", "projective"])
def test_bp_is_that_of_the_graph(constraint: str) -> None:
    for seed, n in enumerate([1, 4, 8]):
        parser = by_chance(seed, 0.05, 1.0, constraint)
        sentence = of_words(n, seed)
        graph = parser.graph(sentence, prune=False)
        expected = vs.infer(graph, method=vs.BP(max_iterations=LONG, tolerance=TIGHT))
        how = (False, 0.0, 0, LONG, TIGHT, 0.0)
        log_z, _, _, beliefs, _, _ = parser._predictor.beliefs(
            encode([sentence]).words, how, False, (constraint == "projective", False)
        )
        p = np.array([m[1] for m in expected.marginals])
        np.testing.assert_allclose(beliefs[: p.size], p, rtol=0.0, atol=1e-9)
        assert abs(log_z - expected.log_z) < 1e-8
        parses = parser.parse([sentence], "bp", prune=False, max_iterations=LONG)
        (found,) = parses
        own = dict(zip(graph.names, p.tolist(), strict=True))
        confidence = [own[int(h), m] for m, h in enumerate(found.heads.tolist(), 1)]
        np.testing.assert_allclose(found.confidence, confidence, atol=1e-3)
        assert parses.summary.used == parses.summary.pairs == graph.n_factors - p.size - 1
        assert parses.summary.converged == 1


def numpy_bp(graph: vs.FactorGraph, iterations: int, damping: float) -> Array:
    """Return beliefs of arcs: pairs send, then the tree factor, as often as asked."""
    arcs = graph.n_variables
    tree = graph.factor(arcs)
    assert isinstance(tree, vs.factors.Structured)
    score = np.array([graph.factor(k).table((2,))[1] for k in range(arcs)])
    pairs = [graph.factor(k) for k in range(arcs + 1, graph.n_factors)]
    to = np.zeros((len(pairs), 2))

    def odds() -> tuple[Array, Array]:
        told = score.copy()
        for pair, messages in zip(pairs, to, strict=True):
            np.add.at(told, list(pair.scope), messages)
        _, p, c = tree.sum_product(np.stack([np.zeros(arcs), told], axis=1))
        with np.errstate(divide="ignore"):
            return np.clip(np.log(p) - np.log(c), -500.0, 500.0)

    for _ in range(iterations):
        total, old = odds(), to.copy()
        for k, pair in enumerate(pairs):
            theta = pair.table((2, 2))[1, 1]
            for side in (0, 1):
                other = total[pair.scope[1 - side]] - old[k, 1 - side]
                new = np.logaddexp(0.0, other + theta) - np.logaddexp(0.0, other)
                to[k, side] = (1.0 - damping) * new + damping * old[k, side]
    return 1.0 / (1.0 + np.exp(-odds()))


@pytest.mark.parametrize(("iterations", "damping"), [(1, 0.0), (3, 0.5), (10, 0.1)])
def test_iterations_and_damping(iterations: int, damping: float) -> None:
    parser, sentence = by_chance(3, 0.2), of_words(5)
    expected = numpy_bp(parser.graph(sentence, prune=False), iterations, damping)
    parses = parser.parse([sentence], "bp", prune=False, max_iterations=iterations, damping=damping)
    (found,) = parses
    arcs = parser.graph(sentence, prune=False).names
    p = dict(zip(arcs, expected.tolist(), strict=True))
    own = [p[int(h), m] for m, h in enumerate(found.heads.tolist(), 1)]
    np.testing.assert_allclose(found.confidence, own, rtol=0.0, atol=1e-9)
    assert parses.summary.iterations == iterations


@pytest.mark.parametrize("scale", [0.1, 0.7, 3.0])
@pytest.mark.parametrize("arcs", [1.0, 20.0, 26.0, 30.0, 34.0, 100.0])
def test_messages_of_any_size(scale: float, arcs: float) -> None:
    """Messages are plain numbers while those and log-odds of arcs, of some hundred here, fit."""
    for seed in range(3):
        parser, sentence = by_chance(seed, scale, arcs), of_words(5, seed)
        graph = parser.graph(sentence, prune=False)
        expected = numpy_bp(graph, 3, 0.0)
        how = (0, 0.0, 0, 3, 1e-15, 0.0)
        trees = (False, False)
        log_z, _, _, found, _, _ = parser._predictor.beliefs(
            encode([sentence]).words, how, False, trees
        )
        arcs_only = slice(graph.n_variables)
        np.testing.assert_allclose(found[arcs_only], expected, rtol=1e-9, atol=1e-9)
        assert np.isfinite(log_z)
        assert ((found >= 0.0) & (found <= 1.0 + 1e-9)).all()


def test_few_pairs_are_scored_where_arcs_are_sure() -> None:
    parser = by_chance(1, 0.001, 5.0)
    sentence = of_words(12)
    _, used, _, rounds, scored = relax(parser, sentence, 1e-4, 1)
    every = parts_of(parser, sentence)
    pairs = len(every) - sum(kind == 0 for kind, *_ in every)
    assert rounds <= 1
    assert sum(kind > 0 for kind, *_ in used) <= scored < pairs // 4


@pytest.mark.parametrize("constraint", ["tree", "projective"])
def test_pairs_that_bounds_do_not_rule_out_are_scored_in_pieces(constraint: str) -> None:
    """A head of any word is as probable as any other, and many pairs wait at a time."""
    parser, sentence = by_chance(3, 0.4, 0.01, constraint), of_words(40)
    assert check_one_round(parser, sentence, 1e-2) > 1 << 16
    # Beside others, with and without so many.
    sentences = [of_words(5), sentence, of_words(40, 1), of_words(9)]
    options: dict[str, Any] = {"prune": False, "threshold": 1e-2, "max_iterations": 1}
    together = parser.parse(sentences, "relaxed", **options)
    for found, one in zip(together, sentences, strict=True):
        (alone,) = parser.parse([one], "relaxed", **options)
        np.testing.assert_array_equal(found.heads, alone.heads)
        np.testing.assert_array_equal(found.confidence, alone.confidence)


@pytest.mark.parametrize("method", ["bp", "relaxed"])
@pytest.mark.parametrize("threads", [2, 3, 8])
def test_threads_do_not_show(method: str, threads: int) -> None:
    parser = by_chance(4, 0.05, constraint="projective")
    sentences = [of_words(n % 9 + 1, n) for n in range(60)]
    outputs = []
    for count in (1, threads):
        parses = parser.parse(sentences, method, threads=count)
        told = [(s.heads.tolist(), s.confidence.tolist()) for s in parses]
        outputs.append((told, parses.summary))
    assert outputs[0] == outputs[1]
    assert outputs[0][1].sentences == 60


def test_the_summary_counts() -> None:
    parser = by_chance(2, 0.05)
    sentences = [of_words(n, n) for n in (1, 4, 6, 9)]
    parses = parser.parse(sentences, "relaxed", prune=False, threshold=1e-3)
    found = list(parses)
    told = [relax(parser, s, 1e-3, 1, (10, 1e-4, 0.0)) for s in sentences]
    every = [parts_of(parser, s) for s in sentences]
    summary = parses.summary
    assert summary.pairs == sum(kind > 0 for parts in every for kind, *_ in parts)
    assert summary.used == sum(kind > 0 for _, parts, *_ in told for kind, *_ in parts)
    assert summary.scored == sum(scored for *_, scored in told)
    assert summary.rounds == sum(rounds for *_, rounds, _ in told)
    for sentence, (_, parts, beliefs, *_) in zip(found, told, strict=True):
        p = {part[1:3]: q for part, q in zip(parts, beliefs.tolist(), strict=True) if not part[0]}
        own = [p[int(h), m] for m, h in enumerate(sentence.heads.tolist(), 1)]
        np.testing.assert_array_equal(sentence.confidence, own)


@pytest.mark.parametrize("method", ["lp", "ad3"])
def test_linear_programs(method: str) -> None:
    parser = by_chance(6, 0.1)
    sentences = [of_words(n, n) for n in (1, 3, 5)]
    parses = parser.parse(sentences, method, prune=False)
    whole = 0
    for sentence, found in zip(sentences, parses, strict=True):
        graph = parser.graph(sentence, prune=False)
        best = vs.decode(graph, method="lp")
        whole += bool(best.integral)
        if best.integral:
            on = [name for name, s in zip(graph.names, best.states.tolist(), strict=True) if s]
            assert on == [(int(h), m) for m, h in enumerate(found.heads.tolist(), 1)]
            np.testing.assert_allclose(found.confidence, 1.0, atol=1e-4)
        assert found.labels == ["x"] * len(sentence)
    assert parses.summary.integral == whole > 0
    assert parses.summary.sentences == 3


@pytest.mark.parametrize("constraint", ["tree", "projective"])
@pytest.mark.parametrize("prune", [False, True])
def test_ad3_is_that_of_the_graph_for_any_number_of_threads(constraint: str, prune: bool) -> None:
    parser = by_chance(6, 0.1, 1.0, constraint, single_root=prune)
    sentences = [of_words(n, n) for n in (0, 1, 3, 5, 7, 4, 8, 6, 2, 9)]
    sentences += [of_words(5, seed) for seed in range(20)]
    parses = parser.parse(sentences, "ad3", prune=prune, threads=1)
    first = list(parses)
    for threads in (2, 3, 8):
        again = parser.parse(sentences, "ad3", prune=prune, threads=threads)
        for a, b in zip(first, again, strict=True):
            np.testing.assert_array_equal(a.heads, b.heads)
            np.testing.assert_array_equal(a.confidence, b.confidence)
        assert again.summary == parses.summary
    integral = converged = 0
    for sentence, found in zip(sentences[:10], first, strict=False):
        if not len(sentence):
            continue
        graph = parser.graph(sentence, prune=prune)
        best = vs.decode(graph, method="ad3")
        assert best.relaxed is not None
        on = {
            name[1]: (name[0], p[1])
            for name, s, p in zip(graph.names, best.states.tolist(), best.relaxed, strict=True)
            if s
        }
        assert [on[m][0] for m in range(1, len(sentence) + 1)] == found.heads.tolist()
        p = [on[m][1] for m in range(1, len(sentence) + 1)]
        np.testing.assert_allclose(found.confidence, p, rtol=0.0, atol=1e-9)
        integral += bool(best.integral)
        converged += best.converged
    few = parser.parse(sentences[:10], "ad3", prune=prune)
    list(few)
    assert few.summary.sentences == 10
    # A sentence without words is a tree.
    assert (few.summary.integral, few.summary.converged) == (integral + 1, converged + 1)
    assert 1 < few.summary.integral < 10
    assert few.summary.used == few.summary.pairs > 0


def test_graphs_have_the_parts_of_a_sentence() -> None:
    parser = by_chance(7, 0.1, constraint="projective", single_root=True)
    sentence = of_words(6)
    graph = parser.graph(sentence)
    pruned = parser.graph(sentence, prune=True)
    assert set(pruned.names) <= set(graph.names)
    assert isinstance(graph.factor(graph.n_variables), vs.factors.ProjectiveTree)
    other = parser.graph(sentence, "tree", prune=False)
    assert isinstance(other.factor(other.n_variables), vs.factors.Tree)
    flow = parser.graph(sentence, "flow", prune=False)
    assert flow.names[: other.n_variables] == other.names
    with pytest.raises(ValueError, match="constraint"):
        parser.graph(sentence, "forest")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Sentence"):
        parser.graph("text")  # type: ignore[arg-type]
    trained = vs.parsing.train(treebank(6), order=1, bits=BITS, epochs=1)
    small = trained.graph(treebank(1)[0])
    assert small.n_factors == small.n_variables + 1


def test_options_are_checked() -> None:
    parser = by_chance(0, 0.1)
    for wrong, name in (
        ({"method": "x"}, "method"),
        ({"threshold": -1.0}, "threshold"),
        ({"max_rounds": -1}, "max_rounds"),
        ({"max_iterations": 0}, "max_iterations"),
        ({"damping": 1.0}, "damping"),
    ):
        with pytest.raises(ValueError, match=name):
            parser.parse([], **wrong)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("constraint", ["tree", "projective"])
@pytest.mark.parametrize(("pairs", "arcs"), [(0.05, 4.0), (0.1, 0.01)])
def test_a_long_sentence_takes_little_memory(
    tmp_path: Path, pairs: float, arcs: float, constraint: str
) -> None:
    by_chance(0, pairs, arcs, constraint).save(tmp_path / "m.parser")
    write_conll([of_words(300)], tmp_path / "in.conllu")
    code = """
import resource, sys
from valuesparse.parsing import load, read_conll
parser = load(sys.argv[1] + "/m.parser")
(found,) = parser.parse(read_conll(sys.argv[1] + "/in.conllu"), "relaxed", prune=False, threads=1)
print(len(found), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, str(tmp_path)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    words, kibibytes = map(int, done.stdout.split())
    assert words == 300
    assert kibibytes < 1 << 20


def test_parsers_of_order_1_have_nothing_to_relax() -> None:
    rng = np.random.default_rng(3)
    model = ParserModel(
        order=1, bits=BITS, pruner_bits=BITS, label_bits=BITS, constraint="tree",
        single_root=False, ignore=(), labels=("x",), pruner=None,
        weights=rng.normal(size=native.weights_of_parts(1, BITS)).astype(np.float32),
        labeller=np.zeros(native.weights_of_labels(1, BITS), np.float32),
    )  # fmt: skip
    parser, sentence = Parser(model), of_words(7)
    log_z, parts, beliefs, rounds, scored = relax(parser, sentence, 1e-4, 1)
    found = vs.infer(parser.graph(sentence))
    assert log_z == pytest.approx(found.log_z, rel=1e-12)
    assert parts == parts_of(parser, sentence)
    assert beliefs == pytest.approx([found[h, m][1] for _, h, m, _ in parts], rel=1e-9)
    assert (rounds, scored) == (0, 0)
