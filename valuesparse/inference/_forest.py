"""Chains and trees: what each public function does with one.

Both are forests to the native engine. The components of one are sequences or trees, its variables
positions or nodes, and its edges are numbered by the variable before them or by the child.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from valuesparse import _forest as native
from valuesparse._buffers import empty, grown
from valuesparse._validation import as_states, require_room
from valuesparse.inference import _certified
from valuesparse.inference._asked import (
    NO_COUNTS,
    add_counts,
    ask_piece,
    require_feasible,
)
from valuesparse.inference._certify import certified as certified
from valuesparse.inference._pieces import owner_of, pieces
from valuesparse.inference._watch import Watch, too_late
from valuesparse.models import Chain, Tree
from valuesparse.models.chain import rescored
from valuesparse.models.sparse_transition import SparseTransition, limits
from valuesparse.models.tree import rescored as rescored_tree
from valuesparse.results import ChainResult, TreeResult
from valuesparse.results._listed import Listed, joined, listed
from valuesparse.threads import resolve

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

METHODS = ("auto", "exact", "islands")

#: Bytes of marginals that each thread makes at a time, where few of them are listed; and the fewest
#: variables, so that many components go side by side.
_LISTED_BYTES, _LISTED_SIZE = 1 << 24, 2048

#: Entries of tables whose largest NumPy finds faster one place at a time.
_FEW = 16


def _ask(model: Chain | Tree, workers: int, **wanted: Any) -> Floats:
    """Return ``log_z`` (B,) of an exact call, which fills the arrays that are `wanted`."""
    log_z = np.empty(model.forest.shape[2])
    infeasible, _ = native.infer(model.forest, workers, log_z, **wanted)
    require_feasible(model, infeasible)
    return log_z


def result_of(model: Chain | Tree, *fields: Any) -> Any:
    """Return the record of the model's kind."""
    return ChainResult(model, *fields) if isinstance(model, Chain) else TreeResult(model, *fields)


def _tables(model: Chain | Tree) -> Array:
    return model.transition if isinstance(model, Chain) else model.pairwise


def limits_of(model: Chain | Tree) -> tuple[float, float]:
    """Return what no log-potential of an edge is below, and above; 0 where there is none."""
    if model.table is None:
        listed = model.sparse_transition if isinstance(model, Chain) else model.sparse_pairwise
        assert listed is not None
        return limits(listed)
    low, high = (float(f(model.table)) if model.table.size else 0.0 for f in (np.min, np.max))
    return low, high


def infer(
    model: Chain | Tree,
    zeta: float,
    rounds: int,
    workers: int,
    method: str,
    deadline: float | None,
    progress: Callable[[int, int], object] | None,
    keep: float | None = None,
) -> Any:
    """See :func:`valuesparse.infer`."""
    if keep is not None:
        return infer_listed(model, zeta, rounds, workers, Watch(deadline, progress), keep)
    n, k, count = model.forest.shape
    marginals = empty((n, k), model.dtype)
    islands = np.full(n, -1, dtype=np.int32)
    log_z = np.empty(count)
    # Rounds of islands count positions again.
    report = None if progress is None else Watch(None, progress).part(0, n, n)
    infeasible, counts = native.infer(
        model.forest, workers, log_z, marginals, zeta=zeta, revisit=rounds, islands=islands,
        deadline=deadline, progress=report, late=too_late(deadline),
    )  # fmt: skip
    require_feasible(model, infeasible)
    if progress is not None:
        progress(n, n)
    return result_of(model, marginals, log_z, islands, zeta, counts)


