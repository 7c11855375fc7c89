"""Attachment scores, against counts by hand and against a plain recount."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from valuesparse.parsing import Sentence, evaluate, write_conll

GOLD = [
    Sentence(["A", "dog", "barks", "!"], heads=[2, 3, 0, 3], labels=["det", "nsubj", "root", "p"]),
    Sentence(["«", "No", "$", "»"], heads=[2, 0, 2, 2], labels=["p", "root", "x:y", "p"]),
]
SYSTEM = [
    GOLD[0].parsed([2, 3, 0, 2], ["det", "obj", "root", "p"]),
    GOLD[1].parsed([2, 0, 2, 1], ["p", "root", "x", "p"]),
]


@pytest.mark.smoke
def test_counts_by_hand(tmp_path: Path) -> None:
    found = evaluate(GOLD, SYSTEM)
    assert found == (6 / 8, 4 / 8, 5 / 5, 3 / 5, 2, 8, 5, 6, 4, 5, 3)
    assert (found.words, found.words_no_punct) == (8, 5)
    write_conll(GOLD, tmp_path / "gold.conllu")
    write_conll(SYSTEM, tmp_path / "system.conllx.gz")
    assert evaluate(tmp_path / "gold.conllu", str(tmp_path / "system.conllx.gz")) == found
    assert evaluate(iter(GOLD), tmp_path / "gold.conllu")[:4] == (1, 1, 1, 1)


def test_nothing_is_nothing_right() -> None:
    assert evaluate([], []) == (0,) * 11
    empty = Sentence([], others=[(0, "# c")])
    assert evaluate([empty, *GOLD], SYSTEM) == evaluate(GOLD, [*SYSTEM, empty])
    dots = [Sentence(["...", "?!"], heads=[0, 1])]
    assert evaluate(dots, dots)[:4] == (1, 1, 0, 0)


def test_the_first_difference_is_named(tmp_path: Path) -> None:
    gold, system = tmp_path / "gold.conllu", tmp_path / "system.conllu"
    write_conll(GOLD, gold)
    cases = [
        (SYSTEM[:1], f"{system} has 1 sentences, {gold} has more"),
        ([*SYSTEM, GOLD[0]], f"{gold} has 2 sentences, {system} has more"),
        ([GOLD[1], GOLD[0]], f"sentence 1: word 1 is 'A' in {gold}, '«' in {system}"),
        ([GOLD[0], Sentence(["«", "No"])], f"sentence 2: {gold} has 4 words, {system} has 2"),
    ]
    for found, message in cases:
        write_conll(found, system)
        with pytest.raises(ValueError) as info:  # noqa: PT011
            evaluate(gold, system)
        assert str(info.value) == message
    with pytest.raises(ValueError, match="gold: sentence 1: word 1 has no head"):
        evaluate([Sentence(["a"])], [Sentence(["a"])])
    assert evaluate([Sentence(["a"], heads=[0])], [Sentence(["a"])]).uas == 0


def test_sentences_that_have_changed_are_refused() -> None:
    gold = Sentence(["a", "b"], heads=[0, 1], labels=["x", "y"])
    changed = gold.parsed([0, 1], ["x", "y"])
    changed.labels.pop()
    with pytest.raises(ValueError, match="system: sentence 1: labels has 1 entries, forms has 2"):
        evaluate([gold], [changed])
    gold.heads[1] = -3
    with pytest.raises(ValueError, match=r"gold: sentence 1: heads\[1\] is -3; -1 stands for none"):
        evaluate([gold], [gold])


WORDS = ["a", "Ü", ".", "?!", "«", "$", "+", "'s", "—", "^", "字", "U.S."]


@given(st.data(), st.integers(0, 2**32))
def test_any_trees_against_a_recount(data: st.DataObject, seed: int) -> None:
    rng = np.random.default_rng(seed)
    gold, system, rows = [], [], []
    for _ in range(data.draw(st.integers(0, 3))):
        forms = data.draw(st.lists(st.sampled_from(WORDS), max_size=6))
        n = len(forms)
        heads = rng.integers(0, 3, (2, n))
        labels = rng.choice(list("xy"), (2, n)).tolist()
        gold.append(Sentence(forms, heads=heads[0], labels=labels[0]))
        system.append(gold[-1].parsed(heads[1], labels[1]))
        rows += zip(forms, *heads.tolist(), *labels, strict=True)
    found = evaluate(gold, system)
    for chosen, right, arcs in (
        (rows, found.uas, found.las),
        ([r for r in rows if not all(unicodedata.category(c)[0] == "P" for c in r[0])],
         found.uas_no_punct, found.las_no_punct),
    ):  # fmt: skip
        count = len(chosen)
        assert right == (sum(r[1] == r[2] for r in chosen) / count if count else 0)
        both = sum(r[1] == r[2] and r[3] == r[4] for r in chosen)
        assert arcs == (both / count if count else 0)
