"""The PyTorch layer: what goes in and comes out, dtypes, masks, constraints, copies, threads."""

from __future__ import annotations

import copy
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
from strategies import examples
from torch_batches import CRF, Batch, K, off, torch

import valuesparse as vs


@pytest.fixture(params=[False, True], ids=["steps_first", "batch_first"])
def batch_first(request: pytest.FixtureRequest) -> bool:
    return request.param


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
    for reduction in ("mean", "token_mean"):  # as torch's own means of nothing
        assert crf(emissions, torch.zeros(shape, dtype=torch.long), None, reduction).isnan()


@pytest.mark.parametrize("bad", [2.5, "3", None])
def test_a_number_of_tags_that_is_none_is_named(bad: Any) -> None:
    with refused(TypeError, "num_tags must be an integer", repr(bad)):
        CRF(bad)


def test_what_is_no_tensor_is_named() -> None:
    batch = Batch(0)
    given = {"emissions": batch.emissions, "tags": batch.tags, "mask": batch.mask}
    for name, value in given.items():
        with refused(TypeError, f"{name} must be a torch.Tensor, got ndarray"):
            batch.crf(**{**given, name: value.numpy()})
    with refused(TypeError, "tags must be a torch.Tensor, got NoneType"):
        batch.crf(batch.emissions, None)
    with refused(TypeError, "emissions must be a torch.Tensor, got list"):
        batch.crf.decode(batch.emissions.tolist())


@pytest.mark.filterwarnings("ignore")  # of torch, about its own parts
def test_functional_transforms_are_refused_by_name() -> None:
    batch = Batch(0)
    for transform in (torch.func.grad, torch.func.jacrev, torch.func.jacfwd):
        with pytest.raises(RuntimeError, match=r"torch\.func .* hides; take torch\.autograd"):
            transform(lambda x: batch.crf(x, batch.tags))(batch.emissions)
    several = torch.stack([batch.emissions, batch.emissions])
    with pytest.raises(RuntimeError, match=r"torch\.func .* hides; take torch\.autograd"):
        torch.func.vmap(lambda x: batch.crf(x, batch.tags))(several)


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
