"""The UAI competitions' answers: partition functions, marginals, most probable explanations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse._validation import as_choice, as_count
from valuesparse.io._files import Source, Target, naming, write_text
from valuesparse.io._samples import choose, find_samples
from valuesparse.io._text import Tokens

__all__ = ["UaiResult", "read_uai_result", "write_uai_result"]

TASKS = ("PR", "MAR", "MPE")
# Bytes that a variable takes beside its words.
_VARIABLE = 200
# The last index of a state that is read.
_LAST_STATE = 2**31 - 1


@dataclass(frozen=True, eq=False)
class UaiResult:
    """An answer in the UAI competitions' terms.

    Parameters
    ----------
    task : {"PR", "MAR", "MPE"}
        The question: the partition function, marginals, or the most probable explanation.
    log10_z : float, optional
        The decimal log of the partition function (PR).
    marginals : sequence of ndarray, optional
        A distribution for each variable of the model, observed ones included (MAR).
    states : sequence of int, optional
        A state for each variable of the model (MPE).

    Raises
    ------
    ValueError
        When `task` is unknown, or its answer is missing.

    Examples
    --------
    >>> from valuesparse.io import UaiResult
    >>> UaiResult("PR", log10_z=-2.5)
    UaiResult(task='PR', log10_z=-2.5, marginals=None, states=None)
    """

    task: str
    log10_z: float | None = None
    marginals: Sequence[npt.NDArray[np.float64]] | None = None
    states: Sequence[int] | None = None

    def __post_init__(self) -> None:
        as_choice("task", self.task, TASKS)
        field = {"PR": "log10_z", "MAR": "marginals", "MPE": "states"}[self.task]
        if getattr(self, field) is None:
            raise ValueError(f"{field} must be given for task {self.task!r}")


def read_uai_result(source: Source, *, sample: int | None = None) -> UaiResult:
    r"""Read an answer in the UAI result format, with or without the number of samples.

    Parameters
    ----------
    source : path, file object or bytes
        The answer, as text or gzip.
    sample : int, optional
        Which of several samples to take, from 0; needed when there are several.

    Returns
    -------
    UaiResult
        The last of several solutions (after ``-BEGIN-``), which is the one that counts.

    Raises
    ------
    TextFormatError
        The file is no such answer, or is damaged.
    ValueError
        There are several samples, and `sample` does not say which; or it is out of range.

    Examples
    --------
    >>> from valuesparse.io import read_uai_result
    >>> read_uai_result(b"PR\n-2.5\n").log10_z
    -2.5
    >>> [p.tolist() for p in read_uai_result(b"MAR 2  2 0.25 0.75  1 1.0").marginals]
    [[0.25, 0.75], [1.0]]
    """
    with naming(source):
        return _read(Tokens.of(source), sample)


def _read(tokens: Tokens, sample: int | None) -> UaiResult:
    task = tokens.word("header", TASKS)
    begin = tokens.data.rfind(b"-BEGIN-")
    if begin >= 0:
        tokens.skip_to(begin + len("-BEGIN-"))
    tokens.read_numbers()
    chunk = {"PR": "partition function", "MAR": "marginals", "MPE": "explanation"}[task]
    tokens.require(1, chunk, "numbers")
    values = tokens.values

    def size(at: int) -> int | None:
        value = float(values[at]) if at < len(values) else -1.0
        return int(value) if 0 <= value < len(values) and value.is_integer() else None

    def measure(at: int) -> int | None:
        if task == "PR":
            return 1
        n = size(at)
        if n is None or task == "MPE":
            return None if n is None else 1 + n
        end = at + 1
        for _ in range(n):
            k = size(end)
            if k is None:
                return None
            end += 1 + k
        return end - at

    samples = find_samples(tokens, measure)
    if samples is None:
        tokens.at = tokens.first
        _read_sample(tokens, task, chunk)  # finds the error
        raise tokens.error(tokens.at, chunk, "expected nothing more, got {}")
    found = []
    for begin, _ in samples:
        tokens.at = tokens.first + begin
        found.append(_read_sample(tokens, task, chunk))
    return choose(found, sample, "result file")


def _read_sample(tokens: Tokens, task: str, chunk: str) -> UaiResult:
    if task == "PR":
        tokens.require(1, chunk, "numbers")
        log10_z = float(tokens.values[tokens.at - tokens.first])
        if not math.isfinite(log10_z):
            raise tokens.error(tokens.at, chunk, "{} is too large a number")
        tokens.at += 1
        return UaiResult(task, log10_z=log10_z)
    n = tokens.count(chunk, "number of variables", 1)
    tokens.afford(n, _VARIABLE, "variables")
    if task == "MPE":
        return UaiResult(task, states=tuple(tokens.integers(n, chunk, "state", 0, _LAST_STATE)))
    begin = tokens.at - tokens.first
    marginals = []
    for _ in range(n):
        k = tokens.count(chunk, "number of states", 1, at_least=1)
        tokens.require(k, chunk, "numbers")
        at = tokens.at - tokens.first
        marginals.append(tokens.values[at : at + k].copy())
        tokens.at += k
    numbers = tokens.values[begin : tokens.at - tokens.first]
    wrong = ~((numbers >= 0.0) & (numbers < np.inf))
    if wrong.any():
        at = tokens.first + begin + int(wrong.argmax())
        raise tokens.error(at, chunk, "{} is no probability: these are finite, and 0 or more")
    return UaiResult(task, marginals=tuple(marginals))


def write_uai_result(result: UaiResult, target: Target) -> None:
    r"""Write an answer as the competitions since 2014 do: the task, and a line of numbers.

    Parameters
    ----------
    result : UaiResult
        The answer.
    target : path or file object
        Where to; a path that ends in ``.gz`` is compressed.

    Raises
    ------
    ValueError
        The answer has what the format cannot hold: a number that is not finite, a marginal that is
        no number for each state or has negative ones, or a state that is no index.

    Examples
    --------
    >>> import io
    >>> import numpy as np
    >>> from valuesparse.io import UaiResult, write_uai_result
    >>> result = UaiResult("MAR", marginals=[np.array([0.25, 0.75])])
    >>> write_uai_result(result, file := io.StringIO())
    >>> file.getvalue()
    'MAR\n1 2 0.25 0.75\n'
    """
    write_text(target, format_uai_result(result))


def format_uai_result(result: UaiResult) -> str:
    """Return what `write_uai_result` writes: the answer to the task, whatever else is there."""
    words: list[Any] = []
    if result.task == "PR":
        words.append(float(result.log10_z))  # type: ignore[arg-type]
        _require_finite("log10_z", words)
    elif result.task == "MAR":
        marginals = () if result.marginals is None else result.marginals
        words.append(len(marginals))
        for v, marginal in enumerate(marginals):
            found = np.asarray(marginal, dtype=np.float64)
            if found.ndim != 1 or not found.size:
                raise ValueError(
                    f"marginals[{v}] must be a number for each state, got shape {found.shape}"
                )
            numbers = found.tolist()
            if not np.isfinite(found).all():
                _require_finite(f"marginals[{v}][{{}}]", numbers)
            if found.min() < 0.0:
                at = int((found < 0.0).argmax())
                raise ValueError(
                    f"marginals[{v}][{at}] is {numbers[at]}, but probabilities are 0 or more"
                )
            words += [len(numbers), *numbers]
    else:
        states = () if result.states is None else result.states
        words.append(len(states))
        for v, state in enumerate(states):
            words.append(as_count(f"states[{v}]", state, at_least=0))
            if words[-1] > _LAST_STATE:
                raise ValueError(f"states[{v}] must be at most {_LAST_STATE}, got {words[-1]}")
    return f"{result.task}\n{' '.join(map(repr, words))}\n"


def _require_finite(name: str, numbers: Sequence[float]) -> None:
    """Refuse what is no number to the format, and to the reader; ``{}`` stands for the index."""
    for i, number in enumerate(numbers):
        if not math.isfinite(number):
            raise ValueError(
                f"{name.format(i)} is {number}, but result files hold finite numbers alone; give "
                "one, or write no file"
            )
