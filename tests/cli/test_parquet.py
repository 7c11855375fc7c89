"""Parquet through files and pipes, and to and from text."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import children
import pytest

pytest.importorskip("click", reason="the command line needs the cli extra")
pytest.importorskip("rich", reason="the command line needs the cli extra")

from command_line import TEXT, out, run


def test_parquet(model: Path, source: Path, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="needs the extra parquet")
    from pyarrow import parquet

    rows = [block.split("\n") for block in TEXT.strip().split("\n\n")]
    words = [[line.split()[0] for line in block] for block in rows]
    tags = [[line.split()[1] for line in block] for block in rows]
    table = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"words": words, "tags": tags}), table, row_group_size=7)
    piped = ("--input-format", "parquet")
    out("train", table, "-o", tmp_path / "m", "-p", "max_iterations=5")
    assert (tmp_path / "m").read_bytes() == model.read_bytes()
    out("train", "-", "-o", tmp_path / "m", "-p", "max_iterations=5", *piped, given=table)
    assert (tmp_path / "m").read_bytes() == model.read_bytes()
    for marginals in ("none", "best", "all"):
        options = ("--marginals", marginals)
        out("tag", model, table, "-o", tmp_path / "out.parquet", *options)
        whole = (tmp_path / "out.parquet").read_bytes()
        assert whole == out("tag", model, table, *options)
        assert whole == out("tag", model, "-", "-o", "-", *options, *piped, given=table)
        # From Parquet to text, and from text to Parquet.
        for kind in ("conll", "tsv", "jsonl"):
            plain = tmp_path / f"words.{kind}"
            plain.write_text("\n\n".join("\n".join(some) for some in words) + "\n")
            asked = ("--output-format", kind, *options)
            text = out("tag", model, table, *asked)
            assert text == out("tag", model, *asked, *piped, given=table)
            assert text.decode().split() == (
                out("tag", model, plain, "--input-format", "conll", *asked).decode().split()
            )
        asked = ("--output-format", "parquet", *options)
        out("tag", model, source, "-o", tmp_path / "made.parquet", *options)
        whole = (tmp_path / "made.parquet").read_bytes()
        assert whole == out("tag", model, source, *asked)
        assert whole == out("tag", model, *asked, given=source)
        made = parquet.read_table(tmp_path / "made.parquet")
        tagged = parquet.read_table(tmp_path / "out.parquet")
        assert made.column_names == [name for name in tagged.column_names if name != "tags"]
        for name in made.column_names:
            assert made[name].to_pylist() == tagged[name].to_pylist()
    out("tag", model, source, "-o", f"{tmp_path}/folder/", "--output-format", "parquet")
    tagged = parquet.read_table(tmp_path / "folder" / "a.parquet")
    assert tagged["predicted"].to_pylist() == made["predicted"].to_pylist()
    scores = out("eval", source, tmp_path / "out.parquet")
    assert scores == out("eval", source, "-", *piped, given=tmp_path / "out.parquet")
    assert scores == out("eval", "-", tmp_path / "out.parquet", given=source)
    for arguments, said in (
        ((table, "--n-best", 2), "n_best is for text"),
        ((source, "--n-best", 2, "-o", tmp_path / "b.parquet"), "n_best is for text"),
        ((tmp_path / "out.parquet", "-o", tmp_path / "b.parquet"), "'predicted' already: drop it"),
        ((source, "-o", tmp_path / "b.parquet.gz"), "compressed by itself; leave out .gz"),
    ):
        result = run("tag", model, *arguments)
        assert (result.exit_code, said in result.stderr) == (1, True), result.output
    assert not list(tmp_path.glob("b.*"))


def test_parquet_goes_through_a_pipe_that_cannot_be_sought(model: Path, source: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs the extra parquet")
    asked = ("--output-format", "parquet")
    code = "from valuesparse.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "tag", model, source, *asked],
        env=children.environment(), cwd=model.parent, capture_output=True, check=True,
    )  # fmt: skip
    assert done.stdout == out("tag", model, *asked, given=source)
