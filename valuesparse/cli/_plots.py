"""The trade-off plot of the demo and of tune."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from valuesparse.cli._measure import Rival, Row
from valuesparse.cli._report import ENOUGH
from valuesparse.io._files import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INK = "#1f2933"
_MUTED = "#6b7785"
_RIVAL = "#c2410c"
_ZETA, _TOL = "#2563eb", "#be185d"
_DPI = 150
# Places of the name of a point: whether to its right, and how far up in points.
_SIDES = ((False, 3), (True, -14), (False, -16), (True, 6), (False, 20), (True, -30))


def write_tradeoff(
    rows: Sequence[Row],
    path: Path,
    title: str,
    subtitle: str,
    *,
    best: int,
    rival: Rival | None = None,
) -> Path:
    """Draw agreement and error against speed, and work against ζ, into a PNG.

    Parameters
    ----------
    rows : sequence of Row
        The measured settings, exact first.
    path : Path
        Where to; it appears when it is complete.
    title, subtitle : str
        Shown above the panels.
    best : int
        The row to point out.
    rival : Rival, optional
        python-crfsuite on the same sentences.

    Returns
    -------
    Path
        The absolute path of the PNG.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # No pyplot: it would keep global state and choose a backend for the whole process.
    figure = Figure(figsize=(12, 6.2), dpi=_DPI, facecolor="white")
    FigureCanvasAgg(figure)
    figure.text(0.045, 0.945, title, fontsize=17, fontweight="bold", color=_INK)
    figure.text(0.045, 0.902, subtitle, fontsize=11, color=_MUTED)
    grid = figure.add_gridspec(
        2, 2, width_ratios=(1.55, 1), left=0.075, right=0.975, top=0.80, bottom=0.105,
        hspace=0.42, wspace=0.2,
    )  # fmt: skip
    speed = figure.add_subplot(grid[:, 0])
    error = figure.add_subplot(grid[0, 1])
    work = figure.add_subplot(grid[1, 1])
    for axes in (speed, error, work):
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        for side in ("left", "bottom"):
            axes.spines[side].set_color(_MUTED)
        axes.tick_params(colors=_INK, labelsize=10)
        axes.grid(True, color="#e5e9ee", linewidth=0.8)
        axes.set_axisbelow(True)
    _draw_speed(speed, rows, rows[best], rival)
    _draw_error(error, rows)
    _draw_work(work, rows)

    with replacing(path) as file:
        figure.savefig(file, format="png")
    return path.resolve()


def _draw_speed(axes: Axes, rows: Sequence[Row], best: Row, rival: Rival | None) -> None:
    """Share of tags changed, on a logarithmic scale, against speed-up over our exact."""
    exact, sparse = rows[0], [row for row in rows if row.zeta is not None]
    sparse.sort(key=lambda row: -float(row.zeta or 0))
    wrong = [1 - row.agreement for row in rows if row.agreement < 1]
    low = math.floor(math.log10(min([*wrong, 1 - ENOUGH]) * 0.999))
    high = math.ceil(math.log10(max([*wrong, 1 - ENOUGH]) * 1.5))
    # No change at all has no place on a logarithmic scale: it gets a shelf of its own.
    shelf = 10.0 ** (low - 0.45)

    def point(row: Row) -> tuple[float, float]:
        return row.speed / exact.speed, max(1 - row.agreement, shelf)

    axes.axhline(shelf, color="#e2e8f0", linewidth=9, zorder=0, solid_capstyle="butt")
    axes.axhspan(shelf / 10, 1 - ENOUGH, color="#16a34a", alpha=0.06, zorder=0)
    path = [point(row) for row in [exact, *sparse]]
    axes.plot(*zip(*path, strict=True), color="#94a3b8", linewidth=1.6, zorder=2)
    bounded = [row for row in rows if row.tol is not None]
    if bounded:
        axes.plot(*zip(*map(point, [exact, *bounded]), strict=True), color=_TOL, linewidth=1.6,
                  zorder=2)  # fmt: skip
    for row in bounded:
        axes.scatter(*point(row), s=110, marker="D", color=_TOL, zorder=4, edgecolor="white")
    for row, colour in zip(sparse, _colours(len(sparse)), strict=True):
        chosen = row is best
        axes.scatter(
            *point(row), s=210 if chosen else 110, color=colour, zorder=4,
            edgecolor=_INK if chosen else "white", linewidth=2 if chosen else 1,
        )  # fmt: skip
    axes.scatter(1, shelf, marker="*", s=340, color=_INK, zorder=5)
    _note(axes, "our exact\n" + _thousands(exact.speed), (1, shelf), (0, 14), _INK)
    if rival is not None:
        slow, core = rival.speed / exact.speed, rival.core_speed / exact.speed
        axes.scatter([slow, core], [shelf] * 2, marker="s", s=80, color=_RIVAL, zorder=5)
        _note(axes, "its C core\n" + _thousands(rival.core_speed), (core, shelf), (0, 50), _RIVAL)
        _note(axes, "python-crfsuite\n" + _thousands(rival.speed), (slow, shelf), (0, 88), _RIVAL)

    axes.set_yscale("log")
    axes.set_ylim(10.0 ** (low - 0.75), 10.0**high)
    ticks = [10.0**k for k in range(low, high + 1)]
    axes.set_yticks([shelf, *ticks], ["none", *[f"{100 * share:g} %" for share in ticks]])
    axes.set_yticks([], minor=True)
    axes.set_xlim(-0.06, max(row.speed / exact.speed for row in rows) * 1.12)
    # Where limits are known: what overlaps depends on them.
    names = [(*point(row), row.name, row is best) for row in sparse]
    if bounded:  # they lie close together: one name for all
        fastest = max(bounded, key=lambda row: row.speed)
        name = fastest.name if fastest is best else "tol"
        names.append((*point(fastest), name, fastest is best))
    _label_points(axes, names, (1, shelf))
    axes.set_xlabel("speed-up over our exact (×)", fontsize=11, color=_INK)
    axes.set_title("Tags that differ from exact inference's", fontsize=12, loc="left", color=_INK)


