"""Importing the package costs little: what few programs need is imported when it is asked for."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import valuesparse as vs

#: Dependencies and extras that `import valuesparse` leaves alone.
HEAVY = (
    "click", "dask", "joblib", "matplotlib", "mpmath", "pandas", "pgmpy", "pyarrow", "rich",
    "scipy", "sklearn", "torch",
)  # fmt: skip
#: Packages of ours whose import would take long.
LATER = ("bounds", "corpora", "crf", "io", "learning", "parsing", "relaxed", "schedule")


def loaded(program: str) -> list[str]:
    program = f"{program}\nimport json, sys; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-P" if sys.version_info >= (3, 11) else "-I", "-c", program],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return list(json.loads(done.stdout))


def of(packages: tuple[str, ...], names: list[str]) -> list[str]:
    return [name for name in names if name.split(".")[0] in packages]


@pytest.mark.smoke
def test_the_import_loads_no_dependency_but_numpy_and_half_of_the_package() -> None:
    names = loaded("import valuesparse")
    assert of(HEAVY, names) == []
    ours = [name.split(".")[1] for name in names if name.startswith("valuesparse.")]
    assert set(ours) & set(LATER) == set()
    assert len(ours) <= 100


def test_chains_and_exact_graphs_are_answered_without_scipy() -> None:
    names = loaded(
        "import valuesparse as vs\n"
        "import numpy as np\n"
        "chain = vs.Chain(np.zeros((3, 2)), np.eye(2))\n"
        "vs.infer(chain).pairwise(), vs.decode(chain).states, vs.infer(chain, zeta=0.9).islands\n"
        "graph = vs.FactorGraph([2, 2, 2])\n"
        "for pair in ((0, 1), (1, 2), (0, 2)): graph.add(pair, np.eye(2))\n"
        "vs.infer(graph)[0], vs.decode(graph).states, vs.infer(graph, method='bp')[0]\n"
    )
    assert of(HEAVY, names) == []


def test_memory_stays_near_that_of_numpy() -> None:
    pytest.importorskip("resource", reason="memory is told by resource, which Windows lacks")
    program = "import resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    numpy, ours = (
        int(subprocess.run(
            [sys.executable, "-c", f"import {name}\n{program}"],
            capture_output=True, text=True, check=True, cwd="/",
        ).stdout)
        for name in ("numpy", "valuesparse")
    )  # fmt: skip
    assert ours <= 1.5 * numpy


@pytest.mark.parametrize("name", ["crf", "hmm", "io", "learning", "parsing", "schedule"])
def test_packages_are_attributes_once_they_are_asked_for(name: str) -> None:
    names = loaded(f"import valuesparse as vs; assert '{name}' in dir(vs); vs.{name}")
    assert f"valuesparse.{name}" in names


@pytest.mark.parametrize("name", ["corpora", "crfsuite", "metrics"])
def test_modules_of_the_taggers_are_attributes_once_they_are_asked_for(name: str) -> None:
    module = f"valuesparse.crf.{name}"
    assert module not in loaded("import valuesparse")
    assert module in loaded(f"import valuesparse as vs; vs.crf.{name}.__all__")


def test_every_public_name_is_there_and_listed() -> None:
    for name in (*vs.__all__, "__version__", *vs._LATER):
        assert getattr(vs, name) is not None
        assert name in dir(vs)
    assert vs.relaxed.relax is vs.relax
    with pytest.raises(AttributeError, match="has no attribute 'chian'"):
        _ = vs.chian
