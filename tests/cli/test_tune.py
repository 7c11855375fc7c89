"""`valuesparse tune` on small models, as a user would call it."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import math
import re
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("click", reason="the command line needs the cli extra")
pytest.importorskip("rich", reason="the command line needs the cli extra")
pytest.importorskip("matplotlib", reason="the command line needs the cli extra")

from click.testing import CliRunner, Result
from rich.console import Console

import valuesparse as vs
from valuesparse import _extras
from valuesparse.cli._choice import CostLimit, choose, microseconds, on_front
from valuesparse.cli._group import valuesparse
from valuesparse.cli._measure import Ladder, Row
from valuesparse.cli._sequences import is_arrays, load_text, sample
from valuesparse.cli.tune import _table
from valuesparse.crf import train_corpus
from valuesparse.crf.corpora._reader import extraction_of
from valuesparse.io.crfsuite import read_crfsuite

LENGTHS = [12, 1, 30, 7, 22]
WORDS = ["the", "dog", "saw", "a", "cat", "in", "Rome"]
TAGS = ["DET", "NOUN", "VERB", "DET", "NOUN", "ADP", "PROPN"]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(valuesparse, ["tune", *(str(a) for a in arguments)])


def npz_by_hand(path: Path, header: str) -> Path:
    """Write an archive with an array of 48 bytes under a header that need not be true."""
    text = header.ljust(117) + "\n"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("unary.npy", b"\x93NUMPY\x01\x00\x76\x00" + text.encode() + bytes(48))
    return path


@pytest.fixture
def arrays(tmp_path: Path, rng: np.random.Generator) -> tuple[Path, Path]:
    """Return a model and data of 72 tokens as .npz files."""
    k, n = 6, sum(LENGTHS)
    unary = rng.normal(size=(n, k))
    unary[np.arange(n), rng.integers(0, k, n)] += 6.0 * (rng.random(n) < 0.8)
    model, data = tmp_path / "model.npz", tmp_path / "data.npz"
    np.savez(model, transition=rng.normal(size=(k, k)), start=rng.normal(size=k))
    np.savez(data, unary=unary, lengths=LENGTHS, gold=unary.argmax(axis=1))
    return model, data


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """Return a CRFsuite model, and its data as attributes and as CoNLL-U."""
    pycrfsuite = pytest.importorskip("pycrfsuite", reason="needs python-crfsuite")
    from valuesparse.cli._features import cantonese_attributes

    folder = tmp_path_factory.mktemp("tune")
    model, attributes, conllu = (folder / n for n in ("m.crfsuite", "d.txt", "d.conllu"))
    trainer = pycrfsuite.Trainer(verbose=False)
    items = cantonese_attributes(WORDS)
    trainer.append(items, TAGS)
    trainer.train(str(model))
    kept = {"features": "cantonese", "model_sha256": hashlib.sha256(model.read_bytes()).hexdigest()}
    model.with_name("m.crfsuite.json").write_text(json.dumps(kept))
    rows = [
        "\t".join([tag, *(name.replace("\\", "\\\\").replace(":", "\\:") for name in item)])
        for tag, item in zip(TAGS, items, strict=True)
    ]
    attributes.write_text(("\n".join(rows) + "\n\n") * 5, encoding="utf-8")
    nodes = [
        f"{i}\t{word}\t_\t{tag}\tX{tag}\t_\t0\t_\t_\t_"
        for i, (word, tag) in enumerate(zip(WORDS, TAGS, strict=True), 1)
    ]
    conllu.write_text(("\n".join(nodes) + "\n\n") * 5, encoding="utf-8")
    return model, attributes, conllu


def rows_of(output: str) -> dict[str, list[str]]:
    """Return the cells of the table by the name of their setting."""
    found = {}
    for line in output.splitlines():
        match = re.match(r" (exact|ζ = [\d.]+|tol = [\d.]+)( ◀)?((?: +[\d.e-]+)+) *$", line)
        if match:
            found[match[1]] = match[3].split()
    return found


def test_scores_of_any_model(arrays: tuple[Path, Path], tmp_path: Path) -> None:
    plot = tmp_path / "plot.png"
    asked = ["--zeta", "0.9", "--zeta", "0", "--zeta", "0.9", "--tol", "0.01", "--tol", "0.001"]
    result = run(*arrays, *asked, "-t", "1", "-o", plot)
    assert result.exit_code == 0, result.output
    assert "5 sequences, 72 tokens, 6 labels, float64" in result.output
    rows = rows_of(result.output)
    assert list(rows) == ["exact", "ζ = 0.9", "ζ = 0", "tol = 0.01", "tol = 0.001"]
    assert rows["exact"][1:3] + rows["exact"][4:6] == ["1.00", "100.00", "0", "0"]
    with np.load(arrays[0]) as model, np.load(arrays[1]) as data:
        chain = vs.Chain(data["unary"], model["transition"], LENGTHS, start=model["start"])
        gold = data["gold"]
    exact = vs.infer(chain).marginals
    for zeta in (0.9, 0.0):
        r = vs.infer(chain, zeta=zeta)
        errors = np.abs(r.marginals - exact).max(axis=1)
        cells = rows[f"ζ = {zeta:g}"]
        best = r.marginals.argmax(axis=1)
        assert float(cells[2]) == pytest.approx(
            100 * (best == exact.argmax(axis=1)).mean(), abs=0.01
        )
        assert float(cells[3]) == pytest.approx(100 * (best == gold).mean(), abs=0.01)
        assert float(cells[4]) == pytest.approx(errors.mean(), rel=0.06)
        assert float(cells[5]) == pytest.approx(errors.max(), rel=0.06)
        assert float(cells[6]) == pytest.approx(r.certify().error.max(), abs=6e-4)
        assert cells[7] == f"{100 * (r.islands >= 0).mean():.0f}"
    for tol in (0.01, 0.001):
        cells = rows[f"tol = {tol:g}"]
        assert float(cells[5]) <= float(cells[6]) <= tol
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert str(plot) in result.output
    assert {p.name for p in tmp_path.iterdir()} == {"model.npz", "data.npz", "plot.png"}
    assert max(map(len, result.output.splitlines())) <= max(80, len(str(plot)) + 16)
    assert "…" not in result.output


@pytest.mark.parametrize("kind", ["attributes", "conllu"])
def test_text(text: tuple[Path, Path, Path], tmp_path: Path, kind: str) -> None:
    model, *data = text
    result = run(model, data[kind == "conllu"], "-z", "0.9", "-o", tmp_path / "plot.png")
    assert result.exit_code == 0, result.output
    assert "5 sequences, 35 tokens, 5 labels" in result.output
    assert rows_of(result.output)["exact"][2:4] == ["100.00", "100.00"]
    assert "knows only" not in result.output


def test_columns_features_and_samples(
    text: tuple[Path, Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, _, conllu = text
    (tmp_path / "mine_for_tune.py").write_text(
        "def few(words):\n    return [[f'w={w}', 'a', 'b', 'c', 'd', 'e'] for w in words]\n"
        "number = 3\n"
    )
    monkeypatch.chdir(tmp_path)
    result = run(
        model, conllu, "--features", "mine_for_tune:few", "--tags", "upos", "-z", "0.5",
        "--tokens", "14",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "2 of 5 sequences, 14 tokens" in result.output
    assert "knows only 17% of the attributes" in " ".join(result.output.split())
    assert Path("valuesparse-tune.png").exists()
    # The model knows none of these tags: nothing to be right about.
    result = run(model, conllu, "--tags", "xpos", "-z", "0.5")
    assert "gold" not in result.output
    for name, words in (
        ("mine_for_tune", "there are words, cantonese"),
        ("mine_for_tune:none", "cannot be imported"),
        ("no_such_module_here:f", "cannot be imported"),
        ("mine_for_tune:number", "is a int, not a function"),
    ):
        result = run(model, conllu, "--features", name)
        assert result.exit_code == 1
        assert words in result.stderr
        assert name in result.stderr


@pytest.mark.parametrize("kind", ["conll", "tsv", "parquet", "conllu.gz"])
def test_what_train_reads_tune_reads(tmp_path: Path, kind: str) -> None:
    """The same options, the same defaults, and what is kept beside the model."""
    from valuesparse.crf import train_corpus

    data, model = tmp_path / f"d.{kind}", tmp_path / "m.crfsuite"
    rows = list(zip(WORDS, TAGS, strict=True))
    options: dict[str, str] = {}
    if kind == "conll":
        data.write_text("".join(f"{t} {w}\n" for w, t in rows) + "\n")
        options = {"word": "2", "tags": "1"}
    elif kind == "tsv":
        data.write_text("a\tb\n" + "".join(f"{t}\t{w}\n" for w, t in rows))
        options = {"word": "b", "tags": "a"}
    elif kind == "parquet":
        pyarrow = pytest.importorskip("pyarrow", reason="needs the extra parquet")
        import pyarrow.parquet as pq

        pq.write_table(pyarrow.table({"w": [WORDS], "t": [TAGS]}), data)
        options = {"word": "w", "tags": "t"}
    else:
        lines = (f"{i}\t{w}\t_\t_\t{t}\t_\t0\t_\t_\t_\n" for i, (w, t) in enumerate(rows, 1))
        data.write_bytes(gzip.compress("".join(lines).encode()))
        options = {"tags": "xpos"}
    template = tmp_path / "t.template"
    template.write_text("U0:%x[0,0]\nU1:%x[-1,0]\n")
    train_corpus([data], model, features=f"template:{template}", **options)
    result = run(model, data, "-z", "0.9", "-o", tmp_path / "plot.png")
    assert result.exit_code == 0, result.output
    assert "1 sequences, 7 tokens, 5 labels" in result.output
    assert "knows only" not in result.output
    assert rows_of(result.output)["exact"][3] == "100.00"
    said = [f"--{name}={value}" for name, value in options.items()]
    again = run(model, data, *said, "-z", "0.9", "-o", tmp_path / "plot.png")
    assert rows_of(again.output)["exact"][3] == "100.00"
    # The model has its own copy: one that does not match what it was trained with is refused.
    template.unlink()
    kept = json.loads((tmp_path / "m.crfsuite.json").read_text())
    kept["template"] = "U0:%x[0,0]\n"
    (tmp_path / "m.crfsuite.json").write_text(json.dumps(kept))
    result = run(model, data)
    assert result.exit_code == 1
    assert "is not the template that the model was trained with" in result.stderr


def test_budgets(arrays: tuple[Path, Path], tmp_path: Path) -> None:
    options = [*arrays, "-z", "0", "-o", tmp_path / "plot.png"]
    result = run(*options, "--error-budget", "0")
    assert "Recommended: zeta=1 (the fastest within the error budget)" in result.output
    result = run(*options, "--error-budget", "1", "--error", "max", "--time-budget", "1e6")
    assert "the fastest within both budgets" in result.output
    result = run(*options, "--time-budget", "1e6")
    assert "Recommended: zeta=1 (the smallest error within the time budget)" in result.output
    result = run(*options, "--time-budget", "1e-6", "--error-budget", "0")
    assert result.exit_code == 1
    assert "no setting keeps within the budget: the fastest, " in result.stderr
    assert "the fastest of error 0 or less, exact, takes" in result.stderr
    assert rows_of(result.output)  # what was measured is shown all the same


def test_tolerances_that_cannot_be_proved_are_left_out(
    arrays: tuple[Path, Path], tmp_path: Path
) -> None:
    options = [*arrays, "-z", "0.5", "-t", "1", "-o", tmp_path / "plot.png"]
    result = run(*options, "--tol", "0.1", "--tol", "1e-15", "--tol", "1e-16")
    assert "Not measured: tol = 1e-15, tol = 1e-16. Rounding" in " ".join(result.output.split())
    assert list(rows_of(result.output)) == ["exact", "ζ = 0.5", "tol = 0.1"]
    result = run(*options, "--tol", "1e-15")
    assert list(rows_of(result.output)) == ["exact", "ζ = 0.5"]


def test_a_plot_that_cannot_be_written_costs_no_table(
    arrays: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(rows: object, path: Path, **_: object) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr("valuesparse.cli._plots.write_tradeoff", full)
    plot = tmp_path / "plot.png"
    result = run(*arrays, "-z", "0.5", "-o", plot)
    assert (result.exit_code, result.stderr) == (1, f"Error: {plot}: No space left on device\n")
    assert list(rows_of(result.output)) == ["exact", "ζ = 0.5", "tol = 0.1", "tol = 0.01",
                                            "tol = 0.001"]  # fmt: skip


@pytest.mark.parametrize(("steady", "said"), [(True, False), (False, True)])
def test_a_busy_machine_is_noticed(
    arrays: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    steady: bool,
    said: bool,
) -> None:
    def samples(functions: dict[str, object], **_: object) -> dict[str, list[float]]:
        return {name: [1.0, 1.0, 1.0] + [1.1 if steady else 3.0] * 4 for name in functions}

    monkeypatch.setattr("valuesparse.cli.tune.sample_seconds", samples)
    result = run(*arrays, "-z", "0.5", "-o", tmp_path / "plot.png")
    assert result.exit_code == 0, result.output
    assert ("Times vary much" in result.output) == said


def row(zeta: float | None, speed: float, error: float) -> Row:
    return Row(str(zeta), zeta, 1e6 * speed, 1 - error / 10, math.nan, error, 5 * error, 0.0, 1.0)


def test_the_widest_table_fits_into_80_columns() -> None:
    rows = [
        Row("exact", None, 5.1e2, 1.0, 0.99999, 0.0, 0.0, 0.0, 1.0, proved=3e-11),
        Row("ζ = 0.999", 0.999, 9e4, 1.0, 1.0, 2.34e-16, 1.23e-4, 1.0, 1.0, proved=0.123),
        Row("tol = 0.001", None, 9e4, 1.0, 1.0, 1.23e-10, 0.1234, 0.0, 1.0, 0.001, 9e-4),
    ]
    console = Console(width=80, file=io.StringIO(), highlight=False)
    for chosen in range(3):
        console.print(_table(rows, CostLimit(), chosen))
    text = console.file.getvalue()
    assert "…" not in text
    assert "2e-16" in text
    assert "1.2e-4" in text


def test_what_is_chosen() -> None:
    rows = [row(None, 1.0, 0.0), row(0.9, 2.0, 0.01), row(0.8, 1.5, 0.02), row(0.5, 4.0, 0.2)]
    assert [microseconds(r) for r in rows] == pytest.approx([1, 0.5, 2 / 3, 0.25])
    assert on_front(rows, "mean") == [True, True, False, True]
    assert choose(rows, CostLimit()) == 1
    assert choose(rows, CostLimit(error=0.2)) == 3
    assert choose(rows, CostLimit(error=0.2, measure="max")) == 1
    assert choose(rows, CostLimit(error=0.0011, measure="tags")) == 1
    assert choose(rows, CostLimit(microseconds=0.5)) == 1
    assert choose(rows, CostLimit(microseconds=0.4)) == 3
    assert choose(rows, CostLimit(microseconds=0.4, error=0.01)) is None
    assert choose(rows, CostLimit(microseconds=0.1)) is None


def test_samples_are_whole_sequences() -> None:
    assert sample([3] * 100, 30) == [10 * i for i in range(10)]
    assert sample([3, 4], 7) == [0, 1]
    assert sample([100, 100], 5) == [0]
    assert sample([], 5) == []


def test_arrays_by_name() -> None:
    names = {"a.npz": True, "a.NPZ": True, "a.conllu": False, "a": False}
    assert {name: is_arrays(Path(name)) for name in names} == names


def test_a_ladder_times_what_it_reports(rng: np.random.Generator) -> None:
    chain = vs.Chain(rng.normal(size=(9, 3)), np.zeros((3, 3)))
    ladder = Ladder(chain, [0.5], 1, [0.01])
    assert list(ladder.functions) == ["exact", "ζ = 0.5", "tol = 0.01"]
    for name, function in ladder.functions.items():
        np.testing.assert_array_equal(function().marginals, ladder.results[name].marginals)
    seconds = {"exact": 9e-6, "ζ = 0.5": 3e-6, "tol = 0.01": 1e-6}
    exact, half, bounded = ladder.rows(seconds, None)
    assert (exact.zeta, half.zeta, bounded.zeta) == (None, 0.5, None)
    assert (exact.tol, half.tol, bounded.tol) == (None, None, 0.01)
    assert 0 <= bounded.max_error <= bounded.proved <= 0.01
    assert half.max_error <= half.proved <= half.max_error + 1e-9
    assert half.speed == pytest.approx(3 * exact.speed)
    assert microseconds(exact) == pytest.approx(1)
    assert math.isnan(exact.accuracy)


def test_archives_that_lie_about_their_size_are_not_unpacked(
    arrays: tuple[Path, Path], tmp_path: Path
) -> None:
    model, _ = arrays
    lying, strange = tmp_path / "lying.npz", tmp_path / "strange.npz"
    zeros = bytes(200 << 20)
    with zipfile.ZipFile(lying, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("unary.npy", zeros)
    said = len(zeros).to_bytes(4, "little")
    lying.write_bytes(lying.read_bytes().replace(said, (500).to_bytes(4, "little")))
    with zipfile.ZipFile(strange, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("unary.npy", zeros)
    strange.write_bytes(strange.read_bytes().replace(said, (500).to_bytes(4, "little")))
    for path in (lying, strange):
        tracemalloc.start()
        try:
            result = run(model, path)
            most = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert f"{path.name} cannot be used as .npz" in result.stderr
        assert most < 16 << 20
    assert "compressed in a way" in result.stderr


def test_errors_are_one_line(arrays: tuple[Path, Path], tmp_path: Path) -> None:
    model, data = arrays
    text = tmp_path / "d.txt"
    text.write_text("N\ta:b\n")
    wrong = tmp_path / "wrong.npz"
    np.savez(wrong, scores=[1.0])
    damaged = tmp_path / "damaged.npz"
    damaged.write_bytes(data.read_bytes()[:100])
    strange = [tmp_path / "large.npz", tmp_path / "negative.npz"]
    for path, label in zip(strange, (6, -2), strict=True):
        np.savez(path, unary=np.zeros((2, 6)), gold=[-1, label])
    single = tmp_path / "single.npz"
    with single.open("wb") as file:
        np.save(file, np.zeros(3))
    short = tmp_path / "short.npz"
    np.savez(short, unary=np.zeros((2, 6)), gold=[0.5, 1.0])
    empty = tmp_path / "empty.npz"
    np.savez(empty, unary=np.zeros((0, 6)), lengths=np.zeros(0, dtype=int))
    torn = npz_by_hand(tmp_path / "torn.npz", "{'shape': (1,")
    header = "{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999, 6), }"
    longer = npz_by_hand(tmp_path / "longer.npz", header)
    narrow = tmp_path / "narrow.npz"
    np.savez(narrow, unary=np.zeros((2, 4)))
    imaginary, text_only = tmp_path / "imaginary.npz", tmp_path / "text.npz"
    np.savez(imaginary, transition=1j * np.eye(6))
    np.savez(text_only, unary=[["a"] * 6])
    packed = tmp_path / "packed.npz"
    np.savez_compressed(packed, unary=np.zeros((2_000_000, 6)))
    for arguments, words in (
        ((model, torn), "Error: torn.npz cannot be used as .npz"),
        ((model, longer), "'unary' has 48 bytes, but its header says 4799999999952"),
        ((model, packed), "its arrays have 96000128 bytes"),
        ((model, wrong), "no array 'unary', only scores"),
        ((wrong, data), "no array 'transition'"),
        ((model, damaged), "Error: damaged.npz cannot be used as .npz"),
        ((model, single), "one array, not several"),
        ((model, short), "Error: short.npz: gold must be integers of shape (2,)"),
        ((model, strange[0]), "large.npz: gold[1] is 6, which is no label from 0 to 5; write -1"),
        ((model, strange[1]), "Error: negative.npz: gold[1] is -2, which is no label"),
        ((model, empty), "Error: empty.npz: there is no sequence in it"),
        ((imaginary, data), "transition must hold real numbers, got an array of dtype complex128"),
        ((model, text_only), "unary must hold real numbers, got an array of dtype <U1"),
        ((model, narrow), "Error: model.npz and narrow.npz: transition must have shape (4, 4)"),
    ):
        result = run(*arguments)
        assert result.exit_code == 1, result.output
        assert words in result.stderr
        assert len(result.stderr.splitlines()) == 1
    for arguments, words in (
        ((model, text), "go together"),
        ((text, data), "go together"),
        ((model, data, "--tags", "upos"), "are for words"),
        ((model, data, "--features", "words"), "are for words"),
        ((model, data, "--max-labels", "9"), "is for CRFsuite models"),
        ((model, data, "--zeta", "2"), "zeta"),
        ((model, data, "--time-budget", "0"), "time-budget"),
        ((model, data, "-o", "no/such/folder/x.png"), "folder"),
    ):
        result = run(*arguments)
        assert result.exit_code == 2, result.output
        assert words in result.stderr


def test_text_that_does_not_fit_the_model(text: tuple[Path, Path, Path], tmp_path: Path) -> None:
    model, _, conllu = text
    data = tmp_path / "d.txt"
    for content, words in (
        ("N\ta:b\n", "d.txt: line 1, attribute 'a'"),
        ("N\tw=other\n", "knows none of its attributes"),
        ("\n", "there is no sequence in it"),
    ):
        data.write_text(content)
        result = run(model, data)
        assert result.exit_code == 1
        assert f"{data}: " in result.stderr
        assert words in result.stderr
    result = run(conllu, data)
    assert result.exit_code == 1
    assert f"{conllu}: " in result.stderr


def test_a_model_is_measured_under_its_scheme(tmp_path: Path) -> None:
    source, model = tmp_path / "a.conll", tmp_path / "m"
    source.write_text("Ann B-PER\nLee I-PER\nran O\n\nin O\nRome B-LOC\n\n" * 9)
    options = {"params": {"max_iterations": 3}, "constraints": "BIO"}
    train_corpus(source, model, **options)
    found = {}
    for scheme in ("BIO", None):
        crfsuite, how = read_crfsuite(model), extraction_of(model, None, None)
        found[scheme] = load_text(crfsuite, source, None, how, 1000, scheme).chain
    out, into = (crfsuite.labels.index(label) for label in ("O", "I-PER"))
    assert found["BIO"].transition[out, into] == -np.inf
    assert found[None].transition[out, into] > -np.inf
    assert vs.infer(found["BIO"]).marginals[0, into] == 0
    result = run(model, source, "--zeta", 0.9, "-t", 1, "-o", tmp_path / "a.png")
    assert result.exit_code in (0, 1), result.output
    beside = tmp_path / "m.json"
    beside.write_text(beside.read_text().replace("BIO", "XYZ"))
    result = run(model, source, "-o", tmp_path / "a.png")
    assert (result.exit_code, "'constraints' must be one of BIO" in result.stderr) == (1, True)


def test_missing_extra_names_the_command(
    arrays: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_extras, "find_spec", lambda name: None)
    result = run(*arrays)
    assert result.exit_code == 1
    assert 'pip install "valuesparse[cli]"' in result.stderr


def test_exact_wins_where_nothing_is_clearly_faster() -> None:
    rows = [Row("", z, s, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0) for z, s in [(None, 100), (0.9, 109)]]
    assert choose(rows, CostLimit()) == 0
    assert choose([rows[0], rows[1]._replace(speed=111)], CostLimit()) == 1
    # Exact is beyond the time budget: then it is no choice.
    assert choose(rows, CostLimit(microseconds=1e6 / 105, error=0.1)) == 1
