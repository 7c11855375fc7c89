"""UAI evidence and results."""

from __future__ import annotations

import gzip
import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graph_files import UAI_MODEL

import valuesparse as vs
from valuesparse.io import (
    TextFormatError,
    UaiResult,
    read_uai_evidence,
    read_uai_result,
    write_uai_evidence,
    write_uai_result,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", [{}]),
        (b"\n", [{}]),
        (b"0", [{}]),
        (b"1\n0", [{}]),
        (b"1 0", [{}]),
        (b"2 3 1 5 0", [{3: 1, 5: 0}]),
        (b"2\n3 1\n5 0\n", [{3: 1, 5: 0}]),
        (b"1\n2 3 1 5 0\n", [{3: 1, 5: 0}]),
        (b"1 2 3 1 5 0", [{3: 1, 5: 0}]),
        (b"2\n1 3 1\n2 5 0 6 1\n", [{3: 1}, {5: 0, 6: 1}]),
        (b"2 1 3 1 2 5 0 6 1\n", [{3: 1}, {5: 0, 6: 1}]),
        # Both layouts fit: what stands on lines of their own are samples.
        (b"2\n1 5 7\n0\n", [{5: 7}, {}]),
        (b"2 1 5 7 0\n", [{1: 5, 7: 0}]),
        (b"2\n1 5\n7 0\n", [{1: 5, 7: 0}]),
        (b"1\n1 0 1\n", [{0: 1}]),
        (gzip.compress(b"1 4 2", mtime=0), [{4: 2}]),
    ],
)
def test_evidence_of_all_years(text: bytes, expected: list[dict[int, int]]) -> None:
    if len(expected) == 1:
        assert read_uai_evidence(text) == expected[0]
    else:
        with pytest.raises(ValueError, match=f"holds {len(expected)} samples: choose one with"):
            read_uai_evidence(text)
    for i, sample in enumerate(expected):
        assert read_uai_evidence(text, sample=i) == sample
    with pytest.raises(ValueError, match=f"holds {len(expected)} samples?, counted from 0"):
        read_uai_evidence(text, sample=len(expected))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"2 1 0", "line 1, evidence: 2 observed variables take 4 numbers, but 2 follow"),
        (b"3\n1 0\n1", "line 3, evidence: 3 observed variables take 6 numbers, but 3 follow"),
        (b"one 1 0", "line 1, evidence: 'one' is not a number"),
        (b"2\n1 0\n1 1", "line 3, evidence: variable '1' stands there twice"),
        (b"1 0 -1", "evidence: variable or state: '-1' is less than 0"),
        (b"1 0 0.5", "evidence: variable or state: '0.5' is not a whole number"),
        (b"-1", "'-1' is less than 0"),
    ],
)
def test_damaged_evidence(text: bytes, message: str) -> None:
    with pytest.raises(TextFormatError) as caught:
        read_uai_evidence(text)
    assert message in str(caught.value)


def test_evidence_of_models() -> None:
    assert vs.read_uai(UAI_MODEL, evidence=b"1 2 2").evidence == {2: 2}
    assert vs.read_uai(UAI_MODEL, evidence={2: 2}).evidence == {2: 2}
    assert vs.read_uai(UAI_MODEL, evidence=b"2\n1 0 1\n1 1 0", sample=1).evidence == {1: 0}
    with pytest.raises(
        TextFormatError, match="line 1, evidence: there is no variable '3': the mod"
    ):
        vs.read_uai(UAI_MODEL, evidence=b"1 3 0")
    with pytest.raises(TextFormatError, match="line 1, evidence: variable 2 has no state '3': it "):
        vs.read_uai(UAI_MODEL, evidence=b"1 2 3")
    with pytest.raises(ValueError, match="sample chooses from an evidence file"):
        vs.read_uai(UAI_MODEL, sample=0)
    with pytest.raises(ValueError, match=r"evidence\[0\] is array"):
        write_uai_evidence({0: np.zeros(2)}, io.StringIO())


