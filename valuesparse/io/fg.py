"""libDAI's factor graph files.

The number of factors, and then for each: how many variables it has, their labels, their numbers of
states, how many entries follow, and those as pairs of an index and a number. Entries that are not
there are 0. In an index the *first* variable changes fastest. ``#`` begins a comment.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from valuesparse._validation import as_count
from valuesparse.factors import Table
from valuesparse.io._files import Source, Target, naming, write_text
from valuesparse.io._tables import factors_to_write, log_of, numbers_of, require_graph
from valuesparse.io._text import MAX_SCOPE, Tokens, check_cardinalities
from valuesparse.io.errors import ModelFormatError, TextFormatError
from valuesparse.models import FactorGraph
from valuesparse.models._blocks import append_tables

__all__ = ["ModelFormatError", "TextFormatError", "read_fg", "write_fg"]

# Entries of all tables that a file may ask for without naming them, whatever its size: 32 MiB.
_ENTRIES_FREE = 1 << 22
# And beyond that, for each byte of the file: with what reading takes itself, 64 bytes.
_ENTRIES_PER_BYTE = 4
# Bytes that a factor takes beside its words.
_FACTOR = 500
# Factors whose numbers are looked at together, and entries of one that is looked at alone.
_BLOCK, _LARGE = 1 << 12, 1 << 8


def read_fg(source: Source, *, max_entries: int | None = None) -> FactorGraph:
    r"""Read a factor graph in libDAI's format.

    Parameters
    ----------
    source : path, file object or bytes
        The file, as text or gzip.
    max_entries : int, optional
        Refuse files whose tables have more entries in all. A file does not name its zeros, so that
        a small one can ask for any memory; by default there may be 2**22 entries, or 4 for each
        byte of the file.

    Returns
    -------
    FactorGraph
        Variables in the order of their labels, which become their names unless they are 0, 1, 2
        and so on. Log-potentials are the logs of the file's numbers; 0 becomes −inf.

    Raises
    ------
    TextFormatError
        The file is no factor graph, or is damaged; the message names the line and the word.
    ModelFormatError
        The file is too large, or its gzip data are damaged.
    ValueError
        For a `max_entries` that is no integer >= 0.
    OSError
        The file cannot be read.

    See Also
    --------
    write_fg

    Examples
    --------
    >>> import numpy as np
    >>> import valuesparse as vs
    >>> graph = vs.read_fg(b"1\n\n2\n7 3\n2 3\n2\n0 0.25\n3 0.75\n")
    >>> graph.names
    (3, 7)
    >>> np.exp(graph.factors[0].log_table).tolist()  # [state of 7][state of 3]
    [[0.25, 0.0, 0.0], [0.0, 0.75, 0.0]]
    """
    if max_entries is not None:
        as_count("max_entries", max_entries, at_least=0)
    with naming(source):
        return _read(Tokens.of(source, comments=True), max_entries)


def _read(tokens: Tokens, max_entries: int | None) -> FactorGraph:
    budget = max(_ENTRIES_FREE, _ENTRIES_PER_BYTE * tokens.size)
    budget = budget if max_entries is None else max_entries
    tokens.read_numbers()
    # A factor takes at least its number of variables and its number of entries.
    m = tokens.count("header", "number of factors", 2)
    tokens.afford(m, _FACTOR, "factors")
    states: dict[int, int] = {}  # of each label
    places: dict[int, int] = {}  # the token that said it
    labels: list[tuple[int, ...]] = []
    heads: list[_Head] = []
    for f in range(m):
        scope, cards = _read_scope(tokens, f, states, places)
        size = math.prod(cards)
        if size > budget:
            raise tokens.error(
                tokens.at - 1,
                f"factor {f}",
                f"with it tables would have more than {budget if f == 0 else 'the allowed'} "
                f"entries (it has {size}); max_entries allows more",
            )
        budget -= size
        chunk = f"table of factor {f}"
        count = tokens.count(chunk, "number of entries", 2)
        tokens.require(2 * count, chunk, "numbers")
        labels.append(scope)
        heads.append(_Head(cards, size, tokens.at - tokens.first, count))
        tokens.at += 2 * count
    tokens.end()
    names = sorted(states)
    check_cardinalities(tokens, [states[name] for name in names], [places[name] for name in names])
    number = {name: v for v, name in enumerate(names)}
    plain = names == list(range(len(names)))
    graph = FactorGraph([states[name] for name in names], names=None if plain else names)
    tables = (
        Table([number[label] for label in scope], table)
        for scope, table in zip(labels, _tables(tokens, heads), strict=True)
    )
    append_tables(graph, tables)
    return graph


class _Head(NamedTuple):
    """The part of a factor before its entries."""

    cards: tuple[int, ...]
    size: int
    first: int  # where its entries are among the numbers
    pairs: int


def _read_scope(
    tokens: Tokens, f: int, states: dict[int, int], places: dict[int, int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Read the labels of a factor's variables and their numbers of states."""
    chunk = f"variables of factor {f}"
    k = tokens.integer(chunk, "number of variables", 0, MAX_SCOPE, "the most that are supported")
    if not k:
        return (), ()
    first = tokens.at
    scope = tokens.labels(k, chunk)
    if len(set(scope)) != k:
        at = next(i for i, label in enumerate(scope) if label in scope[:i])
        raise tokens.error(first + at, chunk, "variable {} stands there twice")
    first = tokens.at
    cards = tokens.integers(k, chunk, "number of states", 1, 2**31 - 1)
    for i, (label, c) in enumerate(zip(scope, cards, strict=True)):
        if states.setdefault(label, c) != c:
            raise tokens.error(
                first + i,
                chunk,
                f"variable {label} has {{}} states here and {states[label]} before",
            )
        places.setdefault(label, first + i)
    return tuple(scope), tuple(cards)


