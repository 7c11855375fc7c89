"""Features of a corpus: how many there may be, and those that frequencies leave out."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from valuesparse.crf.training._data import Dataset
from valuesparse.crf.training._features import generate

LABELS = 50_000


def dataset(allowed: bool = False) -> Dataset:
    data = Dataset()
    data.append([[f"a{i}" for i in range(45_000)], ["b"]], ["A", "B"], 0)
    data.append([["a0"], ["c"]], ["A", "B"], 0)
    if allowed:
        data.append([["b"], ["c"]], None, 0, [None, None])
    return data


@pytest.mark.parametrize(
    ("options", "allowed", "words"),
    [
        ({"possible_states": True}, False, r"^2250100000 features .* feature\.possible_states$"),
        ({"possible_transitions": True}, False, r"^2500000000 .* feature\.possible_transitions$"),
        ({}, True, r"^2500000000 features .* neighbours of which nothing is known$"),
    ],
)
def test_too_many_features_are_refused_before_memory_is_asked_for(
    options: dict[str, bool], allowed: bool, words: str
) -> None:
    data = dataset(allowed)
    corpus = data.corpus()
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=words):
            generate(corpus, len(data.attributes), LABELS, **options)
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()


def test_pairs_that_never_meet_are_no_features_where_a_frequency_is_asked_for() -> None:
    data = dataset()
    corpus = data.corpus()
    plain = generate(corpus, len(data.attributes), LABELS, 2.0)
    every = generate(corpus, len(data.attributes), LABELS, 2.0, True, True)
    assert plain.n_weights == 2  # a0 with A, and A before B
    for one, other in zip(plain, every, strict=True):
        np.testing.assert_array_equal(one, other)
