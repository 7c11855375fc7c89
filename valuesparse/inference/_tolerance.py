"""Marginals of chains and trees within a tolerance that is proved, or for a price that is given."""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_CEILING, Context
from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse._buffers import empty, grown
from valuesparse._validation import as_tol, as_work
from valuesparse.inference import _certified, _forest
from valuesparse.inference._asked import (
    ask_piece,
    fitting,
    in_types,
    pays_single,
)
from valuesparse.inference._local import local
from valuesparse.inference._pieces import cheapest_first, owner_of, pieces_of, sizes_of
from valuesparse.inference._supports import Supports, may_pay, may_save, provable
from valuesparse.inference._watch import Watch
from valuesparse.inference._windows import Found, windows
from valuesparse.models import Chain, Tree
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
#: Tolerances of supports that `work` buys, one after the other.
_BOUGHT = (0.1, 0.01, 1e-3)


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
    if work is not None:
        return _for_a_price(model, workers, Watch(deadline, progress), keep, as_work(work))
    assert tol is not None
    wanted = as_tol(tol)
    least = _certified.floor_of(model)
    if wanted < least:
        told = Context(prec=3, rounding=ROUND_CEILING).create_decimal(least)
        advice = "ask for at least that" if least <= 1.0 else "no tol can be proved: leave it out"
        raise ValueError(
            f"tol={wanted:g} is below {float(told):.3g}, what rounding leaves to prove for "
            f"sequences or trees of this size, {model.n_labels} labels and these scores; {advice}"
        )
    why = f"tol={wanted:g}"
    double = keep is None and model.dtype == _DOUBLE
    if double and (wanted <= _certified.least_single(model) or not pays_single(model)):
        return _exact(model, workers, deadline, progress, why)
    fits, watch = fitting(model, wanted), Watch(deadline, progress)
    if may_pay(model, wanted, fits):
        supports = Supports.of(model, wanted, fits)
        if supports is not None:
            return _with_supports(model, supports, workers, watch, keep, why, fits)
    if keep is not None:
        return _listed(model, workers, watch, keep, why, bool(np.all(fits)))
    if double and not np.any(fits):
        return _exact(model, workers, deadline, progress, why)
    return _in_types(model, workers, watch, why, fits)


def _exact(
    model: Chain | Tree,
    workers: int,
    deadline: float | None,
    progress: Callable[[int, int], object] | None,
    why: str,
) -> Any:
    """Return the result of exact passes, which proves nothing until somebody asks."""
    result = _forest.infer(model, 1.0, -1, workers, "exact", deadline, progress)
    return _proved(result, model, why, False)


def _in_types(
    model: Chain | Tree,
    workers: int,
    watch: Watch,
    why: str,
    single: npt.NDArray[np.bool_] | bool,
) -> Any:
    """Return the result of exact passes, in float32 where `single` says so."""
    n = model.forest.shape[0]
    marginals, log_z, counts = in_types(model, workers, watch, single)
    watch.finish(n)
    total = counts if isinstance(counts, tuple) else tuple(int(x) for x in counts)
    islands = np.full(n, -1, dtype=np.int32)
    result = _forest.result_of(model, marginals, log_z, islands, 1.0, total)
    return _proved(result, model, why, single)


def _with_supports(
    model: Chain | Tree,
    supports: Supports,
    workers: int,
    watch: Watch,
    keep: float | None,
    why: str,
    fits: npt.NDArray[np.bool_] | bool,
) -> Any:
    """Return the result of the components that supports pay for, and of passes for the others."""
    n, k, count = model.forest.shape
    size = n if keep is None else workers * _forest.piece_size(model.dtype, k)
    found = supports.passes(size, workers, watch, keep)
    taken, steps = supports.taken, 2 * np.maximum(sizes_of(model) - 1, 0)
    counts = [int(x) for x in found.counts]
    counts[_SPARSE_MESSAGES] += int(steps[taken].sum())
    islands = np.full(n, -1, dtype=np.int32)
    result = _forest.result_of(
        model, found.marginals if keep is None else None, found.log_z, islands, 1.0, tuple(counts),
        keep, found.listed,
    )  # fmt: skip
    own, fast = int(taken.sum()), int((fits & ~taken).sum())
    if own == 0:
        return _proved(result, model, why, fits)
    rows, columns, repairs = (int(x) for x in supports.counts)
    work = int(steps[~taken].sum()) * k * k + (rows + 2 * columns) * k
    _count(result, count - own - fast, fast, work)
    result.stats.update(sequences_supports=own, rows=rows, columns=columns, repairs=repairs)
    others = ("float32 arithmetic", fast), ("exact", count - own - fast)
    reason = f"{why}: supports for {own} of {count} {_names(model)}"
    reason += "".join(f", {name} for {some}" for name, some in others if some)
    return result.with_proof(supports.proof(found.log_z), "certified", reason)


