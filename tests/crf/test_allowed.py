"""Labels that items may take, as arrays and as columns of data frames; items as frames."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tagger_models import model as model
from tagger_models import tagger as tagger

from valuesparse.crf import CRF
from valuesparse.crf.crfsuite import Tagger

XSEQ = [["a1"], ["a2"], ["a1"]]
ENTRIES = ["A", None, "é"]


def fitted(allowed: Any) -> CRF:
    return CRF(max_iterations=2).fit([XSEQ], allowed=[allowed])


def test_arrays_of_labels_are_sequences(tagger: Tagger) -> None:
    several = np.empty(3, object)
    several[:] = [None, "é", ("A", "ラベル")]
    for given, same in (
        (np.array(ENTRIES, object), ENTRIES),
        (np.array(["é", "A", "A"]), ["é", "A", "A"]),
        (several, list(several)),
    ):
        assert tagger.tag(XSEQ, allowed=given) == tagger.tag(XSEQ, allowed=same)
        assert tagger.tag_batch([XSEQ], allowed=[given]) == [tagger.tag(XSEQ, allowed=same)]
        found, wanted = (tagger.marginals(XSEQ, allowed=one) for one in (given, same))
        np.testing.assert_array_equal(found, wanted)
        assert set(fitted(given).classes_) <= {"A", "é", "ラベル"}
    with pytest.raises(ValueError, match="allowed has 2 entries for 3 items"):
        tagger.tag(XSEQ, allowed=np.array(["A", "é"]))
    with pytest.raises(ValueError, match=r"allowed must have shape \(3, 3\).*, not \(3,\)"):
        tagger.tag(XSEQ, allowed=np.ones(3, bool))


@pytest.mark.parametrize("dtype", [object, "string"])
def test_gaps_of_a_column_are_missing_values(tagger: Tagger, dtype: Any) -> None:
    pandas = pytest.importorskip("pandas", reason="has columns with gaps")
    gaps = pandas.Series(["A", np.nan, "é"], dtype=dtype)
    words = r"allowed\[1\] is a missing value, .*; put None where any label will do"
    for given in (gaps, gaps.to_numpy(), list(gaps)):
        with pytest.raises(TypeError, match=words):
            tagger.tag(XSEQ, allowed=given)
        with pytest.raises(TypeError, match=words):
            fitted(given)
    full = gaps.astype(object).where(gaps.notna(), None)
    assert tagger.tag(XSEQ, allowed=full) == tagger.tag(XSEQ, allowed=ENTRIES)


def test_a_data_frame_is_refused(tagger: Tagger) -> None:
    pandas = pytest.importorskip("pandas", reason="has data frames")
    frame = pandas.DataFrame({"A": [True] * 3, "é": [False] * 3, "ラベル": [False] * 3})
    for ask in (lambda: tagger.tag(XSEQ, allowed=frame), lambda: fitted(frame)):
        with pytest.raises(TypeError, match="not be DataFrame; give an array, its columns in the"):
            ask()
    assert tagger.tag(XSEQ, allowed=frame.to_numpy()) == ["A"] * 3


def test_a_data_frame_is_no_sequence_of_items(tagger: Tagger) -> None:
    pandas = pytest.importorskip("pandas", reason="has data frames")
    frame = pandas.DataFrame({"a1": [1.0, 0.0], "a2": [0.0, 1.0]})
    rows = frame.to_dict("records")
    words = (
        r"is a DataFrame, which gives the names of its columns; give a list of its rows, as df\."
    )
    for ask in (tagger.set, tagger.tag, tagger.marginals, tagger.pairwise):
        with pytest.raises(TypeError, match=f"^xseq {words}"):
            ask(frame)
    for many in (tagger.tag_batch, tagger.marginals_batch):
        for batch in ([rows, frame], (rows, frame), iter([rows, frame])):
            with pytest.raises(TypeError, match=rf"^xseqs\[1\] {words}"):
                many(batch)
        with pytest.raises(TypeError, match=f"^xseqs {words}"):
            many(frame)
    assert tagger.tag_batch(iter([rows])) == tagger.tag_batch([rows]) == [tagger.tag(rows)]
    labels, estimator = ["x", "y"], CRF(max_iterations=2)
    with pytest.raises(TypeError, match=rf"^X\[1\], y\[1\]: xseq {words}"):
        estimator.fit([rows, frame], [labels, labels])
    with pytest.raises(TypeError, match=f"^X {words}"):
        estimator.fit(frame, [labels, labels])
    assert estimator.fit([rows], [labels]).predict([rows]).tolist() == [labels]
