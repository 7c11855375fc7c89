"""Operations of dependency parsers: sentences read, parsed by each engine, and learnt from."""

from __future__ import annotations

from typing import Any

from operations import Act, operation, rng

from valuesparse.parsing import Sentence, train

TAGS = ["NOUN", "VERB", "DET", "ADV"]


def sentence(words: int) -> Sentence:
    """Return a sentence whose words hang on the next one, or on the root."""
    tags = rng.choice(TAGS, words).tolist()
    heads = [*range(2, words + 1), 0]
    return Sentence([f"w{i % 7}" for i in range(words)], upos=tags, heads=heads, labels=tags)


SENTENCES = [sentence(n) for n in (3, 1, 12, 20, 5, 8, 1, 9)]
SETTINGS: dict[str, Any] = {"order": 2, "epochs": 1, "threads": 2}
PARSER = train(SENTENCES, bits=8, **SETTINGS)


def parse(method: str) -> Act:
    def act() -> Any:
        found = list(PARSER.parse(SENTENCES, method, threads=2))
        return [(x.heads, x.labels, x.confidence) for x in found]

    return act


@operation
def parse_relaxed() -> Act:
    return parse("relaxed")


@operation
def parse_bp() -> Act:
    return parse("bp")


@operation
def parse_ad3() -> Act:
    return parse("ad3")


@operation
def parse_train() -> Act:
    return lambda: train(SENTENCES, bits=8, **SETTINGS).model.weights


@operation
def parse_train_supported() -> Act:
    return lambda: train(SENTENCES, features="supported", **SETTINGS).model.weights
