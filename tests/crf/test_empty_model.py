"""A model that was trained on empty sequences only: no labels, and nothing to tag."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import children
import numpy as np
import pytest

from valuesparse.crf import Trainer
from valuesparse.crf.crfsuite import Tagger
from valuesparse.crf.training._parameters import ALGORITHMS
from valuesparse.io.crfsuite import CrfsuiteModel, read_crfsuite

NO_LABELS = r"the model has no labels: it was trained on empty sequences; train it"


def model_of(algorithm: str = "lbfgs") -> bytes:
    trainer = Trainer(algorithm, verbose=False)
    for _ in range(2):
        trainer.append([], [])
    return trainer.train_inmemory()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_what_the_trainer_writes_the_tagger_opens(algorithm: str) -> None:
    tagger = Tagger()
    tagger.open_inmemory(model_of(algorithm))
    for again in (tagger, pickle.loads(pickle.dumps(tagger)), Tagger.from_model(tagger.model)):
        assert (again.labels(), again.tag([]), again.tag()) == ([], [], [])
        assert again.tag([], n_best=3) == [[]]
        assert (again.probability([]), again.marginal("A", 0)) == (0.0, 0.0)
        assert again.marginals([]).shape == again.marginals().shape == (0, 0)
        assert again.pairwise([]).shape == (0, 0, 0)
        assert again.tag_batch([[], []]) == [[], []]
        assert [m.shape for m in again.marginals_batch([[], []], zeta=0.5)] == [(0, 0)] * 2
        assert again.info().labels == {}


def test_items_are_refused_and_the_error_says_why() -> None:
    tagger = Tagger()
    tagger.open_inmemory(model_of())
    xseq = [["a"], {"b": 1.0}]
    calls: list[Any] = [
        tagger.set, tagger.tag, tagger.marginals, tagger.pairwise, tagger.model.unary,
        lambda x: tagger.tag(x, n_best=2), lambda x: tagger.marginals(x, zeta=0.5),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(ValueError, match=r"^xseq\[0\]: " + NO_LABELS):
            call(xseq)
    batches: list[Any] = [tagger.tag_batch, tagger.marginals_batch, tagger.model.unary_batch]
    for call in batches:
        with pytest.raises(ValueError, match=r"^xseqs\[1\]\[0\]: " + NO_LABELS):
            call([[], xseq, []])
    with pytest.raises(TypeError):  # what is wrong with an item is said first, as always
        tagger.tag([5])


THEIRS = """
import sys, pycrfsuite
trainer = pycrfsuite.Trainer(verbose=False)
for _ in range(2):
    trainer.append([], [])
trainer.train(sys.argv[1])
tagger = pycrfsuite.Tagger()
for path in sys.argv[1:]:
    tagger.open(path)
    print(tagger.labels(), tagger.tag([]), tagger.probability([]))
"""


def test_crfsuite_writes_the_same_file_and_says_the_same(tmp_path: Path) -> None:
    pytest.importorskip("pycrfsuite", reason="python-crfsuite is the oracle")
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.write_bytes(model_of())
    # In a process of its own: given an item, CRFsuite itself ends in a segmentation fault.
    done = children.run(THEIRS, str(theirs), str(ours))
    assert done.stdout == "[] [] 0.0\n" * 2, done.stderr
    assert ours.read_bytes() == theirs.read_bytes()
    tagger = Tagger()
    tagger.open(str(theirs))
    assert (tagger.labels(), tagger.tag([]), tagger.probability([])) == ([], [], 0.0)


def test_a_model_made_by_hand_may_have_no_labels() -> None:
    model = CrfsuiteModel([], ["a"], np.zeros((0, 0)), np.zeros((1, 0)))
    assert repr(model) == "CrfsuiteModel(0 labels, 1 attributes, 0 state weights)"
    assert model.unary([]).shape == (0, 0)
    with pytest.raises(ValueError, match="has no labels"):
        model.unary([["a"]])
    with pytest.raises(ValueError, match="label"):
        model.chain([[]])
    assert read_crfsuite(model_of()).labels == ()


def test_the_estimator_asks_for_items() -> None:
    pytest.importorskip("sklearn", reason="the estimator is scikit-learn's")
    from valuesparse.crf import CRF

    with pytest.raises(ValueError, match="X has no item to learn from"):
        CRF().fit([[], []], [[], []])
