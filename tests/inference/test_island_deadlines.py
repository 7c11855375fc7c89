"""`deadline=` of `infer(graph, zeta)` while its islands are laid out."""

from __future__ import annotations

import numpy as np
import pytest

import valuesparse as vs
from valuesparse.inference import _forest_islands, _graph_islands
from valuesparse.inference._forest_islands import forest_part
from valuesparse.inference._watch import Watch
from valuesparse.models._evidence import Known


def _path(n: int) -> list[tuple[int, int]]:
    return [(v - 1, v) for v in range(1, n)]


def _grid(side: int) -> list[tuple[int, int]]:
    down = [(v - side, v) for v in range(side, side * side)]
    return down + [(v - 1, v) for v in range(side * side) if v % side]


@pytest.mark.parametrize("edges", [_path(20_000), _grid(100)], ids=["path", "grid"])
def test_a_deadline_ends_the_layout(
    edges: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = vs.FactorGraph([2] * (max(v for _, v in edges) + 1))
    tables = np.random.default_rng(0).normal(size=(len(edges), 2, 2))
    graph.add_many(edges, tables)
    with monkeypatch.context() as patch:
        # The native parts, which look at the clock themselves, are not reached.
        patch.setattr(_forest_islands, "Tree", None)
        patch.setattr(_graph_islands._junction, "Segments", None)
        for _ in range(2):
            with pytest.raises(vs.DeadlineError, match=r"no answer within 0\.001 s"):
                vs.infer(graph, zeta=0.9, deadline=0.001)


def test_all_loops_over_a_large_graph_look_at_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    n, looks = 3 * 4096, 0
    watch = Watch(1e6, None)
    left = watch.left

    def look() -> float | None:
        nonlocal looks
        looks += 1
        return left()

    monkeypatch.setattr(watch, "left", look)
    graph = vs.FactorGraph([2] * n)
    graph.add_many(_path(n), np.random.default_rng(0).normal(size=(n - 1, 2, 2)))
    known = Known({}, np.full(n, -1), [])
    found = forest_part(graph, known, 1 << 40, watch)
    assert found is not None
    assert looks >= 3 * 8  # blocks, and loops over variables and over factors