def _proved(
    result: Any, model: Chain | Tree, why: str, single: npt.NDArray[np.bool_] | bool
) -> Any:
    """Return the result with its proof and what ran.

    This follows a pass, in cold caches: each function of Python or NumPy costs several
    microseconds, of a call that may take two hundred.
    """
    count, listed = model.forest.shape[2], result.stats["sequences_sparse"]
    fast = single * count if isinstance(single, bool) else int(np.count_nonzero(single))
    if isinstance(model, Chain):
        edges, given = int(model.edge[-1]), model.sparse_transition
    else:
        edges, given = model.n_nodes - model.n_trees, model.sparse_pairwise
    _count(result, count - fast, fast, 2 * edges * _step_work(model))
    route = "float32 arithmetic" if fast else "exact"
    if 0 < fast < count:
        other = "default plus sparse" if listed else "exact"
        reason = f"{why}: {route} for {fast} of {count} {_names(model)}, {other} for others"
    else:
        if listed:
            route = f"{route}, default plus sparse" if fast else "default plus sparse"
        reason = f"{why}: {route}, whose rounding is bounded"
    if given is not None and not listed:
        reason += "; all pairs are read, listed or not"
    return result.with_proof(single, "certified" if fast else "exact", reason)


def _names(model: Chain | Tree) -> str:
    return "sequences" if isinstance(model, Chain) else "trees"


def _count(result: Any, exact: int, single: int, work: int) -> None:
    """Tell how many components took each route, and what was done."""
    result.stats.update(
        sequences_exact=exact,
        sequences_float32=single,
        sequences_supports=0,
        rows=0,
        columns=0,
        repairs=0,
        multiply_adds=work,
    )


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
    return _proved(result, model, why, single)


