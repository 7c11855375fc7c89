"""Bayesian networks in the interchange format (BIF), through pgmpy's reader.

pgmpy finds what it knows in a text and passes over the rest in silence. So the text is taken apart
here first: every block has to be one of the format's, sizes have to fit the file, and pgmpy gets
the blocks in one layout; what it returns has to be complete.
"""

from __future__ import annotations

import graphlib
import math
import re
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from valuesparse._extras import require
from valuesparse.io._files import Source, naming, read_bytes
from valuesparse.io._tables import graph_of
from valuesparse.io._text import MAX_SCOPE
from valuesparse.io.errors import ModelFormatError, TextFormatError
from valuesparse.models import FactorGraph

__all__ = ["ModelFormatError", "TextFormatError", "read_bif"]

# Rows of files that give two digits (0.33, 0.33, 0.33) are this far from 1, and no farther.
_ROW_TOLERANCE = 0.02

# A comment without an end goes to the end: searching again from each beginning would take for ever.
_COMMENT = re.compile(r"/\*(?:[^*]|\*(?!/))*(?:\*/|\Z)|//[^\n]*")
_BLOCK = re.compile(r"\s*(network|variable|probability)\b([^{}]*)\{", re.DOTALL)
_TYPE = re.compile(r"type\s+discrete\s*\[\s*(\d{1,10})\s*\]\s*$", re.ASCII)
_HEAD = re.compile(r"\s*(table\b|\(([^()]*)\))")
_WORD = re.compile(r"[^\s,]+")
_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_TABLE: tuple[str, ...] = ("table",)
_NAME = re.compile(r"[^\s,|(){}\[\];]+(?: +[^\s,|(){}\[\];]+)*")
_LONGEST_NAME = 1000


class _Variable(NamedTuple):
    name: str
    states: tuple[str, ...]
    begin: int


class _Probability(NamedTuple):
    child: str
    parents: tuple[str, ...]
    body: str
    begin: int


class _Text:
    """The text with comments and quotes blanked, and the errors for places in it."""

    def __init__(self, data: bytes) -> None:
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            line = 1 + data.count(b"\n", 0, error.start)
            token = repr(data[error.start : error.end])[2:-1]
            problem = f"'{token}' is not UTF-8"
            raise TextFormatError("text", error.start, problem, line, token) from None
        text = text.replace("\r", " ").replace('"', " ")
        self.text = text
        self.text = _COMMENT.sub(self._blank, text)

    def _blank(self, match: re.Match[str]) -> str:
        if match[0].startswith("/*") and not (match[0].endswith("*/") and len(match[0]) > 3):
            raise self.error(match.start(), "comment", "{} begins one that does not end")
        return re.sub(r"[^\n]", " ", match[0])

    def error(self, at: int, chunk: str, problem: str) -> TextFormatError:
        """Return the error for the word at a place; ``{}`` in `problem` stands for the word."""
        rest = self.text[at : at + 200].lstrip()
        at = min(len(self.text), at + len(self.text[at : at + 200]) - len(rest))
        word = re.match(r"[^\s,;]+|[,;]|$", rest)
        token = word[0][:40] if word is not None else ""
        line = 1 + self.text.count("\n", 0, at)
        shown = problem.replace("{}", repr(token) if token else "the end of the file")
        return TextFormatError(chunk, len(self.text[:at].encode()), shown, line, token)


def read_bif(source: Source) -> FactorGraph:
    """Read a Bayesian network in the interchange format, with pgmpy's reader.

    Parameters
    ----------
    source : path, file object or bytes
        The file, as UTF-8 text or gzip.

    Returns
    -------
    FactorGraph
        Variables in the file's order, with their names and the names of their states. Each factor
        is a conditional probability table with the variable itself last, and rows normalised:
        files give rounded numbers.

    Raises
    ------
    MissingExtraError
        pgmpy is not installed; the message says how to get it.
    TextFormatError
        The file is no network, or is damaged; the message names the line and the word.
    ModelFormatError
        The file is too large, or its gzip data are damaged.
    OSError
        The file cannot be read.

    Notes
    -----
    Only discrete variables, and only tables in full (no ``default`` rows).

    Examples
    --------
    >>> import valuesparse as vs
    >>> graph = vs.read_bif("asia.bif")  # doctest: +SKIP
    >>> vs.infer(graph, evidence={"xray": "yes"})["lung"]  # doctest: +SKIP
    """
    require("bif", "pgmpy")
    with naming(source):
        return _read(_Text(read_bytes(source)))


