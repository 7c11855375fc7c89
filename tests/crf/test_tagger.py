"""The tagger, against python-crfsuite's and against enumeration."""

from __future__ import annotations

import copy
import importlib.util
import itertools
import json
import os
import pickle
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import children
import numpy as np
import pytest
from checks import assert_same_bits
from hypothesis import given, settings
from hypothesis import strategies as st

import valuesparse as vs
from valuesparse import _forest
from valuesparse.crf import crfsuite
from valuesparse.crf.crfsuite import CRFSuiteError, ItemSequence, Tagger
from valuesparse.io import CrfsuiteModel, ModelFormatError

LABELS = ("A", "é", "ラベル")
TRAIN: list[Any] = [
    [["a", "b"], {"b": 0.5, "n": {"x": ["p", "q"], "y": 2.0}}, {"a": "b", "c": True}],
    [["c"], {"n": {"x": {"p"}}, "é": "ü"}, ["b", "b"], {"a": -1.5}],
    [["q"]],
    [{"c": False, "a": "c"}, ["é:ü", "c"]],
]
TAGS = [["A", "é", "A"], ["ラベル", "A", "é", "é"], ["ラベル"], ["A", "ラベル"]]


@pytest.fixture(scope="session")
def model_path(train: Callable[..., Path]) -> Path:
    return train(TRAIN, TAGS, c2=0.05, feature__possible_transitions=True)


@pytest.fixture(scope="session")
def theirs(model_path: Path) -> Any:
    pycrfsuite = pytest.importorskip("pycrfsuite", reason="python-crfsuite is the reference")
    tagger = pycrfsuite.Tagger()
    tagger.open(str(model_path))
    return tagger


@pytest.fixture
def ours(model_path: Path) -> Tagger:
    tagger = Tagger()
    tagger.open(str(model_path))
    return tagger


@pytest.fixture(scope="session")
def model() -> CrfsuiteModel:
    rng = np.random.default_rng(5)
    names = [f"a{i}" for i in range(40)]
    weights = rng.normal(size=(40, 3)) * (rng.random((40, 3)) < 0.6)
    return CrfsuiteModel(LABELS, names, rng.normal(size=(3, 3)), weights)


@pytest.fixture
def tagger(model: CrfsuiteModel) -> Tagger:
    return Tagger.from_model(model)


def draw(rng: np.random.Generator, n: int) -> list[Any]:
    """Draw a sequence of n items; one attribute in ten is unknown."""
    return [[f"a{i}" for i in rng.integers(0, 44, rng.integers(0, 9))] for _ in range(n)]


class Brute:
    """Every configuration of a model, with its probability."""

    def __init__(self, model: CrfsuiteModel, xseq: Any, mask: np.ndarray | None = None) -> None:
        unary = model.unary(xseq)
        n, k = unary.shape
        self.paths = np.array(list(itertools.product(range(k), repeat=n))).reshape(k**n, n)
        self.scores = unary[np.arange(n), self.paths].sum(axis=1)
        self.scores += model.transition[self.paths[:, :-1], self.paths[:, 1:]].sum(axis=1)
        if mask is not None:
            self.scores[~mask[np.arange(n), self.paths].all(axis=1)] = -np.inf
        weights = np.exp(self.scores - self.scores.max())
        self.p = weights / weights.sum()
        states = np.eye(k)[self.paths]
        self.marginals = np.einsum("p,pik->ik", self.p, states)
        self.pairwise = np.einsum("p,pia,pib->iab", self.p, states[:, :-1], states[:, 1:])
        order = np.argsort(-self.scores, kind="stable")
        order = order[np.isfinite(self.scores[order])]
        self.best = [[model.labels[s] for s in self.paths[i]] for i in order]


