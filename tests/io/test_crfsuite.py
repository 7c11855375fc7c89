"""CRFsuite models: what is read, and how items score, against CRFsuite itself."""

from __future__ import annotations

import importlib.util
import pickle
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.special import logsumexp

import valuesparse as vs
from valuesparse.io import CrfsuiteModel, ModelFormatError, read_crfsuite

SHIPPED = [
    ("usaddress", "usaddr.crfsuite"),
    ("probablepeople", "generic_learned_settings.crfsuite"),
    ("probablepeople", "person_learned_settings.crfsuite"),
    ("probablepeople", "company_learned_settings.crfsuite"),
]
ADDRESSES = [
    "1600 Pennsylvania Avenue NW, Washington, DC 20500",
    "PO Box 42, St. Paul MN",
    "Apt. #3-B 221b Baker Street, London",
]
PEOPLE = ["Mr. George 'Gob' Bluth II", "Sherlock Holmes & Sons, Ltd.", "Dr. Ana María de la Cruz"]

SETTINGS: dict[str, tuple[list[Any], list[list[str]], dict[str, Any]]] = {
    "lists": (
        [[["a", "b"], ["b"], ["c", "a"]], [["c"]]],
        [["X", "Y", "X"], ["Z"]],
        {},
    ),
    "floats and nested": (
        [[{"f": 0.5, "g": -3.0, "w": "the", "on": True}, {"n": {"d": ["p", "q"], "v": 2.0}}]] * 2,
        [["X", "Y"], ["Y", "X"]],
        {"c2": 0.1},
    ),
    "all states and transitions": (
        [[["a"], ["b"]], [["c"], ["a"]]],
        [["X", "Y"], ["Z", "X"]],
        {"feature__possible_states": True, "feature__possible_transitions": True, "c2": 0.01},
    ),
    "unicode": (
        [[["слово=мир", "字"], ["😀", "é"]], [["é"], ["字"]]],
        [["名詞", "ÜBER"], ["ÜBER", "名詞"]],
        {},
    ),
    "one label": ([[["a"], ["b"]], [["b"]]], [["X", "X"], ["X"]], {}),
    "no transitions": ([[["a"]], [["b"]], [["a", "b"]]], [["X"], ["Y"], ["X"]], {}),
    "no attributes": ([[[], [], []], [[], []]], [["X", "Y", "X"], ["X", "X"]], {}),
    "pruned by c1": (
        [[["a", "rare1"], ["b", "rare2"]], [["b"], ["a"]], [["a"], ["b"]]],
        [["X", "Y"], ["Y", "X"], ["X", "Y"]],
        {"c1": 0.5},
    ),
    "perceptron": ([[["a"], ["b"]], [["b"], ["c"]]], [["X", "Y"], ["Y", "Z"]], {"algorithm": "ap"}),
    "many attributes": (
        [[[f"w{(i * j) % 97}" for j in range(12)] for i in range(40)]],
        [[f"L{i * i % 11}" for i in range(40)]],
        {"max_iterations": 10},
    ),
}


def brute_marginals(unary: np.ndarray, transition: np.ndarray) -> np.ndarray:
    """Run forward-backward in the log domain, one position at a time."""
    n = len(unary)
    forward, backward = unary.copy(), np.zeros_like(unary)
    for i in range(1, n):
        forward[i] += logsumexp(forward[i - 1][:, None] + transition, axis=0)
        backward[n - 1 - i] = logsumexp(transition + (unary + backward)[n - i], axis=1)
    joint = forward + backward
    return np.exp(joint - logsumexp(joint, axis=1, keepdims=True))


