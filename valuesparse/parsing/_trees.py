"""Sums over the trees of many sentences, and the best tree of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse import _parsing
from valuesparse._validation import as_reals
from valuesparse.errors import InfeasibleError
from valuesparse.parsing._parts import refused
from valuesparse.threads import resolve

__all__ = ["ArcMarginals", "BestTrees", "best_trees", "marginals"]

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class ArcMarginals:
    """The answer of `marginals`.

    Attributes
    ----------
    marginals : list of (n_i + 1, n_i + 1) arrays
        P(arc) at [head, modifier]; 0 in column 0 and on the diagonal. In the dtype of the scores.
    log_z : (B,) float64
        The log-sum over all trees of each sentence.
    """

    marginals: list[Array]
    log_z: Array


@dataclass(frozen=True)
class BestTrees:
    """The answer of `best_trees`.

    Attributes
    ----------
    heads : list of (n_i,) int64 arrays
        The head of each word, 0 for the root.
    score : (B,) float64
        The sum of the scores of each tree's arcs.
    """

    heads: list[Array]
    score: Array


def marginals(
    scores: Sequence[npt.ArrayLike],
    projective: bool = False,
    single_root: bool = False,
    threads: int | None = None,
) -> ArcMarginals:
    """Return the marginals of all arcs over the dependency trees of each sentence.

    By the matrix-tree theorem, or Eisner's inside-outside where trees have to be projective; both
    take O(n³). Sums have positive terms only, so that small probabilities keep their digits.

    Parameters
    ----------
    scores : list of (n_i + 1, n_i + 1) arrays
        Log-potentials of arcs at [head, modifier], 0 being the root; -inf forbids. Column 0 and the
        diagonal are ignored. float32 stays float32, other reals become float64.
    projective : bool
        Only trees without crossing arcs, those of the root included.
    single_root : bool
        Only trees in which one word hangs on the root.
    threads : int, optional
        Sentences are spread over so many; None: every core this process may use.

    Returns
    -------
    ArcMarginals

    Raises
    ------
    ValueError
        An array that is not square, NaN, +inf, or a finite score beyond 1e14.
    TypeError
        Scores that are no real numbers.
    InfeasibleError
        A sentence without a tree; `sequence` says which.

    Notes
    -----
    Turbo parser #1 of MSFXM10 has this sum as its TREE factor.

    Examples
    --------
    >>> import numpy as np, valuesparse as vs
    >>> r = vs.parsing.marginals([np.zeros((3, 3))])
    >>> float(np.exp(r.log_z[0]).round(12))
    3.0
    >>> r.marginals[0][0, 1:].round(3).tolist()
    [0.667, 0.667]
    """
    arrays, words, dtype = _checked(scores)
    sizes = (words + 1) ** 2
    flat, log_z = np.empty(int(sizes.sum())), np.empty(len(arrays))
    _run(arrays, words, projective, single_root, threads, log_z, flat, None)
    if dtype == np.float32:
        flat = flat.astype(np.float32)
    tables = [
        part.reshape(n + 1, n + 1) for part, n in zip(_split(flat, sizes), words, strict=True)
    ]
    return ArcMarginals(tables, log_z)


def best_trees(
    scores: Sequence[npt.ArrayLike],
    projective: bool = False,
    single_root: bool = False,
    threads: int | None = None,
) -> BestTrees:
    """Return the best dependency tree of each sentence.

    By Chu-Liu-Edmonds in O(n²), or Eisner in O(n³) where trees have to be projective.

    Parameters
    ----------
    scores, projective, single_root, threads
        As of `marginals`.

    Returns
    -------
    BestTrees
        The same among trees of equal scores whenever it is called.

    Raises
    ------
    ValueError, TypeError, InfeasibleError
        As `marginals` does.

    Examples
    --------
    >>> import numpy as np, valuesparse as vs
    >>> scores = np.array([[0, 1, 2], [0, 0, 5], [0, 3, 0]])
    >>> t = vs.parsing.best_trees([scores])
    >>> t.heads[0].tolist(), t.score.tolist()
    ([0, 1], [6.0])
    """
    arrays, words, _ = _checked(scores)
    flat, score = np.empty(int(words.sum()), dtype=np.int64), np.empty(len(arrays))
    _run(arrays, words, projective, single_root, threads, score, None, flat)
    return BestTrees(_split(flat, words), score)


def _split(flat: Array, sizes: Array) -> list[Array]:
    ends = np.cumsum(sizes).tolist()
    return [flat[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)] if ends else []


def _checked(scores: Sequence[npt.ArrayLike]) -> tuple[list[Array], Array, np.dtype[Any]]:
    """Return contiguous arrays of one dtype, and the number of words of each."""
    if getattr(scores, "ndim", 1) == 2:
        raise ValueError("scores must be a list of arrays: wrap one sentence as [scores]")
    arrays = [as_reals(f"scores[{i}]", one) for i, one in enumerate(scores)]
    for i, array in enumerate(arrays):
        if array.ndim != 2 or array.shape[0] != array.shape[1] or not array.size:
            raise ValueError(
                f"scores[{i}] must be square, (words + 1, words + 1), got {array.shape}"
            )
    narrow = bool(arrays) and all(array.dtype == np.float32 for array in arrays)
    dtype = np.dtype(np.float32 if narrow else np.float64)
    arrays = [np.ascontiguousarray(array, dtype=dtype) for array in arrays]
    return arrays, np.array([len(array) - 1 for array in arrays], dtype=np.int64), dtype


def _run(
    arrays: list[Array],
    words: Array,
    projective: bool,
    single_root: bool,
    threads: int | None,
    values: Array,
    marginals: Array | None,
    heads: Array | None,
) -> None:
    workers = resolve(threads)
    fault = _parsing.run(
        arrays, words, bool(projective), bool(single_root), workers, values, marginals, heads
    )
    if fault is None:
        return
    sentence, head, modifier = fault
    if head < 0:
        kind = "projective tree" if projective else "tree"
        roots = " with a single root" if single_root else ""
        raise InfeasibleError(
            sentence, -1, message=f"scores[{sentence}] allows no {kind}{roots}: look for -inf there"
        )
    value = float(arrays[sentence][head, modifier])
    raise refused(f"scores[{sentence}][{head}, {modifier}]", value)
