"""How well sentences are parsed: attachment scores."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import zip_longest
from typing import NamedTuple, TypeAlias

from valuesparse.parsing._files import read_conll
from valuesparse.parsing._sentences import Sentence, iterated, require_sentence, require_unchanged

__all__ = ["Evaluation", "evaluate"]

#: A file of sentences, or sentences.
Parsed: TypeAlias = "str | os.PathLike[str] | Iterable[Sentence]"


class Evaluation(NamedTuple):
    """How many words a parser has attached where the treebank does.

    Shares are between 0 and 1, and 0 where there are no words. Punctuation is a word whose
    characters are all punctuation to Unicode (general category P).

    Attributes
    ----------
    uas, las : float
        Share of words with the right head; with the right head and label, subtypes included.
    uas_no_punct, las_no_punct : float
        The same of the words that are no punctuation.
    sentences, words, words_no_punct : int
        How many there are.
    heads, arcs : int
        Words with the right head; with the right head and label.
    heads_no_punct, arcs_no_punct : int
        The same of the words that are no punctuation.
    """

    uas: float
    las: float
    uas_no_punct: float
    las_no_punct: float
    sentences: int
    words: int
    words_no_punct: int
    heads: int
    arcs: int
    heads_no_punct: int
    arcs_no_punct: int


def evaluate(gold: Parsed, system: Parsed) -> Evaluation:
    """Compare the trees of a parser with those of a treebank.

    Parameters
    ----------
    gold : path, or iterable of Sentence
        The treebank.
    system : path, or iterable of Sentence
        The same sentences as a parser has them. A word without a head is wrong.

    Returns
    -------
    Evaluation

    Raises
    ------
    ValueError
        The sentences differ: the message names the first difference. Or a word of `gold` has no
        head, or a file is wrong, as of `read_conll`.
    TypeError
        One of both is neither a path nor an iterable of Sentence.
    OSError
        A file cannot be read.

    Examples
    --------
    >>> import valuesparse as vs
    >>> gold = vs.parsing.Sentence(["Dogs", "bark", "!"], heads=[2, 0, 2], labels=["a", "b", "c"])
    >>> found = vs.parsing.evaluate([gold], [gold.parsed([2, 0, 1], ["x", "b", "c"])])
    >>> round(found.uas, 3), round(found.las, 3), found.uas_no_punct, found.las_no_punct
    (0.667, 0.333, 1.0, 0.5)
    """
    names = _name(gold, "gold"), _name(system, "system")
    every, wordlike = _WordCounts(), _WordCounts()
    number = 0
    for one, other in zip_longest(_sentences(gold, "gold"), _sentences(system, "system")):
        if one is None or other is None:
            less, more = names if one is None else names[::-1]
            raise ValueError(f"{less} has {number} sentences, {more} has more")
        number += 1
        for sentence, name in zip((one, other), names, strict=True):
            try:
                require_unchanged(sentence)
            except ValueError as error:
                raise ValueError(f"{name}: sentence {number}: {error}") from None
        _require_same(one, other, number, names)
        if -1 in one.heads:
            word = one.heads.tolist().index(-1) + 1
            raise ValueError(f"{names[0]}: sentence {number}: word {word} has no head")
        right = (one.heads == other.heads).tolist()
        rows = zip(one.forms, right, one.labels, other.labels, strict=True)
        for form, head, expected, label in rows:
            arc = head and expected == label
            every.add(head, arc)
            if not is_punctuation(form):
                wordlike.add(head, arc)
    return Evaluation(
        uas=every.share(every.heads),
        las=every.share(every.arcs),
        uas_no_punct=wordlike.share(wordlike.heads),
        las_no_punct=wordlike.share(wordlike.arcs),
        sentences=number,
        words=every.words,
        words_no_punct=wordlike.words,
        heads=every.heads,
        arcs=every.arcs,
        heads_no_punct=wordlike.heads,
        arcs_no_punct=wordlike.arcs,
    )


class _WordCounts:
    """Words, right heads and right arcs."""

    def __init__(self) -> None:
        self.words = self.heads = self.arcs = 0

    def add(self, head: bool, arc: bool) -> None:
        self.words += 1
        self.heads += head
        self.arcs += arc

    def share(self, right: int) -> float:
        return right / (self.words or 1)


def _name(source: Parsed, default: str) -> str:
    return os.fspath(source) if isinstance(source, (str, os.PathLike)) else default


def _sentences(source: Parsed, name: str) -> Iterator[Sentence]:
    """Yield the sentences that have words."""
    if isinstance(source, (str, os.PathLike)):
        source = read_conll(source)
    for number, sentence in enumerate(iterated(source, name)):
        require_sentence(sentence, number, name)
        if len(sentence):
            yield sentence


def _require_same(one: Sentence, other: Sentence, number: int, names: tuple[str, str]) -> None:
    if one.forms == other.forms:
        return
    for word, (a, b) in enumerate(zip(one.forms, other.forms, strict=False), 1):
        if a != b:
            raise ValueError(
                f"sentence {number}: word {word} is {a!r} in {names[0]}, {b!r} in {names[1]}"
            )
    raise ValueError(
        f"sentence {number}: {names[0]} has {len(one)} words, {names[1]} has {len(other)}"
    )


@lru_cache(maxsize=1 << 14)
def is_punctuation(form: str) -> bool:
    """Return whether all characters of a form are punctuation to Unicode.

    Examples
    --------
    >>> [is_punctuation(form) for form in ("...", "»", "$", "U.S.", "-")]
    [True, True, False, False, True]
    """
    return all(unicodedata.category(character).startswith("P") for character in form)
