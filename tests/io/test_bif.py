"""Bayesian networks in BIF."""

from __future__ import annotations

import gzip
import importlib.util
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import valuesparse as vs
from valuesparse import _extras
from valuesparse._extras import MissingExtraError
from valuesparse.io import TextFormatError

# In names of states, layout and comments all that the format has.
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
    if spec is None or spec.origin is None:
        pytest.skip("pgmpy, which comes with example networks, is not installed")
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


@pytest.mark.parametrize("name", ["asia"])
def test_same_network_as_pgmpy_reads(name: str) -> None:
    data = example(name).read_bytes()  # skips where there is no pgmpy
    from pgmpy.readwrite import BIFReader

    ours = vs.read_bif(data)
    theirs = BIFReader(string=gzip.decompress(data).decode()).get_model(state_name_type=str)
    for v, child in enumerate(ours.names):
        cpd = theirs.get_cpds(child)
        names = [*cpd.variables[1:], child]
        table = np.moveaxis(cpd.values, 0, -1)
        for axis, variable in enumerate(names):
            states = list(ours.states[ours.variable(variable)] or ())
            order = [cpd.state_names[variable].index(state) for state in states]
            table = np.take(table, order, axis=axis)
        scope = [ours.names[u] for u in ours.factors[v].scope]
        table = table.transpose([names.index(variable) for variable in scope])
        np.testing.assert_allclose(np.exp(ours.factors[v].log_table), table, rtol=0, atol=1e-7)


@pytest.mark.parametrize("name", ["alarm", "hepar2", "win95pts", "sachs"])
def test_same_network_as_pyagrum_reads(name: str, tmp_path: Path) -> None:
    gum = pytest.importorskip("pyagrum", reason="pyAgrum is one of the rivals")
    path = tmp_path / f"{name}.bif"
    path.write_bytes(gzip.decompress(example(name).read_bytes()))
    ours, theirs = vs.read_bif(path), vs.from_pyagrum(gum.loadBN(str(path)))
    assert set(ours.names) == set(theirs.names)
    by_child = {theirs.names[f.scope[-1]]: f for f in theirs.factors}
    for f in ours.factors:
        g = by_child[ours.names[f.scope[-1]]]
        names = [theirs.names[v] for v in g.scope]
        table = g.log_table.transpose([names.index(ours.names[v]) for v in f.scope])
        # pyAgrum reads tables as 32-bit numbers, and does not normalise.
        np.testing.assert_allclose(np.exp(f.log_table), np.exp(table), rtol=1e-6, atol=3e-7)


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
        ("(yes) 0.2", "all 0.2", "line 11, probability of WET: unexpected 'all': expected a table"),
        ("(yes) 0.2,", "default", "line 11, probability of WET: the row that begins with 'default"),
        ("(no) 0.9, 1e-1 0;", "default 1 0 0; default 1 0 0;",
         "line 12, probability of WET: the row that begins with 'default' is given twice"),
        ("(yes) 0.2, 0.3, 0.5;", "table 0.9 0.2 0.1 0.3 0 0.5; default 0.2 0.3 0.5;",
         "line 10, probability of WET: 3 rows, but 1 are needed"),
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


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("property author nobody;", 'property "http://foo.org/x";'),
        ("property author nobody;", "property home = http://foo.org/x;"),
        ("property author nobody;", 'property "a /* b; c { d } // e";\n property http://x;'),
        (
            "property author nobody;",
            "property a; /* property */ // property b\n property http://x;",
        ),
        ('"a model"', '"a // model /*"'),
        ("property position = (1, 2);", 'property note = "see //here/* {";'),
        ("table 0.8, 0.2;", 'property foo; table 0.8, 0.2; property "http://x; y";'),
        ("(no) 0.9", "property a b = (no) 1; (no) 0.9"),
        ("// rain comes first", '// "rain comes first'),
        ("/* two", '/* "two'),
        ("lines */", 'lines " */ // "'),
    ],
)
def test_quoted_text_and_properties_are_no_comments(old: str, new: str) -> None:
    assert old in MODEL
    ours, plain = vs.read_bif(MODEL.replace(old, new, 1).encode()), vs.read_bif(MODEL.encode())
    assert (ours.names, ours.states) == (plain.names, plain.states)
    for one, other in zip(ours.factors, plain.factors, strict=True):
        np.testing.assert_array_equal(one.log_table, other.log_table)


