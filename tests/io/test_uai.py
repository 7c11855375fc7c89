"""UAI models."""

from __future__ import annotations

import gzip
import io
import pickle
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graph_files import DATA, LOGS, UAI_MODEL, assert_same_tables, graphs, weights
from hypothesis import given
from hypothesis import strategies as st

import valuesparse as vs
from valuesparse.io import (
    ModelFormatError,
    TextFormatError,
    read_uai_evidence,
    read_uai_result,
    write_uai_evidence,
)
from valuesparse.io._tables import numbers_of

# Name: variables, factors, largest cardinality, table entries, evidence; from the data's README.
INSTANCES = {
    "Alchemy_11": (440, 860, 2, 4080, 0),
    "CSP_12": (67, 271, 4, 2572, 0),
    "DBN_11": (40, 440, 2, 1680, 0),
    "Grids_11": (100, 300, 2, 1000, 0),
    "Grids_12": (100, 280, 2, 920, 0),
    "ObjectDetection_11": (60, 225, 11, 20625, 0),
    "ObjectDetection_34": (60, 210, 11, 18810, 0),
    "Pedigree_11": (385, 385, 3, 3152, 37),
    "Pedigree_12": (385, 385, 3, 3152, 37),
    "Promedus_13": (894, 894, 2, 4736, 4),
    "Promedus_15": (385, 385, 2, 2108, 4),
    "Promedus_16": (715, 715, 2, 3672, 5),
    "Promedus_24": (200, 200, 2, 1008, 4),
    "Promedus_26": (614, 614, 2, 3080, 6),
    "Promedus_27": (410, 410, 2, 2234, 5),
    "Promedus_29": (434, 434, 2, 2196, 8),
    "Promedus_30": (306, 306, 2, 1596, 13),
    "Promedus_33": (378, 378, 2, 1906, 2),
    "Promedus_34": (415, 415, 2, 2276, 3),
    "Segmentation_11": (228, 845, 2, 2924, 0),
    "Segmentation_12": (229, 851, 2, 2946, 0),
    "Segmentation_14": (226, 845, 2, 2928, 0),
    "hard/CSP_11": (82, 462, 4, 3306, 0),
    "hard/DBN_13": (44, 528, 2, 2024, 0),
    "hard/Grids_15": (400, 1160, 2, 3840, 0),
    "hard/Grids_17": (400, 1160, 2, 3840, 0),
    "hard/linkage_11": (1077, 1077, 3, 8179, 0),
    "hard/linkage_14": (448, 448, 5, 8680, 0),
    "hard/linkage_16": (402, 402, 5, 5025, 0),
    "hard/linkage_21": (437, 437, 5, 6698, 0),
    "hard/ObjectDetection_28": (60, 210, 11, 18810, 0),
    "hard/ObjectDetection_29": (60, 195, 16, 35520, 0),
    "hard/Promedus_14": (414, 414, 2, 2434, 9),
    "hard/Promedus_38": (668, 668, 2, 3806, 5),
    "hard/c432.isc.cnf": (196, 514, 2, 6648, 0),
    "hard/c880.isc.cnf": (417, 1060, 2, 5936, 0),
}


def written(graph: vs.FactorGraph, **options: object) -> bytes:
    file = io.BytesIO()
    vs.write_uai(graph, file, **options)  # type: ignore[arg-type]
    return file.getvalue()


def test_last_variable_changes_fastest() -> None:
    graph = vs.read_uai(UAI_MODEL)
    assert graph.cardinalities == (2, 2, 3)
    assert [f.scope for f in graph.factors] == [(0, 1), (1, 0, 2)]
    tables = [np.exp(f.log_table) for f in graph.factors]
    np.testing.assert_allclose(tables[0], [[0.436, 0.564], [0.128, 0.872]], rtol=1e-15)
    np.testing.assert_allclose(tables[1][0, 1], [0.811, 0, 0.189], rtol=1e-15)
    np.testing.assert_allclose(tables[1][1, 1], [1e-3, 200, 0.5], rtol=1e-14)
    assert graph.factors[1].log_table[0, 1, 1] == -np.inf


