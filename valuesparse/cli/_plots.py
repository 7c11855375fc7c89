"""The trade-off plot of the demo and of tune."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

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
# Places of the name of a point, the first that is free: before, after or above it, and how far up
# in points of 1/72 inch.
_PLACES = (
    ("right", 3), ("left", -14), ("right", -16), ("left", 6), ("center", 9), ("right", 20),
    ("left", 20), ("center", -24), ("right", -30), ("left", -30),
)  # fmt: skip
# The size of a note of two lines, and half of that of a point's marker.
_NOTE = (95, 26)
_HALF = 6

Box: TypeAlias = "tuple[float, float, float, float]"
Curve: TypeAlias = "list[tuple[float, float]]"


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
    diamonds: Any = None
    for row in bounded:
        diamonds = axes.scatter(
            *point(row), s=110, marker="D", color=_TOL, zorder=4, edgecolor="white", label="tol"
        )
    marks: list[Any] = []
    for row, colour in zip(sparse, _colours(len(sparse)), strict=True):
        chosen = row is best
        marks.append(axes.scatter(
            *point(row), s=210 if chosen else 110, color=colour, zorder=4, label=row.name,
            edgecolor=_INK if chosen else "white", linewidth=2 if chosen else 1,
        ))  # fmt: skip
    axes.scatter(1, shelf, marker="*", s=340, color=_INK, zorder=5)
    notes: list[tuple[float, str, int, str]] = [
        (1, f"our exact\n{_thousands(exact.speed)}", 14, _INK)
    ]
    if rival is not None:
        slow, core = rival.speed / exact.speed, rival.core_speed / exact.speed
        axes.scatter([slow, core], [shelf] * 2, marker="s", s=80, color=_RIVAL, zorder=5)
        notes += [
            (core, f"its C core\n{_thousands(rival.core_speed)}", 50, _RIVAL),
            (slow, f"python-crfsuite\n{_thousands(rival.speed)}", 88, _RIVAL),
        ]

    axes.set_yscale("log")
    axes.set_ylim(10.0 ** (low - 0.75), 10.0**high)
    ticks = [10.0**k for k in range(low, high + 1)]
    axes.set_yticks([shelf, *ticks], ["none", *[f"{100 * share:g} %" for share in ticks]])
    axes.set_yticks([], minor=True)
    axes.set_xlim(-0.06, max(row.speed / exact.speed for row in rows) * 1.12)
    # Where limits are known: what overlaps depends on them.
    curve = [_on_paper(axes, place) for place in path]
    taken = [_note(axes, text, (x, shelf), up, colour, curve) for x, text, up, colour in notes]
    taken += [_around(_on_paper(axes, point(row))) for row in rows]
    named = [(row.name, row, mark) for row, mark in zip(sparse, marks, strict=True)]
    if bounded:  # they lie close together: one name for all
        fastest = max(bounded, key=lambda row: row.speed)
        named.append((fastest.name if fastest is best else "tol", fastest, diamonds))
    named.sort(key=lambda one: one[1] is not best)  # the one to point out has the first choice
    left = [
        mark
        for name, row, mark in named
        if not _label(axes, _on_paper(axes, point(row)), name, taken, curve, chosen=row is best)
    ]
    if left:  # no place is free beside them: their colours are named
        handles = [mark for mark in [*marks, diamonds] if mark in left]
        axes.legend(handles=handles, loc="best", fontsize=10, labelcolor=_INK,
                    ncols=1 + len(handles) // 15)  # fmt: skip
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
    axes.set_ylim(low, 3.0 * low**-0.25)  # room for the legend above all points
    axes.set_yticks([10.0**e for e in range(0, round(math.log10(low)) - 1, -2)])
    axes.set_xlabel("speed-up over our exact (×)", fontsize=10, color=_INK)
    axes.set_title("Largest error of a marginal", fontsize=12, loc="left", color=_INK)
    axes.legend(fontsize=8, frameon=False, loc="upper left", labelcolor=_INK, ncols=2)


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
    names = [f"{row.zeta:g}".lstrip("0") or "0" for row in sparse]
    axes.set_xticks(range(len(sparse)), names, rotation=45 if len(names) > 10 else 0)


def _colours(count: int) -> list[Any]:
    """Colours from ζ near 1 (dark) to ζ = 0 (light)."""
    from matplotlib import colormaps

    return [colormaps["viridis"](0.1 + 0.8 * i / max(1, count - 1)) for i in range(count)]


def _note(
    axes: Axes,
    text: str,
    at: tuple[float, float],
    up: int,
    colour: str,
    curve: Curve,
) -> Box:
    """Write above a point, `up` in points of 1/72 inch; return what the note covers.

    It stands to the right of the point, or to the left where the right has no room or a curve.
    """
    x, y = _on_paper(axes, at)
    width, height = _NOTE
    begin, _, end, _ = _inside(axes)
    crossed = x - width > begin and _crosses(curve, (x, y + up, x + width, y + up + height))
    left = x if x + width < end and not crossed else x - width
    axes.annotate(
        text, at, xytext=(0, up), textcoords="offset points", fontsize=10, color=colour,
        ha="left" if left == x else "right", va="bottom", linespacing=1.25,
    )  # fmt: skip
    return left, y + up, left + width, y + up + height


def _on_paper(axes: Axes, at: tuple[float, float]) -> tuple[float, float]:
    """Return where a point is drawn, in points of 1/72 inch."""
    x, y = axes.transData.transform(at) * (72 / _DPI)
    return float(x), float(y)


def _around(at: tuple[float, float]) -> Box:
    """Return what the marker of a point covers."""
    x, y = at
    return x - _HALF, y - _HALF, x + _HALF, y + _HALF


def _inside(axes: Axes) -> Box:
    """Return the area of the axes, in points of 1/72 inch."""
    (left, bottom), (right, top) = axes.transAxes.transform([(0, 0), (1, 1)]) * (72 / _DPI)
    return float(left), float(bottom), float(right), float(top)


def _label(
    axes: Axes, at: tuple[float, float], name: str, taken: list[Box], curve: Curve, *, chosen: bool
) -> bool:
    """Name a point where that covers nothing `taken`; return whether there is such a place.

    A place that the curve does not cross is better than one that it does.
    """
    size = 12.0 if chosen else 10.5
    width, height = 0.62 * size * len(name), 1.2 * size
    left, bottom, right, top = _inside(axes)
    free: list[Box] = []
    for side, up in _PLACES:
        begin = at[0] + {"right": -11 - width, "left": 11, "center": -width / 2}[side]
        box = (begin, at[1] + up, begin + width, at[1] + up + height)
        within = left < box[0] and bottom < box[1] and box[2] < right and box[3] < top
        if within and not any(_overlap(box, other) for other in taken):
            free.append(box)
    if not free:
        return False
    box = next((box for box in free if not _crosses(curve, box)), free[0])
    taken.append(box)
    axes.annotate(
        name, box[:2], xycoords="figure points", va="bottom", fontsize=size,
        fontweight="bold" if chosen else "normal", color=_INK, zorder=6,
    )  # fmt: skip
    return True


def _crosses(curve: Curve, box: Box) -> bool:
    """Return whether a line through points goes through a box (left, bottom, right, top)."""
    from matplotlib.path import Path as Line
    from matplotlib.transforms import Bbox

    return bool(Line(curve).intersects_bbox(Bbox.from_extents(*box), filled=False))


def _overlap(a: Box, b: Box) -> bool:
    """Return whether two boxes (left, bottom, right, top) have anything in common."""
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _thousands(speed: float) -> str:
    if speed >= 999_500:
        return f"{speed / 1e6:.2f} M tokens/s"
    return f"{speed / 1000:.0f} k tokens/s"
