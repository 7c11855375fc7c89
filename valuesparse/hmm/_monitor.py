"""When the iterations of Baum-Welch end, and what they report."""

from __future__ import annotations

import logging
import math
import sys
from collections import deque

__all__ = ["ConvergenceMonitor"]

_log = logging.getLogger(__name__)

#: A loss of log-likelihood that rounding explains.
_WIGGLE = 2.0**-26


class ConvergenceMonitor:
    """Watches the log-likelihood of a fit; ``monitor_`` of a model.

    A subclass with a `converged` of its own, set as ``monitor_`` before `fit`, changes when the fit
    ends.

    Parameters
    ----------
    tol : float
        The fit has converged when an iteration gains less log-likelihood.
    n_iter : int
        Or after so many iterations.
    verbose : bool
        Whether each iteration writes a line to standard error.

    Attributes
    ----------
    history : deque of float
        Log-likelihood before each iteration of the last fit.
    iter : int
        Number of those iterations.

    Examples
    --------
    >>> monitor = ConvergenceMonitor(tol=0.01, n_iter=10, verbose=False)
    >>> monitor.report(-5.0)
    >>> monitor.report(-4.999)
    >>> monitor.converged
    True
    """

    _template = "{iter:>10d} {log_prob:>16.8f} {delta:>+16.8f}"

    def __init__(self, tol: float, n_iter: int, verbose: bool) -> None:
        self.tol = tol
        self.n_iter = n_iter
        self.verbose = verbose
        self.history: deque[float] = deque()
        self.iter = 0

    def __repr__(self) -> str:
        fields = {**vars(self), "history": list(self.history)}
        lines = "".join(f"    {name}={fields[name]},\n" for name in sorted(fields))
        return f"{type(self).__name__}(\n{lines})"

    def _reset(self) -> None:
        """Forget an earlier fit."""
        self.iter = 0
        self.history.clear()

    def report(self, log_prob: float) -> None:
        """Take down the log-likelihood of an iteration.

        Parameters
        ----------
        log_prob : float
            That of the data, under the parameters before the iteration changes them.
        """
        gain = log_prob - self.history[-1] if self.history else math.nan
        if self.verbose:
            line = self._template.format(iter=self.iter + 1, log_prob=log_prob, delta=gain)
            sys.stderr.write(line + "\n")
        if gain < -_WIGGLE:
            _log.warning(
                "Model is not converging.  Current: %s is not greater than %s. Delta is %s",
                log_prob, self.history[-1], gain,
            )  # fmt: skip
        self.history.append(log_prob)
        self.iter += 1

    @property
    def converged(self) -> bool:
        """Whether the fit has ended: by its number of iterations, or since it gains too little."""
        if self.iter == self.n_iter:
            return True
        return len(self.history) >= 2 and self.history[-1] - self.history[-2] < self.tol
