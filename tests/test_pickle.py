"""Models and results pickle, and are the same afterwards."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from checks import assert_same_bits, assert_same_result, chain
from oracles import Arrays
from strategies import peaked_chain, random_chain

import valuesparse as vs


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("per_edge", [False, True])
def test_models(protocol: int, per_edge: bool, rng: np.random.Generator, dtype: type) -> None:
    plain = random_chain(rng, [5, 0, 3], 4, per_edge=per_edge, dtype=dtype)
    allowed = np.ones((8, 4), bool)
    allowed[2, 1] = False
    for mask in (None, allowed):
        model = chain(Arrays(plain.unary, plain.transition, plain.lengths, plain.start, None, mask))
        again = pickle.loads(pickle.dumps(model, protocol))
        assert_same_bits(model.unary, again.unary)
        assert_same_bits(model.transition, again.transition)
        assert_same_result(vs.infer(model), vs.infer(again))


@pytest.mark.smoke
@pytest.mark.parametrize("zeta", [1.0, 0.8])
def test_results(zeta: float, rng: np.random.Generator, dtype: type) -> None:
    r = vs.infer(chain(peaked_chain(rng, [9, 0, 4], 4, dtype=dtype)), zeta=zeta)
    assert_same_result(r, pickle.loads(pickle.dumps(r)))
    assert_same_result(r, copy.deepcopy(r))


def test_decodings(rng: np.random.Generator) -> None:
    d = vs.decode(chain(random_chain(rng, [9, 0, 4], 4)), n_best=3)
    again = pickle.loads(pickle.dumps(d))
    assert_same_bits(d.states, again.states)
    assert_same_bits(d.score, again.score)
