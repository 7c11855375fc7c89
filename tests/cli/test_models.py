"""`valuesparse solve` and `valuesparse info`, as a user would call them."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("click", reason="the command line needs the cli extra")
pytest.importorskip("rich", reason="the command line needs the cli extra")

from click.testing import CliRunner, Result
from graph_files import DATA, weights

import valuesparse as vs
from valuesparse.cli import _graphs
from valuesparse.cli._group import valuesparse
from valuesparse.cli._models import Size
from valuesparse.inference._memory import show_bytes
from valuesparse.io import read_uai_result

MODEL = """MARKOV
3
2 2 3
3
2 0 1
2 1 2
2 0 2
4 0.4 0.6 0.1 0.9
6 0.2 0.3 0.5 0.0 0.25 0.75
6 1 2 3 4 5 6
"""
LABELS = "1\n\n2\n7 3\n2 2\n4\n0 1\n1 2\n2 3\n3 4\n"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.uai"
    path.write_text(MODEL)
    return path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(valuesparse, [str(a) for a in arguments])


def error_of(result: Result, code: int = 1) -> str:
    """Return the one line that says what went wrong."""
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert lines[-1].startswith("Error: ")
    if code == 1:
        assert len(lines) == 1
    return lines[-1]


def expected(model: Path, evidence: dict[Any, Any] | None = None) -> tuple[np.ndarray, float]:
    graph = vs.read_uai(model, evidence)
    table = weights(graph)
    return table / table.sum(), float(np.log10(table.sum()))


def test_what_is_read_is_not_written_over(model: Path, tmp_path: Path) -> None:
    evidence = tmp_path / "seen.json"
    evidence.write_text('{"0": 1}')
    link = tmp_path / "link.uai"
    os.link(model, link)
    for output, what in ((model, "the model"), (link, "the model"), (evidence, "the evidence")):
        result = run("solve", model, "--evidence", evidence, "--output", output)
        assert error_of(result) == (
            f"Error: --output: {output} is {what}, and would be lost; name another file"
        )
    assert (model.read_text(), evidence.read_text()) == (MODEL, '{"0": 1}')


def test_marginals(model: Path) -> None:
    result = run("solve", model)
    assert result.exit_code == 0, result.output
    joint, log10_z = expected(model)
    found = read_uai_result(result.stdout.encode()).marginals
    assert found is not None
    for v, marginal in enumerate(found):
        others = tuple(u for u in range(3) if u != v)
        np.testing.assert_allclose(marginal, joint.sum(axis=others), rtol=1e-12)
    both = f"log10 Z {log10_z:.6g} (log Z {np.log(10) * log10_z:.6g})"
    assert f"{both}; junction_tree (" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_partition_function(model: Path, tmp_path: Path) -> None:
    evidence = tmp_path / "e.evid"
    evidence.write_text("1\n1 2 1\n")
    result = run("solve", model, "--evidence", evidence, "--task", "pr", "--quiet")
    found = read_uai_result(result.stdout.encode()).log10_z
    assert found == pytest.approx(expected(model, {2: 1})[1], rel=1e-12)
    assert result.stderr == ""


def test_most_probable_states(model: Path) -> None:
    result = run("solve", model, "--task", "MPE")
    joint, _ = expected(model)
    states = read_uai_result(result.stdout.encode()).states
    assert states == tuple(np.unravel_index(joint.argmax(), joint.shape))
    answer = json.loads(run("solve", model, "-k", "MPE", "-f", "json").stdout)
    assert [row["state"] for row in answer["variables"]] == list(states)
    assert answer["method"] == "junction_tree"
    weight = joint.max() * 10 ** expected(model)[1]
    assert answer["score"] == pytest.approx(np.log(weight), rel=1e-12)


def test_json(model: Path) -> None:
    answer = json.loads(run("solve", model, "--format", "json").stdout)
    assert list(answer) == ["task", "method", "reason", "log_z", "log10_z", "variables"]
    joint, log10_z = expected(model)
    assert answer["log10_z"] == pytest.approx(log10_z, rel=1e-12)
    assert answer["log_z"] == pytest.approx(log10_z * np.log(10), rel=1e-12)
    assert answer["variables"][2]["name"] == 2
    assert answer["variables"][2]["states"] == [0, 1, 2]
    np.testing.assert_allclose(answer["variables"][2]["marginal"], joint.sum(axis=(0, 1)))
    assert json.loads(run("solve", model, "-f", "json", "-k", "PR").stdout)["task"] == "PR"


def test_evidence_that_says_a_thing_twice(model: Path, tmp_path: Path) -> None:
    evidence = tmp_path / "E.JSON"
    evidence.write_text('{"0": 1, "1": 0, "0": 0}')
    assert "'0' stands there twice" in error_of(run("solve", model, "-e", evidence))


def test_names_and_json_evidence(tmp_path: Path) -> None:
    path, evidence = tmp_path / "model.bif.gz", tmp_path / "e.json"
    path.write_bytes(gzip.compress(
        b"variable rain { type discrete [2] { no, yes }; }\n"
        b"variable wet { type discrete [2] { dry, damp }; }\n"
        b"probability (rain) { table 0.8, 0.2; }\n"
        b"probability (wet | rain) { (no) 0.9, 0.1; (yes) 0.2, 0.8; }\n"
    ))  # fmt: skip
    for content, name in (
        ('{"wet": "damp"}', "e.json"), ("1 1 1", "e.evid"), ('{"wet": [-1000, 0]}', "f.json")
    ):  # fmt: skip
        evidence = tmp_path / name
        evidence.write_text(content)
        answer = json.loads(run("solve", path, "-e", evidence, "-f", "json").stdout)
        assert [row["name"] for row in answer["variables"]] == ["rain", "wet"]
        assert answer["variables"][0]["states"] == ["no", "yes"]
        np.testing.assert_allclose(answer["variables"][0]["marginal"], [1 / 3, 2 / 3], rtol=1e-12)
    for content, words in (
        ('{"snow": "yes"}', "there is no variable 'snow'"),
        ('{"wet": "soaked"}', "has no state 'soaked': its states are 'dry', 'damp'"),
        ('["wet"]', "expected an object"),
        ("{", "not JSON"),
    ):
        evidence = tmp_path / "e.json"
        evidence.write_text(content)
        error = error_of(run("solve", path, "-e", evidence))
        assert f"{evidence}: " in error
        assert words in error


def test_probabilities_as_evidence_are_to_be_logarithms(model: Path, tmp_path: Path) -> None:
    evidence = tmp_path / "e.json"
    evidence.write_text('{"0": [0.2, 0.8]}')
    error = error_of(run("solve", model, "-e", evidence))
    assert "likelihood=" not in error
    assert "evidence takes log-likelihoods: write their logarithms (of 0 a number such as" in error
    evidence.write_text(f'{{"0": {np.log([0.2, 0.8]).tolist()}}}')
    answer = json.loads(run("solve", model, "-e", evidence, "-f", "json").stdout)
    expected = vs.infer(vs.read_uai(model), likelihood={0: [0.2, 0.8]})
    np.testing.assert_allclose(answer["variables"][0]["marginal"], expected[0], rtol=1e-12)


@pytest.mark.parametrize("value", ['["a", "b"]', "[null, 1]", '["1", "2"]', "[{}, 1]"])
def test_evidence_of_the_wrong_type(model: Path, tmp_path: Path, value: str) -> None:
    evidence = tmp_path / "e.json"
    evidence.write_text(f'{{"0": {value}}}')
    error = error_of(run("solve", model, "-e", evidence))
    assert error.startswith(f"Error: {evidence}: evidence[0] must hold real numbers, got an array")


def test_labels_of_libdai(tmp_path: Path) -> None:
    path, evidence = tmp_path / "model.fg", tmp_path / "e.evid"
    path.write_text(LABELS)
    evidence.write_text("1 7 1")
    answer = json.loads(run("solve", path, "-e", evidence, "-f", "json").stdout)
    assert [row["name"] for row in answer["variables"]] == [3, 7]
    np.testing.assert_allclose(answer["variables"][0]["marginal"], [2 / 6, 4 / 6], rtol=1e-12)


def test_output_files(model: Path, tmp_path: Path) -> None:
    for name in ("answer.MAR", "answer.MAR.gz"):
        result = run("solve", model, "--output", tmp_path / name)
        assert result.exit_code == 0, result.output
        assert result.stdout == ""
        assert f"written to {tmp_path / name}" in result.stderr
        assert read_uai_result(tmp_path / name).task == "MAR"
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "answer.MAR", "answer.MAR.gz", "model.uai"
    ]  # fmt: skip


def test_an_answer_that_cannot_be_written_names_its_file(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: Path, target: Path) -> None:
        raise PermissionError(13, "Permission denied", str(source), None, str(target))

    monkeypatch.setattr("os.replace", refuse)
    target = tmp_path / "answer.MAR"
    error = error_of(run("solve", model, "--output", target))
    assert error == f"Error: {target}: Permission denied"


@pytest.mark.parametrize("path", sorted(DATA.glob("*.uai")) or [None], ids=lambda p: p and p.stem)
def test_instances(path: Path | None) -> None:
    if path is None:
        pytest.skip("the instances are not beside the repository")
    options = [path, "-e", f"{path}.evid", "-q"]
    found = read_uai_result(run("solve", *options).stdout.encode()).marginals
    reference = read_uai_result(f"{path}.MAR").marginals
    assert found is not None
    assert reference is not None
    assert max(np.abs(p - q).max() for p, q in zip(found, reference, strict=True)) < 6e-7
    log10_z = read_uai_result(run("solve", *options, "-k", "PR").stdout.encode()).log10_z
    expected = read_uai_result(f"{path}.PR").log10_z  # six digits
    half = 0.5 * 10.0 ** (np.floor(np.log10(abs(expected))) - 5)
    assert log10_z == pytest.approx(expected, abs=1.001 * half)


def test_what_the_engine_is_asked(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def marginals(graph: vs.FactorGraph, **options: Any) -> Any:
        asked.update(options)
        found = [np.full(c, 1 / c) for c in graph.cardinalities]
        return SimpleNamespace(marginals=found, log_z=0.0, method="exact", reason="a test")

    monkeypatch.setattr(_graphs, "marginals", marginals)
    options = ["--zeta", "0.9", "--threads", "2", "--memory-limit", "2GiB"]
    assert run("solve", model, *options).exit_code == 0
    assert asked == {"zeta": 0.9, "threads": 2, "memory_limit": 2 << 30, "progress": None}


def test_the_partition_function_needs_no_marginals(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("marginals were asked for")

    monkeypatch.setattr(_graphs, "marginals", never)
    result = run("solve", model, "-k", "PR", "--format", "json")
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert answer["log10_z"] == pytest.approx(expected(model)[1])
    assert answer["method"] == "exact"


def test_progress_is_drawn_on_terminals_only(monkeypatch: pytest.MonkeyPatch) -> None:
    from rich.console import Console

    from valuesparse.cli import solve

    screen, terminal = io.StringIO(), True
    monkeypatch.setattr(
        "rich.console.Console", lambda **options: Console(file=screen, force_terminal=terminal)
    )
    with solve._progress(quiet=True) as progress:
        assert progress is None
    terminal = False
    with solve._progress(quiet=False) as progress:
        assert progress is None
    terminal = True
    with solve._progress(quiet=False) as progress:
        assert progress is not None
        progress(5, 10)
    assert "50%" in screen.getvalue()


def test_progress_of_the_most_probable_states(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    decode = vs.decode

    def watched(*arguments: Any, **options: Any) -> Any:
        asked.append(options["progress"])
        return decode(*arguments, **options)

    monkeypatch.setattr(vs, "decode", watched)
    for seen in (None, lambda done, total: None):
        monkeypatch.setattr(
            "valuesparse.cli.solve._progress", lambda quiet, seen=seen: nullcontext(seen)
        )
        assert run("solve", model, "-k", "MPE").exit_code == 0
        assert asked[-1] is seen


def test_info(model: Path, tmp_path: Path) -> None:
    result = run("info", model)
    assert result.exit_code == 0, result.output
    rows = dict(line.split("  ", 1) for line in result.stdout.splitlines()[1:] if line.strip())
    rows = {name: value.strip() for name, value in rows.items()}
    assert rows["variables"] == "3"
    assert rows["states"] == "2 to 3, 7 in all"
    assert rows["factors"] == "3, over at most 2 variables"
    assert rows["table entries"] == "16, at most 6 in one, 6 % zeros"
    assert rows["evidence"] == "none"
    assert rows["width"] == "2"
    assert rows["clique tables"] == "12 entries"
    assert rows["infer would"] == "run junction_tree"
    assert "bytes" in rows["memory"] or "KiB" in rows["memory"]
    assert re.fullmatch(r"about \S+ ms, and \S+ ms for the plan", rows["time"])
    assert "".join(rows["because"].split()) in "".join(vs.infer(vs.read_uai(model)).reason.split())
    assert max(map(len, result.stdout.splitlines())) <= 80
    evidence = tmp_path / "e.evid"
    evidence.write_text("1 0 1")
    text = run("info", model, "-e", evidence).stdout
    assert "run exact" in text
    assert "1 variable" in text
    assert "1 variables" not in text
    assert "the evidence leaves a graph without cycles: two passes" in " ".join(text.split())


def test_info_says_what_zeta_does(model: Path) -> None:
    text = " ".join(run("info", model, "--zeta", "0.9").stdout.split())
    assert "infer would run islands because zeta=0.9 was asked for" in text
    assert "run junction_tree" in run("info", model, "--zeta", "1").stdout


def test_info_says_in_the_words_of_infer_what_runs_where_exact_does_not_fit(model: Path) -> None:
    r = vs.infer(vs.read_uai(model), memory_limit=1)
    assert r.method == "bp"
    text = "".join(run("info", model, "--memory-limit", "1").stdout.split())
    assert "runbp" in text
    assert "".join(r.reason.partition(", an approximation")[0].split()) in text


def test_info_says_when_the_search_for_a_tree_was_given_up(tmp_path: Path) -> None:
    side = 40
    graph = vs.FactorGraph([2] * side * side)
    for v in range(side * side):
        for u in [v - 1] * (v % side > 0) + [v - side] * (v >= side):
            graph.add([u, v], np.zeros((2, 2)))
    vs.write_uai(graph, tmp_path / "grid.uai")
    text = " ".join(run("info", tmp_path / "grid.uai", "--memory-limit", "1MB").stdout.split())
    assert "width unknown: the search was given up after" in text
    assert (
        "infer would run bp because every junction tree of a short search needs more than" in text
    )


def test_what_a_tree_is_conditioned_on_is_said(tmp_path: Path) -> None:
    rng, graph = np.random.default_rng(0), vs.FactorGraph([3] * 36)
    for v in range(36):
        for u in [v - 1] * (v % 6 > 0) + [v - 6] * (v >= 6):
            graph.add([u, v], rng.normal(size=(3, 3)))
    path = tmp_path / "grid.uai"
    vs.write_uai(graph, path)
    graph = vs.read_uai(path)
    limit = vs.JunctionTree(graph).memory // 2
    jt = vs.JunctionTree(graph, memory_limit=limit)
    names = ", ".join(str(v) for v in jt.divide().conditioned)
    options = ["--memory-limit", str(limit)]
    text = " ".join(run("info", path, *options).stdout.split())
    assert f"conditioned on {names}: {jt.divide().slices} slices, one after the other" in text
    assert f"memory {show_bytes(jt.divide().memory)} time" in text
    assert "infer would run conditioned_junction_tree because the junction tree has" in text
    assert "conditioned on" not in run("info", path).stdout
    whole = vs.infer(graph)
    for task in ("MAR", "PR", "MPE"):
        result = run("solve", path, "-k", task, "--format", "json", *options)
        answer = json.loads(result.stdout)
        assert f"conditioned on {names}" in answer["reason"]
        assert f"conditioned on {names}" in " ".join(result.stderr.split())
        if task == "MPE":
            assert answer["score"] == pytest.approx(vs.decode(graph).score)
            assert answer["method"] == "conditioned_junction_tree"
        else:
            assert answer["log_z"] == pytest.approx(whole.log_z)
    assert run("solve", path, "--quiet", *options).stderr == ""


def test_refusals_say_what_is_needed(model: Path) -> None:
    text = " ".join(run("info", model, "--memory-limit", "1").stdout.split())
    assert "infer would run bp" in text
    assert re.search(r"needs \d+ bytes, above memory_limit=1 bytes; its largest clique, ", text)
    error = error_of(run("solve", model, "--task", "PR", "--memory-limit", "1"))
    assert f"{model}: the junction tree needs" in error
    assert error.endswith(": give evidence or raise --memory-limit")


def test_a_fallback_is_never_silent(model: Path) -> None:
    """The UAI format cannot say that an answer is approximate: standard error does."""
    result = run("solve", model, "--memory-limit", "1", "--quiet")
    assert result.exit_code == 0
    assert "an approximation" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    for options in ((), ("--zeta", "0.9", "--memory-limit", "1GB"), ("--task", "MPE")):
        assert run("solve", model, "--quiet", *options).stderr == ""


def test_one_line_errors(model: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.uai"
    bad.write_text(MODEL.replace("0.25", "quarter"))
    assert error_of(run("solve", bad)) == (
        f"Error: {bad}: line 9, table of factor 1: 'quarter' is not a number"
    )
    assert error_of(run("info", bad)) == error_of(run("solve", bad))
    none = tmp_path / "none.uai"
    none.write_text(MODEL.replace("4 0.4 0.6 0.1 0.9", "4 0 0 0 0"))
    assert f"{none}: no configuration" in error_of(run("solve", none))
    several = tmp_path / "several.evid"
    several.write_text("2\n1 0 0\n1 0 1\n")
    message = error_of(run("solve", model, "-e", several))
    assert "holds 2 samples: choose one with --sample 0 to 1" in message
    assert run("solve", model, "-e", several, "--sample", 1).exit_code == 0
    far = tmp_path / "far.evid"
    far.write_text("1 9 0")
    problem = "there is no variable '9': the model has 3, numbered from 0"
    error = error_of(run("solve", model, "-e", far))
    assert error == f"Error: {far}: line 1, evidence: {problem}"
    error = error_of(run("solve", model, "--input-format", "bif"))
    assert "line 1, model: expected network, variable or probability, got 'MARKOV'" in error


def test_usage_errors(model: Path, tmp_path: Path) -> None:
    nameless = tmp_path / "nameless"
    nameless.write_text(MODEL)
    assert "say --input-format uai|fg|bif" in error_of(run("solve", nameless), 2)
    assert run("solve", nameless, "--input-format", "uai").exit_code == 0
    assert "does not exist" in error_of(run("solve", tmp_path / "no.uai"), 2)
    assert "--zeta has no meaning" in error_of(run("solve", model, "-k", "MPE", "-z", "0.9"), 2)
    assert "give one with --evidence" in error_of(run("solve", model, "--sample", "0"), 2)
    assert "is not a size" in error_of(run("solve", model, "-m", "much"), 2)
    assert "folder" in error_of(run("solve", model, "-o", tmp_path / "no" / "x"), 2)
    if os.name != "nt":
        long = tmp_path / ("n" * 300)
        assert f"{long} cannot be written: " in error_of(run("solve", model, "-o", long), 2)
    assert "--zeta" in error_of(run("solve", model, "-z", "1.5"), 2)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1", 1), ("800MB", 800_000_000), ("8GiB", 8 << 30), ("8G", 8 << 30), ("1.5k", 1536),
        ("2 tb", 2 * 10**12), ("100b", 100),
    ],
)  # fmt: skip
def test_sizes(text: str, size: int) -> None:
    assert Size().convert(text, None, None) == size


def test_sizes_for_people() -> None:
    assert [show_bytes(x) for x in (0, 1023, 1024, 200 * 1024, 1 << 30, 1 << 60)] == [
        "0 bytes", "1023 bytes", "1.0 KiB", "200 KiB", "1.0 GiB", "1048576 TiB"
    ]  # fmt: skip


@pytest.mark.parametrize("command", ["solve", "info"])
def test_help_keeps_its_lines(command: str) -> None:
    text = run(command, "--help").stdout
    assert "\n  MODEL is" in text or "\n  Examples:\n    valuesparse solve" in text
    assert max(map(len, text.splitlines())) <= 100
