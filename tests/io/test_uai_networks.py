"""UAI files that say BAYES: networks, and graphs that are none."""

from __future__ import annotations

import io
import pickle

import numpy as np
import pytest
from checks import assert_same_bits
from graph_files import UAI_MODEL, assert_same_tables

import valuesparse as vs
from valuesparse.inference._snapshots import snapshot_of

#: P(c | a, b), P(a), P(b | a): tables in no order, parents with higher numbers.
NETWORK = b"""BAYES
3
2 3 2
3
3 2 1 0
1 2
2 2 1

12
 0.1 0.9  0.25 0.75  1 0
 0.5 0.5  0.3 0.7  0.01 0.99
2
 0.8 0.2
6
 0.6 0.3 0.1
 0.2 0.2 0.6
"""


def written(graph: vs.FactorGraph, *, bif: bool = False) -> bytes:
    file = io.StringIO()
    if bif:
        vs.write_bif(graph, file)
    else:
        vs.write_uai(graph, file, kind="BAYES")
    return file.getvalue().encode()


def test_a_network_goes_through_bif_and_comes_back() -> None:
    graph = vs.read_uai(NETWORK)
    assert graph.conditional == {0: 0, 1: 2, 2: 1}
    assert graph.parents(0) == (2, 1)
    assert [vs.read_uai(NETWORK.replace(b"BAYES", b"bayes")).parents(v) for v in (1, 2)] == [
        (2,),
        (),
    ]
    network = vs.read_bif(written(graph, bif=True))
    again = vs.read_uai(written(network))
    assert again.conditional == {0: 0, 1: 1, 2: 2}
    for f in graph.factors:
        assert again.factor(f.scope[-1]).scope == f.scope
        assert_same_bits(again.factor(f.scope[-1]).log_table, f.log_table)
    assert written(vs.read_bif(written(again, bif=True)), bif=True) == written(network, bif=True)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_a_network_learns_as_one_that_was_built(missing: float) -> None:
    graph, built = vs.read_uai(NETWORK), vs.FactorGraph([2, 3, 2])
    for f in graph.factors:
        *parents, child = f.scope
        built.add_cpt(child, parents, np.exp(f.log_table))
    data = vs.sample(built, 200, 0)
    data[np.random.default_rng(1).random(data.shape) < missing] = -1
    for g in (graph, built):
        assert g.fit(data).fitted is not None
    for f, g in zip(graph.factors, built.factors, strict=True):
        np.testing.assert_allclose(np.exp(f.log_table), np.exp(g.log_table), atol=1e-9)
    np.testing.assert_allclose(vs.infer(graph)[0], vs.infer(built)[0], atol=1e-9)


@pytest.mark.parametrize("copied", ["read", "copy", "part", "pickle"])
def test_nothing_is_left_out_of_tables_that_are_not_normalised(copied: str) -> None:
    """The rows are up to 6e-7 off one, which log Z has to say."""
    graph = vs.read_uai(NETWORK.replace(b"0.6 0.3 0.1", b"0.6000006 0.3 0.1"))
    if copied == "copy":
        graph = graph.copy()
    elif copied == "part":
        graph = graph.part(np.arange(3))
    elif copied == "pickle":
        graph = pickle.loads(pickle.dumps(graph))
    assert len(graph.conditional) == 3
    assert not snapshot_of(graph).conditional
    expected = np.log(0.8 * 1.0000006 + 0.2)
    for log_z in (vs.infer(graph).log_z, vs.JunctionTree(graph).log_z()):
        assert log_z == pytest.approx(expected, abs=1e-12)
    assert float(vs.log_prob(graph, {2: 0})) == pytest.approx(
        np.log(0.8 * 1.0000006) - expected, abs=1e-12
    )


@pytest.mark.parametrize(
    "text",
    [
        NETWORK.replace(b"2 2 1\n", b"2 1 2\n"),  # variable 1 has no table, variable 2 has two
        NETWORK.replace(b"1 2\n2 2 1", b"1 1\n2 2 1").replace(b"2\n 0.8", b"3\n 0 0.8"),
        NETWORK.replace(b"0.8 0.2", b"0.8 0.3"),
        NETWORK.replace(b"0.8 0.2", b"1e308 1.7e308"),
        b"BAYES 2 2 2 2 2 0 1 2 1 0 4 0.5 0.5 0.5 0.5 4 0.5 0.5 0.5 0.5",  # a cycle
    ],
)
def test_other_files_that_say_bayes_are_read_as_before(text: bytes) -> None:
    graph = vs.read_uai(text)
    assert not graph.conditional
    assert_same_tables(graph, vs.read_uai(text.replace(b"BAYES", b"MARKOV")))
    with pytest.raises(ValueError, match=r"factor 0 is no conditional table.* of a UAI file"):
        written(graph, bif=True)


def test_no_file_that_says_markov_is_a_network() -> None:
    for text in (NETWORK.replace(b"BAYES", b"MARKOV"), UAI_MODEL):
        assert not vs.read_uai(text).conditional
    for text in (b"BAYES 0 0", b"BAYES 1 2 0", b"BAYES 1 2 1 0 1 0.5"):
        assert not vs.read_uai(text).conditional
