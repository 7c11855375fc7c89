"""Which of the settings measured to recommend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from valuesparse.cli._measure import Row

__all__ = ["MEASURES", "CostLimit", "choose", "error_of", "microseconds", "on_front"]

#: The measures that an error budget may bound, and their meaning.
MEASURES = {
    "mean": "mean error of the marginals",
    "max": "largest error of a marginal",
    "tags": "share of the best tags that change",
}
# The share of changed tags up to which a setting is recommended when no budget is given.
_CHANGED = 0.001
# How much faster than exact a setting has to be: less is noise, and exact has no error.
_WORTH = 1.1


class CostLimit(NamedTuple):
    """The most that a setting may cost.

    Attributes
    ----------
    microseconds : float or None
        Time per token.
    error : float or None
        The error named by `measure`.
    measure : str
        One of `MEASURES`.
    """

    microseconds: float | None = None
    error: float | None = None
    measure: str = "mean"


def microseconds(row: Row) -> float:
    """Return the time per token of a setting."""
    return 1e6 / row.speed


def error_of(row: Row, measure: str) -> float:
    """Return the error of a setting, by one of `MEASURES`."""
    if measure == "tags":
        return 1.0 - row.agreement
    return row.mean_error if measure == "mean" else row.max_error


def choose(rows: Sequence[Row], budget: CostLimit) -> int | None:
    """Return the index of the setting to recommend, None when none is within the budget.

    With an error budget the fastest setting within it; with a time budget only, the one of least
    error. Without any: the fastest that changes at most one best tag in a thousand. Exact where the
    fastest is not a tenth faster than that.

    Examples
    --------
    >>> rows = [Row("", z, 1e6 * s, 1.0 - e, 1.0, e, 9 * e, 0.0, 1.0)
    ...         for z, s, e in [(None, 1, 0), (0.9, 2, 0.001), (0.8, 3, 0.004)]]
    >>> choose(rows, CostLimit()), choose(rows, CostLimit(error=0.005))
    (1, 2)
    >>> choose(rows, CostLimit(microseconds=0.6)), choose(rows, CostLimit(microseconds=0.1))
    (1, None)
    """
    if budget.microseconds is None and budget.error is None:
        budget = CostLimit(error=_CHANGED, measure="tags")
    within = [
        i
        for i, row in enumerate(rows)
        if (budget.microseconds is None or microseconds(row) <= budget.microseconds)
        and (budget.error is None or error_of(row, budget.measure) <= budget.error * (1 + 1e-9))
    ]
    if not within:
        return None
    if budget.error is not None:
        fastest = min(within, key=lambda i: (microseconds(rows[i]), i))
        plain = (i for i in within if rows[i].zeta is None and rows[i].tol is None)
        exact = next(plain, fastest)
        return fastest if rows[fastest].speed >= _WORTH * rows[exact].speed else exact

    def merit(i: int) -> tuple[float, bool, float, int]:  # exact before what is only proved
        error = error_of(rows[i], budget.measure)
        return error, rows[i].tol is not None, microseconds(rows[i]), i

    return min(within, key=merit)


def on_front(rows: Sequence[Row], measure: str) -> list[bool]:
    """Return for each setting whether no other is as good in both time and error, better in one.

    Examples
    --------
    >>> rows = [Row("", None, s, 1.0, 1.0, e, e, 0.0, 1.0) for s, e in [(1, 0), (2, 1), (1, 2)]]
    >>> on_front(rows, "mean")
    [True, True, False]
    """
    points = [(microseconds(row), error_of(row, measure)) for row in rows]
    return [
        not any(t <= time and e <= error and (t, e) != (time, error) for t, e in points)
        for time, error in points
    ]