def assert_like_theirs(ours: Tagger, theirs: Any, xseq: Any) -> None:
    tags = theirs.tag(xseq)
    assert ours.tag(xseq) == tags
    labels = theirs.labels()
    expected = [[theirs.marginal(y, i) for y in labels] for i in range(len(tags))]
    np.testing.assert_allclose(
        ours.marginals(), np.reshape(expected, (-1, len(labels))), rtol=0, atol=1e-10
    )
    for i in range(len(tags)):
        for y in labels:
            assert ours.marginal(y, i) == pytest.approx(theirs.marginal(y, i), rel=0, abs=1e-10)
    for yseq in (tags, tags[::-1], [labels[0]] * len(tags)):
        assert ours.probability(yseq) == pytest.approx(theirs.probability(yseq), rel=1e-10)


NAMES = st.sampled_from(["a", "b", "c", "q", "n", "é", "n:x", "é:ü", "x", "zz", "a:b", "n:x:p"])
VALUES = st.one_of(
    st.floats(-5, 5), st.booleans(), st.integers(-3, 3), NAMES, NAMES.map(str.encode),
    st.lists(NAMES, max_size=3), st.sets(NAMES, max_size=3),
)  # fmt: skip
DICTS = st.recursive(
    st.dictionaries(NAMES, VALUES, max_size=4),
    lambda inner: st.dictionaries(NAMES, st.one_of(VALUES, inner), max_size=3),
    max_leaves=4,
)
ITEMS = st.one_of(st.lists(NAMES, max_size=5), st.sets(NAMES), DICTS, NAMES)


@settings(max_examples=150)
@given(xseq=st.lists(ITEMS, max_size=6))
def test_any_items(xseq: list[Any], model_path: Path, theirs: Any) -> None:
    ours = Tagger()
    with ours.open(model_path):
        assert_like_theirs(ours, theirs, xseq)
        assert ours.tag(ItemSequence(xseq)) == theirs.tag(xseq)


@pytest.mark.smoke
def test_whole_surface(theirs: Any) -> None:
    names = {name for name in dir(theirs) if not name.startswith("_")}
    assert names <= set(dir(Tagger))
    package = sys.modules["pycrfsuite"]
    for name in ("CRFSUITE_VERSION", "CRFSuiteError", "ItemSequence", "Tagger"):
        assert hasattr(crfsuite, name)
    assert package.CRFSUITE_VERSION == crfsuite.CRFSUITE_VERSION
    assert package.CRFSuiteError._messages == CRFSuiteError._messages


def test_sequences_of_odd_kinds(ours: Tagger, theirs: Any) -> None:
    # A string's characters are its attributes, as in python-crfsuite.
    for xseq in ("abc", ["abc", "q"], {"a": 1, "b": 2}, (["a"],), [{"a": 1}.keys()], [], ""):
        assert ours.tag(xseq) == theirs.tag(xseq)
    assert ours.tag(iter([["a"]])) == theirs.tag(iter([["a"]]))
    pycrfsuite = sys.modules["pycrfsuite"]
    for xseq in TRAIN:
        assert ours.tag(pycrfsuite.ItemSequence(xseq)) == theirs.tag(xseq)


def test_info_and_dump(ours: Tagger, theirs: Any, tmp_path: Path, capfd: Any) -> None:
    info, expected = ours.info(), theirs.info()
    for part in ("header", "labels", "attributes", "transitions", "state_features"):
        assert getattr(info, part) == getattr(expected, part)
        assert list(getattr(info, part)) == list(getattr(expected, part))
    ours.dump(tmp_path / "ours.txt")
    theirs.dump(str(tmp_path / "theirs.txt"))
    text = (tmp_path / "ours.txt").read_bytes()
    assert text == (tmp_path / "theirs.txt").read_bytes()
    ours.dump(os.fsencode(tmp_path / "ours.txt"))  # over what is there
    assert (tmp_path / "ours.txt").read_bytes() == text
    capfd.readouterr()
    ours.dump()
    assert capfd.readouterr().out.encode() == text


