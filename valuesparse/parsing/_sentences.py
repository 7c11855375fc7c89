"""Sentences as treebanks have them, a column a list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse._validation import as_choice, as_reals

__all__ = [
    "COLUMNS",
    "FORMATS",
    "PROBABILITY",
    "Sentence",
    "error_of",
    "iterated",
    "require_sentence",
    "require_unchanged",
    "tree_problem",
    "without_probability",
]

#: The names of formats.
FORMATS = ("conllu", "conllx")
#: The columns of text beside ID and HEAD, by their fields, in the order of files.
COLUMNS = ("forms", "lemmas", "upos", "xpos", "feats", "labels", "deps", "misc")
#: Begins the entry of MISC that holds a confidence.
PROBABILITY = "HeadProbability="


@dataclass(frozen=True, eq=False, slots=True)
class Sentence:
    """A sentence of n words, each column of the file a list of n str.

    Word i, from 1, has the ID i; its cells are at place i - 1. ``_`` stands for what is missing,
    as in files. Columns that are not given hold nothing else. Cells may be changed in place; a
    column that has come to differ in length is refused where the sentence is used.

    Attributes
    ----------
    forms : list of str
        FORM, never empty.
    lemmas, upos, xpos, feats : list of str
        LEMMA, UPOS, XPOS, FEATS; in CoNLL-X LEMMA, CPOSTAG, POSTAG, FEATS.
    heads : (n,) int64 ndarray
        HEAD, 0 for the root, -1 where there is none.
    labels : list of str
        DEPREL.
    deps, misc : list of str
        DEPS and MISC; in CoNLL-X PHEAD and PDEPREL.
    confidence : (n,) float64 ndarray or None
        The probability that a parser gives each head; of "lp" and "ad3" the value of its arc in
        the solution of the linear program. `write_conll` puts it into MISC.
    others : sequence of (int, str)
        The lines that are no words, each after how many words: comments, ranges such as ``3-4``,
        empty nodes such as ``8.1``.
    format : {"conllu", "conllx"}
        The meaning of the last two columns.

    Raises
    ------
    ValueError
        Columns differ in length, an empty form, a head below -1, or another format.
    TypeError
        Heads that are no whole numbers, or a column that is no sequence of str.

    Examples
    --------
    >>> import valuesparse as vs
    >>> s = vs.parsing.Sentence(["Dogs", "bark"], upos=["NOUN", "VERB"], heads=[2, 0])
    >>> len(s), s.lemmas, s.heads.tolist()
    (2, ['_', '_'], [2, 0])
    """

    forms: list[str]
    lemmas: list[str] = field(default_factory=list)
    upos: list[str] = field(default_factory=list)
    xpos: list[str] = field(default_factory=list)
    feats: list[str] = field(default_factory=list)
    heads: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    labels: list[str] = field(default_factory=list)
    deps: list[str] = field(default_factory=list)
    misc: list[str] = field(default_factory=list)
    confidence: npt.NDArray[np.float64] | None = None
    others: Sequence[tuple[int, str]] = ()
    format: str = "conllu"

    def __post_init__(self) -> None:
        for name in COLUMNS:
            if type(getattr(self, name)) is not list:
                object.__setattr__(self, name, _as_column(name, getattr(self, name)))
        n = len(self.forms)
        for name in COLUMNS:
            column = getattr(self, name)
            if not column and n:
                object.__setattr__(self, name, ["_"] * n)
            elif len(column) != n:
                raise ValueError(f"{name} has {len(column)} entries, forms has {n}")
        if "" in self.forms:
            raise ValueError(f"forms[{self.forms.index('')}] is empty; write _ for what is missing")
        as_choice("format", self.format, FORMATS, "not")
        heads = np.asarray(self.heads)
        if not heads.size:
            heads = np.full(n, -1)
        if heads.dtype.kind not in "iu":
            raise TypeError(f"heads must be whole numbers, not {heads.dtype}")
        heads = heads.astype(np.int64, copy=False)
        _require_length("heads", heads, n)
        _require_heads(heads)
        object.__setattr__(self, "heads", heads)
        if self.confidence is not None:
            confidence = as_reals("confidence", self.confidence).astype(np.float64, copy=False)
            _require_length("confidence", confidence, n)
            object.__setattr__(self, "confidence", confidence)

    def __len__(self) -> int:
        return len(self.forms)

    @property
    def comments(self) -> list[str]:
        """The comments, ``#`` and all."""
        return [line for _, line in self.others if line.startswith("#")]

    def parsed(
        self,
        heads: npt.ArrayLike,
        labels: Sequence[str],
        confidence: npt.ArrayLike | None = None,
    ) -> Sentence:
        """Return this sentence with another tree; columns that tell of the old one hold ``_``.

        Parameters
        ----------
        heads : (n,) array of int
            The head of each word, 0 for the root.
        labels : sequence of n str
            The label of each arc.
        confidence : (n,) array of float, optional
            The probability of each head.

        Raises
        ------
        ValueError, TypeError
            As of the class.

        Examples
        --------
        >>> import valuesparse as vs
        >>> s = vs.parsing.Sentence(["Dogs", "bark"], deps=["2:nsubj", "0:root"])
        >>> s = s.parsed([2, 0], ["nsubj", "root"], confidence=[0.9, 1.0])
        >>> s.deps, s.labels
        (['_', '_'], ['nsubj', 'root'])
        """
        changed: dict[str, Any] = {
            "heads": heads, "labels": list(labels), "deps": [], "confidence": confidence,
            "misc": self._misc_without_probability(),
        }  # fmt: skip
        return replace(self, **changed)

    def _with_tree(
        self,
        heads: npt.NDArray[np.int64],
        labels: list[str],
        confidence: npt.NDArray[np.float64],
    ) -> Sentence:
        """Do as `parsed` with the answers of an engine, which nobody has to check."""
        missing = ["_"] * len(labels)
        misc = self._misc_without_probability() or missing.copy()
        new = object.__new__(Sentence)
        for setter, value in zip(_SET_UNCHANGED, _get_unchanged(self), strict=True):
            setter(new, value)
        tree = heads, labels, confidence, missing, misc
        for setter, value in zip(_SET_TREE, tree, strict=True):
            setter(new, value)
        return new

    def _misc_without_probability(self) -> list[str]:
        if self.format == "conllx":
            return []
        if PROBABILITY not in "\t".join(self.misc):
            return self.misc
        return [without_probability(entry) for entry in self.misc]


