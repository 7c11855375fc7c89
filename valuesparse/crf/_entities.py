"""Entities in sequences of labels such as B-PER, I-PER, O: where they begin and end.

Two ways to read them, both seqeval's. Without a scheme any label counts, as in CoNLL's own
script: an entity begins where a label or a type says so. With a scheme what breaks its rules is no
entity.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

__all__ = ["SCHEMES", "Entity", "as_scheme", "find", "prefixes_of", "tags_entities"]


class Entity(NamedTuple):
    """A stretch of a sequence, from item `begin` up to, but not including, item `end`."""

    type: str
    begin: int
    end: int


class _Tag(NamedTuple):
    prefix: str
    type: str


_OUTSIDE = _Tag("O", "_")
_ENTITY = re.compile(r"[BIESLU](-.*)?", re.DOTALL)


class _Scheme(NamedTuple):
    """The rules of one scheme, each about a label and the one before it."""

    prefixes: str
    begins: Callable[[_Tag, _Tag], bool]
    inside: Callable[[_Tag, _Tag], bool]
    ends: Callable[[_Tag, _Tag], bool]  # the last label of an entity, and the one after it


def _goes_on(ends: str) -> Callable[[_Tag, _Tag], bool]:
    """Return the rule that B and I are followed by I, or one of `ends`, of the same type."""

    def inside(before: _Tag, tag: _Tag) -> bool:
        return before.prefix in "BI" and tag.prefix in "I" + ends and before.type == tag.type

    return inside


def _iob1_begins(before: _Tag, tag: _Tag) -> bool:
    if tag.prefix == "I":
        return before.prefix in "OB" or before.type != tag.type
    return tag.prefix == "B" and before.prefix in "IB" and before.type == tag.type


def _iob1_ends(last: _Tag, after: _Tag) -> bool:
    # A type that changes needs no B: such a B is none of this scheme's.
    return not (last.prefix == after.prefix == "B" and last.type != after.type)


def _closed(whole: str, end: str) -> _Scheme:
    """Return the scheme of entities with an end: one item is `whole`, the last of more `end`."""
    return _Scheme(
        f"BIO{end}{whole}",
        lambda before, tag: tag.prefix in "B" + whole,
        _goes_on(end),
        lambda last, after: last.prefix in end + whole,
    )


_IOB2 = _Scheme(
    "BIO", lambda before, tag: tag.prefix == "B", _goes_on(""), lambda last, after: True
)
_BY_NAME = {
    "IOB1": _Scheme("BIO", _iob1_begins, _goes_on(""), _iob1_ends),
    "IOB2": _IOB2,
    "BIO": _IOB2,
    "BIOES": _closed("S", "E"),
    "IOBES": _closed("S", "E"),
    "BILOU": _closed("U", "L"),
}
#: Names of the schemes; BIO is IOB2, BIOES is IOBES.
SCHEMES = tuple(_BY_NAME)


def as_scheme(scheme: str | None) -> str | None:
    """Return a scheme, once it is checked."""
    if scheme is not None and scheme not in _BY_NAME:
        raise ValueError(f"scheme must be None or one of {', '.join(SCHEMES)}, not {scheme!r}")
    return scheme


def prefixes_of(scheme: str) -> str:
    """Return the letters that labels of a scheme begin with."""
    return _BY_NAME[scheme].prefixes


def tags_entities(labels: Iterable[str]) -> bool:
    """Return whether labels are those of entities: O, and others such as B-PER or I.

    Examples
    --------
    >>> tags_entities(["O", "B-PER"]), tags_entities(["NOUN", "O"]), tags_entities(["O"])
    (True, False, False)
    """
    others = [label for label in labels if label != "O"]
    return bool(others) and all(map(_ENTITY.fullmatch, others))


def find(labels: Sequence[str], scheme: str | None) -> list[Entity]:
    """Return the entities of a sequence, in their order.

    Raises
    ------
    ValueError
        A label is empty, or is none of the scheme.
    """
    for i, label in enumerate(labels):
        if not label or (scheme is not None and label[0] not in prefixes_of(scheme)):
            which = "" if scheme is None else f" of {scheme}, whose labels begin with one of "
            letters = "" if scheme is None else ", ".join(prefixes_of(scheme))
            raise ValueError(f"item {i}: {label!r} is no label{which}{letters}")
    return _lenient(labels) if scheme is None else _strict(labels, _BY_NAME[scheme])


def _lenient(labels: Sequence[str]) -> list[Entity]:
    found: list[Entity] = []
    before, begin = _Tag("O", ""), 0
    for i, label in enumerate([*labels, "O"]):
        tag = _Tag(label[0], label[1:].split("-", 1)[-1] or "_")
        moved = before.type != tag.type
        one, other = before.prefix, tag.prefix
        if one in "ES" or (one in "BI" and other in "BSO") or (one not in "O." and moved):
            found.append(Entity(before.type, begin, i))
        if other in "BS" or (one in "ESO" and other in "EI") or (other not in "O." and moved):
            begin = i
        before = tag
    return found


def _strict(labels: Sequence[str], rules: _Scheme) -> list[Entity]:
    tags = [_Tag(label[0], label[1:].strip("-") or "_") for label in labels]
    tags.append(_OUTSIDE)
    found: list[Entity] = []
    i = 0
    while i < len(tags):
        before = tags[i - 1] if i else _OUTSIDE
        if not rules.begins(before, tags[i]):
            i += 1
            continue
        end = i + 1
        while rules.inside(tags[end - 1], tags[end]):
            end += 1
        if rules.ends(tags[end - 1], tags[end]):
            found.append(Entity(tags[i].type, i, end))
        i = end
    return found
