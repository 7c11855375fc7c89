"""Posteriors of the networks that pgmpy ships, against pyAgrum on the same tables."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

import valuesparse as vs

gum = pytest.importorskip("pyagrum", reason="compares with pyAgrum")
pgmpy = pytest.importorskip("pgmpy", reason="pgmpy ships the networks")

FOLDER = Path(pgmpy.__file__).parent / "utils" / "example_models"
QUICK = [
    "asia",
    "cancer",
    "sachs",
    "child",
    "survey",
    "earthquake",
    "alarm",
    "insurance",
    "hailfinder",
    "hepar2",
]
SLOW = ["win95pts", "andes", "pigs", "pathfinder", "water", "mildew", "barley", "munin", "munin2"]
SLOW += ["munin1", "munin3", "munin4", "diabetes"]  # with link, pyAgrum runs out of memory
#: States of child that pyAgrum cannot parse.
UNREADABLE = {
    "<5": "below_5", "5-12": "from_5", "12+": "from_12", "<7.5": "below_7", ">=7.5": "from_7",
    "0-3_": "a_", "4-10_": "b_", "11-30_": "c_", "Asy/": "Asy_", "Transp.": "Transp",
}  # fmt: skip
NAMES = [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]


@pytest.mark.parametrize("name", NAMES)
def test_posteriors(name: str, tmp_path: Path, rng: np.random.Generator) -> None:
    path = tmp_path / f"{name}.bif"
    text = gzip.decompress((FOLDER / f"{name}.bif.gz").read_bytes()).decode()
    for theirs, plain in UNREADABLE.items() if name == "child" else ():
        text = text.replace(theirs, plain)
    path.write_text(text)
    network = gum.loadBN(str(path))
    for node in network.nodes():
        network.cpt(node).normalizeAsCPT()
    graph = vs.from_pyagrum(network)
    assert graph.n_variables == network.size()
    sample = vs.sample(graph, 1, rng)[0]
    seen = rng.permutation(graph.n_variables)[: graph.n_variables // 5]
    known = {graph.names[v]: graph.states[v][sample[v]] for v in seen}
    for evidence in ({}, known):
        r = vs.infer(graph, evidence=evidence)
        theirs = gum.LazyPropagation(network)
        if evidence:
            theirs.setEvidence(evidence)
        theirs.makeInference()
        for v, variable in enumerate(graph.names):
            expected = theirs.posterior(variable).toarray()
            np.testing.assert_allclose(r.marginals[v], expected, rtol=0, atol=1e-9)
        expected = np.log(theirs.evidenceProbability()) if evidence else 0.0
        assert r.log_z == pytest.approx(expected, abs=1e-9)
