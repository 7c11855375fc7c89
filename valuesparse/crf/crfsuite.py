"""python-crfsuite's module: ``import valuesparse.crf.crfsuite as pycrfsuite``.

Same classes, methods, results and kinds of errors. Additions: all marginals of a sequence in
one array, marginals of pairs, batches on all cores, constraints, n-best, islands of certainty,
pickling, and taggers that threads may share.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np

from valuesparse._crf import ItemSequence
from valuesparse._forest import LARGEST
from valuesparse._validation import as_count, as_zeta
from valuesparse.crf._constraints import Allowed
from valuesparse.crf._current import Floats, Sequence
from valuesparse.crf._dump import ParsedDump, dump_lines, parse
from valuesparse.crf._errors import CRFSuiteError
from valuesparse.crf._opening import Opening
from valuesparse.crf.training._parameters import whole_number
from valuesparse.crf.training.trainer import BaseTrainer, Trainer
from valuesparse.io._files import replacing

__all__ = [
    "CRFSUITE_VERSION",
    "BaseTrainer",
    "CRFSuiteError",
    "ItemSequence",
    "ParsedDump",
    "Tagger",
    "Trainer",
]

CRFSUITE_VERSION = "0.12.2"
"""The version of CRFsuite whose files and answers these are."""

_LARGEST = LARGEST["float64"]


class Tagger(Opening):
    """Tags sequences with a model: `pycrfsuite.Tagger`, and more.

    Parameters
    ----------
    constraints : {"BIO", "BIOES", "IOB1"}, optional
        Every answer is that of the model under this tagging scheme: no sequence begins with "I-PER"
        or has "O" before it. See :func:`valuesparse.crf.constraints`.
    forbidden : iterable of pairs (from, to), optional
        Labels that may not follow each other; ``(None, label)``: a sequence may not begin with it,
        ``(label, None)``: nor end.
    max_labels : int, optional
        The most labels that a model file may have: its transitions take 8 bytes for each pair. By
        default 1,024, or more where the file is large.

    Notes
    -----
    *Threads.* Any number of threads may share a tagger. The current sequence, which `set`, `tag`,
    `marginals` and `pairwise` leave behind for calls without `xseq`, is each thread's own: a thread
    sees what it has set itself, never what another did, and before that an empty sequence. `open`
    and `close` concern all threads; they drop every current sequence.

    *Items.* What is an item is told by :class:`ItemSequence`. Attributes that the model does not
    know count nothing.

    *Pickling* keeps the model and no current sequence.

    Examples
    --------
    >>> from valuesparse.io.crfsuite import CrfsuiteModel
    >>> tagger = Tagger.from_model(CrfsuiteModel(
    ...     labels=["noun", "verb"],
    ...     attributes=["time", "flies"],
    ...     transition=[[0.0, 1.0], [0.0, 0.0]],
    ...     state_weights=[[2.0, 0.0], [0.5, 0.0]],
    ... ))
    >>> tagger.tag([["time"], ["flies"]])
    ['noun', 'verb']
    >>> tagger.marginals().round(3)
    array([[0.924, 0.076],
           [0.396, 0.604]])
    >>> tagger.probability(["noun", "verb"])
    0.575
    >>> tagger.tag(n_best=2, allowed=[None, "noun"])
    [['noun', 'noun'], ['verb', 'noun']]
    """

    def set(self, xseq: ItemSequence | Iterable[Any], *, allowed: Allowed | None = None) -> None:
        """Make a sequence the current one of this thread.

        Parameters
        ----------
        xseq : iterable of n items, or ItemSequence
            See :class:`ItemSequence`.
        allowed : (n, K) array of bool or sequence of n entries, optional
            Which labels each item may take; an entry is None (any), a label, or several. All
            answers about this sequence are then those of the model under these constraints.

        Raises
        ------
        TypeError
            An item, a name or a value is of a wrong type.
        ValueError
            The tagger is not opened, a value is not finite, or `allowed` does not fit.
        """
        opened = self._require()
        sequence = Sequence(opened, opened.scorer.unary(xseq, True, True, _LARGEST)[0])
        self._current.sequence = sequence if allowed is None else sequence.under(allowed)

    def tag(
        self,
        xseq: ItemSequence | Iterable[Any] | None = None,
        *,
        n_best: int | None = None,
        allowed: Allowed | None = None,
    ) -> list[Any]:
        """Return the most probable labels of a sequence.

        Parameters
        ----------
        xseq : iterable of n items, or ItemSequence, optional
            It becomes the current sequence; by default the current one is taken.
        n_best : int, optional
            How many label sequences to return, best first.
        allowed : (n, K) array of bool or sequence of n entries, optional
            Which labels each item may take, as in :meth:`set`, instead of those before.

        Returns
        -------
        list of str
            One label for each item; with `n_best` a list of such lists, shorter than `n_best` when
            there are no more.

        Raises
        ------
        InfeasibleError
            No labels are allowed: a `ValueError` that names the item.
        TypeError, ValueError
            As in :meth:`set`.
        """
        if xseq is not None and n_best is None and allowed is None:
            opened = self._require()
            # One call, and one release of the GIL, from items to labels.
            unary, tags = opened.scorer.tag(xseq, opened.labels)
            self._current.sequence = Sequence(opened, unary)
            return tags
        k = 1 if n_best is None else as_count("n_best", n_best, at_least=1)
        best = self._sequence(xseq, allowed).best(k)
        return best[0] if n_best is None else best

    def probability(self, yseq: Iterable[str]) -> float:
        """Return the probability of labels for the current sequence.

        Parameters
        ----------
        yseq : iterable of n str
            The labels.

        Returns
        -------
        float
            0.0 for an empty sequence, as CRFsuite has it.

        Raises
        ------
        RuntimeError
            A label is not the model's.
        ValueError
            There are more or fewer labels than items, or the tagger is not opened.
        """
        sequence = self._sequence(None, None)
        n = len(sequence)
        if n == 0:
            return 0.0
        names = list(yseq)
        if len(names) != n:
            raise ValueError(
                f"The numbers of items and labels differ: |x| = {n}, |y| = {len(names)}"
            )
        return sequence.probability(np.array([sequence.opened.number(name) for name in names]))

    def marginal(self, y: str, pos: int) -> float:
        """Return the probability of one label at one item of the current sequence.

        Parameters
        ----------
        y : str
            The label.
        pos : int
            The item, counted from 0.

        Returns
        -------
        float
            0.0 for an empty sequence, as CRFsuite has it.

        Raises
        ------
        RuntimeError
            The label is not the model's.
        ValueError
            There is no such item, or the tagger is not opened.

        See Also
        --------
        marginals : all of them at once.
        """
        sequence = self._current.sequence
        if sequence is None or sequence.opened is not self._opened:
            sequence = self._sequence(None, None)
        n = len(sequence)
        if n == 0:
            return 0.0
        i = pos if type(pos) is int else whole_number("pos", pos)
        if not 0 <= i < n:
            raise ValueError(f"The position, {i}, is out of range of {n}")
        k = sequence.opened.numbers.get(y) if type(y) is str else None
        return sequence.marginal(i, sequence.opened.number(y) if k is None else k)

    def marginals(
        self,
        xseq: ItemSequence | Iterable[Any] | None = None,
        *,
        zeta: float = 1.0,
        allowed: Allowed | None = None,
    ) -> Floats:
        """Return the probability of every label at every item.

        Parameters
        ----------
        xseq, allowed : optional
            As in :meth:`tag`.
        zeta : float, default 1.0
            Below 1 variables that are sure become islands (SMM11): faster and approximate. See
            :func:`valuesparse.infer`.

        Returns
        -------
        (n, K) float64
            Columns in the order of :meth:`labels`.

        Raises
        ------
        InfeasibleError
            No labels are allowed: a `ValueError` that names the item.
        TypeError, ValueError
            As in :meth:`set`; for `zeta` outside [0, 1].
        """
        zeta = as_zeta(zeta)
        if xseq is not None and zeta == 1.0 and allowed is None:
            opened = self._require()
            unary, marginals, log_z = opened.scorer.marginals(xseq)
            self._current.sequence = Sequence(opened, unary, log_z=log_z)
            return marginals
        return self._sequence(xseq, allowed).infer(zeta)

    def pairwise(
        self, xseq: ItemSequence | Iterable[Any] | None = None, *, allowed: Allowed | None = None
    ) -> Floats:
        """Return the probability of every pair of labels at neighbouring items.

        Parameters
        ----------
        xseq, allowed : optional
            As in :meth:`tag`.

        Returns
        -------
        (n - 1, K, K) float64
            ``[i, a, b]``: label a at item i and label b at item i + 1.
        """
        return self._sequence(xseq, allowed).pairwise()

    def tag_batch(
        self,
        xseqs: Iterable[ItemSequence | Iterable[Any]],
        *,
        allowed: Iterable[Allowed | None] | None = None,
        threads: int | None = None,
    ) -> list[list[str]]:
        """Return the most probable labels of many sequences; no current sequence changes.

        Parameters
        ----------
        xseqs : iterable of B sequences
            Each as in :meth:`set`, of any length.
        allowed : iterable of B entries, optional
            For each sequence what :meth:`set` takes, or None.
        threads : int, optional
            At least 1; by default :func:`valuesparse.get_num_threads`. Results do not depend on it.

        Returns
        -------
        list of B lists of str

        Raises
        ------
        InfeasibleError, TypeError, ValueError
            As in :meth:`tag`; the message names the sequence too.
        """
        opened = self._require()
        ask = partial(opened.scorer.tag_batch, labels=opened.labels)
        return opened.ask_many(ask, xseqs, allowed, threads)

    def marginals_batch(
        self,
        xseqs: Iterable[ItemSequence | Iterable[Any]],
        *,
        zeta: float = 1.0,
        allowed: Iterable[Allowed | None] | None = None,
        threads: int | None = None,
    ) -> list[Floats]:
        """Return the marginals of many sequences; no current sequence changes.

        Parameters
        ----------
        xseqs, allowed, threads
            As in :meth:`tag_batch`.
        zeta : float, default 1.0
            As in :meth:`marginals`.

        Returns
        -------
        list of B arrays (n, K) float64
            Neighbours share memory: copy the few that you want to keep of very many.
        """
        opened = self._require()
        ask = partial(opened.scorer.marginals_batch, zeta=as_zeta(zeta))
        return opened.ask_many(ask, xseqs, allowed, threads)

    def dump(self, filename: str | bytes | os.PathLike[str] | None = None) -> None:
        """Write the model as text, as CRFsuite does, weights with six decimals.

        Parameters
        ----------
        filename : str, bytes or os.PathLike, optional
            Where to; by default standard output, for which this method is called.

        Raises
        ------
        RuntimeError
            The tagger is closed.
        OSError
            The file cannot be written; one that is there stays as it was.
        """
        opened = self._require(RuntimeError("Tagger is closed"))
        lines = dump_lines(opened.model, opened.header)
        if filename is None:
            sys.stdout.writelines(lines)
            return
        with replacing(os.fsdecode(filename)) as file:
            file.writelines(line.encode() for line in lines)

    def info(self) -> ParsedDump:
        """Return names and weights of the model, weights with the six decimals of a dump.

        Raises
        ------
        RuntimeError
            The tagger is closed.

        See Also
        --------
        Tagger.model : arrays, with all digits.
        """
        opened = self._require(RuntimeError("Tagger is closed"))
        return parse(opened.model, opened.header)

    def _sequence(
        self, xseq: ItemSequence | Iterable[Any] | None, allowed: Allowed | None
    ) -> Sequence:
        """Return the current sequence, which `xseq` or `allowed` replaces if given."""
        if xseq is not None:
            self.set(xseq, allowed=allowed)
        opened = self._require()
        sequence = self._current.sequence
        if sequence is None or sequence.opened is not opened:
            sequence = Sequence(opened, np.empty((0, len(opened.labels))))
        if xseq is None and allowed is not None:
            sequence = self._current.sequence = sequence.under(allowed)
        return sequence
