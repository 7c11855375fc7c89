"""Bayesian networks in the interchange format (BIF).

A block of probabilities is read twice where something is wrong with it: the first reader takes all
rows at once and gives up at whatever is unusual, the second goes word by word and finds the line.
"""

from __future__ import annotations

import codecs
import graphlib
import math
import re
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from valuesparse.io._files import Source, naming, read_bytes
from valuesparse.io._tables import network_of
from valuesparse.io._text import MAX_SCOPE
from valuesparse.io.errors import ModelFormatError, TextFormatError
from valuesparse.models import FactorGraph

__all__ = ["ModelFormatError", "TextFormatError", "read_bif"]

# Rows of files that give two digits (0.33, 0.33, 0.33) are this far from 1, and no farther.
_ROW_TOLERANCE = 0.02
# Rows that are this close, times their length, are kept as they are: they were rounded to doubles.
_ROUNDED = 2.0**-52

# A comment without an end goes to the end: searching again from each beginning would take for ever.
_COMMENT = re.compile(r"/\*(?:[^*]|\*(?!/))*(?:\*/|\Z)|//[^\n]*")
_QUOTED = re.compile(r'"[^"\n]*"')
# Where something begins that is blanked; in a property, where it may end.
_MARK = re.compile(r'"|/[*/]|\bproperty\b')
_STOP = re.compile(r'"[^"\n]*"|[;{}]')
_BLOCK = re.compile(r"\s*(network|variable|probability)\b([^{}]*)\{", re.DOTALL)
_TYPE = re.compile(r"type\s+discrete\s*\[\s*(\d{1,10})\s*\]\s*$", re.ASCII)
_HEAD = re.compile(r"\s*(table\b|default\b|\(([^()]*)\))")
_WORD = re.compile(r"[^\s,]+")
_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
# No state has such a name.
_TABLE: tuple[str, ...] = (";table",)
_DEFAULT: tuple[str, ...] = (";default",)
# Entries of tables that `default` rows may fill, and for each byte of the file: a few words of a
# text could ask for any memory.
_FREE, _PER_BYTE = 1 << 22, 4
NAME = re.compile(r"[^\s,|(){}\[\];]+(?: +[^\s,|(){}\[\];]+)*")
LONGEST_NAME = 1000
# Characters of which numbers without a sign are made, and what stands between them.
_NUMERIC = str.maketrans("", "", "0123456789.eE-, \t\n\r")
_SIGNED = re.compile(r"(?<![eE])-")


class _Variable(NamedTuple):
    name: str
    states: dict[str, int]
    begin: int


class _Probability(NamedTuple):
    child: str
    parents: tuple[str, ...]
    begin: int
    shape: tuple[int, ...]  # the variable itself comes last
    values: list[float]
    rounded: bool  # whether all rows sum to one but for rounding


class _BifText:
    """The text with comments, properties and quotes blanked, and the errors for places in it."""

    def __init__(self, data: bytes) -> None:
        data = data.removeprefix(codecs.BOM_UTF8)
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            line = 1 + data.count(b"\n", 0, error.start)
            token = repr(data[error.start : error.end])[2:-1]
            problem = f"'{token}' is not UTF-8"
            raise TextFormatError("text", error.start, problem, line, token) from None
        self.text = text = text.replace("\r", " ")
        self._allowance = max(_FREE, _PER_BYTE * len(data))
        if "/" in text or "property" in text:
            self.text = self._plain(text)
        else:
            self.text = text.replace('"', " ")

    def _plain(self, text: str) -> str:
        """Return a text of the same length; what begins first has what begins in it."""
        parts: list[str] = []
        at = tried = 0
        last = ""  # the last character that is neither blank nor in a comment
        while (mark := _MARK.search(text, at)) is not None:
            begin, end = mark.span()
            before = text[at:begin]
            parts.append(before)
            last = before.rstrip()[-1:] or last
            if mark[0] == '"':
                quoted = _QUOTED.match(text, begin)
                end, last = (end if quoted is None else quoted.end()), '"'
                parts.append(text[begin:end].replace('"', " "))
            elif mark[0] != "property":
                comment = _COMMENT.match(text, begin)
                assert comment is not None
                parts.append(self._blank(comment))
                end = comment.end()
            else:  # a property, or a name, as of a state
                stop = None
                if last in ("{", ";") and begin >= tried:
                    stop = next((s for s in _STOP.finditer(text, end) if s[0][0] != '"'), None)
                    tried = len(text) if stop is None else stop.end()  # nothing is read twice
                if stop is not None and stop[0] == ";":
                    end, last = stop.end(), ";"
                    parts.append(_blanked(text[begin:end]))
                else:
                    last = "y"
                    parts.append(mark[0])
            at = end
        return "".join([*parts, text[at:]])

    def _blank(self, match: re.Match[str]) -> str:
        if match[0].startswith("/*") and not (match[0].endswith("*/") and len(match[0]) > 3):
            raise self.error(match.start(), "comment", "{} begins one that does not end")
        return _blanked(match[0])

    def allows(self, size: int) -> bool:
        """Take entries that the text does not spell out from its allowance; whether it has them."""
        self._allowance -= size
        return self._allowance >= 0

    def error(self, at: int, chunk: str, problem: str) -> TextFormatError:
        """Return the error for the word at a place; ``{}`` in `problem` stands for the word."""
        rest = self.text[at : at + 200].lstrip()
        at = min(len(self.text), at + len(self.text[at : at + 200]) - len(rest))
        word = re.match(r"[^\s,;]+|[,;]|$", rest)
        token = word[0][:40] if word is not None else ""
        line = 1 + self.text.count("\n", 0, at)
        shown = problem.replace("{}", repr(token) if token else "the end of the file")
        return TextFormatError(chunk, len(self.text[:at].encode()), shown, line, token)


