"""Sentences as arrays of numbers, laid end to end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from valuesparse import _parser
from valuesparse.parsing._sentences import Sentence, error_of, tree_problem

__all__ = ["IGNORABLE", "Encoded", "as_ignored", "encode", "heads_of", "projective_and_single"]

Array = npt.NDArray[Any]

#: Columns that features can do without, by their names in files.
IGNORABLE = {"LEMMA": "lemmas", "UPOS": "upos", "XPOS": "xpos", "FEATS": "feats"}
#: The largest share of arcs that cross others in a treebank of projective trees.
_CROSSING = 0.005


class Encoded(NamedTuple):
    """The words of B sentences, N in all."""

    words: Array  #: (N, FIELDS) uint32
    offset: Array  #: (B + 1,) int64: where each sentence begins


def as_ignored(ignore: Iterable[str]) -> tuple[str, ...]:
    """Return names of columns, once they are checked, in the order of files.

    Raises
    ------
    ValueError
        A name that is none of LEMMA, UPOS, XPOS, FEATS.
    """
    given = {ignore.upper()} if isinstance(ignore, str) else {str(name).upper() for name in ignore}
    for name in sorted(given - IGNORABLE.keys()):
        raise ValueError(f"ignore: {name!r} is none of {', '.join(IGNORABLE)}")
    return tuple(name for name in IGNORABLE if name in given)


def encode(sentences: Sequence[Sentence], ignore: Iterable[str] = (), number: int = 0) -> Encoded:
    """Return the words of sentences as features see them, without the columns `ignore`.

    Raises
    ------
    TypeError, ValueError
        A cell is no text; the error names it, and its sentence, the first of which is `number`.
    """
    offset = np.zeros(len(sentences) + 1, np.int64)
    np.cumsum([len(sentence) for sentence in sentences], out=offset[1:])
    words = np.zeros((int(offset[-1]), _parser.FIELDS), np.uint32)
    left_out = {IGNORABLE[name] for name in ignore}
    places = offset.tolist()
    for i, (s, first, last) in enumerate(zip(sentences, places, places[1:], strict=False)):
        try:
            _parser.encode(
                s.forms,
                None if "lemmas" in left_out else s.lemmas,
                None if "upos" in left_out else s.upos,
                None if "xpos" in left_out else s.xpos,
                None if "feats" in left_out else s.feats,
                words[first:last],
            )
        except (TypeError, ValueError) as error:
            raise error_of(s, number + i, error) from None
    return Encoded(words, offset)


def heads_of(sentences: Sequence[Sentence]) -> Array:
    """Return the heads (N,) int32 of sentences, each of which has a tree.

    Raises
    ------
    ValueError
        A head is missing or beyond the last word, or heads go round in a circle; the error names
        the sentence.
    """
    for i, sentence in enumerate(sentences):
        problem = tree_problem(sentence.heads.tolist())
        if problem is not None:
            word, text = problem
            raise ValueError(f"sentences[{i}], word {word + 1}: {text}")
    if not sentences:
        return np.zeros(0, np.int32)
    return np.concatenate([sentence.heads for sentence in sentences]).astype(np.int32)


def projective_and_single(heads: Array, offset: Array) -> tuple[bool, bool]:
    """Return what trees of a treebank are: projective (nearly all), and of one root (all).

    An arc is not projective where a word between its ends does not descend from its head.
    """
    crossing, single = 0, True
    for first, last in zip(offset[:-1].tolist(), offset[1:].tolist(), strict=True):
        own = heads[first:last]
        single &= last == first or int((own == 0).sum()) == 1
        modifier = np.arange(1, len(own) + 1)
        left, right = np.minimum(own, modifier), np.maximum(own, modifier)
        # An arc crosses (left, right) where one of its ends lies inside, the other outside.
        inside = (left[:, None] < left) & (left < right[:, None]) & (right > right[:, None])
        crosses = inside | inside.T
        if crosses.any():
            crossing += _not_projective(own.tolist(), left.tolist(), right.tolist(), crosses)
    return crossing < _CROSSING * max(len(heads), 1), bool(single)


def _not_projective(heads: list[int], left: list[int], right: list[int], crosses: Array) -> int:
    """Return how many arcs have a word inside that does not descend from the head."""
    count = 0
    for i in np.flatnonzero(crosses.any(axis=1)).tolist():
        for word in range(left[i] + 1, right[i]):
            above = word
            while above not in (0, heads[i]):
                above = heads[above - 1]
            if above != heads[i]:
                count += 1
                break
    return count
