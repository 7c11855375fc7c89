"""Sentences that treebanks seldom have, parsed by every method."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import valuesparse as vs
from tests.parsing.treebank import treebank
from valuesparse.parsing import Parser, read_conll, train
from valuesparse.parsing._corpora import parse_file
from valuesparse.parsing._sentences import tree_problem

ODD = """\
# no words at all

0.1\tgone\t_\t_\t_\t_\t_\t_\t_\tHeadProbability=0.3

0.1\tgone\t_\t_\t_\t_\t_\t_\t2:nsubj\tCopyOf=2
1-2\tNew York\u00a0x\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No|HeadProbability=0.5
1\tNew  York\t_\tNOUN\t_\t_\t_\t_\t2:x\tHeadProbability=|A=b
# between
2\tx\u2028y\x0bz\x85\t_\tVERB\t_\t_\t77\t_\t_\tA=HeadProbability=1
2.1\tgone\t_\t_\t_\t_\t_\t_\t_\t_

1\te\u0301\t_\t_\t_\t_\t2\tx\t_\t
2\t\u00e9\t\t\t\t\t1\t\t\t_

1\t?\t_\tPUNCT\t_\t_\t_\t_\t_\t_
2\t\u00bb\t_\tPUNCT\t_\t_\t_\t_\t_\t_
3\t_\t_\tPUNCT\t_\t_\t_\t_\t_\t_

