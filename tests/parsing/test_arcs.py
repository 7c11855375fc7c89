"""Arcs: scored by many sentences at once, as by one after the other; and those of a user's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.parsing.treebank import treebank
from valuesparse.parsing import Examples, Parser, Sentence, train
from valuesparse.parsing._encoding import encode

# Lengths of sentences: of none, of every class of distances, and longer than exact distances go.
LENGTHS = (0, 1, 2, 5, 13, 0, 60, 3, 90, 24)


def any_sentence(rng: np.random.Generator, n: int, tags: int = 12) -> Sentence:
    """Return words by chance, verbs and punctuation among them."""
    kinds = ["VERB", "PUNCT", "CCONJ", *(f"T{k}" for k in range(tags))]
    upos = [str(kind) for kind in rng.choice(kinds, n)]
    forms = [f"w{k}" for k in rng.integers(0, 50, n)]
    return Sentence(forms, upos=upos, xpos=[f"{tag}{len(tag)}" for tag in upos])


def by_chance(order: int, seed: int, **how: Any) -> Parser:
    """Return a parser whose weights are by chance: no two sums of them are equal."""
    model = train(treebank(4), order=order, bits=8, epochs=1, **how).model
    rng = np.random.default_rng(seed)
    new = {}
    for name in ("weights", "pruner"):
        old = getattr(model, name)
        if old is not None:
            new[name] = (0.3 * rng.normal(size=old.shape)).astype(np.float16).astype(np.float32)
    return Parser(model._replace(**new))


def alone(parser: Parser, sentence: Sentence, how: tuple[Any, ...]) -> tuple[Any, Any]:
    """Return the arcs of a sentence and their beliefs, its parts scored one by one."""
    words = encode([sentence], parser.ignore).words
    _, kinds, nodes, beliefs, *_ = parser._predictor.beliefs(words, how, False, (False, False))
    arcs = int((kinds == 0).sum())
    return nodes[:arcs], beliefs[:arcs]


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("tags", [12, 90])
def test_the_same_bits_as_sentence_by_sentence(order: int, tags: int) -> None:
    rng = np.random.default_rng(order)
    parser = by_chance(order, 7, prune=False)
    sentences = [any_sentence(rng, n, tags) for n in LENGTHS[: 10 if order == 1 else 6]]
    how = (order - 1, 1e-3, 1, 10, 1e-4, 0.0)
    for threads in (1, 2, 3):
        found = list(
            parser.parse(
                sentences, "relaxed", threshold=1e-3, constraint="tree", single_root=False,
                threads=threads,
            )
        )  # fmt: skip
        for sentence, parsed in zip(sentences, found, strict=True):
            nodes, beliefs = alone(parser, sentence, how)
            p = np.zeros((len(sentence) + 1, len(sentence) + 1))
            p[nodes[:, 0], nodes[:, 1]] = beliefs
            wanted = p[parsed.heads, np.arange(1, len(sentence) + 1)]
            np.testing.assert_array_equal(parsed.confidence, np.minimum(wanted, 1.0))


def test_a_pruner_keeps_the_same_arcs_whatever_stands_beside_a_sentence() -> None:
    """It asks for arcs of one sentence, of a call's, or of a thread's share of them."""
    rng = np.random.default_rng(3)
    parser = by_chance(2, 1)
    sentences = [any_sentence(rng, int(n)) for n in rng.integers(1, 30, 25)]
    one = [next(parser.parse([s], constraint="tree", threads=1)) for s in sentences]
    for threads in (1, 2, 8):
        many = parser.parse(sentences, constraint="tree", threads=threads)
        for a, b in zip(one, many, strict=True):
            np.testing.assert_array_equal(a.heads, b.heads)
            np.testing.assert_array_equal(a.confidence, b.confidence)
        assert many.summary.pairs > 0


@pytest.mark.parametrize("features", ["hashed", "supported"])
def test_pairs_of_many_sentences_are_scored_as_those_of_one(features: str) -> None:
    """More sentences than are scored together: each as if it stood alone."""
    rng = np.random.default_rng(8)
    if features == "hashed":
        parser = by_chance(2, 5, prune=False)
        sentences = [any_sentence(rng, int(n)) for n in rng.integers(0, 28, 1100)]
    else:
        parser = train(treebank(60), order=2, epochs=2, prune=False, features=features)
        sentences = treebank(1100)
    how: dict[str, Any] = {"constraint": "projective", "single_root": False, "threshold": 1e-5}
    for rounds in (1, 2):
        many = list(parser.parse(sentences, "relaxed", max_rounds=rounds, threads=2, **how))
        pairs = 0
        for i in (0, 1, 2, 500, 1000, 1022, 1023, 1024, 1025, 1099):
            alone = parser.parse([sentences[i]], "relaxed", max_rounds=rounds, threads=1, **how)
            one = next(alone)
            np.testing.assert_array_equal(one.heads, many[i].heads)
            np.testing.assert_array_equal(one.confidence, many[i].confidence)
            pairs += alone.summary.used
        assert pairs > 0


def three_and_one() -> tuple[list[Sentence], tuple[list[int], list[int], list[int]]]:
    """Return sentences of 3, 0 and 1 words, and some arcs of theirs."""
    found = [Sentence(["a", "b", "c"], heads=[2, 0, 2]), Sentence([]), Sentence(["d"], heads=[0])]
    return found, ([0, 4, 4, 5], [2, 0, 1, 2, 0], [1, 2, 2, 3, 1])


def test_arcs_may_be_whole_numbers_of_any_kind() -> None:
    sentences, lists = three_and_one()
    for kind in (list, np.array, np.int32, np.uint64, np.int8):
        arcs = [kind(x) for x in lists]
        found = Examples(sentences, bits=5, arcs=arcs)  # type: ignore[arg-type]
        assert found.parts(0)[1].tolist() == [[2, 1, -1], [0, 2, -1], [1, 2, -1], [2, 3, -1]]
        assert found.parts(2)[1].tolist() == [[0, 1, -1]]
        assert found.gold(0).tolist() == [1.0, 1.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("which", "value", "problem"),
    [
        (0, [0, 4, 4], r"arcs of 3 sentences must have shapes \(4,\), \(m,\) and \(m,\), got"),
        (0, [1, 4, 4, 5], r"arcs\[0\]\[0\] is 1; it must be 0"),
        (0, [0, 4, 4, 10**6], r"arcs\[0\]\[3\] is 1000000; it must be 5"),
        (0, [0, 4, 3, 5], r"arcs\[0\]\[2\] is 3, less than the one before"),
        (1, [2, 0, 1, 10**6, 0], r"arcs\[1\]\[3\] is 1000000; in sentence 0 it must be 0 to 3"),
        (1, [2, 0, 1, 2, -1], r"arcs\[1\]\[4\] is -1; in sentence 2 it must be 0 to 1"),
        (2, [1, 0, 2, 3, 1], r"arcs\[2\]\[1\] is 0; in sentence 0 it must be 1 to 3"),
        (2, [1, 2, 2, 3, 2], r"arcs\[2\]\[4\] is 2; in sentence 2 it must be 1 to 1"),
        (1, [1, 0, 1, 2, 0], r"arcs\[1\]\[0\] is 1, as arcs\[2\]\[0\]; no word is its own head"),
        (1, [2, 1, 0, 2, 0], r"arcs\[1\]\[2\], arcs\[2\]\[2\] is \(0, 2\); arcs .* must ascend"),
        (1, [2, 1, 1, 2, 0], r"arcs\[1\]\[2\], arcs\[2\]\[2\] is \(1, 2\); arcs .* each once"),
        (0, [0, 5, 5, 5], r"arcs\[2\]\[4\], arcs|arcs\[1\]\[4\], arcs\[2\]\[4\] is \(0, 1\)"),
        (1, [2.0, 0.0, 1.0, 2.0, 0.0], r"arcs\[1\] must be whole numbers, .*, got float64"),
        (2, [[1, 2, 2, 3, 1]], r"arcs\[2\] must be whole numbers, .* of shape \(1, 5\)"),
        (2, [1, 2, 2, 3], r"must have shapes"),
    ],
)
def test_arcs_are_checked(which: int, value: Any, problem: str) -> None:
    sentences, lists = three_and_one()
    arcs = list(map(np.array, lists))
    arcs[which] = np.array(value)
    for features in ("hashed", "complete"):
        with pytest.raises(ValueError, match=problem):
            Examples(sentences, bits=5, arcs=tuple(arcs), features=features)


def test_each_word_has_an_arc() -> None:
    sentences, _ = three_and_one()
    for arcs, problem in (
        (([0, 2, 2, 3], [2, 2, 0], [1, 3, 1]), r"arcs\[2\] has no arc of word 2 of sentence 0"),
        (([0, 3, 3, 3], [2, 0, 2], [1, 2, 3]), r"arcs\[2\] has no arc of word 1 of sentence 2"),
        (([0, 0, 0, 0], [], []), r"arcs\[2\] has no arc of word 1 of sentence 0"),
        (([0, 2], [1]), "arcs must be three arrays, as Examples.prune returns them"),
        (3, "arcs must be three arrays"),
    ):
        with pytest.raises(ValueError, match=problem):
            Examples(sentences, bits=5, arcs=arcs)  # type: ignore[arg-type]