def _read(text: _Text) -> FactorGraph:
    variables, probabilities = _scan(text)
    tables = _with_pgmpy(text, variables, probabilities)
    for probability in probabilities:
        tables[probability.child] = _normalised(text, probability, tables[probability.child])
    return graph_of(
        list(variables),
        [variable.states for variable in variables.values()],
        [len(variable.states) for variable in variables.values()],
        (
            ([*p.parents, p.child], tables[p.child], f"probability of {p.child}")
            for p in probabilities
        ),
        directed=True,
    )


def _scan(text: _Text) -> tuple[dict[str, _Variable], list[_Probability]]:
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
    try:
        graphlib.TopologicalSorter({p.child: p.parents for p in probabilities.values()}).prepare()
    except graphlib.CycleError as error:
        child = probabilities[error.args[1][0]]
        cycle = " -> ".join(error.args[1])
        raise text.error(
            child.begin, f"probability of {child.child}", f"a cycle: {cycle}"
        ) from None
    return variables, [probabilities[name] for name in variables]


def _variable(text: _Text, match: re.Match[str]) -> tuple[_Variable, int]:
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
    words = listed.split(",") if "," in listed else listed.split()
    states = tuple(word.strip() for word in words if word.strip())
    for state in states:
        _name(text, state, brace + 1, chunk)
    if len(states) != int(kind[1]):
        raise text.error(brace, chunk, f"{kind[1]} states announced, {len(states)} listed")
    if not states:
        raise text.error(brace, chunk, "a variable needs at least one state")
    if len(set(states)) != len(states):
        twice = next(s for i, s in enumerate(states) if s in states[:i])
        raise text.error(brace, chunk, f"state {twice!r} is listed twice")
    return _Variable(name, states, begin), close + 1


def _name(text: _Text, word: str, at: int, chunk: str) -> str:
    name = word.strip()
    if _NAME.fullmatch(name) is None or len(name) > _LONGEST_NAME:
        raise text.error(at, chunk, f"{name[:40]!r} is not a name")
    return name


def _add(text: _Text, variables: dict[str, _Variable], variable: _Variable) -> None:
    if variable.name in variables:
        raise text.error(variable.begin, f"variable {variable.name}", "declared twice")
    variables[variable.name] = variable