@pytest.mark.parametrize("name", INSTANCES)
def test_instances(name: str) -> None:
    path = DATA / f"{name}.uai"
    if not path.exists():
        pytest.skip("the instances are not beside the repository")
    graph = vs.read_uai(path, evidence=DATA / f"{name}.uai.evid")
    variables, factors, states, entries, evidence = INSTANCES[name]
    assert (graph.n_variables, graph.n_factors) == (variables, factors)
    assert max(graph.cardinalities) == states
    assert sum(f.log_table.size for f in graph.factors) == entries
    assert len(graph.evidence) == evidence
    assert read_uai_result(DATA / f"{name}.uai.PR").task == "PR"
    marginals = DATA / f"{name}.uai.MAR"
    if marginals.exists():
        found = read_uai_result(marginals).marginals
        assert found is not None
        assert [len(p) for p in found] == list(graph.cardinalities)
        assert np.abs([p.sum() - 1 for p in found]).max() < 1e-5
    known = dict(graph.evidence)
    again = vs.read_uai(written(graph, evidence=io.StringIO()))
    assert_same_tables(graph, again)
    evidence_file = io.StringIO()
    write_uai_evidence(known, evidence_file)
    assert read_uai_evidence(evidence_file.getvalue().encode()) == known


def test_the_same_model_in_two_formats() -> None:
    if not DATA.exists():
        pytest.skip("the instances are not beside the repository")
    a = vs.read_uai(DATA / "loopy" / "libdai_testfast.uai")
    b = vs.read_fg(DATA / "loopy" / "libdai_testfast.fg")
    for f, g in zip(a.factors, b.factors, strict=True):
        axes = [f.scope.index(v) for v in g.scope]
        np.testing.assert_array_equal(f.log_table.transpose(axes), g.log_table)


@pytest.mark.parametrize("kind", ["MARKOV", "BAYES", "markov"])
def test_kinds(kind: str) -> None:
    assert_same_tables(
        vs.read_uai(UAI_MODEL.replace(b"MARKOV", kind.encode())), vs.read_uai(UAI_MODEL)
    )


def test_uai_files_of_pyagrum_are_refused() -> None:
    """It orders parents the other way round: P(B | A, C) below has the states of A fastest."""
    text = b"""BAYES
3
2 3 2
3
1 0   # A
3 0 2 1   # B
1 2   # C


2
  0.5 0.5

12
  1 0 0
  0 1 0
  0 0 1
  1 0 0

2
  0.25 0.75
"""
    with pytest.raises(TextFormatError, match=r"line 5, comment: .* vs\.from_pyagrum, or save it"):
        vs.read_uai(text)
    with pytest.raises(TextFormatError, match=r"line 1, comment: "):
        vs.read_uai(b"#" + UAI_MODEL)


@pytest.mark.smoke
def test_sources(tmp_path: Path) -> None:
    plain, packed = tmp_path / "m.uai", tmp_path / "m.uai.gz"
    plain.write_bytes(UAI_MODEL)
    packed.write_bytes(gzip.compress(UAI_MODEL))
    expected = vs.read_uai(UAI_MODEL)
    with open(plain, "rb") as binary, open(plain, encoding="utf-8") as text:
        for source in (plain, str(plain), packed, binary, text, bytearray(UAI_MODEL),
                       memoryview(UAI_MODEL), UAI_MODEL.replace(b"\n", b"\r\n")):  # fmt: skip
            assert_same_tables(vs.read_uai(source), expected)
    with pytest.raises(FileNotFoundError):
        vs.read_uai(tmp_path / "none.uai")
    with pytest.raises(TypeError, match="source must be a path, a file or bytes, not int"):
        vs.read_uai(3)  # type: ignore[arg-type]


