r"""The lines of CRFsuite's attribute files.

Such a file has one item a line, a label and attributes apart by tabs, and a blank line after
each sequence. ``name:value`` weighs an attribute, ``name`` counts 1, and in names ``\:`` is a
colon and ``\\`` a backslash.
"""

from __future__ import annotations

import math
import re

from valuesparse.io.errors import TextFormatError

__all__ = ["parse_item"]

# A colon, with all the backslashes before it: an odd number escapes it.
_COLON = re.compile(r"(?<!\\)\\*:")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def parse_item(line: str, number: int, offset: int) -> tuple[dict[str, float], str]:
    """Return the attributes and the label of a line of an attribute file."""
    label, *fields = line.split("\t")
    if label.startswith("@weight:"):
        problem = "weights of sequences are not supported; leave the line out"
        raise TextFormatError("declaration", offset, problem, number, label[:40])
    item: dict[str, float] = {}
    for field in fields:
        if field:
            name, value = _attribute(field, number, offset)
            item[name] = item.get(name, 0.0) + value
    return item, _plain(_name_of(label))


def _attribute(field: str, number: int, offset: int) -> tuple[str, float]:
    """Return name and value of an attribute."""
    name = _name_of(field)
    text = field[len(name) + 1 :]
    if not text:
        return _plain(name), 1.0
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        problem = f"{text[:40]!r} is not a finite number; write \\: for a colon in a name"
        raise TextFormatError(f"attribute {name[:40]!r}", offset, problem, number, field[:40])
    return _plain(name), value


def _name_of(field: str) -> str:
    """Return what comes before the first colon that is not escaped, escapes kept."""
    colon = field.find(":")
    if colon < 0 or field[colon - 1 : colon] != "\\":
        return field if colon < 0 else field[:colon]
    for match in _COLON.finditer(field):
        if len(match[0]) % 2:
            return field[: match.end() - 1]
    return field


def _plain(text: str) -> str:
    """Return a name with its escapes undone."""
    return _ESCAPED.sub(r"\1", text) if "\\" in text else text
