"""Parquet output of tagged sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO, Any

from valuesparse._extras import require
from valuesparse.crf.corpora._outputs import Answer
from valuesparse.crf.corpora._parquet import added_fields, new_writer

__all__ = ["ParquetOutput", "columns_of"]

# Tokens of a row group of sentences that come from another format.
_GROUP = 1 << 16


def columns_of(answers: Sequence[Answer], marginals: str) -> list[list[Any]]:
    """Return the columns that tagging adds."""
    columns: list[list[Any]] = [[answer.tags for answer in answers]]
    if marginals != "none":
        columns.append([answer.sure for answer in answers])
    if marginals == "all":
        columns.append([[] if a.table is None else a.table.tolist() for a in answers])
    return columns


class ParquetOutput:
    """Writes tagged sentences of other formats: their words, and the columns that tagging adds.

    Parameters
    ----------
    file : binary file
        Where to.
    marginals : {"best", "all", "none"}
        Which probabilities are written.
    """

    def __init__(self, file: IO[bytes], marginals: str) -> None:
        require("parquet", "pyarrow")
        import pyarrow

        self._marginals = marginals
        words = pyarrow.field("words", pyarrow.list_(pyarrow.string()))
        self._schema = pyarrow.schema([words, *added_fields(marginals)])
        self._writer = new_writer(file, self._schema)
        self._words: list[list[str]] = []
        self._answers: list[Answer] = []
        self._tokens = 0

    def add(self, words: list[str], answer: Answer) -> None:
        """Write a sentence; some are kept, so that a row group has many."""
        self._words.append(words)
        self._answers.append(answer)
        self._tokens += len(words)
        if self._tokens >= _GROUP:
            self._flush()

    def close(self) -> None:
        """Write what was kept, and the end of the file."""
        if self._words:
            self._flush()
        self._writer.close()

    def _flush(self) -> None:
        import pyarrow

        columns = [self._words, *columns_of(self._answers, self._marginals)]
        arrays = [
            pyarrow.array(column, field.type)
            for column, field in zip(columns, self._schema, strict=True)
        ]
        self._writer.write_batch(pyarrow.record_batch(arrays, schema=self._schema))
        self._words, self._answers, self._tokens = [], [], 0
