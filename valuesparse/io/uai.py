"""The UAI competitions' files: models, and evidence in the layouts of 2006 to 2022.

A model is words and numbers apart by white space:

======================== ==========================================================================
``MARKOV`` or ``BAYES``  what the tables are: any functions, or conditional probabilities
number of variables      and the number of states of each
number of factors        and for each its scope: how many variables, and which
tables                   for each factor: how many numbers, and the numbers, with the last variable
                         of the scope changing fastest
======================== ==========================================================================
"""

from __future__ import annotations

import graphlib
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

import numpy as np

from valuesparse._validation import is_choice
from valuesparse.factors import Table
from valuesparse.io._files import Source, Target, naming, require_source, write_text
from valuesparse.io._samples import choose, find_samples
from valuesparse.io._tables import (
    factors_to_write,
    lines_of_numbers,
    log_of,
    numbers_of,
    require_graph,
)
from valuesparse.io._text import MAX_SCOPE, Tokens, check_cardinalities
from valuesparse.io.errors import ModelFormatError, TextFormatError
from valuesparse.models import FactorGraph
from valuesparse.models._blocks import append_tables

__all__ = [
    "ModelFormatError",
    "TextFormatError",
    "read_uai",
    "read_uai_evidence",
    "write_uai",
    "write_uai_evidence",
]

# How far the rows of tables that are called conditional probabilities may be from 1.
_ROW_TOLERANCE = 1e-6
# Bytes that things take beside their words.
_VARIABLE, _FACTOR, _OBSERVED = 100, 300, 100


def read_uai(
    source: Source,
    evidence: Source | Mapping[Any, Any] | None = None,
    *,
    sample: int | None = None,
) -> FactorGraph:
    """Read a model in the UAI format.

    Parameters
    ----------
    source : path, file object or bytes
        The model, as text or gzip.
    evidence : path, file object, bytes or mapping, optional
        An evidence file, or evidence as `FactorGraph.set_evidence` takes it.
    sample : int, optional
        Which of several samples of an evidence file to take, from 0.

    Returns
    -------
    FactorGraph
        Variables are numbered as in the file. Log-potentials are the logs of the file's numbers;
        0 becomes −inf. Tables of a ``BAYES`` file are taken as they are, without normalising. They
        count as conditional tables, which `write_bif` and `FactorGraph.fit` take, if each variable
        has one and comes last in it, rows sum to 1 (within 1e-6), and there is no cycle.

    Raises
    ------
    TextFormatError
        The file is no UAI model, or is damaged; the message names the line and the word. Sizes are
        checked against the file before anything is allocated.
    ModelFormatError
        The file is too large, or its gzip data are damaged.
    ValueError
        For evidence on a variable or state that the model does not have: in a file a
        TextFormatError, too.
    OSError
        A file cannot be read.

    See Also
    --------
    write_uai, read_uai_evidence

    Examples
    --------
    >>> import valuesparse as vs
    >>> text = b"MARKOV 2  2 3  1  2 0 1  6  0.1 0.2 0.3 0.4 0.5 0"
    >>> graph = vs.read_uai(text, evidence=b"1 0 1")
    >>> graph
    FactorGraph(n_variables=2, n_factors=1, table_entries=6, evidence=1)
    >>> vs.read_uai(b"MARKOV 1 2 1 1 0 2 0.5 half")
    Traceback (most recent call last):
        ...
    valuesparse.io.errors.TextFormatError: line 1, table of factor 0: 'half' is not a number
    """
    with naming(source):
        tokens = Tokens.of(source)
        _refuse_comments(tokens.data)
        graph = _read_model(tokens)
    if evidence is None:
        if sample is not None:
            raise ValueError("sample chooses from an evidence file, but evidence is None")
    elif isinstance(evidence, Mapping):
        if sample is not None:
            raise ValueError("sample chooses from an evidence file, but evidence is a mapping")
        graph.set_evidence(evidence)
    else:
        require_source("evidence", evidence)
        graph.set_evidence(read_uai_evidence(evidence, sample=sample, graph=graph))
    return graph


def _refuse_comments(data: bytes) -> None:
    """Refuse what pyAgrum writes: its tables would be read, and mean something else."""
    at = data.find(b"#")
    if at >= 0:
        raise TextFormatError(
            "comment",
            at,
            "'#' begins none in UAI files. pyAgrum writes some, and orders the parents in a table "
            "the other way round: convert its model by vs.from_pyagrum, or save it as BIF",
            1 + data.count(b"\n", 0, at),
            "#",
        )


