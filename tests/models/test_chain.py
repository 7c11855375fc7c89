"""`valuesparse.Chain`: what it keeps, what it converts and what it refuses."""

from __future__ import annotations

import dataclasses
import pickle

import numpy as np
import pytest
from checks import assert_same_bits, refused
from oracles import Arrays
from strategies import random_chain

import valuesparse as vs


def test_attributes(dtype: type) -> None:
    unary = np.arange(12, dtype=dtype).reshape(6, 2)
    transition = np.eye(2, dtype=dtype)
    chain = vs.Chain(unary, transition, lengths=[3, 0, 1, 2])
    assert_same_bits(chain.unary, unary)
    assert_same_bits(chain.transition, transition)
    np.testing.assert_array_equal(chain.lengths, [3, 0, 1, 2])
    assert (chain.n_labels, chain.n_sequences, chain.n_positions) == (2, 4, 6)
    assert chain.dtype == dtype


def test_no_lengths_is_one_sequence() -> None:
    chain = vs.Chain(np.zeros((5, 3)), np.zeros((3, 3)))
    np.testing.assert_array_equal(chain.lengths, [5])
    assert chain.n_sequences == 1


def test_list_of_arrays_is_unary_and_lengths(rng: np.random.Generator) -> None:
    parts = [rng.normal(size=(n, 3)) for n in (2, 0, 4, 1)]
    chain = vs.Chain(parts, np.zeros((3, 3)))
    np.testing.assert_array_equal(chain.lengths, [2, 0, 4, 1])
    assert_same_bits(chain.unary, np.concatenate(parts))


def test_nested_lists_and_integers() -> None:
    chain = vs.Chain([[0, 1], [2, 3]], [[0, 1], [1, 0]], start=[0, 1], end=[1, 0])
    assert chain.dtype == np.float64
    assert chain.unary.shape == (2, 2)


def test_read_only_fortran_and_strided_arrays(rng: np.random.Generator, dtype: type) -> None:
    unary = rng.normal(size=(7, 4)).astype(dtype)
    transition = rng.normal(size=(4, 4)).astype(dtype)
    plain = vs.infer(vs.Chain(unary, transition)).marginals
    wide = np.empty((14, 8), dtype=dtype)
    wide[::2, ::2] = unary
    frozen = unary.copy()
    frozen.flags.writeable = False
    for u, t in (
        (np.asfortranarray(unary), np.asfortranarray(transition)),
        (wide[::2, ::2], transition[::-1][::-1]),
        (unary[::-1].copy()[::-1], transition.T.copy().T),
        (frozen, transition),
        (unary.astype(unary.dtype.newbyteorder()), transition),
    ):
        assert_same_bits(vs.infer(vs.Chain(u, t)).marginals, plain)


@pytest.mark.parametrize(
    "other", [np.float64, np.float16, np.int64, np.int8, np.uint32, bool, np.longdouble]
)
def test_only_all_float32_stays_float32(other: type) -> None:
    unary = np.zeros((2, 2), dtype=np.float32)
    square = np.zeros((2, 2), dtype=np.float32)
    assert vs.Chain(unary, square).dtype == np.float32
    assert vs.Chain(unary, square, start=np.zeros(2, np.float32)).dtype == np.float32
    assert vs.Chain(unary, square, allowed=np.ones((2, 2), bool)).dtype == np.float32
    assert vs.Chain(unary.astype(other), square).dtype == np.float64
    assert vs.Chain(unary, square.astype(other)).dtype == np.float64
    assert vs.Chain(unary, square, start=np.zeros(2, other)).dtype == np.float64
    assert vs.Chain(unary, square, end=np.zeros(2, other)).dtype == np.float64


def test_inputs_come_back_untouched(rng: np.random.Generator, dtype: type) -> None:
    for per_edge in (False, True):
        model = random_chain(rng, [3, 0, 4], 3, masks=False, per_edge=per_edge, dtype=dtype)
        model = dataclasses.replace(model, allowed=rng.random((7, 3)) > 0.1)
        model.allowed[:, 0] = True
        before = model.copy()
        chain = vs.Chain(**model.kwargs())
        for zeta in (1.0, 0.6):
            r = vs.infer(chain, zeta=zeta)
            r.pairwise(), r.expectations(), r.entropy()
        vs.decode(chain), vs.decode(chain, n_best=3)
        vs.sample(chain, 3, 0)
        vs.log_prob(chain, vs.decode(chain).states)
        for name, value in model.kwargs().items():
            if value is not None:
                assert_same_bits(value, getattr(before, name))
                assert value.flags.writeable


