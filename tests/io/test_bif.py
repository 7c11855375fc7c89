"""Bayesian networks in BIF, through pgmpy's reader."""

from __future__ import annotations

import gzip
import importlib.util
from pathlib import Path

import numpy as np
import pytest

import valuesparse as vs
from valuesparse import _extras
from valuesparse._extras import MissingExtraError
from valuesparse.io import TextFormatError

pytest.importorskip("pgmpy", reason="pgmpy reads BIF")

# In the names of states, in layout and in comments all that pgmpy can be given.
MODEL = """network "a model" { property author nobody; }
// rain comes first
variable rain {
  type discrete [ 2 ] { "no", "yes" };
  property position = (1, 2);
}
variable WET { type discrete[3] {dry, 5-10_mm, >10}; }  /* two
lines */
probability (rain) { table 0.8, 0.2; }
probability ( WET | rain ) {
  (yes) 0.2, 0.3, 0.5;
  (no) 0.9, 1e-1 0;
}
"""


def example(name: str) -> Path:
    spec = importlib.util.find_spec("pgmpy")
    assert spec is not None
    assert spec.origin is not None
    path = Path(spec.origin).parent / "utils" / "example_models" / f"{name}.bif.gz"
    if not path.exists():
        pytest.skip("this version of pgmpy comes without its example networks")
    return path


@pytest.mark.smoke
@pytest.mark.parametrize("text", [MODEL, MODEL.replace("\n", "\r\n"), MODEL.rstrip()])
def test_names_states_and_tables(text: str) -> None:
    graph = vs.read_bif(text.encode())
    assert graph.names == ("rain", "WET")
    assert graph.states == (("no", "yes"), ("dry", "5-10_mm", ">10"))
    assert [f.scope for f in graph.factors] == [(0,), (0, 1)]
    np.testing.assert_allclose(np.exp(graph.factors[0].log_table), [0.8, 0.2], rtol=1e-15)
    expected = [[0.9, 0.1, 0.0], [0.2, 0.3, 0.5]]
    np.testing.assert_allclose(np.exp(graph.factors[1].log_table), expected, rtol=1e-15)
    r = vs.infer(graph, evidence={"WET": ">10"})
    assert r["rain"].tolist() == [0.0, 1.0]


def test_rows_are_normalised() -> None:
    graph = vs.read_bif(MODEL.replace("0.8, 0.2", "0.804, 0.201").encode())
    np.testing.assert_allclose(np.exp(graph.factors[0].log_table), [0.8, 0.2], rtol=1e-15)


def test_names_that_differ_in_case_only() -> None:
    graph = vs.read_bif(MODEL.replace("WET", "Rain").encode())
    assert graph.names == ("rain", "Rain")
    assert graph.factors[1].scope == (0, 1)


# Name: variables, CPT entries, zeros among them, largest number of states.
NETWORKS = {
    "asia": (8, 36, 4, 2),
    "alarm": (37, 752, 5, 4),
    "hailfinder": (56, 3741, 501, 11),
    "insurance": (27, 1419, 302, 5),
}
SLOW = {
    "water": (32, 13484, 6970, 4),
    "pathfinder": (109, 97851, 43070, 63),
    "mildew": (35, 547158, 509234, 100),
    "munin": (1041, 98423, 54967, 21),
    "diabetes": (413, 461069, 352224, 21),
}


@pytest.mark.parametrize(
    "name", [*NETWORKS, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]
)
def test_networks(name: str) -> None:
    graph = vs.read_bif(example(name))
    variables, entries, zeros, states = (NETWORKS | SLOW)[name]
    assert graph.n_variables == graph.n_factors == variables
    assert max(graph.cardinalities) == states
    tables = [f.log_table for f in graph.factors]
    assert sum(t.size for t in tables) == entries
    assert sum(int(np.isneginf(t).sum()) for t in tables) == zeros
    for v, (factor, table) in enumerate(zip(graph.factors, tables, strict=True)):
        assert factor.scope[-1] == v
        np.testing.assert_allclose(np.exp(table).sum(axis=-1), 1.0, rtol=1e-14)