# The fields that tell of a tree, and the others. A setter of a slot is faster than `object`'s.
_TREE = ("heads", "labels", "confidence", "deps", "misc")
_UNCHANGED = ("forms", "lemmas", "upos", "xpos", "feats", "others", "format")
_get_unchanged = attrgetter(*_UNCHANGED)
_SET_TREE = [getattr(Sentence, name).__set__ for name in _TREE]
_SET_UNCHANGED = [getattr(Sentence, name).__set__ for name in _UNCHANGED]


def _as_column(name: str, column: Any) -> list[str]:
    """Return the cells of another sequence than a list; str itself would be one of letters."""
    if isinstance(column, (str, bytes)) or not isinstance(column, (Sequence, np.ndarray)):
        raise TypeError(f"{name} must be a list of str, not {type(column).__name__}")
    if isinstance(column, np.ndarray) and column.ndim != 1:
        raise TypeError(f"{name} must be a list of str, not an array of shape {column.shape}")
    # Those of an array are of a type of their own.
    return [str(cell) if isinstance(cell, str) else cell for cell in column]


def require_sentence(sentence: object, number: int, name: str = "sentences") -> None:
    """Refuse what is no sentence; the message names its `number`."""
    if not isinstance(sentence, Sentence):
        raise TypeError(f"{name}[{number}] must be a Sentence, not {type(sentence).__name__}")


def iterated(sentences: Any, name: str = "sentences") -> Iterator[Any]:
    """Return an iterator; TypeError where there is but one sentence, or none to iterate over."""
    try:
        return iter(sentences)
    except TypeError:
        hint = "; put it into a list" if isinstance(sentences, Sentence) else ""
        raise TypeError(
            f"{name} must be an iterable of Sentence, not {type(sentences).__name__}{hint}"
        ) from None


def error_of(sentence: Sentence, number: int, error: Exception) -> Exception:
    """Return the error of the first cell that is no str or not UTF-8; else `error`, by number."""
    for name in COLUMNS:
        for i, cell in enumerate(getattr(sentence, name)):
            if not isinstance(cell, str):
                text = f"must be a str, not {type(cell).__name__}"
                return TypeError(f"sentences[{number}].{name}[{i}] {text}")
            try:
                cell.encode()
            except UnicodeEncodeError:
                return ValueError(
                    f"sentences[{number}].{name}[{i}] is {cell!r}: UTF-8 has no bytes for it"
                )
    return ValueError(f"sentences[{number}]: {error}")


def _require_length(name: str, array: npt.NDArray[Any], n: int) -> None:
    if array.shape != (n,):
        raise ValueError(f"{name} must have the shape ({n},), not {array.shape}")


def _require_heads(heads: npt.NDArray[np.int64]) -> None:
    if heads.size and heads.min() < -1:
        raise ValueError(f"heads[{int(heads.argmin())}] is {heads.min()}; -1 stands for none")


def require_unchanged(sentence: Sentence) -> None:
    """Refuse columns that, since they were checked, have got another length or a head below -1."""
    n = len(sentence.forms)
    for name in (*COLUMNS, "heads"):
        count = len(getattr(sentence, name))
        if count != n:
            raise ValueError(f"{name} has {count} entries, forms has {n}")
    _require_heads(sentence.heads)


def tree_problem(heads: Sequence[int]) -> tuple[int, str] | None:
    """Return the first word, from 0, whose head keeps `heads` from being a tree, and the problem.

    Examples
    --------
    >>> tree_problem([2, 0]), tree_problem([2, 1])
    (None, (0, 'HEADs go round in a circle: 1, 2'))
    """
    n = len(heads)
    for i, head in enumerate(heads):
        if head == -1:
            return i, "no HEAD, which training needs"
        if head > n:
            return i, f"HEAD {head} is beyond the last word, {n}"
    seen = [0] * (n + 1)  # in the walk from which word a word was met first
    for i in range(1, n + 1):
        word = i
        while word and not seen[word]:
            seen[word] = i
            word = heads[word - 1]
        if word and seen[word] == i:
            cycle = [word]
            while heads[cycle[-1] - 1] != word:
                cycle.append(heads[cycle[-1] - 1])
            least = min(cycle)
            way = [least]
            while len(way) < min(len(cycle), 8):
                way.append(heads[way[-1] - 1])
            more = ", ..." if len(cycle) > len(way) else ""
            return least - 1, f"HEADs go round in a circle: {', '.join(map(str, way))}{more}"
    return None


def without_probability(misc: str) -> str:
    """Return a cell of MISC without the confidence of an earlier parse.

    Examples
    --------
    >>> without_probability("SpaceAfter=No|HeadProbability=0.970000")
    'SpaceAfter=No'
    """
    if PROBABILITY not in misc:
        return misc
    kept = [entry for entry in misc.split("|") if not entry.startswith(PROBABILITY)]
    return "|".join(kept) or "_"
