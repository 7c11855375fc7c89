"""Bayesian networks in the interchange format (BIF).

A block of probabilities is read twice where something is wrong with it: the first reader takes all
rows at once and gives up at whatever is unusual, the second goes word by word and finds the line.
"""

from __future__ import annotations

import graphlib
import math
import re
from array import array
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from valuesparse._rounding import EPS
from valuesparse.io._bif_text import BifText
from valuesparse.io._files import Source, naming
from valuesparse.io._tables import network_of
from valuesparse.io._text import MAX_SCOPE
from valuesparse.io.errors import ModelFormatError, TextFormatError
from valuesparse.models import FactorGraph

__all__ = ["ModelFormatError", "TextFormatError", "read_bif"]

# Rows of files that give two digits (0.33, 0.33, 0.33) are this far from 1, and no farther.
_ROW_TOLERANCE = 0.02

_BLOCK = re.compile(r"\s*(network|variable|probability)\b([^{}]*)\{", re.DOTALL)
_TYPE = re.compile(r"type\s+discrete\s*\[\s*(\d{1,10})\s*\]\s*$", re.ASCII)
_HEAD = re.compile(r"\s*(table\b|default\b|\(([^()]*)\))")
_WORD = re.compile(r"[^\s,]+")
_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
NAME = re.compile(r"[^\s,|(){}\[\];]+(?: +[^\s,|(){}\[\];]+)*")
LONGEST_NAME = 1000
# Characters of which numbers without a sign are made, and what stands between them.
_NUMERIC = str.maketrans("", "", "0123456789.eE-, \t\n\r")
_SIGNED = re.compile(r"(?<![eE])-")
# Rows, and entries, whose sums are looked at together: what that takes is little beside a table.
_ROWS, _ENTRIES = 1 << 14, 1 << 16
# Bytes that things take beside the text; a row takes some that is not spelled out, too.
_BLOCK_BYTES, _NAME, _STATE, _ROW, _SPELLED, _ENTRY = 450, 60, 220, 6, 100, 8


class _Variable(NamedTuple):
    name: str
    states: dict[str, int]
    begin: int


