"""Sums over the trees of many sentences, and the best tree of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse import _parsing
from valuesparse._validation import as_flag, as_reals
from valuesparse.errors import InfeasibleError
from valuesparse.parsing._parts import (
    GRANDPARENTS,
    Parts,
    as_arcs,
    as_triples,
    numbered,
    refused,
)
from valuesparse.threads import resolve

__all__ = ["ArcMarginals", "BestTrees", "best_trees", "marginals"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class ArcMarginals:
    """The answer of `marginals`.

    Attributes
    ----------
    marginals : list of (n_i + 1, n_i + 1) arrays
        P(arc) at [head, modifier]; 0 in column 0 and on the diagonal. In the dtype of the scores.
    log_z : (B,) float64
        The log-sum over all trees of each sentence.
    grandparents : list of (m_i,) arrays, or None
        P(both arcs) of each part, where `grandparents` were given.
    """

    marginals: list[Array]
    log_z: Array
    grandparents: list[Array] | None = None


@dataclass(frozen=True, eq=False)
class BestTrees:
    """The answer of `best_trees`.

    Attributes
    ----------
    heads : list of (n_i,) int64 arrays
        The head of each word, 0 for the root.
    score : (B,) float64
        The sum of the scores of each tree's arcs, and of its grandparents.
    """

    heads: list[Array]
    score: Array


def marginals(
    scores: Sequence[npt.ArrayLike],
    projective: bool = False,
    single_root: bool = False,
    threads: int | None = None,
    grandparents: Sequence[Parts | None] | None = None,
) -> ArcMarginals:
    """Return the marginals of all arcs over the dependency trees of each sentence.

    By the matrix-tree theorem, or Eisner's inside-outside where trees have to be projective; both
    take O(n³). With grandparents inside-outside takes O(n⁴). Sums have positive terms only, so that
    small probabilities keep their digits.

    Parameters
    ----------
    scores : list of (n_i + 1, n_i + 1) arrays
        Log-potentials of arcs at [head, modifier], 0 being the root; -inf forbids. Column 0 and the
        diagonal are ignored. float32 stays float32, other reals become float64.
    projective : bool
        Only trees without crossing arcs, those of the root included.
    single_root : bool
        Only trees in which exactly one word is attached to the root.
    threads : int, optional
        Sentences are spread over so many; None: every core this process may use.
    grandparents : list of (triples, weights), optional
        For each sentence triples (g, h, m), shape (m_i, 3), and their log-potentials (m_i,), or
        None: arcs (g, h) and (h, m) are both on, as of `graph`. Only with `projective`.

    Returns
    -------
    ArcMarginals

    Raises
    ------
    ValueError
        An array that is not square, NaN, +inf, or a finite score beyond 1e14; grandparents without
        `projective`, or triples as `graph` refuses them.
    TypeError
        Scores that are no real numbers.
    InfeasibleError
        A sentence without a tree; `sequence` says which.

    Notes
    -----
    Turbo parser #1 of MSFXM10 has this sum as its TREE factor. Errors in Table 1 of RSM10 are
    against the sum with grandparents, which needs memory of O(n³) for each thread.

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
    parts = _parts(grandparents, arrays, projective)
    flat, log_z = np.empty(int(((words + 1) ** 2).sum())), np.empty(len(arrays))
    of_parts = None if parts is None else np.empty(len(parts[1]))
    asked = (words, projective, single_root, threads)
    _run(arrays, *asked, log_z, marginals=flat, parts=parts, of_parts=of_parts)
    tables = _parsing.tables(flat.astype(dtype, copy=False), words)
    if parts is None or of_parts is None:
        return ArcMarginals(tables, log_z)
    both = _split(of_parts.astype(dtype, copy=False), np.diff(parts[2]))
    return ArcMarginals(tables, log_z, both)