def _read_model(tokens: Tokens) -> FactorGraph:
    kind = tokens.word("header", ("MARKOV", "BAYES"))
    tokens.read_numbers()
    n = tokens.count("header", "number of variables", 1)
    tokens.afford(n, _VARIABLE, "variables")
    first = tokens.at
    cards = tokens.integers(n, "cardinalities", "number of states", 1, 2**31 - 1)
    check_cardinalities(tokens, cards, range(first, first + n))
    # A factor takes a word for the size of its scope, one for that of its table, and an entry.
    m = tokens.count("header", "number of factors", 3)
    tokens.afford(m, _FACTOR, "factors")
    scopes = [_read_scope(tokens, f"scope of factor {f}", cards) for f in range(m)]
    begin = tokens.at - tokens.first
    places = []
    for f, scope in enumerate(scopes):
        chunk = f"table of factor {f}"
        size = math.prod(cards[v] for v in scope)
        tokens.require(1, chunk, "numbers")
        if tokens.values[tokens.at - tokens.first] != size:
            raise tokens.error(
                tokens.at, chunk, f"expected the number of its entries, {size}, got {{}}"
            )
        tokens.at += 1
        tokens.require(size, chunk, "numbers")
        places.append(tokens.at - tokens.first - begin)
        tokens.at += size
    tokens.end()

    def refuse(at: int, problem: str) -> TextFormatError:
        f = int(np.searchsorted(places, at, side="right")) - 1
        return tokens.error(tokens.first + begin + at, f"table of factor {f}", f"{{}} {problem}")

    # One pass over all tables; the sizes between them come along and are not used.
    logs = log_of(tokens.values[begin:], refuse)
    graph = FactorGraph(cards)
    tables = (
        Table(scope, logs[at : at + math.prod(shape)].reshape(shape))
        for scope, at in zip(scopes, places, strict=True)
        for shape in [[cards[v] for v in scope]]
    )
    append_tables(graph, tables)
    if kind == "BAYES":
        _mark_network(graph, scopes, tokens.values[begin:], places)
    return graph


def _mark_network(
    graph: FactorGraph, scopes: Sequence[tuple[int, ...]], values: Any, places: Sequence[int]
) -> None:
    """Mark the tables of a file that says BAYES as conditional, if they are those of a network."""
    tables = (
        values[at : at + math.prod(shape)].reshape(shape)
        for scope, at in zip(scopes, places, strict=True)
        for shape in [[graph.cardinalities[v] for v in scope]]
    )
    # Many files say BAYES and hold other factors, which are read like those of MARKOV.
    with suppress(ValueError):
        _check_bayes(graph, [(scope, "") for scope in scopes], tables)
        graph.conditional.update((f, scope[-1]) for f, scope in enumerate(scopes))
        graph.as_read = True


def _read_scope(tokens: Tokens, chunk: str, cards: Sequence[int]) -> tuple[int, ...]:
    k = tokens.integer(chunk, "number of variables", 0, MAX_SCOPE, "the most that are supported")
    first = tokens.at
    scope = tuple(tokens.integers(k, chunk, "variable", 0, len(cards) - 1, "the last one"))
    if len(set(scope)) != k:
        at = next(i for i, v in enumerate(scope) if v in scope[:i])
        raise tokens.error(first + at, chunk, "variable {} stands there twice")
    return scope


def write_uai(
    graph: FactorGraph,
    target: Target,
    *,
    kind: Literal["MARKOV", "BAYES"] = "MARKOV",
    evidence: Target | None = None,
) -> None:
    """Write a model in the UAI format.

    Parameters
    ----------
    graph : FactorGraph
        The model. Names of variables and states have no place in the format.
    target : path or file object
        Where to; a path that ends in ``.gz`` is compressed.
    kind : {"MARKOV", "BAYES"}
        ``"BAYES"`` says that factors are conditional probabilities: exactly one for each variable,
        which comes last in its scope, with rows that sum to 1.
    evidence : path or file object, optional
        Where to write the graph's evidence on states. By default that becomes tables of 0 and 1,
        as likelihoods always become tables: the file then says the same as the graph.

    Raises
    ------
    ValueError
        For log-potentials below -708.4 (but −inf) or above 709.8, which numbers cannot stand for,
        and for graphs that are not what `kind` says.

    Notes
    -----
    The format holds numbers, a graph their logs. They are written with all the digits of a double,
    and chosen such that their logs are the graph's log-potentials bit for bit, if such numbers
    exist: always for graphs that came from a file or from probabilities. Otherwise the last bit
    may differ.

    Examples
    --------
    >>> import io
    >>> import numpy as np
    >>> import valuesparse as vs
    >>> graph = vs.FactorGraph([2])
    >>> graph.add([0], np.log([0.25, 0.75]))
    0
    >>> vs.write_uai(graph, file := io.StringIO())
    >>> file.getvalue().split()
    ['MARKOV', '1', '2', '1', '1', '0', '2', '0.25', '0.75']
    """
    if not is_choice(kind, ("MARKOV", "BAYES")):
        raise ValueError(f"kind must be 'MARKOV' or 'BAYES', got {kind!r}")
    require_graph(graph)
    factors = list(factors_to_write(graph, hard=evidence is None))
    tables = [numbers_of(logs, where) for _, logs, where in factors]
    if kind == "BAYES":
        _check_bayes(graph, [(scope, where) for scope, _, where in factors], tables)
    lines = [kind, str(graph.n_variables), " ".join(map(str, graph.cardinalities))]
    lines.append(str(len(factors)))
    lines.extend(" ".join(map(str, (len(scope), *scope))) for scope, _, _ in factors)
    for table in tables:
        lines.append(f"\n{table.size}")
        lines.append(lines_of_numbers(table, table.shape[-1] if table.ndim else 1))
    write_text(target, "\n".join(lines) + "\n")
    if evidence is not None:
        states = {v: known for v, known in graph.evidence.items() if isinstance(known, int)}
        write_uai_evidence(states, evidence)