def _draw_error(axes: Axes, rows: Sequence[Row]) -> None:
    """Largest error against speed-up, true and proved, of islands and of tolerances."""
    curves = [
        (name, colour, some)
        for name, colour, some in (
            ("ζ", _ZETA, _by_zeta(rows)),
            ("tol", _TOL, [row for row in rows if row.tol is not None]),
        )
        if some
    ]
    shown = [x for _, _, some in curves for row in some for x in (row.max_error, row.proved)]
    positive = [x for x in shown if x > 0]
    low = 10.0 ** (math.floor(math.log10(min(positive, default=1e-3))) - 1)
    for name, colour, some in curves:
        speeds = [row.speed / rows[0].speed for row in some]
        true = [max(row.max_error, low) for row in some]  # none at all: at the foot
        proved = [max(row.proved, low) for row in some]
        axes.plot(speeds, true, "o-", color=colour, label=f"{name}, true", linewidth=1.8,
                  markersize=5)  # fmt: skip
        axes.plot(speeds, proved, "o--", color=colour, label=f"{name}, proved", linewidth=1.2,
                  markersize=6, markerfacecolor="white")  # fmt: skip
    axes.set_yscale("log")
    axes.set_ylim(low, 3.0)
    axes.set_xlabel("speed-up over our exact (×)", fontsize=10, color=_INK)
    axes.set_title("Largest error of a marginal", fontsize=12, loc="left", color=_INK)
    axes.legend(fontsize=8, frameon=False, loc="best", labelcolor=_INK, ncols=2)


def _draw_work(axes: Axes, rows: Sequence[Row]) -> None:
    """Islands and messages that stay full at each ζ."""
    sparse = _by_zeta(rows)
    x = range(len(sparse))
    for name, colour, shares in (
        ("tokens held as islands", "#16a34a", [row.islands for row in sparse]),
        ("messages still full", "#7c3aed", [row.full for row in sparse]),
    ):
        percent = [100 * share for share in shares]
        axes.plot(x, percent, "o-", color=colour, label=name, linewidth=1.8, markersize=5)
    axes.set_ylim(0, 103)
    axes.set_yticks([0, 25, 50, 75, 100], ["0", "25", "50", "75", "100 %"])
    _zeta_axis(axes, sparse)
    axes.set_xlabel("ζ", fontsize=11, color=_INK)
    axes.set_title("Work", fontsize=12, loc="left", color=_INK)
    axes.legend(fontsize=9, frameon=False, loc="best", labelcolor=_INK)


def _by_zeta(rows: Sequence[Row]) -> list[Row]:
    return sorted((row for row in rows if row.zeta is not None), key=lambda row: row.zeta or 0.0)


def _zeta_axis(axes: Axes, sparse: Sequence[Row]) -> None:
    axes.set_xticks(range(len(sparse)), [f"{row.zeta:g}".lstrip("0") or "0" for row in sparse])


def _colours(count: int) -> list[Any]:
    """Colours from ζ near 1 (dark) to ζ = 0 (light)."""
    from matplotlib import colormaps

    return [colormaps["viridis"](0.1 + 0.8 * i / max(1, count - 1)) for i in range(count)]


def _note(
    axes: Axes, text: str, at: tuple[float, float], offset: tuple[float, float], colour: str
) -> None:
    """Write beside a point, `offset` in points of 1/72 inch."""
    axes.annotate(
        text, at, xytext=offset, textcoords="offset points", fontsize=10, color=colour,
        ha="left" if offset[0] >= 0 else "right", va="bottom", linespacing=1.25,
    )  # fmt: skip


def _label_points(
    axes: Axes,
    points: Sequence[tuple[float, float, str, bool]],
    exact: tuple[float, float],
) -> None:
    """Name the points, each on the first of some sides on which it covers no other name."""
    per_point = _DPI / 72
    edge = axes.transAxes.transform((0, 0))[0] / per_point
    # The area that the note on exact inference covers.
    exact_x, exact_y = axes.transData.transform(exact) / per_point
    taken = [(exact_x, exact_y + 14, exact_x + 95, exact_y + 40)]
    for x, y, name, chosen in points:
        size = 12.0 if chosen else 10.5
        at_x, at_y = axes.transData.transform((x, y)) / per_point
        width = 0.62 * size * len(name)
        for right, dy in _SIDES:
            left = at_x + 11 if right else at_x - 11 - width
            box = (left, at_y + dy, left + width, at_y + dy + 1.2 * size)
            if left > edge and not any(_overlap(box, other) for other in taken):
                break
        taken.append(box)
        axes.annotate(
            name, (x, y), xytext=(11 if right else -11, dy), textcoords="offset points",
            ha="left" if right else "right", va="bottom",
            fontsize=size, fontweight="bold" if chosen else "normal", color=_INK, zorder=6,
        )  # fmt: skip


def _overlap(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> bool:
    """Return whether two boxes (left, bottom, right, top) have anything in common."""
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _thousands(speed: float) -> str:
    if speed >= 999_500:
        return f"{speed / 1e6:.2f} M tokens/s"
    return f"{speed / 1000:.0f} k tokens/s"
