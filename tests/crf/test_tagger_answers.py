"""Every answer of the tagger, one sequence or many, against enumeration."""

from __future__ import annotations

import itertools
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checks import assert_same_bits, in_eight_threads
from tagger_models import LABELS, draw
from tagger_models import model as model
from tagger_models import tagger as tagger

import valuesparse as vs
from valuesparse import _forest
from valuesparse.crf.crfsuite import ItemSequence, Tagger
from valuesparse.io import CrfsuiteModel


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
def test_batches(threads: int | None, tagger: Tagger, rng: np.random.Generator) -> None:
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

    in_eight_threads(work)
    assert not wrong


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


@pytest.mark.parametrize("scale", [1e4, 1e6, 1e12])
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
    assert 0 <= tagger.probability(tagger.tag()) <= 1


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