def _probability(
    text: _Text, header: str, body: str, begin: int, variables: dict[str, _Variable]
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
    if 2 * size > len(body):
        raise text.error(
            begin, chunk, f"{size} numbers are needed, but the block has {len(body)} characters"
        )
    at = text.text.index("{", begin) + 1
    *entries, rest = body.split(";")
    rows: set[tuple[str, ...]] = set()
    for entry in entries:
        if entry.strip():
            row = _row(text, entry, at, chunk, [variables[name] for name in names])
            if row in rows:
                raise text.error(at, chunk, "the row that begins with {} is given twice")
            rows.add(row)
        at += len(entry) + 1
    if rest.strip():
        raise text.error(at, chunk, "expected a semicolon after what begins with {}")
    needed = 1 if _TABLE in rows else size // len(variables[names[0]].states)
    if len(rows) != needed:
        raise text.error(begin, chunk, f"{len(rows)} rows, but {needed} are needed")
    return _Probability(names[0], tuple(names[1:]), body, begin)


def _row(
    text: _Text, entry: str, at: int, chunk: str, variables: list[_Variable]
) -> tuple[str, ...]:
    """Check ``table 0.1, 0.9`` or ``(state, state) 0.1, 0.9`` and return its states."""
    match = _HEAD.match(entry)
    if match is None:
        problem = "{} rows are not supported" if entry.split()[0] == "default" else "unexpected {}"
        raise text.error(at, chunk, f"{problem}: expected a table or (states of the parents)")
    child, *parents = variables
    if match[2] is None:
        row, wanted = _TABLE, math.prod(len(variable.states) for variable in variables)
    else:
        row, wanted = tuple(word.strip() for word in match[2].split(",")), len(child.states)
        if len(row) != len(parents):
            where = at + match.start(1)
            raise text.error(where, chunk, f"{len(row)} states for {len(parents)} parents")
        for state, parent in zip(row, parents, strict=True):
            if state not in parent.states:
                where = at + match.start(1)
                raise text.error(where, chunk, f"{parent.name} has no state {state[:40]!r}")
    count = 0
    for number in _WORD.finditer(entry, match.end()):
        if _NUMBER.fullmatch(number[0]) is None:
            raise text.error(at + number.start(), chunk, "{} is not a number")
        count += 1
    if count != wanted:
        where = at + match.start(1)
        raise text.error(
            where, chunk, f"the row that begins with {{}} has {count} numbers instead of {wanted}"
        )
    return row


def _with_pgmpy(
    text: _Text, variables: dict[str, _Variable], probabilities: list[_Probability]
) -> dict[str, npt.NDArray[np.float64]]:
    """Return pgmpy's tables, with the variable itself as the last axis."""
    # pgmpy takes names that differ in case only for the same: it is given numbers instead.
    number = {name: f"v{v}" for v, name in enumerate(variables)}
    cpds = _read_blocks(text, variables, probabilities, number)
    tables = {}
    for probability in probabilities:
        names = (probability.child, *probability.parents)
        shape = [len(variables[name].states) for name in names]
        table = np.asarray(cpds.get(number[probability.child]), dtype=np.float64)
        if table.size != math.prod(shape):
            raise text.error(
                probability.begin,
                f"probability of {probability.child}",
                f"{math.prod(shape)} numbers are needed",
            )
        tables[probability.child] = np.moveaxis(table.reshape(shape), 0, -1)
    return tables


def _read_blocks(
    text: _Text,
    variables: dict[str, _Variable],
    probabilities: list[_Probability],
    number: dict[str, str],
) -> dict[str, Any]:
    """Have pgmpy read blocks; if it fails, find the first that it cannot read by halving."""
    from pgmpy.readwrite import BIFReader

    def read(blocks: list[_Probability]) -> dict[str, Any]:
        mentioned = dict.fromkeys(name for p in blocks for name in (p.child, *p.parents))
        own = [variables[name] for name in mentioned]
        return BIFReader(string=_render(own, blocks, number)).variable_cpds

    try:
        return read(probabilities)
    except Exception as error:
        blocks, reason = probabilities, error
        while len(blocks) > 1:
            half = len(blocks) // 2
            try:
                read(blocks[:half])
            except Exception as other:
                blocks, reason = blocks[:half], other
            else:
                blocks = blocks[half:]
        begin = blocks[0].begin if blocks else 0
        chunk = f"probability of {blocks[0].child}" if blocks else "model"
        # pgmpy raises whatever its parsing ran into.
        found = f"{type(reason).__name__}: {' '.join(str(reason).split())[:120]}"
        raise text.error(begin, chunk, f"pgmpy cannot read it: {found}") from error


def _render(
    variables: list[_Variable], probabilities: list[_Probability], number: dict[str, str]
) -> str:
    """Return blocks in the layout that pgmpy knows best."""
    lines = ["network model {", "}"]
    for v in variables:
        lines += [
            f"variable {number[v.name]} {{",
            f"  type discrete [ {len(v.states)} ] {{ {', '.join(v.states)} }};",
            "}",
        ]
    for p in probabilities:
        given = f" | {', '.join(number[name] for name in p.parents)}" if p.parents else ""
        lines += [f"probability ( {number[p.child]}{given} ) {{", p.body.strip("\n"), "}"]
    return "\n".join(lines) + "\n"


def _normalised(
    text: _Text, probability: _Probability, table: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    sums = table.sum(axis=-1, keepdims=True)
    chunk = f"probability of {probability.child}"
    # Not NaN either, which pgmpy fills gaps with.
    wrong = ~(np.abs(sums - 1.0) <= _ROW_TOLERANCE)
    if wrong.any():
        problem = f"a row does not sum to 1, but to {float(sums[wrong][0]):.6g}"
        raise text.error(probability.begin, chunk, problem)
    return table / sums