@pytest.mark.parametrize(
    ("text", "sample", "line", "token", "words"),
    [
        ("2\n0 1\n\n3 0\n", None, 4, "3", "there is no variable '3': the model has 3, numbered"),
        ("2\n0 1\n2 7\n", None, 3, "7", "variable 2 has no state '7': it has 3, numbered from 0"),
        ("2\n0 1\n0 0\n", None, 3, "0", "variable '0' stands there twice: state 1 before, 0 here"),
        ("2\n0 1\n0 1\n", None, 3, "0", "variable '0' stands there twice: both alike"),
        ("2\n1 0 1\n1 1 2\n", 1, 3, "2", "variable 1 has no state '2': it has 2"),
        ("1\n0 1.5", None, 2, "1.5", "'1.5' is not a whole number"),
        ("2\n0 x", None, 2, "x", "'x' is not a number"),
    ],
)
def test_evidence_that_does_not_fit_is_said_with_file_line_and_token(
    text: str, sample: int | None, line: int, token: str, words: str, tmp_path: Path
) -> None:
    path = tmp_path / "model.uai.evid.gz"
    path.write_bytes(gzip.compress(text.encode()))
    for source, prefix in ((path, f"{path}: "), (text.encode(), "")):
        with pytest.raises(TextFormatError) as caught:
            vs.read_uai(UAI_MODEL, evidence=source, sample=sample)
        error = caught.value
        assert str(error).startswith(f"{prefix}line {line}, evidence: ")
        assert words in str(error)
        assert (error.line, error.token) == (line, token)
        again = pickle.loads(pickle.dumps(error))
        assert (str(again), again.path) == (str(error), error.path)


def test_evidence_of_labels_is_looked_up() -> None:
    graph = vs.read_fg(b"1\n\n2\n7 3\n2 3\n2\n0 0.25\n3 0.75\n")
    assert read_uai_evidence(b"2 7 1 3 2", graph=graph) == {1: 1, 0: 2}
    with pytest.raises(TextFormatError, match="there is no variable '1': the model has 3, 7"):
        read_uai_evidence(b"1 1 0", graph=graph)
    named = vs.FactorGraph([2, 2], names=["a", "b"])
    assert read_uai_evidence(b"1 1 0", graph=named) == {1: 0}
    with pytest.raises(TextFormatError, match="there is no variable '2'"):
        read_uai_evidence(b"1 2 0", graph=named)


@pytest.mark.parametrize("bad", [{-1: 0}, {0: -1}, {True: 0}, {0: True}, {0: 1.0}, {"a": 0}])
def test_evidence_files_hold_numbers(bad: Any) -> None:
    with pytest.raises(ValueError, match=r"evidence\[.*only numbers of variables and of states"):
        write_uai_evidence(bad, io.StringIO())


def test_arguments_of_evidence() -> None:
    for bad in ("0", 1.0, True, -1):
        with pytest.raises(ValueError, match="sample must be an integer >= 0"):
            read_uai_evidence(b"1 0 1", sample=bad)
    with pytest.raises(TypeError, match=r"graph must be a valuesparse\.FactorGraph, got int"):
        read_uai_evidence(b"1 0 1", graph=3)
    with pytest.raises(ValueError, match="evidence must be a mapping"):
        write_uai_evidence([1], io.StringIO())