1\t1\t_\tNOUN\t_\t_\t1\tx\t_\t_
"""
METHODS = {1: ("auto", "exact", "bp", "relaxed", "lp", "ad3"), 2: ("auto", "bp", "lp", "ad3")}


@pytest.fixture(scope="module")
def parsers() -> dict[int, Parser]:
    return {k: train(treebank(8), order=k, bits=6, epochs=1, prune=k == 1) for k in METHODS}


@pytest.mark.parametrize(
    ("order", "method"), [(order, method) for order, own in METHODS.items() for method in own]
)
@pytest.mark.parametrize("form", ["as it is", "CRLF", "BOM", "no final line end"])
def test_nothing_but_trees_changes(
    order: int, method: str, form: str, parsers: dict[int, Parser], tmp_path: Path
) -> None:
    text = {
        "as it is": ODD, "CRLF": ODD.replace("\n", "\r\n"), "BOM": "\ufeff" + ODD,
        "no final line end": ODD.rstrip("\n"),
    }[form]  # fmt: skip
    (tmp_path / "in.conllu").write_bytes(text.encode())
    # All kinds of trees once: each form has one of them.
    constraint, single = [*product(("tree", "projective"), (False, True))][len(form) % 4]
    counts = parse_file(
        parsers[order], tmp_path / "in.conllu", tmp_path / "out.conllu",
        options={"method": method, "constraint": constraint, "single_root": single, "threads": 1},
    )  # fmt: skip
    assert (counts.sentences, counts.tokens, counts.left) == (4, 8, 0)
    found = (tmp_path / "out.conllu").read_bytes().decode()
    before, after = ODD.split("\n"), found.removesuffix("\n").split("\n")
    assert len(before) == len(after)
    for old, new in zip(before, after, strict=True):
        a, b = old.split("\t"), new.split("\t")
        if not a[0].isdecimal():
            assert new == old
            continue
        assert b[:6] == a[:6]
        assert b[8] == "_"
        kept = [e for e in a[9].split("|") if e not in ("", "_") and not e.startswith("HeadProb")]
        *others, last = b[9].split("|")
        assert others == kept
        assert re.fullmatch(r"HeadProbability=(0\.\d{6}|1\.000000)", last)
    for s in filter(len, read_conll(tmp_path / "out.conllu")):
        heads = s.heads.tolist()
        assert tree_problem(heads) is None
        assert not single or heads.count(0) == 1


@pytest.mark.parametrize(
    ("order", "method"), [(order, method) for order, own in METHODS.items() for method in own[1:]]
)
def test_probabilities_are_those_of_the_method(
    order: int, method: str, parsers: dict[int, Parser]
) -> None:
    parser = parsers[order]
    sentences = treebank(3, seed=5)
    for s, parsed in zip(sentences, parser.parse(sentences, method, threads=1), strict=True):
        graph = parser.graph(s)
        if method in ("lp", "ad3"):
            point = vs.decode(graph, method=method).relaxed
        elif order == 1:
            point = vs.infer(graph).marginals
        else:
            point = vs.infer(graph, method=vs.BP(max_iterations=10, tolerance=1e-4)).marginals
        assert point is not None
        of = dict(zip(graph.names, point, strict=True))
        expected = [of[h, m][1] for m, h in enumerate(parsed.heads.tolist(), 1)]
        np.testing.assert_allclose(parsed.confidence, expected, atol=2e-4)


def test_a_program_without_variables_has_a_point() -> None:
    found = vs.decode(vs.FactorGraph([]), method="lp")
    assert (found.states.size, found.score, found.integral) == (0, 0.0, True)


@pytest.mark.parametrize("label", ["", "a\rb", "a\tb", "\ud800"])
def test_labels_that_no_model_file_holds_are_refused_before_training(label: str) -> None:
    sentences = [
        vs.parsing.Sentence(["x", "y"], heads=[2, 0], labels=["a", "root"]),
        vs.parsing.Sentence(["x", "y"], heads=[2, 0], labels=["a", label]),
    ]
    with pytest.raises(ValueError, match="treebank: sentence 2, label of word 2: it"):
        train(sentences, order=1, epochs=1, bits=6)


def test_too_many_labels_are_refused_before_training() -> None:
    many = [
        vs.parsing.Sentence(["x"] * 100, heads=[0] * 100, labels=[f"l{i}.{k}" for k in range(100)])
        for i in range(101)
    ]
    with pytest.raises(ValueError, match=r"treebank has 10,100 labels; a parser takes 10,000"):
        train(many, order=1, epochs=1, bits=6)
    long = [vs.parsing.Sentence(["x"], heads=[0], labels=["l" * (1 << 20)])]
    with pytest.raises(ValueError, match="treebank has 1 labels"):
        train(long, order=1, epochs=1, bits=6)


def test_numbers_of_numpy_are_numbers_and_others_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "m"
    given = {"order": np.int64(1), "bits": np.int32(6), "epochs": np.int64(1)}
    parser = train(treebank(4), **given)
    parser.save(path)
    assert vs.parsing.load(path).order == 1
    for bad in (1.0, True, np.True_, "1", 3, 0):
        with pytest.raises(ValueError, match="order must be 1 or 2"):
            train(treebank(4), order=bad)


def test_a_linear_program_names_the_sentence(parsers: dict[int, Parser]) -> None:
    some = [*treebank(2), vs.parsing.Sentence([3])]  # type: ignore[list-item]
    for method in ("lp", "ad3"):
        with pytest.raises(TypeError, match=r"sentences\[2\]\.forms\[0\]"):
            list(parsers[1].parse(some, method))
    with pytest.raises(ValueError, match="constraint must be"):
        parsers[1].parse(some, constraint="")


@pytest.mark.parametrize("line", ["no hash", "1-2 x", "1-2", "3\t_"])
def test_lines_beside_the_words_are_checked_when_written(line: str, tmp_path: Path) -> None:
    bad = vs.parsing.Sentence(["a", "b"], others=[(0, "# fine"), (1, line)])
    with pytest.raises(ValueError, match=r"sentences\[0\]: others\[1\] is .*neither a comment"):
        vs.parsing.write_conll([bad], tmp_path / "o.conllu")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"least": np.nan}, "least must be a number >= 0, got nan"),
        ({"least": -1}, "least must be a number >= 0, got -1"),
        ({"least": "x"}, "least must be a number >= 0, got 'x'"),
        ({"constraint": ""}, "constraint must be"),
        ({"constraint": 0}, "constraint must be"),
        ({"nonprojective": "no"}, "nonprojective must be True or False, not 'no'"),
    ],
)
def test_what_stands_for_nothing_is_refused(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        vs.parsing.Examples(treebank(2), bits=6, **given)
    if "least" not in given:
        with pytest.raises(ValueError, match=problem):
            train(treebank(2), bits=6, **given)


@pytest.mark.parametrize("order", [1, 2])
def test_a_loss_that_leads_to_no_weights_is_named(order: int) -> None:
    with pytest.raises(ValueError, match=r"beta=1e\+100 and gamma=1 lead to weights that are not"):
        train(treebank(8), order, beta=1e100, gamma=1.0, bits=6, epochs=3)
