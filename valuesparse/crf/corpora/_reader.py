"""Labelled sentences of files: what training, tagging and `valuesparse tune` read alike."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from valuesparse.corpora._files import digest_of
from valuesparse.corpora._stream import Stream
from valuesparse.corpora._text import Line, Source, first_line, largest, lines, located, spooled
from valuesparse.crf.corpora._beside import beside, read_beside, require_tied
from valuesparse.crf.corpora._features import (
    TEMPLATE,
    Extractor,
    calling,
    find_extractor,
    is_function,
)
from valuesparse.crf.corpora._formats import (
    ARGUMENTS,
    COLUMNS,
    ONE_LINE,
    RETURNS,
    LineFormat,
    seen_format,
    told_format,
)
from valuesparse.crf.corpora._functions import name_of
from valuesparse.crf.corpora._parquet import ParquetTable
from valuesparse.crf.corpora._sentences import SentenceFormat
from valuesparse.crf.corpora._templates import read_template, read_template_below
from valuesparse.io.errors import TextFormatError

__all__ = [
    "Extraction",
    "FeatureSource",
    "Form",
    "Reader",
    "Sentence",
    "extraction_given",
    "extraction_of",
    "extractor_of",
    "kind_of",
    "line_format",
    "open_lines",
]

#: The name of what makes attributes, or a function of the words of a sentence.
FeatureSource: TypeAlias = "str | Callable[[Sequence[str]], Sequence[Any]]"


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
    template : str or None
        The text of a template.
    folder : str or None
        Where the module of a function is looked for that is not installed.
    function : callable or None
        The function itself, where it was given.
    own : bool
        Whether the template is the model's own, which may come from anybody.
    places : (str, str)
        Where the two columns were said, for errors.
    preferred : str or None
        The name of the column of labels, where `tags` is None and the file has one of that name.
    """

    features: str
    digest: str | None
    word: str | None
    tags: str | None
    template: str | None = None
    folder: str | None = None
    function: Callable[[Sequence[str]], Sequence[Any]] | None = None
    own: bool = False
    places: tuple[str, str] = ARGUMENTS
    preferred: str | None = None


def extraction_given(
    features: FeatureSource, word: str | None = None, tags: str | None = None
) -> Extraction:
    """Return what somebody says, who may name any file and any function.

    Raises
    ------
    ValueError
        The extractor cannot be had.
    """
    if not isinstance(features, str):
        return Extraction(name_of(features), None, word, tags, function=features)
    how = Extraction(features, None, word, tags)
    if features.startswith(TEMPLATE):
        path = Path(features.removeprefix(TEMPLATE)).absolute()
        text = read_template(path)
        how = how._replace(features=f"{TEMPLATE}{path}", template=text, digest=_digest(text))
    elif is_function(features):
        how = how._replace(folder=os.getcwd())
    return _usable(how)


def extraction_of(
    model: Path,
    features: FeatureSource | None,
    word: str | None,
    tags: str | None = None,
    digest: str | None = None,
) -> Extraction:
    """Return the extraction asked for, else that kept beside a model, else the built-in one.

    The file beside a model may come from anybody: it names no code, and no file elsewhere.

    Raises
    ------
    ValueError
        The file beside the model belongs to another one than that whose SHA-256 is `digest` (None:
        the file's), and `features` and `word` are not both given;
        the extractor cannot be had; a template is not the one that the model was trained with, or
        not in the model's folder; or the model asks for a function, and nobody gave its name.
    """
    model = model.resolve()
    path, kept = beside(model), read_beside(model, digest)
    name = "words" if kept.get("features") is None else kept["features"]
    if features is None and is_function(name):
        raise ValueError(
            f"{path} asks for the function {name[:80]!r}, and models run no code of their own "
            "accord: if you know the function and trust it, give its name, --features NAME "
            "(features=NAME)"
        )
    try:
        require_tied(model, kept, digest)
    except ValueError:
        if features is None or word is None:
            raise
        kept = {}
    given = zip(ARGUMENTS, (word, tags), strict=True)
    first, second = (
        f"{what!r} in {path}" if said is None and kept.get(what) else what for what, said in given
    )
    word = kept.get("word") if word is None else word
    tags = kept.get("tags") if tags is None else tags
    if features is not None:
        return extraction_given(features, word, tags)._replace(places=(first, second))
    how = Extraction(name, None, word, tags, places=(first, second))
    text = None
    if name.startswith(TEMPLATE):
        text = kept.get("template")
        if text is None:
            text = read_template_below(model.parent, name.removeprefix(TEMPLATE), path)
        if kept.get("template_sha256") not in (None, _digest(text)):
            raise ValueError(f"{path}: {name[:80]!r} is not the template that the model was "
                             "trained with")  # fmt: skip
        how = how._replace(template=text, digest=_digest(text), own=True)
    try:
        return _usable(how)
    except ValueError as error:
        # A file that a model only points to may be no template: none of it is told.
        told = text is None or "template" in kept
        why = f": {error}" if told else f" asks for {name[:80]!r}, which is no template"
        raise ValueError(f"{path}{why}") from (error if told else None)


