"""The process that reads damaged files: orders come by its input, reports go by its output."""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import gzip
import importlib
import json
import mmap
import os
import struct
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from children import SANITIZERS

from fuzz.core import Target

try:
    import resource
except ImportError:  # Windows: memory is not looked at there
    resource = None  # type: ignore[assignment]

#: Seconds of processor time for one file, under sanitizers too, which take 3 to 6 times as long.
SECONDS = 10.0
#: Bytes that reading may take beyond what was there before, and for each byte read.
MEMORY_FREE, MEMORY_PER_BYTE = 64 << 20, 64
#: Bytes of address space that a child may take beyond what it has at its beginning.
ADDRESSES = 4 << 30
#: A record that a child writes for its parent: number of the file, and counts.
NOTE = struct.Struct("<5Q")
#: Its report about an order.
REPORTED = ("done", "taken", "refused", "failures", "most_memory", "most_seconds", "work")
_KINDS = 20


class Note:
    """Numbers in a file that outlive a crash: the file that is read, and the counts so far."""

    def __init__(self, path: Path) -> None:
        with open(path, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), NOTE.size)
        self.written = 0

    def write(self, index: int, done: int, taken: int, refused: int) -> None:
        """Note which file comes next, and the counts before it."""
        self.written += 1
        NOTE.pack_into(self.memory, 0, self.written, index, done, taken, refused)

    def clear(self, index: int) -> None:
        """Note that nothing is done yet."""
        NOTE.pack_into(self.memory, 0, 0, index, 0, 0, 0)

    def read(self) -> tuple[int, int, int, int, int]:
        """Return how often it was written, and what :meth:`write` was given last."""
        return NOTE.unpack_from(self.memory)


class Memory:
    """Measures the largest memory of one read."""

    def __init__(self) -> None:
        self.base = 0
        try:  # Linux can begin anew; elsewhere only what exceeds all before is seen
            self.reset: int | None = os.open("/proc/self/clear_refs", os.O_WRONLY)
            os.write(self.reset, b"5")
            self.status = os.open("/proc/self/status", os.O_RDONLY)
        except OSError:
            self.reset = None

    def peak(self) -> int:
        """Return the largest resident size so far, in bytes; 0 where it cannot be had."""
        if self.reset is not None:  # getrusage would count the process that started this one
            text = os.pread(self.status, 4096, 0)
            return int(text[text.index(b"VmHWM:") + 6 :].split(None, 1)[0]) << 10
        if resource is None:
            return 0
        size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return size if sys.platform == "darwin" else size << 10

    def begin(self) -> None:
        if self.reset is not None:
            os.write(self.reset, b"5")
        self.base = self.peak()

    def growth(self) -> int:
        return self.peak() - self.base


def limit_addresses() -> None:
    """Make a reader that asks for all memory fail, rather than the machine."""
    if resource is None or not hasattr(resource, "RLIMIT_AS") or SANITIZERS:
        return
    try:
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except OSError:
        return
    resource.setrlimit(resource.RLIMIT_AS, (taken + ADDRESSES,) * 2)


def problem_of(error: BaseException, reading: Any) -> str | None:
    """Return what is wrong with an error; None when it is one that is documented, and clear."""
    if not isinstance(error, reading.allowed) or isinstance(error, MemoryError):
        return "not documented"
    text = str(error)
    if not text or "\n" in text:
        return "not one line"
    if not any(name in text for name in reading.named):
        return f"does not name {reading.named[0]}"
    return None