def assert_weights_like_dump(model: CrfsuiteModel, info: Any) -> None:
    """Compare names and weights with what python-crfsuite reads from CRFsuite's text dump."""
    assert set(info.attributes) == set(model.attributes)
    weights = model.state_weights.tocoo()
    ours = {
        (model.attributes[a], model.labels[k]): weight
        for a, k, weight in zip(weights.row, weights.col, weights.data, strict=True)
    }
    assert ours == pytest.approx(info.state_features, abs=1e-6)
    expected = np.zeros_like(model.transition)
    for (a, b), weight in info.transitions.items():
        expected[model.labels.index(a), model.labels.index(b)] = weight
    np.testing.assert_allclose(model.transition, expected, atol=1e-6)


def assert_scores_like_crfsuite(path: Path, xseqs: Sequence[Any]) -> CrfsuiteModel:
    """Compare labels, names, weights, marginals and scores with CRFsuite's own."""
    pycrfsuite = pytest.importorskip("pycrfsuite", reason="python-crfsuite is the reference")
    model = read_crfsuite(path)
    tagger = pycrfsuite.Tagger()
    tagger.open(str(path))
    assert list(model.labels) == tagger.labels()

    # The text dump has six digits, but all names and weights; a name with a line break spoils it.
    if not any("\n" in name for name in model.attributes):
        assert_weights_like_dump(model, tagger.info())
    for xseq in xseqs:
        tagger.set(xseq)
        unary = model.unary(xseq)
        marginals = brute_marginals(unary, model.transition)
        theirs = [[tagger.marginal(y, i) for y in model.labels] for i in range(len(unary))]
        np.testing.assert_allclose(marginals, theirs, rtol=0, atol=1e-12)
        tags = tagger.tag()
        path_ids = [model.labels.index(y) for y in tags]
        score = unary[np.arange(len(unary)), path_ids].sum()
        score += model.transition[path_ids[:-1], path_ids[1:]].sum()
        forward = unary[0]
        for row in unary[1:]:
            forward = row + logsumexp(forward[:, None] + model.transition, axis=0)
        assert np.exp(score - logsumexp(forward)) == pytest.approx(
            tagger.probability(tags), rel=1e-10
        )
    tagger.close()
    return model


@pytest.mark.smoke
@pytest.mark.parametrize("name", SETTINGS)
def test_trained_models(name: str, train: Callable[..., Path]) -> None:
    xseqs, yseqs, params = SETTINGS[name]
    model = assert_scores_like_crfsuite(train(xseqs, yseqs, **params), xseqs)
    assert set(model.labels) == {y for yseq in yseqs for y in yseq}
    if name == "no transitions":
        assert not model.transition.any()
    if name == "no attributes":
        assert model.attributes == ()
    if name == "pruned by c1":
        assert "rare1" not in model.attributes