def test_names_that_are_quoted_may_hold_what_begins_a_comment() -> None:
    text = MODEL.replace('"yes"', '"yes//no"').replace("(yes)", '( "yes//no" )')
    assert vs.read_bif(text.encode()).states[0] == ("no", "yes//no")


def test_a_name_may_be_the_word_property() -> None:
    text = MODEL.replace("rain", "property").replace('"no", "yes"', "property, yes")
    graph = vs.read_bif(text.replace("(no)", "(property)").encode())
    assert graph.names == ("property", "WET")
    assert graph.states[0] == ("property", "yes")


def test_an_error_after_a_property_is_named_with_its_line() -> None:
    text = MODEL.replace("table 0.8, 0.2;", 'property "http:\n//x"; // ü\n table 0.8, half;')
    with pytest.raises(TextFormatError, match="line 11, probability of rain: 'half' is not a num"):
        vs.read_bif(text.encode())


def test_a_table_has_the_variable_itself_slowest() -> None:
    text = MODEL.replace("(yes) 0.2, 0.3, 0.5;", "table 0.9 0.2 0.1 0.3 0 0.5;")
    graph = vs.read_bif(text.replace("(no) 0.9, 1e-1 0;", "").encode())
    expected = np.exp(vs.read_bif(MODEL.encode()).factors[1].log_table)
    np.testing.assert_array_equal(np.exp(graph.factors[1].log_table), expected)


DEFAULTS = """
variable A { type discrete [ 2 ] { default, table }; }
variable B { type discrete [ 3 ] { b0, b1, b2 }; }
variable C { type discrete [ 2 ] { c0, c1 }; }
probability ( A ) { default 0.25, 0.75; }
probability ( B | A ) { (default) 0.5, 0.25, 0.25; default 0.2, 0.3, 0.5; }
probability ( C | A, B ) { default 0.5, 0.5; (default, b1) 0.125, 0.875; (table, b2) 0.75, 0.25; }
"""


def test_default_rows_stand_for_those_that_are_not_there() -> None:
    graph = vs.read_bif(DEFAULTS.encode())
    expected = [
        [0.25, 0.75],
        [[0.5, 0.25, 0.25], [0.2, 0.3, 0.5]],
        [[[0.5, 0.5], [0.125, 0.875], [0.5, 0.5]], [[0.5, 0.5], [0.5, 0.5], [0.75, 0.25]]],
    ]
    for factor, table in zip(graph.factors, expected, strict=True):
        np.testing.assert_allclose(np.exp(factor.log_table), table, rtol=1e-15)


def test_default_rows_as_pyagrum_reads_them(tmp_path: Path) -> None:
    gum = pytest.importorskip("pyagrum", reason="pyAgrum is one of the rivals")
    path = tmp_path / "a.bif"
    # As names of states it takes neither word; of a row after the default one it forgets nothing.
    text = DEFAULTS.replace("{ default, table }", "{ x, y }").replace("(default", "(x")
    text = text.replace("(table", "(y").replace(
        "probability ( A ) { default", "probability ( A ) { table"
    )
    text = text.replace(
        "(x) 0.5, 0.25, 0.25; default 0.2, 0.3, 0.5;", "default 0.2, 0.3, 0.5; (x) 0.5, 0.25, 0.25;"
    )
    path.write_text("network n {}\n" + text)
    ours, theirs = vs.read_bif(path), vs.from_pyagrum(gum.loadBN(str(path)))
    for name in ("A", "B", "C"):
        np.testing.assert_allclose(vs.infer(ours)[name], vs.infer(theirs)[name], rtol=1e-6)


def test_default_rows_ask_for_no_memory_that_the_text_does_not_have_room_for() -> None:
    states = ", ".join(f"s{i}" for i in range(50))
    text = "".join(
        f"variable v{i} {{ type discrete [50] {{ {states} }}; }}\n"
        f"probability (v{i}) {{ table {'0.02 ' * 50}; }}\n"
        for i in range(1, 6)
    )
    head = f"variable v0 {{ type discrete [50] {{ {states} }}; }}\n"
    body = f" {{ default {'0.02 ' * 50}; }}\n"
    few = f"probability (v0 | v1, v2){body}"
    assert vs.read_bif((head + text + few).encode()).factors[0].log_table.shape == (50, 50, 50)
    many = f"probability (v0 | v1, v2, v3, v4){body}"
    with pytest.raises(TextFormatError, match="numbers are needed, but the block has"):
        vs.read_bif((head + text + many).encode())


