"""Chains of order 2 and chains of segments, against torch-struct."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import valuesparse as vs

# Not in the extra `test`, as PyTorch is not: pip install torch torch-struct.
torch = pytest.importorskip("torch", reason="needs PyTorch: the extra torch")
torch_struct = pytest.importorskip("torch_struct", reason="needs torch-struct, which has no extra")

#: torch-struct has no −inf: its gradients would be NaN.
NEVER = -1e6


def ask(name: str, tables: list[np.ndarray]) -> list[tuple[float, np.ndarray, float]]:
    """Return log Z, the marginals of the parts and the largest score of each sequence."""
    kind: Any = getattr(torch_struct, name)
    kind.arg_constraints = {}  # which PyTorch asks for, and warns where there is none
    found = []
    for table in tables:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about names that PyTorch has deprecated since
            there = kind(torch.from_numpy(table[None]))
            one = there.partition.item(), there.marginals[0].detach().numpy(), there.max.item()
        found.append(one)
    return found


def segment_tables(model: dict[str, Any]) -> list[np.ndarray]:
    """Return a table [first, length, next label, label] for each sequence."""
    k, longest = len(model["start"]), model["max_length"]
    tables, at = [], 0
    for n in model["lengths"]:
        table = np.full((n, longest + 1, k, k), NEVER)
        for first in range(n):
            for d in range(1, min(longest, n - first) + 1):
                own = model["unary"][at + first : at + first + d].sum(axis=0)
                own = own + model["duration"][d - 1] + model["segment"][at + first, d - 1]
                own = own + (model["start"] if first == 0 else 0.0)
                if first + d < n:
                    table[first, d] = own + model["transition"].T
                else:  # the last node has one state
                    table[first, d, 0] = own + model["end"]
        tables.append(table)
        at += n
    return tables


@pytest.mark.parametrize(("k", "longest"), [(2, 3), (4, 2), (3, 6)])
def test_segments(k: int, longest: int) -> None:
    rng = np.random.default_rng(k)
    lengths = [7, 2, 9]
    n = sum(lengths)
    model = {
        "unary": rng.normal(size=(n, k)), "transition": 2.0 * rng.normal(size=(k, k)),
        "lengths": lengths, "max_length": longest, "start": rng.normal(size=k),
        "end": rng.normal(size=k), "duration": rng.normal(size=(longest, k)),
        "segment": rng.normal(size=(n, longest, k)),
    }  # fmt: skip
    chain = vs.SegmentChain(**model)
    want = ask("SemiMarkovCRF", segment_tables(model))
    r, best = vs.infer(chain), vs.decode(chain)
    np.testing.assert_allclose(r.log_z, [one[0] for one in want], rtol=1e-10)
    np.testing.assert_allclose(best.score, [one[2] for one in want], rtol=1e-10)
    parts = np.concatenate([one[1][:, 1:].sum(axis=2) for one in want])
    np.testing.assert_allclose(r.segments(), parts, atol=1e-10)


def pair_tables(model: dict[str, Any]) -> list[np.ndarray]:
    """Return a table [edge, next pair, pair] for each sequence; a pair is two labels in a row."""
    k, (a, b) = len(model["start"]), np.indices((len(model["start"]),) * 2).reshape(2, -1)
    tables, at = [], 0
    for n in model["lengths"]:
        unary = model["unary"][at : at + n]
        table = np.full((n - 2, k * k, k * k), NEVER)
        for i in range(n - 2):
            for pair in range(k * k):
                after = b[pair] * k + np.arange(k)
                table[i, after, pair] = model["transition"][a[pair], b[pair]] + unary[i + 2]
        table[0] += (model["start"][a] + model["first"][a, b] + unary[0, a] + unary[1, b])[None]
        table[-1] += model["end"][b][:, None]
        tables.append(table)
        at += n
    return tables


@pytest.mark.parametrize("k", [2, 3])
def test_order_2_by_pair_states(k: int) -> None:
    rng = np.random.default_rng(k)
    lengths = [6, 3, 9]
    n = sum(lengths)
    model = {
        "unary": rng.normal(size=(n, k)), "transition": 2.0 * rng.normal(size=(k, k, k)),
        "lengths": lengths, "start": rng.normal(size=k), "end": rng.normal(size=k),
        "first": rng.normal(size=(k, k)),
    }  # fmt: skip
    chain = vs.Chain(**model, order=2)
    want = ask("LinearChainCRF", pair_tables(model))
    r, best = vs.infer(chain), vs.decode(chain)
    np.testing.assert_allclose(r.log_z, [one[0] for one in want], rtol=1e-10)
    np.testing.assert_allclose(best.score, [one[2] for one in want], rtol=1e-10)
    pairs = [np.concatenate([p[:1].sum(axis=1), p.sum(axis=2)]) for _, p, _ in want]
    np.testing.assert_allclose(r.pairwise(), np.concatenate(pairs).reshape(-1, k, k), atol=1e-10)
    triples = np.zeros((k, k, k))
    for _, p, _ in want:
        for i, j in np.ndindex(k * k, k * k):
            if i % k == j // k:
                triples[i // k, i % k, j % k] += p[:, j, i].sum()
    np.testing.assert_allclose(r.expectations(), triples, atol=1e-10)
