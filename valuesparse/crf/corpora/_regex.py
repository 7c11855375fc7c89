"""How long a regular expression may take, known before it is used: for those of strangers."""

from __future__ import annotations

import importlib
import re
import sys
from typing import Any

__all__ = ["longest_text"]

# Steps of one search; there are some 1e8 in a second.
_STEPS = 4e6
_LONGEST = 1 << 26

# Python's own parser of expressions has no public name.
_parser: Any = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")
_ONE = {"LITERAL", "NOT_LITERAL", "ANY", "AT", "FAILURE", "SUCCESS"}
_BEGINNINGS = (("AT", "AT_BEGINNING"), ("AT", "AT_BEGINNING_STRING"))
_REPEATS = {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"}


def longest_text(pattern: str) -> int:
    """Return how long a text may be to be searched in four million steps; -1 for none.

    A bound, from the ways in which the parts of the expression can match: many that are quick are
    not known to be. Nothing is known of what Wapiti's patterns have not, such as groups.

    Examples
    --------
    >>> longest_text("^[A-Z]") > 100_000
    True
    >>> longest_text("a?" * 40 + "$") < 10
    True
    """
    tree = _parser.parse(pattern)
    # A search goes on elsewhere, but a pattern for the beginning fails there at once.
    first = tuple(map(str, tree[0])) if len(tree) else ()
    once = first in _BEGINNINGS and not tree.state.flags & re.MULTILINE

    def allowed(size: int) -> bool:
        steps = _work(tree, size)[1]
        return (size + steps if once else (size + 1) * steps) <= _STEPS

    if not allowed(0):
        return -1
    low, high = 0, 1
    while high < _LONGEST and allowed(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if allowed(middle) else (low, middle)
    return low


def _work(tree: Any, size: int) -> tuple[float, float]:
    """Return in how many ways, at most, a sequence matches at one place, and in how many steps."""
    ways, steps = 1.0, 1.0
    for op, value in tree:
        more, each = _part(str(op), value, size)
        steps += ways * each
        ways *= more
    return ways, steps


def _part(op: str, value: Any, size: int) -> tuple[float, float]:
    if op in _ONE:
        return 1.0, 1.0
    if op == "IN":
        return 1.0, 1.0 + len(value)
    if op in _REPEATS:
        return _repeated(value, size)
    return float("inf"), float("inf")  # an operation not known here may do anything


def _repeated(value: Any, size: int) -> tuple[float, float]:
    least, most, tree = value
    ways, steps = _work(tree, size)
    # Python stops to repeat without an upper limit where nothing is matched any more.
    top = max(int(least), size + 1) if str(most) == "MAXREPEAT" else int(most)
    if tree.getwidth()[0] > 0:
        top = min(top, size + 1)
    if ways <= 1.0:
        return max(1.0, top - int(least) + 1.0), (top + 1.0) * steps
    try:
        total = (ways ** (top + 1) - 1.0) / (ways - 1.0)
    except OverflowError:
        total = float("inf")
    return total, total * steps
