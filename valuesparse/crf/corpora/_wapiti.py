"""The patterns of Wapiti's macros ``%t`` and ``%m``, as Python's regular expressions."""

from __future__ import annotations

import re

__all__ = ["python_pattern"]

# Wapiti looks at bytes, so its classes have nothing beyond ASCII.
_CLASSES = {
    "a": "A-Za-z",
    "d": "0-9",
    "l": "a-z",
    "p": r"!-/:-@\[-`{-~",
    "s": r" \t-\r",
    "u": "A-Z",
    "w": "0-9A-Za-z",
}
_ITEM = re.compile(r"(\\?.)([*?]?)", re.DOTALL)
_ESCAPED = re.compile(r"\\.", re.DOTALL)
# Sets, groups, counts and the like of other expressions: nobody who writes one means its letters.
_OTHERS = re.compile(r"\[[^\[\]]*\]|\([^()]*\)|\{[0-9,]+\}|[^^]\+|.\|.", re.DOTALL)


def python_pattern(pattern: str) -> str:
    r"""Return what Python's `re` takes, with ``DOTALL``, for a pattern of Wapiti.

    ``^`` at its beginning and ``$`` at its end stand for those of the text, ``.`` for any
    character, ``\a \d \l \p \s \u \w`` for a letter, digit, lower case, punctuation, space, upper
    case, and letter or digit, of ASCII; capitals for all others. ``?`` after one of these, or after
    a character, makes it optional, and ``*`` repeats it, as few times as it can.

    Raises
    ------
    ValueError
        There is no such class; ``*`` or ``?`` follows nothing; or it looks like an expression of
        another language, which Wapiti would read letter by letter.

    Examples
    --------
    >>> python_pattern(r"^\u*$"), python_pattern(r"(\?")
    ('\\A[A-Z]*?\\Z', '\\(\\?')
    """
    if other := _OTHERS.search(_ESCAPED.sub(lambda found: "a" * len(found[0]), pattern)):
        raise ValueError(
            f"{pattern[slice(*other.span())][:40]!r} has no meaning of its own in Wapiti's "
            "patterns, which have . ^ $ * ? and classes such as \\u: put \\ before + | ( [ { where "
            "they stand for themselves"
        )
    begins = pattern.startswith("^")
    parts = ["\\A"] if begins else []
    for match in _ITEM.finditer(pattern, int(begins)):
        item, repeat = match.groups()
        if item in "*?":
            raise ValueError(
                f"{item!r} at {match.start() + 1} of {pattern[:40]!r} has nothing before it to "
                "repeat: put \\ before it where it stands for itself"
            )
        last = match.end() == len(pattern)
        parts.append("\\Z" if item == "$" and not repeat and last else _one(item))
        parts.append("*?" if repeat == "*" else repeat)
    return "".join(parts)


def _one(item: str) -> str:
    """Return the expression of one character, ``.`` or class."""
    if item == ".":
        return item
    letter = item[-1]
    if len(item) == 1 or not (letter.isascii() and letter.isalnum()):
        return re.escape(letter)
    known = _CLASSES.get(letter.lower())
    if known is None:
        names = " ".join(f"\\{name}" for name in _CLASSES)
        raise ValueError(f"there is no class {item!r}; there are {names}, and capitals for others")
    return f"[{'^' if letter.isupper() else ''}{known}]"
