"""A sentence as a factor graph: arcs, the trees they may be, and pairs of arcs."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from valuesparse._validation import as_choice, as_flag
from valuesparse.errors import InfeasibleError
from valuesparse.factors import ProjectiveTree, Tree
from valuesparse.models import FactorGraph
from valuesparse.parsing._flow import add_flow, add_nonprojective, flow_names
from valuesparse.parsing._parts import (
    GRANDPARENTS,
    SIBLINGS,
    Parts,
    as_arcs,
    as_nonprojective,
    as_scores,
    as_triples,
    numbered,
)

__all__ = ["graph", "parts_graph"]

Array = npt.NDArray[Any]

_CONSTRAINTS = ("tree", "projective", "flow")


def graph(
    scores: npt.ArrayLike,
    siblings: Parts | None = None,
    grandparents: Parts | None = None,
    constraint: Literal["tree", "projective", "flow"] = "tree",
    single_root: bool = False,
    nonprojective: Parts | None = None,
) -> FactorGraph:
    """Return the factor graph of one sentence: a binary variable for each arc.

    Parameters
    ----------
    scores : (n + 1, n + 1) array
        Log-potentials of arcs at [head, modifier], 0 being the root. Column 0 and the diagonal are
        ignored. An arc of -inf has no variable.
    siblings : pair of arrays (m, 3) and (m,), optional
        Triples (h, m, s) and their log-potentials: arcs (h, m) and (h, s) are both on. (h, s, m)
        is the same pair; the modifiers need not be neighbours.
    grandparents : pair of arrays (m, 3) and (m,), optional
        Triples (g, h, m) and their log-potentials: arcs (g, h) and (h, m) are both on.
    constraint : str
        The kind of arcs. "tree": a tree, by one factor `Tree`. "projective": a tree without
        crossing arcs, by one `ProjectiveTree`. "flow": a tree, by O(n³) small factors and auxiliary
        variables.
    single_root : bool
        Whether exactly one word is attached to the root.
    nonprojective : pair of arrays (m, 2) and (m,), optional
        Arcs (h, m) and log-potentials of each being on while some word between h and m does not
        descend from h. Only with "flow", whose paths say who descends from whom.

    Returns
    -------
    FactorGraph
        Variables are named by their arcs: ``graph.variable((h, m))``. They come first, modifiers
        ascending and heads ascending within. Factors come in this order: a table for each arc, what
        holds the tree together, siblings, grandparents, non-projective arcs.

    Raises
    ------
    ValueError
        Scores as `marginals` refuses them, another constraint, a triple that is listed twice, names
        an arc that has no variable or names one word twice, or a log-potential that is NaN or +inf;
        `nonprojective` without "flow", or with an arc that cannot be.
    TypeError
        Scores that are no real numbers.
    InfeasibleError
        A word without an arc, or a root without one.

    Notes
    -----
    "tree" and "flow" are Fig. 1 and Fig. 3 of MSFXM10. A flow of each word k leads one unit from
    the root to k: ``("flow", h, m, k)`` says that arc (h, m) carries it and ``("path", h, k)`` that
    k descends from h. Variables that are known beforehand, such as those of the root's paths, are
    left out; an arc of word k carries no flow to k. ``("nonprojective", h, m)`` says that an arc is
    (Martins et al., 2009). The linear programs of both graphs
    (``decode(method="lp")``) have one optimum. Belief propagation does better on "tree".

    Examples
    --------
    >>> import numpy as np, valuesparse as vs
    >>> graph = vs.parsing.graph(np.zeros((3, 3)), grandparents=([(0, 2, 1)], [1.0]))
    >>> graph.variable((2, 1))
    1
    >>> r = vs.infer(graph)
    >>> r[2, 1].round(3).tolist()  # one tree of three has e times the weight of the others
    [0.424, 0.576]
    """
    as_choice("constraint", constraint, _CONSTRAINTS)
    table = as_scores("scores", scores)
    n = len(table) - 1
    number = numbered(table)
    modifiers, heads = np.nonzero(number.T >= 0)
    arcs = np.stack([heads, modifiers], axis=1)
    headed = (number[:, 1:] >= 0).any(axis=0)
    if not headed.all():
        word = 1 + int(np.argmin(headed))
        raise InfeasibleError(
            0, -1, message=f"word {word} has no head: all of scores[:, {word}] is -inf"
        )
    if n > 0 and not (number[0] >= 0).any():
        raise InfeasibleError(
            0, -1, message="no word can be attached to the root: all of scores[0] is -inf"
        )
    names: list[Any] = list(zip(heads.tolist(), modifiers.tolist(), strict=True))
    if constraint == "flow":
        names += flow_names(arcs, n)
    elif nonprojective is not None:
        raise ValueError(f"nonprojective wants constraint 'flow', not {constraint!r}")
    crossing, costs = as_nonprojective(nonprojective, number)
    first = len(names)
    names += [("nonprojective", *arcs[a].tolist()) for a in crossing]
    pairs = []
    for name, given, kind in (
        ("siblings", siblings, SIBLINGS),
        ("grandparents", grandparents, GRANDPARENTS),
    ):
        rows, weights = as_triples(name, given)
        pairs.append((as_arcs(name, rows, number, kind), weights))

    made = FactorGraph([2] * len(names))
    variables = np.arange(len(arcs))
    unary = np.zeros((len(arcs), 2))
    unary[:, 1] = table[heads, modifiers]
    made.add_many(variables[:, None], unary)
    if constraint == "flow":
        add_flow(made, arcs, n, single_root)
    elif n > 0:
        tree = Tree if constraint == "tree" else ProjectiveTree
        made.add(tree(arcs, variables.tolist(), as_flag("single_root", single_root)))
    for scopes, weights in pairs:
        tables = np.zeros((len(weights), 2, 2))
        tables[:, 1, 1] = weights
        made.add_many(scopes, tables)
    if len(crossing):
        unary = np.zeros((len(crossing), 2))
        unary[:, 1] = costs
        made.add_many(np.arange(first, len(names))[:, None], unary)
        add_nonprojective(made, arcs, n, crossing, first)
    return made.with_names(names)


def parts_graph(
    n: int, kinds: Array, nodes: Array, potentials: Array, constraint: Any, single_root: bool
) -> FactorGraph:
    """Return the factor graph of parts (P,), (P, 3), (P,) of a sentence of n words."""
    scores = np.full((n + 1, n + 1), -np.inf)
    arcs = kinds == 0
    scores[nodes[arcs, 0], nodes[arcs, 1]] = potentials[arcs]
    siblings, grandparents = ((nodes[kinds == k], potentials[kinds == k]) for k in (1, 2))
    crossing = kinds == 3
    arcs_of = (nodes[crossing, :2], potentials[crossing]) if crossing.any() else None
    return graph(scores, siblings, grandparents, constraint, single_root, arcs_of)
