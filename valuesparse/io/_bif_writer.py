"""Bayesian networks to the interchange format (BIF)."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any

from valuesparse.io._files import Target, write_text
from valuesparse.io._tables import numbers_of, require_graph
from valuesparse.io.bif import LONGEST_NAME, NAME
from valuesparse.models import FactorGraph

__all__ = ["write_bif"]

#: Characters that the reader takes out of a text before it looks for names.
_TAKEN_OUT = re.compile(r'["\r]|//|/\*')


def write_bif(graph: FactorGraph, target: Target) -> None:
    """Write a Bayesian network in the interchange format.

    Parameters
    ----------
    graph : FactorGraph
        The network: one conditional table for each variable, as `add_cpt`, `read_bif`,
        `from_pgmpy` and `from_pyagrum` make them, and nothing else. States without names are
        numbered.
    target : path or file object
        Where to; a path that ends in ``.gz`` is compressed.

    Raises
    ------
    TypeError
        For an object that is no factor graph.
    ValueError
        For a variable without a conditional table or with two, another factor, evidence, and names
        that the format cannot hold: empty ones, or with one of ``,|(){}[];"`` in them.

    See Also
    --------
    valuesparse.read_bif : Reads it again: the same names, and tables with the same bits.

    Examples
    --------
    >>> import io
    >>> import valuesparse as vs
    >>> graph = vs.FactorGraph({"rain": ["no", "yes"]})
    >>> graph.add_cpt("rain", [], [0.75, 0.25])
    0
    >>> vs.write_bif(graph, file := io.StringIO())
    >>> print(file.getvalue())
    network model {
    }
    variable rain {
      type discrete [ 2 ] { no, yes };
    }
    probability ( rain ) {
      table 0.75, 0.25;
    }
    <BLANKLINE>
    """
    require_graph(graph)
    own = graph.conditional_tables("BIF")
    if graph.evidence:
        v = next(iter(graph.evidence))
        raise ValueError(
            f"BIF holds no evidence, and the graph has some, on {graph.names[v]!r}: write "
            "graph.with_evidence({})"
        )
    names = _unique([_text("variable", name) for name in graph.names], "variables")
    states = [
        _unique(
            [_text(f"state of {name!r}", s) for s in (range(k) if named is None else named)],
            f"states of {name!r}",
        )
        for name, named, k in zip(names, graph.states, graph.cardinalities, strict=True)
    ]
    lines = ["network model {", "}"]
    for name, listed in zip(names, states, strict=True):
        lines += [
            f"variable {name} {{",
            f"  type discrete [ {len(listed)} ] {{ {', '.join(listed)} }};",
            "}",
        ]
    for v, name in enumerate(names):
        lines += _block(graph, own[v], name, names, states)
    write_text(target, "\n".join(lines) + "\n")


def _block(
    graph: FactorGraph, f: int, name: str, names: Sequence[str], states: Sequence[Sequence[str]]
) -> Iterator[str]:
    """Yield the lines of the table of a variable, a row for each state of its parents."""
    factor = graph.factor(f)
    numbers = numbers_of(graph.table_of(factor, f), f"the table of {name!r}")
    parents = factor.scope[:-1]
    given = f" | {', '.join(names[p] for p in parents)}" if parents else ""
    yield f"probability ( {name}{given} ) {{"
    rows = numbers.reshape(-1, numbers.shape[-1]).tolist()
    for of, row in zip(itertools.product(*(states[p] for p in parents)), rows, strict=True):
        head = f"({', '.join(of)})" if parents else "table"
        yield f"  {head} {', '.join(map(repr, row))};"
    yield "}"


def _text(what: str, name: Any) -> str:
    """Return a name as the format holds it."""
    text = str(name)
    fits = NAME.fullmatch(text) is not None and len(text) <= LONGEST_NAME
    if not fits or _TAKEN_OUT.search(text):
        raise ValueError(f"{what}: BIF cannot hold the name {text[:40]!r}; rename it")
    return text


def _unique(texts: list[str], what: str) -> list[str]:
    if len(set(texts)) != len(texts):
        twice = next(t for i, t in enumerate(texts) if t in texts[:i])
        raise ValueError(f"{what}: two of the names are {twice!r} as text; rename one")
    return texts
