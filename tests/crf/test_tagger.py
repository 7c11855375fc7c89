"""The tagger, against python-crfsuite's."""

from __future__ import annotations

import copy
import importlib.util
import inspect
import json
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import children
import numpy as np
import pytest
from checks import assert_same_bits
from hypothesis import given, settings
from hypothesis import strategies as st
from tagger_models import draw
from tagger_models import model as model
from tagger_models import tagger as tagger

from valuesparse.crf import crfsuite
from valuesparse.crf.crfsuite import CRFSuiteError, ItemSequence, Tagger, Trainer
from valuesparse.io import ModelFormatError
from valuesparse.io.crfsuite import CrfsuiteModel

TRAIN: list[Any] = [
    [["a", "b"], {"b": 0.5, "n": {"x": ["p", "q"], "y": 2.0}}, {"a": "b", "c": True}],
    [["c"], {"n": {"x": {"p"}}, "é": "ü"}, ["b", "b"], {"a": -1.5}],
    [["q"]],
    [{"c": False, "a": "c"}, ["é:ü", "c"]],
]
TAGS = [["A", "é", "A"], ["ラベル", "A", "é", "é"], ["ラベル"], ["A", "ラベル"]]


@pytest.fixture(scope="session")
def model_path(train: Callable[..., Path]) -> Path:
    return train(TRAIN, TAGS, c2=0.05, feature__possible_transitions=True)


@pytest.fixture(scope="session")
def theirs(model_path: Path) -> Any:
    pycrfsuite = pytest.importorskip("pycrfsuite", reason="python-crfsuite is the reference")
    tagger = pycrfsuite.Tagger()
    tagger.open(str(model_path))
    return tagger


@pytest.fixture
def ours(model_path: Path) -> Tagger:
    tagger = Tagger()
    tagger.open(str(model_path))
    return tagger


def assert_like_theirs(ours: Tagger, theirs: Any, xseq: Any) -> None:
    tags = theirs.tag(xseq)
    assert ours.tag(xseq) == tags
    labels = theirs.labels()
    expected = [[theirs.marginal(y, i) for y in labels] for i in range(len(tags))]
    np.testing.assert_allclose(
        ours.marginals(), np.reshape(expected, (-1, len(labels))), rtol=0, atol=1e-10
    )
    for i in range(len(tags)):
        for y in labels:
            assert ours.marginal(y, i) == pytest.approx(theirs.marginal(y, i), rel=0, abs=1e-10)
    for yseq in (tags, tags[::-1], [labels[0]] * len(tags)):
        assert ours.probability(yseq) == pytest.approx(theirs.probability(yseq), rel=1e-10)


NAMES = st.sampled_from(["a", "b", "c", "q", "n", "é", "n:x", "é:ü", "x", "zz", "a:b", "n:x:p"])
VALUES = st.one_of(
    st.floats(-5, 5), st.booleans(), st.integers(-3, 3), NAMES, NAMES.map(str.encode),
    st.lists(NAMES, max_size=3), st.sets(NAMES, max_size=3),
)  # fmt: skip
DICTS = st.recursive(
    st.dictionaries(NAMES, VALUES, max_size=4),
    lambda inner: st.dictionaries(NAMES, st.one_of(VALUES, inner), max_size=3),
    max_leaves=4,
)
ITEMS = st.one_of(st.lists(NAMES, max_size=5), st.sets(NAMES), DICTS, NAMES)


@settings(max_examples=150)
@given(xseq=st.lists(ITEMS, max_size=6))
def test_any_items(xseq: list[Any], model_path: Path, theirs: Any) -> None:
    ours = Tagger()
    with ours.open(model_path):
        assert_like_theirs(ours, theirs, xseq)
        assert ours.tag(ItemSequence(xseq)) == theirs.tag(xseq)


@pytest.mark.smoke
def test_whole_surface(theirs: Any) -> None:
    names = {name for name in dir(theirs) if not name.startswith("_")}
    assert names <= set(dir(Tagger))
    package = sys.modules["pycrfsuite"]
    for name in ("CRFSUITE_VERSION", "CRFSuiteError", "ItemSequence", "Tagger"):
        assert hasattr(crfsuite, name)
    assert package.CRFSUITE_VERSION == crfsuite.CRFSUITE_VERSION
    assert package.CRFSuiteError._messages == CRFSuiteError._messages


