"""Output of tagged sentences: the input's own lines, or another format."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from valuesparse.crf.corpora._formats import Block
from valuesparse.crf.corpora._parquet import RowFormat
from valuesparse.crf.corpora._reader import Form

__all__ = ["CONVERTED", "Answer", "Marginals", "Output", "output_format"]

Marginals = npt.NDArray[np.float64]

#: Formats that sentences of any other format can be written in.
CONVERTED = ("conll", "tsv", "jsonl", "parquet")
# In the place of a label where there are fewer label sequences than asked for.
_NONE = "_"
# The names that a run of `tag` writes, whatever its options were.
_STALE = re.compile(r"(?:predicted|probability)(?:_?[0-9]+)?|p\(.*\)", re.IGNORECASE | re.DOTALL)
_STALE_KEYS = ("predicted", "probability", "marginals", "n_best")


class Answer(NamedTuple):
    """The labels of a sentence of n words.

    Attributes
    ----------
    tags : list of n str
        Its best labels.
    sure : list of n float, or None
        The marginals of these labels.
    table : (n, K) float64 or None
        Those of all labels, where they are written.
    best : list of (list of n str, float), or None
        The best label sequences with their probabilities, best first.
    """

    tags: list[str]
    sure: list[float] | None = None
    table: Marginals | None = None
    best: list[tuple[list[str], float]] | None = None


def output_format(kind: str, asked: str | None, told: str | None = None) -> str:
    """Return the format of the output: asked for, else told by its name, else the input's.

    Raises
    ------
    ValueError
        The input cannot be written in it.

    Examples
    --------
    >>> output_format("conllu", None), output_format("text", None), output_format("tsv", "jsonl")
    ('conllu', 'conll', 'jsonl')
    """
    found = asked or told or ("conll" if kind == "text" else kind)
    known = tuple(dict.fromkeys((kind, *CONVERTED)))
    known = tuple(one for one in known if one != "text")  # it has no place for labels
    if found not in known:
        raise ValueError(
            f"output_format: {kind} input can be written as {', '.join(known)}, not as {found}"
        )
    return found


class Output:
    """Writes tagged sentences.

    Parameters
    ----------
    form : LineFormat, SentenceFormat or RowFormat
        How they were read.
    kind : str
        The format to write; see `output_format`.
    labels : sequence of K str
        All labels, in the order of the columns of marginals.
    marginals : {"best", "all", "none"}
        Which probabilities are written.
    n_best : int or None
        How many label sequences are, each with its own probability.

    Raises
    ------
    ValueError
        The column of words has the name of one that is written.
    """

    def __init__(
        self,
        form: Form | RowFormat,
        kind: str,
        labels: Sequence[str],
        marginals: str,
        n_best: int | None,
    ) -> None:
        self._kind, self._labels, self._marginals = kind, labels, marginals
        self._n_best, self._word = n_best, form.columns.word
        self._own = form.kind == kind
        header = (form.header if self._own else None) or ["word"]
        # There may be no end of label sequences: they have names only where those are written.
        self._names = self._misc() if kind == "conllu" else self._columns(kind == "tsv")
        kept = _kept([name.lower() for name in header], [name.lower() for name in self._names])
        if self._own and kind == "tsv" and self._word not in kept:
            raise ValueError(
                f"word: the column {header[self._word]!r} has the words, and tagging adds one of "
                "that name; rename it, or write another format, --output-format (output_format=)"
            )
        self._header = [header[i] for i in kept]
        # The columns of a line that stay, where not all do.
        self._kept = kept if kind == "tsv" and len(kept) < len(header) else None

    def heading(self) -> str:
        """Return the first line of an output, if there is one."""
        if self._kind != "tsv":
            return ""
        return "\t".join([*self._header, *self._names]) + "\n"

    def written(self, block: Block, answer: Answer) -> str:
        """Return the lines of a sentence.

        Raises
        ------
        ValueError
            A word of JSON cannot stand in a column.
        """
        if self._kind == "jsonl":
            return self._json(block, answer)
        cells = self._cells(answer)
        if self._own:
            return self._own_lines(block, cells)
        if block.record is not None:
            for i, (word,) in enumerate(block.rows):
                if not word.isprintable() and set(word) & set("\t\n\r"):
                    raise ValueError(f"word {i + 1}, {word[:40]!r}, cannot stand in a column")
        rows = block.rows
        if self._kind == "tsv":
            rows = [[word] for word in self.words(block)]
        return "".join(
            "\t".join([*row, *some]) + "\n" for row, some in zip(rows, cells, strict=True)
        ) + ("\n" if rows else "")

    def words(self, block: Block) -> list[str]:
        """Return the words of a sentence."""
        return [row[self._word] for row in block.rows]

    def _cells(self, answer: Answer) -> list[list[str]]:
        """Return what is written for each word, beside what was read."""
        tags = answer.tags
        if answer.best is not None:
            assert self._n_best is not None
            none = ([_NONE] * len(tags), 0.0)
            some = [*answer.best, *[none] * (self._n_best - len(answer.best))]
            with_p = self._marginals != "none"
            return [
                [cell for labels, p in some for cell in (labels[i], *[f"{p:.6f}"] * with_p)]
                for i in range(len(tags))
            ]
        if answer.sure is None:
            return [[tag] for tag in tags]
        rows = [[]] * len(tags) if answer.table is None else answer.table.tolist()
        return [
            [tag, *(f"{x:.6f}" for x in (p, *row))]
            for tag, p, row in zip(tags, answer.sure, rows, strict=True)
        ]

    def _own_lines(self, block: Block, cells: list[list[str]]) -> str:
        lines = list(block.lines)
        for at, row, some in zip(block.at, block.rows, cells, strict=True):
            if self._kind == "conllu":
                misc = [] if row[-1] == _NONE else row[-1].split("|")
                kept = _kept([entry.partition("=")[0] for entry in misc], self._names)
                misc = [misc[i] for i in kept]
                misc += [f"{name}={cell.replace('|', '%7C')}"
                         for name, cell in zip(self._names, some, strict=True)]  # fmt: skip
                lines[at] = "\t".join([*row[:-1], "|".join(misc)])
                continue
            apart = "\t" if self._kind != "conll" or "\t" in lines[at] else " "
            if self._kept is not None:
                row = [row[i] for i in self._kept]
                lines[at] = "\t".join(row)
            before = row[0] if self._kind == "attributes" else lines[at].rstrip(" ")
            lines[at] = apart.join([before, *some])
        return "\n".join(lines) + "\n\n"

    def _columns(self, every: bool) -> list[str]:
        """Return the names of the columns in TSV, or those of the best label sequence."""
        names = []
        for i in range((self._n_best or 1) if every else 1):
            end = f"_{i + 1}" if i else ""
            names.append(f"predicted{end}")
            if self._marginals != "none":
                names.append(f"probability{end}")
        if self._marginals == "all":
            names += [f"p({label})" for label in self._labels]
        return names

    def _misc(self) -> list[str]:
        """Return the names of the entries in CoNLL-U's MISC."""
        names = []
        for i in range(self._n_best or 1):
            end = str(i + 1) if i else ""
            names.append(f"Predicted{end}")
            if self._marginals != "none":
                names.append(f"Probability{end}")
        if self._marginals == "all":
            names += [f"P({label})".replace("|", "%7C") for label in self._labels]
        return names

    def _json(self, block: Block, answer: Answer) -> str:
        if block.record is not None:
            stale = _STALE_KEYS if "predicted" in block.record else ()
            record: dict[str, Any] = {k: v for k, v in block.record.items() if k not in stale}
        else:
            record = {"words": self.words(block)}
        record["predicted"] = answer.tags
        if answer.best is not None:
            with_p = self._marginals != "none"
            record["n_best"] = [
                {"labels": tags, "probability": p} if with_p else {"labels": tags}
                for tags, p in answer.best
            ]
        elif answer.sure is not None:
            record["probability"] = answer.sure
            if answer.table is not None:
                rows = answer.table.tolist()
                record["marginals"] = [dict(zip(self._labels, row, strict=True)) for row in rows]
        return json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n"


def _kept(names: Sequence[str], written: Sequence[str]) -> list[int]:
    """Return which columns or entries stay: not what is written anew, nor what an earlier run did.

    Without a label of an earlier run, a name such as ``probability`` is the user's own.

    Examples
    --------
    >>> _kept(["word", "predicted", "p(A)", "note"], ["predicted"])
    [0, 3]
    >>> _kept(["word", "p(A)", "probability"], ["predicted", "probability"])
    [0, 1]
    """
    again = written[0] in names
    new = set(written)
    return [
        i
        for i, name in enumerate(names)
        if name not in new and not (again and _STALE.fullmatch(name))
    ]