def test_open(model_path: Path, tmp_path: Path) -> None:
    data = model_path.read_bytes()
    xseq = TRAIN[1]
    expected = TAGS[1]
    tagger = Tagger()
    for name in (str(model_path), os.fsencode(model_path), model_path):
        with tagger.open(name) as opened:
            assert opened is tagger
            assert tagger.tag(xseq) == expected
        with pytest.raises(ValueError, match="The tagger is not opened"):
            tagger.labels()
    for value in (data, bytearray(data), memoryview(data)):
        with Tagger().open_inmemory(value) as tagger:
            assert tagger.tag(xseq) == expected
    tagger = Tagger()
    tagger.open(model_path)
    tagger.open(model_path)
    with pytest.raises(FileNotFoundError):
        tagger.open("nothing-here")
    with pytest.raises(TypeError):
        tagger.open(3.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="value must be bytes, not str"):
        tagger.open_inmemory("lCRF")  # type: ignore[arg-type]
    for bad in (b"", b"lCRFabc", b"lCRF" * 100, data[:-1], data + b"x"):
        with pytest.raises(ModelFormatError):
            tagger.open_inmemory(bad)
        (tmp_path / "bad").write_bytes(bad)
        for path in (tmp_path / "bad", os.fsencode(tmp_path / "bad")):
            with pytest.raises(ModelFormatError, match=" at byte ") as info:
                tagger.open(path)
            assert str(info.value).startswith(f"{tmp_path / 'bad'}: ")
    assert tagger.tag(xseq) == expected  # what was open stays open
    tagger.open(model_path)
    assert tagger.tag() == []  # but a new model knows of no sequence


CLOSED: list[tuple[Callable[[Tagger], Any], type[Exception]]] = [
    (lambda t: t.labels(), ValueError),
    (lambda t: t.set([["a"]]), ValueError),
    (lambda t: t.tag(), ValueError),
    (lambda t: t.tag([["a"]]), ValueError),
    (lambda t: t.tag(n_best=2), ValueError),
    (lambda t: t.probability(["A"]), ValueError),
    (lambda t: t.marginal("A", 0), ValueError),
    (lambda t: t.marginals([["a"]]), ValueError),
    (lambda t: t.marginals(), ValueError),
    (lambda t: t.pairwise(), ValueError),
    (lambda t: t.tag_batch([]), ValueError),
    (lambda t: t.marginals_batch([]), ValueError),
    (lambda t: t.model, ValueError),
    (lambda t: t.info(), RuntimeError),
    (lambda t: t.dump("never-written"), RuntimeError),
]


