"""Batches for the PyTorch layer, as the oracles take them."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from oracles import Arrays, enumerate_chain, sequences

# Not in the extra `test`: PyTorch takes 0.2 GB to load and 0.7 on disk for CPUs, and gigabytes from
# PyPI on Linux. Where it is wanted: pip install torch (a build for CPUs will do) pytorch-crf.
torch = pytest.importorskip("torch", reason="needs PyTorch: the extra torch")

CRF = importlib.import_module("valuesparse.torch").CRF  # no skip: it has to be importable here
LENGTHS = (7, 1, 3, 6, 2)
K = 4


class Batch:
    """Random emissions, tags and mask in float64, and a layer for them."""

    def __init__(
        self,
        seed: int,
        *,
        batch_first: bool = False,
        lengths: Any = LENGTHS,
        k: int = K,
        **ctor: Any,
    ) -> None:
        generator = torch.Generator().manual_seed(seed)
        steps, n = max(lengths), len(lengths)
        mask = torch.arange(steps)[:, None] < torch.tensor(lengths)[None, :]
        emissions = torch.randn(steps, n, k, dtype=torch.float64, generator=generator)
        tags = torch.randint(0, k, (steps, n), generator=generator)
        if batch_first:
            emissions, tags, mask = (x.transpose(0, 1) for x in (emissions, tags, mask))
        self.emissions, self.tags, self.mask = (x.contiguous() for x in (emissions, tags, mask))
        self.lengths, self.batch_first = list(lengths), batch_first
        self.crf = CRF(k, batch_first, **ctor).double()
        with torch.no_grad():
            for p in self.crf.parameters():
                p.copy_(torch.randn(p.shape, dtype=torch.float64, generator=generator))

    def arrays(self, allowed: Any = None) -> Arrays:
        """Return the batch as the oracles take it, constraints folded in."""
        swap = (lambda x: x) if self.batch_first else (lambda x: x.transpose(0, 1))
        rows = swap(self.mask)
        crf = self.crf

        def scores(parameter: Any, may: Any) -> np.ndarray:
            values = parameter.detach().numpy().copy()
            if may is not None:
                values[~may.numpy()] = -np.inf
            return values

        return Arrays(
            swap(self.emissions)[rows].detach().numpy(),
            scores(crf.transitions, crf.allowed_transitions),
            np.array(self.lengths),
            scores(crf.start_transitions, crf.allowed_start),
            scores(crf.end_transitions, crf.allowed_end),
            None if allowed is None else swap(allowed)[rows].numpy(),
        )

    def answers(self, allowed: Any = None) -> list[Any]:
        """Return the enumeration of every sequence."""
        return [enumerate_chain(seq) for seq in sequences(self.arrays(allowed))]

    def inputs(self) -> list[Any]:
        """Return leaves for numerical derivatives: emissions, transitions, start, end."""
        crf = self.crf
        tensors = (self.emissions, crf.transitions, crf.start_transitions, crf.end_transitions)
        return [x.detach().clone().requires_grad_() for x in tensors]

    def call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Return a function of `inputs` that calls a method of the layer."""
        names = ("transitions", "start_transitions", "end_transitions")

        class Caller(torch.nn.Module):
            def __init__(self, crf: Any) -> None:
                super().__init__()
                self.crf = crf

            def forward(self, emissions: Any) -> Any:
                return getattr(self.crf, method)(emissions, *args, **kwargs)

        caller = Caller(self.crf)

        def function(emissions: Any, *parameters: Any) -> Any:
            values = {f"crf.{n}": p for n, p in zip(names, parameters, strict=True)}
            return torch.func.functional_call(caller, values, (emissions,))

        return function

    def by_sequence(self, padded: Any) -> list[np.ndarray]:
        """Return the steps of each sequence, of a padded tensor."""
        rows = padded.detach() if self.batch_first else padded.detach().transpose(0, 1)
        return [rows[b, :n].numpy() for b, n in enumerate(self.lengths)]


def off(mask: Any, *at: int) -> Any:
    mask = mask.clone()
    mask[at] = False
    return mask
