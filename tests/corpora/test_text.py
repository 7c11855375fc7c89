"""Text as shards, and as streams of lines."""

from __future__ import annotations

import bz2
import io
import lzma
import tempfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from valuesparse.corpora._jobs import ShardJob, span_of, text_spans
from valuesparse.corpora._stream import Stream
from valuesparse.corpora._text import Line, Source, boundary, first_line, lines
from valuesparse.io.errors import TextFormatError


@given(
    st.lists(st.sampled_from(["\n", "\r\n", "a\tN\n", "bb\tV\r\n", "c\tN"]), max_size=30),
    st.integers(1, 12),
)
def test_shards_are_the_file(parts: list[str], shard: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a")
        raw = "".join(parts).encode()
        path.write_bytes(raw)
        ends = [boundary(path, at) for at in range(0, len(raw) + shard, shard)]
        assert ends[0] == 0
        assert ends == sorted(ends)
        assert ends[-1] == len(raw)
        for end in ends[1:]:  # nothing is cut inside a sentence
            assert end == len(raw) or raw[:end].endswith((b"\n\n", b"\n\r\n"))


@given(st.lists(st.sampled_from(["a\n", "bb\n", "\n"]), max_size=30), st.integers(1, 12))
def test_spans_are_the_file_once(parts: list[str], shard: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a")
        raw = "".join(parts).encode()
        path.write_bytes(raw)
        spans = text_spans(path, shard)
        assert sum(span.size for span in spans) == len(raw)
        found = []
        for span in spans:
            job = ShardJob(str(path), "", span.first, span.last, "", span.size, None)
            found += [line.text for line in lines(path, *span_of(job)) if line.text]
        assert found == [part[:-1] for part in parts if part != "\n"]


def test_a_byte_order_mark_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes("\ufeffword\ttag\r\n\ufeffa\tN\n".encode())
    assert first_line(path) == ("word\ttag", 13)
    assert list(lines(path)) == [Line(0, "word\ttag"), Line(13, "\ufeffa\tN")]
    assert [line.text for line in lines(path, 13)] == ["\ufeffa\tN"]


def zipped(data: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.conll", data)
    return file.getvalue()


PACKED = {
    "xz": lzma.compress,
    "bzip2": bz2.compress,
    "zip": zipped,
    "zstd": lambda data: b"\x28\xb5\x2f\xfd" + data,
}


@pytest.mark.parametrize("name", PACKED)
def test_text_that_others_compressed_is_named(name: str, tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_bytes(PACKED[name](b"the DET\n\n" * 100))
    problem = f"compressed by {name}; decompress it first, or compress it by gzip instead"
    given: tuple[Source, ...] = (path, Stream(io.BytesIO(path.read_bytes())))
    for source in given:
        with pytest.raises(TextFormatError, match=f"text: {problem}"):
            list(lines(source))
    for read in (first_line, lambda path: text_spans(path, 10)):
        with pytest.raises(TextFormatError, match=rf"a\.conll: line 1, text: {problem}"):
            read(path)


@pytest.mark.parametrize("text", ["BZh", "BZh9\n", "PK\tN", "xz\n"])
def test_text_that_begins_as_compressed_files_do_is_text(text: str, tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text(text)
    assert [line.text for line in lines(path)] == [text.strip("\n")]
    assert len(text_spans(path, 10)) == 1
