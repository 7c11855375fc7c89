"""torch-struct's linear chain: edge marginals of padded batches, summed to node marginals."""

from __future__ import annotations

import numpy as np
import torch
import torch_struct

from . import Prepared, check_size, pad

# It declares no constraints, and torch warns on every use where that is not said.
torch_struct.LinearChainCRF.arg_constraints = {}

# Its parallel scan multiplies (K, K) tables as sums over a (b, n, K, K, K) array.
_BYTES_AT_ONCE = 5e8


def _node_marginals(
    emissions: torch.Tensor, scores: torch.Tensor, sizes: torch.Tensor
) -> torch.Tensor:
    # Its tables are [batch, edge, to, from]; the first node's scores ride on the first edge.
    tables = scores.T[None, None] + emissions[:, 1:, :, None]
    tables[:, 0] = tables[:, 0] + emissions[:, 0, None, :]
    edges = torch_struct.LinearChainCRF(tables, lengths=sizes).marginals
    return torch.cat((edges[:, :1].sum(2), edges.sum(3)), dim=1)


def _closure(unary: np.ndarray, transition: np.ndarray, lengths: np.ndarray):
    padded, mask = pad(unary, lengths)
    one = float(padded.shape[1]) * unary.shape[1] ** 3
    check_size(one, unary.itemsize)
    emissions, sizes = torch.from_numpy(padded), torch.from_numpy(lengths)
    scores = torch.from_numpy(transition)
    together = max(1, int(_BYTES_AT_ONCE / (one * unary.itemsize)))

    def call() -> torch.Tensor:
        parts = zip(emissions.split(together), sizes.split(together), strict=True)
        return torch.cat([_node_marginals(part, scores, size) for part, size in parts])

    return call, mask


def prepare(
    unary: np.ndarray, transition: np.ndarray, lengths: np.ndarray, threads: int = 1
) -> Prepared:
    """Return tables, edge marginals and their sums for the whole padded batch."""
    torch.set_num_threads(threads)
    return Prepared(_closure(unary, transition, lengths)[0])


def marginals(unary: np.ndarray, transition: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the (N, K) node marginals."""
    call, mask = _closure(unary, transition, lengths)
    return call().detach().numpy()[mask]
