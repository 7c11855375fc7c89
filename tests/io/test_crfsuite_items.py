"""Items of CRFsuite: their attributes and values, what is refused, and how they score."""

from __future__ import annotations

from collections import Counter, OrderedDict
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from valuesparse._crf import Dictionary, ItemSequence
from valuesparse.io import CrfsuiteModel


@pytest.fixture
def plain() -> CrfsuiteModel:
    names = ["a", "b", "a:b", "a:c:d", "k:1", "n", "é:ü"]
    return CrfsuiteModel(["L"], names, [[0.0]], [[10.0**i] for i in range(len(names))])


@pytest.mark.parametrize(
    ("item", "score"),
    [
        (["a", "b", "unknown"], 11),
        (["a", "a"], 2),
        (("a", "b"), 11),
        ({"a", "b"}, 11),
        (frozenset({"a"}), 1),
        ({"a": 0}.keys(), 1),
        (np.array(["a", "b"]), 11),
        ([b"a", "b"], 11),
        ([b"\xff", "b"], 10),
        (["a\0tail", "\0"], 1),
        ([], 0),
        ({}, 0),
        ({"a": 2.5, "b": 3}, 32.5),
        ({"a": True, "b": False}, 1),
        ({"a": np.float32(0.5), "b": np.int8(-1)}, -9.5),
        ({"a": np.True_, "b": Decimal("0.5")}, 6),
        ({b"a": "b", "k": b"1"}, 10100),
        ({"a": "b"}, 100),
        ({"a": "b:c"}, 0),
        ({"a": ["b", "b", "c:d"]}, 1200),
        ({"a": {"b", "zz"}}, 100),
        ({"a": {"b": 0.5, "c": "d"}}, 1050),
        ({"a": {"c": {"d": -2}}}, -2000),
        ({"a": {"c": ["d"]}}, 1000),
        ({"é": "ü", "n": 1e-3}, 1000100),
        ({"n": ""}, 0),
        (Counter("aab"), 12),
        (OrderedDict(a=1.0), 1),
    ],
)
def test_items(plain: CrfsuiteModel, item: Any, score: float) -> None:
    assert plain.unary([item]).tolist() == [[score]]


@pytest.mark.parametrize(
    ("xseq", "words"),
    [
        ("text", "xseq must be a sequence of items, not str"),
        ({"a": 1}, "xseq must be a sequence of items, not dict; wrap"),
        (7, "xseq must be a sequence of items, not int"),
        (["a"], r"xseq\[0\]: an item must be .* not str"),
        ([["a"], b"a"], r"xseq\[1\]: an item must be .* not bytes"),
        ([["a"], 7], r"xseq\[1\]: an item must be .* not int"),
        ([["a"], (c for c in "ab")], r"xseq\[1\]: an item must be .* not generator"),
        ([["a"], None], r"xseq\[1\]: an item must be .* not NoneType"),
        ([["a"], ["b", 3]], r"xseq\[1\]: an attribute's name must be str, not int: 3"),
        ([["a"], [["b"]]], r"xseq\[1\]: an attribute's name must be str, not list"),
        ([{"a": 1}, {3: 1}], r"xseq\[1\]: an attribute's name must be str, not int"),
        ([{"a": None}], r"xseq\[0\]: attribute 'a': a value must be .* not NoneType"),
        ([{"a": ("b",)}], r"xseq\[0\]: attribute 'a': a value must be .* not tuple"),
        ([{"a": {"b": object()}}], r"xseq\[0\]: attribute 'a:b': .* not object"),
        ([{"a": 1j}], r"xseq\[0\]: attribute 'a'.* complex"),
        ([{"a": np.zeros(3)}], r"xseq\[0\]: attribute 'a'"),
    ],
)
def test_wrong_types_are_named(plain: CrfsuiteModel, xseq: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        plain.unary(xseq)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 10**400])
def test_values_must_be_finite(plain: CrfsuiteModel, value: float) -> None:
    with pytest.raises(ValueError, match=r"xseqs\[2\]\[1\]: .*'b'"):
        plain.unary_batch([[["a"]], [], [["a"], {"a": 1.0, "b": value}]])
    with pytest.raises(ValueError, match=r"xseq\[0\]: .*'unknown'"):
        plain.unary([{"unknown": value}])


def test_scores_must_be_finite(plain: CrfsuiteModel) -> None:
    with pytest.raises(ValueError, match=r"xseqs\[1\]\[2\]: a score is too large"):
        plain.unary_batch([[["a"]], [["a"], ["b"], {"é:ü": 1e306}]])
    with pytest.raises(ValueError, match=r"xseq\[1\]: a score is too large"):
        plain.unary([["a"], {"n": 1e305}])


