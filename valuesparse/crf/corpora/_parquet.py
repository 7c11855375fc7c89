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
            sizes = [file.metadata.row_group(i).total_byte_size for i in range(self.groups)]
        self.sizes: list[int] = sizes
        if self.word not in self.schema.names:
            raise ValueError(f"word: no column {self.word!r} among {', '.join(self.schema.names)}")

    def batches(self, groups: Sequence[int]) -> Iterator[Any]:
        """Yield record batches of row groups."""
        import pyarrow.parquet

        with pyarrow.parquet.ParquetFile(self.path) as file:
            yield from file.iter_batches(_BATCH, row_groups=list(groups))

    def sentences(self, labelled: bool) -> Iterator[tuple[list[list[str]], list[str] | None]]:
        """Yield words (as rows of one column) and labels of all sentences.

        Unless they must be `labelled`, labels are None where the usual column is not there.
        """
        found = self.tag in self.schema.names
        if not found and (labelled or self.tag != _TAGS):
            names = ", ".join(self.schema.names)
            raise ValueError(f"tags: no column {self.tag!r} among {names}")
        for batch in self.batches(range(self.groups)):
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
