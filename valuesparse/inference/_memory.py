"""How much memory this process may plan with."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any

from valuesparse._validation import as_count

__all__ = ["as_limit", "default_memory_limit", "limit_of_tables", "show_bytes"]

_FALLBACK = 4 << 30


def as_limit(memory_limit: Any) -> int:
    """Return `memory_limit` in bytes, checked; None is the default."""
    if memory_limit is None:
        return default_memory_limit()
    return as_count("memory_limit", memory_limit, at_least=0)


def limit_of_tables(limit: int | None) -> int:
    """Return the bytes of tables that may be made: a limit raises the default."""
    return max(limit or 0, default_memory_limit())


@functools.cache
def default_memory_limit() -> int:
    """Return half of the memory of the machine or its container, in bytes; asked once."""
    sizes = []
    try:
        sizes.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):  # not a POSIX system
        sizes.append(_windows_memory())
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = Path(path).read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            sizes.append(int(text))
    return min(size for size in sizes if size > 0) // 2


def _windows_memory() -> int:
    import ctypes

    class MemoryStatus(ctypes.Structure):
        _fields_ = [
            ("length", ctypes.c_ulong),
            ("load", ctypes.c_ulong),
            ("total", ctypes.c_ulonglong),
            ("rest", ctypes.c_ulonglong * 6),
        ]

    status = MemoryStatus()
    status.length = ctypes.sizeof(status)
    kernel = getattr(ctypes, "windll", None)
    if kernel is None or not kernel.kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):
        return _FALLBACK
    return int(status.total)


def show_bytes(size: float) -> str:
    """Return a size for people, in units of 1024 bytes."""
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            break
        size /= 1024
    return f"{size:.0f} {unit}" if unit == "bytes" or size >= 100 else f"{size:.1f} {unit}"