def test_same_network_as_pyagrum_reads(tmp_path: Path) -> None:
    gum = pytest.importorskip("pyagrum", reason="pyAgrum is one of the rivals")
    path = tmp_path / "alarm.bif"
    path.write_bytes(gzip.decompress(example("alarm").read_bytes()))
    ours, theirs = vs.read_bif(path), vs.from_pyagrum(gum.loadBN(str(path)))
    assert set(ours.names) == set(theirs.names)
    by_child = {theirs.names[f.scope[-1]]: f for f in theirs.factors}
    for f in ours.factors:
        g = by_child[ours.names[f.scope[-1]]]
        names = [theirs.names[v] for v in g.scope]
        table = g.log_table.transpose([names.index(ours.names[v]) for v in f.scope])
        # pyAgrum reads tables as 32-bit numbers, and does not normalise.
        np.testing.assert_allclose(np.exp(f.log_table), np.exp(table), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("variable rain", "variabel rain", "line 3, model: expected network, variable or prob"),
        ("[ 2 ]", "[ 3 ]", "line 4, variable rain: 3 states announced, 2 listed"),
        ('"no"', '"yes"', "line 4, variable rain: state 'yes' is listed twice"),
        ("discrete [ 2 ]", "continuous", "line 3, variable rain: it has no 'type discrete"),
        ("variable WET", "variable rain", "line 7, variable rain: declared twice"),
        ("lines */", "lines", "line 7, comment: '/*' begins one that does not end"),
        ("( WET | rain )", "( WET | rein )", "line 10, probability block: there is no variable"),
        ("( WET | rain )", "( WET | WET )", "line 10, probability of WET: it has a variable twice"),
        ("(rain) { table 0.8", "(WET) { table 0.8, 0", "line 10, probability of WET: given twice"),
        ("probability (rain) { table 0.8, 0.2; }", "", "line 3, variable rain: it has no prob"),
        ("probability (rain) { table 0.8, 0.2; }",
         "probability (rain|WET) { table .8,.8,.8,.2,.2,.2; }", "a cycle"),
        ("0.3, 0.5", "0.3, half", "line 11, probability of WET: 'half' is not a number"),
        ("(yes) 0.2", "default 0.2", "line 11, probability of WET: 'default' rows are not supp"),
        ("(yes)", "(maybe)", "line 11, probability of WET: rain has no state 'maybe'"),
        ("(yes)", "(yes, no)", "line 11, probability of WET: 2 states for 1 parents"),
        ("0.3, 0.5", "0.3", "line 11, probability of WET: the row that begins with '(yes)' has 2"),
        ("0.3, 0.5", "0.3, 0.5, 0.5", "line 11, probability of WET: the row that begins with '(y"),
        ("0.3, 0.5", "0.3, 0.7", "line 10, probability of WET: a row does not sum to 1, but to"),
        ("0.3, 0.5", "-0.3, 1.1", "line 11, probability of WET: '-0.3' is not a number"),
        ("(yes)", "(no)", "line 12, probability of WET: the row that begins with '(no)' is"),
        ("(no) 0.9, 1e-1 0;", "", "line 10, probability of WET: 1 rows, but 2 are needed"),
        ("0.8, 0.2", "0.8, 0.2.0", "line 9, probability of rain: '0.2.0' is not a number"),
        ("table 0.8, 0.2;", "table 0.8, 0.2", "line 9, probability of rain: expected a semicolon"),
        ("1e-1 0;\n}", "1e-1 0;\n", "line 10, probability block: 'probability' has no closing"),
    ],
)  # fmt: skip
def test_errors_name_line_and_block(old: str, new: str, message: str) -> None:
    assert old in MODEL
    with pytest.raises(TextFormatError) as caught:
        vs.read_bif(MODEL.replace(old, new, 1).encode())
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_huge_tables_are_refused_before_pgmpy_makes_them() -> None:
    states = ", ".join(f"s{i}" for i in range(50))
    text = "".join(f"variable v{i} {{ type discrete [50] {{ {states} }}; }}\n" for i in range(9))
    text += "".join(f"probability (v{i}) {{ table {'0.02 ' * 50}; }}\n" for i in range(1, 9))
    text += f"probability (v0 | {', '.join(f'v{i}' for i in range(1, 9))}) {{ table 1; }}\n"
    with pytest.raises(TextFormatError, match="numbers are needed, but the block has 10 char"):
        vs.read_bif(text.encode())


def test_hostile_texts_are_refused() -> None:
    """Each takes hours when a pattern goes back to the beginning for every character."""
    many = 200_000
    for text in (
        "/*" * many,
        "// /*\n" * many,
        " " * many,
        "variable " + " " * many,
        "variable a {" * many,
        "probability ( " * many,
        MODEL + "{" * many,
        MODEL.replace("(yes)", "(" * many),
        MODEL.replace("0.3", "0.3 " * many),
    ):
        with pytest.raises(TextFormatError):
            vs.read_bif(text.encode())


def test_text_that_is_not_utf8() -> None:
    with pytest.raises(TextFormatError, match=r"line 3, text: '\\xff' is not UTF-8"):
        vs.read_bif(MODEL.encode().replace(b"rain {", b"r\xffin {"))


def test_missing_extra_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_extras, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r'pip install "valuesparse\[bif\]"'):
        vs.read_bif(MODEL.encode())
    with pytest.raises(MissingExtraError):
        vs.to_pgmpy(vs.FactorGraph([2]))
