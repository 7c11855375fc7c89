"""Autograd functions: log Z or the log-likelihood, their gradient, and the gradient's gradient.

`LogScore` is the scalar of each sequence. Its backward is `Gradient`, made of the marginals and
summed edge marginals that the forward pass computed in one call of the forest engine. The backward
of `Gradient` multiplies with the second derivative (`curvature`), so that marginals can stand in a
loss, and gradients be differentiated once more.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from valuesparse.errors import InfeasibleError
from valuesparse.inference import _forest
from valuesparse.models import Chain
from valuesparse.torch._curvature import Scores, curvature
from valuesparse.torch._padding import Padding

__all__ = [
    "Gold",
    "Gradient",
    "LogScore",
    "PaddedBatch",
    "Undifferentiable",
    "infeasible",
    "make_gold",
    "to_numpy",
]

Array = npt.NDArray[Any]
Float64 = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

_THIRD = "this layer has first and second derivatives, no third"
_HIDDEN = (
    "this layer reads the numbers of its tensors, which torch.func (grad, vmap, jvp, ...) hides; "
    "take torch.autograd.grad or backward() for gradients, and the batch's axis for many sequences"
)


class Gold(NamedTuple):
    """The labels whose likelihood is asked for."""

    tags: Indices  # (N,)
    at: Indices  # (N,): where their scores are in the flattened unary
    codes: Indices  # (N - 1,): l * K + k of each row and the next, also across sequences
    score: Float64  # (B,)


class Derivatives(NamedTuple):
    """First derivatives of every sequence's value."""

    padded: Array  # by the emissions, in their shape
    transition: Float64 | None  # by the transitions, summed over sequences


class PaddedBatch:
    """One padded batch on its way through autograd: what both directions share.

    Parameters
    ----------
    chain : Chain
        The sequences, laid end to end; none is empty.
    padding : Padding
        Where they lie in the padded batch.
    gold : Gold or None
        Makes the value of a sequence the log-likelihood of these labels; None: log Z.
    workers : int
        Threads.
    """

    def __init__(self, chain: Chain, padding: Padding, gold: Gold | None, workers: int) -> None:
        self.chain = chain
        self.padding = padding
        self.gold = gold
        self.workers = workers
        self.derivatives: Derivatives | None = None

    @property
    def sign(self) -> float:
        """How log Z enters the value."""
        return 1.0 if self.gold is None else -1.0

    def solve(self, *, unary: bool, transition: bool) -> Float64:
        """Return the value of every sequence (B,), and keep the derivatives that are asked for."""
        marginals, log_z, sums = self._run(marginals=unary, sums=transition)
        if marginals is not None:
            if self.gold is not None:
                np.negative(marginals, out=marginals)
                marginals.ravel()[self.gold.at] += 1.0
            if sums is not None and self.gold is not None:
                sums = self._gold_counts(None) - sums
            self.derivatives = Derivatives(self.padding.spread(marginals), sums)
        return log_z if self.gold is None else self.gold.score - log_z

    def transition_derivative(self, weights: Float64) -> Float64:
        """Return the weighted sum over sequences of the derivatives by the transitions, (K, K)."""
        kept = None if self.derivatives is None else self.derivatives.transition
        if kept is not None and (weights == weights[:1]).all():
            return kept * (weights[0] if weights.size else 0.0)
        _, _, sums = self._run(marginals=False, sums=True, weights=weights)
        assert sums is not None
        return sums if self.gold is None else self._gold_counts(weights) - sums

    def expected(self, direction: Scores, weights: Float64) -> tuple[Float64, Scores]:
        """Return derivatives of the gradient, seen along a direction: by weights, by scores."""
        marginals, _, _ = self._run(marginals=True, sums=False)
        assert marginals is not None
        mean, product = curvature(
            self.chain, marginals, direction, self.sign * weights, self.workers
        )
        if self.gold is None:
            return mean, product
        score = gold_score(
            self.padding, self.gold, direction.unary, direction.transition, direction.start,
            direction.end,
        )  # fmt: skip
        return score - mean, product

    def _run(
        self, *, marginals: bool, sums: bool, weights: Float64 | None = None
    ) -> tuple[Array | None, Float64, Float64 | None]:
        try:
            return _forest.gradient(
                self.chain, self.workers, marginals=marginals, sums=sums, weights=weights
            )
        except InfeasibleError as error:
            raise infeasible(error) from None

    def _gold_counts(self, weights: Float64 | None) -> Float64:
        assert self.gold is not None
        k, codes = self.chain.n_labels, self.gold.codes
        across = codes[self.padding.offset[1:-1] - 1]  # from one sequence to the next
        if weights is None:
            # Faster than to leave those pairs out before.
            counts = np.bincount(codes, minlength=k * k) - np.bincount(across, minlength=k * k)
            return np.asarray(counts.reshape(k, k), dtype=np.float64)
        inner = np.delete(codes, self.padding.offset[1:-1] - 1)
        each = weights.repeat(self.padding.lengths - 1)
        weighed = np.bincount(inner, weights=each, minlength=k * k)
        return np.asarray(weighed.reshape(k, k), dtype=np.float64)