@pytest.mark.parametrize(
    ("text", "task", "value"),
    [
        (b"PR\n-2.5", "PR", -2.5),
        (b"PR\n1\n-2.5", "PR", -2.5),
        (b"PR\n-9\n-BEGIN-\n-2.5\n", "PR", -2.5),
        (b"MAR\n2 2 0.25 0.75 1 1.0", "MAR", [[0.25, 0.75], [1.0]]),
        (b"MAR\n1\n2 2 0.25 0.75 1 1.0", "MAR", [[0.25, 0.75], [1.0]]),
        (b"PR\n0\n", "PR", 0.0),
        (b"MAR\n0\n", "MAR", []),
        (b"MPE\n0\n", "MPE", []),
        (b"MPE\n1\n0\n", "MPE", []),
        (b"MPE\n3 0 1 2\n", "MPE", [0, 1, 2]),
        (b"MPE\n1\n3 0 1 2\n", "MPE", [0, 1, 2]),
    ],
)
def test_results(text: bytes, task: str, value: object) -> None:
    result = read_uai_result(text)
    assert result.task == task
    found = {
        "PR": lambda: result.log10_z,
        "MAR": lambda: [p.tolist() for p in result.marginals or ()],
        "MPE": lambda: list(result.states or ()),
    }[task]()
    assert found == value
    file = io.StringIO()
    write_uai_result(result, file)
    again = io.StringIO()
    write_uai_result(read_uai_result(file.getvalue().encode()), again)
    assert again.getvalue() == file.getvalue()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"MMAP\n1 0 1", "line 1, header: expected PR or MAR or MPE, got 'MMAP'"),
        (b"PR\n", "partition function: the file ends"),
        (b"PR\n1.5 2.5", "partition function: expected nothing more, got '2.5'"),
        (b"MAR\n2 2 0.5 0.5", "line 2, marginals: the file ends where 1 more number of states"),
        (b"MAR\n-BEGIN-\n1 2 0.5 half", "line 3, marginals: 'half' is not a number"),
        (b"MPE\n3 0 1", "line 2, explanation: number of variables: '3' is more than 2"),
        (b"PR\n1e400", "line 2, partition function: '1e400' is too large a number"),
        (b"PR\n-1e400", "line 2, partition function: '-1e400' is too large a number"),
        (b"PR\n2\n-1.5\n1e999", "line 4, partition function: '1e999' is too large a number"),
        (b"MAR\n1 2 -0.5 1.5", "line 2, marginals: '-0.5' is no probability"),
        (b"MAR\n2 1 1\n2 0.5 1e400", "line 3, marginals: '1e400' is no probability"),
        (b"MPE\n1 -1", "state: '-1' is less than 0"),
    ],
)
def test_damaged_results(text: bytes, message: str) -> None:
    with pytest.raises(TextFormatError) as caught:
        read_uai_result(text)
    assert message in str(caught.value)


def test_results_say_what_they_need() -> None:
    with pytest.raises(ValueError, match="task must be one of PR, MAR, MPE"):
        UaiResult("MMAP")
    with pytest.raises(ValueError, match="marginals must be given for task 'MAR'"):
        UaiResult("MAR", log10_z=1.0)
    with pytest.raises(ValueError, match="holds 2 samples"):
        read_uai_result(b"PR\n2\n-1.5\n-2.5")
    assert read_uai_result(b"PR\n2\n-1.5\n-2.5", sample=1).log10_z == -2.5


@pytest.mark.parametrize(
    ("task", "text"),
    [("PR", "PR\n-2.5\n"), ("MAR", "MAR\n1 2 0.25 0.75\n"), ("MPE", "MPE\n2 1 0\n")],
)
def test_what_is_written_is_what_the_task_asks_for(task: str, text: str) -> None:
    states = np.array([1, 0])
    result = UaiResult(task, log10_z=-2.5, marginals=[np.array([0.25, 0.75])], states=states)
    write_uai_result(result, file := io.StringIO())
    assert file.getvalue() == text
    assert read_uai_result(text.encode()).task == task


@pytest.mark.parametrize(
    ("task", "answer", "message"),
    [
        ("PR", -np.inf, "log10_z is -inf, but result files hold finite numbers alone"),
        ("PR", np.nan, "log10_z is nan, but"),
        ("MAR", [[1.0], [0.5, np.nan]], r"marginals\[1\]\[1\] is nan, but"),
        (
            "MAR",
            [[1.0], [0.5, -0.5]],
            r"marginals\[1\]\[1\] is -0.5, but probabilities are 0 or more",
        ),
        ("MAR", [[np.inf]], r"marginals\[0\]\[0\] is inf, but"),
        ("MAR", [[1.0], [[0.5, 0.5]]], r"marginals\[1\] must be a number for each state"),
        ("MAR", [[]], r"marginals\[0\] must be a number for each state, got shape \(0,\)"),
        ("MPE", [0, 1.5], r"states\[1\] must be an integer >= 0"),
        ("MPE", [-1], r"states\[0\] must be an integer >= 0"),
        ("MPE", [2**31], r"states\[0\] must be at most 2147483647, got 2147483648"),
    ],
)
def test_no_result_is_written_that_cannot_be_read(task: str, answer: Any, message: str) -> None:
    field = {"PR": "log10_z", "MAR": "marginals", "MPE": "states"}[task]
    with pytest.raises(ValueError, match=message):
        write_uai_result(UaiResult(task, **{field: answer}), file := io.StringIO())
    assert file.getvalue() == ""
