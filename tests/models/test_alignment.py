"""Arrays whose numbers stand where C++ may not read them: parts of packed records, odd offsets."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from crfsuite_files import write_model
from scipy.sparse import csr_array

import valuesparse as vs
from valuesparse.io import CrfsuiteModel, read_crfsuite

LENGTHS = [2, 4]
PARENT = [-1, 0, 0, 1, 1, 2]


def odd(array: npt.ArrayLike) -> npt.NDArray[Any]:
    """Return a copy that begins at an odd address."""
    given = np.asarray(array)
    room = np.zeros(given.nbytes + 8, np.uint8)
    begin = 1 if room.ctypes.data % 2 == 0 else 0
    moved = room[begin : begin + given.nbytes].view(given.dtype).reshape(given.shape)
    moved[...] = given
    assert not moved.flags.aligned
    return moved


def test_chains(rng: np.random.Generator, dtype: type) -> None:
    unary, transition = rng.normal(size=(6, 3)).astype(dtype), np.eye(3, dtype=dtype)
    chain = vs.Chain(odd(unary), odd(transition), lengths=odd(LENGTHS), start=odd(unary[0]))
    for array in (chain.unary, chain.transition, chain.lengths, chain.start):
        assert array is not None
        assert array.flags.aligned
    straight = vs.Chain(unary, transition, lengths=LENGTHS, start=unary[0])
    np.testing.assert_array_equal(vs.infer(chain).marginals, vs.infer(straight).marginals)
    parts = vs.Chain([odd(unary[:2]), odd(unary[2:])], odd(transition), start=odd(unary[0]))
    np.testing.assert_array_equal(parts.unary, straight.unary)
    assert parts.unary.flags.aligned


def test_trees(rng: np.random.Generator, dtype: type) -> None:
    unary, pairwise = rng.normal(size=(6, 3)).astype(dtype), np.eye(3, dtype=dtype)
    tree = vs.Tree(odd(PARENT), odd(unary), odd(pairwise))
    assert all(array.flags.aligned for array in (tree.parent, tree.unary, tree.pairwise))
    straight = vs.Tree(PARENT, unary, pairwise)
    np.testing.assert_array_equal(vs.infer(tree).marginals, vs.infer(straight).marginals)


def test_graphs(rng: np.random.Generator) -> None:
    graph = vs.FactorGraph([3, 3])
    graph.add([0, 1], odd(rng.normal(size=(3, 3))))
    graph.set_evidence({0: odd(rng.normal(size=3))})
    assert graph.factors[0].log_table.flags.aligned
    assert graph.evidence[0].flags.aligned


@pytest.mark.parametrize("count", [1, 2])
def test_models_of_crfsuite(count: int) -> None:
    weights = csr_array(
        (odd(np.arange(1.0, 1.0 + count)), np.arange(count), [0, count]), shape=(1, 3)
    )
    model = CrfsuiteModel(["A", "B", "C"], ["x"], odd(np.eye(3)), weights)
    assert model.state_weights.data.flags.aligned
    assert model.transition.flags.aligned
    np.testing.assert_array_equal(model.unary([["x"]])[0, :count], 1.0 + np.arange(count))


def test_a_model_file_with_one_weight() -> None:
    """Its weight is a part of the feature's record, at an address that 4 divides."""
    model = read_crfsuite(write_model(["A", "B"], ["x"], {(0, 1): 1.5}, {}))
    assert model.state_weights.data.flags.aligned
    assert model.unary([["x"]]).tolist() == [[0.0, 1.5]]
