"""Frames as people have them: masks, categories, and integers of any size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from checks import assert_same_bits

import valuesparse as vs


def network() -> vs.FactorGraph:
    graph = vs.FactorGraph({"rain": ["no", "yes"], "wet": ["no", "yes"], "n": 3})
    graph.add_cpt("rain", [], [0.8, 0.2])
    graph.add_cpt("wet", ["rain"], [[0.9, 0.1], [0.2, 0.8]])
    graph.add_cpt("n", ["wet"], [[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]])
    return graph


CODES = np.array([[1, -1, 0], [-1, 0, -1], [0, 1, 2], [-1, -1, -1]])
#: The same with masks over states that would be wrong, or are none at all.
MASKED = np.ma.array(np.where(CODES < 0, [1, 0, 7], CODES), mask=CODES < 0)


@pytest.mark.parametrize(
    "frame",
    [
        MASKED,
        np.ma.array(CODES.astype(np.int8)),  # without a mask
        {"rain": MASKED[:, 0], "wet": MASKED[:, 1], "n": MASKED[:, 2]},
        {
            "rain": np.ma.array(["yes", "?", "no", "?"], mask=[0, 1, 0, 1]),
            "wet": np.ma.array([0.5, 0.0, 1.0, 0.5], mask=[1, 0, 0, 1]),
            "n": [0, np.ma.masked, 2, np.ma.masked],
        },
        {
            "rain": np.ma.array(["yes", "?", "no", None], mask=[0, 1, 0, 0], dtype=object),
            "wet": MASKED[:, 1].astype(np.uint8),
            "n": np.ma.array([0, 10**9, 2, -(10**9)], mask=[0, 1, 0, 1]),
        },
    ],
)
def test_what_is_masked_is_unknown(frame: Any) -> None:
    tree = vs.JunctionTree(network())
    assert_same_bits(tree.infer_many(frame).log_z, tree.infer_many(CODES).log_z)
    found, expected = network().fit(frame), network().fit(CODES)
    for f, g in zip(found.factors, expected.factors, strict=True):
        assert_same_bits(f.log_table, g.log_table)  # type: ignore[union-attr]


def test_categories() -> None:
    pandas = pytest.importorskip("pandas", reason="categories are those of pandas")
    tree = vs.JunctionTree(network())
    codes = np.array([[0, -1, -1], [1, -1, -1], [-1, -1, -1], [0, -1, -1]])
    frame = pandas.DataFrame({
        "rain": pandas.Categorical(["no", "yes", None, "no"], ["a", "yes", "no", "z"])
    })  # fmt: skip
    assert_same_bits(tree.infer_many(frame).log_z, tree.infer_many(codes).log_z)
    empty = pandas.DataFrame({"rain": pandas.Categorical([], ["a", "yes"])})
    assert tree.infer_many(empty).n_rows == 0


def categories(values: list[Any], names: list[Any]) -> Any:
    pandas = pytest.importorskip("pandas", reason="categories are those of pandas")
    return pandas.Series(pandas.Categorical(values, names))


@pytest.mark.parametrize(
    ("column", "row", "state"),
    [
        (lambda: categories([None, "no", "z", "a", "z"], ["a", "no", "z"]), 2, "'z'"),
        (lambda: np.array([0, 1, 5, -2, 5]), 2, "5"),
        (lambda: np.array([5, -1, 0], dtype=np.int8), 0, "5"),
        (lambda: np.ma.array([7, 0, 7, 7], mask=[1, 0, 1, 0]), 3, "7"),
        (lambda: np.ma.array(["a", "no", "z"], mask=[1, 0, 0]), 2, "'z'"),
        (lambda: np.array([2**63 + 5], dtype=np.uint64), 0, str(2**63 + 5)),
        (lambda: np.array([2**64 - 1, 2**64 - 3], dtype=np.uint64), 0, str(2**64 - 1)),
        (lambda: np.array([0, 2**63], dtype=np.uint64), 1, str(2**63)),
        (lambda: np.array([-(2**63)]), 0, str(-(2**63))),
    ],
)
def test_the_first_row_that_is_wrong_is_named(column: Any, row: int, state: str) -> None:
    words = rf"frame\['rain'\]\[{row}\]: variable 'rain' has no state {state}: its states are"
    with pytest.raises(ValueError, match=words):
        vs.JunctionTree(network()).infer_many({"rain": column()})


@pytest.mark.parametrize("column", [np.array("no"), np.array(0), np.ma.masked])
def test_arrays_without_dimensions_are_no_columns(column: Any) -> None:
    with pytest.raises(ValueError, match=r"frame\['rain'\] must be a sequence of states"):
        vs.JunctionTree(network()).infer_many({"rain": column})


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "variables",
    [
        {("h", 1): 2, "a": 2},
        {"a": [("x", 1), ("y", 2, 3)], "b": ["p", "q"]},
        {("h", 1): [("x", 1), "y"], ("h", 1, 2): [0, ("x", 1)]},
        {("h", 1): 2, ("h", 2): 2},
    ],
)
def test_names_may_be_tuples_beside_others(variables: Any) -> None:
    pytest.importorskip("pandas", reason="makes data frames of results")
    graph = vs.FactorGraph(variables)
    names = [
        (name, state)
        for name, states in variables.items()
        for state in (states if isinstance(states, list) else range(states))
    ]
    frame = vs.infer(graph).to_frame()
    assert frame.index.tolist() == names
    assert frame.index.names == ["variable", "state"]
    many = vs.JunctionTree(graph).infer_many({graph.names[0]: [None]}).to_frame()
    assert many.columns.tolist() == names
    assert many.columns.names == ["variable", "state"]
