"""The PyTorch layer against torchcrf, enumeration, and numerical derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import bio_transitions, examples
from torch_batches import CRF, LENGTHS, Batch, off, torch

REDUCTIONS = ("none", "sum", "mean", "token_mean")


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
        monkeypatch.setattr("valuesparse.torch._curvature.BLOCK_ENTRIES", entries)
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