def _check_bayes(
    graph: FactorGraph, factors: Sequence[tuple[tuple[int, ...], str]], tables: Iterable[Any]
) -> None:
    """Refuse a graph that is no Bayesian network, and say why."""
    order: graphlib.TopologicalSorter[int] = graphlib.TopologicalSorter()
    table_of: dict[int, str] = {}
    for (scope, where), table in zip(factors, tables, strict=True):
        if not scope:
            raise ValueError(f"{where} has no variables: not a Bayesian network; use 'MARKOV'")
        child = scope[-1]
        if child in table_of:
            raise ValueError(
                f"{where} and {table_of[child]} both end with variable {graph.names[child]!r}, but "
                "in a Bayesian network each variable has one table; use kind='MARKOV'"
            )
        table_of[child] = where
        order.add(child, *scope[:-1])
        with np.errstate(over="ignore"):
            error = float(np.abs(table.sum(axis=-1) - 1.0).max())
        if error > _ROW_TOLERANCE:
            raise ValueError(
                f"{where} has a row whose sum is {error:.3g} away from 1: no conditional "
                "probabilities of its last variable; use kind='MARKOV'"
            )
    missing = [v for v in range(graph.n_variables) if v not in table_of]
    if missing:
        raise ValueError(
            f"variable {graph.names[missing[0]]!r} has no table of its own (none ends with it), "
            "as it would in a Bayesian network; use kind='MARKOV'"
        )
    try:
        order.prepare()
    except graphlib.CycleError as error:
        cycle = " -> ".join(repr(graph.names[v]) for v in error.args[1])
        raise ValueError(f"a cycle {cycle}: not a Bayesian network; use 'MARKOV'") from None


def read_uai_evidence(
    source: Source, *, sample: int | None = None, graph: FactorGraph | None = None
) -> dict[int, int]:
    r"""Read an evidence file in any of the layouts of 2006 to 2022.

    Parameters
    ----------
    source : path, file object or bytes
        The evidence, as text or gzip.
    sample : int, optional
        Which of several samples to take, from 0; needed when there are several.
    graph : FactorGraph, optional
        The graph of the evidence. Variables of the file are then looked up there (by name where
        all names are integers, such as labels of libDAI's files) and states are checked.

    Returns
    -------
    dict
        Variable: state, both numbered from 0 (as `FactorGraph.evidence`).

    Raises
    ------
    TextFormatError
        The file has another layout, or is damaged, or has a variable twice, or one or a state that
        `graph` does not have; the message names the line and the word.
    ValueError
        There are several samples, and `sample` does not say which; or it is out of range.

    Notes
    -----
    A sample is the number of observed variables, and a variable and its state for each. Files of
    2006 and from 2014 on hold one sample; those of 2008 to 2012 say first how many they hold. An
    empty file or ``0`` is no evidence. A file that can be read both ways is taken to begin with
    the number of samples if that and each sample stand on lines of their own.

    Examples
    --------
    >>> from valuesparse.io import read_uai_evidence
    >>> read_uai_evidence(b"2  0 1  7 0"), read_uai_evidence(b"1\n2  0 1  7 0")
    ({0: 1, 7: 0}, {0: 1, 7: 0})
    >>> read_uai_evidence(b"0")
    {}
    """
    if graph is not None:
        require_graph(graph)
    with naming(source):
        return _read_evidence(Tokens.of(source), sample, graph)


