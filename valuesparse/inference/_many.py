"""Many questions to one junction tree: side by side where they fit, else one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse import _junction
from valuesparse.errors import InfeasibleError, MemoryLimitError
from valuesparse.inference._conditioning import WHOLE
from valuesparse.inference._frames import codes_of
from valuesparse.inference._questions import Questions
from valuesparse.inference._refusals import bytes_of
from valuesparse.inference._watch import NOBODY, Watch
from valuesparse.models._evidence import split
from valuesparse.results import ManyResult
from valuesparse.threads import resolve

__all__ = ["ManyQuestions"]

Codes = npt.NDArray[np.int32]

#: Entries of all cliques from which on the states that evidence leaves out are worth more than what
#: several questions share: these are asked one by one.
_MOST_ENTRIES = 1e6
#: Bytes for each entry of a clique: tables and places, and what each thread has of it.
_TABLE_BYTES, _LANE_BYTES = 64, 64
#: Why questions are asked one by one.
_LARGE = "its tables are large"


class ManyQuestions(Questions):
    """The questions of `JunctionTree.infer_many`."""

    #: The tables of the tree for many questions, once made; or why they are not to be had.
    _tables: _junction.Many | str | None = None

    def infer_many(
        self,
        frame: Any,
        *,
        threads: int | None = None,
        deadline: float | None = None,
        progress: Callable[[int, int], object] | None = None,
    ) -> ManyResult:
        """Return the posteriors of many rows of evidence: several side by side, on all cores.

        Parameters
        ----------
        frame : pandas.DataFrame, mapping or ndarray
            A row for each question, a column for each variable, by name; states by name or
            number, and None, NaN, −1 or a masked entry where nothing is known. Variables without
            a column are unknown in every row. An array of states has shape (rows, n).
        threads : int, optional
            At least 1; results have the same bits for any number.
        deadline : float, optional
            Seconds after which the call gives up with `DeadlineError`.
        progress : callable, optional
            Called as ``progress(rows_done, rows)`` now and then, from this thread, and at the end.

        Returns
        -------
        ManyResult
            ``m["rain"]`` (rows, states), ``m["rain", "yes"]`` and ``m.log_z`` (rows,), and
            ``m.feasible``: a row that no configuration agrees with raises nothing.

        Raises
        ------
        ValueError
            For an unknown column or state, which is named with its row, and for a row that
            contradicts the states that the tree was built with.
        MemoryLimitError
            When the marginals of all rows, or one question, need more than `memory_limit`.

        Notes
        -----
        Equal rows are answered once. The tables of all cliques are made on the first call, and kept
        with the tree. Rows whose numbers need a wider range than float64's are asked again, one by
        one. So are all rows where the tables themselves do, as masks of −300 make them (−inf takes
        none), where the tree has over a million entries, since the states that evidence rules out
        are worth more then, or takes too much memory for several rows at once. ``m.stats`` counts
        these rows, and they take as long as `infer` does.

        Examples
        --------
        >>> import valuesparse as vs
        >>> graph = vs.FactorGraph({"rain": ["no", "yes"], "wet": ["no", "yes"]})
        >>> _ = graph.add_cpt("rain", [], [0.8, 0.2])
        >>> _ = graph.add_cpt("wet", ["rain"], [[1.0, 0.0], [0.25, 0.75]])
        >>> m = vs.JunctionTree(graph).infer_many({"wet": ["yes", "no"], "rain": [None, None]})
        >>> m["rain"].tolist()
        [[0.0, 1.0], [0.941, 0.059]]
        >>> m.log_z.round(3).tolist(), m.feasible.tolist()
        ([-1.897, -0.163], [True, True])
        """
        workers, watch = resolve(threads), Watch(deadline, progress)
        graph = self._graph
        codes = codes_of(graph, frame)
        self._require_no_contradiction(codes)
        rows = codes.shape[0]
        size = 8 * rows * self._states
        if size > self.memory_limit:
            raise MemoryLimitError(
                f"the marginals of {rows} rows need {bytes_of(size)}, above "
                f"memory_limit={bytes_of(self.memory_limit)}; ask for fewer rows at a time"
            )
        flat = np.empty((rows, self._states))
        log_z = np.empty(rows)
        answers = np.full(rows, 2, dtype=np.uint8)
        tables = self._many_tables(workers, watch)
        if not isinstance(tables, str):
            tables.run(
                codes, log_z, answers, flat, None, None, workers,
                watch.left(), watch.progress, watch.late,
            )  # fmt: skip
        left = np.flatnonzero(answers == 2)
        alike: dict[bytes, int] = {}  # the first of equal rows
        for done, row in enumerate(left.tolist()):
            if isinstance(tables, str) and watch.progress is not None:
                watch.progress(done, rows)
            first = alike.setdefault(codes[row].tobytes(), row)
            if first == row:
                self._one(codes[row], flat[row], log_z, answers, row, workers, watch)
            else:
                flat[row], log_z[row], answers[row] = flat[first], log_z[first], answers[first]
        watch.finish(rows)
        how = f"one by one, since {tables}" if isinstance(tables, str) else "several at once"
        return ManyResult(
            graph, flat, log_z, answers == 0, "junction_tree",
            f"a junction tree of width {self.width} was asked for, with {rows} rows, {how}",
            {"rows": rows, "one_by_one": int(left.size)},
        )  # fmt: skip

    def _require_no_contradiction(self, codes: Codes) -> None:
        """Raise where a row contradicts the evidence that the tree was built with."""
        for v in np.flatnonzero(self._held >= 0).tolist():
            wrong = (codes[:, v] >= 0) & (codes[:, v] != self._held[v])
            if wrong.any():
                raise ValueError(
                    f"row {int(wrong.argmax())} of frame: evidence for {self._graph.names[v]!r} "
                    "contradicts what the tree was built with; build another one"
                )

    def _many_tables(self, workers: int, watch: Watch) -> _junction.Many | str:
        """Return the tables for many questions, made once; or why there are none."""
        if self.table_size > _MOST_ENTRIES:
            return _LARGE
        with self._lock:
            if self._tables is None:
                self._tables = self._made_tables(workers, watch)
            tables = self._tables
        if not isinstance(tables, str) and self._lane_bytes(tables, workers) > self.memory_limit:
            return _LARGE
        return tables

    def tables_for_many(self, workers: int) -> _junction.Many | None:
        """Return tables of their own, which their owner may load with others; None as above."""
        with self._lock:
            tables = self._made_tables(workers, NOBODY)
        return None if isinstance(tables, str) else tables

    def _made_tables(self, workers: int, watch: Watch) -> _junction.Many | str:
        question, slices, _ = self._ask(None, watch)
        if slices is not WHOLE:
            return _LARGE
        tables = _junction.Many(question.tree, question.soft)
        if self._lane_bytes(tables, workers) > self.memory_limit:
            return _LARGE
        return tables if tables.load() else "its scores are far apart"

    @staticmethod
    def _lane_bytes(tables: _junction.Many, workers: int) -> float:
        return tables.entries() * (_TABLE_BYTES + 2 * workers * _LANE_BYTES)

    def _one(
        self,
        codes: Codes,
        flat: npt.NDArray[np.float64],
        log_z: npt.NDArray[np.float64],
        answers: npt.NDArray[np.uint8],
        row: int,
        workers: int,
        watch: Watch,
    ) -> None:
        """Answer one row as `infer` does."""
        given = {v: int(codes[v]) for v in np.flatnonzero(codes >= 0).tolist()}
        try:
            found = self._infer(split(self._graph, given), workers, watch.uncounted())
        except InfeasibleError:
            flat[:], log_z[row], answers[row] = 0.0, -np.inf, 1
            return
        flat[:], log_z[row], answers[row] = found.flat_marginals(), found.log_z, 0