def test_sequences_of_odd_kinds(ours: Tagger, theirs: Any) -> None:
    # A string's characters are its attributes, as in python-crfsuite.
    for xseq in ("abc", ["abc", "q"], {"a": 1, "b": 2}, (["a"],), [{"a": 1}.keys()], [], ""):
        assert ours.tag(xseq) == theirs.tag(xseq)
    assert ours.tag(iter([["a"]])) == theirs.tag(iter([["a"]]))
    pycrfsuite = sys.modules["pycrfsuite"]
    for xseq in TRAIN:
        assert ours.tag(pycrfsuite.ItemSequence(xseq)) == theirs.tag(xseq)


def test_info_and_dump(ours: Tagger, theirs: Any, tmp_path: Path, capfd: Any) -> None:
    info, expected = ours.info(), theirs.info()
    for part in ("header", "labels", "attributes", "transitions", "state_features"):
        assert getattr(info, part) == getattr(expected, part)
        assert list(getattr(info, part)) == list(getattr(expected, part))
    ours.dump(tmp_path / "ours.txt")
    theirs.dump(str(tmp_path / "theirs.txt"))
    text = (tmp_path / "ours.txt").read_bytes()
    assert text == (tmp_path / "theirs.txt").read_bytes()
    ours.dump(os.fsencode(tmp_path / "ours.txt"))  # over what is there
    assert (tmp_path / "ours.txt").read_bytes() == text
    capfd.readouterr()
    ours.dump()
    assert capfd.readouterr().out.encode() == text


def test_open(model_path: Path, tmp_path: Path) -> None:
    data = model_path.read_bytes()
    xseq = TRAIN[1]
    expected = TAGS[1]
    tagger = Tagger()
    for name in (str(model_path), os.fsencode(model_path), model_path):
        with tagger.open(name) as opened:
            assert opened is tagger
            assert tagger.tag(xseq) == expected
        with pytest.raises(ValueError, match="The tagger is not opened"):
            tagger.labels()
    for value in (data, bytearray(data), memoryview(data)):
        with Tagger().open_inmemory(value) as tagger:
            assert tagger.tag(xseq) == expected
    tagger = Tagger()
    tagger.open(model_path)
    tagger.open(model_path)
    with pytest.raises(FileNotFoundError):
        tagger.open("nothing-here")
    with pytest.raises(TypeError):
        tagger.open(3.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="value must be bytes, not str"):
        tagger.open_inmemory("lCRF")  # type: ignore[arg-type]
    for bad in (b"", b"lCRFabc", b"lCRF" * 100, data[:-1], data + b"x"):
        with pytest.raises(ModelFormatError):
            tagger.open_inmemory(bad)
        (tmp_path / "bad").write_bytes(bad)
        for path in (tmp_path / "bad", os.fsencode(tmp_path / "bad")):
            with pytest.raises(ModelFormatError, match=" at byte ") as info:
                tagger.open(path)
            assert str(info.value).startswith(f"{tmp_path / 'bad'}: ")
    assert tagger.tag(xseq) == expected  # what was open stays open
    tagger.open(model_path)
    assert tagger.tag() == []  # but a new model knows of no sequence


def test_errors(ours: Tagger) -> None:
    ours.set([["a"], ["b"]])
    for ask, kind, words in (
        (lambda: ours.probability(["A"]), ValueError, r"differ: \|x\| = 2, \|y\| = 1"),
        (lambda: ours.probability(["A", "?"]), RuntimeError, r"identifier: \?"),
        (lambda: ours.probability(3), TypeError, "iterable"),
        (lambda: ours.probability(["A", 3]), TypeError, "label must be str, not int: 3"),
        (lambda: ours.marginal("?", 0), RuntimeError, r"identifier: \?"),
        (lambda: ours.marginal(3, 0), TypeError, "label must be str"),
        (lambda: ours.marginal("A", 2), ValueError, "position, 2, is out of range of 2"),
        (lambda: ours.marginal("A", -1), ValueError, "position, -1, "),
        (lambda: ours.marginal("A", "1"), TypeError, "pos must be an integer, not str"),
        (lambda: ours.marginal("A", None), TypeError, "pos must be an integer, not NoneType"),
        (lambda: ours.tag(3), TypeError, "xseq must be a sequence of items, not int"),
        (lambda: ours.tag([["a"], 3]), TypeError, r"xseq\[1\]: an item"),
        (lambda: ours.tag([{"a": None}]), TypeError, r"xseq\[0\]: attribute 'a': .*NoneType"),
        (lambda: ours.marginals([{"a": np.nan}]), ValueError, r"xseq\[0\]: .*finite"),
        (lambda: ours.tag([["\ud800"]]), UnicodeEncodeError, "surrogates"),
        (lambda: ours.tag([{"a": 1e300}]), ValueError, r"xseq\[0\]: a score is too large"),
        (lambda: ours.tag_batch([[], [{"a": 1e300}]]), ValueError, r"xseqs\[1\]\[0\]: a score"),
        (lambda: ours.tag_batch([[], [["a"], 7]]), TypeError, r"xseqs\[1\]\[1\]: an item"),
        (lambda: ours.tag_batch([], threads=0), ValueError, "threads"),
        (lambda: ours.tag_batch(None), TypeError, "xseqs must be an iterable of seq.*NoneType"),
        (lambda: ours.marginals_batch(3), TypeError, "xseqs must be an iterable of seq.*int"),
        (lambda: ours.tag(n_best=0), ValueError, "n_best must be"),
        (lambda: ours.marginals(zeta=1.5), ValueError, "zeta must lie"),
        (lambda: ours.marginals_batch([], zeta=-1), ValueError, "zeta must lie"),
        (lambda: Tagger.from_model(3), TypeError, "model must be a CrfsuiteModel, not int"),
    ):
        with pytest.raises(kind, match=words):
            ask()
    # A call that failed leaves the current sequence alone.
    assert len(ours.tag()) == 2
    assert ours.marginal(b"A", 1.9) == ours.marginals()[1, 0]  # type: ignore[arg-type]


