"""Runs targets in child processes, and finds which file a child died of."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import children

from fuzz.child import NOTE, Note

__all__ = ["Children", "Report"]

# A file that is silent for so long hangs; a busy machine needs more than the 10 s of a quiet one.
SILENCE = 60.0
# Until the first file: imports, models that are trained as seeds, all of it under a sanitizer.
SET_UP = 300.0
CRASHES = 5


@dataclass
class Report:
    """The result of one target.

    Attributes
    ----------
    done, taken, refused : int
        Files in all, and those that could be read or got a documented error.
    work, seconds : float
        Seconds that it took: of processor time in the child, and by the clock.
    most_memory, most_seconds : float
        The most of any file: bytes, and seconds of processor time.
    failures : dict
        For each kind of defect the first file, how many there are, and what is known.
    """

    done: int = 0
    taken: int = 0
    refused: int = 0
    work: float = 0.0
    seconds: float = 0.0
    most_memory: float = 0.0
    most_seconds: float = 0.0
    failures: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, more: dict[str, Any]) -> None:
        """Add the report of a child."""
        self.done += more["done"]
        self.taken += more["taken"]
        self.refused += more["refused"]
        self.work += more["work"]
        self.most_memory = max(self.most_memory, more["most_memory"])
        self.most_seconds = max(self.most_seconds, more["most_seconds"])
        for kind, found in more["failures"].items():
            self.fail(kind, found)

    def fail(self, kind: str, found: dict[str, Any]) -> None:
        """Add a defect."""
        known = self.failures.setdefault(kind, {**found, "count": 0})
        known["count"] += found["count"]


class Children:
    """One child at a time; another takes its place when it dies.

    Parameters
    ----------
    folder : Path
        For what the child notes.
    module : str
        Where the targets are listed.
    silence : float
        Seconds without a new file after which a child hangs.
    """

    def __init__(
        self, folder: Path, module: str = "fuzz.targets", silence: float = SILENCE
    ) -> None:
        self.module, self.silence = module, silence
        self.path = folder / "note"
        self.path.write_bytes(bytes(NOTE.size))
        self.note = Note(self.path)
        self.errors = folder / "errors"
        self.process: subprocess.Popen[str] | None = None
        self.reports: queue.Queue[str] = queue.Queue()

    def run(
        self,
        target: str,
        seed: int,
        first: int,
        step: int,
        count: int,
        seconds: float = 1e9,
        keep: str = "",
    ) -> Report:
        """Read `count` damaged files, each `step` after the one before, for `seconds` at most."""
        report = Report()
        begin = time.monotonic()
        end = begin + seconds
        crashes = 0
        while count > 0:
            order = {"target": target, "seed": seed, "first": first, "step": step, "count": count,
                     "seconds": end - time.monotonic(), "keep": keep}  # fmt: skip
            more, fatal = self._obey(order)
            if more is not None:
                report.add(more)
                break
            crashes += 1
            _, index, done, taken, refused = self.note.read()
            report.add({"done": done, "taken": taken, "refused": refused, "failures": {},
                        "most_memory": 0.0, "most_seconds": 0.0, "work": 0.0})  # fmt: skip
            text = self._last_words()
            if not self._obey({**order, "first": index, "count": 1})[1]:
                text = "not when it comes first: files before it may have done the damage\n" + text
            report.fail(fatal, {"index": index, "count": 1, "text": text})
            over = (index - first) // step + 1
            first, count = first + over * step, count - over
            if crashes >= CRASHES or time.monotonic() > end:
                break
        report.seconds = time.monotonic() - begin
        if report.failures:  # whatever they have broken is not the next target's
            self.close()
        return report

    def close(self) -> None:
        """End the child."""
        if self.process is not None:
            assert self.process.stdin is not None
            with suppress(OSError):
                self.process.stdin.close()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self._forget()

    def _obey(self, order: dict[str, Any]) -> tuple[dict[str, Any] | None, str]:
        """Send an order; return its report, or None and why the child is dead."""
        if self.process is None:
            self._start()
        assert self.process is not None
        assert self.process.stdin is not None
        self.note.clear(order["first"])
        with suppress(OSError):
            self.process.stdin.write(json.dumps(order) + "\n")
            self.process.stdin.flush()
        fatal = ""
        for line in self._lines():
            if line:
                return json.loads(line), ""
            fatal = f"crash, exit status {self.process.wait()}"
            break
        else:
            fatal = "hangs"
            self.process.kill()
            self.process.wait()
        self._forget()
        return None, fatal

    def _forget(self) -> None:
        """Close what belongs to a child that has ended."""
        assert self.process is not None
        for stream in (self.process.stdin, self.process.stdout):
            with suppress(OSError):
                if stream is not None:
                    stream.close()
        self.process = None

    def _lines(self) -> Iterator[str]:
        """Yield what the child says, empty for its end; stop when it is silent for too long."""
        seen, since = 0, time.monotonic()
        while time.monotonic() - since < (self.silence if seen else SET_UP):
            with suppress(queue.Empty):
                yield self.reports.get(timeout=1.0)
                return
            now = self.note.read()[0]
            if now != seen:
                seen, since = now, time.monotonic()

    def _start(self) -> None:
        here = str(Path(__file__).resolve().parents[1])
        own = {name: value for name, value in os.environ.items() if name.startswith("VALUESPARSE_")}
        env = children.environment(**{"VALUESPARSE_NUM_THREADS": "1", **own})
        env["PYTHONPATH"] = os.pathsep.join([here, env.get("PYTHONPATH", "")]).rstrip(os.pathsep)
        env.setdefault("OPENBLAS_NUM_THREADS", "1")
        with open(self.errors, "wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "fuzz.child", str(self.path), self.module],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=env,
                encoding="utf-8", cwd=tempfile.gettempdir(),
            )  # fmt: skip
        self.reports = queue.Queue()
        threading.Thread(
            target=self._listen, args=(self.process.stdout, self.reports), daemon=True
        ).start()

    @staticmethod
    def _listen(stream: Any, reports: queue.Queue[str]) -> None:
        with suppress(OSError, ValueError):
            for line in stream:
                reports.put(line)
        reports.put("")

    def _last_words(self) -> str:
        """Return the end of what the child wrote to its standard error."""
        text = self.errors.read_text("utf-8", "replace")
        return text[:3000] + ("\n...\n" + text[-3000:] if len(text) > 6000 else text[3000:])
