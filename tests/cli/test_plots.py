"""The plot of `valuesparse tune` and of the demo: names that can be read, wherever points lie."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="the command line needs the cli extra")
pytest.importorskip("rich", reason="the command line needs the cli extra")

import matplotlib
from matplotlib.figure import Figure

from valuesparse.cli._measure import ZETAS, Rival, Row, name_of
from valuesparse.cli._plots import write_tradeoff


def rows(rng: np.random.Generator, spread: float, wrong: float, zetas: tuple[float, ...]) -> list:
    """Return settings as fast as exact, but for some `spread`."""
    speeds = 1e6 * np.exp(spread * rng.normal(size=len(zetas) + 3))
    agree = 1 - wrong * rng.random(len(zetas))
    found = [Row("exact", None, 1e6, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0, proved=1e-12)]
    for z, speed, share in zip(zetas, speeds, agree, strict=False):
        found.append(Row(name_of(z), z, speed, share, 1.0, 1e-3, 1e-2, 0.5, 0.5, proved=2e-2))
    for tol, speed in zip((0.1, 0.01, 0.001), speeds[len(zetas) :], strict=True):
        name = f"tol = {tol:g}"
        found.append(Row(name, None, speed, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0, tol, tol / 2))
    return found


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("spread", [0.0, 0.03, 0.3])
@pytest.mark.parametrize("wrong", [0.0, 0.01])
def test_no_name_covers_another(
    seed: int, spread: float, wrong: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(seed)
    zetas = tuple(np.linspace(0.5, 0.99, 20).round(3)) if seed == 5 else ZETAS
    found = rows(rng, spread, wrong, zetas)
    drawn: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, file, **_: drawn.append(figure))
    rival = Rival(2e4, 5e5, 1e-12, 9) if seed % 2 else None
    best = int(rng.integers(len(found)))
    write_tradeoff(found, tmp_path / "a.png", "", "", best=best, rival=rival)
    (figure,) = drawn
    figure.draw_without_rendering()
    axes, _, work = figure.axes
    legend = axes.get_legend()
    named = [] if legend is None else legend.get_texts()
    boxes = [(text.get_text(), text.get_window_extent()) for text in axes.texts]
    if legend is not None and matplotlib.__version_info__ >= (3, 9):  # it keeps clear of text
        boxes.append(("legend", legend.get_window_extent()))
    for (a, one), (b, other) in itertools.combinations(boxes, 2):
        assert not one.overlaps(other), (a, b)
    inside = axes.get_window_extent()
    for name, box in boxes:
        assert inside.x0 <= box.x0 <= box.x1 <= inside.x1, name
        assert inside.y0 <= box.y0 <= box.y1 <= inside.y1, name
    # All are named somewhere, tolerances together.
    names = [text.get_text() for text in (*axes.texts, *named)]
    assert {row.name for row in found[: 1 + len(zetas)]} - {"exact"} <= set(names)
    assert any(name.startswith("tol") for name in names)
    ticks = [text.get_window_extent() for text in work.get_xticklabels()]
    if len(ticks) <= 10:
        assert not any(a.overlaps(b) for a, b in itertools.pairwise(ticks))


def test_the_curve_crosses_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # ζ = 0.99 changes nothing and lies beside the star, so that the curve rises between notes.
    found = [Row("exact", None, 7.5e5, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0, proved=1e-12)]
    for zeta, gain, wrong in ((0.999, 0.94, 0.0), (0.99, 1.44, 0.0), (0.95, 2.08, 6.4e-5),
                              (0.7, 2.97, 4.5e-4), (0.0, 3.69, 1.9e-3)):  # fmt: skip
        speed, name = 7.5e5 * gain, name_of(zeta)
        found.append(Row(name, zeta, speed, 1 - wrong, 1.0, 1e-3, 1e-2, 0.5, 0.5, proved=2e-2))
    for tol, gain in ((0.01, 1.74), (0.001, 1.70)):
        speed, name = 7.5e5 * gain, f"tol = {tol:g}"
        found.append(Row(name, None, speed, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0, tol, tol / 2))
    drawn: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, file, **_: drawn.append(figure))
    write_tradeoff(found, tmp_path / "a.png", "", "", best=4, rival=Rival(2e4, 1.3e5, 1e-12, 9))
    (figure,) = drawn
    figure.draw_without_rendering()
    axes = figure.axes[0]
    line = next(one for one in axes.lines if len(one.get_xdata()) == 6)
    curve = line.get_path().transformed(line.get_transform())
    assert len(axes.texts) == 9  # three notes, five ζ, and the tolerances together
    for text in axes.texts:
        assert not curve.intersects_bbox(text.get_window_extent(), filled=False), text.get_text()
