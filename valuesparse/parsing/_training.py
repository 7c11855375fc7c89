"""Training: a pruner, the scores of parts, and labels."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from valuesparse import _parser as _native
from valuesparse._validation import as_count, as_flag, require_progress
from valuesparse.io._files import is_path
from valuesparse.learning import Aggressive, Online
from valuesparse.learning._checkpoint import Checkpoint, as_target
from valuesparse.parsing._dictionary import as_features, as_min_count
from valuesparse.parsing._encoding import as_ignored, encode, heads_of, projective_and_single
from valuesparse.parsing._examples import (
    BITS,
    CONSTRAINTS,
    Arcs,
    Examples,
    as_bits,
    as_constraint,
    as_order,
    require_nonprojective,
)
from valuesparse.parsing._files import read_conll
from valuesparse.parsing._model import ParserModel, require_labels, rounded
from valuesparse.parsing._parser import Parser
from valuesparse.parsing._sentences import Sentence
from valuesparse.threads import resolve

__all__ = ["Progress", "train"]

Weights = npt.NDArray[np.float32]
Done = TypeVar("Done")

_EPOCHS, _BATCH = 6, 8
_ARC_EPOCHS = 3  # before pairs are learned
_AVERAGE_AFTER = 1  # the weights of the first pass are far from those of the last
# A cost makes the pruner's distribution sharper: fewer arcs are left of as many right ones.
_PRUNER_EPOCHS, _PRUNER_BITS, _PRUNER_RULE = 2, 12, Aggressive(1.0, 1.0)
_LABEL_EPOCHS, _LABEL_BITS = 4, 12
_TOLD = 3  # files that an error names


class Progress(NamedTuple):
    """How far training has come: after each pass, and within those over many parts.

    Attributes
    ----------
    stage : {"pruner", "labels", "arcs", "parts"}
        The part of the parser that learns. Labels are learned beside the pruner and arcs, on a
        thread of their own where there are several, and told after these.
    epoch, epochs : int
        The pass, from 1, and how many there will be.
    loss : float
        Loss of a word: the share of wrong labels, or L_{β,γ}. Within a pass it is estimated from
        the sentences so far.
    cut_short : int
        With parts of non-projective arcs: sentences of the pass so far whose linear program was
        ended before its optimum was found; see :attr:`Examples.cut_short`.
    share : float
        How much of the pass is over; 1 after it.
    """

    stage: str
    epoch: int
    epochs: int
    loss: float
    cut_short: int = 0
    share: float = 1.0

    def __str__(self) -> str:
        """Return what a status line shows."""
        within = f" ({self.share:.0%})" if self.share < 1.0 else ""
        text = f"{self.stage}, pass {self.epoch} of {self.epochs}{within}, "
        text += f"loss {self.loss:.4f} a word"
        return text + (f", {self.cut_short} programs cut short" if self.cut_short else "")


def train(
    treebank: Any,
    order: int = 2,
    constraint: str | None = None,
    single_root: bool | None = None,
    beta: float = 1.0,
    gamma: float = 3.0,
    epochs: int = _EPOCHS,
    seed: int = 0,
    ignore: Iterable[str] = (),
    checkpoint: str | bytes | os.PathLike[str] | None = None,
    threads: int | None = None,
    progress: Callable[[Progress], object] | None = None,
    prune: bool = True,
    batch: int = _BATCH,
    bits: int = BITS,
    features: str = "hashed",
    min_count: int = 1,
    nonprojective: bool = False,
) -> Parser:
    """Train a parser on a treebank.

    An arc-factored CRF of few features is trained first, the pruner; then the scores of parts, over
    the arcs that it leaves, by Algorithm 1 of MSFXM10 with averaged weights; and a linear
    classifier of labels. The mean leaves out the first of several passes. The same sentences and
    arguments give the same bits for any number of threads.

    Parameters
    ----------
    treebank : path, or iterable of paths or of Sentence
        CoNLL-U or CoNLL-X files, or sentences, each with its tree.
    order : {1, 2}
        1: the score of a tree is that of its arcs; 2: of pairs of arcs, too.
    constraint : {"tree", "projective"}, optional
        The kind of trees; by default projective where below 0.5 % of the arcs are not.
    single_root : bool, optional
        Whether exactly one word is attached to the root; by default where that is so in every
        sentence.
    beta, gamma : float
        The loss: see :func:`valuesparse.learning.loss_and_gradient`. (1, 0) is that of CRFs,
        (inf, 1) that of structured SVMs, of order 2 by linear programs (parser #2), which take up
        to four times as long as beliefs. Among the losses between both
        the default parses best (MSFXM10, Table 3, found the same).
    epochs : int
        Passes over the sentences.
    seed : int
        Random seed of the order of the sentences.
    ignore : iterable of str
        Columns to make no features of: LEMMA, UPOS, XPOS, FEATS.
    checkpoint : path, optional
        The state after each pass goes there, and training goes on from it where it is there. With
        more `epochs` than before the parser is that of so many from the start.
    threads : int, optional
        None: every core this process may use; for parts at most `batch` are of use.
    progress : callable, optional
        Called with a :class:`Progress` after each pass.
    prune : bool
        Whether there is a pruner: at most 10 heads of a word are looked at, none with less than
        1e-4 of the best one's probability. Without one the parser is trained on all arcs.
    batch : int
        Sentences whose gradients are taken at the same weights; 1 is Algorithm 1 of MSFXM10.
    bits : int
        The largest templates of features have 2**bits lines of 16 weights; 4 to 20.
    features : {"hashed", "supported", "complete"}
        Whether the features of parts are hashed, or named by a dictionary of those that occur in
        the trees of the treebank, or in any part that is looked at (MSFXM10, section 5:
        "unsupported features"). A parser keeps those that got a weight, and how often each was met.
    min_count : int
        A dictionary leaves out what was met less often; see :class:`Examples`.
    nonprojective : bool
        Whether an arc has features for being non-projective: some word between its ends does not
        descend from its head (the paths of MSFXM10's parser #2). For `order=2` and
        `beta=inf`; trees are of any kind then, and the parser parses by "lp" or "ad3". Training
        takes 20 to 30 times as long, an hour for a treebank. A sentence
        whose linear program takes too long is learned from as far as it was solved, which
        `progress` counts (`cut_short`).

    Returns
    -------
    Parser

    Raises
    ------
    ValueError
        An argument is wrong, there is no sentence, or one has no tree; or the checkpoint is of
        other data or arguments, damaged, or has more passes than `epochs`.
    vs.io.TextFormatError
        A `ValueError` with file and line: the file is damaged.
    vs.io.ModelFormatError
        A `ValueError` with the file: its gzip data are damaged, or grow too much.
    OSError
        A file cannot be read or written.

    Examples
    --------
    >>> import valuesparse as vs
    >>> s = vs.parsing.Sentence(
    ...     ["Dogs", "bark"], upos=["NOUN", "VERB"], heads=[2, 0], labels=["nsubj", "root"])
    >>> parser = vs.parsing.train([s], order=1, epochs=2, bits=6)
    >>> (parsed,) = parser.parse([vs.parsing.Sentence(["Cats", "bark"], upos=["NOUN", "VERB"])])
    >>> parsed.heads.tolist(), parsed.labels
    ([2, 0], ['nsubj', 'root'])
    """
    order, bits = as_order(order), as_bits(bits)
    as_count("epochs", epochs, at_least=1)
    as_count("batch", batch, at_least=1)
    as_count("seed", seed, at_least=0)
    prune, nonprojective = as_flag("prune", prune), as_flag("nonprojective", nonprojective)
    rule = Aggressive(beta, gamma)
    as_min_count(min_count, as_features(features) != "hashed")
    left_out = as_ignored(ignore)
    require_progress(progress)
    if checkpoint is not None:
        as_target(checkpoint)
    if constraint is not None:
        as_constraint(constraint)
    sentences = _read(treebank)
    require_labels(sentences)
    if nonprojective:
        constraint = "tree" if constraint is None else constraint
        require_nonprojective(nonprojective, order, constraint, beta)
    if constraint is None or single_root is None:
        offset = encode(sentences).offset
        projective, single = projective_and_single(heads_of(sentences), offset)
        constraint = CONSTRAINTS[projective] if constraint is None else constraint
        single_root = single if single_root is None else single_root
    single_root = as_flag("single_root", single_root)
    tell = progress or (lambda _: None)
    given: dict[str, Any] = {
        "constraint": constraint, "single_root": single_root, "ignore": left_out,
        "threads": threads,
    }  # fmt: skip
    pruner, arcs = None, None
    with _beside(threads, partial(_train_labels, sentences, left_out, seed)) as learnt:
        if prune:
            pruner, arcs = _train_pruner(sentences, given, seed, tell)
        examples = Examples(
            sentences, order, bits=bits, arcs=arcs, features=features, min_count=min_count,
            nonprojective=nonprojective, **given,
        )  # fmt: skip
        words, cut_short = sum(map(len, sentences)), 0

        def within(epoch: int, share: float, loss: float) -> None:
            nonlocal cut_short
            cut_short += examples.cut_short
            mean = loss * len(sentences) / words
            tell(Progress("parts", epoch, epochs, mean, cut_short, share))

        learner = Online(
            examples, rule, epochs=epochs, seed=seed, batch=batch,
            average_after=_AVERAGE_AFTER, progress=within if progress else None,
        )  # fmt: skip
        if order > 1:
            known = "hashed" if examples.dictionary is None else examples.dictionary.of_arcs()
            own = {**given, "bits": bits, "arcs": arcs, "features": known}
            first = _train_arcs(sentences, rule, own, seed, batch, tell)
            learner.weights[: len(first)] = first
            learner.touched[: len(first)] = first != 0.0
        labels, labeller, passes = learnt()
    for done in passes:
        tell(done)
    kept = None
    if checkpoint is not None:
        parts = (
            order, constraint, single_root, left_out, bits, batch, beta, gamma, seed, prune,
            features, min_count, nonprojective, _AVERAGE_AFTER, *(() if arcs is None else arcs),
            *examples.arrays,
        )  # fmt: skip
        kept = Checkpoint(checkpoint, 1, parts)
        kept.resume(learner)
        if learner.done > epochs:
            raise ValueError(
                f"{kept.path} has {learner.done} passes, epochs is {epochs}: ask for "
                f"{learner.done} or more, or name another file"
            )
    for epoch in learner:
        _require_finite(learner, rule)
        if kept is not None:
            kept.offer(epoch.number, learner)
        cut_short += examples.cut_short
        tell(Progress("parts", epoch.number, epochs, epoch.loss / words, cut_short))
        cut_short = 0
    count, dictionary = resolve(threads), examples.dictionary
    weights = rounded(learner.result(count), count)
    if dictionary is not None:  # a weight of 0 says nothing
        dictionary, weights = dictionary.used(weights), weights[weights != 0.0]
    return Parser(
        ParserModel(
            order=order, bits=bits, pruner_bits=_PRUNER_BITS, label_bits=_LABEL_BITS,
            constraint=constraint, single_root=single_root, ignore=left_out, labels=labels,
            weights=weights, pruner=pruner, labeller=labeller, features=features,
            dictionary=dictionary, nonprojective=nonprojective,
        )
    )  # fmt: skip


def _read(treebank: Any) -> list[Sentence]:
    """Return the sentences of files, or those given, that have words; ValueError without any."""
    found: list[Sentence] = []
    files: list[str] = []
    one = is_path(treebank) or not isinstance(treebank, Iterable)
    for source in [treebank] if one else treebank:
        if isinstance(source, Sentence):
            found.append(source)
        elif is_path(source):
            files.append(str(source))
            found.extend(read_conll(source, check="training"))
        else:
            raise TypeError(
                f"treebank must be paths or Sentence records, not {type(source).__name__}"
            )
    sentences = [sentence for sentence in found if len(sentence)]
    if not sentences:
        where = ", ".join([*files[:_TOLD], *(["..."] if files[_TOLD:] else [])])
        raise ValueError(f"{where}{': ' if where else ''}treebank has no sentence to learn from")
    return sentences


@contextmanager
def _beside(threads: int | None, work: Callable[[], Done]) -> Iterator[Callable[[], Done]]:
    """Do some work on a thread of its own, where there are several, until it is asked for."""
    if resolve(threads) < 2:
        done = work()
        yield lambda: done
        return
    with ThreadPoolExecutor(1) as helper:
        yield helper.submit(work).result


def _train_pruner(
    sentences: Sequence[Sentence],
    given: dict[str, Any],
    seed: int,
    tell: Callable[[Progress], object],
) -> tuple[Weights, Arcs]:
    """Return the weights of a pruner and the arcs of the sentences that it leaves."""
    examples = Examples(sentences, 0, bits=_PRUNER_BITS, **given)
    learner = Online(examples, _PRUNER_RULE, epochs=_PRUNER_EPOCHS, seed=seed, batch=_BATCH)
    words = sum(map(len, sentences))
    for epoch in learner:
        tell(Progress("pruner", epoch.number, _PRUNER_EPOCHS, epoch.loss / words))
    count = resolve(given["threads"])
    weights = rounded(learner.result(count), count)
    return weights, examples.prune(weights)


def _train_arcs(
    sentences: Sequence[Sentence],
    rule: Aggressive,
    given: dict[str, Any],
    seed: int,
    batch: int,
    tell: Callable[[Progress], object],
) -> npt.NDArray[np.float64]:
    """Return the weights of an arc-factored model, from which those of pairs start.

    From nothing pairs learn what arcs should, and Bethe's losses hide it: it cost Dutch a point.
    """
    examples = Examples(sentences, 1, **given)
    learner = Online(examples, rule, epochs=_ARC_EPOCHS, seed=seed, batch=batch)
    words = sum(map(len, sentences))
    for epoch in learner:
        _require_finite(learner, rule)
        tell(Progress("arcs", epoch.number, _ARC_EPOCHS, epoch.loss / words))
    return learner.result(resolve(given["threads"]))


def _require_finite(learner: Online, rule: Aggressive) -> None:
    """Raise ValueError where a loss of large numbers has led to weights that are none."""
    if not np.isfinite(learner.weights).all():
        raise ValueError(
            f"beta={rule.beta:g} and gamma={rule.gamma:g} lead to weights that are not finite: "
            "take a smaller gamma, and a beta nearer to 1, or inf"
        )


def _train_labels(
    sentences: Sequence[Sentence], ignore: tuple[str, ...], seed: int
) -> tuple[tuple[str, ...], Weights, list[Progress]]:
    """Return labels, the weights of their classifier, an averaged perceptron, and its passes."""
    names = tuple(sorted({label for sentence in sentences for label in sentence.labels}))
    numbers = {name: k for k, name in enumerate(names)}
    words, offset = encode(sentences, ignore)
    heads = heads_of(sentences)
    gold = np.array([numbers[label] for s in sentences for label in s.labels], np.int32)
    size = _native.weights_of_labels(len(names), _LABEL_BITS)
    weights, late = np.zeros(size), np.zeros(size)
    random = np.random.default_rng(seed)
    time = 0
    passes: list[Progress] = []
    for epoch in range(1, _LABEL_EPOCHS + 1):
        order = random.permutation(len(sentences))
        wrong = _native.learn_labels(
            len(names), _LABEL_BITS, words, offset, heads, gold, order, weights, late, time
        )
        time += len(gold)
        passes.append(Progress("labels", epoch, _LABEL_EPOCHS, wrong / len(gold)))
    return names, rounded(weights - late / time), passes
