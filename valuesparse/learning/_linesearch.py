"""Line searches: how far to go along a direction of descent."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

__all__ = ["FTOL", "LinePoint", "backtracking", "more_thuente"]

#: Sufficient decrease, curvature: the usual constants of quasi-Newton methods.
FTOL, GTOL = 1e-4, 0.9
# A step outside is given up.
_SHORTEST, _LONGEST = 1e-20, 1e20
_XTOL = 1e-16

#: Step to (value, slope along the direction).
Along = Callable[[float], "tuple[float, float]"]


class LinePoint(NamedTuple):
    """Where a search ended."""

    step: float
    value: float
    trials: int
    ok: bool


class _End(NamedTuple):
    """An end of the interval that holds a good step."""

    at: float
    f: float
    d: float


def backtracking(
    along: Along, start: tuple[float, float], step: float, most: int, strong: bool
) -> LinePoint:
    """Halve (or stretch) the step until the Wolfe conditions hold.

    Parameters
    ----------
    along : callable
        Value and slope at a step.
    start : (float, float)
        Value and slope at step 0; the slope is negative.
    step : float
        The first step to try.
    most : int
        Trials allowed.
    strong : bool
        Whether the slope must be small on both sides.

    Returns
    -------
    Found
        The last step tried.
    """
    f0, d0 = start
    value = f0
    for trial in range(1, most + 1):
        value, slope = along(step)
        if not value <= f0 + FTOL * step * d0:
            width = 0.5
        elif slope < GTOL * d0:
            width = 2.1
        elif strong and slope > -GTOL * d0:
            width = 0.5
        else:
            return LinePoint(step, value, trial, True)
        if trial == most or not _SHORTEST <= step * width <= _LONGEST:
            return LinePoint(step, value, trial, False)
        step *= width
    return LinePoint(0.0, value, 0, False)


def more_thuente(along: Along, start: tuple[float, float], step: float, most: int) -> LinePoint:
    """Find a step that satisfies the strong Wolfe conditions.

    Moré and Thuente's search [1]_: an interval that holds such a step shrinks by cubic and
    quadratic interpolation. Parameters and return value are those of :func:`backtracking`.

    References
    ----------
    .. [1] J. J. Moré, D. J. Thuente, "Line search algorithms with guaranteed sufficient decrease",
       ACM Transactions on Mathematical Software 20(3), 1994, 286-307.
    """
    f0, d0 = start
    slope_wanted = FTOL * d0
    best = other = _End(0.0, f0, d0)
    bracketed, first_stage = False, True
    width, before = _LONGEST - _SHORTEST, 2.0 * (_LONGEST - _SHORTEST)
    value = f0
    for trial in range(1, most + 1):
        if bracketed:
            least, largest = min(best.at, other.at), max(best.at, other.at)
        else:
            least, largest = best.at, step + 4.0 * (step - best.at)
        step = min(max(step, _SHORTEST), _LONGEST)
        narrow = bracketed and largest - least <= _XTOL * largest
        if bracketed and (step <= least or largest <= step or trial == most or narrow):
            step = best.at  # nothing better will be found: the best so far
        value, slope = along(step)
        enough = f0 + step * slope_wanted
        if value <= enough and abs(slope) <= -GTOL * d0:
            return LinePoint(step, value, trial, True)
        if (
            trial == most
            or narrow
            or (bracketed and not least < step < largest)
            or (step == _LONGEST and value <= enough and slope <= slope_wanted)
            or (step == _SHORTEST and (value > enough or slope >= slope_wanted))
        ):
            return LinePoint(step, value, trial, False)
        if not math.isfinite(value):
            # Too far for numbers: come nearer, there is nothing to interpolate.
            step = best.at + 0.25 * (step - best.at)
            continue
        if first_stage and value <= enough and slope >= min(FTOL, GTOL) * d0:
            first_stage = False
        here = _End(step, value, slope)
        if first_stage and enough < value <= best.f:
            # The function minus the line of sufficient decrease.
            lower = [
                _End(e.at, e.f - e.at * slope_wanted, e.d - slope_wanted)
                for e in (best, other, here)
            ]
            a, b, step, bracketed = _update(lower[0], lower[1], lower[2], bracketed, least, largest)
            best = _End(a.at, a.f + a.at * slope_wanted, a.d + slope_wanted)
            other = _End(b.at, b.f + b.at * slope_wanted, b.d + slope_wanted)
        else:
            best, other, step, bracketed = _update(best, other, here, bracketed, least, largest)
        if bracketed:
            if abs(other.at - best.at) >= 0.66 * before:
                step = best.at + 0.5 * (other.at - best.at)
            before, width = width, abs(other.at - best.at)
    return LinePoint(step, value, most, False)


def _update(
    best: _End, other: _End, here: _End, bracketed: bool, least: float, largest: float
) -> tuple[_End, _End, float, bool]:
    """Return the interval after a trial, the next step, and whether it holds a minimum for sure."""
    x, t = best, here
    opposite = t.d * (x.d / abs(x.d)) < 0.0
    if t.f > x.f:  # higher: the minimum lies between
        cubic, square = _cubic(x, t), _square(x, t)
        near = abs(cubic - x.at) < abs(square - x.at)
        step = cubic if near else cubic + 0.5 * (square - cubic)
        bracketed, bounded = True, True
    elif opposite:  # lower, and past the minimum
        cubic, secant = _cubic(x, t), _secant(x, t)
        step = cubic if abs(cubic - t.at) > abs(secant - t.at) else secant
        bracketed, bounded = True, False
    elif abs(t.d) < abs(x.d):  # lower, and flatter: the cubic may have no minimum ahead
        cubic, secant = _cubic_ahead(x, t, least, largest), _secant(x, t)
        nearer = abs(t.at - cubic) < abs(t.at - secant)
        step = cubic if nearer == bracketed else secant
        bounded = True
    else:  # lower, and no flatter
        step = _cubic(t, other) if bracketed else (largest if t.at > x.at else least)
        bounded = False
    if t.f > x.f:
        other = t
    else:
        if opposite:
            other = x
        best = t
    step = min(max(step, least), largest)
    if bracketed and bounded:
        limit = best.at + 0.66 * (other.at - best.at)
        step = min(step, limit) if other.at > best.at else max(step, limit)
    return best, other, step, bracketed


def _parts(x: _End, t: _End) -> tuple[float, float, float]:
    """Return theta, gamma squared and the scale of the cubic through two ends."""
    theta = 3.0 * (x.f - t.f) / (t.at - x.at) + x.d + t.d
    scale = max(abs(theta), abs(x.d), abs(t.d))
    return theta, (theta / scale) ** 2 - (x.d / scale) * (t.d / scale), scale


def _cubic(x: _End, t: _End) -> float:
    """Return the minimum of the cubic with the values and slopes of both ends."""
    theta, square, scale = _parts(x, t)
    gamma = scale * math.sqrt(max(square, 0.0))
    if t.at < x.at:
        gamma = -gamma
    r = (gamma - x.d + theta) / (gamma - x.d + gamma + t.d)
    return x.at + r * (t.at - x.at)


def _cubic_ahead(x: _End, t: _End, least: float, largest: float) -> float:
    """Return that minimum if it lies beyond `t`, else the limit in the direction of `t`."""
    theta, square, scale = _parts(x, t)
    gamma = scale * math.sqrt(max(square, 0.0))
    if t.at > x.at:
        gamma = -gamma
    p = gamma - t.d + theta
    q = gamma + (x.d - t.d) + gamma
    r = p / q if q != 0.0 else 0.0
    if r < 0.0 and gamma != 0.0:
        return t.at + r * (x.at - t.at)
    return largest if t.at > x.at else least


def _square(x: _End, t: _End) -> float:
    """Return the minimum of the parabola with both values and the slope of `x`."""
    length = t.at - x.at
    return x.at + x.d / ((x.f - t.f) / length + x.d) / 2.0 * length


def _secant(x: _End, t: _End) -> float:
    """Return where the slope, taken as linear, is 0."""
    return t.at + t.d / (t.d - x.d) * (x.at - t.at)
