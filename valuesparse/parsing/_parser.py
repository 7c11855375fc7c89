"""A trained parser."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from inspect import signature
from itertools import islice
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from valuesparse import _parser as _native
from valuesparse._validation import (
    LARGEST_COUNT,
    as_choice,
    as_count,
    as_flag,
    as_threshold,
    is_choice,
)
from valuesparse.inference import decode
from valuesparse.inference._methods import AD3, BP
from valuesparse.models import FactorGraph
from valuesparse.parsing._encoding import encode
from valuesparse.parsing._examples import as_constraint
from valuesparse.parsing._graph import parts_graph
from valuesparse.parsing._model import ParserModel, checked, read_model, write_model
from valuesparse.parsing._parses import Parses, ParseTally
from valuesparse.parsing._sentences import Sentence, iterated, require_sentence
from valuesparse.threads import resolve

__all__ = ["METHODS", "Parser", "load", "require_used"]

#: How trees are found.
METHODS = ("auto", "exact", "bp", "relaxed", "lp", "ad3")

Array = npt.NDArray[Any]

# Sentences that are parsed in one call, and the words after which no more are added.
_SENTENCES, _WORDS = 4096, 20_000
# Which pairs take part, as the engine takes it: all, those with a gain above a threshold, those
# that leave a sum of gains to the others, the largest gains.
_EVERY, _ABOVE, _WITHIN, _LARGEST = range(4)
# When messages have converged.
_TOLERANCE = 1e-4
# Arguments that say which pairs are chosen, and how messages are sent.
_OBJECTIVES = ("min_size", "min_divergence", "min_joint")
_MESSAGES = ("max_iterations", "damping")


def require_used(method: str, given: Iterable[str], called: Callable[[str], str] = str) -> None:
    """Refuse arguments of `Parser.parse` that have no use together; `called`: their names.

    Raises
    ------
    ValueError
        A method has no use for one, or one takes the place of another.
    """
    given = list(given)
    for name in given:
        if method in ("auto", "relaxed") or (method == "bp" and name in _MESSAGES):
            continue
        by = "methods 'relaxed' and 'bp' use" if name in _MESSAGES else "method 'relaxed' uses"
        raise ValueError(f"{called(name)}: method {method!r} makes no use of it, {by} it")
    objectives = [name for name in _OBJECTIVES if name in given]
    if "threshold" in given and objectives:
        raise ValueError(
            f"{called(objectives[0])} takes the place of {called('threshold')}: give one of them"
        )
    if len(objectives) > 1:
        raise ValueError(f"one of {' and '.join(map(called, objectives))} can be given, not both")
    if objectives and "max_rounds" in given:
        raise ValueError(
            f"{called(objectives[0])} chooses pairs once, an objective is for one round: leave "
            f"{called('max_rounds')} out"
        )


class _Trees(NamedTuple):
    """The kind of trees, as the engine takes it."""

    projective: bool
    single_root: bool


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
        The kind of trees, unless `parse` is told otherwise.
    single_root : bool
        Whether exactly one word is attached to the root, unless `parse` is told otherwise.
    labels : tuple of str
        The labels of arcs that it knows.
    ignore : tuple of str
        Columns that it does not look at.
    features : {"hashed", "supported", "complete"}
        How it knows its features; see :func:`train`.
    nonprojective : bool
        Whether arcs have features for being non-projective. Such a parser is a linear program: it
        parses by "ad3" or "lp", trees of any kind.
    n_weights : int
        How many weights parts have: with a dictionary the number of features.

    Raises
    ------
    TypeError, ValueError
        A field of the model is wrong, has not the size that the others ask for, or holds a weight
        that no file can; the error names it. Weights of other numbers than float32 are converted.
    """

    def __init__(self, model: ParserModel) -> None:
        model = self.model = checked(model)
        self.order, self.constraint = model.order, model.constraint
        self.single_root, self.labels, self.ignore = model.single_root, model.labels, model.ignore
        self.features, self.n_weights = model.features, len(model.weights)
        self.nonprojective = model.nonprojective
        self._predictor = _native.Predictor(
            model.sets, model.bits, model.weights, model.pruner_bits, model.pruner,
            len(model.labels), model.label_bits, model.labeller,
            model.dictionary and model.dictionary.native,
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
        max_iterations: int = 10,
        damping: float = 0.0,
        min_size: float | None = None,
        min_divergence: int | None = None,
        min_joint: float | None = None,
    ) -> Parses:
        """Parse sentences, some thousands of words at a time.

        The tree of a sentence has the greatest sum of marginals, which is the least expected number
        of wrong heads.

        Parameters
        ----------
        sentences : iterable of Sentence
            Their heads and labels are not looked at.
        method : {"auto", "exact", "bp", "relaxed", "lp", "ad3"}
            "exact" has the marginals of an arc-factored model, of order 1. "bp" has beliefs of
            belief propagation with a tree factor (parser #1 of MSFXM10). "relaxed" begins with the
            marginals of arcs alone and adds the pairs of arcs that change something (RS10,
            Algorithm 1). These three are exact, and the same, with order 1. "auto" is "relaxed", or
            "ad3" for a parser with features of non-projective arcs.
            "lp" and "ad3" solve the linear program of :meth:`graph` (parser #2): "ad3" by dual
            decomposition with the defaults of `vs.AD3`, "lp" by HiGHS, slowly and on one thread.
            The point of the program takes the place of marginals; where it is no tree, the tree is
            the best one that rounding finds.
        threshold : float
            The least gain for which "relaxed" adds a pair of arcs.
        max_rounds : int or None
            How often it does so at most; None: until there is nothing to add.
        constraint : {"tree", "projective"}, optional
            The kind of trees; by default that of the training data.
        single_root : bool, optional
            Whether exactly one word is attached to the root; likewise.
        prune : bool
            Whether only heads are looked at that the pruner thinks possible: at most 10 of a word,
            none with less than 1e-4 of the best one's probability.
        threads : int, optional
            Sentences are spread over so many; None: every core this process may use.
        max_iterations : int
            Limit of belief propagation, which ends earlier where no message changes by 1e-4.
        damping : float
            In [0, 1): the share of the old message that a new one keeps. Like `max_iterations`,
            for "bp" and "relaxed". Another value than the default of `threshold`, `max_rounds` or
            these two is refused by a method that makes no use of it.
        min_size, min_divergence, min_joint : optional
            One of them, in place of `threshold`: "relaxed" chooses pairs once, as
            :func:`valuesparse.select` does (RSM10, Algorithm 1), of each sentence by itself. A pair
            without any gain is never added.

        Returns
        -------
        Parses
            An iterator over the sentences, each with heads, labels and `confidence`, the marginals
            of its arcs; `summary` tells how many pairs of arcs took part, and what converged.

        Raises
        ------
        ValueError
            An argument is wrong.
        TypeError
            Something that is no Sentence, or a cell that is no str; a Sentence in place of many.

        Notes
        -----
        No pair of arcs with a gain above `threshold` is missed, although few are looked at.
        A pair is left out unscored where its gain cannot exceed the threshold by bounds on its
        potential, which follow from the weights, and on its probability, that of its rarer arc.
        So few are looked at with `min_joint` and `min_divergence`; `min_size` wants the sum of
        what is left out, and looks at more.

        Examples
        --------
        >>> import valuesparse as vs
        >>> s = vs.parsing.Sentence(
        ...     ["Dogs", "bark"], upos=["NOUN", "VERB"], heads=[2, 0], labels=["nsubj", "root"])
        >>> parser = vs.parsing.train([s], order=2, epochs=2, bits=6, prune=False)
        >>> parses = parser.parse([s], "relaxed", min_divergence=1)
        >>> [found.heads.tolist() for found in parses], parses.summary.used
        ([[2, 0]], 1)
        """
        as_choice("method", method, METHODS, "not")
        if method == "exact" and self.order > 1:
            raise ValueError("method 'exact' wants a parser of order 1; this one has order 2")
        if self.nonprojective:
            if method not in ("auto", "ad3", "lp"):
                raise ValueError(
                    f"method {method!r} has no paths, on which this parser has features of "
                    "non-projective arcs: take 'ad3' or 'lp'"
                )
            method = "ad3" if method == "auto" else method
        relaxed = method in ("auto", "relaxed")
        objectives = {
            "min_size": min_size, "min_divergence": min_divergence, "min_joint": min_joint
        }  # fmt: skip
        effort_asked = {
            "threshold": threshold, "max_rounds": max_rounds,
            "max_iterations": max_iterations, "damping": damping,
        }  # fmt: skip
        threshold = as_threshold("threshold", threshold)
        if max_rounds is not None:
            as_count("max_rounds", max_rounds, at_least=0, at_most=LARGEST_COUNT)
        effort = BP(max_iterations=max_iterations, damping=damping, tolerance=_TOLERANCE)
        chosen = [name for name, value in objectives.items() if value is not None]
        chosen += [name for name, value in effort_asked.items() if value != _DEFAULTS[name]]
        require_used(method, chosen)
        choice, amount = _choice(threshold, objectives)
        if not relaxed:
            choice = _EVERY
        trees = self._trees(constraint, single_root)
        prune = as_flag("prune", prune) and self.model.pruner is not None
        tally, count, rest = ParseTally(), resolve(threads), iterated(sentences)
        if method == "lp":
            return Parses(self._solve(rest, trees, prune, tally), tally)
        rounds = -1 if max_rounds is None else max_rounds
        how = (
            choice, amount, rounds, effort.max_iterations, effort.tolerance, effort.damping
        )  # fmt: skip
        parsed: Callable[..., Any] = partial(self._predictor.predict, how=how)
        if method == "ad3":
            program = AD3()
            parsed = partial(
                self._predictor.solve,
                tolerance=program.tolerance, max_iterations=program.max_iterations,
            )  # fmt: skip
        parsed = partial(parsed, prune=prune, trees=trees, threads=count)
        return Parses(self._parse(rest, parsed, tally), tally)

    def _trees(self, constraint: str | None, single_root: bool | None) -> _Trees:
        wanted = self.constraint if constraint is None else constraint
        projective = as_constraint(wanted) == "projective"
        if projective and self.nonprojective:
            raise ValueError("constraint must be 'tree': this parser scores non-projective arcs")
        return _Trees(projective, self._has_single_root(single_root))

    def _has_single_root(self, given: bool | None) -> bool:
        return self.single_root if given is None else as_flag("single_root", given)

    def _parse(
        self,
        rest: Iterator[Sentence],
        parsed: Callable[..., tuple[Array, Array, Array, Array]],
        tally: ParseTally,
    ) -> Iterator[Sentence]:
        done = 0
        while batch := _batch(rest, done):
            words, offset = encode(batch, self.ignore, done)
            done += len(batch)
            heads, labels, confidence, told = parsed(words, offset)
            tally.add(told)
            names = list(map(self.labels.__getitem__, labels.tolist()))
            heads, places = heads.astype(np.int64), offset.tolist()
            for sentence, first, last in zip(batch, places, places[1:], strict=False):
                yield sentence._with_tree(
                    heads[first:last], names[first:last], confidence[first:last]
                )

    def _solve(
        self, rest: Iterator[Sentence], trees: _Trees, prune: bool, tally: ParseTally
    ) -> Iterator[Sentence]:
        """Solve the linear program of one sentence after the other, by HiGHS."""
        constraint = "projective" if trees.projective else "tree"
        if self.nonprojective:
            constraint = "flow"
        for i, sentence in enumerate(rest):
            require_sentence(sentence, i)
            heads, confidence = np.zeros(len(sentence), np.int32), np.zeros(len(sentence))
            kinds, made = self._graph(sentence, constraint, trees.single_root, prune, i)
            found = decode(made, method="lp")
            assert found.relaxed is not None
            arcs = range(int((kinds == 0).sum()))
            for a, (head, modifier) in zip(arcs, made.names, strict=False):
                if found.states[a]:
                    heads[modifier - 1], confidence[modifier - 1] = head, found.relaxed[a][1]
            pairs = int(((kinds == 1) | (kinds == 2)).sum())
            tally.add_program(pairs, converged=found.converged, integral=bool(found.integral))
            words = encode([sentence], self.ignore, i).words
            labels = self._predictor.label(words, heads).tolist()
            yield sentence.parsed(heads, [self.labels[k] for k in labels], confidence)

    def graph(
        self,
        sentence: Sentence,
        constraint: Literal["tree", "projective", "flow"] | None = None,
        single_root: bool | None = None,
        prune: bool = True,
    ) -> FactorGraph:
        """Return the factor graph of a sentence: its arcs, trees, and of order 2 pairs of arcs.

        Parameters
        ----------
        sentence : Sentence
            Its heads and labels are not looked at.
        constraint : {"tree", "projective", "flow"}, optional
            As for :func:`graph <valuesparse.parsing.graph>`; by default what trees are in the
            training data. A parser with features of non-projective arcs has "flow" alone.
        single_root, prune : optional
            As for :meth:`parse`.

        Returns
        -------
        FactorGraph
            That of :func:`graph <valuesparse.parsing.graph>`: variables and factors are named and
            ordered as there.

        Raises
        ------
        ValueError
            Another constraint, or one without the paths that the parser has features on.
        TypeError
            Something that is no Sentence.

        Examples
        --------
        >>> import valuesparse as vs
        >>> s = vs.parsing.Sentence(
        ...     ["Dogs", "bark"], upos=["NOUN", "VERB"], heads=[2, 0], labels=["nsubj", "root"])
        >>> parser = vs.parsing.train([s], order=2, epochs=2, bits=6, prune=False)
        >>> graph = parser.graph(s)
        >>> graph.names
        ((0, 1), (2, 1), (0, 2), (1, 2))
        >>> vs.decode(graph, method="ad3").states.tolist()
        [0, 1, 1, 0]
        """
        if not isinstance(sentence, Sentence):
            raise TypeError(f"sentence must be a Sentence, not {type(sentence).__name__}")
        single = self._has_single_root(single_root)
        prune = as_flag("prune", prune) and self.model.pruner is not None
        usual = "flow" if self.nonprojective else self.constraint
        wanted = usual if constraint is None else constraint
        if self.nonprojective and not is_choice(wanted, ("flow",)):
            raise ValueError(
                f"constraint must be 'flow', not {constraint!r}: this parser scores non-projective "
                "arcs, which is about paths"
            )
        return self._graph(sentence, wanted, single, prune)[1]

    def _graph(
        self, sentence: Sentence, constraint: Any, single: bool, prune: bool, number: int = 0
    ) -> tuple[Array, FactorGraph]:
        """Return the kinds of a sentence's parts, and their graph; `number` is for errors."""
        n = len(sentence)
        words = encode([sentence], self.ignore, number).words
        trees = _Trees(is_choice(constraint, ("projective",)), single)
        kinds, nodes, potentials = self._predictor.parts(words, prune, trees)
        return kinds, parts_graph(n, kinds, nodes, potentials, constraint, single)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the parser to a file, in one piece.

        Raises
        ------
        OSError
            The file cannot be written.
        """
        write_model(path, self.model)


def _choice(threshold: float, objectives: dict[str, Any]) -> tuple[int, float]:
    """Return which pairs take part, as the engine takes it, and how much of that.

    Raises
    ------
    ValueError
        The objective is wrong.
    """
    given = [name for name, value in objectives.items() if value is not None]
    if not given:
        return _ABOVE, threshold
    (name,) = given
    value = objectives[name]
    if name == "min_divergence":
        return _LARGEST, float(as_count(name, value, at_least=0, at_most=LARGEST_COUNT))
    value = as_threshold(name, value)
    if name == "min_size":
        return _WITHIN, value
    # A gain of γ counts.
    return _ABOVE, max(0.0, float(np.nextafter(value, 0.0)))


def _batch(rest: Iterator[Sentence], number: int) -> list[Sentence]:
    """Return the next sentences, of some thousands of words; the first of them is `number`."""
    batch: list[Sentence] = []
    words = 0
    for sentence in islice(rest, _SENTENCES):
        require_sentence(sentence, number + len(batch))
        batch.append(sentence)
        words += len(sentence)
        if words >= _WORDS:
            break
    return batch


# The arguments' defaults.
_DEFAULTS = {name: p.default for name, p in signature(Parser.parse).parameters.items()}


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
