"""A small treebank by chance: sentences of a grammar, some of whose arcs cross."""

from __future__ import annotations

import numpy as np

from valuesparse.parsing import Sentence

WORDS = {
    "DET": ["the", "a", "Every"],
    "NOUN": ["dog", "cats", "Straße", "字", "tree"],
    "VERB": ["sees", "bark", "ran"],
    "ADV": ["now", "often"],
    "PUNCT": [".", ","],
}


def sentence(rng: np.random.Generator, crossing: bool = False) -> Sentence:
    """Return a sentence of 3 to 9 words: nouns with articles around a verb, and punctuation."""
    tags: list[str] = []
    heads: list[int] = []
    labels: list[str] = []
    nouns = []
    before = int(rng.integers(1, 3))
    verb = 2 * before + 1
    for _ in range(before):
        nouns.append(len(tags) + 2)
        tags += ["DET", "NOUN"]
        heads += [nouns[-1], verb]
        labels += ["det", "nsubj"]
    tags.append("VERB")
    heads.append(0)
    labels.append("root")
    for tag, label in (("NOUN", "obj"), ("ADV", "advmod")):
        if rng.random() < 0.5:
            tags.append(tag)
            heads.append(verb)
            labels.append(label)
    tags.append("PUNCT")
    heads.append(verb)
    labels.append("punct")
    if crossing and before == 2:
        heads[0] = 4  # the first article, over the verb's first noun
    forms = [str(rng.choice(WORDS[tag])) for tag in tags]
    return Sentence(
        forms, lemmas=[form.lower() for form in forms], upos=tags,
        xpos=[tag[:2] + str(len(form) % 2) for tag, form in zip(tags, forms, strict=True)],
        feats=["Number=Plur" if form.endswith("s") else "_" for form in forms],
        heads=np.array(heads), labels=labels,
    )  # fmt: skip


def treebank(count: int = 30, seed: int = 0, crossing: bool = False) -> list[Sentence]:
    rng = np.random.default_rng(seed)
    return [sentence(rng, crossing) for _ in range(count)]