def _blanked(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def read_bif(source: Source) -> FactorGraph:
    """Read a Bayesian network in the interchange format.

    Parameters
    ----------
    source : path, file object or bytes
        The file, as UTF-8 text or gzip.

    Returns
    -------
    FactorGraph
        Variables in the file's order, with their names and the names of their states. Each factor
        is a conditional probability table with the variable itself last, in the order of the
        variables, and rows normalised: files give rounded numbers.

    Raises
    ------
    TextFormatError
        The file is no network, or is damaged; the message names the line and the word.
    ModelFormatError
        The file is too large, or its gzip data are damaged.
    OSError
        The file cannot be read.

    Notes
    -----
    Only discrete variables. Properties, up to their semicolon, are left out. A ``default`` row
    stands for all rows that a block does not have; such tables may have 2**22 entries in all, or 4
    for each byte of the file.

    Examples
    --------
    >>> import valuesparse as vs
    >>> graph = vs.read_bif("asia.bif")  # doctest: +SKIP
    >>> vs.infer(graph, evidence={"xray": "yes"})["lung"]  # doctest: +SKIP
    """
    with naming(source):
        return _read(_BifText(read_bytes(source)))


def _read(text: _BifText) -> FactorGraph:
    variables, probabilities = _scan(text)
    numbers = {name: v for v, name in enumerate(variables)}
    return network_of(
        list(variables),
        [tuple(variable.states) for variable in variables.values()],
        [(*(numbers[name] for name in p.parents), numbers[p.child]) for p in probabilities],
        _normalised(text, probabilities),
    )


def _scan(text: _BifText) -> tuple[dict[str, _Variable], list[_Probability]]:
    """Take a text apart into its blocks and check that they fit together."""
    variables: dict[str, _Variable] = {}
    headers: list[tuple[str, str, int]] = []
    at = 0
    last = len(text.text.rstrip())
    while at < last:
        match = _BLOCK.match(text.text, at)
        if match is None:
            raise text.error(at, "model", "expected network, variable or probability, got {}")
        begin = match.start(1)
        if match[1] == "variable":
            variable, at = _variable(text, match)
            _add(text, variables, variable)
            continue
        end = text.text.find("}", match.end())
        inside = text.text[match.end() : end]
        if end < 0 or "{" in inside:
            raise text.error(begin, f"{match[1]} block", "{} has no closing brace")
        if match[1] == "probability":
            headers.append((match[2], inside, begin))
        at = end + 1
    if not variables:
        raise text.error(last, "model", "expected a variable, got {}")
    probabilities: dict[str, _Probability] = {}
    for header, body, begin in headers:
        probability = _probability(text, header, body, begin, variables)
        if probability.child in probabilities:
            raise text.error(begin, f"probability of {probability.child}", "given twice")
        probabilities[probability.child] = probability
    for name, variable in variables.items():
        if name not in probabilities:
            raise text.error(variable.begin, f"variable {name}", "it has no probability block")
    if not _parents_first(probabilities):
        _require_no_cycle(text, probabilities)
    return variables, [probabilities[name] for name in variables]


def _parents_first(probabilities: dict[str, _Probability]) -> bool:
    """Whether the blocks of a file stand in an order in which there can be no cycle."""
    seen: set[str] = set()
    for probability in probabilities.values():
        if not seen.issuperset(probability.parents):
            return False
        seen.add(probability.child)
    return True


def _require_no_cycle(text: _BifText, probabilities: dict[str, _Probability]) -> None:
    try:
        graphlib.TopologicalSorter({p.child: p.parents for p in probabilities.values()}).prepare()
    except graphlib.CycleError as error:
        child = probabilities[error.args[1][0]]
        cycle = " -> ".join(error.args[1])
        raise text.error(
            child.begin, f"probability of {child.child}", f"a cycle: {cycle}"
        ) from None


def _variable(text: _BifText, match: re.Match[str]) -> tuple[_Variable, int]:
    """Read ``name { ... type discrete [ n ] { a, b, ... }; ... }``; return it and its end."""
    begin, name = match.start(1), _name(text, match[2], match.start(2), "variable")
    chunk = f"variable {name}"
    brace = text.text.find("{", match.end())
    kind = _TYPE.search(text.text[match.end() : brace][-200:]) if brace >= 0 else None
    if kind is None:
        raise text.error(begin, chunk, "it has no 'type discrete [ n ] { ... };'")
    end = text.text.find("}", brace)
    close = text.text.find("}", end + 1) if end >= 0 else -1
    if close < 0 or "{" in text.text[brace + 1 : close]:
        raise text.error(begin, chunk, "a closing brace is missing")
    listed = text.text[brace + 1 : end]
    # The name of an only state may have blanks, as those between commas.
    whole = "," in listed or int(kind[1]) == 1
    words = listed.split(",") if whole else listed.split()
    states = tuple(word.strip() for word in words if word.strip())
    for state in states:
        _name(text, state, brace + 1, chunk)
    if len(states) != int(kind[1]):
        raise text.error(brace, chunk, f"{kind[1]} states announced, {len(states)} listed")
    if not states:
        raise text.error(brace, chunk, "a variable needs at least one state")
    number = {state: i for i, state in enumerate(states)}
    if len(number) != len(states):
        twice = next(s for i, s in enumerate(states) if number[s] != i)
        raise text.error(brace, chunk, f"state {twice!r} is listed twice")
    return _Variable(name, number, begin), close + 1


def _name(text: _BifText, word: str, at: int, chunk: str) -> str:
    name = word.strip()
    if NAME.fullmatch(name) is None or len(name) > LONGEST_NAME:
        raise text.error(at, chunk, f"{name[:40]!r} is not a name")
    return name


def _add(text: _BifText, variables: dict[str, _Variable], variable: _Variable) -> None:
    if variable.name in variables:
        raise text.error(variable.begin, f"variable {variable.name}", "declared twice")
    variables[variable.name] = variable


def _probability(
    text: _BifText, header: str, body: str, begin: int, variables: dict[str, _Variable]
) -> _Probability:
    """Check a block's names, its size and that nothing but rows of numbers is in it."""
    inside = header.strip()
    if not (inside.startswith("(") and inside.endswith(")")):
        raise text.error(begin, "probability block", "expected ( variable | parents )")
    child, _, given = inside[1:-1].partition("|")
    names = [child.strip(), *(name.strip() for name in given.split(",") if given.strip())]
    if not given and names[0] not in variables:
        names = re.split(r"[\s,]+", names[0])  # without a bar, the first is the variable
    for name in names:
        if name not in variables:
            raise text.error(begin, "probability block", f"there is no variable {name[:40]!r}")
    chunk = f"probability of {names[0]}"
    if len(set(names)) != len(names):
        raise text.error(begin, chunk, "it has a variable twice")
    if len(names) > MAX_SCOPE:
        raise text.error(begin, chunk, f"it has more than {MAX_SCOPE} variables")
    size = math.prod(len(variables[name].states) for name in names)
    if 2 * size > len(body) and not ("default" in body and text.allows(size)):
        raise text.error(
            begin, chunk, f"{size} numbers are needed, but the block has {len(body)} characters"
        )
    own, *parents = (variables[name] for name in names)
    shape = (*(len(p.states) for p in parents), len(own.states))
    found = _all_rows(body, parents, len(own.states), size)
    if found is None:
        found = _row_by_row(text, body, begin, chunk, [own, *parents], size), False
    return _Probability(names[0], tuple(names[1:]), begin, shape, *found)


def _all_rows(
    body: str, parents: list[_Variable], k: int, size: int
) -> tuple[list[float], bool] | None:
    """Return the numbers of a block, row by row, and whether rows sum to one but for rounding.

    None where anything about it is unusual.
    """
    *entries, rest = body.split(";")
    if rest.strip():
        return None
    values = [0.0] * size
    used = bytearray(size // k)
    states = [parent.states for parent in parents]
    limit, rounded = _ROUNDED * k, True
    read: list[str] = []
    try:
        for entry in entries:
            if parents:
                before, _, inside = entry.partition("(")
                head, numbers = inside.split(")")
                row = 0
                for of, state in zip(states, head.split(","), strict=True):
                    row = row * len(of) + of[state.strip()]
            else:
                before, numbers = entry.split("table")
                row = 0
            found = [*map(float, numbers.replace(",", " ").split())]
            if len(found) != k or used[row] or before.strip() or not numbers[0].isspace():
                return None
            used[row] = 1
            read.append(numbers)
            rounded = rounded and abs(sum(found) - 1.0) <= limit
            values[row * k : (row + 1) * k] = found
    except (KeyError, ValueError, IndexError):
        return None
    # float() also takes signs, underscores, names and the digits of other scripts.
    text = " ".join(read)
    if text.translate(_NUMERIC) or ("-" in text and _SIGNED.search(text)):
        return None
    return (values, rounded) if all(used) else None


def _row_by_row(
    text: _BifText, body: str, begin: int, chunk: str, scope: list[_Variable], size: int
) -> list[float]:
    """Return the numbers of a block, row by row, or raise the error for the first wrong word."""
    at = text.text.index("{", begin) + 1
    child, *parents = scope
    k = len(child.states)
    *entries, rest = body.split(";")
    rows: dict[tuple[str, ...], list[float]] = {}
    for entry in entries:
        if entry.strip():
            row, numbers = _row(text, entry, at, chunk, scope, size)
            if row in rows:
                raise text.error(at, chunk, "the row that begins with {} is given twice")
            rows[row] = numbers
        at += len(entry) + 1
    if rest.strip():
        raise text.error(at, chunk, "expected a semicolon after what begins with {}")
    default = None if _TABLE in rows else rows.pop(_DEFAULT, None)
    needed = 1 if _TABLE in rows else size // k
    if len(rows) != needed and default is None:
        raise text.error(begin, chunk, f"{len(rows)} rows, but {needed} are needed")
    if _TABLE in rows:  # the variable itself changes slowest
        return np.array(rows[_TABLE]).reshape(k, -1).T.ravel().tolist()
    values = [0.0] * size if default is None else default * (size // k)
    for row, numbers in rows.items():
        at = 0
        for parent, state in zip(parents, row, strict=True):
            at = at * len(parent.states) + parent.states[state]
        values[at * k : (at + 1) * k] = numbers
    return values


def _row(
    text: _BifText, entry: str, at: int, chunk: str, scope: list[_Variable], size: int
) -> tuple[tuple[str, ...], list[float]]:
    """Return the states and numbers of ``(state, state) 0.1, 0.9``, or those of a whole table.

    ``table`` has no states, and ``default`` stands for all that are not there.
    """
    match = _HEAD.match(entry)
    if match is None:
        problem = "unexpected {}: expected a table, default or (states of the parents)"
        raise text.error(at, chunk, problem)
    child, *parents = scope
    if match[2] is None:
        whole = match[1] == "table"
        row, wanted = (_TABLE, size) if whole else (_DEFAULT, len(child.states))
    else:
        row, wanted = tuple(word.strip() for word in match[2].split(",")), len(child.states)
        if not parents and match[2].strip() == "":
            row = ()
        if len(row) != len(parents):
            where = at + match.start(1)
            raise text.error(where, chunk, f"{len(row)} states for {len(parents)} parents")
        for state, parent in zip(row, parents, strict=True):
            if state not in parent.states:
                where = at + match.start(1)
                raise text.error(where, chunk, f"{parent.name} has no state {state[:40]!r}")
    numbers = []
    for number in _WORD.finditer(entry, match.end()):
        if _NUMBER.fullmatch(number[0]) is None:
            raise text.error(at + number.start(), chunk, "{} is not a number")
        numbers.append(float(number[0]))
    if len(numbers) != wanted:
        where = at + match.start(1)
        raise text.error(
            where,
            chunk,
            f"the row that begins with {{}} has {len(numbers)} numbers instead of {wanted}",
        )
    return row, numbers


def _normalised(text: _BifText, probabilities: list[_Probability]) -> npt.NDArray[np.float64]:
    """Return the numbers of all tables, all rows summing to one."""
    values: list[float] = []
    lengths: list[int] = []
    for p in probabilities:
        values += p.values
        lengths += [p.shape[-1]] * (len(p.values) // p.shape[-1])
    flat = np.array(values)
    if all(p.rounded for p in probabilities):
        return flat
    k = np.array(lengths)
    sums = np.add.reduceat(flat, np.cumsum(k) - k)
    off = np.abs(sums - 1.0)
    # Not NaN either: a number may be too large for a double.
    wrong = ~(off <= _ROW_TOLERANCE)
    if wrong.any():
        row = int(wrong.argmax())
        ends = np.cumsum([len(p.values) // p.shape[-1] for p in probabilities])
        p = probabilities[int(np.searchsorted(ends, row, side="right"))]
        problem = f"a row does not sum to 1, but to {float(sums[row]):.6g}"
        raise text.error(p.begin, f"probability of {p.child}", problem)
    return flat / np.repeat(np.where(off > _ROUNDED * k, sums, 1.0), k)
