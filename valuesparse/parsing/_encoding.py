"""Sentences as arrays of numbers, laid end to end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from valuesparse import _parser
from valuesparse._validation import as_items
from valuesparse.parsing._parts import as_whole
from valuesparse.parsing._sentences import (
    Sentence,
    error_of,
    require_unchanged,
    tree_problem,
)

__all__ = [
    "IGNORABLE",
    "Encoded",
    "as_candidates",
    "as_ignored",
    "encode",
    "heads_of",
    "projective_and_single",
]

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
    names = [ignore] if isinstance(ignore, str) else as_items("ignore", ignore, "names of columns")
    given = {str(name).upper() for name in names}
    for name in sorted(given - IGNORABLE.keys()):
        raise ValueError(f"ignore: {name!r} is none of {', '.join(IGNORABLE)}")
    return tuple(name for name in IGNORABLE if name in given)


def encode(sentences: Sequence[Sentence], ignore: Iterable[str] = (), number: int = 0) -> Encoded:
    """Return the words of sentences as features see them, without the columns `ignore`.

    Raises
    ------
    TypeError, ValueError
        A cell is no text, or columns have come to differ in length; the error names it, and its
        sentence, the first of which is `number`.
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
        A head is missing or beyond the last word, heads go round in a circle, or columns have come
        to differ in length; the error names the sentence.
    """
    for i, sentence in enumerate(sentences):
        try:
            require_unchanged(sentence)
        except ValueError as error:
            raise ValueError(f"sentences[{i}]: {error}") from None
        problem = tree_problem(sentence.heads.tolist())
        if problem is not None:
            word, text = problem
            raise ValueError(f"sentences[{i}], word {word + 1}: {text}")
    if not sentences:
        return np.zeros(0, np.int32)
    return np.concatenate([sentence.heads for sentence in sentences]).astype(np.int32)


def as_candidates(arcs: Any, offset: Array) -> tuple[Array, Array, Array]:
    """Return the arcs that are looked at, as the engine takes them, once they are checked.

    Parameters
    ----------
    arcs : sequence of three arrays
        Where the arcs of each sentence begin (B + 1,), their heads and their modifiers.
    offset : (B + 1,) int64 ndarray
        Where the words of each sentence begin.

    Raises
    ------
    ValueError
        They are not whole numbers of these shapes, of these words, or not in order; or a word has
        no arc.
    """
    three = tuple(arcs) if isinstance(arcs, Iterable) else ()
    if len(three) != 3:
        raise ValueError("arcs must be three arrays, as Examples.prune returns them")
    given = begin, heads, modifiers = [as_whole(f"arcs[{i}]", x) for i, x in enumerate(three)]
    count = len(offset) - 1
    if len(begin) != count + 1 or len(heads) != len(modifiers):
        raise ValueError(
            f"arcs of {count} sentences must have shapes {(count + 1,)}, (m,) and (m,), got "
            f"{', '.join(str(array.shape) for array in given)}"
        )
    if begin[0] != 0 or begin[-1] != len(heads):
        at, wanted = (0, 0) if begin[0] != 0 else (count, len(heads))
        raise ValueError(f"arcs[0][{at}] is {begin[at]}; it must be {wanted}")
    descends = begin[1:] < begin[:-1]
    if descends.any():
        at = int(descends.argmax()) + 1
        raise ValueError(f"arcs[0][{at}] is {begin[at]}, less than the one before")
    begin = begin.astype(np.int64)
    sentence = np.repeat(np.arange(count), np.diff(begin))
    words = np.diff(offset)[sentence]
    for i, array, least in ((1, heads, 0), (2, modifiers, 1)):
        bad = (array < least) | (array > words)
        if bad.any():
            k = int(bad.argmax())
            raise ValueError(
                f"arcs[{i}][{k}] is {array[k]}; in sentence {sentence[k]} it must be {least} to "
                f"{words[k]}"
            )
    heads, modifiers = heads.astype(np.int32), modifiers.astype(np.int32)
    loop = heads == modifiers
    if loop.any():
        k = int(loop.argmax())
        raise ValueError(f"arcs[1][{k}] is {heads[k]}, as arcs[2][{k}]; no word is its own head")
    rises = (modifiers[1:] > modifiers[:-1]) | (sentence[1:] > sentence[:-1])
    rises |= (modifiers[1:] == modifiers[:-1]) & (heads[1:] > heads[:-1])
    if not rises.all():
        k = int(rises.argmin()) + 1
        raise ValueError(
            f"arcs[1][{k}], arcs[2][{k}] is {(int(heads[k]), int(modifiers[k]))}; arcs of a "
            "sentence must ascend by modifier, then by head, each once"
        )
    without = np.ones(int(offset[-1]), np.bool_)
    without[offset[sentence] + modifiers - 1] = False
    if without.any():
        word = int(without.argmax())
        i = int(np.searchsorted(offset, word, "right")) - 1
        raise ValueError(f"arcs[2] has no arc of word {word - offset[i] + 1} of sentence {i}")
    return begin, heads, modifiers


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