@pytest.mark.smoke
def test_targets(tmp_path: Path) -> None:
    graph = vs.read_uai(UAI_MODEL)
    packed = tmp_path / "m.uai.gz"
    vs.write_uai(graph, packed)
    assert packed.read_bytes()[:2] == b"\x1f\x8b"
    first = packed.read_bytes()
    vs.write_uai(graph, packed)
    assert packed.read_bytes() == first  # no time stamp
    assert_same_tables(vs.read_uai(packed), graph)
    with open(tmp_path / "m.uai", "w", encoding="utf-8") as file:
        vs.write_uai(graph, file)
    assert_same_tables(vs.read_uai(tmp_path / "m.uai"), graph)
    with pytest.raises(TypeError, match="target must be a path or a file"):
        vs.write_uai(graph, 3)  # type: ignore[arg-type]


def test_failed_writes_leave_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "m.uai"
    path.write_text("before")
    path.chmod(0o640)
    graph = vs.FactorGraph([2])
    graph.add([0], [0.0, 800.0])
    with pytest.raises(ValueError, match=r"factor 0 has the log-potential 800"):
        vs.write_uai(graph, path)
    assert path.read_text() == "before"
    vs.write_uai(vs.read_uai(UAI_MODEL), path)
    assert path.stat().st_mode & 0o777 == 0o640
    assert [p.name for p in tmp_path.iterdir()] == ["m.uai"]
    with pytest.raises(FileNotFoundError):
        vs.write_uai(vs.read_uai(UAI_MODEL), tmp_path / "no" / "m.uai")


@given(graphs())
def test_written_and_read_is_the_same(graph: vs.FactorGraph) -> None:
    evidence = io.StringIO()
    text = written(graph, evidence=evidence)
    again = vs.read_uai(text, evidence=evidence.getvalue().encode())
    assert_same_tables(graph, again)
    assert again.evidence == graph.evidence
    assert written(again, evidence=io.StringIO()) == text


@given(graphs(logs=True, evidence=False))
def test_any_log_potentials_come_back_to_the_last_bit_or_two(graph: vs.FactorGraph) -> None:
    for f, g in zip(graph.factors, vs.read_uai(written(graph)).factors, strict=True):
        np.testing.assert_allclose(f.log_table, g.log_table, rtol=1e-15, atol=2e-16)


@given(graphs())
def test_evidence_becomes_tables(graph: vs.FactorGraph) -> None:
    text = written(graph)
    again = vs.read_uai(text)
    assert not again.evidence
    np.testing.assert_array_equal(weights(graph), weights(again))


def test_likelihoods_become_tables() -> None:
    graph = vs.read_uai(UAI_MODEL, evidence={0: [0.0, -1.0], 1: 1})
    evidence = io.StringIO()
    again = vs.read_uai(written(graph, evidence=evidence), evidence.getvalue().encode())
    assert again.evidence == {1: 1}
    assert again.factors[2].log_table.tolist() == [0.0, -1.0]


@given(st.lists(LOGS, max_size=30))
def test_numbers_whose_logs_they_are(logs: list[float]) -> None:
    with np.errstate(divide="ignore"):
        possible = np.log(numbers_of(np.array(logs), "table"))
        np.testing.assert_array_equal(np.log(numbers_of(possible, "table")), possible)


@pytest.mark.parametrize("write", [vs.write_uai, vs.write_fg])
def test_short_numbers_come_back_short(write: Any) -> None:
    """Several numbers have the logarithm of 0.1; 0.10000000000000002 is one of them."""
    numbers = np.arange(1, 1000) / 1000
    graph = vs.FactorGraph([999])
    graph.add([0], probabilities=numbers)
    write(graph, file := io.StringIO())
    words = file.getvalue().split()
    found = words[-999:] if write is vs.write_uai else words[-1997::2]
    assert found == [repr(x) for x in numbers.tolist()]
    hard = [5e-324, 1e-300, 1 / 3, np.nextafter(0.1, 1.0), 2.0**60 + 4096, 1.7976931348623157e308]
    logs = np.log(hard)
    np.testing.assert_array_equal(np.log(numbers_of(logs, "table")), logs)


def test_subnormal_numbers_come_back() -> None:
    graph = vs.read_uai(b"MARKOV 1 2 1 1 0 2 5e-324 3e-310")
    assert_same_tables(vs.read_uai(written(graph)), graph)


