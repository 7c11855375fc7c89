"""The parts of scikit-learn that models need, and their stand-ins where it is not installed."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from valuesparse._extras import require

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Estimator", "NotFittedError", "as_random_state", "centres"]

Array = npt.NDArray[Any]


class _Parameters:
    """Parameters by name, as scikit-learn's BaseEstimator has them."""

    @classmethod
    def _get_param_names(cls) -> list[str]:
        names = inspect.signature(cls.__init__).parameters
        return sorted(name for name in names if name != "self")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters of the constructor.

        Parameters
        ----------
        deep : bool
            No matter: no parameter is an estimator.

        Returns
        -------
        dict
            By name.
        """
        return {name: getattr(self, name) for name in self._get_param_names()}

    def set_params(self, **params: Any) -> Self:
        """Set parameters of the constructor.

        Parameters
        ----------
        **params
            By name.

        Returns
        -------
        object
            This model.
        """
        names = self._get_param_names()
        for name, value in params.items():
            if name not in names:
                raise ValueError(
                    f"{name} is no parameter of {type(self).__name__}: these are {', '.join(names)}"
                )
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        names = inspect.signature(type(self).__init__).parameters
        given = {name: getattr(self, name) for name in names if name != "self"}
        shown = [f"{n}={v!r}" for n, v in given.items() if not _equal(v, names[n].default)]
        return f"{type(self).__name__}({', '.join(shown)})"


def _equal(a: Any, b: Any) -> bool:
    return a is b or bool(np.array_equal(a, b))


class _PlainNotFittedError(ValueError, AttributeError):
    """A model without parameters was asked something."""


try:
    from sklearn.base import BaseEstimator as Estimator
    from sklearn.exceptions import NotFittedError
except ImportError:
    Estimator = _Parameters
    NotFittedError = _PlainNotFittedError


def as_random_state(seed: Any) -> np.random.RandomState:
    """Return the source of randomness that `random_state` names, as in scikit-learn.

    None is numpy's global one, an integer begins anew, a RandomState goes on.
    """
    if seed is None or seed is np.random:
        return np.random.mtrand._rand
    if isinstance(seed, np.random.RandomState):
        return seed
    try:
        return np.random.RandomState(seed)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"random_state must be None, an integer from 0 to 2**32 - 1 or a RandomState, got "
            f"{seed!r}"
        ) from error


def centres(
    X: Array, n: int, random_state: Any, what: str, times: int = 10
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int32]]:
    """Return the centres of `n` clusters by k-means, and the cluster of each row.

    `what` names the attributes that the caller may set instead, if scikit-learn is missing.
    """
    try:
        require("sklearn", "sklearn")
    except ImportError as error:
        error.msg = (
            f"{error} The first means are those of k-means; without scikit-learn, set {what}, and "
            "leave their letters out of init_params"
        )
        error.args = (error.msg,)
        raise
    from sklearn.cluster import KMeans

    if len(X) < n:
        raise ValueError(f"X has {len(X)} rows, too few for {n} clusters to start from")
    found = KMeans(n_clusters=n, random_state=random_state, n_init=times).fit(X)
    return found.cluster_centers_, found.labels_
