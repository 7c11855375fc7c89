"""A trained parser."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice

from valuesparse import _parser as _native
from valuesparse._validation import as_count, as_threshold
from valuesparse.parsing._encoding import encode
from valuesparse.parsing._examples import as_constraint
from valuesparse.parsing._model import ParserModel, read_model, write_model
from valuesparse.parsing._sentences import Sentence
from valuesparse.threads import resolve

__all__ = ["METHODS", "Parser", "load"]

#: How trees are found.
METHODS = ("auto", "exact", "bp", "relaxed")

# Sentences that are parsed in one call, and the words after which no more are added.
_SENTENCES, _WORDS = 4096, 20_000


class Parser:
    """A parser as :func:`train` makes it and :func:`load` reads it; immutable.

    Parameters
    ----------
    model : ParserModel
        Its weights.

    Attributes
    ----------
    order : int
        1: the score of a tree is that of its arcs; 2: of pairs of arcs, too.
    constraint : {"tree", "projective"}
        What trees have to be unless `parse` is told otherwise.
    single_root : bool
        Whether one word alone hangs on the root, unless `parse` is told otherwise.
    labels : tuple of str
        The labels of arcs that it knows.
    ignore : tuple of str
        Columns that it does not look at.
    """

    def __init__(self, model: ParserModel) -> None:
        self.model = model
        self.order, self.constraint = model.order, model.constraint
        self.single_root, self.labels, self.ignore = model.single_root, model.labels, model.ignore
        self._predictor = _native.Predictor(
            model.order, model.bits, model.weights, model.pruner_bits, model.pruner,
            len(model.labels), model.label_bits, model.labeller,
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"Parser(order={self.order}, {len(self.labels)} labels, {self.constraint!r})"

    def __reduce__(self) -> tuple[type[Parser], tuple[ParserModel]]:
        return Parser, (self.model,)

    def parse(
        self,
        sentences: Iterable[Sentence],
        method: str = "auto",
        threshold: float = 1e-4,
        max_rounds: int | None = 1,
        constraint: str | None = None,
        single_root: bool | None = None,
        prune: bool = True,
        threads: int | None = None,
    ) -> Iterator[Sentence]:
        """Parse sentences, some thousands of words at a time.

        The tree of a sentence has the greatest sum of marginals, which is the least expected number
        of wrong heads.

        Parameters
        ----------
        sentences : iterable of Sentence
            Their heads and labels are not looked at.
        method : {"auto", "exact", "bp", "relaxed"}
            "exact" has the marginals of an arc-factored model, of order 1. "bp" has beliefs of at
            most 10 iterations of belief propagation with a tree factor. "relaxed" begins with the
            marginals of arcs alone and adds the pairs of arcs that change something (RS10,
            Algorithm 1). Of order 1 all are exact, and the same; "auto" is "relaxed".
        threshold : float
            The least gain for which relaxed parsing adds a pair of arcs.
        max_rounds : int or None
            How often it does so at most.
        constraint : {"tree", "projective"}, optional
            What trees have to be; by default what they are in the training data.
        single_root : bool, optional
            Whether one word alone hangs on the root; likewise.
        prune : bool
            Whether only heads are looked at that the pruner thinks possible: at most 10 of a word,
            none with less than 1e-4 of the best one's probability.
        threads : int, optional
            Sentences are spread over so many; None: every core this process may use.

        Yields
        ------
        Sentence
            Each with heads, labels and `confidence`, the marginals of its arcs.

        Raises
        ------
        ValueError
            An argument is wrong.
        TypeError
            Something that is no Sentence.
        """
        if method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(METHODS)}, not {method!r}")
        if method == "exact" and self.order > 1:
            raise ValueError("method 'exact' wants a parser of order 1; this one has order 2")
        as_threshold("threshold", threshold)
        if max_rounds is not None:
            as_count("max_rounds", max_rounds, at_least=0)
        projective = as_constraint(constraint or self.constraint) == "projective"
        single = self.single_root if single_root is None else bool(single_root)
        if prune and self.model.pruner is None:
            prune = False
        relaxed = self.order > 1 and method in ("auto", "relaxed")
        options = (
            relaxed, float(threshold), -1 if max_rounds is None else max_rounds, bool(prune),
            projective, single, resolve(threads),
        )  # fmt: skip
        return self._parse(iter(sentences), options)

    def _parse(
        self,
        rest: Iterator[Sentence],
        options: tuple[bool, float, int, bool, bool, bool, int],
    ) -> Iterator[Sentence]:
        while batch := _batch(rest):
            words, offset = encode(batch, self.ignore)
            heads, labels, confidence, _ = self._predictor.predict(words, offset, *options)
            names = [self.labels[k] for k in labels.tolist()]
            for i, sentence in enumerate(batch):
                own = slice(int(offset[i]), int(offset[i + 1]))
                yield sentence.parsed(heads[own], names[own], confidence[own])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the parser to a file, in one piece.

        Raises
        ------
        OSError
            The file cannot be written.
        """
        write_model(path, self.model)


def _batch(rest: Iterator[Sentence]) -> list[Sentence]:
    """Return the next sentences, of some thousands of words."""
    batch: list[Sentence] = []
    words = 0
    for sentence in islice(rest, _SENTENCES):
        if not isinstance(sentence, Sentence):
            raise TypeError(f"sentences must be Sentence records, not {type(sentence).__name__}")
        batch.append(sentence)
        words += len(sentence)
        if words >= _WORDS:
            break
    return batch


def load(path: str | os.PathLike[str]) -> Parser:
    """Read a parser that :meth:`Parser.save` wrote.

    Nothing in the file is run: models of unknown origin are safe to open.

    Raises
    ------
    vs.io.ModelFormatError
        A `ValueError`: the file is no model of a parser, damaged, or of another version.
    OSError
        The file cannot be read.
    """
    return Parser(read_model(path))
