"""Parquet output of tagged sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import IO, Any

from valuesparse._extras import require
from valuesparse.crf.corpora._outputs import Answer
from valuesparse.crf.corpora._parquet import added_fields, new_writer

__all__ = ["ParquetOutput", "columns_of"]

# Tokens of a row group of sentences that come from another format.
_GROUP = 1 << 16


def columns_of(
    answers: Sequence[Answer], number: Mapping[str, int], marginals: str
) -> list[list[Any]]:
    """Return the columns that tagging adds; `number` has the place of each label in a table."""
    columns: list[list[Any]] = [[answer.tags for answer in answers]]
    tables = [[] if a.table is None else a.table.tolist() for a in answers]
    if marginals != "none":
        columns.append([
            [p[number[tag]] for tag, p in zip(a.tags, some, strict=True)]
            for a, some in zip(answers, tables, strict=True)
        ])  # fmt: skip
    if marginals == "all":
        columns.append(tables)
    return columns


class ParquetOutput:
    """Writes tagged sentences of other formats: their words, and the columns that tagging adds.

    Parameters
    ----------
    file : binary file
        Where to.
    labels : sequence of K str
        All labels, in the order of marginals.
    marginals : {"best", "all", "none"}
        Which probabilities are written.
    """

    def __init__(self, file: IO[bytes], labels: Sequence[str], marginals: str) -> None:
        require("parquet", "pyarrow")
        import pyarrow

        self._marginals = marginals
        self._number = {label: k for k, label in enumerate(labels)}
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

        columns = [self._words, *columns_of(self._answers, self._number, self._marginals)]
        arrays = [
            pyarrow.array(column, field.type)
            for column, field in zip(columns, self._schema, strict=True)
        ]
        self._writer.write_batch(pyarrow.record_batch(arrays, schema=self._schema))
        self._words, self._answers, self._tokens = [], [], 0
