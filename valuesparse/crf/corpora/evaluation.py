"""Compare the labels of two files of the same sentences."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import NamedTuple

from valuesparse._validation import as_choice
from valuesparse.corpora._stream import Stream
from valuesparse.corpora._text import Given, Source, as_source, as_sources
from valuesparse.crf.corpora._formats import CONLLU, FORMATS, told_format
from valuesparse.crf.corpora._reader import Extraction, Reader, Sentence
from valuesparse.crf.metrics import Score, Tally

__all__ = ["Evaluation", "evaluate"]

_PREDICTED = "predicted"
# A probability as `tag_corpus` writes it after a label.
_NUMBER = re.compile(r"[01]\.[0-9]{6}")


class Evaluation(NamedTuple):
    """How well a file is labelled.

    Attributes
    ----------
    sentences, tokens : int
        How many there are.
    accuracy : float
        The share of tokens with the right label.
    sentence_accuracy : float
        The share of sentences all of whose labels are right.
    labels : dict of str to Score
        Precision, recall, F1 and support of each label.
    entity_f1 : float or None
        F1 of entities, as seqeval counts them; None where labels are not those of entities.
    entities : dict of str to Score, or None
        The scores of each type.
    unknown : int or None
        Tokens whose word is not in the training data; None where those were not given.
    unknown_accuracy : float or None
        The share of those with the right label; None where there are none.
    """

    sentences: int
    tokens: int
    accuracy: float
    sentence_accuracy: float
    labels: dict[str, Score]
    entity_f1: float | None
    entities: dict[str, Score] | None
    unknown: int | None
    unknown_accuracy: float | None


def evaluate(
    gold: Given,
    system: Given,
    *,
    gold_column: str | None = None,
    system_column: str | None = None,
    word: str | None = None,
    gold_format: str | None = None,
    system_format: str | None = None,
    scheme: str | None = None,
    train: Iterable[Given] | Given = (),
) -> Evaluation:
    r"""Compare the labels of two files with the same sentences.

    Parameters
    ----------
    gold, system : path or binary file
        The right labels, and those that a system found. A file that is open is read once.
    gold_column, system_column : str, optional
        Name or number (from 1) of the column of labels. By default in `gold` the last one of CoNLL,
        UPOS in CoNLL-U, ``tag``, ``label`` or the last one in TSV, ``tags`` in JSON Lines and
        Parquet; in `system` the one named ``predicted``, which in CoNLL-U is an entry of MISC, or
        as in `gold`. CoNLL has no names: there it is the column of labels that :func:`tag_file`
        adds, the best one of several, or else the last that does not hold probabilities.
    word : str, optional
        Name or number of the column of words.
    gold_format, system_format : str, optional
        Formats of the files; by default their names tell, and where they do not it is CoNLL.
    scheme : str, optional
        As of :func:`valuesparse.crf.metrics.entities`.
    train : iterable of paths or binary files, or one of them
        Data that a model was trained on, in the format of `gold` where names do not tell: words
        that are not there are counted apart.

    Returns
    -------
    Evaluation

    Raises
    ------
    ValueError
        The files differ in a sentence or a word, which the message names, with both files; there is
        no such column; a file is wrong, with the line.
    OSError
        A file cannot be read.

    Examples
    --------
    >>> import io
    >>> gold, system = (io.BytesIO(text) for text in (b"a B\nb O\n", b"a B\nb B\n"))
    >>> found = evaluate(gold, system)
    >>> found.accuracy, found.entity_f1
    (0.5, 0.666...)
    """
    for name, kind in (("gold_format", gold_format), ("system_format", system_format)):
        if kind is not None:
            as_choice(name, kind, FORMATS, "not")
    known = _words(train, gold_format, word)
    first, second = as_source(gold, "gold"), as_source(system, "system")
    kind, other_kind = _kind(first, gold_format), _kind(second, system_format)
    if kind == other_kind == "attributes" and system_column is None:
        other_kind = "conll"  # a tagged one has columns: the label that was there, and those found
    right = _labelled(first, kind, word, gold_column, "gold_column", False)
    found = _labelled(second, other_kind, word, system_column, "system_column", True)
    place: int | None = None
    tally = Tally(scheme)
    unknown = unknown_right = 0
    for number, (one, other) in enumerate(zip_longest(right, found), 1):
        _require_same(number, one, other)
        assert one is not None
        assert other is not None
        if other_kind == "conll" and system_column is None:
            place = _found_column(one, other) if place is None else place
            other = _with_column(other, place, number)
        try:
            tally.add(one.labels, other.labels)
        except ValueError as error:
            raise ValueError(f"{one.name} and {other.name}, sentence {number}: {error}") from None
        if known is not None:
            for form, a, b in zip(one.words or [], one.labels, other.labels, strict=True):
                if form not in known:
                    unknown += 1
                    unknown_right += a == b
    if not tally.items:
        raise ValueError(f"{first}: there is no sentence in it")
    total = tally.all_entities()
    return Evaluation(
        tally.sequences, tally.items, tally.accuracy, tally.whole / tally.sequences,
        tally.labels(), None if total is None else total.f1, tally.entities(),
        None if known is None else unknown, unknown_right / unknown if unknown else None,
    )  # fmt: skip


class _Labelled(NamedTuple):
    """A sentence: where it is from, its words if there are any, its labels, and its columns."""

    name: str
    words: list[str] | None
    labels: list[str]
    rows: list[list[str]]


def _kind(source: Source, given: str | None) -> str:
    """Return the format of a file: said, else told by its name, else CoNLL."""
    # The text is not looked at: what `tag` makes of attributes has columns.
    told = "conll" if isinstance(source, Stream) else told_format(source)
    return given or told or "conll"


def _words(train: Iterable[Given] | Given, kind: str | None, word: str | None) -> set[str] | None:
    """Return the words of files; None of no file."""
    known: set[str] | None = None
    for path in as_sources(train, "train"):
        known = set() if known is None else known
        how = Extraction("words", None, word, None)
        reader = Reader(path, _kind(path, kind), how, labelled=False)
        for sentence in reader:
            words = _forms(reader, sentence)
            if words is None:
                raise ValueError(f"train: {path} holds attributes, and no words")
            known.update(words)
    return known


def _forms(reader: Reader, sentence: Sentence) -> list[str] | None:
    if reader.kind == "attributes":
        return None
    return [row[reader.word] for row in sentence.rows]


def _labelled(
    source: Source, kind: str, word: str | None, column: str | None, what: str, system: bool
) -> Iterator[_Labelled]:
    """Yield the sentences of a file."""
    how = Extraction("words", None, word, column, places=("word", what))
    misc = system and kind == "conllu" and column in (None, _PREDICTED)
    named = system and column is None and kind in ("tsv", "jsonl", "parquet")
    if misc or named:
        how = how._replace(tags=None, preferred=_PREDICTED)
    reader = Reader(source, kind, how)
    tagged: bool | None = None  # whether MISC has labels; the first sentence tells
    for number, sentence in enumerate(reader, 1):
        labels = sentence.labels
        assert labels is not None
        if misc:
            try:
                entries = [_predicted(row) for row in sentence.rows]
            except ValueError as error:
                raise ValueError(f"{source}: sentence {number}: {error}") from None
            if tagged is None:
                tagged = column is not None or any(entry is not None for entry in entries)
            if tagged:
                if None in entries:
                    raise ValueError(
                        f"{source}: sentence {number}: no Predicted= in MISC of word "
                        f"{entries.index(None) + 1}"
                    )
                labels = [entry for entry in entries if entry is not None]
        yield _Labelled(str(source), _forms(reader, sentence), labels, sentence.rows)


def _found_column(one: _Labelled, other: _Labelled) -> int:
    """Return which column of CoNLL has the labels of a system, by a sentence of both files.

    `tag` writes after the columns of its input a label and perhaps probabilities, or several
    labels, each with that of its sequence. Others write the label last.

    Raises
    ------
    ValueError
        There is no such column, or several may be it.
    """
    rows = other.rows
    width = len(rows[0])
    numbers = [all(_NUMBER.fullmatch(row[i]) for row in rows) for i in range(width)]
    own = len(one.rows[0])
    # Columns of GOLD, and others after them; a number there is the probability of the last one.
    begins = all(row[:own] == mine for row, mine in zip(rows, one.rows, strict=True))
    if own < width and begins and not numbers[own]:
        places = [i for i in range(own, width) if not numbers[i]]
        if len(places) == 1 or _are_n_best(rows, places, numbers):
            return places[0]
        columns = ", ".join(str(i + 1) for i in places)
        raise ValueError(
            f"system_column: columns {columns} of {other.name} may all be labels; say which one, "
            "--system COLUMN (system_column=)"
        )
    places = [i for i in range(1, width) if not numbers[i]]
    if not places:
        raise ValueError(
            f"system_column: the last column of {other.name} holds numbers such as {rows[0][-1]}; "
            "say which one has its labels, --system COLUMN (system_column=)"
        )
    # Counted from the end, as sentences may have more or fewer columns.
    for i, place in enumerate(places):
        if _are_n_best(rows, places[i:], numbers):
            return place - width
    return places[-1] - width


def _are_n_best(rows: list[list[str]], places: list[int], numbers: list[bool]) -> bool:
    """Return whether columns are the best label sequences, each with one number of its own.

    The numbers are the same for all words of a sentence, fall, and do not exceed 1 together.
    """
    if len(places) < 2 or [*range(places[0], len(numbers), 2)] != places or not numbers[-1]:
        return False
    columns = [{row[i + 1] for row in rows} for i in places]
    if any(len(column) > 1 for column in columns):
        return False
    found = [float(column.pop()) for column in columns]
    return found == sorted(found, reverse=True) and sum(found) <= 1 + 1e-6 * len(found)


def _with_column(sentence: _Labelled, place: int, number: int) -> _Labelled:
    """Return a sentence with the labels of a column."""
    for row in sentence.rows:
        if not -len(row) <= place < len(row):
            raise ValueError(
                f"{sentence.name}: sentence {number}: no column {place + 1} among {len(row)}"
            )
    return sentence._replace(labels=[row[place] for row in sentence.rows])


def _predicted(row: list[str]) -> str | None:
    """Return the label that `valuesparse tag` wrote into MISC.

    Raises
    ------
    ValueError
        There are several.
    """
    entries = row[CONLLU.index("misc")].split("|")
    found = [value for value in entries if value.startswith("Predicted=")]
    if len(found) > 1:
        raise ValueError(
            f"several Predicted= in MISC of word {row[0]}; tag the file again, or leave one"
        )
    return found[0].removeprefix("Predicted=").replace("%7C", "|") if found else None


def _require_same(number: int, one: _Labelled | None, other: _Labelled | None) -> None:
    """Refuse sentences that are not the same in both files."""
    if one is None or other is None:
        last = one or other
        assert last is not None
        raise ValueError(f"sentence {number} is in {last.name} alone")
    if len(one.labels) != len(other.labels):
        raise ValueError(
            f"sentence {number}: {len(one.labels)} words in {one.name}, {len(other.labels)} in "
            f"{other.name}"
        )
    for i, (a, b) in enumerate(zip(one.words or (), other.words or (), strict=False), 1):
        if a != b:
            raise ValueError(
                f"sentence {number}: word {i} is {a!r} in {one.name}, {b!r} in {other.name}"
            )
