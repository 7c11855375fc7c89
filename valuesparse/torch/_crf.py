"""A linear-chain CRF as the last layer of a PyTorch network."""

from __future__ import annotations

import itertools
import math
import operator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from valuesparse._validation import as_zeta, require_potentials
from valuesparse.errors import InfeasibleError
from valuesparse.inference import _forest
from valuesparse.inference._watch import Watch
from valuesparse.models import Chain
from valuesparse.threads import resolve
from valuesparse.torch._constraints import as_constraint, require_allowed
from valuesparse.torch._functions import (
    Gradient,
    LogScore,
    PaddedBatch,
    Undifferentiable,
    infeasible,
    make_gold,
    to_numpy,
)
from valuesparse.torch._padding import Padding

__all__ = ["CRF"]

Array = npt.NDArray[Any]

_REDUCTIONS = ("none", "sum", "mean", "token_mean")
_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


class CRF(torch.nn.Module):
    """Linear-chain conditional random field, a drop-in for `torchcrf.CRF`.

    Same constructor, parameters, ``state_dict``, ``forward`` and ``decode``; marginals, log Z,
    constraints and threads come in addition. The gradient of a log-likelihood is "observed minus
    expected", and the expectations are this library's marginals, which one call of the forest
    engine computes together with log Z, without the GIL.

    Parameters
    ----------
    num_tags : int
        Number of tags, K.
    batch_first : bool, default False
        Whether tensors come as (batch, steps, ...) rather than (steps, batch, ...).
    allowed_transitions : array_like of bool, shape (K, K), optional
        ``[from, to]``: False forbids the transition whatever its parameter, which then gets no
        gradient. Like the next two it is no part of the ``state_dict``.
    allowed_start, allowed_end : array_like of bool, shape (K,), optional
        Tags that a sequence may begin and end with.

    Attributes
    ----------
    start_transitions, end_transitions : torch.nn.Parameter of shape (K,)
        Scores of first and of last tags.
    transitions : torch.nn.Parameter of shape (K, K)
        Scores ``[from, to]``.

    Notes
    -----
    *Devices.* Everything is computed on the CPU. Tensors on an accelerator are moved there, and
    results and gradients are moved back: worth it when the network, not this layer, is what keeps
    the accelerator busy.

    *Precision.* float32 and float64 as given, half precision in float32. Sums over a sequence
    are float64; the loss is rounded once, at the end.

    *Masks* are those of `torchcrf`: the first step of every sequence is on, and the steps that are
    on come before those that are off. A gap, which `torchcrf` takes without a word, is an error.
    Padding is never read: it may hold any tag, and NaN.

    *Scores* may be −inf, which forbids. NaN and +inf are a `ValueError` that says where, and a
    sequence without any possible tags is a `valuesparse.InfeasibleError`.

    *Derivatives.* First and second derivatives are exact (``create_graph=True`` works, and
    marginals may stand in a loss); a third is a `NotImplementedError`. Second ones take a pass in
    numpy, slower than the first. They are autograd's: `torch.func` is refused.

    Examples
    --------
    >>> import torch
    >>> from valuesparse.torch import CRF
    >>> crf = CRF(num_tags=3)
    >>> emissions = torch.zeros(4, 2, 3, requires_grad=True)  # steps, batch, tags
    >>> tags = torch.tensor([[0, 1], [1, 2], [2, 0], [0, 0]])
    >>> mask = torch.tensor([[1, 1], [1, 1], [1, 0], [1, 0]], dtype=torch.bool)
    >>> loss = -crf(emissions, tags, mask, reduction="mean")
    >>> loss.backward()
    >>> [len(best) for best in crf.decode(emissions, mask)]
    [4, 2]
    >>> crf.marginals(emissions, mask)[0].sum(dim=1).tolist()
    [1.0, 1.0]
    """

    allowed_transitions: torch.Tensor | None
    allowed_start: torch.Tensor | None
    allowed_end: torch.Tensor | None

    def __init__(
        self,
        num_tags: int,
        batch_first: bool = False,
        *,
        allowed_transitions: Any = None,
        allowed_start: Any = None,
        allowed_end: Any = None,
    ) -> None:
        try:
            num_tags = operator.index(num_tags)
        except TypeError:
            raise TypeError(f"num_tags must be an integer, got {num_tags!r}") from None
        if num_tags <= 0:
            raise ValueError(f"invalid number of tags: {num_tags}")
        super().__init__()
        self.num_tags = num_tags
        self.batch_first = batch_first
        self.start_transitions = torch.nn.Parameter(torch.empty(num_tags))
        self.end_transitions = torch.nn.Parameter(torch.empty(num_tags))
        self.transitions = torch.nn.Parameter(torch.empty(num_tags, num_tags))
        for name, value, shape in (
            ("allowed_transitions", allowed_transitions, (num_tags, num_tags)),
            ("allowed_start", allowed_start, (num_tags,)),
            ("allowed_end", allowed_end, (num_tags,)),
        ):
            # Not persistent: state_dict keeps the keys of torchcrf.
            self.register_buffer(name, as_constraint(name, value, shape), persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew, uniformly between -0.1 and 0.1."""
        torch.nn.init.uniform_(self.start_transitions, -0.1, 0.1)
        torch.nn.init.uniform_(self.end_transitions, -0.1, 0.1)
        torch.nn.init.uniform_(self.transitions, -0.1, 0.1)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}(num_tags={self.num_tags})"

    def forward(
        self,
        emissions: torch.Tensor,
        tags: torch.Tensor,
        mask: torch.Tensor | None = None,
        reduction: str = "sum",
        *,
        allowed: torch.Tensor | None = None,
        threads: int | None = None,
    ) -> torch.Tensor:
        """Return the conditional log-likelihood of tags.

        Parameters
        ----------
        emissions : Tensor of shape (T, B, K), or (B, T, K) when `batch_first`
            Score of every tag at every step.
        tags : Tensor of int, shape (T, B) or (B, T)
            The tags; what stands in padding is not looked at.
        mask : Tensor of bool or uint8, shape (T, B) or (B, T), optional
            Which steps there are; all by default.
        reduction : {"sum", "mean", "token_mean", "none"}
            Summed, averaged over sequences, averaged over steps, or one number per sequence. Where
            there are no sequences the sum is 0, and averages are NaN, as those of torch.
        allowed : Tensor of bool, the shape of `emissions`, optional
            Tags that each step may take: the likelihood among those only.
        threads : int, optional
            At least 1; by default :func:`valuesparse.get_num_threads`. Never shows in results.

        Returns
        -------
        Tensor
            Shape (B,) for "none", else a scalar.

        Raises
        ------
        TypeError
            For what is no tensor, or has the wrong kind of numbers.
        ValueError
            For wrong shapes, a mask that is off at a first step or has a gap, tags out of range
            or forbidden by the constraints, NaN, +inf, and an unknown `reduction`.
        InfeasibleError
            When a sequence has no possible tags.

        Examples
        --------
        >>> import torch
        >>> from valuesparse.torch import CRF
        >>> crf = CRF(2, batch_first=True)
        >>> for p in crf.parameters():
        ...     torch.nn.init.zeros_(p).numel()
        2
        2
        4
        >>> crf(torch.zeros(1, 3, 2), torch.zeros(1, 3, dtype=torch.long)).item()  # -3 log 2
        -2.0794...
        """
        if tags is None:
            raise TypeError("tags must be a torch.Tensor, got NoneType; log_partition needs none")
        self._validate(emissions, tags=tags, mask=mask)
        if reduction not in _REDUCTIONS:
            raise ValueError(f"invalid reduction: {reduction}")
        problem, dtype = self._problem(emissions, mask, allowed, threads, tags)
        llh = self._value(emissions, problem, dtype)
        if reduction == "none":
            return llh
        if reduction == "sum":
            return llh.sum()
        if reduction == "mean":
            return llh.mean()
        return llh.sum() / problem.padding.n_rows

    def decode(
        self,
        emissions: torch.Tensor,
        mask: torch.Tensor | None = None,
        *,
        allowed: torch.Tensor | None = None,
        threads: int | None = None,
    ) -> list[list[int]]:
        """Return the most probable tags of every sequence (Viterbi).

        Parameters
        ----------
        emissions, mask, allowed, threads
            As for :meth:`forward`.

        Returns
        -------
        list of list of int
            One list per sequence, as long as the sequence. Ties go to the lowest tag.

        Examples
        --------
        >>> import torch
        >>> from valuesparse.torch import CRF
        >>> emissions = torch.tensor([[[9.0, 0.0]], [[0.0, 9.0]]])
        >>> CRF(2).decode(emissions)
        [[0, 1]]
        """
        self._validate(emissions, mask=mask)
        problem, _ = self._problem(emissions, mask, allowed, threads)
        try:
            states, _ = _forest.decode(problem.chain, 1, problem.workers, Watch(None, None))
        except InfeasibleError as error:
            raise infeasible(error) from None
        best = states[0].tolist()
        ends = problem.padding.offset.tolist()
        return [best[begin:end] for begin, end in itertools.pairwise(ends)]

    def marginals(
        self,
        emissions: torch.Tensor,
        mask: torch.Tensor | None = None,
        *,
        allowed: torch.Tensor | None = None,
        zeta: float = 1.0,
        threads: int | None = None,
    ) -> torch.Tensor:
        """Return the probability of every tag at every step.

        Parameters
        ----------
        emissions, mask, allowed, threads
            As for :meth:`forward`.
        zeta : float, default 1.0
            Below 1: a step whose best tag reaches this probability is held fixed, an island of
            SMM11 (:func:`valuesparse.infer`): faster, and approximate.

        Returns
        -------
        Tensor of the shape of `emissions`
            Zero in padding. Can be differentiated when ``zeta`` is 1; the gradient takes a pass in
            numpy and memory for some sequences' pairwise marginals.

        Examples
        --------
        >>> import torch
        >>> from valuesparse.torch import CRF
        >>> crf = CRF(2)
        >>> crf.marginals(torch.zeros(3, 1, 2)).sum(dim=2).flatten().tolist()
        [1.0, 1.0, 1.0]
        """
        self._validate(emissions, mask=mask)
        zeta = as_zeta(zeta)
        problem, dtype = self._problem(emissions, mask, allowed, threads)
        if zeta >= 1.0:
            inputs = self._inputs(emissions.to(dtype))  # so that marginals come in that dtype
            ones = torch.ones(problem.padding.sequences, dtype=dtype)
            return Gradient.apply(ones, *inputs, problem, (True, False, False, False))[0]
        try:
            r = _forest.infer(problem.chain, zeta, -1, problem.workers, "islands", None, None)
        except InfeasibleError as error:
            raise infeasible(error) from None
        why = "marginals with zeta < 1 have no gradient: islands come and go; use zeta=1"
        return self._fixed(problem.padding.spread(r.marginals.copy()), emissions, dtype, why)

    def pairwise(
        self,
        emissions: torch.Tensor,
        mask: torch.Tensor | None = None,
        *,
        allowed: torch.Tensor | None = None,
        threads: int | None = None,
    ) -> torch.Tensor:
        """Return the probability of every pair of tags at neighbouring steps.

        Parameters
        ----------
        emissions, mask, allowed, threads
            As for :meth:`forward`.

        Returns
        -------
        Tensor of shape (T - 1, B, K, K), or (B, T - 1, K, K) when `batch_first`
            ``[t, b, l, k]``: tag l at step t and k at t + 1; zero where one of them is padding.
            It cannot be differentiated (a `NotImplementedError` says so).

        Examples
        --------
        >>> import torch
        >>> from valuesparse.torch import CRF
        >>> CRF(2).pairwise(torch.zeros(3, 1, 2)).sum(dim=(2, 3)).flatten().tolist()
        [1.0, 1.0]
        """
        self._validate(emissions, mask=mask)
        problem, dtype = self._problem(emissions, mask, allowed, threads)
        padding, k = problem.padding, self.num_tags
        edges = int(problem.chain.edge[-1])
        try:
            rows = _forest.pairwise(problem.chain, problem.workers, (0, edges))
        except InfeasibleError as error:
            raise infeasible(error) from None
        shape = (padding.sequences, padding.steps - 1, k, k)
        padded = np.zeros(shape, dtype=rows.dtype)
        padded[np.arange(padding.steps - 1) < padding.lengths[:, None] - 1] = rows
        why = "pairwise marginals have no gradient here; marginals and log_partition have one"
        ordered = padded if self.batch_first else padded.swapaxes(0, 1)
        return self._fixed(ordered, emissions, dtype, why)

    def log_partition(
        self,
        emissions: torch.Tensor,
        mask: torch.Tensor | None = None,
        *,
        allowed: torch.Tensor | None = None,
        threads: int | None = None,
    ) -> torch.Tensor:
        """Return log Z of every sequence, (B,); its gradient is the marginals.

        Parameters
        ----------
        emissions, mask, allowed, threads
            As for :meth:`forward`.

        Notes
        -----
        The log-likelihood of a partial annotation, in which `allowed` says which tags each step may
        have, is ``log_partition(emissions, mask, allowed=allowed) - log_partition(emissions,
        mask)``.

        Examples
        --------
        >>> import torch
        >>> from valuesparse.torch import CRF
        >>> crf = CRF(2)
        >>> either = torch.tensor([[[True, True]], [[True, False]]])
        >>> emissions = torch.zeros(2, 1, 2)
        >>> llh = crf.log_partition(emissions, allowed=either) - crf.log_partition(emissions)
        >>> bool(-0.8 < llh < -0.6)  # about -log 2
        True
        """
        self._validate(emissions, mask=mask)
        problem, dtype = self._problem(emissions, mask, allowed, threads)
        return self._value(emissions, problem, dtype)

    def _inputs(self, emissions: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return emissions, self.transitions, self.start_transitions, self.end_transitions

    def _fixed(
        self, numbers: npt.NDArray[Any], emissions: torch.Tensor, dtype: torch.dtype, why: str
    ) -> torch.Tensor:
        """Return numbers as a tensor beside `emissions`; asked for its gradient, it says `why`."""
        answer = torch.from_numpy(numbers).to(device=emissions.device, dtype=dtype)
        if not torch.is_grad_enabled():
            return answer
        return Undifferentiable.apply(answer, why, *self._inputs(emissions))

    def _value(
        self, emissions: torch.Tensor, problem: PaddedBatch, dtype: torch.dtype
    ) -> torch.Tensor:
        learns = torch.is_grad_enabled()
        return LogScore.apply(*self._inputs(emissions), problem, dtype, learns)

    def _problem(
        self,
        emissions: torch.Tensor,
        mask: torch.Tensor | None,
        allowed: torch.Tensor | None,
        threads: int | None,
        tags: torch.Tensor | None = None,
    ) -> tuple[PaddedBatch, torch.dtype]:
        """Return the batch as a chain, and the dtype that PyTorch would give the answer."""
        workers = resolve(threads)
        dtype = emissions.dtype
        for parameter in (self.transitions, self.start_transitions, self.end_transitions):
            if parameter.dtype != dtype:
                dtype = torch.promote_types(dtype, parameter.dtype)
        if not dtype.is_floating_point:
            raise TypeError(f"emissions must hold real numbers, got {emissions.dtype}")
        work = torch.float64 if dtype == torch.float64 else torch.float32
        first, second = emissions.shape[:2]
        steps, sequences = (second, first) if self.batch_first else (first, second)
        present = None if mask is None else to_numpy(mask, torch.bool)
        padding = Padding(steps, sequences, present, self.batch_first)
        unary = padding.gather(to_numpy(emissions, work))
        require_potentials("emissions", unary, lambda at: (*padding.place(at[0]), at[1]))
        may = None if allowed is None else padding.gather(self._allowed(emissions, allowed))
        chain = Chain._trusted(
            unary,
            self._parameter("transitions", self.allowed_transitions, work),
            padding.lengths,
            may,
            self._parameter("start_transitions", self.allowed_start, work),
            self._parameter("end_transitions", self.allowed_end, work),
        )
        if tags is None:
            return PaddedBatch(chain, padding, None, workers), dtype
        gold = make_gold(padding, self._tags(padding, tags), chain)
        if may is not None or np.isneginf(gold.score).any():
            require_allowed(padding, gold, may, self)
        return PaddedBatch(chain, padding, gold, workers), dtype

    def _parameter(self, name: str, allowed: torch.Tensor | None, work: torch.dtype) -> Array:
        values = to_numpy(getattr(self, name), work)
        require_potentials(name, values)
        if allowed is None:
            return values
        return np.where(allowed.cpu().numpy(), values, values.dtype.type(-math.inf))

    def _allowed(self, emissions: torch.Tensor, allowed: torch.Tensor) -> Array:
        may = torch.as_tensor(allowed)
        if may.dtype != torch.bool:
            raise TypeError(f"allowed must be boolean, got {may.dtype}")
        if may.shape != emissions.shape:
            raise ValueError(
                "allowed must have the shape of emissions, "
                f"got {tuple(may.shape)} and {tuple(emissions.shape)}"
            )
        return np.asarray(may.cpu().numpy())

    def _tags(self, padding: Padding, tags: torch.Tensor) -> npt.NDArray[np.int64]:
        if tags.dtype not in _INTEGERS:
            raise TypeError(f"tags must be integers, got {tags.dtype}")
        y: npt.NDArray[np.int64] = padding.gather(to_numpy(tags, torch.int64))
        if y.size and (y.min() < 0 or y.max() >= self.num_tags):
            row = int(((y < 0) | (y >= self.num_tags)).argmax())
            raise ValueError(
                f"tags{list(padding.place(row))} is {y[row]}; tags run from 0 to "
                f"{self.num_tags - 1} (padding may hold anything, if mask says that it is padding)"
            )
        return y

    def _validate(
        self,
        emissions: torch.Tensor,
        tags: torch.Tensor | None = None,
        mask: torch.Tensor | None = None,
    ) -> None:
        """Refuse what is no tensor, and what `torchcrf.CRF` refuses, in its words."""
        for name, given in (("emissions", emissions), ("tags", tags), ("mask", mask)):
            if not (isinstance(given, torch.Tensor) or (given is None and name != "emissions")):
                raise TypeError(
                    f"{name} must be a torch.Tensor, got {type(given).__name__}; torch.as_tensor "
                    "makes one of an array"
                )
        if emissions.dim() != 3:
            raise ValueError(f"emissions must have dimension of 3, got {emissions.dim()}")
        if emissions.size(2) != self.num_tags:
            raise ValueError(
                f"expected last dimension of emissions is {self.num_tags}, got {emissions.size(2)}"
            )
        shape = emissions.shape[:2]
        for name, other in (("tags", tags), ("mask", mask)):
            if other is not None and shape != other.shape:
                raise ValueError(
                    f"the first two dimensions of emissions and {name} must match, "
                    f"got {tuple(shape)} and {tuple(other.shape)}"
                )
        if shape[1 if self.batch_first else 0] == 0:
            raise ValueError(f"emissions must have at least one step, got shape {tuple(shape)}")
        if mask is not None and not (mask[:, 0] if self.batch_first else mask[0]).all():
            raise ValueError("mask of the first timestep must all be on")
