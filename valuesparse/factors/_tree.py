"""Arcs that are a dependency tree."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse._validation import as_flag, as_items
from valuesparse.factors._structured import Floats, NativeStructured, Polytope

__all__ = ["ProjectiveTree", "Tree"]


class _Arcs(NativeStructured):
    """A structured factor over the arcs of one sentence."""

    __slots__ = ("arcs", "single_root")

    arcs: tuple[tuple[int, int], ...]
    single_root: bool
    _fixed = frozenset({"scope", "arcs", "single_root"})

    def __init__(
        self, arcs: npt.ArrayLike, variables: Sequence[int], single_root: bool = False
    ) -> None:
        super().__init__(tuple(as_items("variables", variables)))
        given = np.asarray(arcs)
        if given.shape != (len(self.scope), 2) or given.dtype.kind not in "iu":
            raise ValueError(
                f"arcs must be {len(self.scope)} pairs (head, modifier) of whole numbers, one for "
                f"each variable, got shape {given.shape} and dtype {given.dtype}"
            )
        self.arcs = tuple((int(h), int(m)) for h, m in given)
        self.single_root = as_flag("single_root", single_root)
        first: dict[tuple[int, int], int] = {}
        for i, (h, m) in enumerate(self.arcs):
            if h < 0 or m < 1 or h == m:
                raise ValueError(
                    f"arcs[{i}] is {(h, m)}: an arc leads from a head >= 0, the root being 0, to "
                    "another word >= 1"
                )
            if first.setdefault((h, m), i) != i:
                raise ValueError(f"arcs[{i}] is {(h, m)}, as arcs[{first[h, m]}]: list it once")
        words = int(given.max())
        # In one array: it is handed over with every call.
        self._given = np.array([self.single_root, words, *given.ravel()], dtype=np.int64)
        headed = {m for _, m in self.arcs}
        if len(headed) < words:
            missing = next(m for m in range(1, words + 1) if m not in headed)
            raise ValueError(
                f"arcs must lead to each word from 1 to {words}: none does to {missing}"
            )

    @property
    def n_words(self) -> int:
        """Number of words, the root apart."""
        return int(self._given[1])

    def __repr__(self) -> str:
        single = ", single_root=True" if self.single_root else ""
        return f"{type(self).__name__}({list(self.arcs)}, {list(self.scope)}{single})"


class Tree(_Arcs):
    """The arcs that are on are a dependency tree: each word has one head, and none is a cycle.

    Parameters
    ----------
    arcs : array_like of int, shape (k, 2)
        (head, modifier) of each variable; words count from 1, and 0 is the root. Arcs that are not
        listed are off.
    variables : sequence of int
        Their k binary variables.
    single_root : bool, optional
        Whether exactly one word is attached to the root.

    Attributes
    ----------
    arcs : tuple of (int, int)
    single_root : bool
    n_words : int

    Raises
    ------
    ValueError
        For arcs that are listed twice or lead from a word to itself or to the root, a word without
        arcs, or variables that are named twice.

    Notes
    -----
    The TREE factor of MSFXM10. All messages take O(n³) operations, by the matrix-tree theorem
    without subtraction; the best tree O(n²); joints of any pairs O(n³) and O(1) for each, but O(n³)
    for each first arc, thousands of times as long, where scores lie a hundred or more apart.
    There are no `max_marginals`: `decode` serves it where the graph has no cycle.

    Examples
    --------
    >>> import valuesparse as vs
    >>> arcs = [(0, 1), (0, 2), (1, 2), (2, 1)]
    >>> graph = vs.FactorGraph([2] * 4)
    >>> _ = graph.add(vs.factors.Tree(arcs, range(4)))
    >>> r = vs.infer(graph)  # three trees
    >>> [round(float(p[1]), 3) for p in r.marginals]
    [0.667, 0.667, 0.333, 0.333]
    """

    __slots__ = ()
    _kind = "Tree"
    has_max_product = False

    def max_marginals(self, messages: Floats) -> Floats:
        """Raise NotImplementedError: it would take two runs of `best` for each arc."""
        raise NotImplementedError(f"{type(self).__name__} has no max_marginals")

    def polytope(self) -> Polytope:
        """Return ``(A_ub, b_ub, A_eq, b_eq, auxiliary)``: the flows of MSFXM10, Fig. 3, sparse.

        The auxiliary variables f[w, a] are the flow of word w through arc a: one unit from the root
        to w, within the arcs.
        """
        from scipy import sparse

        k, n = len(self.scope), self.n_words
        heads, modifiers = np.array(self.arcs).T
        arc = np.arange(k)
        into = sparse.csr_array((np.ones(k), (modifiers - 1, arc)), shape=(n, k))
        out_of = sparse.csr_array((np.ones(k), (heads, arc)), shape=(n + 1, k))[1:]
        within = sparse.hstack([sparse.kron(-np.ones((n, 1)), sparse.eye(k)), sparse.eye(n * k)])
        rows: list[Any] = [[into, None], [None, sparse.kron(sparse.eye(n), into - out_of)]]
        right = [np.ones(n), np.eye(n).ravel()]
        if self.single_root:
            rows.append([sparse.csr_array((heads == 0).astype(float)[None]), None])
            right.append(np.ones(1))
        equal = sparse.bmat(rows)
        return (
            sparse.csr_array(within),
            np.zeros(n * k),
            equal.tocsr(),
            np.concatenate(right),
            n * k,
        )


class ProjectiveTree(_Arcs):
    """The arcs that are on are a dependency tree without crossing arcs, those of the root included.

    Parameters
    ----------
    arcs : array_like of int, shape (k, 2)
        (head, modifier) of each variable; words count from 1, and 0 is the root. Arcs that are not
        listed are off.
    variables : sequence of int
        Their k binary variables.
    single_root : bool, optional
        Whether exactly one word is attached to the root.

    Attributes
    ----------
    arcs : tuple of (int, int)
    single_root : bool
    n_words : int

    Raises
    ------
    ValueError
        For arcs that are listed twice or lead from a word to itself or to the root, a word without
        arcs, or variables that are named twice.

    Notes
    -----
    All messages take O(n³) operations (Eisner's inside-outside algorithm), sums and maxima alike;
    joints take a run for each first arc.

    Examples
    --------
    >>> import itertools
    >>> import numpy as np
    >>> import valuesparse as vs
    >>> arcs = [(h, m) for h, m in itertools.product(range(4), range(1, 4)) if h != m]
    >>> graph = vs.FactorGraph([2] * len(arcs))
    >>> _ = graph.add(vs.factors.ProjectiveTree(arcs, range(len(arcs))))
    >>> round(float(np.exp(vs.infer(graph).log_z)))
    12
    """

    __slots__ = ()
    _kind = "ProjectiveTree"

    def polytope(self) -> Polytope:
        """Return ``(A_ub, b_ub, A_eq, b_eq, auxiliary)``: how Eisner's algorithm makes a tree.

        The auxiliary variables say which split each span takes, O(n³) in all. A span is made as
        often as it is used, the whole sentence once. No two parts of a span share a word, so that
        every corner of this is integral (Martin, Rardin and Campbell, 1990): it is the hull itself.
        """
        from scipy import sparse

        k, n = len(self.scope), self.n_words
        spans = _Spans()
        for i, (h, m) in enumerate(self.arcs):
            left, right = min(h, m), max(h, m)
            spans.uses(("open", left, right), i)
            spans.makes(("arc", h, m), i)
        column = k
        for left, right in itertools.combinations(range(n + 1), 2):
            # Where the two words' own spans meet; then how far each reaches beyond its modifier.
            for middle in range(left, right):
                spans.makes(("open", left, right), column)
                spans.uses(("own", left, middle), column)
                spans.uses(("own", right, middle + 1), column)
                column += 1
            for end, head in ((right, left), (left, right))[: 2 if left else 1]:
                step = 1 if head < end else -1
                for modifier in range(head + step, end + step, step):
                    spans.makes(("own", head, end), column)
                    spans.uses(("arc", head, modifier), column)
                    spans.uses(("own", modifier, end), column)
                    column += 1
        equal, right_side = spans.rows(("own", 0, n), column)
        if self.single_root:  # every tree has at least one: a face
            roots = np.array([h == 0 for h, _ in self.arcs] + [False] * (column - k), dtype=float)
            equal = sparse.vstack([equal, sparse.csr_array(roots[None])]).tocsr()
            right_side = np.append(right_side, 1.0)
        return sparse.csr_array((0, column)), np.zeros(0), equal, right_side, column - k


class _Spans:
    """Spans of a sentence: which columns make each, and which use it."""

    def __init__(self) -> None:
        self._number: dict[tuple[str, int, int], int] = {}
        self._entries: list[tuple[int, int, float]] = []

    def makes(self, span: tuple[str, int, int], column: int) -> None:
        """Let a column make a span."""
        self._add(span, column, 1.0)

    def uses(self, span: tuple[str, int, int], column: int) -> None:
        """Let a column use a span; a word by itself is always there."""
        if span[0] != "own" or span[1] != span[2]:
            self._add(span, column, -1.0)

    def rows(self, goal: tuple[str, int, int], columns: int) -> tuple[Any, Floats]:
        """Return the equations: each span is made as often as it is used, the goal once."""
        row, column, sign = zip(*self._entries, strict=True)
        from scipy import sparse

        shape = (len(self._number), columns)
        right = np.zeros(shape[0])
        right[self._number[goal]] = 1.0
        return sparse.csr_array((sign, (row, column)), shape=shape), right

    def _add(self, span: tuple[str, int, int], column: int, sign: float) -> None:
        self._entries.append((self._number.setdefault(span, len(self._number)), column, sign))
