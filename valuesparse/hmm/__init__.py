"""Hidden Markov models with the surface of hmmlearn, on every core.

Import ``GaussianHMM`` from ``valuesparse.hmm`` in place of ``hmmlearn.hmm``: the parameters,
methods and attributes are the same, and so are the numbers. Forward-backward, Viterbi and the
expected transitions are those of chains (:class:`valuesparse.Chain`).

Where things are:

- ``_base``: what all models share; ``_fitting``: Baum-Welch, and its restarts.
- ``_gaussian``, ``_mixture``, ``_categorical``, ``_poisson``: a model for each kind of emissions.
- ``_covariances``: the four kinds of covariance, and densities of normal distributions.
- ``_passes``: what is asked of the engine of chains.
- ``_monitor``: when iterations end.
- ``_estimator``: scikit-learn's base class where it is installed, and what takes its place.
"""

from __future__ import annotations

from valuesparse.hmm._base import BaseHMM
from valuesparse.hmm._categorical import CategoricalHMM
from valuesparse.hmm._gaussian import GaussianHMM
from valuesparse.hmm._mixture import GMMHMM
from valuesparse.hmm._monitor import ConvergenceMonitor
from valuesparse.hmm._poisson import PoissonHMM

__all__ = [
    "GMMHMM",
    "BaseHMM",
    "CategoricalHMM",
    "ConvergenceMonitor",
    "GaussianHMM",
    "PoissonHMM",
]
