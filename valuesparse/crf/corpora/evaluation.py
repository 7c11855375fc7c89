"""Compare the labels of two files of the same sentences."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import NamedTuple

from valuesparse.corpora._files import as_paths
from valuesparse.corpora._text import Given, Source, as_source
from valuesparse.crf.corpora._formats import CONLLU, FORMATS
from valuesparse.crf.corpora._reader import Extraction, Reader, Sentence, kind_of
from valuesparse.crf.metrics import Score, Tally

__all__ = ["Evaluation", "evaluate"]

_PREDICTED = "predicted"
# What `tag_corpus` writes after labels.
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
    train: Iterable[str | os.PathLike[str]] = (),
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
        as in `gold`.
    word : str, optional
        Name or number of the column of words.
    gold_format, system_format : str, optional
        Formats of the files; by default their names tell, and a file that is open is CoNLL.
    scheme : str, optional
        As of :func:`valuesparse.crf.metrics.entities`.
    train : iterable of paths
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
        if kind is not None and kind not in FORMATS:
            raise ValueError(f"{name} must be one of {', '.join(FORMATS)}, not {kind!r}")
    known = _words(train, gold_format, word)
    first, second = as_source(gold), as_source(system)
    right = _labelled(first, gold_format, word, gold_column, "gold_column", False)
    found = _labelled(second, system_format, word, system_column, "system_column", True)
    tally = Tally(scheme)
    unknown = unknown_right = 0
    for number, (one, other) in enumerate(zip_longest(right, found), 1):
        _require_same(number, one, other)
        assert one is not None
        assert other is not None
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
    """A sentence: where it is from, its words if there are any, and its labels."""

    name: str
    words: list[str] | None
    labels: list[str]


def _words(
    train: Iterable[str | os.PathLike[str]], kind: str | None, word: str | None
) -> set[str] | None:
    """Return the words of files; None of no file."""
    known: set[str] | None = None
    for path in as_paths(train):
        known = set() if known is None else known
        reader = Reader(path, kind, Extraction("words", None, word, None), labelled=False)
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
    source: Source, kind: str | None, word: str | None, column: str | None, what: str, system: bool
) -> Iterator[_Labelled]:
    """Yield the sentences of a file."""
    kind = kind or kind_of(source)
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
        if system and column is None and number == 1 and all(map(_NUMBER.fullmatch, labels)):
            raise ValueError(
                f"{what}: the last column of {source} holds numbers such as {labels[0]}; say which "
                "one has its labels, --system COLUMN (system_column=)"
            )
        if misc:
            entries = [_predicted(row) for row in sentence.rows]
            if tagged is None:
                tagged = column is not None or any(entry is not None for entry in entries)
            if tagged:
                if None in entries:
                    raise ValueError(
                        f"{source}: sentence {number}: no Predicted= in MISC of word "
                        f"{entries.index(None) + 1}"
                    )
                labels = [entry for entry in entries if entry is not None]
        yield _Labelled(str(source), _forms(reader, sentence), labels)


def _predicted(row: list[str]) -> str | None:
    """Return the label that `valuesparse tag` wrote into MISC."""
    for entry in row[CONLLU.index("misc")].split("|"):
        name, equals, value = entry.partition("=")
        if equals and name == "Predicted":
            return value.replace("%7C", "|")
    return None


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