def test_errors_are_placed_after_other_sequences(plain: CrfsuiteModel) -> None:
    xseqs: list[Any] = [[["a", "b", "zz"]] * 3, [], [["a"]], [["b"], ["a", 5]]]
    with pytest.raises(TypeError, match=r"xseqs\[3\]\[1\]: .* 5"):
        plain.unary_batch(xseqs)
    xseqs[3] = [["b"], "bad"]
    with pytest.raises(TypeError, match=r"xseqs\[3\]\[1\]: "):
        plain.unary_batch(xseqs)
    xseqs[3] = [["b"], {"a": np.inf}]
    with pytest.raises(ValueError, match=r"xseqs\[3\]\[1\]: "):
        plain.unary_batch(xseqs)
    xseqs[3] = "bad"
    with pytest.raises(TypeError, match=r"xseqs\[3\] must be"):
        plain.unary_batch(xseqs)


def test_batches(plain: CrfsuiteModel) -> None:
    unary, lengths = plain.unary_batch(iter([]))
    assert unary.shape == (0, 1)
    assert lengths.shape == (0,)
    assert lengths.dtype == np.int64
    assert plain.unary([]).shape == (0, 1)
    xseqs = [[["a"], []], [], [["b", "a"], {"n": 2.0}, ["zz"]], iter([["a"]])]
    unary, lengths = plain.unary_batch(xseqs)
    assert unary.dtype == np.float64
    assert unary.ravel().tolist() == [1, 0, 11, 200000, 0, 1]
    assert lengths.tolist() == [2, 0, 3, 1]


@pytest.mark.parametrize("density", [0.02, 0.9])
def test_products_agree(density: float, rng: np.random.Generator) -> None:
    weights = rng.normal(size=(300, 17)) * (rng.random((300, 17)) < density)
    names = [f"a{i}" for i in range(300)]
    model = CrfsuiteModel([f"L{k}" for k in range(17)], names, np.zeros((17, 17)), weights)
    ids = [rng.permutation(300)[: rng.integers(0, 90)] for _ in range(700)]
    values = [rng.normal(size=len(i)) for i in ids]
    expected = np.array([v @ weights[i] for i, v in zip(ids, values, strict=True)])
    xseq = [
        {names[j]: x for j, x in zip(i, v, strict=True)} for i, v in zip(ids, values, strict=True)
    ]
    np.testing.assert_allclose(model.unary(xseq), expected, rtol=0, atol=1e-12)


def test_item_sequences(plain: CrfsuiteModel) -> None:
    pycrfsuite = pytest.importorskip("pycrfsuite", reason="python-crfsuite has ItemSequence")
    xseq = [["a", "b"], {"a": {"c": "d"}, "n": 0.5}, {"k": "1"}]
    expected = plain.unary(xseq)
    np.testing.assert_array_equal(plain.unary(pycrfsuite.ItemSequence(xseq)), expected)
    unary, lengths = plain.unary_batch([xseq, pycrfsuite.ItemSequence(xseq)])
    np.testing.assert_array_equal(unary, np.concatenate([expected, expected]))
    assert lengths.tolist() == [3, 3]


NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
VALUES = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False), st.booleans(), st.integers(-9, 9), NAMES,
    NAMES.map(str.encode), st.lists(NAMES, max_size=3), st.sets(NAMES, max_size=3),
)  # fmt: skip
DICTS = st.recursive(
    st.dictionaries(NAMES, VALUES, max_size=4),
    lambda inner: st.dictionaries(NAMES, st.one_of(VALUES, inner), max_size=3),
    max_leaves=5,
)
ITEMS = st.one_of(st.lists(NAMES, max_size=4), st.sets(NAMES, max_size=4), DICTS)


@settings(max_examples=300)
@given(st.lists(ITEMS, max_size=4))
def test_names_are_those_of_python_crfsuite(xseq: list[Any]) -> None:
    pycrfsuite = pytest.importorskip("pycrfsuite", reason="python-crfsuite is the reference")
    theirs = pycrfsuite.ItemSequence(xseq).items()
    names = sorted({name for item in theirs for name in item})
    indptr, ids, values, lengths = Dictionary(names).encode([xseq])
    ours = [
        # Like ItemSequence.items, a dict keeps the last of a name's values.
        {names[i]: value for i, value in zip(ids[a:b], values[a:b], strict=True)}
        for a, b in pairwise(indptr)
    ]
    assert ours == theirs
    assert ItemSequence(xseq).items() == theirs
    assert lengths.tolist() == [len(xseq)]
