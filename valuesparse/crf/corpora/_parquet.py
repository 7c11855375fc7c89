"""Parquet: a sentence a row, its words in a column of lists; a row group is a shard."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from valuesparse._extras import require
from valuesparse.corpora._blocks import BATCH, BATCH_TOKENS, LONGEST
from valuesparse.corpora._text import Source
from valuesparse.crf.corpora._footer import Column, read_columns
from valuesparse.crf.corpora._formats import ARGUMENTS, Block, Columns
from valuesparse.io.errors import ModelFormatError

__all__ = ["ParquetTable", "RowFormat", "added_fields", "new_writer"]

_TAGS = "tags"
# The most bytes of a sentence.
_LARGEST = 64 << 20
# Bytes that a column may hold: a few values that are repeated take little, and are no attack.
_FREE, _RATIO = 64 << 20, 100
# Characters of an error message of pyarrow, which may go on for lines.
_LONGEST_TEXT = 200


class ParquetTable:
    """A Parquet file of sentences.

    Parameters
    ----------
    path : Path
        The file.
    word, tag : str, optional
        Names of the columns, each a list of str; by default ``words`` and ``tags``.
    places : (str, str)
        Where they were said, for errors.
    preferred : str, optional
        Another name of the column of labels, where there is one so named.
    source : Path or Stream, optional
        The name in errors, where the file is a copy of it.
    """

    def __init__(
        self,
        path: Path,
        word: str | None,
        tag: str | None,
        places: tuple[str, str] = ARGUMENTS,
        preferred: str | None = None,
        source: Source | None = None,
    ) -> None:
        require("parquet", "pyarrow")
        import pyarrow.parquet

        self.path, self.places = path, places
        self.source: Source = path if source is None else source
        self.word = "words" if word is None else word
        self.tag = _TAGS if tag is None else tag
        with self._named(), pyarrow.parquet.ParquetFile(path) as file:
            self.schema: Any = file.schema_arrow
            if tag is None and preferred in self.schema.names:
                self.tag = str(preferred)
            self.groups = int(file.num_row_groups)
            groups = [file.metadata.row_group(i) for i in range(self.groups)]
            self.sizes: list[int] = [group.total_byte_size for group in groups]
            self._rows: list[int] = [group.num_rows for group in groups]
        try:
            columns = read_columns(path)
        except ValueError as error:
            raise self._damaged(f"cannot be read: {error}") from error
        if len(columns) != self.groups:
            raise self._damaged(f"cannot be read: {len(columns)} row groups of {self.groups}")
        most = [
            self._fullest(i, some, rows)
            for i, (some, rows) in enumerate(zip(columns, self._rows, strict=True))
        ]
        # Rows that are read together, of sentences as long as these are on average.
        self._batch = [
            max(1, min(BATCH, BATCH_TOKENS * rows // max(values, 1)))
            for rows, values in zip(self._rows, most, strict=True)
        ]
        if self.word not in self.schema.names:
            names = ", ".join(self.schema.names)
            raise ValueError(
                f"{places[0]}: no column {self.word!r} in {self.source.name} among {names}"
            )
        self._require_texts(places[0], self.word)

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Turn what pyarrow says of a file, often at length, into one line with its name."""
        import pyarrow

        try:
            yield
        except MemoryError:
            raise
        except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
            # The system failed; the contents of the file are not to blame.
            if isinstance(error, OSError) and error.errno is not None:
                problem = error.strerror or str(error)
                raise OSError(error.errno, problem, str(self.source)) from error
            text = " ".join(str(error).split())
            text = text if len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT] + " ..."
            raise self._damaged(f"cannot be read: {text}") from error

    def _damaged(self, problem: str) -> ModelFormatError:
        found = ModelFormatError("Parquet data", 0, problem)
        found.path = str(self.source)
        return found

    def _fullest(self, number: int, columns: Sequence[Column], rows: int) -> int:
        """Return how many values the fullest column of a row group has.

        Columns of few different values take few bytes: what they expand to is bounded, as it is
        for gzip data.
        """
        for column in columns:
            name, growth = repr(column.name[:80]), max(_FREE, _RATIO * column.packed)
            if column.values > rows * LONGEST:
                raise self._damaged(
                    f"row group {number}: more than {LONGEST:,} values a row in the column "
                    f"{name}; what is longer must be cut"
                )
            if 4 * column.values > growth or column.unpacked > growth:
                raise self._damaged(
                    f"row group {number}: {column.packed} bytes of the column {name} hold far too "
                    "many values, as only a damaged or hostile file does; if you trust it, write "
                    "it again with smaller row groups"
                )
        return max((column.values for column in columns), default=0)

    def _require_texts(self, what: str, column: str) -> None:
        """Refuse a column that holds no lists of str; a str is a list of characters to Python."""
        import pyarrow.types as kinds

        kind = self.schema.field(column).type
        inner = getattr(kind, "value_type", None)
        if inner is not None and kinds.is_dictionary(inner):
            inner = inner.value_type
        if kinds.is_dictionary(kind) or not (
            inner is not None and (kinds.is_string(inner) or kinds.is_large_string(inner))
        ):
            raise ValueError(
                f"{what}: column {column!r} of {self.source.name} must hold lists of str, "
                f"not {kind}"
            )

    def batches(self, groups: Sequence[int]) -> Iterator[Any]:
        """Yield record batches of neighbouring row groups."""
        import pyarrow.parquet

        row = sum(self._rows[: groups[0]]) if groups else 0
        with self._named(), pyarrow.parquet.ParquetFile(self.path) as file:
            for group in groups:
                for batch in file.iter_batches(self._batch[group], row_groups=[group]):
                    self._require_short(batch, row)
                    self._require_no_nulls(self.places[0], self.word, batch, row)
                    yield batch
                    row += len(batch)

    def texts(self, batch: Any, column: str) -> list[list[str] | None]:
        """Return the lists of str of a column."""
        with self._named():
            return batch.column(column).to_pylist()

    def _require_short(self, batch: Any, row: int) -> None:
        """Refuse a sentence of too many words, or of too much text."""
        import pyarrow.compute as compute

        lists = batch.column(self.word)
        words = compute.list_value_length(lists).to_pylist()
        long = lists.nbytes > _LARGEST  # seldom: only then rows are looked at one by one
        for at, count in enumerate(words):
            size = lists[at : at + 1].flatten().nbytes if long else 0
            if (count or 0) > LONGEST or size > _LARGEST:
                what = f"{LONGEST:,} words" if size <= _LARGEST else f"{_LARGEST >> 20} MiB of text"
                raise self._damaged(
                    f"row {row + at}: a sentence of more than {what}; what is longer must be cut"
                )

    def _require_no_nulls(self, what: str, column: str, batch: Any, row: int) -> None:
        """Refuse a list in which something is missing; a missing list is an empty one."""
        lists = batch.column(column)
        if lists.flatten().null_count:
            rows = self.texts(batch, column)
            at = next(i for i, some in enumerate(rows) if some and None in some)
            raise ValueError(
                f"{what}: {self.source.name}, row {row + at}: a null in column {column!r}"
            )

    def sentences(self, labelled: bool) -> Iterator[tuple[list[list[str]], list[str] | None]]:
        """Yield words (as rows of one column) and labels of all sentences.

        Unless they must be `labelled`, labels are None where the usual column is not there.
        """
        found = self.tag in self.schema.names
        if not found and (labelled or self.tag != _TAGS):
            names = ", ".join(self.schema.names)
            raise ValueError(
                f"{self.places[1]}: no column {self.tag!r} in {self.source.name} among {names}"
            )
        if found:
            self._require_texts(self.places[1], self.tag)
        row = 0
        for batch in self.batches(range(self.groups)):
            if found:
                self._require_no_nulls(self.places[1], self.tag, batch, row)
            row += len(batch)
            words = self.texts(batch, self.word)
            tags = self.texts(batch, self.tag) if found else [None] * len(words)
            for some, labels in zip(words, tags, strict=True):
                yield [[word] for word in some or []], list(labels or []) if found else None

    def writer(self, file: IO[bytes], marginals: str) -> Any:
        """Return what writes batches with the columns that tagging adds."""
        schema = self.schema
        for field in added_fields(marginals):
            if field.name in schema.names:
                raise ValueError(
                    f"{self.source.name} has a column {field.name!r} already: drop it first, or "
                    "write another format, --output-format (output_format=)"
                )
            schema = schema.append(field)
        with self._named():
            return new_writer(file, schema)

    @staticmethod
    def extended(batch: Any, schema: Any, columns: Sequence[Any]) -> Any:
        """Return a batch with the columns that tagging adds."""
        import pyarrow

        kinds = [schema.field(i).type for i in range(batch.num_columns, len(schema))]
        arrays = [pyarrow.array(c, k) for c, k in zip(columns, kinds, strict=True)]
        return pyarrow.record_batch([*batch.columns, *arrays], schema=schema)


def added_fields(marginals: str) -> list[Any]:
    """Return the fields that tagging adds."""
    import pyarrow

    added = [("predicted", pyarrow.list_(pyarrow.string()))]
    if marginals != "none":
        added.append(("probability", pyarrow.list_(pyarrow.float64())))
    if marginals == "all":
        added.append(("marginals", pyarrow.list_(pyarrow.list_(pyarrow.float64()))))
    return [pyarrow.field(name, kind) for name, kind in added]


def new_writer(file: IO[bytes], schema: Any) -> Any:
    """Return what writes record batches, a row group each."""
    import pyarrow.parquet

    return pyarrow.parquet.ParquetWriter(file, schema)


class RowFormat:
    """Gives the rows of a table as `LineFormat` gives sentences, to be written in other formats."""

    kind = "parquet"
    header = None
    columns = Columns(0, -1)

    def __init__(self, table: ParquetTable) -> None:
        self._table = table

    def blocks(self, groups: Sequence[int]) -> Iterator[Block]:
        """Yield the sentences of row groups."""
        table = self._table
        for batch in table.batches(groups):
            for found in table.texts(batch, table.word):
                words = found or []
                size = sum(map(len, words))
                yield Block([], [], [[word] for word in words], None, size, {"words": words})