@pytest.mark.parametrize("case", range(len(CLOSED)))
def test_closed(case: int, tagger: Tagger, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    ask, kind = CLOSED[case]
    tagger.close()
    tagger.close()
    for closed in (tagger, Tagger(), pickle.loads(pickle.dumps(tagger))):
        with pytest.raises(kind, match=r"not opened|closed"):
            ask(closed)
    assert not list(tmp_path.iterdir())


def test_errors(ours: Tagger) -> None:
    ours.set([["a"], ["b"]])
    for ask, kind, words in (
        (lambda: ours.probability(["A"]), ValueError, r"differ: \|x\| = 2, \|y\| = 1"),
        (lambda: ours.probability(["A", "?"]), RuntimeError, r"identifier: \?"),
        (lambda: ours.probability(3), TypeError, "iterable"),
        (lambda: ours.probability(["A", 3]), TypeError, "label must be str, not int: 3"),
        (lambda: ours.marginal("?", 0), RuntimeError, r"identifier: \?"),
        (lambda: ours.marginal(3, 0), TypeError, "label must be str"),
        (lambda: ours.marginal("A", 2), ValueError, "position, 2, is out of range of 2"),
        (lambda: ours.marginal("A", -1), ValueError, "position, -1, "),
        (lambda: ours.marginal("A", "1"), TypeError, "pos must be an integer, not str"),
        (lambda: ours.marginal("A", None), TypeError, "pos must be an integer, not NoneType"),
        (lambda: ours.tag(3), TypeError, "xseq must be a sequence of items, not int"),
        (lambda: ours.tag([["a"], 3]), TypeError, r"xseq\[1\]: an item"),
        (lambda: ours.tag([{"a": None}]), TypeError, r"xseq\[0\]: attribute 'a': .*NoneType"),
        (lambda: ours.marginals([{"a": np.nan}]), ValueError, r"xseq\[0\]: .*finite"),
        (lambda: ours.tag([["\ud800"]]), UnicodeEncodeError, "surrogates"),
        (lambda: ours.tag([{"a": 1e300}]), ValueError, r"xseq\[0\]: a score is too large"),
        (lambda: ours.tag_batch([[], [{"a": 1e300}]]), ValueError, r"xseqs\[1\]\[0\]: a score"),
        (lambda: ours.tag_batch([[], [["a"], 7]]), TypeError, r"xseqs\[1\]\[1\]: an item"),
        (lambda: ours.tag_batch([], threads=0), ValueError, "threads"),
        (lambda: ours.tag_batch(None), TypeError, "xseqs must be an iterable of seq.*NoneType"),
        (lambda: ours.marginals_batch(3), TypeError, "xseqs must be an iterable of seq.*int"),
        (lambda: ours.tag(n_best=0), ValueError, "n_best must be"),
        (lambda: ours.marginals(zeta=1.5), ValueError, "zeta must lie"),
        (lambda: ours.marginals_batch([], zeta=-1), ValueError, "zeta must lie"),
        (lambda: Tagger.from_model(3), TypeError, "model must be a CrfsuiteModel, not int"),
    ):
        with pytest.raises(kind, match=words):
            ask()
    # A call that failed leaves the current sequence alone.
    assert len(ours.tag()) == 2
    assert ours.marginal(b"A", 1.9) == ours.marginals()[1, 0]  # type: ignore[arg-type]


def test_current_sequence(tagger: Tagger, model: CrfsuiteModel, rng: np.random.Generator) -> None:
    assert tagger.tag() == []
    assert tagger.tag(n_best=2) == [[]]
    assert tagger.probability([]) == tagger.marginal("A", 0) == 0.0
    assert tagger.marginals().shape == (0, 3)
    assert tagger.pairwise().shape == (0, 3, 3)
    xs = [draw(rng, n) for n in (3, 4, 2, 5)]
    for leave in (tagger.set, tagger.tag, tagger.marginals, tagger.pairwise):
        for xseq in xs:
            leave(xseq)
            brute = Brute(model, xseq)
            assert tagger.tag() == brute.best[0]
            np.testing.assert_allclose(tagger.marginals(), brute.marginals, atol=1e-12)
            assert tagger.probability(brute.best[0]) == pytest.approx(brute.p.max(), rel=1e-10)
            assert tagger.marginal("é", 1) == pytest.approx(brute.marginals[1, 1], abs=1e-12)
    kept = tagger.marginals()
    tagger.tag_batch(xs)
    tagger.marginals_batch(xs)
    assert_same_bits(tagger.marginals(), kept)
    kept[:] = 7  # what was handed out is the caller's
    assert tagger.marginal("A", 0) != 7


@pytest.mark.parametrize("n", [1, 2, 5])
def test_pairwise(n: int, tagger: Tagger, model: CrfsuiteModel, rng: np.random.Generator) -> None:
    xseq = draw(rng, n)
    brute = Brute(model, xseq)
    assert tagger.pairwise(xseq).shape == (n - 1, 3, 3)
    np.testing.assert_allclose(tagger.pairwise(), brute.pairwise, atol=1e-12)


@pytest.mark.parametrize("k", [1, 2, 7, 300, 10**15])
def test_n_best(k: int, tagger: Tagger, model: CrfsuiteModel, rng: np.random.Generator) -> None:
    xseq = draw(rng, 5)
    best = tagger.tag(xseq, n_best=k)
    assert best == Brute(model, xseq).best[:k]
    assert len(best) == min(k, 3**5)


MASKS: list[Any] = [
    [None] * 4,
    ["A", None, ("é", "A"), None],
    [None, {"ラベル"}, "A", ["é"]],
    np.array([[1, 0, 1], [1, 1, 1], [0, 1, 0], [0, 1, 1]], bool),
    [[True, False, True], [True, True, True], [False, True, False], [True, True, False]],
]


@pytest.mark.parametrize("case", range(len(MASKS)))
def test_allowed(case: int, tagger: Tagger, model: CrfsuiteModel, rng: np.random.Generator) -> None:
    xseq, allowed = draw(rng, 4), MASKS[case]
    mask = np.ones((4, 3), bool)
    for i, entry in enumerate(allowed):
        if isinstance(entry, (np.ndarray, list)) and not isinstance(entry[0], str):
            mask[i] = entry
        elif entry is not None:
            mask[i] = [name in ([entry] if isinstance(entry, str) else entry) for name in LABELS]
    brute = Brute(model, xseq, mask)
    free = Brute(model, xseq)
    assert tagger.tag(xseq, allowed=allowed) == brute.best[0]
    # The constraints stay with the sequence.
    assert tagger.tag() == brute.best[0]
    np.testing.assert_allclose(tagger.marginals(), brute.marginals, atol=1e-12)
    np.testing.assert_allclose(tagger.pairwise(), brute.pairwise, atol=1e-12)
    assert tagger.tag(n_best=1000) == brute.best
    assert tagger.marginal("é", 2) == pytest.approx(brute.marginals[2, 1], abs=1e-12)
    for path, p in zip(brute.paths, brute.p, strict=True):
        yseq = [LABELS[s] for s in path]
        assert tagger.probability(yseq) == pytest.approx(p, rel=1e-10, abs=0)
    tagger.set(xseq)
    assert tagger.tag() == free.best[0]
    np.testing.assert_allclose(tagger.marginals(allowed=allowed), brute.marginals, atol=1e-12)
    np.testing.assert_allclose(tagger.marginals(xseq), free.marginals, atol=1e-12)
    assert tagger.tag(allowed=allowed, n_best=2) == brute.best[:2]
    batch = [xseq, draw(rng, 3), xseq]
    given = [allowed, None, None]
    tags = tagger.tag_batch(batch, allowed=given)
    assert tags == [brute.best[0], Brute(model, batch[1]).best[0], free.best[0]]
    marginals = tagger.marginals_batch(batch, allowed=iter(given))
    np.testing.assert_allclose(marginals[0], brute.marginals, atol=1e-12)
    np.testing.assert_allclose(marginals[2], free.marginals, atol=1e-12)


def test_allowed_that_does_not_fit(tagger: Tagger) -> None:
    xseq = [["a1"], ["a2"]]
    for allowed, kind, words in (
        ("A", TypeError, "not be str"),
        (3, TypeError, "not be int"),
        (["A"], ValueError, "allowed has 1 entries for 2 items"),
        (["A", "?"], ValueError, r"allowed\[1\]: '\?' is no label"),
        ([None, 3], TypeError, r"allowed\[1\] must be None, a label"),
        ([None, [3]], TypeError, r"allowed\[1\] must hold labels"),
        (np.ones((2, 2), bool), ValueError, r"shape \(2, 3\)"),
        (np.ones((2, 3)), TypeError, "array of bool, not of float64"),
        ([[True], [True]], ValueError, r"shape \(2, 3\)"),
    ):
        with pytest.raises(kind, match=words):
            tagger.tag(xseq, allowed=allowed)
        if isinstance(allowed, list):
            with pytest.raises(kind, match=words.replace("allowed", r"allowed\[1\]", 1)):
                tagger.tag_batch([xseq, xseq], allowed=[None, allowed])
    with pytest.raises(ValueError, match="allowed has 1 entries, but there are more sequences"):
        tagger.tag_batch([xseq, xseq], allowed=[None])
    with pytest.raises(ValueError, match="allowed has more entries than the 1 sequences"):
        tagger.marginals_batch([xseq], allowed=[None, None])
    with pytest.raises(TypeError, match="an entry for each sequence, not be int"):
        tagger.tag_batch([xseq], allowed=3)  # type: ignore[arg-type]
    for ask in (tagger.tag, tagger.marginals, tagger.pairwise):
        with pytest.raises(vs.InfeasibleError) as info:
            ask(xseq, allowed=[None, []])
        assert (info.value.sequence, info.value.position) == (0, 1)
    with pytest.raises(vs.InfeasibleError):
        tagger.probability(["A", "A"])
    for ask in (tagger.tag_batch, tagger.marginals_batch):
        with pytest.raises(vs.InfeasibleError) as info:
            ask([xseq] * 3, allowed=[None, [[], None], [None, []]])
        assert (info.value.sequence, info.value.position) == (1, 0)


@pytest.mark.parametrize("zeta", [0.0, 0.6, 0.9])
def test_zeta(zeta: float, tagger: Tagger, model: CrfsuiteModel, rng: np.random.Generator) -> None:
    xseqs = [draw(rng, n) for n in (30, 1, 0, 12)]
    expected = vs.infer(model.chain(xseqs), zeta=zeta).marginals
    assert_same_bits(np.concatenate(tagger.marginals_batch(xseqs, zeta=zeta)), expected)
    assert_same_bits(tagger.marginals(xseqs[0], zeta=zeta), expected[:30])
    # An approximation is never taken for the current sequence's exact marginals.
    exact = vs.infer(model.chain(xseqs[:1])).marginals
    assert tagger.marginal("A", 7) == exact[7, 0]


@pytest.mark.parametrize("threads", [1, 2, 3, 8, None])
def test_batches(
    threads: int | None, tagger: Tagger, model: CrfsuiteModel, rng: np.random.Generator
) -> None:
    lengths = [0, 1, 700, 3, *rng.integers(0, 30, 300), 0]
    xseqs = [draw(rng, n) for n in lengths]
    marginals = tagger.marginals_batch(iter(xseqs), threads=threads)
    tags = tagger.tag_batch((ItemSequence(xseq) for xseq in xseqs), threads=threads)
    assert [len(y) for y in tags] == [len(m) for m in marginals] == lengths
    for xseq, y, m in zip(xseqs, tags, marginals, strict=True):
        assert y == tagger.tag(xseq)
        assert_same_bits(m, tagger.marginals(xseq))
    assert tagger.tag_batch([]) == tagger.marginals_batch(iter([])) == []


def test_long_batches_are_done_in_blocks(tagger: Tagger, rng: np.random.Generator) -> None:
    xseqs = [draw(rng, 40) for _ in range(900)] * 3  # some blocks
    tags = tagger.tag_batch(xseqs)
    assert tags[:900] == tags[900:1800] == tags[1800:]
    assert tags[17] == tagger.tag(xseqs[17])
    allowed: list[Any] = [None] * 2700
    allowed[2000] = ["A"] * 40
    constrained = tagger.tag_batch(xseqs, allowed=allowed)
    assert constrained[2000] == ["A"] * 40
    assert constrained[:2000] + constrained[2001:] == tags[:2000] + tags[2001:]
    xseqs[2600] = [["a1"], [5]]
    with pytest.raises(TypeError, match=r"xseqs\[2600\]\[1\]: "):
        tagger.tag_batch(xseqs)
    xseqs[2600] = [["a1"], {"a1": 1e300, "a2": -1e300}]
    with pytest.raises(ValueError, match=r"xseqs\[2600\]\[1\]: a score"):
        tagger.marginals_batch(xseqs)
    xseqs[2600] = [["a1"]]
    allowed[2600] = [[]]
    with pytest.raises(vs.InfeasibleError) as info:
        tagger.marginals_batch(xseqs, allowed=allowed)
    assert (info.value.sequence, info.value.position) == (2600, 0)


def test_threads_share_a_tagger(tagger: Tagger, rng: np.random.Generator) -> None:
    xseqs = [draw(rng, n) for n in rng.integers(1, 25, 240)]
    expected = [(tagger.tag(x), tagger.marginals(), tagger.marginal("A", 0)) for x in xseqs]
    wrong: list[Any] = []
    ready = threading.Barrier(8)

    def work(t: int) -> None:
        ready.wait()
        if tagger.tag() != []:
            wrong.append("saw another thread's sequence")
        for i in range(t, len(xseqs) * 4, 3):
            x, (tags, marginals, first) = xseqs[i % len(xseqs)], expected[i % len(xseqs)]
            if i % 2:
                tagger.set(x)
                same = tagger.tag() == tags and np.array_equal(tagger.marginals(), marginals)
            else:
                same = tagger.tag(x) == tags and tagger.marginal("A", 0) == first
                same &= 0 < tagger.probability(tags) <= 1
            if not same:
                wrong.append(i)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        workers = [threading.Thread(target=work, args=(t,)) for t in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong


class Named(Tagger):
    """A subclass with a state of its own, which does not call what it overrides."""

    def __init__(self, name: str) -> None:
        self.name = name


@pytest.mark.smoke
def test_pickling(tagger: Tagger, ours: Tagger, rng: np.random.Generator, model_path: Path) -> None:
    xseq = draw(rng, 6)
    tagger.set(xseq)
    named = Named("x")
    named.open(model_path)
    for original in (tagger, ours, named):
        marginals = original.marginals(xseq)
        pickled = [
            pickle.loads(pickle.dumps(original, p)) for p in range(pickle.HIGHEST_PROTOCOL + 1)
        ]
        for again in (*pickled, copy.deepcopy(original)):
            assert type(again) is type(original)
            assert again.tag() == []
            assert_same_bits(again.marginals(xseq), marginals)
            assert again.info() == original.info()
    assert pickle.loads(pickle.dumps(named)).name == "x"


def test_from_model(tagger: Tagger, model: CrfsuiteModel) -> None:
    assert tagger.model is model
    assert tagger.labels() == list(LABELS)
    tagger.labels().clear()
    assert tagger.labels() == list(LABELS)
    info = tagger.info()
    assert info.header["num_labels"] == "3"
    assert info.header["num_attrs"] == "40"
    assert len(info.state_features) == model.state_weights.nnz
    wild = CrfsuiteModel(["A"], ["x"], [[1e300]], [[1.0]])
    with pytest.raises(ValueError, match=r"transition\[0, 0\] is 1e\+300"):
        Tagger.from_model(wild)


@pytest.mark.parametrize("scale", [1e4, 1e6])
def test_extreme_scores(scale: float, rng: np.random.Generator) -> None:
    weights = rng.normal(size=(40, 3)) * scale
    model = CrfsuiteModel(
        LABELS, [f"a{i}" for i in range(40)], rng.normal(size=(3, 3)) * scale, weights
    )
    tagger = Tagger.from_model(model)
    xseq = draw(rng, 200)
    marginals = tagger.marginals(xseq)
    np.testing.assert_allclose(marginals.sum(axis=1), 1, atol=1e-9)
    assert not np.isnan(tagger.pairwise()).any()
    assert 0 <= tagger.probability(tagger.tag()) <= 1 + 1e-6


def test_levels_may_change(tagger: Tagger, rng: np.random.Generator) -> None:
    # A tagger keeps the SIMD level of its first call.
    before = _forest.simd_level()
    xseq = draw(rng, 9)
    expected, tags = tagger.marginals(xseq), tagger.tag()
    try:
        for level in ("scalar", "x86-64-v2", "x86-64-v3", "x86-64-v4", "neon"):
            if _forest.set_simd_level(level):
                np.testing.assert_allclose(tagger.marginals(xseq), expected, atol=1e-12)
                assert tagger.tag(xseq) == tags
                assert tagger.tag_batch([xseq] * 3) == [tags] * 3
    finally:
        _forest.set_simd_level(before)
    assert_same_bits(tagger.marginals(xseq), expected)


def test_a_signal_ends_a_long_call() -> None:
    code = """
import signal, sys, threading
import numpy as np
from valuesparse.crf.crfsuite import Tagger
from valuesparse.io import CrfsuiteModel

k = 600
labels = [f"L{i}" for i in range(k)]
model = CrfsuiteModel(labels, ["x"], np.zeros((k, k)), np.ones((1, k)))
tagger = Tagger.from_model(model)
xseq = [["x"]] * 100_000
tagger.tag(xseq[:10])
threading.Timer(1.0, lambda: signal.raise_signal(signal.SIGINT)).start()
try:
    tagger.marginals(xseq)
except KeyboardInterrupt:
    sys.exit(0)
sys.exit(4)
"""
    assert children.run(code, timeout=120).returncode == 0


def test_error_codes() -> None:
    assert str(CRFSuiteError(-2147483648)) == "Unknown error occurred"
    assert str(CRFSuiteError(3)) == "Unexpected error"
    again = pickle.loads(pickle.dumps(CRFSuiteError(-2147483643)))
    assert (again.code, str(again)) == (-2147483643, "Overflow")


APPLICATION = """
import importlib, json, sys, warnings
warnings.simplefilter("ignore")
module, ours, texts = sys.argv[1], sys.argv[2] == "ours", json.loads(sys.stdin.read())
if ours:
    import valuesparse.crf
    valuesparse.crf.install()
package = importlib.import_module(module)
if ours:
    assert type(package.TAGGER).__module__ == "valuesparse.crf.crfsuite"
answers = []
for text in texts:
    answers.append(package.parse(text))
    try:
        answers.append([list(package.tag(text)[0].items()), package.tag(text)[1]])
    except Exception as error:
        answers.append(type(error).__name__)
json.dump(answers, sys.stdout)
"""


def texts_of(package: str, rng: np.random.Generator) -> list[str]:
    """Return many addresses or names, the common and the odd."""
    parts: Sequence[Sequence[str]]
    if package == "usaddress":
        parts = (
            ["", "Attn: Sales,", "Apt 4", "Bldg. #7", "The Old Mill"],
            ["1600", "12-34", "PO Box 42", "221b", "N6W23001", "", "½"],
            ["", "N", "South", "SW", "Old"],
            ["Main", "Pennsylvania", "5th", "Martin Luther King Jr.", "José Martí", "U.S. 31"],
            ["St", "Avenue", "Blvd.", "Hwy", "", "Pl,"],
            ["", "Suite 100", "#3", "Unit B-2", "(rear)", "Fl. 12,"],
            ["Chicago,", "St. Paul", "Washington", "New York,", "", "Zürich"],
            ["IL", "MN", "DC", "", "California", "Ont."],
            ["60601", "20500-0003", "", "K1A 0B1"],
        )
    else:
        parts = (
            ["", "Mr.", "Dr", "Prof.", "Hon."],
            ["John", "Ana María", "J. R.", "Bob & Sue", "Sherlock", "李", "The"],
            ["", "Q.", "'Gob'", "de la", "van"],
            ["Smith", "O'Brien", "Bluth", "Cruz", "Gogh", "Holmes"],
            ["", "II", "Jr.", "PhD", "& Sons", "Brothers"],
            ["", "Ltd.", "Inc", "LLC,", "Foundation", "d/b/a Acme"],
        )
    return [
        " ".join(word for word in (str(rng.choice(part)) for part in parts) if word)
        for _ in range(400)
    ]


@pytest.mark.parametrize("package", ["usaddress", "probablepeople"])
def test_applications_run_on_it(package: str, rng: np.random.Generator) -> None:
    pytest.importorskip("pycrfsuite", reason="python-crfsuite is the reference")
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    texts = texts_of(package, rng)

    def run(which: str) -> Any:
        done = subprocess.run(
            [sys.executable, "-c", APPLICATION, package, which],
            env=children.environment(),
            cwd=tempfile.gettempdir(),
            input=json.dumps(texts),
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    ours = run("ours")
    assert ours == run("theirs")
    assert len({json.dumps(answer) for answer in ours}) > 300
