"""Slow, obvious answers for chains: enumeration, mpmath and long-double recursions.

Nothing here imports the package under test. Every function takes any object with the attributes of
``valuesparse.Chain`` (``unary``, ``transition``, ``lengths``, ``start``, ``end``, ``allowed``), so
that the oracles can be checked against one another on plain `Arrays`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import mpmath
import numpy as np

LONG = np.longdouble
#: True where ``long double`` carries more digits than ``double`` (not on Windows or macOS arm64).
LONG_IS_LONGER = bool(np.finfo(LONG).eps < np.finfo(np.float64).eps / 100)
DIGITS = 50


@dataclass(frozen=True)
class Arrays:
    """The arguments of a chain, unvalidated."""

    unary: np.ndarray
    transition: np.ndarray
    lengths: np.ndarray | None = None
    start: np.ndarray | None = None
    end: np.ndarray | None = None
    allowed: np.ndarray | None = None

    def kwargs(self) -> dict[str, Any]:
        """Return the arguments as ``Chain(**kwargs)`` takes them."""
        return dict(vars(self))

    def copy(self) -> Arrays:
        """Return a deep copy."""
        return Arrays(**{k: None if v is None else v.copy() for k, v in vars(self).items()})

    def astype(self, dtype: Any) -> Arrays:
        """Return the same scores in another dtype."""
        cast = {"unary": self.unary.astype(dtype), "transition": self.transition.astype(dtype)}
        for name in ("start", "end"):
            value = getattr(self, name)
            cast[name] = None if value is None else value.astype(dtype)
        return replace(self, **cast)

    def sequence(self, at: int) -> Arrays:
        """Return one sequence alone, of a shared transition or of one an edge."""
        first = int(self.lengths[:at].sum())
        last = first + int(self.lengths[at])
        edge = int(np.maximum(self.lengths[:at] - 1, 0).sum())
        per_edge = self.transition.ndim == 3
        return replace(
            self,
            unary=self.unary[first:last],
            transition=self.transition[edge : edge + max(last - first - 1, 0)]
            if per_edge
            else self.transition,
            lengths=self.lengths[at : at + 1],
            allowed=None if self.allowed is None else self.allowed[first:last],
        )


class Sequence(NamedTuple):
    """One sequence with start, end and allowed folded into its local factors."""

    local: np.ndarray  # (n, K) long double
    edges: np.ndarray  # (n - 1, K, K) long double


class Messages(NamedTuple):
    """Log-domain messages *into* each position, and what follows from them."""

    local: np.ndarray  # (n, K)
    edges: np.ndarray  # (n - 1, K, K)
    forward: np.ndarray  # (n, K), the local factor not included
    backward: np.ndarray  # (n, K), the local factor not included
    log_z: Any  # scalar


class Answer(NamedTuple):
    """The posterior of a model, laid out as in `valuesparse.Result`."""

    marginals: np.ndarray  # (N, K)
    pairwise: np.ndarray  # (edges, K, K)
    log_z: np.ndarray  # (B,)
    entropy: np.ndarray  # (B,)


class Enumeration(NamedTuple):
    """Every configuration of one sequence and what follows from the list."""

    states: np.ndarray  # (K ** n, n), lexicographic
    scores: np.ndarray  # (K ** n,)
    probabilities: np.ndarray  # (K ** n,)
    log_z: Any
    marginals: np.ndarray  # (n, K)
    pairwise: np.ndarray  # (n - 1, K, K)
    entropy: Any


# ------------------------------------------------------------------------------------ unpacking


def lengths_of(model: Any) -> np.ndarray:
    """Return (B,) lengths, one sequence when the model gives none."""
    if model.lengths is None:
        return np.array([len(model.unary)], dtype=np.int64)
    return np.asarray(model.lengths, dtype=np.int64)


def slices_of(model: Any) -> list[slice]:
    """Return the rows of each sequence."""
    stops = np.cumsum(lengths_of(model))
    return [slice(int(e - n), int(e)) for n, e in zip(lengths_of(model), stops, strict=True)]


def edge_slices_of(model: Any) -> list[slice]:
    """Return the edges of each sequence."""
    counts = np.maximum(lengths_of(model) - 1, 0)
    stops = np.cumsum(counts)
    return [slice(int(e - n), int(e)) for n, e in zip(counts, stops, strict=True)]


def sequences(model: Any) -> Iterator[Sequence]:
    """Yield the sequences of a model, everything folded in, in long double."""
    unary = np.asarray(model.unary).astype(LONG)
    transition = np.asarray(model.transition).astype(LONG)
    k = unary.shape[1]
    for rows, cut in zip(slices_of(model), edge_slices_of(model), strict=True):
        local = unary[rows].copy()
        if model.allowed is not None:
            local[~np.asarray(model.allowed, dtype=bool)[rows]] = -np.inf
        if len(local):
            if model.start is not None:
                local[0] += np.asarray(model.start).astype(LONG)
            if model.end is not None:
                local[-1] += np.asarray(model.end).astype(LONG)
        if transition.ndim == 3:
            edges = transition[cut]
        else:
            edges = np.broadcast_to(transition, (cut.stop - cut.start, k, k))
        yield Sequence(local, edges)


def single(model: Any, b: int) -> Arrays:
    """Return sequence ``b`` of a batch as a model of its own."""
    rows, cut = slices_of(model)[b], edge_slices_of(model)[b]
    return Arrays(
        model.unary[rows],
        model.transition[cut] if model.transition.ndim == 3 else model.transition,
        np.array([rows.stop - rows.start]),
        model.start,
        model.end,
        None if model.allowed is None else model.allowed[rows],
    )


def first_dead(seq: Sequence) -> int | None:
    """Return the first position at which no label is left, None if the sequence is feasible."""
    alive = None
    for i, row in enumerate(seq.local):
        possible = row > -np.inf
        if alive is not None:
            possible &= (alive[:, None] & (seq.edges[i - 1] > -np.inf)).any(axis=0)
        if not possible.any():
            return i
        alive = possible
    return None


def first_infeasible(model: Any) -> tuple[int, int] | None:
    """Return (sequence, position in it) of the first dead end, None if there is none."""
    for b, seq in enumerate(sequences(model)):
        dead = first_dead(seq)
        if dead is not None:
            return b, dead
    return None


# ---------------------------------------------------------------------------------- enumeration


def _xlogx(p: np.ndarray) -> np.ndarray:
    return np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0)


def configuration_scores(seq: Sequence, states: np.ndarray) -> np.ndarray:
    """Return the log-potential of each row of ``states`` (m, n)."""
    n = len(seq.local)
    score = np.zeros(len(states), dtype=LONG)
    for i in range(n):
        score = score + seq.local[i, states[:, i]]
    for i in range(n - 1):
        score = score + seq.edges[i, states[:, i], states[:, i + 1]]
    return score


def enumerate_chain(seq: Sequence) -> Enumeration:
    """List all K ** n configurations of one feasible sequence, in long double."""
    n, k = seq.local.shape
    states = np.indices((k,) * n).reshape(n, k**n).T.astype(np.int64)
    scores = configuration_scores(seq, states)
    top = scores.max()
    weights = np.exp(scores - top)
    z = weights.sum()
    p = weights / z
    marginals = np.zeros((n, k), dtype=LONG)
    pairwise = np.zeros((max(n - 1, 0), k, k), dtype=LONG)
    for i in range(n):
        np.add.at(marginals[i], states[:, i], p)
    for i in range(n - 1):
        np.add.at(pairwise[i], (states[:, i], states[:, i + 1]), p)
    return Enumeration(states, scores, p, top + np.log(z), marginals, pairwise, -_xlogx(p).sum())


def n_best(listing: Enumeration, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the states and scores of the k best possible configurations, fewer if fewer exist."""
    order = np.argsort(-listing.scores, kind="stable")[:k]
    order = order[listing.scores[order] > -np.inf]
    return listing.states[order], listing.scores[order]


