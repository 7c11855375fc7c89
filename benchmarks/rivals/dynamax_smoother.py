"""dynamax's HMM smoother, compiled by JAX and vectorised over sequences of equal length."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from dynamax.hidden_markov_model.inference import hmm_smoother

from . import Prepared, split

jax.config.update("jax_enable_x64", True)


@jax.jit
def _smooth(unary: jax.Array, transition: jax.Array) -> jax.Array:
    n_labels = transition.shape[0]
    start = jnp.full(n_labels, 1.0 / n_labels, dtype=transition.dtype)
    # Filter and smoother normalise every step, so the matrix need not be stochastic.
    matrix = jnp.exp(transition - transition.max())

    def one(scores: jax.Array) -> jax.Array:
        # Its edge marginals are not asked for here, so the compiler leaves them out.
        return hmm_smoother(start, matrix, scores).smoothed_probs

    return jax.vmap(one)(unary)


def _groups(unary: np.ndarray, lengths: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return (b, n, K) stacks of sequences of equal length, and which sequences they are."""
    parts = split(unary, lengths)
    members = [np.flatnonzero(lengths == length) for length in np.unique(lengths)]
    return [np.stack([parts[i] for i in which]) for which in members], members


def prepare(
    unary: np.ndarray, transition: np.ndarray, lengths: np.ndarray, threads: int = 1
) -> Prepared:
    """Return the compiled smoother over all lengths; compilation happens here."""
    stacks = [jnp.asarray(stack) for stack in _groups(unary, lengths)[0]]
    matrix = jnp.asarray(transition)

    def call() -> list[jax.Array]:
        return jax.block_until_ready([_smooth(stack, matrix) for stack in stacks])

    call()
    return Prepared(call)


def marginals(unary: np.ndarray, transition: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the (N, K) node marginals."""
    stacks, members = _groups(unary, lengths)
    found: dict[int, np.ndarray] = {}
    for stack, which in zip(stacks, members, strict=True):
        smoothed = np.asarray(_smooth(jnp.asarray(stack), jnp.asarray(transition)))
        found.update(zip(which.tolist(), smoothed, strict=True))
    return np.concatenate([found[i] for i in range(len(found))])
