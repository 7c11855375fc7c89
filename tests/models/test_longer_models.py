"""Chains of order 2 and of segments: which tables they take."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import valuesparse as vs

UNARY = np.array([[0.5, 0.0, 1.0], [0.0, 2.0, 0.0], [1.0, 0.0, 0.5], [0.0, 0.0, 0.0]])
ENTRIES = sparse.csr_array(([2.0, 0.0, -np.inf], ([0, 1, 2], [1, 1, 0])), shape=(3, 3))
TABLES = [
    vs.SparseTransition(ENTRIES, default=-1.0),
    vs.SparseTransition(ENTRIES, rows=[1.0, 2.0, 3.0], columns=[0.5, 0.0, -0.5]),
    sparse.csr_array(np.ones((3, 3))),
    sparse.coo_matrix(np.ones((3, 3)) - np.eye(3)),
]


def dense(table: Any) -> np.ndarray:
    if not isinstance(table, vs.SparseTransition):
        table = vs.SparseTransition(table, -np.inf)
    return table.todense()


def segments(table: Any) -> vs.SegmentChain:
    return vs.SegmentChain(UNARY, table, max_length=2)


def second(table: Any) -> Any:
    return vs.Chain(UNARY, np.zeros((3, 3, 3)), order=2, first=table)


def test_scores_of_first_pairs_need_order_2() -> None:
    with pytest.raises(TypeError, match="first= goes with order=2"):
        vs.Chain(UNARY, np.zeros((3, 3)), first=np.zeros((3, 3)))


@pytest.mark.parametrize("make", [segments, second])
@pytest.mark.parametrize("table", TABLES)
def test_tables_that_list_pairs_are_those_with_all(make: Any, table: Any) -> None:
    found, wanted = make(table), make(dense(table))
    given = found.first if make is second else found.transition
    np.testing.assert_array_equal(given, dense(table))
    assert not given.flags.writeable
    for one, other in ((found, wanted), (pickle.loads(pickle.dumps(found)), wanted)):
        a, b = vs.infer(one), vs.infer(other)
        np.testing.assert_array_equal(a.marginals, b.marginals)
        np.testing.assert_array_equal(a.log_z, b.log_z)
        np.testing.assert_array_equal(vs.decode(one).states, vs.decode(other).states)


def test_scores_past_the_end_change_nothing_and_are_log_potentials() -> None:
    scores = np.arange(24.0).reshape(4, 2, 3) / 10
    wanted = vs.SegmentChain(UNARY, TABLES[0], [3, 1], max_length=2, segment=scores)
    for past in (-np.inf, 0.0, 1e4):
        scores[[2, 3], 1] = past
        found = vs.SegmentChain(UNARY, TABLES[0], [3, 1], max_length=2, segment=scores.copy())
        a, b = vs.infer(found), vs.infer(wanted)
        np.testing.assert_array_equal(a.marginals, b.marginals)
        np.testing.assert_array_equal(a.log_z, b.log_z)
        np.testing.assert_array_equal(vs.decode(found).score, vs.decode(wanted).score)
    for past in (np.nan, np.inf):
        scores[2, 1, 0] = past
        with pytest.raises(ValueError, match=r"segment\[2, 1, 0\] is .*finite or -inf"):
            vs.SegmentChain(UNARY, TABLES[0], [3, 1], max_length=2, segment=scores)


def test_single_precision_stays() -> None:
    table = vs.SparseTransition(ENTRIES.astype(np.float32), default=-1.0)
    model = vs.SegmentChain(UNARY.astype(np.float32), table, max_length=2)
    assert model.dtype == model.transition.dtype == np.dtype(table.dtype)


@pytest.mark.parametrize("table", TABLES)
def test_order_2_refuses_a_list_of_pairs_by_name(table: Any) -> None:
    words = rf"transition must be an array of shape \(3, 3, 3\) .* got a {type(table).__name__}"
    with pytest.raises(TypeError, match=words):
        vs.Chain(UNARY, table, order=2)


@pytest.mark.parametrize("make", [segments, second])
def test_tables_of_other_labels_are_refused_by_name(make: Any) -> None:
    words = r"must have shape \(3, 3\).*, got \(2, 2\)"
    with pytest.raises(ValueError, match=words):
        make(vs.SparseTransition(sparse.csr_array((2, 2))))


def test_lists_of_pairs_elsewhere_are_named() -> None:
    with pytest.raises(TypeError, match="duration must hold real numbers, got a SparseTransition"):
        vs.SegmentChain(UNARY, np.zeros((3, 3)), max_length=3, duration=TABLES[0])
    with pytest.raises(TypeError, match="unary must hold real numbers, got a csr_array; make"):
        vs.Chain(ENTRIES, np.zeros((3, 3)))


def test_a_chain_shows_its_arguments_and_subclasses_theirs() -> None:
    class Named(vs.Chain):
        def __init__(self, name: str, *more: Any) -> None:
            super().__init__(*more)

    assert list(inspect.signature(vs.Chain).parameters) == [
        "unary", "transition", "lengths", "start", "end", "allowed", "order",
    ]  # fmt: skip
    assert list(inspect.signature(Named).parameters) == ["name", "more"]
    chain = Named("mine", UNARY, np.zeros((3, 3)))
    assert not hasattr(chain, "__signature__")
    assert type(second(None)) is vs.SecondOrderChain
    assert not isinstance(second(None), vs.Chain)
