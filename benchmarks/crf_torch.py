"""Forward and backward of the PyTorch layer beside pytorch-crf's, on random batches.

    python benchmarks/crf_torch.py
    python benchmarks/crf_torch.py --batch 16 --labels 22 --threads 2

One step is a loss (``reduction="mean"``) and its gradients by emissions and parameters. Both layers
get the same float32 tensors, steps first, with sequences of 5 to 50 steps under a mask, or all of
30 steps. Their values and gradients are compared before anything is timed. A and B take turns,
and the medians are compared. Decoding is timed as well.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

import numpy as np
from _machine import describe, pinned, require_quiet
from _wanted import bench
from paired import alternate
from rivals import Prepared

try:
    import torch
    import torchcrf

    from valuesparse.torch import CRF
except ImportError as missing:
    raise bench(missing) from None

SHAPES = {"ragged": (5, 50), "full": (30, 30)}


class Side:
    """One of the two layers with tensors of its own."""

    def __init__(self, layer: torch.nn.Module, batch: tuple, **options: int) -> None:
        emissions, self.tags, self.mask = batch
        self.layer, self.options = layer, options
        self.emissions = emissions.clone().requires_grad_()

    def step(self) -> torch.Tensor:
        """Return the loss, with its gradients where PyTorch puts them."""
        self.layer.zero_grad()
        self.emissions.grad = None
        llh = self.layer(self.emissions, self.tags, self.mask, "mean", **self.options)
        llh.backward()
        return llh

    def decode(self) -> list[list[int]]:
        """Return the best tags."""
        with torch.no_grad():
            return self.layer.decode(self.emissions, self.mask, **self.options)

    def answers(self) -> list[torch.Tensor]:
        """Return the loss and all gradients."""
        return [self.step(), self.emissions.grad, *(p.grad for p in self.layer.parameters())]


def random_batch(
    sequences: int, labels: int, shape: str, generator: np.random.Generator
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return emissions, tags and mask, steps first."""
    low, high = SHAPES[shape]
    lengths = generator.integers(low, high + 1, sequences)
    lengths[0] = high
    mask = np.arange(high)[:, None] < lengths
    emissions = generator.normal(size=(high, sequences, labels)).astype("f4")
    tags = generator.integers(0, labels, (high, sequences))
    return torch.from_numpy(emissions), torch.from_numpy(tags), torch.from_numpy(mask)


def compare(theirs: Side, ours: Side) -> None:
    """Stop unless both say the same."""
    for a, b in zip(theirs.answers(), ours.answers(), strict=True):
        torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-4)
    if theirs.decode() != ours.decode():
        raise AssertionError("decoded tags differ")


def ratio(theirs: Callable[[], object], ours: Callable[[], object]) -> str:
    timing = alternate(Prepared(theirs), Prepared(ours))
    return (
        f"{1e3 * timing.a:8.2f} ms  ours {1e3 * timing.b:7.3f} ms  {timing.ratio:5.1f}x"
        f"  ({timing.low:.1f} to {timing.high:.1f})"
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=64, help="sequences")
    parser.add_argument("--labels", type=int, nargs="+", default=[49, 9])
    parser.add_argument("--threads", type=int, default=1, help="of both sides")
    parser.add_argument("--allow-busy", action="store_true", help="run on a busy machine")
    options = parser.parse_args(arguments)
    require_quiet(options.allow_busy)
    print(*describe(("pytorch-crf", "torch")), sep="\n")
    torch.set_num_threads(options.threads)
    generator = np.random.default_rng(0)
    with pinned(0 if options.threads == 1 else None):
        for labels in options.labels:
            for shape in SHAPES:
                batch = random_batch(options.batch, labels, shape, generator)
                theirs = Side(torchcrf.CRF(labels), batch)
                ours = Side(CRF(labels), batch, threads=options.threads)
                ours.layer.load_state_dict(theirs.layer.state_dict())
                compare(theirs, ours)
                name = f"K = {labels:3d} {shape:6s} {int(batch[2].sum()):5d} steps"
                print(f"{name}  forward + backward: theirs {ratio(theirs.step, ours.step)}")
                print(f"{name}  decode            : theirs {ratio(theirs.decode, ours.decode)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
