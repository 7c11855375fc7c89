"""sklearn-crfsuite's estimator: ``from valuesparse.crf import CRF``.

Same parameters, methods and attributes as ``sklearn_crfsuite.CRF``. Additions: all cores,
arrays of marginals, constraints, n-best through ``tagger_``, and models that live in memory:
nothing is written to temporary files, and a pickle holds the model itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from valuesparse._crf import ItemSequence
from valuesparse.crf._fileresource import FileResource
from valuesparse.crf._fitting import append, as_dicts, train, trainer_of
from valuesparse.crf.crfsuite import ParsedDump, Tagger
from valuesparse.io._files import check_target, naming, read_file, write_bytes

if TYPE_CHECKING:
    from typing_extensions import Self

    from valuesparse.crf._constraints import Allowed
    from valuesparse.crf._schemes import Forbidden

__all__ = ["CRF"]

Objects: TypeAlias = npt.NDArray[np.object_]

# Labels at most of a model that was made here; a file's are limited by its size.
_ANY = 2**31 - 1


class CRF(BaseEstimator):
    """A linear-chain CRF with the surface of ``sklearn_crfsuite.CRF``, on every core.

    Parameters that are None have the algorithm's own default; see :class:`valuesparse.crf.Trainer`.

    Parameters
    ----------
    algorithm : {'lbfgs', 'l2sgd', 'ap', 'pa', 'arow', 'aggressive'}, optional
        How to train, by default L-BFGS.
    min_freq : float, optional
        Features less frequent than this are left out.
    all_possible_states, all_possible_transitions : bool, optional
        Whether to pair every attribute, or every label, with every label, seen together or not.
    c1, c2 : float, optional
        Weights of the L1 norm (lbfgs) and of the squared L2 norm (lbfgs, l2sgd, aggressive).
    max_iterations : int, optional
        Iterations, or passes over the data, at most.
    num_memories, linesearch, max_linesearch : int, str, int, optional
        For L-BFGS.
    epsilon, period, delta : float, int, float, optional
        When to stop.
    calibration_eta, calibration_rate, calibration_samples, calibration_candidates, \