def test_bayes_is_checked() -> None:
    graph = vs.FactorGraph([2, 3], names=["a", "b"])
    graph.add(["a"], np.log([0.25, 0.75]))
    graph.add(["a", "b"], np.log([[0.5, 0.25, 0.25], [0.125, 0.375, 0.5]]))
    text = written(graph, kind="BAYES")
    assert text.startswith(b"BAYES\n2\n2 3\n2\n1 0\n2 0 1\n")
    assert_same_tables(vs.read_uai(text), graph)
    graph.add(["b"], [0.0, 0.0, 0.0])
    with pytest.raises(ValueError, match="factor 2 and factor 1 both end with variable 'b'"):
        written(graph, kind="BAYES")
    graph = vs.FactorGraph([2, 2])
    graph.add([0], [0.0, 0.0])
    with pytest.raises(ValueError, match="factor 0 has a row whose sum is 1 away from 1"):
        written(graph, kind="BAYES")
    graph = vs.FactorGraph([2, 2])
    with pytest.raises(ValueError, match="variable 0 has no table of its own"):
        written(graph, kind="BAYES")
    graph.add([0, 1], np.log(np.full((2, 2), 0.5)))
    graph.add([1, 0], np.log(np.full((2, 2), 0.5)))
    with pytest.raises(ValueError, match=r"a cycle 0 -> 1 -> 0|a cycle 1 -> 0 -> 1"):
        written(graph, kind="BAYES")
    with pytest.raises(ValueError, match="kind must be"):
        written(graph, kind="bayes")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "line 1, header: expected MARKOV or BAYES, got the end of the file"),
        (b"\n\nMARKUP 3", "line 3, header: expected MARKOV or BAYES, got 'MARKUP'"),
        (b"MARKOV", "line 1, header: the file ends where 1 more number of variables should be"),
        (b"MARKOV two", "line 1, header: 'two' is not a number"),
        (b"MARKOV\n2.5 2 2 0", "line 2, header: number of variables: '2.5' is not a whole number"),
        (b"MARKOV\n-1 2 2 0", "line 2, header: number of variables: '-1' is less than 0"),
        (b"MARKOV\n999999\n2 2 0", "'999999' is more than 3, which is all that fits in the rest"),
        (b"MARKOV 1\n0 0", "line 2, cardinalities: number of states: '0' is less than 1"),
        (b"MARKOV 1\n2000000000 0", "line 2, cardinalities: with '2000000000' states"),
        (b"MARKOV 1 2\n7", "number of factors: '7' is more than 0"),
        (b"MARKOV 1 2 1\n2 0 0 4 1 1 1 1", "line 2, scope of factor 0: variable '0' stands there"),
        (b"MARKOV 1 2 1\n1 1 2 1 1", "scope of factor 0: variable: '1' is more than 0"),
        (b"MARKOV 1 2 1\n40 1 2 1 1", "number of variables: '40' is more than 32"),
        (b"MARKOV 1 2 1\n1 0\n3 1 1 1", "line 3, table of factor 0: expected the number of its"),
        (b"MARKOV 1 2 1\n1 0\n2 1", "the file ends where 1 more numbers should be"),
        (b"MARKOV 1 2 1\n1 0\n2 1 x", "line 3, table of factor 0: 'x' is not a number"),
        (b"MARKOV 1 2 1\n1 0\n2 1 1_0", "line 3, table of factor 0: '1_0' is not a number"),
        (b"MARKOV 1 2 1\n1 0\n2 1 1.0.0", "'1.0.0' is not a number"),
        (b"MARKOV 1 2 1\n1 0\n2 1 nan", "'nan' is not a number"),
        (b"MARKOV 1 2 1\n1 0\n2 1\n-0.5", "line 4, table of factor 0: '-0.5' is negative"),
        (b"MARKOV 1 2 1\n1 0\n2 1 1e999", "table of factor 0: '1e999' is not finite"),
        (b"MARKOV 1 2 1\n1 0\n2 1 1\n1", "line 4, end of the model: expected nothing more, got"),
        (b"MARKOV 1 2 1\n1 0\n2 1 \xff\x00", r"line 3, table of factor 0: '\\xff"),
    ],
)  # fmt: skip
def test_errors_name_line_and_word(text: bytes, message: str) -> None:
    with pytest.raises(TextFormatError) as caught:
        vs.read_uai(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.line, copy.token) == (
        str(caught.value), caught.value.line, caught.value.token
    )  # fmt: skip


