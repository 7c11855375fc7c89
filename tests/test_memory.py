"""Memory of large results: reused when nobody holds it, never while somebody does."""

import gc
import subprocess
import sys
import threading
import tracemalloc
import weakref
from pathlib import Path

import numpy as np
import pytest

import valuesparse as vs
from valuesparse._buffers import empty
from valuesparse._pool import memory_waiting

MIB = 1 << 20


def test_small_arrays_are_numpys_own():
    assert empty((3, 4), np.float32).flags.owndata


def test_large_arrays_are_writable_aligned_and_of_the_shape_asked_for():
    x = empty((MIB, 2), np.float64)
    assert x.shape == (MIB, 2)
    assert x.dtype == np.float64
    assert x.flags.c_contiguous
    assert x.flags.writeable
    assert x.ctypes.data % 64 == 0
    x[:] = 1.5
    assert (x == 1.5).all()


def test_memory_given_back_serves_the_next_array_of_its_size(tmp_path: Path) -> None:
    """In a process of its own: here, what earlier results have left may fit as well."""
    program = """
import numpy as np
from valuesparse._pool import memory_waiting
from valuesparse._buffers import empty
x = empty((3 << 20,), np.float64)
where = x.ctypes.data
del x
assert memory_waiting() >= 24 << 20, memory_waiting()
y = empty(((3 << 20) - 1000,), np.float64)
assert y.ctypes.data == where
"""
    python = [sys.executable, "-c", program]
    ran = subprocess.run(python, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def test_a_view_keeps_its_memory_from_being_reused():
    x = empty((5 * MIB,), np.float64)
    x[:] = 7.0
    part = x[10:20]
    del x
    others = [empty((5 * MIB,), np.float64) for _ in range(3)]
    for other in others:
        other[:] = -1.0
    assert (part == 7.0).all()


def test_what_waits_is_bounded():
    arrays = [empty((12 * MIB,), np.float64) for _ in range(4)]
    del arrays
    assert memory_waiting() <= 256 * MIB


def test_threads_do_not_share_memory():
    wrong = []

    def work(value):
        for _ in range(50):
            x = empty((MIB // 4,), np.float64)
            x[:] = value
            if not (x == value).all():
                wrong.append(value)

    pool = [threading.Thread(target=work, args=(float(i),)) for i in range(4)]
    for thread in pool:
        thread.start()
    for thread in pool:
        thread.join()
    assert not wrong


def test_results_survive_the_ones_that_follow():
    rng = np.random.default_rng(0)
    unary, transition = rng.normal(size=(40_000, 5)), rng.normal(size=(5, 5))
    first = vs.infer(vs.Chain(unary, transition)).marginals
    kept = first.copy()
    for shift in (1.0, 2.0):
        vs.infer(vs.Chain(rng.normal(size=unary.shape) * shift, transition))
    np.testing.assert_array_equal(first, kept)


@pytest.mark.parametrize("what", ["exact", "junction_tree", "bp", "trw", "mean_field", "select"])
def test_a_graph_goes_with_its_last_result(what: str) -> None:
    """At once: what waits for the garbage collector, tables and messages, adds up."""

    class Watched(vs.FactorGraph):
        """One that can have weak references."""

    graph = Watched([2, 2, 2])
    for v in range(3):
        graph.add([v], [0.0, 0.5])
    for pair in [(0, 1), (1, 2), (0, 2)][: 2 if what == "exact" else 3]:
        graph.add_feature(pair, [1, 1], 0.7)
    gc.collect()
    gc.disable()
    try:
        if what == "select":
            r = vs.select(graph, min_divergence=2, solver="bp")
        else:
            r = vs.infer(graph, method=what)
        gone = weakref.ref(graph)
        del graph, r
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("order", ["down", "up", "any"])
def test_a_tree_reads_the_tables_that_it_was_given(order: str) -> None:
    """Wherever its root is: no second model is made, when it is built or asked."""
    rng = np.random.default_rng(0)
    n, k = 400, 30
    unary, tables = rng.normal(size=(n, k)), rng.normal(size=(n, k, k))
    at = {"down": np.arange(n), "up": np.arange(n)[::-1], "any": rng.permutation(n)}[order]
    parent = np.full(n, -1)
    parent[at[1:]] = at[:-1]
    few = vs.Tree([-1, 0], unary[:2], tables[:2])

    def ask(tree: vs.Tree) -> None:
        vs.infer(tree, zeta=0.9)
        vs.infer(tree).entropy()
        vs.decode(tree)
        vs.sample(tree, 1, 0)

    ask(few)  # imports, and what calls keep
    tracemalloc.start()
    try:
        tree = vs.Tree(parent, unary, tables)
        built = tracemalloc.get_traced_memory()[1]
        ask(tree)
        asked = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert tree.pairwise.ctypes.data == tables.ctypes.data
    assert built < tables.nbytes / 50
    assert asked < tables.nbytes / 10


@pytest.mark.skipif(sys.platform == "win32", reason="no module resource")
def test_a_tree_from_leaf_to_root_copies_no_tables_outside_numpy(tmp_path: Path) -> None:
    program = """
import resource, sys
import numpy as np, valuesparse as vs
def most():
    found = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return found if sys.platform == "darwin" else 1024 * found
n, k = 1000, 100
parent = np.r_[np.arange(1, n), -1]
unary, tables = np.zeros((n, k)), np.ones((n, k, k))
vs.decode(vs.Tree([-1, 0], unary[:2], tables[:2]))
before = most()
tree = vs.Tree(parent, unary, tables)
built = most() - before
vs.decode(tree)
asked = most() - before
assert built < tables.nbytes / 10 and asked < tables.nbytes / 4, (built, asked, tables.nbytes)
"""
    python = [sys.executable, "-c", program]
    ran = subprocess.run(python, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="no module resource")
@pytest.mark.parametrize("size", [1.0, 2000.0])
def test_log_z_of_order_two_keeps_no_messages(tmp_path: Path, size: float) -> None:
    program = f"""
import resource, sys
import numpy as np, valuesparse as vs
def most():
    found = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return found if sys.platform == "darwin" else 1024 * found
rng = np.random.default_rng(0)
n, k = 5000, 30
unary, table = {size} * rng.normal(size=(n, k)), {size} * rng.normal(size=(k, k, k))
states = np.zeros(n, dtype=np.int64)
short = vs.SecondOrderChain(unary[:50], table)
found = vs.log_prob(short, states[:50]), vs.infer(short).log_z
model = vs.SecondOrderChain(unary, table)
before = most()
vs.log_prob(model, states)
assert most() - before < n * k * k * 8 / 4, (most() - before, n * k * k * 8)
score = unary[:50, 0].sum() + 48 * table[0, 0, 0]
assert np.allclose(found[0], score - found[1], rtol=1e-12), found
"""
    python = [sys.executable, "-c", program]
    ran = subprocess.run(python, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
