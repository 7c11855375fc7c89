"""Arcs that are scored by many sentences at once, against those of one sentence after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.parsing.treebank import treebank
from valuesparse.parsing import Parser, Sentence, train
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