def test_small_files_cannot_ask_for_memory() -> None:
    scope = " ".join(map(str, range(30)))
    texts = [
        b"MARKOV 1000000000000 2 2",
        b"MARKOV 1 2000000000 0",
        b"MARKOV 30 " + b"1000 " * 30 + b"1 30 " + scope.encode() + b" 5 1 1 1 1 1",
        b"MARKOV 1 2 100000000",
        gzip.compress(b"MARKOV 1 2 1 1 0 2 1 1" + bytes(1 << 27)),
    ]
    tracemalloc.start()
    for text in texts[:-1]:
        with pytest.raises(ModelFormatError):
            vs.read_uai(text)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
    with pytest.raises(ModelFormatError, match=f"hold more than {100 * len(texts[-1])} bytes of"):
        vs.read_uai(texts[-1])


def test_damaged_gzip() -> None:
    packed = gzip.compress(UAI_MODEL)
    for data in (packed[:-10], packed[:20] + b"\0\0\0" + packed[23:], packed[:3]):
        with pytest.raises(ModelFormatError, match="gzip data at byte 0: damaged"):
            vs.read_uai(data)


def test_errors_name_the_file(tmp_path: Path) -> None:
    for name, read in (("m.uai", vs.read_uai), ("m.fg", vs.read_fg), ("a.MAR", read_uai_result)):
        path = tmp_path / name
        path.write_text("what")
        for source in (path, str(path)):
            with pytest.raises(TextFormatError) as caught:
                read(source)
            assert caught.value.path == str(path)
            assert str(caught.value).startswith(f"{path}: line 1, ")
        with pytest.raises(TextFormatError) as caught:
            read(io.BytesIO(b"what"))
        assert caught.value.path is None
        path.write_bytes(b"\x1f\x8b damaged")
        with pytest.raises(ModelFormatError) as broken:
            read(path)
        assert str(broken.value).startswith(f"{path}: gzip data at byte 0: damaged")


def test_errors_of_writing_name_the_file_that_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = vs.read_uai(UAI_MODEL)
    path = tmp_path / "none" / "model.uai"
    with pytest.raises(FileNotFoundError) as caught:
        vs.write_uai(graph, path)
    assert str(caught.value).endswith(f"No such file or directory: {str(path)!r}")

    def refuse(source: Path, target: Path) -> None:
        raise PermissionError(13, "Permission denied", str(source), None, str(target))

    monkeypatch.setattr("os.replace", refuse)
    path = tmp_path / "model.uai"
    with pytest.raises(PermissionError) as denied:
        vs.write_uai(graph, path)
    assert str(denied.value) == f"[Errno 13] Permission denied: {str(path)!r}"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("model", [3, None, vs.Chain(np.zeros((2, 2)), np.zeros((2, 2)))])
@pytest.mark.parametrize("write", [vs.write_uai, vs.write_fg, vs.to_pgmpy])
def test_only_graphs_are_written(model: object, write: Any, tmp_path: Path) -> None:
    arguments = (model,) if write is vs.to_pgmpy else (model, tmp_path / "model")
    with pytest.raises(TypeError, match=r"graph must be a valuesparse\.FactorGraph, got \w+"):
        write(*arguments)
    assert list(tmp_path.iterdir()) == []


def test_names_of_files_may_be_as_long_as_names_can_be(tmp_path: Path) -> None:
    path = tmp_path / ("\N{GREEK SMALL LETTER ZETA}" * 120 + ".uai")
    vs.write_uai(vs.read_uai(UAI_MODEL), path)
    assert vs.read_uai(path).n_variables == 3


def test_a_byte_order_mark_is_no_word() -> None:
    model = b"\xef\xbb\xbfMARKOV\n1\n2\n1\n1 0\n2\n1 3\n"
    np.testing.assert_allclose(vs.infer(vs.read_uai(model)).marginals[0], [0.25, 0.75])
