"""Calls that take long, by name: what interrupts and deadlines are tried on.

`tests/test_process.py` counts what happens, `benchmarks/interrupts.py` measures how fast.
"""

from __future__ import annotations

#: Names of calls, and the threads each is asked with.
NAMES = [
    ("long", 1),
    ("long", 2),
    ("long_islands", 1),
    ("long_islands", 2),
    ("batch", 1),
    ("batch", 2),
    ("batch_islands", 1),
    ("batch_islands", 2),
    ("widened", 1),
    ("widened", 2),
    ("widened_islands", 1),
    ("widened_islands", 2),
    ("widened_short", 2),
    ("elimination", 1),
    ("junction_tree", 1),
    ("junction_tree", 2),
    ("conditioned", 1),
    ("conditioned", 2),
    ("n_best", 1),
    ("pairwise", 1),
    ("entropy", 1),
    ("loopy bp", 1),
    ("loopy bp", 2),
    ("loopy residual", 1),
    ("loopy rounds", 2),
    ("loopy tree", 1),
    ("loopy tree set_up", 1),
    ("loopy trw", 2),
    ("loopy trw set_up", 1),
    ("loopy mean_field", 1),
    ("loopy structured_mean_field", 1),
    ("loopy bp decode", 2),
    ("loopy trw decode", 1),
    ("loopy ad3 decode", 2),
]

#: Beginnings of the names of calls that take a deadline.
DEADLINES = ("long", "batch", "widened", "elimination", "conditioned", "loopy")

#: Source of a child: it defines `call`, and `threads`; `call(deadline=)` where `asked_late`.
CALLS = (
    """
import sys, time
import numpy as np
import valuesparse as vs
what, threads = sys.argv[1], int(sys.argv[2])
rng = np.random.default_rng(0)
def chain(n, k, each=None, scale=1, dtype=np.float64, contested=False):
    rows = rng.normal(size=(400, k))
    if contested:  # every row makes an island, and tables release it
        rows[np.arange(400), rng.integers(0, k, 400)] += 14.0
    rows = np.tile(rows, (-(-n // 400), 1))[:n]  # drawing them all takes long
    return vs.Chain((scale * rows).astype(dtype),
                    ((6 if contested else scale) * rng.normal(size=(k, k))).astype(dtype),
                    lengths=None if each is None else np.full(n // each, each))
contested = what.endswith("islands")
if what.startswith("long"):
    model = chain(12_000, 1500, contested=contested)
elif what.startswith("batch"):
    model = chain(240_000, 256, 30, contested=contested)
if what.startswith(("long", "batch")):
    zeta = 0.9 if contested else 1.0
    call = lambda **limit: vs.infer(model, zeta=zeta, threads=threads, **limit)
elif what == "widened":
    model = chain(24_000, 100, 40, 3000)
    call = lambda **limit: vs.infer(model, threads=threads, **limit)
elif what == "widened_islands":
    model = chain(24_000, 100, 40, 3000)
    call = lambda **limit: vs.infer(model, threads=threads, zeta=0.9, **limit)
elif what == "widened_short":
    model = chain(600_000, 9, 40, 3000)
    call = lambda **limit: vs.infer(model, threads=threads, **limit)
elif what in ("elimination", "junction_tree", "conditioned"):
    side = 200 if what == "elimination" else 20
    grid = vs.FactorGraph([2] * side * side)
    for v in range(side * side):
        for u in [v - 1] * (v % side > 0) + [v - side] * (v >= side):
            grid.add([u, v], np.zeros((2, 2)))
    call = lambda **limit: vs.JunctionTree(grid, **limit)
    if what == "junction_tree":
        call = lambda: vs.JunctionTree(grid).infer(threads=threads)
    if what == "conditioned":
        whole = vs.JunctionTree(grid).memory
        tree = vs.JunctionTree(grid, memory_limit=whole // 8)
        assert tree.divide().slices > 8
        call = lambda **limit: tree.infer(threads=threads, **limit)
elif "loopy" in what:
    side = 600 if what.endswith("set_up") else 60
    v = np.arange(side * side).reshape(side, side)
    pairs = np.concatenate([np.stack([a.ravel(), b.ravel()], 1)
                            for a, b in ((v[1:], v[:-1]), (v[:, 1:], v[:, :-1]))])
    grid = vs.FactorGraph([2] * v.size)
    grid.add_features(vs.factors.Features(pairs, 3 * rng.normal(size=len(pairs)),
                                          fires=np.eye(2, dtype=bool)))
    grid.add_features(vs.factors.Features(v.reshape(-1, 1), rng.normal(size=v.size)))
    name = what.split()[1]
    kinds = {m.name: m for m in (vs.AD3, vs.BP, vs.TRW, vs.MeanField, vs.StructuredMeanField)}
    order = {"schedule": name} if name in ("residual", "rounds", "tree") else {}
    method = kinds.get(name, vs.BP)(tolerance=0.0, max_iterations=10**7, **order)
    ask = vs.decode if "decode" in what else vs.infer
    call = lambda **limit: ask(grid, method=method, threads=threads, **limit)
elif what == "n_best":
    model = chain(2000, 400)
    call = lambda: vs.decode(model, n_best=1000, threads=threads)
else:
    result = vs.infer(chain(800, 200, None, 3000, np.float32))
    call = lambda: getattr(result, what)(threads=threads)
"""
    + f"asked_late = what.startswith({DEADLINES})\n"
)