class Named(Tagger):
    """A subclass with a state of its own, which does not call what it overrides."""

    def __init__(self, name: str) -> None:
        self.name = name


@pytest.mark.smoke
def test_pickling(tagger: Tagger, ours: Tagger, rng: np.random.Generator, model_path: Path) -> None:
    xseq = draw(rng, 6)
    tagger.set(xseq)
    named = Named("x")
    named.open(model_path)
    for original in (tagger, ours, named):
        marginals = original.marginals(xseq)
        pickled = [
            pickle.loads(pickle.dumps(original, p)) for p in range(pickle.HIGHEST_PROTOCOL + 1)
        ]
        for again in (*pickled, copy.deepcopy(original)):
            assert type(again) is type(original)
            assert again.tag() == []
            assert_same_bits(again.marginals(xseq), marginals)
            assert again.info() == original.info()
    assert pickle.loads(pickle.dumps(named)).name == "x"


def test_a_signal_ends_a_long_call() -> None:
    code = """
import signal, sys, threading
import numpy as np
from valuesparse.crf.crfsuite import Tagger
from valuesparse.io import CrfsuiteModel

k = 600
labels = [f"L{i}" for i in range(k)]
model = CrfsuiteModel(labels, ["x"], np.zeros((k, k)), np.ones((1, k)))
tagger = Tagger.from_model(model)
xseq = [["x"]] * 100_000
tagger.tag(xseq[:10])
threading.Timer(1.0, lambda: signal.raise_signal(signal.SIGINT)).start()
try:
    tagger.marginals(xseq)
except KeyboardInterrupt:
    sys.exit(0)
sys.exit(4)
"""
    assert children.run(code, timeout=120).returncode == 0


def test_error_codes() -> None:
    assert str(CRFSuiteError(-2147483648)) == "Unknown error occurred"
    assert str(CRFSuiteError(3)) == "Unexpected error"
    again = pickle.loads(pickle.dumps(CRFSuiteError(-2147483643)))
    assert (again.code, str(again)) == (-2147483643, "Overflow")


APPLICATION = """
import importlib, json, sys, warnings
warnings.simplefilter("ignore")
module, ours, texts = sys.argv[1], sys.argv[2] == "ours", json.loads(sys.stdin.read())
if ours:
    import valuesparse.crf
    valuesparse.crf.install()
package = importlib.import_module(module)
if ours:
    assert type(package.TAGGER).__module__ == "valuesparse.crf.crfsuite"
answers = []
for text in texts:
    answers.append(package.parse(text))
    try:
        answers.append([list(package.tag(text)[0].items()), package.tag(text)[1]])
    except Exception as error:
        answers.append(type(error).__name__)
json.dump(answers, sys.stdout)
"""