def test_result_does_not_alias_the_model() -> None:
    unary = np.zeros((4, 2))
    chain = vs.Chain(unary, np.zeros((2, 2)))
    r = vs.infer(chain)
    assert not np.shares_memory(r.marginals, unary)
    assert not np.shares_memory(r.marginals, vs.infer(chain).marginals)


def test_immutable() -> None:
    chain = vs.Chain(np.zeros((2, 2)), np.zeros((2, 2)))
    for name in ("unary", "transition", "lengths", "start", "end", "allowed"):
        with pytest.raises((AttributeError, TypeError)):
            setattr(chain, name, None)
    joined = vs.Chain([np.zeros((2, 2)), np.zeros((1, 2))], np.zeros((2, 2)))
    for made in (chain, joined, chain.conditioned([0, -1]), pickle.loads(pickle.dumps(joined))):
        for name in ("unary", "transition", "lengths", "offset", "edge"):
            with pytest.raises(ValueError, match="read-only"):
                getattr(made, name)[...] = 0


@pytest.mark.parametrize("kind", ["Chain", "SecondOrderChain", "Tree"])
def test_a_change_of_a_model_is_refused_by_the_name_of_its_class(kind: str) -> None:
    rows, table = np.zeros((3, 2)), np.zeros((2, 2))
    model = {
        "Chain": lambda: vs.Chain(rows, table),
        "SecondOrderChain": lambda: vs.SecondOrderChain(rows, np.zeros((2, 2, 2))),
        "Tree": lambda: vs.Tree([-1, 0, 0], rows, table),
    }[kind]()
    for name in ("unary", "dtype", "other"):
        with pytest.raises(AttributeError, match=f"^a {kind} is immutable; build a new one to ch"):
            setattr(model, name, None)
        with pytest.raises(AttributeError, match=f"^a {kind} is immutable; {name} cannot be del"):
            delattr(model, name)
    assert not hasattr(model, "__dict__")


def test_repr_is_short() -> None:
    text = repr(vs.Chain(np.zeros((2000, 2)), np.zeros((2, 2))))
    assert "Chain" in text
    assert len(text) < 300


# ---------------------------------------------------------------------------------- bad numbers


@pytest.mark.parametrize("bad", [np.nan, np.inf], ids=["nan", "inf"])
@pytest.mark.parametrize("word", ["unary", "transition", "per-edge", "start", "end"])
def test_nan_and_plus_inf_are_named(bad: float, word: str, dtype: type) -> None:
    kwargs = {
        "unary": np.zeros((9, 4), dtype),
        "transition": np.zeros((7, 4, 4) if word == "per-edge" else (4, 4), dtype),
        "lengths": [5, 4],
        "start": np.zeros(4, dtype),
        "end": np.zeros(4, dtype),
    }
    name, index = {
        "unary": ("unary", (7, 3)),
        "transition": ("transition", (2, 3)),
        "per-edge": ("transition", (5, 2, 3)),
        "start": ("start", (2,)),
        "end": ("end", (3,)),
    }[word]
    kwargs[name][index] = bad
    with refused(ValueError, name, *index):
        vs.Chain(**kwargs)


@pytest.mark.parametrize(
    ("dtype", "largest"), [(np.float32, "1e+28"), (np.float64, "1e+290")], ids=["f32", "f64"]
)
@pytest.mark.parametrize("sign", [1, -1])
def test_finite_numbers_too_large_to_add_are_named(dtype: type, largest: str, sign: int) -> None:
    limit = dtype(float(largest))
    table = np.zeros((30, 30), dtype)
    table[::3] = sign * limit
    vs.Chain(table, table, start=table[0], end=table[0])
    for row, column in ((0, 0), (7, 3), (29, 29)):
        for value in (np.nextafter(limit, dtype(np.inf)), np.finfo(dtype).max):
            bad = table.copy()
            bad[row, column] = sign * value
            for name in ("unary", "transition"):
                with refused(ValueError, f"{name}[{row}, {column}]", largest, "-inf"):
                    vs.Chain(**{"unary": table, "transition": table, name: bad})
            with refused(ValueError, f"end[{column}]", largest, "-inf"):
                vs.Chain(table, table, end=bad[row])


def test_first_bad_number_is_the_one_named() -> None:
    unary = np.zeros((1000, 5))
    unary[[17, 800], [4, 2]] = np.nan
    with refused(ValueError, "unary", 17, 4):
        vs.Chain(unary, np.zeros((5, 5)))


def test_bad_number_in_a_list_is_named_where_it_was_given() -> None:
    second = np.zeros((3, 2))
    second[1, 1] = np.nan
    with refused(ValueError, "unary[1][1, 1]"):
        vs.Chain([np.zeros((2, 2)), second], np.zeros((2, 2)))
    huge = np.full((3, 2), 2e28, np.float32)  # fine in float64, which the transition asks for
    vs.Chain([huge, huge], np.zeros((2, 2)))
    with refused(ValueError, "unary[0][0, 0]"):
        vs.Chain([huge, huge], np.zeros((2, 2), np.float32))