def enumerate_mp(seq: Sequence) -> Enumeration:
    """List all K ** n configurations in 50-digit arithmetic; for a handful of labels only."""
    n, k = seq.local.shape
    with mpmath.workdps(DIGITS):
        local, edges = _mp_table(seq.local), _mp_table(seq.edges)
        states = list(itertools.product(range(k), repeat=n))
        scores = []
        for y in states:
            score = mpmath.mpf(0)
            for i in range(n):
                score += local[i][y[i]]
            for i in range(n - 1):
                score += edges[i][y[i]][y[i + 1]]
            scores.append(score)
        weights = [mpmath.exp(s) for s in scores]
        z = mpmath.fsum(weights)
        p = [w / z for w in weights]
        marginals = np.full((n, k), mpmath.mpf(0), dtype=object)
        pairwise = np.full((max(n - 1, 0), k, k), mpmath.mpf(0), dtype=object)
        for y, q in zip(states, p, strict=True):
            for i in range(n):
                marginals[i, y[i]] += q
            for i in range(n - 1):
                pairwise[i, y[i], y[i + 1]] += q
        entropy = -mpmath.fsum(q * mpmath.log(q) for q in p if q)
        return Enumeration(
            np.array(states, dtype=np.int64).reshape(k**n, n),
            np.array(scores, dtype=object),
            np.array(p, dtype=object),
            mpmath.log(z),
            marginals,
            pairwise,
            entropy,
        )