def place_of(error: BaseException) -> str:
    """Return where an error comes from: the innermost line of the package, or of all."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if f"{os.sep}valuesparse{os.sep}" in f.filename] or frames[-1:]
    return f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "?"


class Session:
    """The targets of one child, each set up once."""

    def __init__(self, targets: dict[str, Target], folder: Path, note: Note) -> None:
        self.targets, self.folder, self.note = targets, folder, note
        self.memory = Memory()
        self.readings: dict[str, Any] = {}

    def reading(self, name: str) -> Any:
        """Set a target up, and read its seeds as they are."""
        if name not in self.readings:
            folder = self.folder / name
            folder.mkdir(exist_ok=True)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of what is imported for the first time
                reading = self.targets[name].make(folder)
                for i, seed in enumerate(reading.seeds):
                    packed = gzip.compress(seed) if name.endswith(".gz") else seed
                    reading.read(packed, Random(i))
            self.readings[name] = reading
        return self.readings[name]

    def run(self, order: dict[str, Any]) -> dict[str, Any]:
        """Read the files of an order; return what came of it."""
        reading = self.reading(order["target"])
        run = Run(reading, order, self.memory)
        gc.collect()
        begin, first, step = time.monotonic(), order["first"], order["step"]
        work = time.process_time()
        for done in range(order["count"]):
            if done and time.monotonic() - begin > order["seconds"]:
                break
            index = first + done * step
            self.note.write(index, run.done, run.taken, run.refused)
            run.one(index)
            if len(run.failures) >= _KINDS:
                break
        gc.collect()  # so that what was destroyed here breaks here
        run.work = time.process_time() - work
        return {name: vars(run)[name] for name in REPORTED}


class Run:
    """The results of the files so far."""

    def __init__(self, reading: Any, order: dict[str, Any], memory: Memory) -> None:
        self.reading, self.order, self.memory = reading, order, memory
        self.done = self.taken = self.refused = 0
        self.failures: dict[str, dict[str, Any]] = {}
        self.most_memory = self.most_seconds = self.work = 0.0

    def one(self, index: int) -> None:
        """Read one file."""
        sys.unraisablehook = lambda lost: self.fail(
            index, f"unraisable {lost.exc_type.__name__}: {str(lost.exc_value)[:60]}", str(lost)
        )
        r = Random(f"{self.order['target']}:{self.order['seed']}:{index}")
        data = self.reading.mutate(r, self.reading.seeds)
        if self.order["keep"]:
            Path(self.order["keep"]).write_bytes(data)
        self.memory.begin()
        begin = time.process_time()
        try:
            self.reading.read(data, r)
        except Exception as error:
            problem = problem_of(error, self.reading)
            if problem is None:
                self.refused += 1
            else:
                trace = "".join(traceback.format_exception(error)[-6:])
                text = f"{type(error).__name__} at {place_of(error)}, {problem}"
                self.fail(index, text, f"{error}"[:400] + "\n" + trace)
        else:
            self.taken += 1
        self.done += 1
        seconds = time.process_time() - begin
        growth = self.memory.growth()
        self.most_seconds = max(self.most_seconds, seconds)
        self.most_memory = max(self.most_memory, growth)
        if seconds > SECONDS:
            self.fail(index, f"more than {SECONDS:g} s", f"{seconds:.1f} s of processor time")
        if growth > MEMORY_FREE + MEMORY_PER_BYTE * len(data):
            self.fail(index, "memory", f"{growth >> 20} MiB for a file of {len(data)} bytes")

    def fail(self, index: int, kind: str, text: str) -> None:
        """Note a defect; of each kind the first is described, and all are counted."""
        found = self.failures.setdefault(kind, {"index": index, "count": 0, "text": text})
        found["count"] += 1


def main() -> None:
    """Follow orders until there are no more."""
    orders, reports = sys.stdin, os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print is no report
    faulthandler.enable()
    # Durability is not what this is about, and takes most of the time.
    os.fsync = lambda _: None
    say: Callable[[dict[str, Any]], None] = lambda report: print(  # noqa: E731
        json.dumps(report), file=reports, flush=True
    )
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(KeyboardInterrupt):
        targets = importlib.import_module(sys.argv[2]).TARGETS
        session = Session(targets, Path(folder), Note(Path(sys.argv[1])))
        limit_addresses()
        warnings.simplefilter("error")
        for line in orders:
            say(session.run(json.loads(line)))
        reports.close()


if __name__ == "__main__":
    main()