calibration_max_trials : optional
        How l2sgd finds its learning rate.
    pa_type, c, error_sensitive, averaging : int, float, bool, bool, optional
        For passive aggressive.
    variance, gamma : float, optional
        For AROW; gamma also for aggressive.
    verbose : bool
        Whether to print a line for each iteration.
    model_filename : str or path, optional
        A CRFsuite model to use; `fit` writes its model there.
    keep_tempfiles : bool
        Whether a file that ``modelfile.name`` made outlives the estimator. Nothing else makes one.
    trainer_cls : type, optional
        A class to train with in place of the package's: a subclass of its Trainer or of
        ``pycrfsuite.Trainer``.
    beta, unsupported : float, bool, optional
        For the algorithm ``aggressive`` (MSFXM10).
    threads : int, optional
        At least 1; by default :func:`valuesparse.get_num_threads`. Results do not depend on it.
    random_state : int, RandomState or None
        Seed of the order in which online algorithms take the data; see sklearn's glossary.
    tol : float, optional
        How far marginals may be off in training, as in :class:`valuesparse.crf.Trainer`.
    constraints, forbidden : optional
        A tagging scheme ("BIO", "BIOES" or "IOB1") and a list of pairs of labels that may not
        follow each other: see :class:`valuesparse.crf.Trainer`. For training and all answers.
    max_labels : int, optional
        How many labels the file `model_filename` may have, as in :class:`valuesparse.crf.Tagger`.

    Attributes
    ----------
    classes_ : list of str
        The labels, in the order of all columns.
    tagger_ : Tagger
        The tagger that answers.
    training_log_ : TrainLogParser or None
        The log of the last `fit`, as numbers.
    state_features_ : dict
        ``{(attribute, label): weight}``
    transition_features_ : dict
        ``{(label, next label): weight}``
    attributes_ : list of str
        The attributes that the model knows.
    num_attributes_, size_ : int
        How many those are, and the model's size in bytes.

    Notes
    -----
    Before `fit`, and without `model_filename`, attributes are None, as in sklearn-crfsuite, and
    predicting raises ``NotFittedError``.

    Examples
    --------
    >>> X = [[["w=the"], ["w=cat"]], [["w=a"], ["w=dog"], ["w=ran"]]]
    >>> y = [["DET", "NOUN"], ["DET", "NOUN", "VERB"]]
    >>> crf = CRF(c2=0.1).fit(X, y)
    >>> crf.predict([[["w=the"], ["w=dog"]]]).tolist()
    [['DET', 'NOUN']]
    >>> crf.predict_proba([[["w=the"], ["w=dog"]]])[0].shape, crf.classes_
    ((2, 3), ['DET', 'NOUN', 'VERB'])
    """

    # Parameters that are read here; `__init__` sets them all.
    algorithm: str | None
    verbose: bool
    model_filename: str | os.PathLike[str] | None
    keep_tempfiles: bool
    trainer_cls: Callable[..., Any] | None
    threads: int | None
    random_state: int | np.random.RandomState | None
    tol: float | None
    constraints: str | None
    forbidden: Forbidden | None
    max_labels: int | None = None  # pickles of before have none

    # Class attributes, because __init__ of an estimator sets its parameters only.
    training_log_: Any = None
    _model: bytes | None = None
    _tagger: Tagger | None = None
    _told = ""  # the constraints of `_tagger`
    _parsed: ParsedDump | None = None
    _file: FileResource | None = None

    def __init__(
        self,
        algorithm: str | None = None,
        min_freq: float | None = None,
        all_possible_states: bool | None = None,
        all_possible_transitions: bool | None = None,
        c1: float | None = None,
        c2: float | None = None,
        max_iterations: int | None = None,
        num_memories: int | None = None,
        epsilon: float | None = None,
        period: int | None = None,
        delta: float | None = None,
        linesearch: str | None = None,
        max_linesearch: int | None = None,
        calibration_eta: float | None = None,
        calibration_rate: float | None = None,
        calibration_samples: float | None = None,
        calibration_candidates: int | None = None,
        calibration_max_trials: int | None = None,
        pa_type: int | None = None,
        c: float | None = None,
        error_sensitive: bool | None = None,
        averaging: bool | None = None,
        variance: float | None = None,
        gamma: float | None = None,
        verbose: bool = False,
        model_filename: str | os.PathLike[str] | None = None,
        keep_tempfiles: bool = False,
        trainer_cls: Callable[..., Any] | None = None,
        *,
        beta: float | None = None,
        unsupported: bool | None = None,
        threads: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
        tol: float | None = None,
        constraints: str | None = None,
        forbidden: Forbidden | None = None,
        max_labels: int | None = None,
    ) -> None:
        for name, value in dict(locals()).items():  # a subclass may have others of its own
            if name != "self":
                setattr(self, name, value)

    def fit(
        self,
        X: Iterable[ItemSequence | Iterable[Any]],
        y: Iterable[Iterable[str]] | None = None,
        X_dev: Iterable[ItemSequence | Iterable[Any]] | None = None,
        y_dev: Iterable[Iterable[str]] | None = None,
        *,
        allowed: Iterable[Iterable[Any]] | None = None,
        callback: Callable[[Any], object] | None = None,
        checkpoint: str | bytes | os.PathLike[str] | None = None,
        checkpoint_every: int = 10,
    ) -> Self:
        """Train a model.

        Parameters
        ----------
        X : iterable of B sequences
            Each an iterable of items, or an ``ItemSequence``; see
            :class:`valuesparse.crf.crfsuite.ItemSequence`.
        y : iterable of B sequences of str
            The label of each item.
        X_dev, y_dev : iterables, optional
            Sequences that are labelled after each iteration, for ``training_log_``.
        allowed : iterable of B sequences, in place of `y`
            The labels as far as they are known: for each item None, a label, or several, of
            which it is one.
        callback, checkpoint, checkpoint_every : optional
            As in :meth:`valuesparse.crf.Trainer.train`.

        Returns
        -------
        CRF
            This estimator.

        Raises
        ------
        TypeError, ValueError
            As by :meth:`valuesparse.crf.Trainer.append`, naming the sequence; for a parameter that
            the algorithm does not have. The model of an earlier `fit` is kept then.
        OSError
            `model_filename` cannot be written; most such failures are found before training.
        """
        if y is not None and allowed is not None:
            raise ValueError("give y or allowed, not both")
        if y is None and allowed is None:
            raise ValueError("requires y to be passed, but the target y is None")
        if (X_dev is None) != (y_dev is None):
            raise ValueError("Pass both X_dev and y_dev to use the holdout data")
        if self.model_filename is not None:
            check_target(self.model_filename)  # refused before the work, not after it
        trainer = trainer_of(self)
        name, known = ("y", y) if allowed is None else ("allowed", allowed)
        if not append(trainer, "X", X, name, known if known is not None else ()):
            raise ValueError("X has no item to learn from")
        if X_dev is not None and y_dev is not None:
            append(trainer, "X_dev", X_dev, "y_dev", y_dev, 1)
        given = {"callback": callback, "checkpoint": checkpoint}
        asked = any(x is not None for x in given.values())
        more = {**given, "checkpoint_every": checkpoint_every} if asked else {}
        model = train(trainer, -1 if X_dev is None else 1, more)
        tagger = self._tagger_of(model, _ANY)
        if self.model_filename is not None:
            write_bytes(self.model_filename, model)
        self._model, self._tagger, self._parsed, self._file = model, tagger, None, None
        self.training_log_ = trainer.logparser
        return self

    def predict(self, X: Iterable[ItemSequence | Iterable[Any]], *, allowed: Any = None) -> Objects:
        """Return the most probable labels of each sequence.

        Parameters
        ----------
        X : iterable of B sequences
            As in :meth:`fit`.
        allowed : iterable of B entries, optional
            Labels that items may take, as in :meth:`Tagger.tag_batch`.

        Returns
        -------
        (B,) ndarray of lists of str
            (B, n) of str where all sequences have n items, as in sklearn-crfsuite.
        """
        tags = self._fitted().tag_batch(X, allowed=allowed, threads=self.threads)
        return np.array(tags, dtype=object)

    def predict_single(
        self, xseq: ItemSequence | Iterable[Any], *, allowed: Allowed | None = None
    ) -> list[str]:
        """Return the most probable labels of one sequence.

        Parameters
        ----------
        xseq, allowed
            As in :meth:`Tagger.tag`.
        """
        return self._fitted().tag(xseq, allowed=allowed)

    def predict_marginals(
        self,
        X: Iterable[ItemSequence | Iterable[Any]],
        *,
        zeta: float = 1.0,
        allowed: Any = None,
    ) -> Objects:
        """Return the probability of every label at every item, as dicts.

        Parameters
        ----------
        X : iterable of B sequences
            As in :meth:`fit`.
        zeta : float, default 1.0
            As in :meth:`Tagger.marginals_batch`.
        allowed : iterable of B entries, optional
            As there.

        Returns
        -------
        (B,) ndarray of lists of dicts from str to float
            (B, n) of dicts where all sequences have n items, as in sklearn-crfsuite.

        See Also
        --------
        predict_proba : arrays, many times faster.
        """
        labels = self._fitted().labels()
        arrays = self.predict_proba(X, zeta=zeta, allowed=allowed)
        return np.array([as_dicts(labels, array) for array in arrays], dtype=object)

    def predict_marginals_single(
        self,
        xseq: ItemSequence | Iterable[Any],
        *,
        zeta: float = 1.0,
        allowed: Allowed | None = None,
    ) -> list[dict[str, float]]:
        """Return the probability of every label at every item of one sequence, as dicts.

        Parameters
        ----------
        xseq, zeta, allowed
            As in :meth:`Tagger.marginals`.
        """
        tagger = self._fitted()
        return as_dicts(tagger.labels(), tagger.marginals(xseq, zeta=zeta, allowed=allowed))

    def predict_proba(
        self,
        X: Iterable[ItemSequence | Iterable[Any]],
        *,
        zeta: float = 1.0,
        allowed: Any = None,
    ) -> list[npt.NDArray[np.float64]]:
        """Return the probability of every label at every item, as arrays.

        Parameters
        ----------
        X, zeta, allowed
            As in :meth:`predict_marginals`.

        Returns
        -------
        list of B arrays (n, K) float64
            Columns in the order of ``classes_``.
        """
        return self._fitted().marginals_batch(X, zeta=zeta, allowed=allowed, threads=self.threads)

    def score(self, X: Iterable[ItemSequence | Iterable[Any]], y: Iterable[Iterable[str]]) -> float:
        """Return the share of items whose label is predicted.

        Parameters
        ----------
        X, y
            Sequences and their right labels, as in :meth:`fit`.

        Raises
        ------
        ValueError
            `y` does not fit `X`, or there is no item.
        """
        from valuesparse.crf.metrics import flat_accuracy_score

        predicted = self._fitted().tag_batch(X, threads=self.threads)
        return flat_accuracy_score(map(list, y), predicted)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file that CRFsuite, python-crfsuite and :class:`Tagger` open.

        Parameters
        ----------
        path : str or path
            It appears when it is complete.
        """
        self._fitted()
        assert self._model is not None
        write_bytes(path, self._model)

    @property
    def tagger_(self) -> Tagger | None:
        """The tagger that answers; None before there is a model."""
        if self._tagger is None or self._told != repr((self.constraints, self.forbidden)):
            source = self.model_filename if self._model is None else self._model
            if isinstance(source, bytes) or (source is not None and os.path.exists(source)):
                model = source if isinstance(source, bytes) else read_file(source)
                with naming(source):
                    tagger = self._tagger_of(
                        model, self.max_labels if source is not model else _ANY
                    )
                self._model, self._tagger = model, tagger  # not before: the file may be damaged
        return self._tagger

    @property
    def modelfile(self) -> FileResource:
        """A resource whose ``name`` is the path of the model's file, which it makes when asked."""
        if self._file is None or self.tagger_ is None:
            self._file = FileResource(
                self.model_filename, self.keep_tempfiles, ".crfsuite", "model",
                contents=None if self.tagger_ is None else self._model,
            )  # fmt: skip
        return self._file

    @property
    def classes_(self) -> list[str] | None:
        """The labels."""
        tagger = self.tagger_
        return None if tagger is None else tagger.labels()

    @property
    def size_(self) -> int | None:
        """Size of the model in bytes."""
        return None if self._info is None else int(self._info.header["size"])

    @property
    def num_attributes_(self) -> int | None:
        """Number of attributes that the model knows."""
        return None if self._info is None else int(self._info.header["num_attrs"])

    @property
    def attributes_(self) -> list[str] | None:
        """The attributes that the model knows."""
        tagger = self.tagger_
        return None if tagger is None else list(tagger.model.attributes)

    @property
    def state_features_(self) -> dict[tuple[str, str], float] | None:
        """Weights of pairs of an attribute and a label."""
        return None if self._info is None else self._info.state_features

    @property
    def transition_features_(self) -> dict[tuple[str, str], float] | None:
        """Weights of pairs of a label and the next."""
        return None if self._info is None else self._info.transitions

    @property
    def _info(self) -> ParsedDump | None:
        tagger = self.tagger_
        if self._parsed is None and tagger is not None:
            self._parsed = tagger.info()
        return self._parsed

    def _fitted(self) -> Tagger:
        tagger = self.tagger_
        if tagger is None:
            path = self.model_filename
            missing = "" if path is None else f"; {os.fspath(path)!r} does not exist"
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet: call fit, or give "
                f"model_filename the path of a CRFsuite model{missing}"
            )
        return tagger

    def _tagger_of(self, model: bytes, most: int | None) -> Tagger:
        tagger = Tagger(constraints=self.constraints, forbidden=self.forbidden, max_labels=most)
        tagger.open_inmemory(model)
        self._told = repr((self.constraints, self.forbidden))  # lists may change in place
        return tagger

    def __sklearn_is_fitted__(self) -> bool:
        return self.tagger_ is not None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.dict = True
        tags.target_tags.required = True
        tags.target_tags.two_d_labels = True
        tags.no_validation = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        for name in ("_tagger", "_parsed", "_file"):  # made anew from _model
            state.pop(name, None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        file = (state := dict(state)).pop("modelfile", None)
        if file is not None:  # sklearn-crfsuite's: see valuesparse.crf.install
            state.pop("_tagger", None)
            state.pop("_info_cached", None)
            # Parameters that its version does not have get their defaults.
            state = {**CRF().get_params(), **state}
            if state["model_filename"] is None:
                state["_model"] = file.read()
        super().__setstate__(state)
