"""The footers of Parquet files: what pyarrow reads of good ones, and no harm from bad ones."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from valuesparse.crf.corpora._footer import Column, _Parser, read_columns


@pytest.mark.parametrize("version", ["1.0", "2.4", "2.6"])
@pytest.mark.parametrize("compression", ["none", "snappy", "gzip"])
def test_the_numbers_are_those_of_pyarrow(version: str, compression: str, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="needs the extra parquet")
    from pyarrow import parquet

    rng = random.Random(0)
    rows = 2500
    table = pyarrow.table({
        "words": [["a"] * rng.randint(0, 3) if rng.random() < 0.9 else None for _ in range(rows)],
        "flag": [rng.random() < 0.5 for _ in range(rows)],
        "inner": [{"x": i, "y": [[1.0], []]} for i in range(rows)],
        "map": pyarrow.array([[("k", i)] for i in range(rows)],
                             pyarrow.map_(pyarrow.string(), pyarrow.int64())),
        "nothing": pyarrow.nulls(rows),
    }, metadata={"a": "b" * 1000})  # fmt: skip
    path = tmp_path / "a.parquet"
    parquet.write_table(
        table, path, row_group_size=1000, version=version, compression=compression,
        write_page_index=version == "2.6", store_decimal_as_integer=False,
    )  # fmt: skip
    with parquet.ParquetFile(path) as file:
        expected = [
            [
                Column(c.path_in_schema, c.num_values, c.total_uncompressed_size,
                       c.total_compressed_size)
                for c in (group.column(j) for j in range(group.num_columns))
            ]
            for group in (file.metadata.row_group(i) for i in range(file.num_row_groups))
        ]  # fmt: skip
    assert len(expected) == 3
    assert read_columns(path) == expected


@given(st.binary(max_size=80))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(ValueError, IndexError):
        _Parser(data).struct({4: lambda: None})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no footer"),
        (b"PAR1", "no footer"),
        (b"\xff\xff\xff\xffPAR1", "no footer"),
        (b"\x00\x00\x00\x00PAR1", "the footer is cut short"),
        (b"\x15\x02\x02\x00\x00\x00PAR1", "the footer is cut short"),
        (b"\x1c" * 200 + b"\xc8\x00\x00\x00PAR1", "nested too deep"),
        (b"\x1d\x00" + b"\x02\x00\x00\x00PAR1", "unknown kind, 13"),
        (b"\x16" + b"\xff" * 30 + b"\x1f\x00\x00\x00PAR1", "too long"),
        (b"\x19\xf3\xff\xff\xff\x7f\x00" + b"\x07\x00\x00\x00PAR1", "cut short"),
    ],
)
def test_what_is_refused(data: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=message):
        read_columns(path)
