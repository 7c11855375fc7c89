"""Every SIMD level this machine can run gives the same answers."""

from __future__ import annotations

import base64
import pickle

import numpy as np
import pytest
from children import run

import valuesparse as vs

LEVELS = ["scalar", "x86-64-v2", "x86-64-v3", "x86-64-v4", "neon"]

WORK = """
import base64, pickle, sys
import numpy as np
import valuesparse as vs
rng = np.random.default_rng(3)
out = {"level": vs.simd_level()}
for dtype in (np.float64, np.float32):
    for k in (1, 2, 3, 5, 8, 9, 17, 45, 64):
        lengths = [7, 0, 1, 30, 2]
        unary = (rng.normal(size=(40, k)) * 3).astype(dtype)
        unary[rng.random((40, k)) < 0.1] = -np.inf
        unary[:, 0] = np.where(unary.max(1) == -np.inf, 0, unary[:, 0])
        unary[10:14, : k // 2] -= 5000
        transition = rng.normal(size=(k, k)).astype(dtype)
        model = vs.Chain(unary, transition, lengths)
        name = np.dtype(dtype).name
        for zeta in (1.0, 0.8):
            r = vs.infer(model, zeta=zeta)
            out[name, k, zeta] = [r.marginals, r.log_z, r.pairwise(), r.entropy(), r.islands]
        parent = np.r_[-1, (np.arange(39) * rng.random(39)).astype(int)]
        tree = vs.Tree(parent, unary, transition)
        for zeta in (1.0, 0.8):
            r = vs.infer(tree, zeta=zeta)
            out[name, k, "tree", zeta] = [r.marginals, r.log_z, r.pairwise(), r.islands]
        d = vs.decode(tree)
        out[name, k, "tree", "decode"] = [d.states, d.score]
        d = vs.decode(model, n_best=3)
        out[name, k, "decode"] = [d.states, d.score]
        out[name, k, "sample"] = [vs.sample(model, 4, 1)]
sys.stdout.write(base64.b64encode(pickle.dumps(out)).decode())
"""


@pytest.fixture(scope="module")
def by_level() -> dict[str, dict]:
    found = {}
    for level in LEVELS:
        done = run(WORK, timeout=120, VALUESPARSE_SIMD=level)
        if done.returncode == 0:
            found[level] = pickle.loads(base64.b64decode(done.stdout))
        else:
            # A level that cannot run here says so, by name, and never by crashing.
            assert done.returncode == 1, done.stderr
            assert "VALUESPARSE_SIMD" in done.stderr, done.stderr
            assert level in done.stderr
    return found


def test_the_level_asked_for_is_the_level_used(by_level: dict[str, dict]) -> None:
    assert "scalar" in by_level
    assert all(out["level"] == level for level, out in by_level.items())


def test_the_default_is_one_of_them(by_level: dict[str, dict]) -> None:
    done = run("import valuesparse as vs; print(vs.simd_level())")
    default = done.stdout.strip()
    assert default in by_level
    # And it is the best of them.
    assert LEVELS.index(default) == max(LEVELS.index(level) for level in by_level)
    assert vs.simd_level() in LEVELS


def test_levels_agree(by_level: dict[str, dict]) -> None:
    base = by_level["scalar"]
    for level, out in by_level.items():
        for key, arrays in base.items():
            if key == "level":
                continue
            atol = 1e-5 if key[0] == "float32" else 1e-12
            if key[2] == "sample":
                continue
            for want, got in zip(arrays, out[key], strict=True):
                np.testing.assert_allclose(
                    got.astype(float),
                    want.astype(float),
                    rtol=atol,
                    atol=atol,
                    err_msg=f"{level} {key}",
                )


def test_unknown_level_fails_at_import() -> None:
    done = run("import valuesparse", VALUESPARSE_SIMD="x86-64-v9")
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert "VALUESPARSE_SIMD" in last
    assert "x86-64-v9" in last
    # Those that it offers can be had: once it named all that there are anywhere.
    offered = last.split("choose one of ")[1].split(", or unset")[0].split(", ")
    assert "scalar" in offered
    for level in offered:
        assert run("import valuesparse", VALUESPARSE_SIMD=level).returncode == 0