def best_trees(
    scores: Sequence[npt.ArrayLike],
    projective: bool = False,
    single_root: bool = False,
    threads: int | None = None,
    grandparents: Sequence[Parts | None] | None = None,
) -> BestTrees:
    """Return the best dependency tree of each sentence.

    By Chu-Liu-Edmonds in O(n²), or Eisner in O(n³) where trees have to be projective; O(n⁴) with
    grandparents.

    Parameters
    ----------
    scores, projective, single_root, threads, grandparents
        As of `marginals`.

    Returns
    -------
    BestTrees
        Where several trees have the best score, always the same of them; which is not promised.

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
    parts = _parts(grandparents, arrays, projective)
    flat, score = np.empty(int(words.sum()), dtype=np.int64), np.empty(len(arrays))
    _run(arrays, words, projective, single_root, threads, score, heads=flat, parts=parts)
    return BestTrees(_split(flat, words), score)


def _parts(
    grandparents: Sequence[Parts | None] | None, arrays: list[Array], projective: bool
) -> tuple[Array, Array, Array] | None:
    """Return the triples and log-potentials of all sentences, and where each one's begin."""
    if grandparents is None:
        return None
    if not projective:
        raise ValueError(
            "grandparents need projective=True: sums over all trees with them are not tractable; "
            "vs.parsing.graph has them for approximate inference"
        )
    if len(grandparents) != len(arrays):
        raise ValueError(
            f"grandparents must have an entry for each of {len(arrays)} sentences, got "
            f"{len(grandparents)}"
        )
    triples, weights, counts = [], [], [0]
    for i, (given, array) in enumerate(zip(grandparents, arrays, strict=True)):
        rows, values = as_triples(f"grandparents[{i}]", given)
        as_arcs(f"grandparents[{i}]", rows, numbered(array), GRANDPARENTS)
        triples.append(rows)
        weights.append(values)
        counts.append(len(rows))
    return (
        np.concatenate([np.empty((0, 3), dtype=np.int64), *triples]),
        np.concatenate([np.empty(0), *weights]),
        np.cumsum(counts),
    )


def _split(flat: Array, sizes: Array) -> list[Array]:
    ends = np.cumsum(sizes).tolist()
    return [flat[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)] if ends else []


def _checked(scores: Sequence[npt.ArrayLike]) -> tuple[list[Array], Array, np.dtype[Any]]:
    """Return contiguous arrays of one dtype, and the number of words of each."""
    if getattr(scores, "ndim", 1) == 2:
        raise ValueError("scores must be a list of arrays: wrap one sentence as [scores]")
    if not isinstance(scores, Iterable):
        raise TypeError(f"scores must be a list of arrays, got {type(scores).__name__}")
    given: list[Any] = list(scores)
    words = np.empty(len(given), dtype=np.int64)
    if _parsing.ready(given, words):  # there may be thousands
        return given, words, np.dtype(np.float64)
    arrays: list[Array] = []
    narrow = True
    for i, one in enumerate(given):
        array = as_reals(f"scores[{i}]", one)
        shape = array.shape
        if len(shape) != 2 or shape[0] != shape[1] or not shape[0]:
            raise ValueError(f"scores[{i}] must be square, (words + 1, words + 1), got {shape}")
        narrow = narrow and array.dtype == np.float32
        words[i] = shape[0] - 1
        arrays.append(array)
    dtype = np.dtype(np.float32 if narrow else np.float64)
    if narrow or not all(a.dtype == dtype and a.flags.c_contiguous for a in arrays):
        arrays = [np.ascontiguousarray(array, dtype=dtype) for array in arrays]
    return arrays, words, dtype


def _run(
    arrays: list[Array],
    words: Array,
    projective: bool,
    single_root: bool,
    threads: int | None,
    values: Array,
    **more: Any,
) -> None:
    workers = resolve(threads)
    flags = as_flag("projective", projective), as_flag("single_root", single_root)
    fault = _parsing.run(arrays, words, *flags, workers, values, **more)
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
