"""Labelled sentences of files: what training, tagging and `valuesparse tune` read alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from valuesparse.crf.corpora._features import Extractor, describe, find_extractor, template_path
from valuesparse.crf.corpora._files import kept_with
from valuesparse.crf.corpora._formats import format_of, line_format
from valuesparse.crf.corpora._parquet import Table
from valuesparse.crf.corpora._text import lines, located
from valuesparse.io.errors import TextFormatError

__all__ = ["Extraction", "Reader", "Sentence", "extraction_of", "extractor_of"]


class Extraction(NamedTuple):
    """How words become attributes.

    Attributes
    ----------
    features : str
        The name of an extractor, or ``attributes``: files hold them.
    digest : str or None
        The SHA-256 of a template.
    word : str or None
        The column of words.
    tags : str or None
        The column of labels.
    """

    features: str
    digest: str | None
    word: str | None
    tags: str | None


def extraction_of(
    model: Path,
    features: str | None,
    word: str | None,
    tags: str | None = None,
    digest: str | None = None,
) -> Extraction:
    """Return what is said, else what is kept beside a model, else the built-in extractor.

    Raises
    ------
    ValueError
        What is kept is of another model than that whose SHA-256 is `digest` (None: the file's);
        the extractor cannot be had, or a template is not the one that the model was trained with.
    """
    kept = kept_with(model, digest)
    name = features or kept.get("features") or "words"
    wanted = kept.get("template_sha256") if features is None else None
    template = template_path(name)
    if template is not None:
        # What is kept is seen from the model.
        name = f"template:{(template if features else model.parent / template).resolve()}"
    if name != "attributes":
        # The file as it is now: the same path may have led to another in this process.
        found = describe(name).get("template_sha256")
        find_extractor(name, wanted or found)  # says now what is wrong with it
        if wanted not in (None, found):
            raise ValueError(f"{name} is not the template that the model was trained with")
        wanted = found
    return Extraction(name, wanted, word or kept.get("word"), tags or kept.get("tags"))


def extractor_of(extraction: Extraction) -> Extractor:
    """Return what makes attributes.

    Raises
    ------
    ValueError
        The model was trained on attribute files, and nothing is said of words.
    """
    if extraction.features == "attributes":
        raise ValueError(
            "the model takes attribute files; say with features= how words become attributes"
        )
    return find_extractor(extraction.features, extraction.digest)


class Sentence(NamedTuple):
    """A sentence as the file has it.

    Attributes
    ----------
    rows : list of list of str
        The columns of its tokens; of Parquet the words alone.
    items : list or None
        Their attributes, where the file gives them.
    labels : list of str or None
        Their labels; None where the file has no such column.
    """

    rows: list[list[str]]
    items: list[dict[str, float]] | None
    labels: list[str] | None


class Reader:
    """Reads one file, as often as wanted.

    Parameters
    ----------
    path : Path
        The file.
    kind : str or None
        Its format; None: its name tells.
    extraction : Extraction
        How it is read.
    labelled : bool
        Whether there must be labels.
    """

    def __init__(
        self, path: Path, kind: str | None, extraction: Extraction, labelled: bool = True
    ) -> None:
        self.path, self.kind, self.extraction = path, kind or format_of(path), extraction
        self.labelled = labelled
        self._word = 0

    def __iter__(self) -> Iterator[Sentence]:
        """Yield the sentences that have tokens."""
        word, tags = self.extraction.word, self.extraction.tags
        if self.kind == "parquet":
            for rows, labels in Table(self.path, word, tags).sentences(self.labelled):
                if rows:
                    yield Sentence(rows, None, labels)
            return
        form = line_format(self.path, self.kind, word, tags)
        self._word = form.columns.word
        stream = lines(self.path)
        if form.header is not None:
            next(stream)
        try:
            for number, block in enumerate(form.blocks(stream), 1):
                if not block.rows:
                    continue
                try:
                    labels = form.labels(block, self.labelled)
                except ValueError as error:
                    raise ValueError(f"{self.path.name}: sentence {number}: {error}") from None
                yield Sentence(block.rows, block.items, labels)
        except TextFormatError as error:
            raise located(error, self.path) from None

    def items(self, sentence: Sentence) -> Sequence[Any]:
        """Return the attributes of the tokens of a sentence of this file."""
        if sentence.items is not None:
            return sentence.items
        return extractor_of(self.extraction)(sentence.rows, self._word)
