"""pytorch-crf: marginals as the gradient of its log partition function."""

from __future__ import annotations

import numpy as np
import torch
import torchcrf

from . import Prepared, check_size, pad


def _closure(unary: np.ndarray, transition: np.ndarray, lengths: np.ndarray):
    n_labels = unary.shape[1]
    padded, mask = pad(unary, lengths)
    # Autograd keeps one (B, K, K) array per step.
    check_size(float(padded.shape[0]) * padded.shape[1] * n_labels**2, unary.itemsize)
    crf = torchcrf.CRF(n_labels).to(torch.from_numpy(unary[:1]).dtype)
    with torch.no_grad():
        crf.start_transitions.zero_()
        crf.end_transitions.zero_()
        crf.transitions.copy_(torch.from_numpy(transition))
    crf.requires_grad_(False)
    # Steps first, which is how the module computes.
    emissions = torch.from_numpy(np.ascontiguousarray(padded.swapaxes(0, 1))).requires_grad_()
    steps_mask = torch.from_numpy(np.ascontiguousarray(mask.T))

    def call() -> torch.Tensor:
        log_z = crf._compute_normalizer(emissions, steps_mask)
        return torch.autograd.grad(log_z.sum(), emissions)[0]

    return call, mask


def prepare(
    unary: np.ndarray, transition: np.ndarray, lengths: np.ndarray, threads: int = 1
) -> Prepared:
    """Return log partition and its gradient for the whole padded batch."""
    torch.set_num_threads(threads)
    return Prepared(_closure(unary, transition, lengths)[0])


def marginals(unary: np.ndarray, transition: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the (N, K) node marginals."""
    call, mask = _closure(unary, transition, lengths)
    return call().numpy().swapaxes(0, 1)[mask]