def infeasible(error: InfeasibleError) -> InfeasibleError:
    """Return the same error in the words of the layer."""
    return InfeasibleError(
        error.sequence,
        error.position,
        message=f"sequence {error.sequence} has no possible tags: none is left at its step "
        f"{error.position}; look for -inf in emissions and transitions there, and at what the "
        "constraints leave",
    )


def gold_score(
    padding: Padding, gold: Gold, unary: Array, transition: Array, start: Array, end: Array
) -> Float64:
    """Return the score of every sequence's tags, (B,)."""
    total = unary.ravel()[gold.at].astype(np.float64)
    if not total.size:
        return np.zeros(padding.sequences)
    begin, last = padding.offset[:-1], padding.offset[1:] - 1
    steps = transition.ravel()[gold.codes].astype(np.float64)
    steps[last[:-1]] = 0.0  # from one sequence to the next
    total[1:] += steps
    total[begin] += start[gold.tags[begin]]
    total[last] += end[gold.tags[last]]
    return np.add.reduceat(total, begin)


def make_gold(padding: Padding, tags: Indices, chain: Chain) -> Gold:
    """Return what the likelihood of tags (N,) needs."""
    k = chain.n_labels
    at = np.arange(0, k * tags.size, k)
    at += tags
    gold = Gold(tags, at, tags[:-1] * k + tags[1:], np.empty(0))
    assert chain.start is not None
    assert chain.end is not None
    score = gold_score(padding, gold, chain.unary, chain.transition, chain.start, chain.end)
    return gold._replace(score=score)


def to_numpy(tensor: torch.Tensor, dtype: torch.dtype) -> Array:
    """Return the numbers of a tensor, not copied where that can be helped."""
    if tensor.dtype != dtype or tensor.device.type != "cpu":
        tensor = tensor.to(device="cpu", dtype=dtype)
    try:
        return np.asarray(tensor.detach().numpy())
    except RuntimeError as error:
        raise RuntimeError(_HIDDEN) from error


def _tensor(array: Array, like: torch.Tensor) -> torch.Tensor:
    tensor = torch.from_numpy(array)
    if tensor.dtype == like.dtype and like.device.type == "cpu":
        return tensor
    return tensor.to(device=like.device, dtype=like.dtype)


def _float64(tensor: torch.Tensor | None, shape: tuple[int, ...]) -> Float64:
    return np.zeros(shape) if tensor is None else to_numpy(tensor, torch.float64)


