"""How the words of a sentence become attributes: extractors that have names."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from valuesparse.crf._words import cantonese_attributes, shape
from valuesparse.crf.corpora._files import digest_of
from valuesparse.crf.corpora._templates import compile_template

__all__ = ["Extractor", "find_extractor", "find_function", "word_attributes"]

#: Columns of each token, and the number of the column of words, to attributes of each token.
Extractor = Callable[[Sequence[Sequence[str]], int], Sequence[Any]]

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
    lowered = [word.lower() for word in words]
    shapes = [shape(word) for word in words]
    n = len(words)
    rows = []
    for i, low in enumerate(lowered):
        row = ["bias", "w=" + words[i], "l=" + low, "shape=" + shapes[i]]
        for size in range(1, min(len(low), _AFFIX) + 1):
            row += [f"p{size}={low[:size]}", f"s{size}={low[-size:]}"]
        for flag, holds in (
            ("digit", any(map(str.isdigit, low))),
            ("hyphen", "-" in low),
            ("title", words[i].istitle() and i > 0),
        ):
            if holds:
                row.append(flag)
        before = lowered[i - 1] if i else "<s>"
        after = lowered[i + 1] if i + 1 < n else "</s>"
        row += [
            "l-1=" + before,
            "l+1=" + after,
            "l-2=" + (lowered[i - 2] if i > 1 else "<s>"),
            "l+2=" + (lowered[i + 2] if i + 2 < n else "</s>"),
            f"l-1,l={before}|{low}",
            f"l,l+1={low}|{after}",
            "shape-1=" + (shapes[i - 1] if i else "<s>"),
            "shape+1=" + (shapes[i + 1] if i + 1 < n else "</s>"),
            "s3-1=" + before[-3:],
            "s3+1=" + after[-3:],
        ]
        rows.append(row)
    return rows


BUILT_IN: dict[str, Callable[[Sequence[str]], Sequence[Any]]] = {
    "words": word_attributes,
    "cantonese": cantonese_attributes,
}


def find_function(name: str) -> Callable[[Sequence[str]], Sequence[Any]]:
    """Return the function that ``package.module:function`` names.

    Examples
    --------
    >>> find_function("valuesparse.crf.corpora._features:word_attributes")(["a"])[0][:2]
    ['bias', 'w=a']
    """
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        raise ValueError(f"{name!r} does not name a function as package.module:function does")
    if os.getcwd() not in sys.path:  # as python -m does
        sys.path.insert(0, os.getcwd())
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"{name!r} cannot be imported: {error}") from error
    if not callable(found):
        raise ValueError(f"{name!r} is a {type(found).__name__}, not a function")
    return found


def template_path(name: str) -> Path | None:
    """Return the path in the name of a template, None for other names."""
    return Path(name.removeprefix("template:")) if name.startswith("template:") else None


def describe(name: str) -> dict[str, str]:
    """Return what is kept of an extractor: its name, and of a template the digest, too."""
    kept = {"features": name}
    path = template_path(name)
    if path is not None:
        kept["template_sha256"] = digest_of(path.read_bytes())
    return kept


def _some(words: Sequence[str]) -> str:
    return repr(" ".join(words[:4]) + (" ..." if len(words) > 4 else ""))


@lru_cache(maxsize=8)
def find_extractor(name: str, digest: str | None = None) -> Extractor:
    """Return the extractor of a name.

    Parameters
    ----------
    name : str
        ``words``, ``cantonese``, ``template:PATH`` or ``package.module:function``.
    digest : str, optional
        The SHA-256 that a template must have.
    """
    path = template_path(name)
    if path is not None:
        data = path.read_bytes()
        if digest is not None and digest_of(data) != digest:
            raise ValueError(f"{path} is not the template that the model was trained with")
        compiled = compile_template(data.decode("utf-8"))
        return lambda rows, word: compiled(rows)
    function = BUILT_IN.get(name)
    if function is None:
        if ":" not in name:
            known = ", ".join(BUILT_IN)
            raise ValueError(
                f"features {name!r}: there are {known}, template:PATH and package.module:function"
            )
        function = find_function(name)
    chosen = function

    def extract(rows: Sequence[Sequence[str]], word: int) -> Sequence[Any]:
        words = [row[word] for row in rows]
        try:
            items: Any = chosen(words)
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
