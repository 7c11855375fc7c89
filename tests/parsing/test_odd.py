"""Sentences that treebanks seldom have, parsed by every method."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

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