def _read_evidence(tokens: Tokens, sample: int | None, graph: FactorGraph | None) -> dict[int, int]:
    tokens.read_numbers()
    values = tokens.values
    if not len(tokens) or (len(tokens) == len(values) == 1 and values[0] == 0):
        return choose([{}], sample, "evidence file")

    def measure(at: int) -> int | None:
        size = float(values[at])
        return 1 + 2 * int(size) if 0 <= size < len(values) and size.is_integer() else None

    samples = find_samples(tokens, measure)
    if samples is None:
        raise _no_layout(tokens)
    tokens.afford(len(tokens) // 2, _OBSERVED, "observed variables")
    found = [_read_sample(tokens, *place) for place in samples]
    chosen = choose(found, sample, "evidence file")
    if graph is None:
        return chosen
    return _fitting(tokens, chosen, 1 + samples[sample or 0][0], graph)


def _read_sample(tokens: Tokens, begin: int, end: int) -> dict[int, int]:
    tokens.at = begin + 1
    numbers = tokens.integers(end - begin - 1, "evidence", "variable or state", 0, 2**31 - 1)
    found: dict[int, int] = {}
    for i in range(0, len(numbers), 2):
        v, state = numbers[i], numbers[i + 1]
        if v in found:
            what = f"state {found[v]} before, {state} here" if found[v] != state else "both alike"
            raise tokens.error(
                begin + 1 + i, "evidence", f"variable {{}} stands there twice: {what}"
            )
        found[v] = state
    return found


def _fitting(
    tokens: Tokens, sample: dict[int, int], first: int, graph: FactorGraph
) -> dict[int, int]:
    """Return evidence by the numbers of `graph`; its words begin at token `first`."""
    labelled = all(isinstance(name, int) for name in graph.names)
    found: dict[int, int] = {}
    for i, (label, state) in enumerate(sample.items()):
        at = first + 2 * i
        try:
            if labelled and not graph.has_name(label):
                raise IndexError(label)
            v = graph.variable(label) if labelled else range(graph.n_variables)[label]
        except IndexError:
            raise tokens.error(
                at, "evidence", f"there is no variable {{}}: {_variables(graph, labelled)}"
            ) from None
        if state >= graph.cardinalities[v]:
            raise tokens.error(
                at + 1,
                "evidence",
                f"variable {label} has no state {{}}: it has {graph.cardinalities[v]}, numbered "
                "from 0",
            )
        found[v] = state
    return found


def _variables(graph: FactorGraph, labelled: bool) -> str:
    n = graph.n_variables
    if labelled and graph.names != tuple(range(n)):
        shown = ", ".join(map(str, graph.names[:10])) + (", ..." if n > 10 else "")
        return f"the model has {shown}"
    return f"the model has {n}, numbered from 0"


def _no_layout(tokens: Tokens) -> TextFormatError:
    """Return the error for a file that fits no layout."""
    chunk = "evidence"
    tokens.require(len(tokens), chunk, "numbers")
    k = tokens.integer(chunk, "number of observed variables", 0, 2**31 - 1)
    return tokens.error(
        min(1 + 2 * k, len(tokens)),
        chunk,
        f"{k} observed variables take {2 * k} numbers, but {len(tokens) - 1} follow, and they are "
        f"not {k} samples either; stopped at {{}}",
    )


def _is_number(value: Any) -> bool:
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    return whole and int(value) >= 0


def write_uai_evidence(evidence: Mapping[Any, Any], target: Target) -> None:
    r"""Write evidence as the competitions since 2014 do: ``k v1 x1 v2 x2 ...``.

    Parameters
    ----------
    evidence : mapping
        Number of a variable: number of its state, such as `FactorGraph.evidence`.
    target : path or file object
        Where to; a path that ends in ``.gz`` is compressed.

    Raises
    ------
    ValueError
        For evidence that is not a state: the format has no likelihoods.

    Examples
    --------
    >>> import io
    >>> from valuesparse.io import write_uai_evidence
    >>> write_uai_evidence({0: 1, 7: 0}, file := io.StringIO())
    >>> file.getvalue()
    '2 0 1 7 0\n'
    """
    if not isinstance(evidence, Mapping):
        raise ValueError(f"evidence must be a mapping {{variable: state}}, got {evidence!r}")
    words = [len(evidence)]
    for v, state in evidence.items():
        if not (_is_number(v) and _is_number(state)):
            raise ValueError(
                f"evidence[{v!r}] is {state!r}, but evidence files hold only numbers of variables "
                "and of states"
            )
        words += [int(v), int(state)]
    write_text(target, " ".join(map(str, words)) + "\n")