def shipped_path(package: str, file: str) -> Path:
    """Find a model inside an installed package, without importing the package."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        pytest.skip(f"{package}, which ships the model, is not installed")
    return Path(spec.origin).parent / file


# The packages are others' code; what they warn of is not ours to fix.
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("package", "file"), SHIPPED, ids=[file for _, file in SHIPPED])
def test_shipped_models(package: str, file: str) -> None:
    path = shipped_path(package, file)
    module = pytest.importorskip(package, reason=f"{package} makes its model's attributes")
    texts = ADDRESSES if package == "usaddress" else PEOPLE
    xseqs = [module.tokens2features(module.tokenize(text)) for text in texts]
    model = assert_scores_like_crfsuite(path, xseqs)
    assert len(model.attributes) > 1000


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_contents_or_path(kind: Callable[[bytes], Any], small_file: bytes, tmp_path: Path) -> None:
    path = tmp_path / "small.crfsuite"
    path.write_bytes(small_file)
    for source in (kind(small_file), path, str(path)):
        model = read_crfsuite(source)
        assert model.labels == ("A", "é", "ラベル")
        assert model.attributes[2:4] == ("ü=1", "")
        np.testing.assert_array_equal(
            model.transition, [[0.5, -1.0, 0.0], [0.0, 0.0, 7.0], [0.0, 1e-3, 0.0]]
        )
        np.testing.assert_array_equal(
            model.state_weights.toarray(),
            [[1.5, 0, -2.25], [0, 0.125, 0], [0, 0, 3], [1, 0, 0], [0, -0.5, 0]],
        )
        assert model.state_weights.has_canonical_format
        assert model.state_weights.indices.dtype == np.int32


def test_changes_after_reading_do_not_show(small_file: bytes) -> None:
    source = bytearray(small_file)
    model = read_crfsuite(source)
    expected = model.unary([["x", "y"]])
    source[:] = bytes(len(source))
    np.testing.assert_array_equal(model.unary([["x", "y"]]), expected)


def test_sources_that_are_none(tmp_path: Path) -> None:
    for source in (None, 7, ["x"], np.zeros(60, np.uint8)):
        with pytest.raises(TypeError, match=f"source.*{type(source).__name__}"):
            read_crfsuite(source)  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        read_crfsuite(tmp_path / "none.crfsuite")
    with pytest.raises(OSError, match=tmp_path.name):
        read_crfsuite(tmp_path)
    empty = tmp_path / "empty.crfsuite"
    empty.touch()
    with pytest.raises(ModelFormatError, match="0 bytes"):
        read_crfsuite(empty)


def test_layouts_of_other_writers(write_model: Callable[..., bytes]) -> None:
    arguments = (["A", "B"], ["x", "yy"], {(0, 0): 1.0, (1, 1): 2.0}, {(0, 1): 3.0})
    standard = read_crfsuite(write_model(*arguments))
    for options in ({"reserved": 0}, {"pad": 1}):
        model = read_crfsuite(write_model(*arguments, **options))
        np.testing.assert_array_equal(model.transition, standard.transition)
        np.testing.assert_array_equal(
            model.state_weights.toarray(), standard.state_weights.toarray()
        )
    # The number of features may stand in the header, and arrays by id may have spare places.
    data = bytearray(write_model(*arguments))
    struct.pack_into("<I", data, 16, 3)
    struct.pack_into("<I", data, struct.unpack_from("<I", data, 32)[0] + 16, 6)
    assert read_crfsuite(data).labels == ("A", "B")


def test_no_features_at_all(write_model: Callable[..., bytes]) -> None:
    model = read_crfsuite(write_model(["A"], [], {}, {}))
    assert model.unary([["x"], []]).tolist() == [[0.0], [0.0]]
    assert model.state_weights.shape == (0, 1)


def test_many_labels_have_to_be_asked_for(write_model: Callable[..., bytes]) -> None:
    data = write_model([f"L{i}" for i in range(1500)], [], {}, {(1499, 0): 1.0})
    with pytest.raises(ModelFormatError, match="max_labels=1500"):
        read_crfsuite(data)
    assert read_crfsuite(data, max_labels=1500).transition[1499, 0] == 1.0
    with pytest.raises(ModelFormatError, match="3 labels, more than 2"):
        read_crfsuite(write_model(["A", "B", "C"], [], {}, {}), max_labels=2)
    with pytest.raises(ValueError, match="max_labels"):
        read_crfsuite(data, max_labels=0)
    with pytest.raises(TypeError):
        read_crfsuite(data, max_labels=1.5)  # type: ignore[arg-type]
    # A larger file justifies a larger transition.
    names = [f"an attribute of some length, number {i}" for i in range(4000)]
    assert len(read_crfsuite(write_model([f"L{i}" for i in range(1500)], names, {}, {})).labels)


def chunk_at(data: bytes, header_field: int) -> int:
    return int(struct.unpack_from("<I", data, header_field)[0])


FEAT, LABELS, ATTRS, LFRF, AFRF = 28, 32, 36, 40, 44
# (what is damaged, header field of the chunk or None, offset in the chunk, new bytes, the message's
# chunk, words of the message)
DAMAGE: list[tuple[str, int | None, int, bytes, str, str]] = [
    ("magic", None, 0, b"XCRF", "header", "lCRF"),
    ("size", None, 4, struct.pack("<I", 5), "header", "says that the file has 5 bytes"),
    ("type", None, 8, b"TREE", "header", "FOMC"),
    ("version", None, 12, struct.pack("<I", 101), "header", "version 101"),
    ("feature count", None, 16, struct.pack("<I", 3), "header", "3 features"),
    ("no labels", None, 20, bytes(4), "labels", "each of 0 names"),
    ("label count", None, 20, b"\xff" * 4, "labels", "cannot hold 4294967295"),
    ("fewer labels", None, 20, struct.pack("<I", 2), "labels", "each of 2 names"),
    ("attribute count", None, 24, struct.pack("<I", 6), "attributes", "places for 6"),
    ("chunk in the header", None, FEAT, struct.pack("<I", 47), "header", "cannot begin at 47"),
    ("chunk past the end", None, AFRF, b"\xff" * 4, "header", "cannot begin at 4294967295"),
    ("two chunks in one", None, ATTRS, b"labels", "attributes", "overlaps labels"),
    ("chunk id", FEAT, 0, b"FEET", "features", "FEAT"),
    ("chunk size", LABELS, 4, b"\xff" * 4, "labels", "chunk size 4294967295"),
    ("small chunk", LFRF, 4, struct.pack("<I", 11), "label references", "chunk size 11"),
    ("features do not fill", FEAT, 8, struct.pack("<I", 9), "features", "9 features"),
    ("kind", FEAT, 12, struct.pack("<I", 2), "features", "feature 0: kind 2"),
    ("source", FEAT, 16, struct.pack("<I", 5), "features", "source 5 is not one of 5 attributes"),
    ("source label", FEAT, 136, struct.pack("<I", 3), "features", "feature 6: source 3"),
    ("target", FEAT, 20, struct.pack("<I", 3), "features", "target 3 is not one of 3 labels"),
    ("nan", FEAT, 24, struct.pack("<d", np.nan), "features", "weight nan"),
    ("inf", FEAT, 24, struct.pack("<d", -np.inf), "features", "weight -inf"),
    ("huge weight", FEAT, 24, struct.pack("<d", 1e101), "features", "weight 1e[+]101"),
    ("repeat", FEAT, 32, struct.pack("<3I", 0, 0, 0), "features", "source and target of feature 0"),
    ("byte order", LABELS, 12, struct.pack(">I", 0x62445371), "labels", "big-endian"),
    ("places by id", LABELS, 16, struct.pack("<I", 2), "labels", "2 places for 3"),
    ("array by id", LABELS, 20, struct.pack("<I", 2071), "labels", "at 2071"),
    ("array by id on records", LABELS, 20, struct.pack("<I", 2072), "labels", "name"),
    ("table outside", ATTRS, 24, struct.pack("<2I", 2**31, 2**31), "attributes", "hash table 0"),
    ("table without buckets", ATTRS, 28, bytes(4), "attributes", "hash table 0"),
    ("record's id", LABELS, 2072, struct.pack("<I", 1), "labels", "another id"),
    ("record's size", LABELS, 2076, b"\xff" * 4, "labels", "runs past"),
    ("record in the next", ATTRS, 2076, struct.pack("<I", 12), "attributes", "overlap"),
    ("record's end", LABELS, 2081, b"x", "labels", "NUL"),
    ("name twice", ATTRS, 2090, b"x", "attributes", "'x' appears twice"),
    ("utf-8", LABELS, 2090, b"\xff", "labels", "name 1 is not UTF-8"),
    ("NUL inside", ATTRS, 2102, b"\0", "attributes", "name 2 has a NUL inside"),
    ("reference count", AFRF, 8, struct.pack("<I", 6), "attribute references", "has 6 lists"),
    ("no room for offsets", AFRF, 4, struct.pack("<I", 12), "attribute references", "of 5 lists"),
    ("reserved list", LFRF, 24, struct.pack("<I", 1), "label references", "reserved"),
    ("list outside", LFRF, 12, struct.pack("<I", 1), "label references", "list 0 at byte 1 "),
    ("list past the end", AFRF, 32, b"\xff" * 4, "attribute references", "runs past"),
    (
        "unknown feature",
        AFRF,
        36,
        struct.pack("<I", 10),
        "attribute references",
        "feature 10 of",
    ),
    ("feature of another", AFRF, 36, struct.pack("<I", 2), "attribute references", "feature 2"),
    ("feature named twice", AFRF, 36, struct.pack("<I", 1), "features", "feature 0 is named 0"),
]


@pytest.mark.parametrize("case", DAMAGE, ids=[case[0] for case in DAMAGE])
def test_damage_is_named(case: tuple[str, int | None, int, bytes, str, str], small_file: bytes):
    _, field, at, new, chunk, words = case
    data = bytearray(small_file)
    if new == b"labels":
        new = data[LABELS : LABELS + 4]
    at += 0 if field is None else chunk_at(small_file, field)
    assert data[at : at + len(new)] != new
    data[at : at + len(new)] = new
    with pytest.raises(ModelFormatError, match=words) as info:
        read_crfsuite(data)
    error = info.value
    assert error.chunk.startswith(chunk)
    assert str(error) == f"{error.chunk} at byte {error.offset}: {error.problem}"
    assert 0 <= error.offset < len(data)


def test_lists_must_not_overlap(small_file: bytes) -> None:
    data = bytearray(small_file)
    at = chunk_at(data, AFRF) + 12
    data[at + 4 : at + 8] = data[at : at + 4]
    with pytest.raises(ModelFormatError, match="overlaps another list"):
        read_crfsuite(data)


def test_lists_are_made_of_words(small_file: bytes) -> None:
    data = bytearray(small_file)
    begin = chunk_at(data, AFRF)
    struct.pack_into("<I", data, begin + 4, len(data) - begin - 1)
    with pytest.raises(ModelFormatError, match="not a multiple of 4"):
        read_crfsuite(data)


def test_hashes_are_in_their_tables(small_file: bytes) -> None:
    data = bytearray(small_file)
    begin = chunk_at(data, ATTRS)
    data[begin + struct.unpack_from("<I", data, begin + 24)[0]] ^= 1
    with pytest.raises(ModelFormatError, match="hash table 0 holds a hash of another"):
        read_crfsuite(data)


def test_truncation_anywhere(small_file: bytes) -> None:
    for size in range(len(small_file)):
        with pytest.raises(ModelFormatError):
            read_crfsuite(small_file[:size])
    for size in range(48, len(small_file)):
        data = bytearray(small_file[:size])
        struct.pack_into("<I", data, 4, size)
        with pytest.raises(ModelFormatError):
            read_crfsuite(data)


def test_errors_name_the_file(small_file: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.crfsuite"
    for data in (b"", b"junk" * 20, small_file[:500], small_file[:47]):
        path.write_bytes(data)
        for source in (path, str(path)):
            with pytest.raises(ModelFormatError) as info:
                read_crfsuite(source)
            assert info.value.path == str(path)
            assert str(info.value).startswith(f"{path}: header at byte ")
        with pytest.raises(ModelFormatError) as info:
            read_crfsuite(data)
        assert info.value.path is None


def test_error_pickles() -> None:
    error = pickle.loads(pickle.dumps(ModelFormatError("header", 12, "bad")))
    assert (error.chunk, error.offset, str(error)) == ("header", 12, "header at byte 12: bad")
    assert isinstance(error, ValueError)


def test_model_pickles_and_is_frozen(small_file: bytes) -> None:
    model = read_crfsuite(small_file)
    again = pickle.loads(pickle.dumps(model))
    xseq = [["x", "y"], {"ü=1": 0.5}]
    np.testing.assert_array_equal(again.unary(xseq), model.unary(xseq))
    for m in (model, again):
        with pytest.raises(ValueError, match="read-only"):
            m.transition[0, 0] = 1
        with pytest.raises(ValueError, match="read-only"):
            m.state_weights.data[0] = 1
        with pytest.raises(AttributeError):
            m.labels = ()
    assert repr(model) == "CrfsuiteModel(3 labels, 5 attributes, 6 state weights)"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"labels": ("A", 1)}, "labels must be str, not int"),
        ({"attributes": (None, "x")}, "attributes must be str, not NoneType"),
        ({"transition": np.zeros((2, 2), complex)}, "transition must have real numbers"),
        ({"state_weights": [["x", "y"]] * 2}, "state_weights must have real numbers"),
        ({"labels": ("A", "A")}, "labels: 1 of 2"),
        ({"attributes": ("x", "x")}, "attributes: 1 of 2"),
        ({"labels": (), "transition": np.zeros((0, 0))}, r"state_weights must have shape \(2, 0\)"),
        ({"transition": np.zeros((2, 3))}, r"transition must have shape \(2, 2\)"),
        ({"transition": [[0.0, np.nan], [0.0, 0.0]]}, "transition has NaN"),
        ({"state_weights": np.zeros((3, 2))}, r"state_weights must have shape \(2, 2\)"),
        ({"state_weights": [[np.inf, 0.0], [0.0, 0.0]]}, "state_weights has NaN"),
    ],
)
def test_models_made_by_hand_are_checked(change: dict[str, Any], words: str) -> None:
    arguments = {
        "labels": ("A", "B"),
        "attributes": ("x", "y"),
        "transition": np.zeros((2, 2)),
        "state_weights": np.zeros((2, 2)),
    }
    CrfsuiteModel(**arguments)
    with pytest.raises(
        TypeError if " must " in words and "shape" not in words else ValueError, match=words
    ):
        CrfsuiteModel(**{**arguments, **change})


def test_making_a_model_leaves_its_arguments_alone() -> None:
    transition = np.zeros((1, 1))
    weights = csr_array(([1.0, 2.0], [0, 0], [0, 2]), shape=(1, 1))
    model = CrfsuiteModel(("A",), ("x",), transition, weights)
    assert model.unary([["x"]]).tolist() == [[3.0]]
    transition[0, 0] = weights.data[0] = 5.0
    assert weights.nnz == 2


def test_chain(small_file: bytes) -> None:
    model = read_crfsuite(small_file)
    xseqs = [[["x"], ["y"]], [["ü=1", "x"]]]
    chain = model.chain(xseqs)
    assert isinstance(chain, vs.Chain)
    np.testing.assert_array_equal(chain.unary, model.unary_batch(xseqs)[0])
    np.testing.assert_array_equal(chain.transition, model.transition)
    assert chain.lengths.tolist() == [2, 1]
    marginals = vs.infer(chain).marginals
    expected = [brute_marginals(model.unary(xseq), model.transition) for xseq in xseqs]
    np.testing.assert_allclose(marginals, np.concatenate(expected), rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
@pytest.mark.parametrize("number", [2, -3, 10**8])
def test_weights_of_labels_that_there_are_none_of_are_refused(kind: str, number: int) -> None:
    weights: Any = csr_array(np.eye(2)).asformat(kind)
    if kind == "coo":
        weights.col[1] = number
    else:
        weights.indices[1] = number
    with pytest.raises(ValueError, match="state_weights"):
        CrfsuiteModel(("A", "B"), ("x", "y"), np.zeros((2, 2)), weights)


def test_what_stands_beyond_the_last_row_is_no_weight() -> None:
    weights = csr_array(np.eye(2))
    weights.indptr[2] = 1
    model = CrfsuiteModel(("A", "B"), ("x", "y"), np.zeros((2, 2)), weights)
    assert model.unary([["x"], ["y"]]).tolist() == [[1.0, 0.0], [0.0, 0.0]]
    assert not hasattr(model, "scorer")