# ----------------------------------------------------------------------------------- recursions


def _mp_number(x: Any) -> Any:
    """Convert a long double without losing its low half."""
    high = float(x)
    if not np.isfinite(high):
        return mpmath.mpf(high)
    return mpmath.mpf(high) + mpmath.mpf(float(LONG(x) - LONG(high)))


def _mp_table(a: np.ndarray) -> list:
    return [_mp_table(row) for row in a] if a.ndim > 1 else [_mp_number(x) for x in a]


def mp_forward_backward(seq: Sequence) -> tuple[np.ndarray, np.ndarray, Any, Any]:
    """Return marginals, pairwise marginals, log_z and entropy of one feasible sequence.

    Plain sums of products of mpmath numbers: their exponents have no limit, so nothing is scaled
    and nothing can underflow. The arrays come back as float64, log_z and entropy as mpmath numbers.
    """
    n, k = seq.local.shape
    if n == 0:
        return np.zeros((0, k)), np.zeros((0, k, k)), mpmath.mpf(0), mpmath.mpf(0)
    with mpmath.workdps(DIGITS):
        psi = [[mpmath.exp(x) for x in row] for row in _mp_table(seq.local)]
        cache: dict[int, list] = {}
        t = []
        for table in seq.edges:
            # A shared transition is broadcast: the same memory, exponentiated once.
            key = table.__array_interface__["data"][0]
            if key not in cache:
                cache[key] = [[mpmath.exp(x) for x in row] for row in _mp_table(table)]
            t.append(cache[key])
        labels = range(k)
        f = [psi[0]]
        for i in range(1, n):
            f.append(
                [psi[i][y] * mpmath.fsum(f[-1][x] * t[i - 1][x][y] for x in labels) for y in labels]
            )
        b = [[mpmath.mpf(1)] * k]
        for i in range(n - 2, -1, -1):
            m = [psi[i + 1][y] * b[-1][y] for y in labels]
            b.append([mpmath.fsum(t[i][x][y] * m[y] for y in labels) for x in labels])
        b.reverse()
        z = mpmath.fsum(f[-1])
        entropy = mpmath.mpf(0)
        marginals = np.empty((n, k))
        for i in range(n):
            for y in labels:
                p = f[i][y] * b[i][y] / z
                marginals[i, y] = p
                if p and 0 < i < n - 1:
                    entropy += p * mpmath.log(p)
                elif p and n == 1:
                    entropy -= p * mpmath.log(p)
        pairwise = np.empty((n - 1, k, k))
        for i in range(n - 1):
            for x in labels:
                for y in labels:
                    p = f[i][x] * t[i][x][y] * psi[i + 1][y] * b[i + 1][y] / z
                    pairwise[i, x, y] = p
                    if p:
                        entropy -= p * mpmath.log(p)
        return marginals, pairwise, mpmath.log(z), entropy


def _messages(seq: Sequence, masked: np.ndarray) -> Messages:
    """Send messages whose senders use ``masked`` (n, K) as local factors; receivers' are kept."""
    n, k = seq.local.shape
    forward, backward = np.zeros((n, k), dtype=LONG), np.zeros((n, k), dtype=LONG)
    reduce = np.logaddexp.reduce
    with np.errstate(invalid="ignore"):
        for i in range(1, n):
            forward[i] = reduce((forward[i - 1] + masked[i - 1])[:, None] + seq.edges[i - 1], 0)
        for i in range(n - 2, -1, -1):
            backward[i] = reduce((backward[i + 1] + masked[i + 1])[None, :] + seq.edges[i], 1)
        log_z = reduce(forward[-1] + masked[-1]) if n else LONG(0)
    return Messages(seq.local, seq.edges, forward, backward, log_z)


def log_forward_backward(seq: Sequence) -> Messages:
    """Run both passes in the log domain, in long double, one vectorised step per position."""
    return _messages(seq, seq.local)


def _normalised(scores: np.ndarray) -> np.ndarray:
    p = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return p / p.sum(axis=-1, keepdims=True)


def _edge_marginals(m: Messages) -> np.ndarray:
    joint = (
        (m.forward + m.local)[:-1, :, None]
        + m.edges
        + (m.backward + m.local)[1:, None, :]
        - m.log_z
    )
    p = np.exp(joint)
    return p / p.sum(axis=(1, 2), keepdims=True)