class _Probability(NamedTuple):
    child: str
    parents: tuple[str, ...]
    begin: int
    states: int
    size: int
    body: str


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
        The file is too large, or its gzip data are damaged or hold too much.
    OSError
        The file cannot be read.

    Notes
    -----
    Only discrete variables. Properties, up to their semicolon, are left out. A ``default`` row
    stands for all rows that a block does not have; such tables may have 2**22 entries in all, or 4
    for each byte of the file. Gzip data may hold no more than fits in 64 MiB and 64 times their
    size.

    Examples
    --------
    >>> import valuesparse as vs
    >>> graph = vs.read_bif("asia.bif")  # doctest: +SKIP
    >>> vs.infer(graph, evidence={"xray": "yes"})["lung"]  # doctest: +SKIP
    """
    with naming(source):
        return _read(BifText.of(source))


def _read(text: BifText) -> FactorGraph:
    variables, probabilities = _scan(text)
    values = np.empty(sum(p.size for p in probabilities))
    at, rounded = 0, True
    for p in probabilities:
        scope = [variables[name] for name in (p.child, *p.parents)]
        rounded = _read_rows(text, p, scope, values[at : at + p.size]) and rounded
        at += p.size
    if not rounded:
        _normalise(text, probabilities, values)
    numbers = {name: v for v, name in enumerate(variables)}
    return network_of(
        list(variables),
        [tuple(variable.states) for variable in variables.values()],
        [(*(numbers[name] for name in p.parents), numbers[p.child]) for p in probabilities],
        values,
    )


def _scan(text: BifText) -> tuple[dict[str, _Variable], list[_Probability]]:
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
            text.afford(1, _BLOCK_BYTES, "variables")
            continue
        end = text.text.find("}", match.end())
        inside = text.text[match.end() : end]
        if end < 0 or "{" in inside:
            raise text.error(begin, f"{match[1]} block", "{} has no closing brace")
        if match[1] == "probability":
            text.afford(1, _BLOCK_BYTES, "tables")
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


def _require_no_cycle(text: BifText, probabilities: dict[str, _Probability]) -> None:
    try:
        graphlib.TopologicalSorter({p.child: p.parents for p in probabilities.values()}).prepare()
    except graphlib.CycleError as error:
        child = probabilities[error.args[1][0]]
        cycle = " -> ".join(error.args[1])
        raise text.error(
            child.begin, f"probability of {child.child}", f"a cycle: {cycle}"
        ) from None


def _variable(text: BifText, match: re.Match[str]) -> tuple[_Variable, int]:
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
    text.afford(listed.count(",") + 1 if whole else len(listed) // 2 + 1, _STATE, "states")
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


def _name(text: BifText, word: str, at: int, chunk: str) -> str:
    name = word.strip()
    if NAME.fullmatch(name) is None or len(name) > LONGEST_NAME:
        raise text.error(at, chunk, f"{name[:40]!r} is not a name")
    return name


def _add(text: BifText, variables: dict[str, _Variable], variable: _Variable) -> None:
    if variable.name in variables:
        raise text.error(variable.begin, f"variable {variable.name}", "declared twice")
    variables[variable.name] = variable


def _probability(
    text: BifText, header: str, body: str, begin: int, variables: dict[str, _Variable]
) -> _Probability:
    """Check a block's names, its size and that nothing but rows of numbers is in it."""
    inside = header.strip()
    if not (inside.startswith("(") and inside.endswith(")")):
        raise text.error(begin, "probability block", "expected ( variable | parents )")
    text.afford(inside.count(","), _NAME, "names")
    child, _, given = inside[1:-1].partition("|")
    names = [child.strip(), *(name.strip() for name in given.split(",") if given.strip())]
    if not given and names[0] not in variables:
        names = re.split(
            r"[\s,]+", names[0], maxsplit=MAX_SCOPE + 1
        )  # without a bar, the first is the variable
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
    states = len(variables[names[0]].states)
    text.afford(size, _ENTRY, "entries of tables")
    text.afford(size // states, _ROW, "rows of tables")
    text.afford(body.count(";"), _SPELLED, "rows of tables")
    return _Probability(names[0], tuple(names[1:]), begin, states, size, body)


def _read_rows(
    text: BifText, p: _Probability, scope: list[_Variable], out: npt.NDArray[np.float64]
) -> bool:
    """Write the numbers of a block to `out`, row by row; whether rows sum to one but for rounding.

    `scope`: the variable itself, and its parents.
    """
    rounded = _all_rows(p, scope[1:], out)
    if rounded is None:
        _row_by_row(text, p, scope, out)
    return bool(rounded)


def _all_rows(
    p: _Probability, parents: list[_Variable], out: npt.NDArray[np.float64]
) -> bool | None:
    """Read all rows at once; whether they sum to one but for rounding.

    None where anything about the block is unusual.
    """
    *entries, rest = p.body.split(";")
    k = p.states
    if rest.strip() or len(entries) != p.size // k:
        return None
    values = out.data
    used = bytearray(p.size // k)
    states = [parent.states for parent in parents]
    limit, rounded = EPS * k, True
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
            words = numbers.replace(",", " ").split(maxsplit=k)
            if len(words) != k or used[row] or before.strip() or not numbers[0].isspace():
                return None
            found = [*map(float, words)]
            used[row] = 1
            read.append(numbers)
            rounded = rounded and abs(sum(found) - 1.0) <= limit
            values[row * k : (row + 1) * k] = array("d", found)
    except (KeyError, ValueError, IndexError):
        return None
    # float() also takes signs, underscores, names and the digits of other scripts.
    text = " ".join(read)
    if text.translate(_NUMERIC) or ("-" in text and _SIGNED.search(text)):
        return None
    return rounded if all(used) else None


def _row_by_row(
    text: BifText, p: _Probability, scope: list[_Variable], out: npt.NDArray[np.float64]
) -> None:
    """Read a block row by row, or raise the error for the first wrong word."""
    at, chunk = text.text.index("{", p.begin) + 1, f"probability of {p.child}"
    rows = out.reshape(-1, p.states)
    missing = np.ones(len(rows), dtype=np.bool_)
    others: dict[str, npt.NDArray[np.float64]] = {}
    *entries, rest = p.body.split(";")
    for entry in entries:
        if entry.strip():
            row, numbers = _row(text, entry, at, chunk, scope, p.size)
            if row in others if isinstance(row, str) else not missing[row]:
                raise text.error(at, chunk, "the row that begins with {} is given twice")
            if isinstance(row, str):
                others[row] = numbers
            else:
                missing[row], rows[row] = False, numbers
        at += len(entry) + 1
    if rest.strip():
        raise text.error(at, chunk, "expected a semicolon after what begins with {}")
    table, default = others.get("table"), others.get("default")
    count = len(rows) - int(np.count_nonzero(missing))
    if table is not None:  # the variable itself changes slowest
        count, needed = count + len(others), 1
        rows[:] = table.reshape(p.states, -1).T
    else:
        needed = count if default is not None else len(rows)
        np.copyto(rows, 0.0 if default is None else default, where=missing[:, None])
    if count != needed:
        raise text.error(p.begin, chunk, f"{count} rows, but {needed} are needed")


def _row(
    text: BifText, entry: str, at: int, chunk: str, scope: list[_Variable], size: int
) -> tuple[int | str, npt.NDArray[np.float64]]:
    """Return which row ``(state, state) 0.1, 0.9`` is, or "table" or "default", and its numbers."""
    match = _HEAD.match(entry)
    if match is None:
        problem = "unexpected {}: expected a table, default or (states of the parents)"
        raise text.error(at, chunk, problem)
    child, *parents = scope
    row: int | str = match[1]
    wanted = size if row == "table" else len(child.states)
    if match[2] is not None:
        given, row = [word.strip() for word in match[2].split(",")], 0
        if not parents and given == [""]:
            given = []
        if len(given) != len(parents):
            where = at + match.start(1)
            raise text.error(where, chunk, f"{len(given)} states for {len(parents)} parents")
        for state, parent in zip(given, parents, strict=True):
            if state not in parent.states:
                where = at + match.start(1)
                raise text.error(where, chunk, f"{parent.name} has no state {state[:40]!r}")
            row = row * len(parent.states) + parent.states[state]
    numbers = array("d")
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
    return row, np.frombuffer(numbers)


def _normalise(
    text: BifText, probabilities: list[_Probability], values: npt.NDArray[np.float64]
) -> None:
    """Make the rows of all tables sum to one."""
    lengths = np.repeat(
        np.array([p.states for p in probabilities], dtype=np.int32),
        [p.size // p.states for p in probabilities],
    )
    first = at = 0
    while first < len(lengths):
        ends = np.cumsum(lengths[first : first + _ROWS], dtype=np.int64)
        count = max(1, int(np.searchsorted(ends, _ENTRIES, side="right")))
        k, ends = lengths[first : first + count], ends[:count]
        rows = values[at : at + int(ends[-1])]
        sums = np.add.reduceat(rows, ends - k)
        off = np.abs(sums - 1.0)
        # Not NaN either: a number may be too large for a double.
        wrong = ~(off <= _ROW_TOLERANCE)
        if wrong.any():
            row = int(wrong.argmax())
            last = np.cumsum([p.size // p.states for p in probabilities])
            p = probabilities[int(np.searchsorted(last, first + row, side="right"))]
            problem = f"a row does not sum to 1, but to {float(sums[row]):.6g}"
            raise text.error(p.begin, f"probability of {p.child}", problem)
        # Rows that doubles alone keep from 1 stay as they are.
        rows /= np.repeat(np.where(off > EPS * k, sums, 1.0), k)
        first, at = first + count, at + rows.size