@pytest.mark.parametrize("number", ["1_0", "inf", "nan", "+0.5", "-0.0", "\u0661", "0x1", "1e999"])
def test_only_plain_numbers_are_numbers(number: str) -> None:
    with pytest.raises(TextFormatError):
        vs.read_bif(MODEL.replace("0.8, 0.2", f"0.5, {number}").encode())
    with pytest.raises(TextFormatError):
        vs.read_bif(MODEL.replace("0.2, 0.3, 0.5", f"0.5, 0.0, {number}").encode())


@pytest.mark.parametrize("name", ["asia", "alarm", "sachs", "win95pts"])
def test_written_networks_are_read_with_the_same_bits(name: str, tmp_path: Path) -> None:
    graph = vs.read_bif(example(name))
    vs.write_bif(graph, tmp_path / "again.bif.gz")
    again = vs.read_bif(tmp_path / "again.bif.gz")
    assert again.names == graph.names
    assert again.states == graph.states
    for f, g in zip(graph.factors, again.factors, strict=True):
        assert f.scope == g.scope
        np.testing.assert_array_equal(f.log_table, g.log_table)


def test_numbers_are_written_as_people_write_them() -> None:
    file = io.StringIO()
    vs.write_bif(vs.read_bif(MODEL.encode()), file)
    assert "  table 0.8, 0.2;\n" in file.getvalue()
    assert "  (no) 0.9, 0.1, 0.0;\n  (yes) 0.2, 0.3, 0.5;\n" in file.getvalue()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda g: g.add(["rain"], [0.0, 1.0]), "factor 2 is no conditional table"),
        (lambda g: g.set_evidence({"rain": 0}), "BIF holds no evidence"),
        (lambda g: None, "variable 'WET' has no conditional table"),
    ],
)
def test_graphs_that_are_no_network_are_not_written(change: Any, message: str) -> None:
    graph = vs.FactorGraph({"rain": ["no", "yes"], "WET": 3})
    graph.add_cpt("rain")
    if "WET" not in message:
        graph.add_cpt("WET", ["rain"])
    change(graph)
    with pytest.raises(ValueError, match=message):
        vs.write_bif(graph, io.StringIO())


@pytest.mark.parametrize("name", ["a,b", "", "a|b", 'a"b', "a//b", " a", "a;", "x" * 1001])
def test_names_that_the_format_cannot_hold(name: str, tmp_path: Path) -> None:
    for graph in (vs.FactorGraph({name: 2}), vs.FactorGraph({"a": ["x", name]})):
        graph.add_cpt(0)
        with pytest.raises(ValueError, match="BIF cannot hold the name"):
            vs.write_bif(graph, tmp_path / "model.bif")
    assert not list(tmp_path.iterdir())


def test_huge_tables_are_refused_before_they_are_made() -> None:
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
        '"' * many,
        '"\n' * many,
        'network n { property "' * many,
        "network n { " + "property " * many,
        "network n { " + 'property "a" ' * many,
        "network n { " + "property a; " * many,
        'network n { property /* " */ ' + '{ /* " */ property /* " */ ' * many,
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


def test_a_byte_order_mark_is_left_out() -> None:
    text = b"variable a { type discrete [2] { x, y }; } probability (a) { table 0.25, 0.75; }"
    marked = vs.read_bif(b"\xef\xbb\xbf" + text)
    assert marked.names == vs.read_bif(text).names
    with pytest.raises(TextFormatError, match="line 1"):
        vs.read_bif(b"\xef\xbb\xbf\xef\xbb\xbf" + text)


def test_text_that_is_not_utf8() -> None:
    with pytest.raises(TextFormatError, match=r"line 3, text: '\\xff' is not UTF-8"):
        vs.read_bif(MODEL.encode().replace(b"rain {", b"r\xffin {"))


def test_missing_extra_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_extras, "find_spec", lambda name: None)
    assert vs.read_bif(MODEL.encode()).n_variables == 2
    with pytest.raises(MissingExtraError, match=r'pip install "valuesparse\[pgmpy\]"'):
        vs.to_pgmpy(vs.FactorGraph([2]))


def test_an_only_state_may_have_blanks() -> None:
    graph = vs.FactorGraph({"a": ["the only one"], "b": ["x", "y"]})
    graph.add_cpt("a", [], [1.0])
    graph.add_cpt("b", ["a"], [[0.25, 0.75]])
    file = io.StringIO()
    vs.write_bif(graph, file)
    found = vs.read_bif(file.getvalue().encode())
    assert found.states == graph.states
    assert np.array_equal(vs.infer(found)["b"], vs.infer(graph)["b"])
