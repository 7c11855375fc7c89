"""Marginals of chains and trees within a tolerance that is proved, or for a price that is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse._validation import as_probability, as_work
from valuesparse.inference import _certified, _forest
from valuesparse.inference._asked import (
    ask_piece,
    fitting,
    in_types,
    pays_single,
)
from valuesparse.inference._memory import empty
from valuesparse.inference._pieces import owner_of, pieces_of, sizes_of
from valuesparse.inference._supports import Supports, may_pay
from valuesparse.inference._watch import Watch
from valuesparse.models import Chain, Tree
from valuesparse.results._certificate import Proof, interval
from valuesparse.results._listed import Listed, joined, listed

__all__ = ["infer"]

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_SINGLE, _DOUBLE = np.dtype(np.float32), np.dtype(np.float64)

#: Where counts of a call have messages that read a part of a table.
_SPARSE_MESSAGES = 3
#: Bytes of marginals that are made between two looks at what `work` still buys: of variables' own
#: scores, and by passes.
_OWN_BYTES, _BOUGHT_BYTES = 1 << 18, 1 << 21


def infer(
    model: Chain | Tree,
    workers: int,
    deadline: float | None,
    progress: Callable[[int, int], object] | None,
    *,
    keep: float | None,
    tol: float | None,
    work: float | None,
) -> Any:
    """Return a result with a proof, whose error is at most `tol`, or what `work` buys."""
    watch = Watch(deadline, progress)
    if work is not None:
        return _for_a_price(model, workers, watch, keep, as_work(work))
    assert tol is not None
    wanted = as_probability("tol", tol)
    least = _certified.floor_of(model)
    if wanted < least:
        raise ValueError(
            f"tol={wanted:g} is below {least:.3g}, what rounding leaves to prove for sequences or "
            f"trees of this size, {model.n_labels} labels and these scores; ask for at least that"
        )
    why = f"tol={wanted:g}"
    fits = fitting(model, wanted)
    if isinstance(model, Chain) and may_pay(model, wanted, fits):
        supports = Supports.of(model, wanted, fits)
        if supports is not None:
            return _with_supports(model, supports, workers, watch, keep, why, fits)
    if keep is None and model.dtype == _DOUBLE and not pays_single(model):
        result = _forest.infer(model, 1.0, -1, workers, "exact", deadline, progress)
        return _proved(result, model, why, np.zeros(result.log_z.size, dtype=bool))
    if keep is not None:
        return _listed(model, workers, watch, keep, why, bool(fits.all()))
    return _in_types(model, workers, watch, why, fits)


def _in_types(
    model: Chain | Tree, workers: int, watch: Watch, why: str, single: npt.NDArray[np.bool_]
) -> Any:
    """Return the result of exact passes, in float32 where `single` says so."""
    n = model.forest.shape[0]
    marginals, log_z, counts = in_types(model, workers, watch, single)
    watch.finish(n)
    total = tuple(int(x) for x in counts)
    islands = np.full(n, -1, dtype=np.int32)
    result = _forest.result_of(model, marginals, log_z, islands, 1.0, total)
    return _proved(result, model, why, single)


def _with_supports(
    model: Chain,
    supports: Supports,
    workers: int,
    watch: Watch,
    keep: float | None,
    why: str,
    fits: npt.NDArray[np.bool_],
) -> Any:
    """Return the result of the chains that supports pay for, and of passes for the others."""
    n, k, count = model.forest.shape
    size = n if keep is None else workers * _forest.piece_size(model.dtype, k)
    found = supports.passes(size, workers, watch, keep)
    taken, steps = supports.taken, 2 * np.maximum(model.lengths - 1, 0)
    counts = [int(x) for x in found.counts]
    counts[_SPARSE_MESSAGES] += int(steps[taken].sum())
    islands = np.full(n, -1, dtype=np.int32)
    result = _forest.result_of(
        model, found.marginals if keep is None else None, found.log_z, islands, 1.0, tuple(counts),
        keep, None if keep is None else joined(found.lists),
    )  # fmt: skip
    own, fast = int(taken.sum()), int((fits & ~taken).sum())
    if own == 0:
        return _proved(result, model, why, fits)
    rows, columns, repairs = (int(x) for x in supports.counts.sum(axis=0))
    work = int(steps[~taken].sum()) * k * k + (rows + 2 * columns) * k
    stats = _stats(result, count - own - fast, fast, work)
    stats.update(sequences_supports=own, rows=rows, columns=columns, repairs=repairs)
    others = ("float32 arithmetic", fast), ("exact", count - own - fast)
    reason = f"{why}: supports for {own} of {count} sequences"
    reason += "".join(f", {name} for {some}" for name, some in others if some)
    proof = supports.proof(found.log_z)
    return result.with_proof(proof, model, method="certified", reason=reason, stats=stats)


def _proved(result: Any, model: Chain | Tree, why: str, single: npt.NDArray[np.bool_]) -> Any:
    """Return the result with its proof and what ran."""
    fast = int(np.count_nonzero(single))
    steps = model.forest.shape[0] - int(np.count_nonzero(sizes_of(model)))
    stats = _stats(result, single.size - fast, fast, 2 * steps * _step_work(model))
    route = "float32 arithmetic" if fast else "exact"
    if result.stats["sequences_sparse"]:
        route = "default plus sparse" if not fast else f"{route}, default plus sparse"
    names = _names(model)
    reason = f"{why}: {route}, whose rounding is bounded"
    if 0 < fast < single.size:
        other = "default plus sparse" if result.stats["sequences_sparse"] else "exact"
        reason = (
            f"{why}: float32 arithmetic for {fast} of {single.size} {names}, {other} for others"
        )
    given = model.sparse_transition if isinstance(model, Chain) else model.sparse_pairwise
    if given is not None and not result.stats["sequences_sparse"]:
        reason += "; all pairs are read, listed or not"
    method = "certified" if fast else "exact"
    return result.with_proof(single, model, method=method, reason=reason, stats=stats)


def _names(model: Chain | Tree) -> str:
    return "sequences" if isinstance(model, Chain) else "trees"


def _stats(result: Any, exact: int, single: int, work: int) -> dict[str, int]:
    """Return what was done, with how many components took each route."""
    own = {
        "sequences_exact": exact,
        "sequences_float32": single,
        "sequences_supports": 0,
        "rows": 0,
        "columns": 0,
        "repairs": 0,
        "multiply_adds": work,
    }
    return {**result.stats, **own}


def multiply_adds(model: Chain | Tree) -> Integers:
    """Return how many multiply-adds the messages of each component take."""
    found: Integers = 2 * np.maximum(sizes_of(model) - 1, 0) * _step_work(model)
    return found


def _step_work(model: Chain | Tree) -> int:
    listed = model.forest.listed
    return int(model.n_labels**2 if listed is None else listed + 2 * model.n_labels)


def _listed(
    model: Chain | Tree, workers: int, watch: Watch, keep: float, why: str, fits: bool
) -> Any:
    """Return a result that lists marginals, all in one arithmetic."""
    narrow = fits and model.dtype == _DOUBLE and pays_single(model)
    single = narrow or (fits and model.dtype == _SINGLE)
    kind = _SINGLE if single and not narrow else _DOUBLE
    result = _forest.infer_listed(model, 1.0, -1, workers, watch, keep, kind, narrow)
    return _proved(result, model, why, np.full(model.forest.shape[2], single))


def _for_a_price(
    model: Chain | Tree, workers: int, watch: Watch, keep: float | None, work: float
) -> Any:
    """Return exact marginals of those components that `work` suffices for, the cheapest first."""
    price = multiply_adds(model)
    order = np.argsort(price, kind="stable")
    bought = np.zeros(price.size, dtype=bool)
    bought[order[np.cumsum(price[order]) <= work]] = True
    why = f"work={work:g}"
    if bought.all():
        if keep is not None:
            return _listed(model, workers, watch, keep, why, model.dtype == _SINGLE)
        return _in_types(model, workers, watch, why, bought & (model.dtype == _SINGLE))
    n, k, count = model.forest.shape
    if np.isneginf(_forest.limits_of(model)[0]):
        _forest.log_z(model, workers)  # a pass that no budget counts: is anything possible?
    sizes, owner = sizes_of(model), owner_of(model)
    rest = ~bought[owner]
    block, piece = (max(1, size // (8 * k)) for size in (_OWN_BYTES, _BOUGHT_BYTES))
    marginals = empty((n if keep is None else 0, k), model.dtype)
    lists: list[Listed] = []
    places: list[Integers] = []

    def take(variables: slice | Integers, rows: Array) -> None:
        if keep is None:
            marginals[variables] = rows
            return
        lists.append(listed(np.ascontiguousarray(rows), keep, workers))
        places.append(np.arange(n)[variables])

    def take_rest(rows: slice, found: Array) -> None:
        watch.left()
        take(np.arange(n)[rows][rest[rows]], found[rest[rows]])

    proof = local(model, block, workers, take_rest)
    log_z = (proof.log_z_lower + proof.log_z_upper) / 2
    log_z[~np.isfinite(log_z)] = proof.log_z_upper[~np.isfinite(log_z)]
    paid = int(sizes[bought].sum())
    size, done, memory = (paid if keep is None else piece), 0, empty((0, k), model.dtype)
    for part in pieces_of(model, np.flatnonzero(bought), max(1, size)):
        if memory.shape[0] < part.size:
            memory = empty((part.size, k), model.dtype)
        rows, own = memory[: part.size], np.empty(part.forest.shape[2])
        ask_piece(
            model, part, workers, own, rows, deadline=watch.left(),
            progress=watch.part(done, done + part.size, n), late=watch.late,
        )  # fmt: skip
        take(part.variables, rows)
        log_z[part.components] = own
        done += part.size
    if bought.any():
        exact = _certified.proof_as_given(model, log_z).each(lambda: owner)
        proof = exact.where(bought, proof, ~rest)
    watch.finish(n)
    islands = np.full(n, -1, dtype=np.int32)
    counts = (0, count, int(2 * np.maximum(sizes - 1, 0)[bought].sum()), *[0] * 7)
    whole = joined(lists).chosen(np.argsort(np.concatenate(places))) if lists else None
    result = _forest.result_of(
        model, None if keep is not None else marginals, log_z, islands, 1.0, counts, keep, whole
    )
    some_bought, single = int(bought.sum()), model.dtype == _SINGLE
    stats = _stats(
        result, 0 if single else some_bought, some_bought if single else 0, int(price[bought].sum())
    )
    stats["sequences_sparse"] = 0 if model.forest.listed is None else some_bought
    reason = (
        f"{why}: {some_bought} of {count} {_names(model)} by two passes, the others "
        "from their own scores, which bound what messages can add"
    )
    fields: dict[str, Any] = {"method": "certified", "reason": reason, "stats": stats}
    return result.with_proof(proof, model, **fields)


def local(
    model: Chain | Tree, block: int, workers: int, take: Callable[[slice, Array], None]
) -> Proof:
    """Give marginals of the variables' own scores, some rows at a time, and return their proof.

    A message is a sum over rows of a table: its logarithms differ by no more than those of a row,
    so each neighbour adds the table's range to the radius.
    """
    n, k, count = model.forest.shape
    sizes, owner = sizes_of(model), owner_of(model)
    degree = np.zeros(n, dtype=np.int64)
    for side in _forest.ends(model):
        degree += np.bincount(side, minlength=n)
    low, high = _forest.limits_of(model)
    lost = _certified.table_loss(model) * _certified.U32  # of entries as they were given
    low, high = low - lost, high + lost
    with np.errstate(invalid="ignore", over="ignore"):
        node, edge = _certified.largest_scores(model)
        rounding = 16 * (k + 800 + node + edge) * _certified.U32
        spread = high - low if np.isfinite(low) else np.inf
        radius = np.where(degree > 0, degree * spread, 0.0) + rounding
    slack = np.where(np.isfinite(radius), _certified.SLACK64, 1.0)
    mass, error = np.empty(n), np.empty(n)
    for first in range(0, n, block):
        rows = slice(first, min(first + block, n))
        scores = _own_scores(model, rows)
        top = scores.max(axis=1, initial=-np.inf)
        if np.isneginf(top).any():
            _forest.log_z(model, workers)  # raises the error that names where nothing is left
        weights = np.exp(scores - top[:, None])
        sums = weights.sum(axis=1)
        mass[rows] = top + np.log(sums)
        marginals = (weights / sums[:, None]).astype(model.dtype)
        lower, upper = interval(marginals, radius[rows], slack[rows])
        error[rows] = np.maximum(marginals - lower, upper - marginals).max(axis=1, initial=0.0)
        take(rows, marginals)
    base = np.bincount(owner, weights=mass, minlength=count)
    edges = np.maximum(sizes - 1, 0)
    margin = 16 * _certified.U64 * (sizes + 1.0) * (k + 800 + node + edge)
    with np.errstate(invalid="ignore"):
        log_z_lower = base + np.where(edges > 0, edges * low, 0.0) - margin
        log_z_upper = base + np.where(edges > 0, edges * high, 0.0) + margin
    error = np.minimum(error + 2.0**-53, 1.0)
    return Proof(radius, slack, error, log_z_lower, log_z_upper, alike=False)


def _own_scores(model: Chain | Tree, rows: slice) -> Floats:
    """Return the scores of some variables, those of the ends of chains included."""
    scores = model.unary[rows].astype(_DOUBLE)
    if isinstance(model, Chain):
        full = np.flatnonzero(model.lengths)
        ends = ((model.start, model.offset[full]), (model.end, model.offset[full + 1] - 1))
        for more, at in ends:
            if more is not None:
                scores[at[(rows.start <= at) & (at < rows.stop)] - rows.start] += more
    if model.allowed is not None:
        scores[~model.allowed[rows]] = -np.inf
    return scores