def texts_of(package: str, rng: np.random.Generator) -> list[str]:
    """Return many addresses or names, the common and the odd."""
    parts: Sequence[Sequence[str]]
    if package == "usaddress":
        parts = (
            ["", "Attn: Sales,", "Apt 4", "Bldg. #7", "The Old Mill"],
            ["1600", "12-34", "PO Box 42", "221b", "N6W23001", "", "½"],
            ["", "N", "South", "SW", "Old"],
            ["Main", "Pennsylvania", "5th", "Martin Luther King Jr.", "José Martí", "U.S. 31"],
            ["St", "Avenue", "Blvd.", "Hwy", "", "Pl,"],
            ["", "Suite 100", "#3", "Unit B-2", "(rear)", "Fl. 12,"],
            ["Chicago,", "St. Paul", "Washington", "New York,", "", "Zürich"],
            ["IL", "MN", "DC", "", "California", "Ont."],
            ["60601", "20500-0003", "", "K1A 0B1"],
        )
    else:
        parts = (
            ["", "Mr.", "Dr", "Prof.", "Hon."],
            ["John", "Ana María", "J. R.", "Bob & Sue", "Sherlock", "李", "The"],
            ["", "Q.", "'Gob'", "de la", "van"],
            ["Smith", "O'Brien", "Bluth", "Cruz", "Gogh", "Holmes"],
            ["", "II", "Jr.", "PhD", "& Sons", "Brothers"],
            ["", "Ltd.", "Inc", "LLC,", "Foundation", "d/b/a Acme"],
        )
    return [
        " ".join(word for word in (str(rng.choice(part)) for part in parts) if word)
        for _ in range(400)
    ]


@pytest.mark.parametrize("package", ["usaddress", "probablepeople"])
def test_applications_run_on_it(package: str, rng: np.random.Generator) -> None:
    pytest.importorskip("pycrfsuite", reason="python-crfsuite is the reference")
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    texts = texts_of(package, rng)

    def run(which: str) -> Any:
        done = subprocess.run(
            [sys.executable, "-c", APPLICATION, package, which],
            env=children.environment(),
            cwd=tempfile.gettempdir(),
            input=json.dumps(texts),
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    ours = run("ours")
    assert ours == run("theirs")
    assert len({json.dumps(answer) for answer in ours}) > 300


def test_a_model_of_many_labels_opens_where_that_is_meant(tmp_path: Path) -> None:
    """Its transitions take far more memory than its file."""
    from valuesparse.crf import Trainer, tag_corpus

    k = 1100
    trainer = Trainer(params={"max_iterations": 1}, verbose=False)
    for i in range(k):
        trainer.append([[f"w={i % 7}"]], [f"L{i}"])
    path = tmp_path / "m.crfsuite"
    trainer.train(os.fspath(path))
    text = tmp_path / "a.conll"
    text.write_text("a\nb\n\n")
    with pytest.raises(ModelFormatError, match=f"--max-labels {k}"):
        Tagger().open(os.fspath(path))
    with pytest.raises(ModelFormatError, match=f"max_labels={k}"):
        tag_corpus(path, [text], tmp_path / "out", features="words")
    tagger = Tagger(max_labels=k)
    tagger.open(os.fspath(path))
    assert len(tagger.labels()) == k
    assert len(pickle.loads(pickle.dumps(tagger)).tag([["w=1"]])) == 1
    report = tag_corpus(path, [text], tmp_path / "out", features="words", max_labels=k)
    assert report.tokens == 2
    for bad in (0, -1, 1.5):
        with pytest.raises(ValueError, match="max_labels"):
            Tagger(max_labels=bad)  # type: ignore[arg-type]


def test_the_estimator_trains_models_of_many_labels(tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="needs scikit-learn")
    from valuesparse.crf import CRF

    k, path = 1100, tmp_path / "m.crfsuite"
    x, y = [[[f"w={i % 7}"]] for i in range(k)], [[f"L{i}"] for i in range(k)]
    crf = CRF(max_iterations=1, model_filename=path).fit(x, y)
    assert len(crf.classes_) == k
    assert len(pickle.loads(pickle.dumps(crf)).predict(x[:2])) == 2
    other = CRF(model_filename=path)
    with pytest.raises(ModelFormatError, match=f"pass max_labels={k}"):
        other.predict(x[:2])
    np.testing.assert_array_equal(other.set_params(max_labels=k).predict(x), crf.predict(x))


def test_type_checkers_know_that_item_sequences_are_taken() -> None:
    for method, name in (
        (Tagger.set, "xseq"), (Tagger.tag, "xseq"), (Tagger.marginals, "xseq"),
        (Tagger.pairwise, "xseq"), (Trainer.append, "xseq"), (CrfsuiteModel.unary, "xseq"),
    ):  # fmt: skip
        assert "ItemSequence | Iterable[Any]" in method.__annotations__[name]
    for method in (Tagger.tag_batch, Tagger.marginals_batch, CrfsuiteModel.chain):
        assert "Iterable[ItemSequence | Iterable[Any]]" in method.__annotations__["xseqs"]


def test_classes_show_their_arguments() -> None:
    assert list(inspect.signature(Tagger).parameters) == ["constraints", "forbidden", "max_labels"]
    assert list(inspect.signature(Trainer).parameters)[:3] == ["algorithm", "params", "verbose"]
