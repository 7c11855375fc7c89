"""No tagger holds marginals (n, K) that nobody asked for."""

from __future__ import annotations

import io
import json
import math
import tracemalloc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from children import run

import valuesparse as vs
from valuesparse.crf import tag_file
from valuesparse.crf.corpora import _shard
from valuesparse.crf.crfsuite import Tagger
from valuesparse.io import CrfsuiteModel
from valuesparse.io._crfsuite_writer import format_model

#: A scorer under constraints within a cycle of garbage has lost its model's when it is freed.
IN_A_CYCLE = """
import gc
from valuesparse.crf.crfsuite import Tagger
from valuesparse.io import CrfsuiteModel

model = CrfsuiteModel(["B-0", "I-0"], ["a"], [[0, 0], [0, 0]], [[1, 1]])
tagger = Tagger.from_model(model, constraints="BIO")
cycle = [tagger._opened.scorer]
cycle.append(cycle)
del tagger, cycle
gc.collect()
print(Tagger.from_model(model).tag([["a"]]))
del model
gc.collect()
print("fine")
"""


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


def peak_of(call: Callable[[], Any]) -> tuple[Any, int]:
    """Return what a call returns, and the most bytes of Python and numpy that it held."""
    tracemalloc.start()
    try:
        return call(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("share", [1.0, 0.002])
def test_a_probability_makes_no_marginals(rng: np.random.Generator, share: float) -> None:
    n, k = (60, 2000) if share == 1.0 else (400, 2000)
    tagger = large(rng, k, share)
    xseq = [[x] for x in rng.choice(list("abcde"), n)]
    tags = tagger.tag(xseq)
    found, peak = peak_of(lambda: tagger.probability(tags))
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


def test_constraints_freed_in_a_cycle_free_nothing_of_the_model() -> None:
    done = run(IN_A_CYCLE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[1] == "fine"


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a model of 500 labels, each of which a word may have."""
    rng, k = np.random.default_rng(5), 500
    states = np.arange(5 * k) // k, np.arange(5 * k) % k, rng.normal(size=5 * k)
    pairs = np.arange(k), rng.permutation(k), rng.normal(size=k)
    path = tmp_path_factory.mktemp("wide") / "m.crfsuite"
    path.write_bytes(format_model([f"L{i}" for i in range(k)], list("abcde"), states, pairs))
    return path


def attributes(rng: np.random.Generator, lengths: list[int]) -> bytes:
    """Return sentences in CRFsuite's format."""
    words = [[f"L0\t{x}\n" for x in rng.choice(list("abcde"), n)] for n in lengths]
    return "\n".join("".join(some) for some in words).encode()


def tagged(model: Path, text: bytes, kind: str = "jsonl", marginals: str = "best") -> bytes:
    source, out = io.BytesIO(text), io.BytesIO()
    tag_file(model, source, out, input_format="attributes", output_format=kind, marginals=marginals)
    return out.getvalue()


@pytest.mark.parametrize("marginals", ["best", "none"])
def test_a_corpus_is_tagged_without_all_marginals(
    rng: np.random.Generator, wide: Path, marginals: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_shard, "_MARGINALS", 1 << 20)
    lengths = [100] * 60
    text = attributes(rng, lengths)
    tagged(wide, text)  # the model stays open
    _, peak = peak_of(lambda: tagged(wide, text, marginals=marginals))
    assert peak < sum(lengths) * 500 * 8 / 2


@pytest.mark.parametrize("marginals", ["best", "none"])
def test_few_marginals_are_there_at_a_time(
    rng: np.random.Generator, wide: Path, marginals: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[weakref.ref[Any]] = []
    rows: list[int] = []
    ask = Tagger.marginals_batch

    def spy(self: Tagger, xseqs: Any, **how: Any) -> Any:
        assert not any(table() is not None for table in made)
        found = ask(self, xseqs, **how)
        made.extend(weakref.ref(table) for table in found)
        rows.append(sum(map(len, found)))
        return found

    monkeypatch.setattr(Tagger, "marginals_batch", spy)
    monkeypatch.setattr(_shard, "_MARGINALS", 2 << 20)
    lengths = [300, 400, 1, 0, 700, 20, 300, 300, 3]  # one has more than are made together
    tagged(wide, attributes(rng, lengths), marginals=marginals)
    most = (2 << 20) // (500 * 8)
    assert all(n <= most or n == max(lengths) for n in rows)
    assert sum(rows) == (sum(lengths) if marginals == "best" else 0)


@pytest.mark.parametrize("kind", ["jsonl", "attributes", "parquet"])
@pytest.mark.parametrize("marginals", ["best", "all"])
def test_pieces_do_not_show(
    rng: np.random.Generator, kind: str, marginals: str, monkeypatch: pytest.MonkeyPatch, wide: Path
) -> None:
    if kind == "parquet":
        pytest.importorskip("pyarrow", reason="needs the extra parquet")
    text = attributes(rng, [3, 40, 1, 0, 7] if marginals == "best" else [2, 3, 1])
    whole = tagged(wide, text, kind, marginals)
    monkeypatch.setattr(_shard, "_MARGINALS", 1)
    assert tagged(wide, text, kind, marginals) == whole


def test_probabilities_are_those_of_the_tagger(rng: np.random.Generator, wide: Path) -> None:
    tagger = Tagger()
    tagger.open(wide)
    words = rng.choice(list("abcde"), 50)
    text = "".join(f"L0\t{x}\n" for x in words).encode()
    (record,) = map(json.loads, tagged(wide, text).splitlines())
    table = tagger.marginals([[x] for x in words])
    own = [tagger.labels().index(tag) for tag in record["predicted"]]
    assert record["probability"] == table[np.arange(50), own].tolist()
