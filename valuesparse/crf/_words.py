"""Attributes of the words of a sentence, for a tagging CRF: word, characters, context."""

from __future__ import annotations

from collections.abc import Sequence

# Words that stand beyond the ends of a sentence.
_BEFORE, _AFTER = "<s>", "</s>"


def shape(word: str) -> str:
    """Return the classes of a word's characters, runs of one class written once.

    Classes: ``d`` digit, ``X`` upper case, ``x`` lower case, ``h`` any other letter (such as a
    Chinese character), ``p`` the rest.

    Examples
    --------
    >>> shape("B2B"), shape("iPhone"), shape("旅行"), shape("...")
    ('XdX', 'xXx', 'h', 'p')
    """
    classes: list[str] = []
    for character in word:
        if character.isdigit():
            kind = "d"
        elif character.isupper():
            kind = "X"
        elif character.islower():
            kind = "x"
        elif character.isalpha():
            kind = "h"
        else:
            kind = "p"
        if not classes or classes[-1] != kind:
            classes.append(kind)
    return "".join(classes)


def context_attributes(words: Sequence[str], i: int) -> list[str]:
    """Return the attributes made of the words around position `i` and of pairs of them.

    Examples
    --------
    >>> context_attributes(["食", "飯"], 0)[:4]
    ['w-2=<s>', 'w-1=<s>', 'w+1=飯', 'w+2=</s>']
    """
    word = words[i]
    before = words[i - 1] if i > 0 else _BEFORE
    after = words[i + 1] if i + 1 < len(words) else _AFTER
    return [
        "w-2=" + (words[i - 2] if i > 1 else _BEFORE),
        "w-1=" + before,
        "w+1=" + after,
        "w+2=" + (words[i + 2] if i + 2 < len(words) else _AFTER),
        f"w-1,w={before}|{word}",
        f"w,w+1={word}|{after}",
        f"w-1,w+1={before}|{after}",
    ]


def cantonese_attributes(words: Sequence[str]) -> list[list[str]]:
    """Return the attributes of every word of a Cantonese sentence.

    Parameters
    ----------
    words : sequence of str
        The sentence; no word may be empty.

    Returns
    -------
    list of list of str
        One list per word: the word, its characters, its length and shape, its context.

    Examples
    --------
    >>> cantonese_attributes(["食", "飯"])[1][:4]
    ['bias', 'w=飯', 'shape=h', 'len=1']
    """
    rows = []
    for i, word in enumerate(words):
        row = ["bias", "w=" + word, "shape=" + shape(word), f"len={min(len(word), 5)}"]
        row += ["first=" + word[0], "last=" + word[-1]]
        if len(word) > 1:
            row += ["first2=" + word[:2], "last2=" + word[-2:]]
        # Sorted, not a set's order, so that model files do not depend on the hash seed.
        row += ["has=" + character for character in sorted(set(word))]
        row += context_attributes(words, i)
        if i > 0:
            row.append("last-1=" + words[i - 1][-1])
        if i + 1 < len(words):
            row.append("first+1=" + words[i + 1][0])
        rows.append(row)
    return rows
