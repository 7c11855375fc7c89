"""No tagger holds marginals (n, K) that nobody asked for."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest

import valuesparse as vs
from valuesparse.crf.crfsuite import Tagger
from valuesparse.io import CrfsuiteModel


def large(
    rng: np.random.Generator, k: int, share: float = 1.0, constraints: str | None = None
) -> Tagger:
    """Return a tagger of `k` labels, whose transitions have this share of entries."""
    labels = [f"{'BI'[i % 2]}-{i // 2}" for i in range(k)]
    transition = rng.normal(size=(k, k))
    transition[rng.random((k, k)) >= share] = 0.0
    weights = rng.normal(size=(5, k)) * (rng.random((5, k)) < 0.5)
    model = CrfsuiteModel(labels, list("abcde"), transition, weights)
    return Tagger.from_model(model, constraints=constraints)


@pytest.mark.parametrize("share", [1.0, 0.002])
def test_a_probability_makes_no_marginals(rng: np.random.Generator, share: float) -> None:
    n, k = (60, 2000) if share == 1.0 else (400, 2000)
    tagger = large(rng, k, share)
    xseq = [[x] for x in rng.choice(list("abcde"), n)]
    tags = tagger.tag(xseq)
    tracemalloc.start()
    try:
        found = tagger.probability(tags)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < n * k * 8 / 4
    chain = tagger.model.chain([xseq])
    path = np.array([tagger.labels().index(tag) for tag in tags])
    rows = np.arange(n)
    score = chain.unary[rows, path].sum() + chain.transition[path[:-1], path[1:]].sum()
    assert found == pytest.approx(math.exp(score - vs.infer(chain).log_z[0]), rel=1e-9, abs=0)


@pytest.mark.parametrize("share", [1.0, 0.05])
@pytest.mark.parametrize("constraints", [None, "BIO"])
@pytest.mark.parametrize("n", [1, 2, 9])
def test_probabilities_are_alike_before_marginals_and_after(
    rng: np.random.Generator, n: int, constraints: str | None, share: float
) -> None:
    tagger = large(rng, 60, share, constraints)
    xseqs = [[[x] for x in rng.choice(list("abcde"), n)] for _ in range(3)]
    masks = [None, rng.random((n, 60)) < 0.5, np.ones((n, 60), bool)]
    for xseq, allowed in zip(xseqs, masks, strict=True):
        tags = tagger.tag(xseq, allowed=allowed)
        before = tagger.probability(tags)
        tagger.marginals(xseq, allowed=allowed)
        assert 0.0 < tagger.probability(tags) == pytest.approx(before, rel=1e-12, abs=0)


def test_a_probability_says_where_nothing_is_possible(rng: np.random.Generator) -> None:
    tagger = large(rng, 6, constraints="BIO")
    tagger.set([["a"]] * 4, allowed=[None, ["B-0"], ["I-1"], None])
    for ask in (lambda: tagger.probability(["B-0"] * 4), tagger.marginals):
        with pytest.raises(vs.InfeasibleError, match=r"^sequence 0 has no .* at its position 2 no"):
            ask()
