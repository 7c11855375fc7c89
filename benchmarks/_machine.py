"""The machine: its name, the software on it, and whether anything else is using it."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path

RIVALS = (
    "python-crfsuite",
    "hmmlearn",
    "pytorch-crf",
    "torch",
    "torch-struct",
    "dynamax",
    "jax",
)


def cores() -> int:
    """Return the number of cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def describe(packages: tuple[str, ...] = RIVALS) -> list[str]:
    """Return lines that name the machine, the compiler and the versions of everything timed."""
    lines = [
        f"machine   {_processor()}, {cores()} usable cores, {platform.system()}",
        f"compiler  {_compiler()}; Python {platform.python_version()}"
        f" ({platform.python_compiler()})",
    ]
    with contextlib.suppress(ImportError, AttributeError):
        import valuesparse as vs

        lines.append(f"ours      valuesparse {vs.__version__}, SIMD {vs.simd_level()}")
    versions = []
    for name in ("numpy", *packages):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions.append(f"{name} {importlib.metadata.version(name)}")
    lines.append("versions  " + ", ".join(versions))
    return lines


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _compiler() -> str:
    command = (os.environ.get("CXX") or sysconfig.get_config_var("CXX") or "c++").split()[0]
    if not shutil.which(command):
        return f"{command} (not found here)"
    run = subprocess.run([command, "--version"], capture_output=True, text=True, check=False)
    return run.stdout.splitlines()[0] if run.stdout else command


def busy_neighbours(seconds: float = 0.5, threshold: float = 0.05) -> list[str]:
    """Watch the machine for a while and name whatever else is using it.

    Parameters
    ----------
    seconds : float
        How long to watch.
    threshold : float
        Share of one core from which a process counts as busy.

    Returns
    -------
    list of str
        One line per busy process, the busiest first; where processes cannot be listed, the load
        average of the last minute if it exceeds the threshold.
    """
    if not Path("/proc/self/stat").exists():
        if not hasattr(os, "getloadavg"):
            return []
        load = os.getloadavg()[0]
        return [f"load average {load:.2f}"] if load > threshold + 0.5 else []
    before = _ticks()
    time.sleep(seconds)
    per_core = os.sysconf("SC_CLK_TCK") * seconds
    found = []
    for pid, (name, ticks) in _ticks().items():
        share = (ticks - before.get(pid, (name, ticks))[1]) / per_core
        if pid != os.getpid() and share > threshold:
            found.append((share, f"{name} ({pid}) uses {share:.2f} cores"))
    return [line for _, line in sorted(found, reverse=True)]


def _ticks() -> dict[int, tuple[str, int]]:
    """Return the name and the clock ticks used of every process that can be seen."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name stands in parentheses and may itself hold spaces and parentheses.
            head, _, tail = stat.read_text().rpartition(")")
            values = tail.split()
            name = head.partition("(")[2]
            found[int(stat.parent.name)] = (name, int(values[11]) + int(values[12]))
    return found


def require_quiet(allow_busy: bool) -> None:
    """Stop the script, or only warn, when something else is using the machine."""
    busy = busy_neighbours()
    if not busy:
        return
    print("the machine is busy:", *busy, sep="\n  ", file=sys.stderr)
    if not allow_busy:
        sys.exit("stopped: timings would not mean much; --allow-busy runs all the same")


@contextlib.contextmanager
def pinned(core: int | None) -> Iterator[None]:
    """Keep this thread on one core while the block runs; None leaves it free."""
    if core is None or not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {sorted(allowed)[core]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