@pytest.mark.parametrize(
    ("word", "kwargs"),
    [
        ("unary[0]", {"unary": [np.zeros(2), np.zeros((3, 2))]}),
        ("unary[1]", {"unary": [np.zeros((3, 2)), np.zeros(2)]}),
        ("unary[1]", {"unary": [np.zeros((3, 2)), [[1, 2], [3]]]}),
        ("unary", {"unary": [[1, 2], [3]]}),
        ("unary", {"unary": [[1, 2], np.zeros((3, 2))]}),
        ("unary[0]", {"unary": [[[1, 2], [3]], [[1, 2]]]}),
        ("transition", {"transition": [[1, 2], [3]]}),
        ("start", {"start": [1, [2, 3]]}),
        ("lengths", {"lengths": [1, [2, 3]]}),
        ("allowed", {"allowed": [np.ones((2, 2), bool), np.ones((3, 2), bool)]}),
    ],
)
def test_ragged_arrays_name_the_argument(word: str, kwargs: dict) -> None:
    with refused(ValueError, word, "shape"):
        vs.Chain(**{"unary": np.zeros((5, 2)), "transition": np.zeros((2, 2)), **kwargs})
    chain = vs.Chain(np.zeros((5, 2)), np.zeros((2, 2)))
    for call in (chain.conditioned, lambda states: vs.log_prob(chain, states)):
        with refused(ValueError, "states", "shape"):
            call([1, [2, 3]])


def test_no_rows_at_all_says_what_shape_they_have() -> None:
    with refused(ValueError, "unary", "(0, K)"):
        vs.Chain([], np.zeros((2, 2)))


def test_minus_inf_is_fine() -> None:
    unary = np.array([[0, -np.inf], [-np.inf, 0.0]])
    chain = vs.Chain(unary, [[0, 0.5], [-np.inf, 0]], start=[0, -np.inf], end=[-np.inf, 0])
    assert vs.infer(chain).log_z.tolist() == [0.5]  # of one labelling, 0 and 1


def test_float64_overflow_of_longdouble_is_refused() -> None:
    if np.finfo(np.longdouble).max == np.finfo(np.float64).max:
        pytest.skip("long double is double here")
    with pytest.raises(ValueError, match="unary"):
        vs.Chain(np.full((2, 2), np.longdouble("1e4000")), np.zeros((2, 2)))


# ----------------------------------------------------------------------------------- bad shapes


@pytest.mark.parametrize(
    ("name", "kwargs"),
    [
        ("unary", {"unary": np.zeros(4)}),
        ("unary", {"unary": np.zeros((2, 2, 2))}),
        ("unary", {"unary": np.float64(3)}),
        ("unary", {"unary": np.zeros((4, 0)), "transition": np.zeros((0, 0))}),
        ("unary", {"unary": [np.zeros((2, 2)), np.zeros((2, 3))]}),
        ("transition", {"transition": np.zeros(4)}),
        ("transition", {"transition": np.zeros((2, 3))}),
        ("transition", {"transition": np.zeros((3, 3))}),
        ("transition", {"transition": np.zeros((4, 2, 2))}),
        ("transition", {"transition": np.zeros((2, 2, 2))}),
        ("transition", {"transition": np.zeros((3, 2, 3))}),
        ("transition", {"transition": np.zeros((1, 3, 2, 2))}),
        ("start", {"start": np.zeros(3)}),
        ("start", {"start": np.zeros((1, 2))}),
        ("start", {"start": 0.0}),
        ("end", {"end": np.zeros(1)}),
        ("end", {"end": np.zeros((2, 1))}),
        ("allowed", {"allowed": np.ones((4, 3), bool)}),
        ("allowed", {"allowed": np.ones((2, 4), bool)}),
        ("allowed", {"allowed": np.ones(2, bool)}),
        ("allowed", {"allowed": np.ones((5, 2), bool)}),
        ("lengths", {"lengths": [4, 1]}),
        ("lengths", {"lengths": [3]}),
        ("lengths", {"lengths": []}),
        ("lengths", {"lengths": [[2, 2]]}),
        ("lengths", {"lengths": 5}),
        ("lengths", {"lengths": [5, -1]}),
    ],
)
def test_wrong_shapes_name_the_argument(name: str, kwargs: dict) -> None:
    good = {"unary": np.zeros((4, 2)), "transition": np.zeros((2, 2))}
    with refused(ValueError, name):
        vs.Chain(**{**good, **kwargs})


