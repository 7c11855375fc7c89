"""The common part of hidden Markov models, whatever they emit."""

from __future__ import annotations

import copy
import logging
import string
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from valuesparse import _hmm
from valuesparse._validation import LARGEST_COUNT, as_count, is_choice, require_potentials
from valuesparse.hmm._estimator import Estimator, NotFittedError, as_random_state
from valuesparse.hmm._fitting import fit, normalised
from valuesparse.hmm._monitor import ConvergenceMonitor
from valuesparse.hmm._passes import Passes, Symbols
from valuesparse.hmm._sampling import Emitter, draw
from valuesparse.hmm._settings import Setting, as_doubles, as_rows, require_settings
from valuesparse.threads import resolve

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["BaseHMM"]

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_log = logging.getLogger(__name__)

#: How far from 1 probabilities may sum to; as in hmmlearn.
_ROUGHLY = 1e-5 + 1e-8


class BaseHMM(Estimator):
    """A hidden Markov model without emissions: what subclasses add to.

    A subclass of one's own defines ``_compute_log_likelihood(X)``, (N, K), and is ready to score,
    decode and predict; `fit` then learns ``startprob_`` and ``transmat_``.

    Parameters
    ----------
    n_components : int
        Number of states K.
    startprob_prior : float or array of shape (K,)
        Parameters of the Dirichlet prior of ``startprob_``.
    transmat_prior : float or array of shape (K, K)
        Those of each row of ``transmat_``.
    algorithm : {'viterbi', 'map'}
        The goal of `decode` and `predict`: the most probable sequence of states, or the most
        probable state of each row.
    random_state : int, RandomState or None
        Where random numbers come from; hmmlearn's models draw the same ones.
    n_iter : int
        Iterations at most.
    tol : float
        A fit ends when an iteration gains less log-likelihood.
    verbose : bool
        Whether a fit writes a line to standard error for each iteration.
    params, init_params : str
        The parameters that a fit changes, and those that it sets before: 's' for ``startprob_``,
        't' for ``transmat_``, and the letters of the emissions.
    implementation : {'log', 'scaling'}
        Accepted since hmmlearn has it: here one implementation has the speed of scaling and the
        range of logarithms.
    n_restarts : int, default 1
        A fit starts from so many initial values and keeps the best end; it fails where all do.
    threads : int, optional
        At least 1; by default :func:`valuesparse.get_num_threads`. Results do not depend on it.

    Attributes
    ----------
    startprob_ : ndarray of shape (K,)
        Probability of each first state.
    transmat_ : ndarray of shape (K, K)
        Probability of each next state, ``[from, to]``. A 0 stays 0 in a fit.
    monitor_ : ConvergenceMonitor
        The log-likelihoods of the last fit, and whether it converged.

    Examples
    --------
    >>> model = BaseHMM(2)
    >>> model.startprob_, model.transmat_ = [1.0, 0.0], [[0.9, 0.1], [0.0, 1.0]]
    >>> model.get_stationary_distribution().round(3).tolist()
    [0.0, 1.0]
    """

    #: The attribute that each letter of `params` stands for.
    _letters: ClassVar[dict[str, str]] = {"s": "startprob_", "t": "transmat_"}

    startprob_: Any
    transmat_: Any
    n_features: Any
    #: Where a restart draws from, in place of `random_state`.
    _restarted: np.random.RandomState | None = None

    def __init__(
        self,
        n_components: int = 1,
        startprob_prior: npt.ArrayLike = 1.0,
        transmat_prior: npt.ArrayLike = 1.0,
        algorithm: str = "viterbi",
        random_state: Any = None,
        n_iter: int = 10,
        tol: float = 1e-2,
        verbose: bool = False,
        params: str = string.ascii_letters,
        init_params: str = string.ascii_letters,
        implementation: str = "log",
        *,
        n_restarts: int = 1,
        threads: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.startprob_prior = startprob_prior
        self.transmat_prior = transmat_prior
        self.algorithm = algorithm
        self.random_state = random_state
        self.n_iter = n_iter
        self.tol = tol
        self.verbose = verbose
        self.params = params
        self.init_params = init_params
        self.implementation = implementation
        self.n_restarts = n_restarts
        self.threads = threads
        self.monitor_ = ConvergenceMonitor(tol, n_iter, verbose)

    # The interface of users.

    def fit(self, X: npt.ArrayLike, y: Any = None, lengths: Any = None) -> Self:
        """Estimate the parameters by Baum-Welch.

        Parameters
        ----------
        X : array_like of shape (N, n_features)
            Sequences, laid end to end.
        y : None
            Stands here for pipelines. A second argument by position is taken for `lengths`, as in
            hmmlearn.
        lengths : array_like of int, shape (B,), optional
            Rows of each sequence, at least 1 each; by default X is one.

        Returns
        -------
        object
            This model.

        Raises
        ------
        ValueError
            For what is wrong with X, `lengths` or a parameter, by name and index.
        InfeasibleError
            A sequence has probability 0 under the initial parameters.
        """
        fit(self, as_rows(X), _one(y, lengths))
        return self

    def score(self, X: npt.ArrayLike, y: Any = None, lengths: Any = None) -> float:
        """Return the log-likelihood of sequences.

        Parameters
        ----------
        X, y, lengths
            As in :meth:`fit`.

        Returns
        -------
        float
            The sum over the sequences; −inf where one is impossible.
        """
        data, passes = self._asked(X, _one(y, lengths))
        threads = resolve(self.threads)
        return passes.likelihood(
            self.startprob_, self.transmat_, threads,
            lambda scores: self._fill(data, scores, threads), self._symbols(data),
        )  # fmt: skip

    def score_samples(self, X: npt.ArrayLike, lengths: Any = None) -> tuple[float, Floats]:
        """Return the log-likelihood of sequences and the probabilities of the states.

        Parameters
        ----------
        X, lengths
            As in :meth:`fit`.

        Returns
        -------
        log_prob : float
            The sum over the sequences.
        posteriors : ndarray of float64, shape (N, K)
            The state of each row.

        Raises
        ------
        InfeasibleError
            A sequence is impossible: its states have no probabilities.
        """
        data, passes = self._asked(X, lengths)
        self._e_step(data, passes, resolve(self.threads), False)
        return float(passes.log_z.sum()), passes.posteriors

    def predict_proba(self, X: npt.ArrayLike, lengths: Any = None) -> Floats:
        """Return the probabilities of the states of each row, (N, K); see `score_samples`.

        Parameters
        ----------
        X, lengths
            As in :meth:`fit`.
        """
        return self.score_samples(X, lengths)[1]

    def decode(
        self, X: npt.ArrayLike, lengths: Any = None, algorithm: str | None = None
    ) -> tuple[float, Integers]:
        """Return the best states.

        Parameters
        ----------
        X, lengths
            As in :meth:`fit`.
        algorithm : {'viterbi', 'map'}, optional
            By default that of the model.

        Returns
        -------
        log_prob : float
            The log-probability of the states and X together; with 'map', as in hmmlearn, the sum of
            the probabilities of the states.
        states : ndarray of int64, shape (N,)
            A state for each row.

        Raises
        ------
        InfeasibleError
            A sequence is impossible.
        """
        wanted = self.algorithm if algorithm is None else algorithm
        if not is_choice(wanted, ("viterbi", "map")):
            raise ValueError(f"algorithm must be 'viterbi' or 'map', got {wanted!r}")
        if wanted == "map":
            _, posteriors = self.score_samples(X, lengths)
            return float(posteriors.max(axis=1).sum()), posteriors.argmax(axis=1)
        data, passes = self._asked(X, lengths)
        threads = resolve(self.threads)
        self._fill(data, passes.scores, threads)
        scores, states = passes.best(self.startprob_, self.transmat_, threads)
        return float(scores.sum()), states

    def predict(self, X: npt.ArrayLike, lengths: Any = None) -> Integers:
        """Return the best state of each row, (N,); see `decode`.

        Parameters
        ----------
        X, lengths
            As in :meth:`fit`.
        """
        return self.decode(X, lengths)[1]

    def sample(
        self, n_samples: int = 1, random_state: Any = None, currstate: int | None = None
    ) -> tuple[Array, Integers]:
        """Draw a sequence.

        Parameters
        ----------
        n_samples : int
            Its length.
        random_state : int, RandomState or None
            By default that of the model.
        currstate : int, optional
            The first state; drawn by default.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            The sequence.
        states : ndarray of int64, shape (n_samples,)
            Its states.
        """
        self._ready()
        n = as_count("n_samples", n_samples, at_least=1, at_most=LARGEST_COUNT // 8)
        seed = self.random_state if random_state is None else random_state
        random = as_random_state(seed)
        state = None if currstate is None else as_count("currstate", currstate, at_least=0)
        if state is not None and state >= self.n_components:
            raise ValueError(f"currstate is {state}; states run to {self.n_components - 1}")
        return draw(self, n, random, state)

    def get_stationary_distribution(self) -> Floats:
        """Return a distribution of states that ``transmat_`` leaves as it is, (K,)."""
        self._require_fitted("transmat_")
        self._check_transitions(as_count("n_components", self.n_components, at_least=1))
        values, vectors = np.linalg.eig(self.transmat_.T)
        # Where there are several, signs may differ; the magnitudes are left as they are too.
        vector = np.abs(vectors[:, np.argmax(values.real)])
        return vector / vector.sum()

    def aic(self, X: npt.ArrayLike, lengths: Any = None) -> float:
        """Return Akaike's criterion, −2 log-likelihood + 2 parameters; the lower, the better."""
        return -2.0 * self.score(X, lengths) + 2.0 * self._n_scalars()

    def bic(self, X: npt.ArrayLike, lengths: Any = None) -> float:
        """Return the Bayesian criterion, −2 log-likelihood + parameters × log N."""
        rows = as_rows(X)
        return -2.0 * self.score(rows, lengths) + self._n_scalars() * float(np.log(len(rows)))

    # The methods that subclasses add.

    def _compute_log_likelihood(self, X: Array) -> Floats:
        """Return the log-likelihood of each row in each state, (N, K)."""
        raise NotImplementedError(
            f"{type(self).__name__} has no emissions: define _compute_log_likelihood(X)"
        )

    def _generate_sample_from_state(self, state: int, random_state: Any) -> Any:
        """Return a row that a state emits."""
        return ()

    def _emitter(self, random: np.random.RandomState) -> Emitter:
        """Return what draws the rows of states, with what they share made once."""
        return lambda state: self._generate_sample_from_state(state, random)

    def _prepared(self, X: Array) -> Any:
        """Return what iterations need to know of X; made once a fit."""
        return X

    def _fill(self, data: Any, scores: Floats, threads: int) -> None:
        """Fill `scores` (N, K) with the log-likelihood of each row in each state."""
        found = as_doubles("_compute_log_likelihood(X)", self._compute_log_likelihood(data))
        if found.shape != scores.shape:
            raise ValueError(
                f"_compute_log_likelihood must return shape {scores.shape}, got {found.shape}"
            )
        scores[...] = found
        require_potentials("_compute_log_likelihood(X)", scores)

    def _symbols(self, data: Any) -> Symbols | None:
        """Return what emits the rows, where that is a table of symbols."""
        return None

    def _accumulate(self, data: Any, passes: Passes, threads: int) -> dict[str, Floats]:
        """Return sums over all rows that `_do_mstep` needs for the emissions."""
        return {}

    def _do_mstep(self, stats: dict[str, Any]) -> None:
        """Set the parameters to the best ones for expected counts.

        `stats` has 'start' (K,) and 'trans' (K, K), beside what `_accumulate` returned.
        """
        if "s" in self.params:
            self.startprob_ = normalised(
                self.startprob_prior, stats["start"], self.startprob_, keep_zeros=True
            )
        if "t" in self.params:
            self.transmat_ = normalised(
                self.transmat_prior, stats["trans"], self.transmat_, keep_zeros=True
            )

    def _get_n_fit_scalars_per_param(self) -> dict[str, int]:
        """Return the number of free numbers of each letter."""
        k = self.n_components
        return {"s": k - 1, "t": k * (k - 1)}

    def _hyperparameters(self) -> dict[str, Setting]:
        """Return what a fit is told, and what each may be."""
        k = self.n_components
        return {"startprob_prior": Setting((k,), 0.0), "transmat_prior": Setting((k, k), 0.0)}

    def _init(self, X: Array, lengths: Any = None) -> None:
        """Set initial parameters: those of `init_params`, and those that are missing."""
        self._check_and_set_n_features(X)
        k = as_count("n_components", self.n_components, at_least=1)
        require_settings(self, self._hyperparameters())
        random = self._source()
        if self._needs_init("s", "startprob_"):
            self.startprob_ = random.dirichlet(np.full(k, 1.0 / k))
        if self._needs_init("t", "transmat_"):
            self.transmat_ = random.dirichlet(np.full(k, 1.0 / k), size=k)
        free = sum(n for letter, n in self._scalars().items() if letter in self.params)
        if X.size < free and self._restarted is None:
            _log.warning(
                "Fitting a model with %d free scalar parameters with only %d data points will "
                "result in a degenerate solution.",
                free, X.size,
            )  # fmt: skip

    def _check_and_set_n_features(self, X: Array) -> None:
        if getattr(self, "n_features", X.shape[1]) != X.shape[1]:
            raise ValueError(f"X has {X.shape[1]} columns, but the model has {self.n_features}")
        self.n_features = X.shape[1]

    def _check(self) -> None:
        """Refuse parameters that are none, by name."""
        k = as_count("n_components", self.n_components, at_least=1)
        if not is_choice(self.implementation, ("log", "scaling")):
            raise ValueError(
                f"implementation must be 'log' or 'scaling', got {self.implementation!r}"
            )
        self._check_distribution("startprob_", (k,), "(n_components,)")
        self._check_transitions(k)

    # The common part of subclasses.

    def _check_transitions(self, k: int) -> None:
        self._check_distribution("transmat_", (k, k), "(n_components, n_components)")

    def _check_last(self) -> None:
        """Refuse what the last iteration of a fit has made, which no pass has seen."""

    def _check_distribution(self, name: str, shape: tuple[int, ...], words: str) -> None:
        """Make an attribute an array of probabilities, each row of which sums to 1."""
        array = as_doubles(name, getattr(self, name))
        if array.shape != shape:
            raise ValueError(f"{name} must have shape {words} = {shape}, got {array.shape}")
        setattr(self, name, array)
        if _hmm.proper(array, _ROUGHLY):
            return
        if not (array >= 0.0).all():
            at = tuple(int(i) for i in np.argwhere(~(array >= 0.0))[0])
            raise ValueError(f"{name}{list(at)} is {array[at]}; a probability is at least 0")
        sums = array.sum(axis=-1)
        found = f"row sums of {sums}" if array.ndim > 1 else f"{sums:.4f}"
        raise ValueError(f"{name} {'rows ' * (array.ndim > 1)}must sum to 1 (got {found})")

    def _needs_init(self, letter: str, name: str) -> bool:
        there = hasattr(self, name)
        if there and letter in self.init_params and self._restarted is None:
            _log.warning(
                "Even though the %r attribute is set, it will be overwritten during initialization "
                "because 'init_params' contains %r",
                name, letter,
            )  # fmt: skip
        return letter in self.init_params or not there

    def _source(self) -> np.random.RandomState:
        return as_random_state(self.random_state if self._restarted is None else self._restarted)

    def _scalars(self) -> dict[str, int]:
        return self._get_n_fit_scalars_per_param() or {}

    def _n_scalars(self) -> int:
        return sum(self._scalars().values())

    def _require_fitted(self, name: str) -> None:
        if not hasattr(self, name):
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet: call fit, or set "
                f"{name.lstrip('_')} and the other parameters"
            )

    def _ready(self) -> None:
        for name in self._letters.values():
            self._require_fitted(name)
        self._check()

    def _e_step(self, data: Any, passes: Passes, threads: int, transitions: bool) -> Floats | None:
        """See `Passes.expect`."""
        return passes.expect(
            self.startprob_, self.transmat_, threads,
            lambda scores: self._fill(data, scores, threads), transitions, self._symbols(data),
        )  # fmt: skip

    def _asked(self, X: npt.ArrayLike, lengths: Any) -> tuple[Any, Passes]:
        """Return X as iterations need it, and passes through it."""
        self._ready()
        rows = as_rows(X)
        passes = Passes(len(rows), self.n_components, lengths)
        return self._prepared(rows), passes

    def _copied(self) -> Callable[[], None]:
        """Return a function that sets the parameters to what they are now."""
        names = [*self._letters.values()]
        state = {name: copy.copy(getattr(self, name)) for name in names if name in vars(self)}

        def restore() -> None:
            for name in names:
                if name in state:
                    setattr(self, name, state[name])
                elif name in vars(self):
                    delattr(self, name)

        return restore


def _one(y: Any, lengths: Any) -> Any:
    """Return the lengths, given by name or by position."""
    return y if lengths is None else lengths