class LogScore(torch.autograd.Function):
    """The value of every sequence of a `PaddedBatch`: log-likelihood or log Z, (B,)."""

    @staticmethod
    def forward(
        ctx: Any,
        emissions: torch.Tensor,
        transitions: torch.Tensor,
        start: torch.Tensor,
        end: torch.Tensor,
        problem: PaddedBatch,
        dtype: torch.dtype,
        learns: bool,
    ) -> torch.Tensor:
        """Solve once for values and, where something learns, for their derivatives."""
        needs = ctx.needs_input_grad
        unary = learns and (needs[0] or needs[2] or needs[3])
        value = problem.solve(unary=unary or (learns and needs[1]), transition=learns and needs[1])
        ctx.problem = problem
        ctx.save_for_backward(emissions, transitions, start, end)
        return torch.from_numpy(value).to(device=emissions.device, dtype=dtype)

    @staticmethod
    def backward(ctx: Any, weights: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """Weigh the derivatives."""
        needs = tuple(ctx.needs_input_grad[:4])
        return (*Gradient.apply(weights, *ctx.saved_tensors, ctx.problem, needs), None, None, None)


class Gradient(torch.autograd.Function):
    """Weighted sum over sequences of derivatives by emissions, transitions, start and end."""

    @staticmethod
    def forward(
        ctx: Any,
        weights: torch.Tensor,
        emissions: torch.Tensor,
        transitions: torch.Tensor,
        start: torch.Tensor,
        end: torch.Tensor,
        problem: PaddedBatch,
        needs: tuple[bool, ...],
    ) -> tuple[torch.Tensor | None, ...]:
        """Weigh what `LogScore` has left, sequence by sequence where weights differ."""
        ctx.problem = problem
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(weights, emissions, transitions, start, end)
        if problem.derivatives is None:
            problem.solve(unary=True, transition=False)
        assert problem.derivatives is not None
        padding, padded = problem.padding, problem.derivatives.padded
        g = _float64(weights, (padding.sequences,))
        out: list[torch.Tensor | None] = [None] * 4
        if needs[0]:
            w = g.astype(padded.dtype)
            w = w[:, None, None] if padding.batch_first else w[:, None]
            out[0] = _tensor(np.multiply(padded, w, order="C"), emissions)
        if needs[1]:
            out[1] = _tensor(problem.transition_derivative(g), transitions)
        if needs[2]:
            out[2] = _tensor(g @ padding.first(padded), start)
        if needs[3]:
            out[3] = _tensor(g @ padding.last(padded), end)
        return tuple(out)

    @staticmethod
    def backward(ctx: Any, *along: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        """Multiply with the second derivative, which cannot be differentiated again."""
        problem: PaddedBatch = ctx.problem
        weights, emissions, transitions, start, end = ctx.saved_tensors
        padding, k = problem.padding, problem.chain.n_labels
        direction = Scores(
            padding.gather(_float64(along[0], tuple(emissions.shape))),
            _float64(along[1], (k, k)),
            _float64(along[2], (k,)),
            _float64(along[3], (k,)),
        )
        g = _float64(weights, (padding.sequences,))
        by_weight, by_score = problem.expected(direction, g)
        answers: tuple[torch.Tensor, ...] = (
            _tensor(by_weight, weights),
            _tensor(padding.spread(by_score.unary), emissions),
            _tensor(by_score.transition, transitions),
            _tensor(by_score.start, start),
            _tensor(by_score.end, end),
        )
        if torch.is_grad_enabled():  # create_graph=True; constants would be silently wrong
            tied = [t for t in (*ctx.saved_tensors, *along) if t is not None]
            answers = tuple(Undifferentiable.apply(answer, _THIRD, *tied) for answer in answers)
        return (*answers, None, None)


class Undifferentiable(torch.autograd.Function):
    """Hands a finished answer on; to differentiate it is an error, not a silent zero."""

    @staticmethod
    def forward(ctx: Any, answer: torch.Tensor, why: str, *inputs: torch.Tensor) -> torch.Tensor:
        """Return a view of `answer`, tied to the inputs that it was computed from."""
        ctx.why = why
        return answer.view_as(answer)

    @staticmethod
    def backward(ctx: Any, *along: torch.Tensor) -> None:
        """Say why there is nothing."""
        raise NotImplementedError(ctx.why)
