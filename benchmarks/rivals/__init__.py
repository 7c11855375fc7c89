"""Other implementations of chain marginals, each behind the same two functions.

A rival is a module with

- ``prepare(unary, transition, lengths, threads=1) -> Prepared``: convert the input to whatever the
  rival likes best, outside the clock
- ``marginals(unary, transition, lengths) -> (N, K)``: the same computation, converted back

and raises `TooLarge` for inputs that it would need gigabytes for. Importing one whose package is
not installed raises `ImportError`. `RIVALS` lists them and what they can do; ``ours`` is
valuesparse.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import numpy as np


@dataclass(frozen=True)
class Rival:
    """Its name on PyPI, the types it computes in, whether it can be given cores."""

    package: str
    dtypes: tuple[str, ...] = ("float64",)
    threaded: bool = False
    # An algorithm of positions * K**3 steps gets only a small input.
    cubic: bool = False


RIVALS = {
    "ours": Rival("valuesparse", ("float64", "float32"), threaded=True),
    "crfsuite": Rival("python-crfsuite"),
    "hmmlearn_scaling": Rival("hmmlearn"),
    "hmmlearn_log": Rival("hmmlearn"),
    "torchcrf_autograd": Rival("pytorch-crf", ("float64", "float32"), threaded=True),
    "torch_struct_chain": Rival("torch-struct", ("float64", "float32"), threaded=True, cubic=True),
    # JAX takes the cores it finds when it starts and cannot be told otherwise afterwards.
    "dynamax_smoother": Rival("dynamax", ("float64", "float32")),
}


def load(name: str) -> ModuleType:
    """Import the module of a rival; ``ImportError`` where its package is missing."""
    if name not in RIVALS:
        raise ValueError(f"rival {name!r}: give one of {', '.join(RIVALS)}")
    return importlib.import_module(f"{__name__}.{name}")


class TooLarge(MemoryError):
    """The rival would need more memory than a benchmark should take."""


@dataclass(frozen=True)
class Prepared:
    """A computation that is ready to be timed.

    Attributes
    ----------
    call : callable
        Log-potentials in, marginals out.
    overhead : callable, optional
        The part of `call` that is not inference, timed separately and taken off.
    """

    call: Callable[[], object]
    overhead: Callable[[], object] | None = None


def split(values: np.ndarray, lengths: np.ndarray) -> list[np.ndarray]:
    """Cut rows into sequences."""
    return np.split(values, np.cumsum(lengths)[:-1])


def pad(unary: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (B, longest, K) padded with zeros, and the (B, longest) mask of real positions."""
    mask = np.arange(lengths.max())[None, :] < lengths[:, None]
    padded = np.zeros((*mask.shape, unary.shape[1]), dtype=unary.dtype)
    padded[mask] = unary
    return padded, mask


def check_size(cells: float, itemsize: int, limit: float = 2e9) -> None:
    """Refuse inputs that need more than `limit` bytes for `cells` numbers."""
    if cells * itemsize > limit:
        raise TooLarge(f"needs {cells * itemsize / 1e9:.1f} GB for one intermediate array")