def _for_a_price(
    model: Chain | Tree, workers: int, watch: Watch, keep: float | None, work: float
) -> Any:
    """Return exact marginals of those components that `work` suffices for, the cheapest first."""
    price, why = multiply_adds(model), f"work={work:g}"
    if price.sum() <= work:
        single = bool(model.dtype == _SINGLE)
        if keep is not None:
            return _listed(model, workers, watch, keep, why, single)
        return _in_types(model, workers, watch, why, single)
    n, k, count = model.forest.shape
    if np.isneginf(_forest.limits_of(model)[0]):
        _forest.log_z(model, workers)  # a pass that no budget counts: is anything possible?
    sizes, owner = sizes_of(model), owner_of(model)
    marginals = empty((n if keep is None else 0, k), model.dtype)
    lists: list[Listed] = []
    places: list[Integers] = []

    def take(variables: slice | Integers, rows: Array) -> None:
        if keep is None:
            marginals[variables] = rows
            return
        lists.append(listed(np.ascontiguousarray(rows), keep, workers))
        if isinstance(variables, slice):
            variables = np.arange(*variables.indices(n))
        places.append(variables)

    bought, supports, left = _bought(model, price, work, workers, watch, take)
    own = np.zeros(count, dtype=bool) if supports is None else supports.taken & ~bought
    rest = ~(bought | own)[owner]

    def take_rest(variables: slice | Integers, rows: Array) -> None:
        watch.left()
        take(variables, rows)

    block, some = (max(1, size // (8 * k)) for size in (_OWN_BYTES, _BOUGHT_BYTES))
    proof = local(model, rest, block, workers, take_rest)
    log_z = (proof.log_z_lower + proof.log_z_upper) / 2
    log_z[~np.isfinite(log_z)] = proof.log_z_upper[~np.isfinite(log_z)]
    parts: list[Found] = []
    if supports is not None:
        proof, log_z = supports.over(proof), supports.log_z(log_z)
        parts = windows(supports, ~(bought | own), left, proof.error, workers, watch)
    for part in parts:
        take(part.positions, part.marginals)
        for mine, theirs in zip(proof[:3], part[2:], strict=True):
            mine[part.positions] = theirs
    paid = int(sizes[bought].sum())
    size, done, memory = (paid if keep is None else some), 0, empty((0, k), model.dtype)
    for piece in pieces_of(model, np.flatnonzero(bought), max(1, size)):
        # No piece of several components has more rows than `size`.
        memory = grown(memory, piece.size, min(size, paid))
        rows, mass = memory[: piece.size], np.empty(piece.forest.shape[2])
        ask_piece(
            model, piece, workers, mass, rows, deadline=watch.left(),
            progress=watch.part(done, done + piece.size, n), late=watch.late,
        )  # fmt: skip
        take(piece.variables, rows)
        log_z[piece.components] = mass
        done += piece.size
    if bought.any():
        exact = _certified.proof_as_given(model, log_z).each(lambda: owner)
        proof = exact.where(bought, proof, bought[owner])
    watch.finish(n)
    islands = np.full(n, -1, dtype=np.int32)
    counts = (0, count, int(2 * np.maximum(sizes - 1, 0)[bought].sum()), *[0] * 7)
    whole = None
    if lists:
        last = np.empty(n, dtype=np.int64)  # what came later is closer
        last[np.concatenate(places)] = np.arange(sum(x.size for x in places))
        whole = joined(lists).chosen(last)
    result = _forest.result_of(
        model, None if keep is not None else marginals, log_z, islands, 1.0, counts, keep, whole
    )
    passed, narrow = int(bought.sum()), model.dtype == _SINGLE
    _count(result, 0 if narrow else passed, passed if narrow else 0, int(price[bought].sum()))
    stats = result.stats
    stats["sequences_sparse"] = 0 if model.forest.listed is None else passed
    reason = f"{why}: {passed} of {count} {_names(model)} by two passes, "
    if supports is not None:
        answered, (read, columns, repairs) = int(own.sum()), (int(x) for x in supports.counts)
        stats.update(sequences_supports=answered, rows=read, columns=columns, repairs=repairs)
        stats["multiply_adds"] += supports.read * k
        reason += f"{answered} by supports, "
        if parts:
            reason += f"{sum(x.positions.size for x in parts)} positions by windows, "
    reason += "the others from their own scores, which bound what messages can add"
    return result.with_proof(proof, "certified", reason)


def _bought(
    model: Chain | Tree,
    price: Integers,
    work: float,
    workers: int,
    watch: Watch,
    take: Callable[[Integers, Array], None],
) -> tuple[npt.NDArray[np.bool_], Supports | None, float]:
    """Return which components have two passes, the answers of supports, and what is left to spend.

    Each multiply-add goes where it brings most: to supports of little tolerance, to passes of what
    these are too many for, to a smaller tolerance, and to passes of all.
    """
    bought, order = np.zeros(price.size, dtype=bool), cheapest_first(model, price)

    def passes(some: npt.NDArray[np.bool_], left: float) -> float:
        chosen = order[some[order]]
        chosen = chosen[np.cumsum(price[chosen]) <= left]
        bought[chosen] = True
        return left - int(price[chosen].sum())

    supports = None
    if work > 0 and may_save(model):
        supports = Supports.of(model, 1.0, np.zeros(price.size, dtype=bool))
    if supports is None:
        return bought, None, passes(~bought, work)
    left = float(work)
    for number, tol in enumerate(tol for tol in _BOUGHT if provable(model, tol)):
        left = supports.buy(order, left, workers, watch, take, tol)
        if number == 0:
            left = passes(~supports.taken, left)
    # In float32 passes may prove less.
    gained = _certified.proof_as_given(model, np.zeros(price.size)).error < supports.errors()
    return bought, supports, passes(~bought & (gained | ~supports.taken), left)
