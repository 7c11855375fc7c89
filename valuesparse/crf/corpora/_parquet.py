"""Parquet: a sentence a row, its words in a column of lists; a row group is a shard."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from valuesparse._extras import require

__all__ = ["Table"]

_BATCH = 256  # sentences
_TAGS = "tags"


class Table:
    """A Parquet file of sentences.

    Parameters
    ----------
    path : Path
        The file.
    word, tag : str, optional
        Names of the columns, each a list of str; by default ``words`` and ``tags``.
    """

    def __init__(self, path: Path, word: str | None, tag: str | None) -> None:
        require("parquet", "pyarrow")
        import pyarrow.parquet

        self.path = path
        self.word, self.tag = word or "words", tag or _TAGS
        with pyarrow.parquet.ParquetFile(path) as file:
            self.schema: Any = file.schema_arrow
            self.groups = int(file.num_row_groups)
            groups = [file.metadata.row_group(i) for i in range(self.groups)]
        self.sizes: list[int] = [group.total_byte_size for group in groups]
        self._rows: list[int] = [group.num_rows for group in groups]
        if self.word not in self.schema.names:
            names = ", ".join(self.schema.names)
            raise ValueError(f"word: no column {self.word!r} in {self.path.name} among {names}")
        self._require_texts("word", self.word)

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
                f"{what}: column {column!r} of {self.path.name} must hold lists of str, not {kind}"
            )

    def batches(self, groups: Sequence[int]) -> Iterator[Any]:
        """Yield record batches of neighbouring row groups."""
        import pyarrow.parquet

        row = sum(self._rows[: groups[0]]) if groups else 0
        with pyarrow.parquet.ParquetFile(self.path) as file:
            for batch in file.iter_batches(_BATCH, row_groups=list(groups)):
                self._require_no_nulls("word", self.word, batch, row)
                yield batch
                row += len(batch)

    def _require_no_nulls(self, what: str, column: str, batch: Any, row: int) -> None:
        """Refuse a list in which something is missing; a missing list is an empty one."""
        lists = batch.column(column)
        if lists.flatten().null_count:
            at = next(i for i, some in enumerate(lists.to_pylist()) if some and None in some)
            raise ValueError(
                f"{what}: {self.path.name}, row {row + at}: a null in column {column!r}"
            )

    def sentences(self, labelled: bool) -> Iterator[tuple[list[list[str]], list[str] | None]]:
        """Yield words (as rows of one column) and labels of all sentences.

        Unless they must be `labelled`, labels are None where the usual column is not there.
        """
        found = self.tag in self.schema.names
        if not found and (labelled or self.tag != _TAGS):
            names = ", ".join(self.schema.names)
            raise ValueError(f"tags: no column {self.tag!r} in {self.path.name} among {names}")
        if found:
            self._require_texts("tags", self.tag)
        row = 0
        for batch in self.batches(range(self.groups)):
            if found:
                self._require_no_nulls("tags", self.tag, batch, row)
            row += len(batch)
            words = batch.column(self.word).to_pylist()
            tags = batch.column(self.tag).to_pylist() if found else [None] * len(words)
            for some, labels in zip(words, tags, strict=True):
                yield [[word] for word in some or []], list(labels or []) if found else None

    def writer(self, file: IO[bytes], marginals: str) -> Any:
        """Return what writes batches with the columns that tagging adds."""
        import pyarrow
        import pyarrow.parquet

        added = [("predicted", pyarrow.list_(pyarrow.string()))]
        if marginals != "none":
            added.append(("probability", pyarrow.list_(pyarrow.float64())))
        if marginals == "all":
            added.append(("marginals", pyarrow.list_(pyarrow.list_(pyarrow.float64()))))
        schema = self.schema
        for name, kind in added:
            if name in schema.names:
                raise ValueError(f"{self.path.name} has a column {name!r} already")
            schema = schema.append(pyarrow.field(name, kind))
        return pyarrow.parquet.ParquetWriter(file, schema)

    @staticmethod
    def extended(batch: Any, schema: Any, columns: Sequence[Any]) -> Any:
        """Return a batch with the columns that tagging adds."""
        import pyarrow

        kinds = [schema.field(i).type for i in range(batch.num_columns, len(schema))]
        arrays = [pyarrow.array(c, k) for c, k in zip(columns, kinds, strict=True)]
        return pyarrow.record_batch([*batch.columns, *arrays], schema=schema)
