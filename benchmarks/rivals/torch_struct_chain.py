"""torch-struct's linear chain: edge marginals of padded batches, summed to node marginals."""

from __future__ import annotations

import numpy as np
import torch
import torch_struct

from . import Prepared, check_size, pad, split

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
    one = float(lengths.max()) * unary.shape[1] ** 3
    check_size(one, unary.itemsize)
    together = max(1, int(_BYTES_AT_ONCE / (one * unary.itemsize)))
    # By length, so that little of a batch is padding; the longest must fill it, too.
    order = np.argsort(-lengths, kind="stable")
    groups = [order[at : at + together] for at in range(0, order.size, together)]
    rows = split(unary, lengths)
    scores = torch.from_numpy(transition)
    inputs = []
    for group in groups:
        padded, _ = pad(np.concatenate([rows[i] for i in group]), lengths[group])
        inputs.append((torch.from_numpy(padded), scores, torch.from_numpy(lengths[group])))

    def call() -> list[torch.Tensor]:
        return [_node_marginals(*group) for group in inputs]

    return call, groups


def prepare(
    unary: np.ndarray, transition: np.ndarray, lengths: np.ndarray, threads: int = 1
) -> Prepared:
    """Return tables, edge marginals and their sums for padded batches."""
    torch.set_num_threads(threads)
    return Prepared(_closure(unary, transition, lengths)[0])


def marginals(unary: np.ndarray, transition: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the (N, K) node marginals."""
    call, groups = _closure(unary, transition, lengths)
    found = {}
    for group, nodes in zip(groups, call(), strict=True):
        for i, rows in zip(group.tolist(), nodes.detach().numpy(), strict=True):
            found[i] = rows[: lengths[i]]
    return np.concatenate([found[i] for i in range(lengths.size)])
