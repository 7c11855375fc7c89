"""Fresh interpreters that import the package this process would import."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

#: Sanitizers that this process runs under: their allocators are slow to give memory back.
SANITIZERS = [name for name in ("libasan", "libtsan") if name in os.environ.get("LD_PRELOAD", "")]

# A process that a shell starts in the background ignores Ctrl-C, and so do its children.
_INTERRUPTIBLE = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"


def environment(**extra: str) -> dict[str, str]:
    """Return this environment, free of settings of the package, with its folder first on the path.

    The child must not run in the source folder either, which ``python -c`` would look into first.
    """
    env = {k: v for k, v in os.environ.items() if not k.startswith("VALUESPARSE_")}
    spec = importlib.util.find_spec("valuesparse")
    if spec is not None and spec.origin is not None:
        here = str(Path(spec.origin).resolve().parents[1])
        env["PYTHONPATH"] = os.pathsep.join([here, env.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    return {**env, **extra}


def run(code: str, *args: str, timeout: float = 60, **env: str) -> subprocess.CompletedProcess[str]:
    """Run source code to its end and return what it printed."""
    return subprocess.run(
        [sys.executable, "-c", _INTERRUPTIBLE + code, *args],
        env=environment(**env),
        cwd=tempfile.gettempdir(),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def start(code: str, *args: str, **env: str) -> Any:
    """Start source code and return the process, its output in pipes."""
    return subprocess.Popen(
        [sys.executable, "-c", _INTERRUPTIBLE + code, *args],
        env=environment(**env),
        cwd=tempfile.gettempdir(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