def piece_size(kind: np.dtype[Any], labels: int) -> int:
    """Return how many variables each thread answers at a time, where few marginals are listed."""
    return max(_LISTED_SIZE, _LISTED_BYTES // (kind.itemsize * max(1, labels)))


def infer_listed(
    model: Chain | Tree,
    zeta: float,
    rounds: int,
    workers: int,
    watch: Watch,
    keep: float,
    dtype: np.dtype[Any] | None = None,
    narrow: bool = False,
) -> Any:
    """Return a result that lists marginals, made piece by piece in the same memory.

    With `dtype` it is computed in that type; `narrow`: in float32 from scores in float64.
    """
    n, k, count = model.forest.shape
    kind = model.dtype if dtype is None else dtype
    size = workers * piece_size(kind, k)
    parts = pieces(model, size, kind)
    islands = np.full(n, -1, dtype=np.int32)
    log_z, counts = np.empty(count), NO_COUNTS
    lists: list[Listed] = []
    places: list[slice | Integers] = []
    memory, prepared, done = empty((0, k), kind), None, 0
    for part in parts:
        if zeta >= 1.0 and part.size < n and prepared is None and not narrow:
            prepared = native.Prepared(part.forest)
        # No piece of several components has more rows than `size`.
        memory = grown(memory, part.size, min(size, n))
        rows, own = memory[: part.size], np.empty(part.forest.shape[2])
        some = np.full(part.size, -1, dtype=np.int32)
        found = ask_piece(
            model, part, workers, own, rows, zeta=zeta, revisit=rounds, islands=some,
            deadline=watch.left(), progress=watch.part(done, done + part.size, n), late=watch.late,
            prepared=prepared, narrow=narrow,
        )  # fmt: skip
        lists.append(listed(rows, keep, workers))
        places.append(part.variables)
        islands[part.variables], log_z[part.components] = some, own
        counts = add_counts(counts, found)
        done += part.size
    watch.finish(n)
    # The table of all pieces goes before lists stand beside their sum.
    prepared = None
    whole, total = joined(lists), tuple(int(x) for x in counts)
    if isinstance(model, Tree):
        order = np.concatenate([np.arange(n)[part] for part in places])
        whole = whole.chosen(np.argsort(order))
    return result_of(model, None, log_z, islands, zeta, total, keep, whole)


def log_z(model: Chain | Tree, workers: int, memory_limit: int | None = None) -> Floats:
    """Return ``log_z`` (B,) alone: messages one way, of which none is kept for long."""
    return _ask(model, workers)


def decode(model: Chain | Tree, k: int, workers: int, watch: Watch) -> tuple[Integers, Floats]:
    """Return states (k, N) and scores (k, B)."""
    if k != 1 and isinstance(model, Tree):
        raise ValueError(f"n_best={k}: only chains have an n-best list; leave n_best out for trees")
    n, _, count = model.forest.shape
    require_room("n_best", k, n + count)
    states, score = empty((k, n), np.int64), np.empty((k, count))
    found = native.decode(
        model.forest, k, workers, states, score, watch.left(), watch.part(0, n, n), watch.late
    )
    require_feasible(model, found)
    watch.finish(n)
    return states, score


def sample(
    model: Chain | Tree, count: int, generator: np.random.Generator, workers: int, watch: Watch
) -> Integers:
    """Return (count, N) samples."""
    n = model.forest.shape[0]
    require_room("size", count, n)
    states = empty((count, n), np.int64)
    # Blocks bound the memory of the uniforms; drawing them in order keeps samples reproducible.
    block = max(1, 1_000_000 // max(1, n))
    uniforms = empty((min(block, count), n), np.float64)
    for first in range(0, max(count, 1), block):
        rows = states[first : first + block]
        part = watch.part(first * n, (first + rows.shape[0]) * n, count * n)
        found = native.sample(
            model.forest, generator.random(out=uniforms[: rows.shape[0]]), rows, workers,
            watch.left(), part, watch.late,
        )  # fmt: skip
        require_feasible(model, found)
    watch.finish(count * n)
    return states


def score(model: Chain | Tree, states: npt.ArrayLike, workers: int) -> Floats:
    """Return the sum of log-potentials of given states, per component (B,)."""
    n, k, count = model.forest.shape
    noun = "labels" if isinstance(model, Chain) else "states"
    total = np.empty(count)
    native.score(model.forest, as_states(states, n, k, noun=noun), total, workers)
    return total


def pairwise(model: Chain | Tree, threads: int | None, edges: tuple[int, int] | Integers) -> Array:
    """Return the edge marginals of chains, edges (first, last), or of those above some nodes."""
    n, k, _ = model.forest.shape
    if isinstance(edges, tuple):
        rows: Any = edges
        size = edges[1] - edges[0]
    else:
        rows, size = np.full(n, -1, dtype=np.int64), edges.size
        rows[edges] = np.arange(size)
    answer = empty((size, k, k), model.dtype)
    _ask(model, resolve(threads), pairwise=answer, edges=rows)
    return answer


def expectations(model: Chain | Tree, threads: int | None) -> Floats:
    """Return the sum of edge marginals, (K, K), or of those of each type, (types, K, K)."""
    typed = isinstance(model, Tree) and model.edge_type is not None
    k = model.n_labels
    typed_shape = model.table.shape if typed and model.table is not None else (k, k)
    sums = np.zeros(typed_shape)
    _ask(model, resolve(threads), expectations=sums)
    return sums


def listed_expectations(model: Chain | Tree, threads: int | None) -> csr_array:
    """Return the sum of edge marginals (K, K) of the pairs that are listed, or of all."""
    from scipy.sparse import csr_array

    k, table = model.n_labels, model.forest.sparse
    if table is None:
        sums = expectations(model, threads)
        if sums.ndim == 3:
            raise ValueError("sparse: a tree with several tables has dense expectations only")
        given = model.sparse_transition if isinstance(model, Chain) else model.sparse_pairwise
        if given is None:
            return csr_array(sums)
        entries = given.entries.tocoo()
        some = sums[entries.row, entries.col], given.entries.indices, given.entries.indptr
        return csr_array(some, shape=(k, k), copy=True)
    start, columns = table.pairs()
    sums = np.zeros(columns.size)
    _ask(model, resolve(threads), expectations=sums, pairs=table)
    return csr_array((sums, columns.astype(np.int64), start), shape=(k, k))


def gradient(
    model: Chain,
    workers: int,
    *,
    marginals: bool = True,
    sums: bool = True,
    weights: Floats | None = None,
) -> tuple[Array | None, Floats, Floats | None]:
    """Return marginals (N, K), ``log_z`` (B,) and summed edge marginals (K, K), from one call.

    They are the gradient of ``log_z``; what is not asked for is None. `weights` (B,) weigh the
    sequences in the sum of edge marginals, and nothing else.
    """
    k = model.n_labels
    nodes = empty((model.n_positions, k), model.dtype) if marginals else None
    edges = np.zeros((k, k)) if sums else None
    log_z = _ask(model, workers, marginals=nodes, expectations=edges, weights=weights)
    return nodes, log_z, edges


def entropies(
    model: Chain | Tree, threads: int | None, marginals: Array, fill: bool, unseen: float
) -> Floats:
    """Return the entropy of each component, (B,); `fill`: marginals are computed, too.

    log Z less the expected score, where rounding moves that by no more than `unseen`, absolute
    below one nat and relative above; else the same of scores in float64 whose largest are 0; else
    label by label, in logarithms.
    """
    if model.n_labels == 1:  # nothing to round
        return np.zeros(model.forest.shape[2])
    value, lost = _differences(model, threads, marginals, fill, unseen)
    if lost.any():
        near = _centred(_without_ends(model), marginals)
        wide = empty(marginals.shape, near.dtype)
        again, left = _differences(near, threads, wide, True, unseen)
        value[lost] = again[lost]
        lost &= left
        if lost.any():
            found = np.empty(value.size)
            native.entropies(near.forest, wide, lost.view(np.uint8), found, resolve(threads))
            value[lost] = found[lost]
    return value


def _differences(
    model: Chain | Tree, threads: int | None, marginals: Array, fill: bool, unseen: float
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return log Z less the expected scores, (B,), and in which rounding may be seen, (B,)."""
    model = _without_ends(model)
    n, _, count = model.forest.shape
    energies = np.empty(n)
    workers = resolve(threads)
    log_z = _ask(model, workers, marginals=marginals if fill else None, energies=energies)
    if model.table is None:
        top = np.array([limits_of(model)[1]])
    else:
        k = model.n_labels
        top = _tops(model.table.reshape(-1, k * k)).astype(np.float64)
    largest = np.where(np.isfinite(top), top, 0.0)  # 0 where a table forbids everything
    value, lost = np.empty(count), np.ones(count, bool)
    score, size = np.empty(count), np.empty(count)
    for centred in (False, True):
        native.expected(model.forest, marginals, energies, largest, centred, score, size, workers)
        with np.errstate(over="ignore", invalid="ignore"):
            value[lost] = (log_z - score)[lost]
            error = (np.abs(log_z) + size) * np.finfo(model.dtype).eps
            # NaN where an edge took logarithms: nothing would be right.
            lost &= ~(error <= unseen * np.maximum(value, 1.0))
        if not lost.any():
            break
    return value, lost


def _centred(model: Chain | Tree, marginals: Array) -> Chain | Tree:
    """Return the same distribution in float64, in which the scores of likely labels are near 0.

    Those of the most likely labels are taken out: others may be larger, and forbidden by what is
    beside them. Tables and ends that components share lose their median, so that none shows in
    another.
    """
    best = np.empty(len(marginals), np.int64)
    unary = empty(marginals.shape, np.float64)
    native.near_likely(model.forest, marginals, best, unary)
    steps: Array | SparseTransition
    if model.table is None:  # a list with one default: see `_without_ends`
        listed = model.sparse_transition if isinstance(model, Chain) else model.sparse_pairwise
        assert listed is not None
        default = listed.default
        middle = default if default > -np.inf else _median(listed.entries.data)
        coo = listed.entries.tocoo()
        scores = _less(coo.data, np.full(1, middle), (1,))
        entries = type(coo)((scores, (coo.row, coo.col)), shape=coo.shape)
        steps = SparseTransition(entries, default - middle)
    else:
        own = model.table.reshape(-1, *model.table.shape[-2:])
        if model.table.ndim == 2 or (isinstance(model, Tree) and model.edge_type is not None):
            middles = np.array([_median(table) for table in own])
        else:
            (before, after), (_, tables) = ends(model), _edges(model)
            middles = np.zeros(len(own))
            middles[tables] = own[tables, best[before], best[after]]
        steps = _less(own, middles, (-1, 1, 1)).reshape(model.table.shape)
    if isinstance(model, Tree):
        return rescored_tree(model, unary, steps)
    start, end = (
        None if x is None else _less(x, np.full(1, _median(x)), (1,))
        for x in (model.start, model.end)
    )
    return rescored(model, unary, steps, start, end)


def _less(scores: Array, middle: Array, shape: tuple[int, ...]) -> Floats:
    """Return scores less numbers of this shape beside them, where these are finite, as float64."""
    known = np.where(np.isfinite(middle), middle, 0.0).astype(np.float64)
    return scores.astype(np.float64) - known.reshape(shape)


def _median(scores: Array) -> float:
    """Return a middle one of those that are finite, or 0."""
    finite = scores[np.isfinite(scores)]
    return float(np.partition(finite, finite.size // 2)[finite.size // 2]) if finite.size else 0.0


def _tops(rows: Array) -> Array:
    """Return the largest entry of each row, (n,)."""
    if not 0 < rows.shape[1] <= _FEW:
        return rows.max(axis=1, initial=-np.inf)
    most = rows[:, 0].copy()
    for column in rows.T[1:]:
        np.maximum(most, column, out=most)
    return most


def _without_ends(model: Chain | Tree) -> Chain | Tree:
    """Return the same distribution, where the default of a list has no rows and columns.

    Scores of one variable alone are moved to its own scores, so that expected scores of edges
    need no table of all pairs.
    """
    table = model.sparse_transition if isinstance(model, Chain) else model.sparse_pairwise
    if model.forest.listed is None or table is None:
        return model
    if table.rows is None and table.columns is None:
        return model
    zero = np.zeros(table.n_labels, dtype=model.dtype)
    rows, columns = (zero if x is None else x for x in (table.rows, table.columns))
    entries = table.entries.tocoo()
    some = (entries.data - rows[entries.row]) - columns[entries.col], (entries.row, entries.col)
    plain = SparseTransition(type(entries)(some, shape=entries.shape), table.default)
    before, after = (np.bincount(x, minlength=len(model.unary)) for x in ends(model))
    unary = model.unary + before[:, None] * rows + after[:, None] * columns
    unary = unary.astype(model.dtype, copy=False)
    if isinstance(model, Tree):
        return Tree(model.parent, unary, plain, allowed=model.allowed)
    return Chain(
        unary, plain, model.lengths, start=model.start, end=model.end, allowed=model.allowed
    )


def _edges(model: Chain | Tree) -> tuple[Integers, Integers]:
    """Return where each edge has its rows of messages, and its table where there are several."""
    if isinstance(model, Tree):
        children = np.flatnonzero(model.parent >= 0)
        return children, children if model.edge_type is None else model.edge_type[children]
    inner = np.ones(model.n_positions, dtype=bool)
    inner[model.offset[1:][model.lengths > 0] - 1] = False
    left = np.flatnonzero(inner)
    return left, np.arange(left.size)


#: Scores below this have the exponential 0, which takes long to find.
_LEAST_EXP = -745.2


def _exp(scores: Array) -> None:
    """Take exponentials in place, of the entries alone that have any where those are few."""
    possible = scores > _LEAST_EXP
    few = 4 * np.count_nonzero(possible) < scores.size
    with np.errstate(under="ignore"):
        found = np.exp(scores[possible] if few else scores, out=None if few else scores)
    if few:
        scores.fill(0.0)
        scores[possible] = found


def iter_edge_marginals(
    model: Chain | Tree, threads: int | None, block: int, edges: Integers | None = None
) -> Iterator[Array]:
    """Yield pairwise marginals `block` edges at a time, float64, from one pass of messages.

    Those of all edges, or of some in their order.
    """
    n, k, _ = model.forest.shape
    left, right = empty((n, k), float), empty((n, k), float)
    wanted: dict[str, Array] = {"log_left": left, "log_right": right}
    mass = None
    if isinstance(model, Tree):
        mass = np.empty(n)
        wanted.update(log_mass=mass, marginals=empty((n, k), model.dtype))
    _ask(model, resolve(threads), **wanted)
    (rows, tables), t = _edges(model), _tables(model)
    if edges is not None:
        rows, tables = rows[edges], tables[edges]
    for first in range(0, rows.size, block):
        some = slice(first, first + block)
        at = rows[some]
        scores = left[at, :, None] + (t if t.ndim == 2 else t[tables[some]])
        scores += right[at, None, :]
        scores -= scores.max(axis=(1, 2), keepdims=True) if mass is None else mass[at, None, None]
        _exp(scores)
        if mass is None:
            scores /= scores.sum(axis=(1, 2), keepdims=True)
        yield scores


def ends(model: Chain | Tree) -> tuple[Integers, Integers]:
    """Return the variables before and after each edge."""
    before, _ = _edges(model)
    if isinstance(model, Tree):
        return model.parent[before], before
    return before, before + 1


#: The component of each variable.
owner = owner_of


#: The proof that passes give.
proof_for = _certified.proof_for