def _digest(text: str) -> str:
    """Return the SHA-256 of a text; JSON can write what UTF-8 cannot."""
    return digest_of(text.encode("utf-8", "surrogatepass"))


def _usable(how: Extraction) -> Extraction:
    """Return how words become attributes, once it is certain that they can."""
    if how.features != "attributes":
        extractor_of(how)
    return how


def extractor_of(extraction: Extraction) -> Extractor:
    """Return what makes attributes.

    Raises
    ------
    ValueError
        The model was trained on attribute files, and has no words.
    """
    if extraction.function is not None:
        return calling(extraction.features, extraction.function)
    if extraction.features == "attributes":
        raise ValueError(
            "the model takes attribute files; say with features= how words become attributes"
        )
    return find_extractor(
        extraction.features, extraction.template, extraction.folder, extraction.own
    )


#: A reader of a format's lines.
Form: TypeAlias = "LineFormat | SentenceFormat"


def kind_of(source: Source) -> str:
    """Return the format that a file's name tells, or else its first sentence; of a stream CoNLL.

    Raises
    ------
    ValueError
        It may be one or the other.
    """
    if isinstance(source, Stream) or source.name == "-":
        return "conll"
    found = told_format(source)
    if found is None:
        try:
            found = seen_format(lines(source))
        except TextFormatError as error:
            raise located(error, source) from None
    if found is None:
        raise ValueError(
            f"{source}: neither the name nor the text tells the format: say --input-format conll "
            "(input_format=) if each line is a word with its columns, conllu if its first column "
            "is a number, attributes if it is a label with CRFsuite's attributes"
        )
    return found


def line_format(path: Path, kind: str, how: Extraction) -> Form:
    """Return the format of a file; of TSV its first line names the columns."""
    return _form(path, kind, how, first_line(path)[0] if kind == "tsv" else "")


def open_lines(source: Source, kind: str, how: Extraction) -> tuple[Form, Iterator[Line]]:
    """Return the format of a file or stream, and its lines but for those that name columns."""
    stream = lines(source)
    first = next(stream, None) if kind == "tsv" else None
    return _form(source, kind, how, "" if first is None else first.text), stream


def _form(source: Source, kind: str, how: Extraction, first: str) -> Form:
    header = None
    if kind == "tsv":
        header = first.split("\t", COLUMNS)
        if "\r" in first:
            raise located(TextFormatError("line", 0, RETURNS, 1, first[:40]), source)
        if header == [""]:
            raise ValueError(f"{source.name}: the first line of a TSV file must name its columns")
        if len(header) > COLUMNS:
            raise ValueError(f"{source.name}: the first line has more than {COLUMNS:,} columns")
    try:
        if kind in ONE_LINE:
            return SentenceFormat(kind, how.word, how.tags, how.places, how.preferred)
        return LineFormat(kind, how.word, how.tags, header, how.places, how.preferred)
    except ValueError as error:
        raise ValueError(f"{source.name}: {error}") from None


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
    """Reads one file, as often as wanted, or a stream, once.

    Parameters
    ----------
    path : Path or Stream
        The file.
    kind : str or None
        Its format; None: its name tells.
    extraction : Extraction
        How it is read.
    labelled : bool
        Whether there must be labels.

    Attributes
    ----------
    word : int
        Which of the columns of a sentence's rows is that of words, once it was read.
    """

    def __init__(
        self, path: Source, kind: str | None, extraction: Extraction, labelled: bool = True
    ) -> None:
        self.path, self.kind, self.extraction = path, kind or kind_of(path), extraction
        self.labelled = labelled
        self.word = 0

    def __iter__(self) -> Iterator[Sentence]:
        """Yield the sentences that have tokens."""
        how = self.extraction
        if self.kind == "parquet":
            with spooled(self.path) as path:
                table = ParquetTable(path, how.word, how.tags, how.places, how.preferred, self.path)
                for rows, labels in table.sentences(self.labelled):
                    if rows:
                        yield Sentence(rows, None, labels)
            return
        try:
            form, stream = open_lines(self.path, self.kind, how)
            self.word = form.columns.word
            for number, block in enumerate(form.blocks(stream, largest(self.path)), 1):
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
        try:
            return extractor_of(self.extraction)(sentence.rows, self.word)
        except ValueError as error:
            raise ValueError(f"{self.path}: {error}") from error
