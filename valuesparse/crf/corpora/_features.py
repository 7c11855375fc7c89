"""How the words of a sentence become attributes: extractors that have names."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from valuesparse.crf._words import cantonese_attributes, shape
from valuesparse.crf.corpora._functions import find_function, name_of
from valuesparse.crf.corpora._templates import compile_template

__all__ = [
    "BUILT_IN",
    "TEMPLATE",
    "Extractor",
    "calling",
    "files_behind",
    "find_extractor",
    "is_function",
    "word_attributes",
]

#: Columns of each token, and the number of the column of words, to attributes of each token.
Extractor = Callable[[Sequence[Sequence[str]], int], Sequence[Any]]

#: Begins the names of templates.
TEMPLATE = "template:"

_AFFIX = 4


def word_attributes(words: Sequence[str]) -> list[list[str]]:
    """Return attributes of words that serve for languages with and without capitals.

    Parameters
    ----------
    words : sequence of str
        A sentence.

    Returns
    -------
    list of list of str
        For each word itself, its lower case, beginnings and ends, shape, and its neighbours.

    Examples
    --------
    >>> word_attributes(["The", "dogs"])[1][:6]
    ['bias', 'w=dogs', 'l=dogs', 'shape=x', 'p1=d', 's1=s']
    """
    known = [_known(word) if len(word) <= _SHORT else _word(word) for word in words]
    n = len(words)
    rows = []
    for i, word in enumerate(known):
        row = [*word.own]
        if word.title and i > 0:
            row.append("title")
        before = known[i - 1] if i else _START
        after = known[i + 1] if i + 1 < n else _END
        row += [
            before.near[0],
            after.near[1],
            (known[i - 2] if i > 1 else _START).near[2],
            (known[i + 2] if i + 2 < n else _END).near[3],
            f"l-1,l={before.low}|{word.low}",
            f"l,l+1={word.low}|{after.low}",
            before.near[4],
            after.near[5],
            before.near[6],
            after.near[7],
        ]
        rows.append(row)
    return rows


class _Word(NamedTuple):
    """The part of a word alone: its lower case, its attributes, and those of its neighbours."""

    low: str
    title: bool
    own: list[str]
    near: list[str]


def _near(low: str, shape: str) -> list[str]:
    """Return the attributes that a word gives the one after and the one before it, in turn."""
    return [
        "l-1=" + low,
        "l+1=" + low,
        "l-2=" + low,
        "l+2=" + low,
        "shape-1=" + shape,
        "shape+1=" + shape,
        "s3-1=" + low[-3:],
        "s3+1=" + low[-3:],
    ]


def _word(word: str) -> _Word:
    low, kinds = word.lower(), shape(word)
    own = ["bias", "w=" + word, "l=" + low, "shape=" + kinds]
    for size in range(1, min(len(low), _AFFIX) + 1):
        own += [f"p{size}={low[:size]}", f"s{size}={low[-size:]}"]
    if any(map(str.isdigit, low)):
        own.append("digit")
    if "-" in low:
        own.append("hyphen")
    return _Word(low, word.istitle(), own, _near(low, kinds))


# Most words of a text are few; about 10 MB of them.
_known = lru_cache(maxsize=4096)(_word)
_SHORT = 64
_START = _Word("<s>", False, [], _near("<s>", "<s>"))
_END = _Word("</s>", False, [], _near("</s>", "</s>"))


BUILT_IN: dict[str, Callable[[Sequence[str]], Sequence[Any]]] = {
    "words": word_attributes,
    "cantonese": cantonese_attributes,
}


def is_function(name: str) -> bool:
    """Return whether a name leads to a function of the user's.

    Examples
    --------
    >>> [is_function(name) for name in ("words", "template:a.txt", "mine:f")]
    [False, False, True]
    """
    return ":" in name and not name.startswith(TEMPLATE)


def files_behind(features: Any) -> dict[Path, str]:
    """Return the files of an extractor that has been found, a name or a function: what is which."""
    name = features if isinstance(features, str) else "" if features is None else name_of(features)
    if name.startswith(TEMPLATE):
        return {Path(name.removeprefix(TEMPLATE)): "the template"}
    module = sys.modules.get(name.partition(":")[0]) if is_function(name) else None
    file = getattr(module, "__file__", None)
    return {Path(file): "the module of the features"} if file else {}


@lru_cache(maxsize=8)
def find_extractor(
    name: str, template: str | None = None, folder: str | None = None, bounded: bool = False
) -> Extractor:
    """Return the extractor of a name.

    Parameters
    ----------
    name : str
        ``words``, ``cantonese``, ``template:...`` or ``package.module:function``.
    template : str, optional
        The text of the template; its name alone does not tell it.
    folder : str, optional
        Where a module is looked for that is not installed.
    bounded : bool
        Whether the template comes from anybody: it may not take any time.

    Raises
    ------
    ValueError
        There is no such extractor, or the template cannot be read.
    """
    if name.startswith(TEMPLATE):
        assert template is not None
        try:
            compiled = compile_template(template, bounded=bounded)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
        return lambda rows, word: compiled(rows)
    function = BUILT_IN.get(name)
    if function is None:
        if not is_function(name):
            known = ", ".join(BUILT_IN)
            raise ValueError(
                f"features {name[:80]!r}: there are {known}, template:FILE and "
                "package.module:function"
            )
        function = find_function(name, folder)
    return calling(name, function)


def calling(name: str, function: Callable[[Sequence[str]], Sequence[Any]]) -> Extractor:
    """Return an extractor that calls a function of the words, and checks its answer."""

    def extract(rows: Sequence[Sequence[str]], word: int) -> Sequence[Any]:
        words = [row[word] for row in rows]
        try:
            items: Any = function(words)
        except Exception as error:
            raise ValueError(f"features {name} of {_some(words)}: {error!r}") from error
        if not isinstance(items, Sequence) or isinstance(items, str):
            raise ValueError(
                f"features {name} must return a list with an item for each word, not "
                f"{type(items).__name__}"
            )
        if len(items) != len(rows):
            raise ValueError(f"features {name}: {len(items)} items of {len(rows)} words")
        return items

    return extract


def _some(words: Sequence[str]) -> str:
    return repr(" ".join(words[:4]) + (" ..." if len(words) > 4 else ""))