def _entropy(marginals: np.ndarray, pairwise: np.ndarray) -> Any:
    if len(marginals) == 1:
        return -_xlogx(marginals).sum()
    return _xlogx(marginals[1:-1]).sum() - _xlogx(pairwise).sum()


def solve(model: Any) -> Answer:
    """Return the exact answer for a feasible model by long-double log-domain recursions."""
    k = np.asarray(model.unary).shape[1]
    marginals, pairwise = [np.zeros((0, k))], [np.zeros((0, k, k))]
    log_z, entropy = [], []
    for seq in sequences(model):
        m = log_forward_backward(seq)
        node = _normalised(m.forward + m.local + m.backward) if len(m.local) else m.local
        edge = _edge_marginals(m) if len(m.local) > 1 else np.zeros((0, k, k), dtype=LONG)
        marginals.append(node)
        pairwise.append(edge)
        log_z.append(m.log_z)
        entropy.append(_entropy(node, edge))
    return Answer(
        np.concatenate(marginals).astype(np.float64),
        np.concatenate(pairwise).astype(np.float64),
        np.array(log_z, dtype=np.float64),
        np.array(entropy, dtype=np.float64),
    )


# -------------------------------------------------------------------------------------- islands


def one_hot_mask(islands: np.ndarray, k: int) -> np.ndarray:
    """Return (N, K) bool: everything where there is no island, only its value where there is."""
    islands = np.asarray(islands)
    return (islands[:, None] < 0) | (islands[:, None] == np.arange(k))


def clamped(model: Any, islands: np.ndarray) -> Arrays:
    """Return the model with every island forced to its value."""
    allowed = one_hot_mask(islands, np.asarray(model.unary).shape[1])
    if model.allowed is not None:
        allowed &= np.asarray(model.allowed, dtype=bool)
    return Arrays(model.unary, model.transition, model.lengths, model.start, model.end, allowed)


def conditioned(model: Any, islands: np.ndarray) -> np.ndarray:
    """Return (N, K) marginals given the islands; an island's own are given all the *others*.

    The local factor of an island takes part in its own row but not in the messages it sends: what
    it sends is the row (column) of the transition that belongs to its value.
    """
    mask = one_hot_mask(islands, np.asarray(model.unary).shape[1])
    rows = [np.zeros((0, mask.shape[1]))]
    for seq, where in zip(sequences(model), slices_of(model), strict=True):
        m = _messages(seq, np.where(mask[where], seq.local, -np.inf))
        if len(seq.local):
            rows.append(_normalised(m.forward + m.local + m.backward))
    return np.concatenate(rows).astype(np.float64)


def conditioned_slowly(model: Any, islands: np.ndarray) -> np.ndarray:
    """Return what `conditioned` returns, from its definition: one model per island."""
    islands = np.asarray(islands)
    out = solve(clamped(model, islands)).marginals
    for i in np.flatnonzero(islands >= 0):
        others = islands.copy()
        others[i] = -1
        out[i] = solve(clamped(model, others)).marginals[i]
    return out


def local_modes(model: Any) -> np.ndarray:
    """Return (N,) the lowest argmax of each local factor, start, end and allowed included."""
    rows = [np.argmax(seq.local, axis=1) for seq in sequences(model) if len(seq.local)]
    return np.concatenate([np.zeros(0, dtype=np.int64), *rows])


# ------------------------------------------------------------------------------------ comparing


def largest_partial_score(model: Any) -> float:
    """Return a bound on the absolute value of any partial sum of scores along a sequence."""
    worst = 0.0
    for seq in sequences(model):
        total = np.abs(np.where(np.isfinite(seq.local), seq.local, 0)).max(axis=-1, initial=0).sum()
        if len(seq.edges):
            edge = np.abs(np.where(np.isfinite(seq.edges), seq.edges, 0))
            total = total + edge.max(axis=(1, 2)).sum()
        worst = max(worst, float(total))
    return worst


def base_tolerance(dtype: Any) -> float:
    """Return the error allowed in any probability: 1e-10 in float64, 1e-5 in float32."""
    return 1e-5 if np.dtype(dtype) == np.float32 else 1e-10


def tolerance(model: Any, multiple: float = 4.0) -> float:
    """Return the base tolerance plus a multiple of eps x the largest partial score."""
    dtype = np.asarray(model.unary).dtype
    eps = np.finfo(dtype if dtype.kind == "f" else np.float64).eps
    return base_tolerance(dtype) + multiple * float(eps) * largest_partial_score(model)
