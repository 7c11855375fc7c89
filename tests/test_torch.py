"""The PyTorch layer against torchcrf, enumeration, and numerical derivatives."""

from __future__ import annotations

import copy
import importlib
import io
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import children
import numpy as np
import pytest
from checks import refused
from hypothesis import given
from hypothesis import strategies as st
from oracles import Arrays, enumerate_chain, sequences
from strategies import bio_transitions, examples

import valuesparse as vs

# Not in the extra `test`: PyTorch takes 0.2 GB to load and 0.7 on disk for CPUs, and gigabytes from
# PyPI on Linux. Where it is wanted: pip install torch (a build for CPUs will do) pytorch-crf.
torch = pytest.importorskip("torch", reason="needs PyTorch: the extra torch")

CRF = importlib.import_module("valuesparse.torch").CRF  # no skip: it has to be importable here

REDUCTIONS = ("none", "sum", "mean", "token_mean")
LENGTHS = (7, 1, 3, 6, 2)
K = 4


class Batch:
    """Random emissions, tags and mask in float64, and a layer for them."""

    def __init__(
        self,
        seed: int,
        *,
        batch_first: bool = False,
        lengths: Any = LENGTHS,
        k: int = K,
        **ctor: Any,
    ) -> None:
        generator = torch.Generator().manual_seed(seed)
        steps, n = max(lengths), len(lengths)
        mask = torch.arange(steps)[:, None] < torch.tensor(lengths)[None, :]
        emissions = torch.randn(steps, n, k, dtype=torch.float64, generator=generator)
        tags = torch.randint(0, k, (steps, n), generator=generator)
        if batch_first:
            emissions, tags, mask = (x.transpose(0, 1) for x in (emissions, tags, mask))
        self.emissions, self.tags, self.mask = (x.contiguous() for x in (emissions, tags, mask))
        self.lengths, self.batch_first = list(lengths), batch_first
        self.crf = CRF(k, batch_first, **ctor).double()
        with torch.no_grad():
            for p in self.crf.parameters():
                p.copy_(torch.randn(p.shape, dtype=torch.float64, generator=generator))

    def arrays(self, allowed: Any = None) -> Arrays:
        """Return the batch as the oracles take it, constraints folded in."""
        swap = (lambda x: x) if self.batch_first else (lambda x: x.transpose(0, 1))
        rows = swap(self.mask)
        crf = self.crf

        def scores(parameter: Any, may: Any) -> np.ndarray:
            values = parameter.detach().numpy().copy()
            if may is not None:
                values[~may.numpy()] = -np.inf
            return values

        return Arrays(
            swap(self.emissions)[rows].detach().numpy(),
            scores(crf.transitions, crf.allowed_transitions),
            np.array(self.lengths),
            scores(crf.start_transitions, crf.allowed_start),
            scores(crf.end_transitions, crf.allowed_end),
            None if allowed is None else swap(allowed)[rows].numpy(),
        )

    def answers(self, allowed: Any = None) -> list[Any]:
        """Return the enumeration of every sequence."""
        return [enumerate_chain(seq) for seq in sequences(self.arrays(allowed))]

    def inputs(self) -> list[Any]:
        """Return leaves for numerical derivatives: emissions, transitions, start, end."""
        crf = self.crf
        tensors = (self.emissions, crf.transitions, crf.start_transitions, crf.end_transitions)
        return [x.detach().clone().requires_grad_() for x in tensors]

    def call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Return a function of `inputs` that calls a method of the layer."""
        names = ("transitions", "start_transitions", "end_transitions")

        class Caller(torch.nn.Module):
            def __init__(self, crf: Any) -> None:
                super().__init__()
                self.crf = crf

            def forward(self, emissions: Any) -> Any:
                return getattr(self.crf, method)(emissions, *args, **kwargs)

        caller = Caller(self.crf)

        def function(emissions: Any, *parameters: Any) -> Any:
            values = {f"crf.{n}": p for n, p in zip(names, parameters, strict=True)}
            return torch.func.functional_call(caller, values, (emissions,))

        return function

    def by_sequence(self, padded: Any) -> list[np.ndarray]:
        """Return the steps of each sequence, of a padded tensor."""
        rows = padded.detach() if self.batch_first else padded.detach().transpose(0, 1)
        return [rows[b, :n].numpy() for b, n in enumerate(self.lengths)]


@pytest.fixture(params=[False, True], ids=["steps_first", "batch_first"])
def batch_first(request: pytest.FixtureRequest) -> bool:
    return request.param


# ------------------------------------------------------------------------------------ torchcrf


@pytest.fixture
def torchcrf() -> Any:
    return pytest.importorskip("torchcrf", reason="needs pytorch-crf")


def twins(torchcrf: Any, batch: Batch) -> tuple[Any, Any]:
    theirs = torchcrf.CRF(batch.crf.num_tags, batch.batch_first).to(batch.emissions.dtype)
    theirs.load_state_dict(batch.crf.state_dict())
    return theirs, batch.crf


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["f64", "f32"])
@pytest.mark.parametrize("full", [False, True], ids=["ragged", "full"])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_values_and_gradients_are_those_of_torchcrf(
    torchcrf: Any, batch_first: bool, reduction: str, full: bool, dtype: Any
) -> None:
    batch = Batch(0, batch_first=batch_first, lengths=(7,) * 5 if full else LENGTHS)
    batch.crf.to(dtype)
    batch.emissions = batch.emissions.to(dtype)
    answers = []
    for crf in twins(torchcrf, batch):
        emissions = batch.emissions.clone().requires_grad_()
        value = crf(emissions, batch.tags, batch.mask, reduction)
        assert value.dtype == dtype
        weights = torch.arange(1, value.numel() + 1, dtype=dtype).reshape(value.shape)
        (value * weights).sum().backward()
        gradients = [emissions.grad, *(crf.get_parameter(name).grad for name in crf.state_dict())]
        answers.append([value.detach(), *gradients])
    tol = 1e-10 if dtype == torch.float64 else 2e-5
    for theirs, ours in zip(*answers, strict=True):
        assert theirs.dtype == ours.dtype
        assert theirs.shape == ours.shape
        torch.testing.assert_close(ours, theirs, rtol=tol, atol=tol)


@pytest.mark.parametrize("k", [1, 2, 9, 49])
def test_decoding_is_that_of_torchcrf(torchcrf: Any, batch_first: bool, k: int) -> None:
    for seed in range(3):
        batch = Batch(seed, batch_first=batch_first, lengths=(20, 3, 1, 11), k=k)
        theirs, ours = twins(torchcrf, batch)
        best = ours.decode(batch.emissions, batch.mask)
        assert best == theirs.decode(batch.emissions, batch.mask)
        assert all(type(tag) is int for tags in best for tag in tags)


def test_a_byte_mask_and_no_mask(batch_first: bool) -> None:
    batch = Batch(1, batch_first=batch_first)
    crf, args = batch.crf, (batch.emissions, batch.tags)
    assert crf(*args, batch.mask.byte()) == crf(*args, batch.mask)
    assert crf(*args) == crf(*args, torch.ones_like(batch.mask))
    assert crf.decode(batch.emissions) == crf.decode(batch.emissions, torch.ones_like(batch.mask))


def test_state_dict_initialisation_and_repr_are_those_of_torchcrf(torchcrf: Any) -> None:
    torch.manual_seed(3)
    theirs = torchcrf.CRF(5)
    torch.manual_seed(3)
    ours = CRF(5, allowed_start=[True] * 5)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert [n for n, _ in ours.named_parameters()] == [n for n, _ in theirs.named_parameters()]
    for name, value in theirs.state_dict().items():
        assert torch.equal(ours.state_dict()[name], value)
    assert repr(ours) == repr(theirs) == "CRF(num_tags=5)"
    assert (ours.num_tags, ours.batch_first) == (5, False)
    torch.manual_seed(3)
    ours.reset_parameters()
    assert torch.equal(ours.transitions, theirs.transitions)
    theirs.load_state_dict(ours.state_dict())


def off(mask: Any, *at: int) -> Any:
    mask = mask.clone()
    mask[at] = False
    return mask


@pytest.mark.parametrize(
    "wrong",
    [
        lambda e, y, m: (e[0], y, m),
        lambda e, y, m: (e[..., :2], y, m),
        lambda e, y, m: (e, y[:-1], m),
        lambda e, y, m: (e, y[:, :-1], m),
        lambda e, y, m: (e, y, m[:-1]),
        lambda e, y, m: (e, y, m[:, :-1]),
        lambda e, y, m: (e, y, off(m, 0, 0)),
        lambda e, y, m: (e, y, m, "median"),
        lambda e, y, m: (e[..., :2], y[:-1], m, "median"),
    ],
)
def test_refusals_are_those_of_torchcrf(torchcrf: Any, batch_first: bool, wrong: Any) -> None:
    batch = Batch(0, batch_first=batch_first)
    args = wrong(batch.emissions, batch.tags, batch.mask)
    messages = []
    for crf in twins(torchcrf, batch):
        with pytest.raises(ValueError, match=r"\w") as info:
            crf(*args)
        messages.append(str(info.value))
        if len(args) == 3 and args[1] is batch.tags:
            with pytest.raises(ValueError, match=r"\w") as info:
                crf.decode(args[0], args[2])
            messages.append(str(info.value))
    assert len(set(messages)) == 1
    for number in (0, -1):
        for layer in (torchcrf.CRF, CRF):
            with pytest.raises(ValueError, match=f"invalid number of tags: {number}"):
                layer(number)


# --------------------------------------------------------------------------------- enumeration


def assert_enumerated(batch: Batch, allowed: Any = None) -> None:
    crf, args = batch.crf, {"allowed": allowed}
    answers = batch.answers(allowed)
    log_z = crf.log_partition(batch.emissions, batch.mask, **args).detach().numpy()
    np.testing.assert_allclose(log_z, [float(a.log_z) for a in answers], rtol=1e-12)
    marginals = crf.marginals(batch.emissions, batch.mask, **args)
    pairwise = crf.pairwise(batch.emissions, batch.mask, **args)
    assert marginals.shape == batch.emissions.shape
    assert not marginals[~batch.mask].any()
    assert pairwise.sum().item() == pytest.approx(sum(n - 1 for n in batch.lengths))
    for a, p, q in zip(
        answers, batch.by_sequence(marginals), batch.by_sequence(pairwise), strict=True
    ):
        np.testing.assert_allclose(p, a.marginals.astype(float), rtol=0, atol=1e-12)
        np.testing.assert_allclose(q[: len(p) - 1], a.pairwise.astype(float), rtol=0, atol=1e-12)
    decoded = crf.decode(batch.emissions, batch.mask, **args)
    assert decoded == [a.states[np.argmax(a.scores)].tolist() for a in answers]


@given(st.integers(0, 2**31), st.booleans(), st.lists(st.integers(1, 5), min_size=1, max_size=4))
@examples(60)
def test_everything_against_enumeration(seed: int, first: bool, lengths: list[int]) -> None:
    assert_enumerated(Batch(seed, batch_first=first, lengths=lengths, k=3))


def test_constraints_against_enumeration(batch_first: bool) -> None:
    transition, start = bio_transitions(2)
    end = np.array([True, True, True, True, False])
    batch = Batch(
        5, batch_first=batch_first, lengths=(4, 1, 5), k=5,
        allowed_transitions=transition == 0, allowed_start=start == 0, allowed_end=end,
    )  # fmt: skip
    assert_enumerated(batch)
    allowed = torch.ones_like(batch.emissions, dtype=torch.bool)
    allowed[0, 0, 1:3] = False
    allowed[1, 0, 0] = False
    assert_enumerated(batch, allowed)
    best = batch.crf.decode(batch.emissions, batch.mask, allowed=allowed)
    for tags in best:
        assert np.isfinite(start[tags[0]])
        assert end[tags[-1]]
        assert np.isfinite(transition[tags[:-1], tags[1:]]).all()


def test_likelihoods_sum_to_one_over_all_tags() -> None:
    batch = Batch(2, lengths=(4,), k=3)
    states = torch.tensor(np.indices((3,) * 4).reshape(4, -1))
    llh = batch.crf(batch.emissions.expand(4, 81, 3), states, reduction="none")
    assert llh.exp().sum().item() == pytest.approx(1, abs=1e-12)


def test_constrained_likelihood_is_conditional() -> None:
    batch = Batch(3, lengths=(3, 2), k=3)
    allowed = torch.ones_like(batch.emissions, dtype=torch.bool)
    allowed[1, :, 2] = False
    tags = batch.tags.clamp(max=1)
    given_set = batch.crf(batch.emissions, tags, batch.mask, "none", allowed=allowed)
    of_set = batch.crf.log_partition(
        batch.emissions, batch.mask, allowed=allowed
    ) - batch.crf.log_partition(batch.emissions, batch.mask)
    joint = batch.crf(batch.emissions, tags, batch.mask, "none")
    torch.testing.assert_close(given_set + of_set, joint, rtol=1e-12, atol=1e-12)


# --------------------------------------------------------------------------------- derivatives


def test_first_and_second_derivatives(batch_first: bool) -> None:
    batch = Batch(0, batch_first=batch_first, lengths=(3, 1, 4), k=3)
    for function in (
        batch.call("forward", batch.tags, batch.mask, "none"),
        batch.call("forward", batch.tags, None, "token_mean"),
        batch.call("log_partition", batch.mask),
        batch.call("marginals", batch.mask),
    ):
        assert torch.autograd.gradcheck(function, batch.inputs())
    for function in (
        batch.call("forward", batch.tags, batch.mask, "none"),
        batch.call("log_partition", batch.mask),
    ):
        assert torch.autograd.gradgradcheck(function, batch.inputs())


def test_derivatives_under_constraints() -> None:
    transition, start = bio_transitions(1)
    batch = Batch(
        1, lengths=(4, 2), k=3, allowed_transitions=transition == 0, allowed_start=start == 0
    )
    allowed = torch.ones_like(batch.emissions, dtype=torch.bool)
    allowed[1, 0, 0] = False
    for method in ("log_partition", "marginals"):
        function = batch.call(method, batch.mask, allowed=allowed)
        inputs = batch.inputs()
        assert torch.autograd.gradcheck(function, inputs)
        gradients = torch.autograd.grad(function(*inputs).pow(2).sum(), inputs)
        assert all(g.isfinite().all() for g in gradients)
        assert not gradients[1][torch.tensor(transition) < 0].any()


def test_many_sequences_are_differentiated_block_by_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batch = Batch(6, lengths=(3, 5, 1, 1, 4, 2), k=3)
    function, inputs = batch.call("marginals", batch.mask), batch.inputs()

    def gradients() -> tuple[Any, ...]:
        return torch.autograd.grad(function(*inputs).pow(2).sum(), inputs)

    whole = gradients()
    for entries in (1, 36, 63):
        monkeypatch.setattr("valuesparse.torch._curvature._BLOCK_ENTRIES", entries)
        for a, b in zip(whole, gradients(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-14)


def test_a_third_derivative_is_refused() -> None:
    batch = Batch(0, lengths=(3,), k=2)
    (x, *rest) = batch.inputs()
    value = batch.call("log_partition", batch.mask)(x, *rest).sum()
    (first,) = torch.autograd.grad(value, x, create_graph=True)
    (second,) = torch.autograd.grad(first.pow(2).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="no third"):
        second.sum().backward()
    # Nor is it silently left out where nothing but the scores leads to it.
    direction = torch.ones_like(first)
    value = batch.call("log_partition", batch.mask)(x, *rest).sum()
    (first,) = torch.autograd.grad(value, x, create_graph=True)
    (second,) = torch.autograd.grad((first * direction).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="no third"):
        (second.sum() + x.sum()).backward()


def test_what_has_no_gradient_says_so() -> None:
    batch = Batch(0)
    emissions = batch.emissions.clone().requires_grad_()
    for answer, words in (
        (batch.crf.marginals(emissions, batch.mask, zeta=0.9), "zeta=1"),
        (batch.crf.pairwise(emissions, batch.mask), "pairwise"),
    ):
        with pytest.raises(NotImplementedError, match=words):
            answer.sum().backward()
    with torch.no_grad():
        assert not batch.crf.pairwise(emissions, batch.mask).requires_grad


@pytest.mark.parametrize("frozen", ["emissions", "transitions", "start_transitions", "all"])
def test_only_what_learns_gets_a_gradient(frozen: str) -> None:
    batch = Batch(0)
    emissions = batch.emissions.clone().requires_grad_(frozen not in ("emissions", "all"))
    for name, p in batch.crf.named_parameters():
        p.requires_grad_(frozen not in (name, "all"))
    llh = batch.crf(emissions, batch.tags, batch.mask)
    assert llh.requires_grad == (frozen != "all")
    if frozen == "all":
        return
    llh.backward()
    for name, x in (("emissions", emissions), *batch.crf.named_parameters()):
        assert (x.grad is None) == (name == frozen)


def test_a_graph_may_be_used_twice() -> None:
    batch = Batch(0)
    emissions = batch.emissions.clone().requires_grad_()
    llh = batch.crf(emissions, batch.tags, batch.mask, "none")
    llh.sum().backward(retain_graph=True)
    once = emissions.grad.clone()
    (llh * torch.arange(5)).sum().backward(retain_graph=True)
    emissions.grad = None
    llh.sum().backward()
    assert torch.equal(emissions.grad, once)


def test_changing_an_input_before_backward_is_noticed() -> None:
    batch = Batch(0)
    llh = batch.crf(batch.emissions.clone().requires_grad_(), batch.tags, batch.mask)
    with torch.no_grad():
        batch.crf.transitions.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        llh.backward()


@pytest.mark.smoke
def test_training_learns_to_copy() -> None:
    torch.manual_seed(0)
    crf = CRF(3, batch_first=True)
    layer = torch.nn.Linear(3, 3)
    tags = torch.randint(0, 3, (16, 9))
    x = torch.nn.functional.one_hot(tags, 3).float()
    optimiser = torch.optim.Adam([*crf.parameters(), *layer.parameters()], lr=0.1)
    for _ in range(60):
        optimiser.zero_grad()
        loss = -crf(layer(x), tags, reduction="token_mean")
        loss.backward()
        optimiser.step()
    assert loss.item() < 0.05
    assert crf.decode(layer(x)) == tags.tolist()


# -------------------------------------------------------------------------- inputs and outputs


def test_padding_is_never_read(batch_first: bool) -> None:
    batch = Batch(0, batch_first=batch_first)
    answers = []
    for emission, tag in ((0.0, 0), (float("nan"), -100)):
        emissions = batch.emissions.clone()
        emissions[~batch.mask] = emission
        emissions.requires_grad_()
        tags = batch.tags.clone()
        tags[~batch.mask] = tag
        llh = batch.crf(emissions, tags, batch.mask)
        llh.backward()
        assert not emissions.grad[~batch.mask].any()
        best = batch.crf.decode(emissions, batch.mask)
        answers.append((llh.item(), emissions.grad, best))
    assert answers[0][0] == answers[1][0]
    assert torch.equal(answers[0][1], answers[1][1])
    assert answers[0][2] == answers[1][2]


def test_inputs_come_back_untouched(batch_first: bool) -> None:
    batch = Batch(0, batch_first=batch_first)
    before = [x.clone() for x in (batch.emissions, batch.tags, batch.mask)]
    marginals = batch.crf.marginals(batch.emissions, batch.mask)
    batch.crf(batch.emissions, batch.tags, batch.mask).backward()
    marginals.detach().add_(1)  # the answer is the caller's
    for a, b in zip(before, (batch.emissions, batch.tags, batch.mask), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize(
    ("emissions", "parameters", "answer"),
    [
        (torch.float32, torch.float32, torch.float32),
        (torch.float64, torch.float32, torch.float64),
        (torch.float32, torch.float64, torch.float64),
        (torch.float16, torch.float32, torch.float32),
        (torch.bfloat16, torch.bfloat16, torch.bfloat16),
    ],
)
def test_dtypes_are_promoted_as_pytorch_does(emissions: Any, parameters: Any, answer: Any) -> None:
    batch = Batch(0)
    batch.crf.to(parameters)
    x = batch.emissions.to(emissions).requires_grad_()
    llh = batch.crf(x, batch.tags, batch.mask)
    assert llh.dtype == answer
    llh.backward()
    assert x.grad.dtype == emissions
    assert batch.crf.transitions.grad.dtype == parameters
    marginals = batch.crf.marginals(x, batch.mask)
    assert marginals.dtype == answer
    wide = copy.deepcopy(batch.crf).double().marginals(x.double(), batch.mask)
    tol = {torch.float64: 1e-12, torch.float32: 1e-6, torch.bfloat16: 1e-2}[answer]
    torch.testing.assert_close(marginals.double(), wide, rtol=tol, atol=tol)
    expected = Batch(0).crf(batch.emissions, batch.tags, batch.mask)
    assert llh.item() == pytest.approx(expected.item(), rel=0.02)


def test_numbers_that_are_no_scores_are_refused(batch_first: bool) -> None:
    batch = Batch(0, batch_first=batch_first)
    at = (2, 3, 1) if batch_first else (3, 2, 1)
    batch.mask[:] = True
    for value, word in ((float("nan"), "NaN"), (float("inf"), r"\+inf"), (1e300, "1e\\+300")):
        emissions = batch.emissions.clone()
        emissions[at] = value
        with pytest.raises(ValueError, match=rf"emissions\[{at[0]}, {at[1]}, 1\].* {word}"):
            batch.crf.decode(emissions, batch.mask)
    with torch.no_grad():
        batch.crf.transitions[1, 2] = float("nan")
    with pytest.raises(ValueError, match=r"transitions\[1, 2\] is NaN"):
        batch.crf.decode(batch.emissions)
    with pytest.raises(TypeError, match="emissions must hold real numbers"):
        CRF(K, batch_first).decode(batch.emissions.to(torch.complex64))


def test_tags_are_checked(batch_first: bool) -> None:
    batch = Batch(0, batch_first=batch_first)
    at = (3, 1) if batch_first else (1, 3)
    for tag in (-1, K):
        tags = batch.tags.clone()
        tags[at] = tag
        with pytest.raises(
            ValueError, match=rf"tags\[{at[0]}, {at[1]}\] is {tag}; .* 0 to {K - 1}"
        ):
            batch.crf(batch.emissions, tags, batch.mask)
    with pytest.raises(TypeError, match=r"tags must be integers, got torch\.float32"):
        batch.crf(batch.emissions, batch.tags.float(), batch.mask)
    small = batch.crf(batch.emissions, batch.tags.to(torch.uint8), batch.mask)
    assert small == batch.crf(batch.emissions, batch.tags, batch.mask)


def test_masks_are_checked(batch_first: bool) -> None:
    batch = Batch(0, batch_first=batch_first)
    at = (3, 2) if batch_first else (2, 3)
    gap = off(batch.mask, *at)
    with pytest.raises(
        ValueError, match=rf"mask\[{at[0]}, {at[1]}\] is off .* of sequence 3 is on"
    ):
        batch.crf.decode(batch.emissions, gap)
    empty = torch.zeros((3, 0, K) if batch_first else (0, 3, K), dtype=torch.float64)
    with pytest.raises(ValueError, match="at least one step"):
        batch.crf.decode(empty)


def test_a_batch_may_be_empty(batch_first: bool) -> None:
    crf = CRF(K, batch_first)
    shape = (0, 3) if batch_first else (3, 0)
    emissions = torch.zeros(*shape, K, requires_grad=True)
    llh = crf(emissions, torch.zeros(shape, dtype=torch.long))
    assert llh.item() == 0
    llh.backward()
    assert emissions.grad.shape == emissions.shape
    assert not crf.transitions.grad.any()
    assert crf.decode(emissions) == []
    assert crf.marginals(emissions).shape == emissions.shape
    assert crf.log_partition(emissions, torch.ones(shape, dtype=torch.bool)).shape == (0,)


def test_constraints_are_checked() -> None:
    batch = Batch(0, lengths=(3, 2))
    allowed = torch.ones_like(batch.emissions, dtype=torch.bool)
    with pytest.raises(TypeError, match=r"allowed must be boolean, got torch\.float64"):
        batch.crf.decode(batch.emissions, allowed=allowed.double())
    with pytest.raises(ValueError, match=r"allowed .*\(2, 2, 4\) and \(3, 2, 4\)"):
        batch.crf.decode(batch.emissions, allowed=allowed[:-1])
    with pytest.raises(ValueError, match=r"allowed_transitions must have shape \(4, 4\)"):
        CRF(4, allowed_transitions=[True] * 4)
    with pytest.raises(TypeError, match="allowed_end must be boolean"):
        CRF(4, allowed_end=[1, 1, 1, 0])


def test_tags_that_a_constraint_forbids_are_refused(batch_first: bool) -> None:
    ones, matrix = torch.ones(K, dtype=torch.bool), torch.ones(K, K, dtype=torch.bool)
    swap = (lambda t, b: (b, t)) if batch_first else (lambda t, b: (t, b))
    batch = Batch(0, batch_first=batch_first, lengths=(3, 4))
    tags = torch.zeros_like(batch.tags)
    tags[swap(1, 1)] = 2
    args = (batch.emissions, tags, batch.mask)
    matrix[0, 2] = False
    t, b = swap(1, 1)
    crf = CRF(K, batch_first, allowed_transitions=matrix).double()
    with pytest.raises(
        ValueError, match=rf"tags\[{t}, {b}\] is 2 after 0, which allowed_transitions forbids"
    ):
        crf(*args)
    t, b = swap(0, 0)
    with pytest.raises(ValueError, match=rf"tags\[{t}, {b}\] is 0, which allowed_start forbids"):
        CRF(K, batch_first, allowed_start=off(ones, 0)).double()(*args)
    t, b = swap(2, 0)
    with pytest.raises(ValueError, match=rf"tags\[{t}, {b}\] is 0, which allowed_end forbids"):
        CRF(K, batch_first, allowed_end=off(ones, 0)).double()(*args)
    allowed = torch.ones_like(batch.emissions, dtype=torch.bool)
    t, b = swap(1, 1)
    allowed[t, b, 2] = False
    with pytest.raises(ValueError, match=rf"tags\[{t}, {b}\] is 2, which allowed forbids"):
        batch.crf(*args, allowed=allowed)
    # Forbidden by the scores themselves: a likelihood of zero, as for torchcrf.
    emissions = batch.emissions.clone()
    emissions[t, b, 2] = -np.inf
    assert batch.crf(emissions, tags, batch.mask) == -np.inf


def test_a_sequence_without_any_tags_is_named() -> None:
    batch = Batch(0)
    emissions = batch.emissions.clone()
    emissions[2, 3] = -np.inf
    for call in (
        lambda: batch.crf(emissions, batch.tags, batch.mask),
        lambda: batch.crf.log_partition(emissions, batch.mask),
        lambda: batch.crf.decode(emissions, batch.mask),
        lambda: batch.crf.marginals(emissions, batch.mask),
        lambda: batch.crf.marginals(emissions, batch.mask, zeta=0.5),
        lambda: batch.crf.pairwise(emissions, batch.mask),
    ):
        with refused(vs.InfeasibleError, "sequence 3", "no possible tags", "step 2") as info:
            call()
        assert (info.value.sequence, info.value.position) == (3, 2)


@given(st.integers(0, 2**31), st.sampled_from([100.0, 10_000.0]))
@examples(40)
def test_large_scores_stay_finite(seed: int, scale: float) -> None:
    batch = Batch(seed, lengths=(6, 2), k=3)
    emissions = (scale * batch.emissions).float().requires_grad_()
    crf = batch.crf.float()
    llh = crf(emissions, batch.tags, batch.mask)
    llh.backward()
    assert llh.isfinite()
    assert llh.item() <= 1e-3 * scale
    assert emissions.grad.isfinite().all()
    marginals = crf.marginals(emissions, batch.mask)
    torch.testing.assert_close(marginals.sum(dim=2)[batch.mask], torch.ones(8))


def test_islands_are_those_of_infer(batch_first: bool) -> None:
    batch = Batch(0, batch_first=batch_first)
    emissions = 4 * batch.emissions
    marginals = batch.crf.marginals(emissions, batch.mask, zeta=0.8)
    batch.emissions = emissions
    arrays = batch.arrays()
    r = vs.infer(vs.Chain(**arrays.kwargs()), zeta=0.8)
    assert r.stats["islands"] > 0
    np.testing.assert_array_equal(np.concatenate(batch.by_sequence(marginals)), r.marginals)
    with pytest.raises(ValueError, match="zeta"):
        batch.crf.marginals(emissions, zeta=2)


def test_threads_never_show() -> None:
    torch.manual_seed(0)
    lengths = torch.randint(1, 40, (300,)).tolist()
    batch = Batch(4, lengths=lengths, k=9)
    answers = []
    for threads in (1, 2, 8, None):
        emissions = batch.emissions.clone().requires_grad_()
        llh = batch.crf(emissions, batch.tags, batch.mask, "none", threads=threads)
        (llh * torch.arange(300)).sum().backward()
        answers.append((llh, emissions.grad, batch.crf.transitions.grad))
        batch.crf.zero_grad(set_to_none=True)
        best = batch.crf.decode(batch.emissions, batch.mask, threads=threads)
        assert best == batch.crf.decode(batch.emissions, batch.mask, threads=1)
    for other in answers[1:]:
        assert all(torch.equal(a, b) for a, b in zip(answers[0], other, strict=True))
    with pytest.raises(ValueError, match="threads"):
        batch.crf.decode(batch.emissions, threads=0)


def test_one_layer_serves_many_threads() -> None:
    batch = Batch(4, lengths=(30, 20, 25), k=9)
    expected = batch.crf(batch.emissions, batch.tags, batch.mask).item()
    answers: list[float] = []

    def work() -> None:
        for _ in range(20):
            answers.append(batch.crf(batch.emissions, batch.tags, batch.mask).item())

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert answers == [expected] * 80


@pytest.mark.smoke
def test_layers_are_copied_and_saved() -> None:
    batch = Batch(0, allowed_start=[True, True, True, False])
    buffer = io.BytesIO()
    torch.save(batch.crf, buffer)
    buffer.seek(0)
    saved = torch.load(buffer, weights_only=False)
    for crf in (copy.deepcopy(batch.crf), saved):
        assert crf.decode(batch.emissions) == batch.crf.decode(batch.emissions)
        assert torch.equal(crf.allowed_start, batch.crf.allowed_start)
    assert batch.crf.half().allowed_start.dtype == torch.bool


def test_it_warns_of_nothing_and_loads_lazily() -> None:
    code = "import sys, valuesparse; print('torch' in sys.modules)"
    assert children.run(code).stdout.strip() == "False"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Batch(0).crf(Batch(0).emissions, Batch(0).tags).backward()


@pytest.mark.smoke
def test_examples() -> None:
    options = "addopts=--pyargs --import-mode=importlib --doctest-modules"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-o", options, "valuesparse.torch"],
        env=children.environment(),
        cwd=Path(__file__).parents[1],  # where the options of doctests stand
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
