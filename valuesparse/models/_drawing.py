"""Factor graphs for people: a summary, a table for notebooks, Graphviz and matplotlib."""

from __future__ import annotations

import html as escape
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from valuesparse.models._blocks import Factors, scopes_of
from valuesparse.models._names import listed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["dot", "draw", "html", "summary"]

#: Variables that a table for notebooks has at most.
_ROWS = 60


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def _families(graph: Factors) -> dict[int, tuple[int, ...]]:
    """Return the parents of each variable that has a conditional table."""
    return {v: graph.factor(f).scope[:-1] for f, v in graph.conditional.items()}


def _others(graph: Factors) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield the factors that are no conditional tables, and their variables."""
    for f, scope in enumerate(scopes_of(graph)):
        if f not in graph.conditional:
            yield f, scope


def summary(graph: Factors) -> str:
    """See `FactorGraph.summary`."""
    families = _families(graph)
    others = graph.n_factors - len(families)
    what = _count(graph.n_variables, "variable")
    if families and not others and len(families) == graph.n_variables:
        arcs = sum(map(len, families.values()))
        free = sum(
            math.prod(graph.cardinalities[u] for u in parents) * (graph.cardinalities[v] - 1)
            for v, parents in families.items()
        )
        first = f"Bayesian network: {what}, {_count(arcs, 'arc')}, {_count(free, 'free parameter')}"
    else:
        first = f"Factor graph: {what}, {_count(graph.n_factors, 'factor')}"
        if families:
            first += f", {len(families):,} of them conditional tables"
    lines = [first]
    if graph.n_variables:
        low, high = min(graph.cardinalities), max(graph.cardinalities)
        line = f"states: {low}" if low == high else f"states: {low} to {high}"
        scopes = [tuple(scope) for scope in scopes_of(graph)]
        if scopes:
            sizes = [math.prod(graph.cardinalities[v] for v in scope) for scope in scopes]
            f = max(range(len(sizes)), key=sizes.__getitem__)
            names = [graph.names[v] for v in scopes[f]]
            where = listed(names) or "a constant"
            if f in graph.conditional:
                given = f" given {listed(names[:-1])}" if len(names) > 1 else ""
                where = f"{names[-1]!r}{given}"
            entries = "1 entry" if sizes[f] == 1 else f"{sizes[f]:,} entries"
            line += f"; largest table: {where}, {entries}"
        lines.append(line)
    known = [graph.names[v] for v in graph.evidence]
    lines.append(f"evidence: {f'on {listed(known)}' if known else 'none'}")
    return "\n".join(lines)


def html(graph: Factors) -> str:
    """Return the summary and a table of the variables."""
    families = _families(graph)
    lines = ["<div>", *(f"<div>{escape.escape(line)}</div>" for line in summary(graph).split("\n"))]
    lines += ["<table>", "<tr><th>variable</th><th>states</th><th>parents</th><th>known</th></tr>"]
    for v in range(min(graph.n_variables, _ROWS)):
        named, known = graph.states[v], graph.evidence.get(v)
        shown = str(graph.cardinalities[v]) if named is None else ", ".join(map(str, named[:10]))
        if named is not None and len(named) > 10:
            shown += f", ... ({len(named)})"
        parents = ", ".join(str(graph.names[u]) for u in families.get(v, ()))
        said = "" if known is None else "soft"
        if isinstance(known, int):
            said = str(graph.state_name(v, known))
        cells = (str(graph.names[v]), shown, parents, said)
        lines.append(f"<tr>{''.join(f'<td>{escape.escape(cell)}</td>' for cell in cells)}</tr>")
    if graph.n_variables > _ROWS:
        lines.append(f'<tr><td colspan="4">... ({graph.n_variables:,} variables)</td></tr>')
    return "\n".join([*lines, "</table>", "</div>"])


def _quoted(name: Any) -> str:
    text = str(name).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{text}"'


def dot(graph: Factors) -> str:
    """See `FactorGraph.to_dot`."""
    names = [_quoted(name) for name in graph.names]
    others = list(_others(graph))
    boxes = [_quoted(f"factor {f}") for f, _ in others]
    labels = [""] * len(names)
    if len({*names, *boxes}) < len(names) + len(boxes):
        # Graphviz takes nodes of one text for one node: numbers tell them apart.
        labels = [f"label={name}" for name in names]
        names = [f"v{v}" for v in range(len(names))]
        boxes = [f"f{f}" for f, _ in others]
    lines = ["digraph {"]
    for v, name in enumerate(names):
        said = [labels[v]] if labels[v] else []
        if v in graph.evidence:
            said.append("style=filled")
        lines.append(f"  {name} [{', '.join(said)}];" if said else f"  {name};")
    for v, parents in _families(graph).items():
        lines += [f"  {names[u]} -> {names[v]};" for u in parents]
    for box, (f, scope) in zip(boxes, others, strict=True):
        lines.append(f'  {box} [shape=box, label="{f}"];')
        lines += [f"  {box} -> {names[v]} [dir=none];" for v in scope]
    return "\n".join([*lines, "}"])


def _places(graph: Factors, families: dict[int, tuple[int, ...]]) -> list[tuple[float, float]]:
    """Return where variables stand: in layers below their parents, or in a circle."""
    n = graph.n_variables
    if not any(families.values()):
        turn = 2.0 * math.pi / max(n, 1)
        return [(math.sin(turn * v), math.cos(turn * v)) for v in range(n)]
    depth = [0] * n
    for _ in range(n):  # networks have no cycles: at most as many rounds as the longest path
        before = list(depth)
        for v, parents in families.items():
            depth[v] = 1 + max((depth[u] for u in parents), default=-1)
        if depth == before:
            break
    layers: list[list[int]] = [[] for _ in range(max(depth) + 1)]
    for v in range(n):
        layers[depth[v]].append(v)
    x = [0.0] * n
    for layer in layers:
        # Children go below the middle of their parents.
        middle = {
            v: sum(x[u] for u in families[v]) / len(families[v]) if families.get(v) else 0.0
            for v in layer
        }
        layer.sort(key=lambda v: (middle[v], v))
        for i, v in enumerate(layer):
            x[v] = (i + 1.0) / (len(layer) + 1.0) - 0.5
    return [(x[v], -float(depth[v])) for v in range(n)]


def draw(graph: Factors, ax: Axes | None) -> Axes:
    """See `FactorGraph.draw`, which has made sure of matplotlib."""
    if ax is None:
        from matplotlib.figure import Figure

        ax = Figure(figsize=(8.0, 6.0)).add_subplot()
    families = _families(graph)
    places = _places(graph, families)
    arrow = {"arrowstyle": "-|>", "color": "0.4", "shrinkA": 12.0, "shrinkB": 12.0}
    for v, parents in families.items():
        for u in parents:
            ax.annotate("", places[v], places[u], arrowprops=arrow)
    for _, scope in _others(graph):
        middle = [sum(places[v][i] for v in scope) / max(len(scope), 1) for i in (0, 1)]
        for v in scope:
            ax.plot([middle[0], places[v][0]], [middle[1], places[v][1]], color="0.7", zorder=0)
    for v, (x, y) in enumerate(places):
        box = {
            "boxstyle": "round",
            "facecolor": "0.8" if v in graph.evidence else "white",
            "edgecolor": "0.4",
        }
        name = str(graph.names[v])
        ax.text(x, y, name, ha="center", va="center", bbox=box, parse_math=False)
    ax.set_axis_off()
    ax.margins(0.15)
    ax.autoscale()
    if places:
        xs, ys = zip(*places, strict=True)
        ax.set_xlim(min(xs) - 0.2, max(xs) + 0.2)
        ax.set_ylim(min(ys) - 0.5, max(ys) + 0.5)
    return ax