def _tables(tokens: Tokens, heads: list[_Head]) -> Iterator[npt.NDArray[np.float64]]:
    """Yield the tables of factors as logs: of one at a time, numpy's calls would take longest."""
    at = 0
    while at < len(heads):
        end = at + 1
        while end < min(at + _BLOCK, len(heads)) and heads[end - 1].size < _LARGE > heads[end].size:
            end += 1
        yield from _block(tokens, heads[at:end], at)
        at = end


def _block(tokens: Tokens, heads: list[_Head], number: int) -> Iterator[npt.NDArray[np.float64]]:
    """Yield the tables of some factors; `number` is that of the first."""
    sizes = np.array([head.size for head in heads])
    counts = np.array([head.pairs for head in heads])
    ends = np.cumsum(sizes)
    owner = np.repeat(np.arange(len(heads)), counts)
    # Where the index of each entry stands among the numbers; its value comes after it.
    before = np.array([head.first for head in heads]) - 2 * (np.cumsum(counts) - counts)
    words = before[owner] + 2 * np.arange(len(owner))
    index = tokens.values[words]
    wrong = ~((index >= 0) & (index < sizes[owner]) & (index == np.floor(index)))
    if wrong.any():
        at = int(wrong.argmax())
        f = int(owner[at])
        tokens.refuse_integer(
            tokens.first + int(words[at]), f"table of factor {number + f}", "index", 0,
            heads[f].size - 1, "the last one",
        )  # fmt: skip
    begins = ends - sizes
    places = begins[owner] + index.astype(np.intp)
    if len(places) > 1 and not (places[1:] > places[:-1]).all():  # most files have them in order
        order = np.argsort(places, kind="stable")
        twice = np.flatnonzero(places[order][1:] == places[order][:-1])
        if twice.size:
            at = int(order[1:][twice].min())
            chunk = f"table of factor {number + int(owner[at])}"
            raise tokens.error(tokens.first + int(words[at]), chunk, "index {} stands there twice")

    def refuse(at: int, problem: str) -> TextFormatError:
        chunk = f"table of factor {number + int(owner[at])}"
        return tokens.error(tokens.first + int(words[at]) + 1, chunk, f"{{}} {problem}")

    if len(heads) == 1:  # perhaps large: the one copy is the table
        places = _last_fastest(places, heads[0].cards)
    logs = np.full(int(ends[-1]), -np.inf)
    logs[places] = log_of(tokens.values[words + 1], refuse)
    for head, begin, end in zip(heads, begins.tolist(), ends.tolist(), strict=True):
        # In a file the first variable changes fastest.
        swapped = len(heads) > 1 and len(head.cards) > 1
        table = logs[begin:end].reshape(head.cards, order="F" if swapped else "C")
        yield np.ascontiguousarray(table) if swapped else table


def _last_fastest(places: npt.NDArray[np.intp], cards: Sequence[int]) -> npt.NDArray[np.intp]:
    """Return indices in which the first variable changes fastest, as those of C."""
    found, rest, step = np.zeros_like(places), places, math.prod(cards)
    for states in cards:
        step //= states
        found += rest % states * step
        rest = rest // states
    return found


def write_fg(graph: FactorGraph, target: Target) -> None:
    """Write a factor graph in libDAI's format.

    Parameters
    ----------
    graph : FactorGraph
        The model. Names of variables become their labels when all are integers; otherwise
        variables are numbered. Names of states have no place in the format.
    target : path or file object
        Where to; a path that ends in ``.gz`` is compressed.

    Raises
    ------
    ValueError
        For log-potentials below -708.4 (but −inf) or above 709.8, which numbers cannot stand for.

    Notes
    -----
    The format has no evidence and no variables without factors: evidence becomes tables over one
    variable (0 and 1, or likelihoods), and a variable without factors gets a table of ones. About
    the digits of numbers see :func:`valuesparse.write_uai`.

    Examples
    --------
    >>> import io
    >>> import numpy as np
    >>> import valuesparse as vs
    >>> graph = vs.FactorGraph([2, 2])
    >>> graph.add([0, 1], np.log([[0.5, 0.125], [0.25, 0.125]]))
    0
    >>> vs.write_fg(graph, file := io.StringIO())
    >>> file.getvalue().split()  # the first variable changes fastest
    ['1', '2', '0', '1', '2', '2', '4', '0', '0.5', '1', '0.25', '2', '0.125', '3', '0.125']
    """
    require_graph(graph)
    labels = graph.names
    if not all(type(name) is int and -(2**63) <= name < 2**63 for name in labels):
        labels = tuple(range(graph.n_variables))
    factors = list(factors_to_write(graph, hard=True, cover=True))
    lines = [str(len(factors))]
    for scope, logs, where in factors:
        numbers = numbers_of(logs, where).ravel(order="F")
        nonzero = np.flatnonzero(numbers)
        lines += [
            "",
            str(len(scope)),
            " ".join(str(labels[v]) for v in scope),
            " ".join(str(graph.cardinalities[v]) for v in scope),
            str(len(nonzero)),
        ]
        pairs = zip(nonzero.tolist(), numbers[nonzero].tolist(), strict=True)
        lines += [f"{i} {number!r}" for i, number in pairs]
    write_text(target, "\n".join(lines) + "\n")