def test_wrong_shape_says_what_it_got() -> None:
    with refused(ValueError, "transition", 3, 2):
        vs.Chain(np.zeros((4, 2)), np.zeros((3, 2)))
    with refused(ValueError, "start", 7):
        vs.Chain(np.zeros((4, 2)), np.zeros((2, 2)), start=np.zeros(7))


def test_no_labels_says_so() -> None:
    with refused(ValueError, "unary"):
        vs.Chain(np.zeros((0, 0)), np.zeros((0, 0)))


def test_negative_length_is_named_with_its_index() -> None:
    with refused(ValueError, "lengths", 2):
        vs.Chain(np.zeros((4, 2)), np.zeros((2, 2)), lengths=[3, 3, -2])


def test_lengths_that_do_not_sum_say_both_sums() -> None:
    with refused(ValueError, "lengths", 5, 4):
        vs.Chain(np.zeros((4, 2)), np.zeros((2, 2)), lengths=[3, 2])


def test_lengths_too_large_for_their_sum() -> None:
    huge = np.array([2**62, 2**62, 2**62, 2**62, 4], dtype=np.int64)
    with refused(ValueError, "lengths"):
        vs.Chain(np.zeros((4, 2)), np.zeros((2, 2)), lengths=huge)
    with pytest.raises((ValueError, OverflowError), match="lengths"):
        vs.Chain(np.zeros((4, 2)), np.zeros((2, 2)), lengths=[2**70, 4])


@pytest.mark.parametrize(
    "lengths",
    [[2.0, 2.0], [1.5, 2.5], ["2", "2"], [True, True, True, True], np.array([2, 2], object), "22"],
    ids=["float", "fraction", "text", "bool", "object", "str"],
)
def test_lengths_must_be_integers(lengths: object) -> None:
    with pytest.raises((TypeError, ValueError), match="lengths"):
        vs.Chain(np.zeros((4, 2)), np.zeros((2, 2)), lengths=lengths)


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.uint16, np.uint64, np.intp])
def test_lengths_of_any_integer_type(kind: type) -> None:
    chain = vs.Chain(np.zeros((4, 2)), np.zeros((2, 2)), lengths=np.array([1, 3], kind))
    np.testing.assert_array_equal(chain.lengths, [1, 3])


def test_edges_count_non_empty_sequences_only() -> None:
    unary = np.zeros((5, 2))
    vs.Chain(unary, np.zeros((3, 2, 2)), lengths=[0, 3, 0, 2, 0])
    vs.Chain(unary, np.zeros((0, 2, 2)), lengths=[1, 1, 1, 1, 1])
    with refused(ValueError, "transition", 4, 3):
        vs.Chain(unary, np.zeros((4, 2, 2)), lengths=[0, 3, 0, 2, 0])


# ----------------------------------------------------------------------------------- bad dtypes


@pytest.mark.parametrize("name", ["unary", "transition", "start", "end"])
@pytest.mark.parametrize("kind", ["complex", "object", "text", "bytes", "datetime", "none"])
def test_not_numbers_are_a_type_error(name: str, kind: str) -> None:
    shape = (2, 2) if name in ("unary", "transition") else (2,)
    bad = {
        "complex": np.zeros(shape, complex),
        "object": np.zeros(shape).astype(object),
        "text": np.full(shape, "0"),
        "bytes": np.full(shape, b"0"),
        "datetime": np.zeros(shape, "datetime64[s]"),
        "none": np.full(shape, None),
    }[kind]
    good = {"unary": np.zeros((2, 2)), "transition": np.zeros((2, 2))}
    with refused(TypeError, name):
        vs.Chain(**{**good, name: bad})


@pytest.mark.parametrize("bad", [np.ones((2, 2)), np.ones((2, 2), int), np.full((2, 2), "x")])
def test_allowed_must_be_bool(bad: np.ndarray) -> None:
    with pytest.raises((TypeError, ValueError), match="allowed"):
        vs.Chain(np.zeros((2, 2)), np.zeros((2, 2)), allowed=bad)


@pytest.mark.parametrize("name", ["unary", "transition"])
def test_missing_arguments(name: str) -> None:
    kwargs = {"unary": np.zeros((2, 2)), "transition": np.zeros((2, 2))}
    with pytest.raises((TypeError, ValueError), match=name):
        vs.Chain(**{**kwargs, name: None})


def test_optional_arguments_are_keywords() -> None:
    with pytest.raises(TypeError):
        vs.Chain(np.zeros((2, 2)), np.zeros((2, 2)), [2], np.zeros(2))


def test_arrays_is_the_chain_signature() -> None:
    model = Arrays(np.zeros((2, 2)), np.zeros((2, 2)))
    assert vs.Chain(**model.kwargs()).n_positions == 2
