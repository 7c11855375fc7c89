"""Laying a large graph out can be stopped: by a deadline, by progress, by a signal."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import valuesparse as vs
from valuesparse._junction import CliqueTree
from valuesparse.inference._search import Search

N = 150_000


@pytest.fixture(scope="module")
def large() -> vs.JunctionTree:
    graph = vs.FactorGraph([3] * N)
    rng = np.random.default_rng(0)
    tables = rng.normal(size=(100, 3, 3))
    for v in range(N - 1):
        graph.add((v, v + 1), tables[v % 100])
    return vs.JunctionTree(graph)


def _held() -> np.ndarray:
    held = np.full(N, -1, dtype=np.int64)
    held[N // 2] = 1
    return held


def _prepare(tree: CliqueTree, **watch: Any) -> int:
    """Lay the tree out for evidence that it has not been asked with."""
    return tree.prepare(_held(), None, Search(), **watch)


@pytest.fixture(params=["compiled", "new"])
def tree(request: pytest.FixtureRequest, large: vs.JunctionTree) -> Iterator[CliqueTree]:
    """A tree that has been compiled, or one whose graph has to be triangulated first."""
    yield large._tree if request.param == "compiled" else CliqueTree(large._snapshot, [])
    large._tree.prepare(np.full(N, -1), None, Search())


def test_a_deadline_stops_it(tree: CliqueTree) -> None:
    late = vs.DeadlineError("late")
    with pytest.raises(vs.DeadlineError, match="late"):
        _prepare(tree, deadline=1e-9, late=late)
    # A stopped preparation answers no question, and can be run again.
    with pytest.raises(RuntimeError, match="has not succeeded"):
        tree.infer(None, 1, None, None, None, None)
    assert _prepare(tree) == -1


def test_progress_stops_it(tree: CliqueTree) -> None:
    seen = []

    def stop(*at: int) -> None:
        seen.append(at)
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        _prepare(tree, progress=stop)
    assert len(seen) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="there are no timers of that kind")
def test_a_signal_stops_it(tree: CliqueTree) -> None:
    assert threading.current_thread() is threading.main_thread()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 1e-3)
        with pytest.raises(KeyboardInterrupt):
            _prepare(tree)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def test_answers_after_it_was_stopped(large: vs.JunctionTree) -> None:
    evidence: dict[Any, Any] = {N // 2: 1}
    expected = large.log_z(evidence)
    large.log_z()
    with pytest.raises(vs.DeadlineError):
        large.infer(evidence, deadline=1e-9)
    assert large.log_z(evidence) == expected


def test_progress_of_a_question_begins_while_tables_are_laid_out(large: vs.JunctionTree) -> None:
    seen: list[tuple[int, int]] = []
    large.infer({7: 2}, progress=lambda *at: seen.append(at))
    assert seen[0][0] == 0
    assert {total for _, total in seen} == {2 * len(large.cliques)}
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_removing_states_is_stopped() -> None:
    """Before anything is triangulated: one table of four million entries, all but one forbidden."""
    table = np.full([2] * 22, -np.inf)
    table[(1,) * 22] = 0.0
    graph = vs.FactorGraph([2] * 22)
    graph.add(range(22), table)
    with pytest.raises(vs.DeadlineError):
        vs.JunctionTree(graph, deadline=1e-6)
    assert vs.JunctionTree(graph).decode().states.tolist() == [1] * 22
