"""The base of every engine's result."""

from __future__ import annotations

from typing import Any, ClassVar

from valuesparse._junction import fill

__all__ = ["Result"]


class Result:
    """Marginals of a model, and how they came about: what :func:`valuesparse.infer` returns.

    A record that cannot be changed; it pickles. Each kind of model has its own, with queries of
    its own: `ChainResult`, `TreeResult`, `GraphResult`.

    Attributes
    ----------
    marginals : ndarray, or list of ndarray for graphs
        Probability of each state of each variable.
    log_z : ndarray of float64, or float for graphs
        Log partition function.
    islands : ndarray of int32, shape (N,)
        The value that an island holds, −1 elsewhere.
    method : str
        The engine that ran.
    reason : str
        Why that ran.
    converged : bool
        False when a limit stopped it before nothing changed.
    stats : dict
        How much work it was.
    """

    __slots__ = (
        "_model",
        "converged",
        "islands",
        "log_z",
        "marginals",
        "method",
        "reason",
        "stats",
    )

    #: Fields that can be computed again: left out of pickles, None until then.
    _derived: ClassVar[tuple[str, ...]] = ()

    marginals: Any
    log_z: Any
    islands: Any
    method: str
    reason: str
    converged: bool
    stats: dict[str, int]
    _model: Any

    def _fill(self, **fields: Any) -> None:
        fill(self, fields)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Result is a record; {name} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Result is a record; {name} cannot be deleted")

    def __getstate__(self) -> dict[str, Any]:
        names = [*Result.__slots__, *type(self).__slots__]
        return {name: getattr(self, name) for name in names if name not in self._derived}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._fill(**dict.fromkeys(self._derived), **state)
