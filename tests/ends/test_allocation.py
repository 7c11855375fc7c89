"""Memory that runs out is a MemoryError in every operation, and the next call is right."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import pytest
from children import SANITIZERS, environment, run

HERE = Path(__file__).parent
COMPILER = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")

pytestmark = [
    pytest.mark.skipif(
        platform.libc_ver()[0] != "glibc", reason="replaces the allocators of glibc by a preload"
    ),
    pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler"),
    pytest.mark.skipif(bool(SANITIZERS), reason="sanitizers have allocators of their own"),
    pytest.mark.skipif(
        bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
        reason="a free-threaded interpreter allocates in ways that were never tried here",
    ),
]

NAMES = (HERE / "operations.txt").read_text().split()

# One or two of each engine: the rest is slow.
QUICK = [
    "chain_infer",
    "chain_cut",
    "chain_cut_sample",
    "chain_listed",
    "chain_top",
    "chain_islands",
    "tree_build_and_ask",
    "graph_build",
    "junction_tree_infer",
    "loopy_trw",
    "train_append",
    "tagger_open",
    "dictionary",
    "read_and_write",
    "parse_relaxed",
    "cores",
    "tree_factor",
]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the preloaded library, compiled."""
    made = tmp_path_factory.mktemp("allocator") / "failing.so"
    source = HERE / "failing_allocator.cpp"
    flags = ["-std=c++17", "-O1", "-shared", "-fPIC", str(source), "-o", str(made), "-ldl"]
    assert COMPILER is not None
    subprocess.run([COMPILER, *flags], check=True)
    return made


def fail(library: Path, name: str, first: int, spread: int, timeout: float) -> None:
    done = subprocess.run(
        [
            sys.executable,
            str(HERE / "failing_child.py"),
            str(library),
            name,
            str(first),
            str(spread),
        ],
        env=environment(LD_PRELOAD=str(library)),
        cwd=tempfile.gettempdir(),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    print(done.stdout)


def test_every_operation_is_named() -> None:
    done = subprocess.run(
        [sys.executable, str(HERE / "failing_child.py"), "list"],
        env=environment(),
        cwd=tempfile.gettempdir(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == NAMES


@pytest.mark.parametrize("name", QUICK)
def test_memory_runs_out(name: str, library: Path) -> None:
    fail(library, name, 25, 10, 120)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_memory_runs_out_at_every_allocation(name: str, library: Path) -> None:
    fail(library, name, 300, 100, 3600)


# A given number of MiB of address space is left, and a graph of 3,000,000 variables is asked about.
NO_ROOM = """
import mmap, resource, sys
import numpy as np, valuesparse as vs
n = 3_000_000
graph = vs.FactorGraph(np.full(n, 2))
graph.add_features(vs.factors.Features(np.arange(n).reshape(-1, 1), np.ones(n)))
small = vs.Chain(np.zeros((50, 4)), np.zeros((4, 4)))
vs.infer(small)
with open("/proc/self/statm") as f:
    used = int(f.read().split()[0]) * mmap.PAGESIZE
resource.setrlimit(resource.RLIMIT_AS, (used + (int(sys.argv[1]) << 20), -1))
try:
    vs.infer(graph, threads=1)
    print("answered")
except MemoryError:
    print("MemoryError")
resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
assert vs.infer(small).marginals[0, 0] == 0.25
"""


@pytest.mark.parametrize(
    "left",
    [
        40,
        *(
            pytest.param(left, marks=pytest.mark.slow)
            for left in (*range(0, 40, 5), *range(45, 85, 5))
        ),
    ],
)
def test_a_graph_that_does_not_fit(left: int) -> None:
    done = run(NO_ROOM, str(left), timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() in ("MemoryError", "answered")


# The bounds of mean field's starts are summed by two threads, and each takes memory for it.
STARTS = """
import mmap, resource, sys
import numpy as np, valuesparse as vs
n = 200_000
rng = np.random.default_rng(5)
graph = vs.FactorGraph([4] * n)
graph.add_many(np.arange(n)[:, None], rng.normal(size=(n, 4)))
ring = np.stack([np.arange(n), (np.arange(n) + 1) % n], axis=1)
graph.add_many(ring, rng.normal(size=(n, 4, 4)))
with open("/proc/self/statm") as f:
    used = int(f.read().split()[0]) * mmap.PAGESIZE
resource.setrlimit(resource.RLIMIT_AS, (used + (int(sys.argv[1]) << 20), -1))
try:
    vs.infer(graph, method=vs.MeanField(max_iterations=5), threads=3)
    print("answered")
except MemoryError:
    print("MemoryError")
"""


@pytest.mark.parametrize(
    "left",
    [300, *(pytest.param(left, marks=pytest.mark.slow) for left in range(200, 420, 20))],
)
def test_starts_of_mean_field_that_do_not_fit(left: int) -> None:
    done = run(STARTS, str(left), timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() in ("MemoryError", "answered")
