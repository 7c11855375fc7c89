"""`valuesparse.crf.install`, in fresh interpreters: this one has the originals imported."""

from __future__ import annotations

import doctest
import importlib.util
import json
import re
from pathlib import Path

import children
import pytest

from valuesparse.crf import _install

needs_sklearn = pytest.mark.skipif(
    importlib.util.find_spec("sklearn") is None, reason="needs scikit-learn: the extra sklearn"
)

PREAMBLE = """
import importlib, importlib.util, pathlib, pickle, sys, threading, types
import valuesparse.crf
from valuesparse.crf import crfsuite

def originals_are_missing():
    class Finder:
        @staticmethod
        def find_spec(name, path=None, target=None):
            if name in ("pycrfsuite", "sklearn_crfsuite"):
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    sys.meta_path.insert(0, Finder)

def loaded():
    return {n for n in sys.modules if n.partition(".")[0] in ("pycrfsuite", "sklearn_crfsuite")}

def refused(call, kind, text):
    try:
        call()
    except kind as error:
        assert text in str(error), error
        assert "\\n" not in str(error)
    else:
        raise AssertionError(f"{call} was not refused")
"""


def run(code: str, *args: str) -> str:
    done = children.run(PREAMBLE + code, *args, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def needs_originals() -> None:
    for name in ("pycrfsuite", "sklearn_crfsuite"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name}, the original, is not installed")


def test_packages_and_submodules_without_the_originals() -> None:
    run("""
originals_are_missing()
installation = valuesparse.crf.install()
import pycrfsuite._logparser
from pycrfsuite import *
from pycrfsuite import _dumpparser, _pycrfsuite
import pycrfsuite
assert Tagger is crfsuite.Tagger is pycrfsuite.Tagger is _pycrfsuite.Tagger
for name in ("BaseTrainer", "CRFSuiteError", "ItemSequence", "Trainer", "CRFSUITE_VERSION"):
    assert getattr(pycrfsuite, name) is getattr(crfsuite, name)
trainer = pycrfsuite.Trainer("ap", verbose=False)
trainer.append([["a"], ["b"]], ["A", "B"])
model = trainer.train_inmemory()
assert type(trainer.logparser) is pycrfsuite._logparser.TrainLogParser
tagger = Tagger()
with tagger.open_inmemory(model):
    assert type(tagger.info()) is _dumpparser.ParsedDump

for name in ("pycrfsuite", "pycrfsuite._logparser"):
    module = sys.modules[name]
    assert type(module) is types.ModuleType
    assert module.__spec__.name == module.__name__ == name
    assert importlib.util.find_spec(name) is module.__spec__
    assert importlib.reload(module) is module
    assert pathlib.Path(module.__file__).exists()
assert pycrfsuite.__package__ == "pycrfsuite" and list(pycrfsuite.__path__)
assert pycrfsuite.Tagger is crfsuite.Tagger  # after reloading
refused(lambda: importlib.import_module("pycrfsuite.nothing"), ModuleNotFoundError, "nothing")

installation.uninstall()
assert not loaded()
refused(lambda: importlib.import_module("pycrfsuite"), ModuleNotFoundError, "pycrfsuite")
with tagger.open_inmemory(model):  # what was imported meanwhile keeps working
    assert tagger.labels() == ["A", "B"]
""")


@needs_sklearn
def test_sklearn_crfsuite_without_the_original() -> None:
    run("""
originals_are_missing()
with valuesparse.crf.install():
    import sklearn_crfsuite
    assert sklearn_crfsuite.CRF is valuesparse.crf.CRF
    import sklearn_crfsuite.estimator, sklearn_crfsuite.metrics, sklearn_crfsuite.scorers
    from sklearn_crfsuite import _fileresource, compat, trainer, utils
    import pycrfsuite
    from sklearn.base import BaseEstimator
    assert sklearn_crfsuite.estimator.CRF is valuesparse.crf.CRF
    assert sklearn_crfsuite.metrics.flat_f1_score is valuesparse.crf.metrics.flat_f1_score
    assert sklearn_crfsuite.scorers.flat_accuracy is valuesparse.crf.scorers.flat_accuracy
    assert compat.BaseEstimator is BaseEstimator
    assert issubclass(trainer.LinePerIterationTrainer, pycrfsuite.Trainer)
    assert utils.flatten([[1], [], [2, 3]]) == [1, 2, 3]
    crf = sklearn_crfsuite.CRF().fit([[["a"], ["b"]]], [["A", "B"]])
    assert type(crf.modelfile) is _fileresource.FileResource
assert not loaded()
again = pickle.loads(pickle.dumps(crf))
assert again.predict([[["a"]]]).tolist() == crf.predict([[["a"]]]).tolist()
""")


def test_public_names_are_the_originals_to_the_letter() -> None:
    """Names that the originals have by accident, of modules that they import, are left out."""
    needs_originals()
    code = """
import json
if sys.argv[1] == "ours":
    valuesparse.crf.install()
names = {}
for module in sys.argv[2].split():
    found = importlib.import_module(module)
    names[module] = {
        n: sorted(m for m in dir(v) if not m.startswith("_")) if isinstance(v, type) else ""
        for n, v in vars(found).items()
        if not n.startswith("_") and not isinstance(v, types.ModuleType)
    }
print(json.dumps(names))
"""
    modules = (
        "pycrfsuite pycrfsuite._pycrfsuite pycrfsuite._logparser pycrfsuite._dumpparser "
        "sklearn_crfsuite sklearn_crfsuite.estimator sklearn_crfsuite.compat "
        "sklearn_crfsuite._fileresource sklearn_crfsuite.metrics sklearn_crfsuite.scorers "
        "sklearn_crfsuite.trainer sklearn_crfsuite.utils"
    )
    theirs = json.loads(run(code, "theirs", modules))
    ours = json.loads(run(code, "ours", modules))
    accidents = {"annotations", "namedtuple", "wraps", "chain", "tqdm", "tabulate", "make_scorer"}
    for module, names in theirs.items():
        assert set(names) - accidents <= set(ours[module]), module
        for name in set(names) - accidents:
            # Which method of a parser takes which line is its own affair.
            missing = set(names[name]) - set(ours[module][name])
            assert all(n.startswith(("handle_", "parse_")) for n in missing), (module, name)


def test_nested_and_repeated() -> None:
    run("""
originals_are_missing()
first = valuesparse.crf.install()
import pycrfsuite
with valuesparse.crf.install() as second:
    assert sys.modules["pycrfsuite"] is pycrfsuite  # the same module, not another one
    assert repr(second) == "<active installation of valuesparse.crf>"
assert repr(second) == "<inactive installation of valuesparse.crf>"
assert sys.modules["pycrfsuite"] is pycrfsuite
third = valuesparse.crf.install()
first.uninstall()
first.uninstall()  # counts once
assert sys.modules["pycrfsuite"] is pycrfsuite
third.uninstall()
assert not loaded()
finders = list(sys.meta_path)
with second, second:  # entered again
    import pycrfsuite
assert not loaded() and sys.meta_path == finders
""")


def test_errors_inside_restore_as_well() -> None:
    run("""
before = list(sys.meta_path)
try:
    with valuesparse.crf.install():
        1 / 0
except ZeroDivisionError:
    pass
assert not loaded() and sys.meta_path == before
""")


def test_what_stood_there_by_hand_comes_back() -> None:
    run("""
sys.modules["pycrfsuite"] = crfsuite
sys.modules["sklearn_crfsuite"] = None  # forbidden
with valuesparse.crf.install():
    import pycrfsuite
    assert pycrfsuite is not crfsuite and pycrfsuite.Tagger is crfsuite.Tagger
    assert importlib.util.find_spec("sklearn_crfsuite") is not None
assert sys.modules["pycrfsuite"] is crfsuite
refused(lambda: importlib.import_module("sklearn_crfsuite"), ModuleNotFoundError, "halted")
""")


def test_originals_that_are_imported_are_refused() -> None:
    needs_originals()
    run("""
import pycrfsuite
mine, finders = set(sys.modules), list(sys.meta_path)
refused(valuesparse.crf.install, RuntimeError, "pycrfsuite is already imported from ")
assert sys.modules["pycrfsuite"] is pycrfsuite
assert set(sys.modules) == mine and sys.meta_path == finders
del sys.modules["pycrfsuite"]  # what it has loaded is still there
refused(valuesparse.crf.install, RuntimeError, "valuesparse.crf.install() before anything")
""")
    run("""
with valuesparse.crf.install():
    import pycrfsuite as ours
import pycrfsuite
assert pycrfsuite is not ours and pycrfsuite.Tagger is not crfsuite.Tagger
refused(valuesparse.crf.install, RuntimeError, "already imported")
""")


def test_threads_install_import_and_leave_at_the_same_time() -> None:
    run("""
originals_are_missing()
sys.setswitchinterval(1e-5)
errors, gate = [], threading.Barrier(8)

def work():
    try:
        gate.wait()
        for _ in range(30):
            with valuesparse.crf.install():
                import pycrfsuite, pycrfsuite._logparser
                assert pycrfsuite.Tagger is crfsuite.Tagger
    except BaseException as error:
        errors.append(repr(error))

threads = [threading.Thread(target=work) for _ in range(8)]
[t.start() for t in threads]
[t.join() for t in threads]
assert not errors, errors
assert not loaded()
""")


PICKLES = """
import sklearn_crfsuite, pycrfsuite
from sklearn_crfsuite.trainer import LinePerIterationTrainer
folder = pathlib.Path(sys.argv[1])
X = [[["w=the"], ["w=cat"]], [{"w": "a"}, {"w": "dog", "n": 2.0}, {"w": "ran"}]] * 4
y = [["DET", "NOUN"], ["DET", "NOUN", "VERB"]] * 4
path = str(folder / "given.crfsuite")
things = {
    "plain": sklearn_crfsuite.CRF(c2=0.1, max_iterations=20).fit(X, y, X[:3], y[:3]),
    "given": sklearn_crfsuite.CRF("ap", model_filename=path).fit(X, y),
    "trainer": sklearn_crfsuite.CRF(trainer_cls=LinePerIterationTrainer).fit(X, y),
    "new": sklearn_crfsuite.CRF(c1=0.5),
}
answers = {
    name: (crf.predict(X).tolist(), crf.predict_marginals(X).tolist(), crf.state_features_)
    for name, crf in things.items() if name != "new"
}
things["info"] = things["plain"].tagger_.info()
things["log"] = things["plain"].training_log_
things["file"] = things["plain"].modelfile
answers["bytes"] = pathlib.Path(things["file"].name).read_bytes()
answers["log"] = vars(things["log"])["events"], things["log"].iterations[-1]["num"]
answers["info"] = vars(things["info"])
things["label"] = things["log"].last_iteration["scores"]["DET"]
answers["label"] = tuple(things["label"])
for protocol in (0, 2, pickle.HIGHEST_PROTOCOL):
    for name, thing in things.items():
        (folder / f"{name}{protocol}.pickle").write_bytes(pickle.dumps(thing, protocol))
(folder / "answers").write_bytes(pickle.dumps(answers))
"""

OPENING = """
originals_are_missing()
valuesparse.crf.install()
import math
folder = pathlib.Path(sys.argv[1])
answers = pickle.loads((folder / "answers").read_bytes())
X = [[["w=the"], ["w=cat"]], [{"w": "a"}, {"w": "dog", "n": 2.0}, {"w": "ran"}]] * 4
for protocol in (0, 2, pickle.HIGHEST_PROTOCOL):
    def load(name):
        return pickle.loads((folder / f"{name}{protocol}.pickle").read_bytes())
    for name in ("plain", "given", "trainer"):
        crf = load(name)
        assert type(crf) is valuesparse.crf.CRF
        tags, marginals, features = answers[name]
        assert crf.predict(X).tolist() == tags
        for rows, others in zip(crf.predict_marginals(X), marginals):
            for row, other in zip(rows, others):
                assert row.keys() == other.keys()
                assert all(math.isclose(row[k], other[k], rel_tol=1e-9) for k in row)
        assert crf.state_features_ == features
        assert crf.training_log_.last_iteration["num"] >= 1
        # And so do pickles of what was opened, copies and other fits.
        assert pickle.loads(pickle.dumps(crf)).predict(X).tolist() == tags
        import sklearn.base
        fresh = sklearn.base.clone(crf)
        assert fresh.get_params() == crf.get_params() and fresh.threads is None
        if name != "given":
            assert fresh.fit(X, tags).score(X, tags) == 1.0
            assert pathlib.Path(crf.modelfile.name).read_bytes()[:4] == b"lCRF"
        assert repr(crf)
    assert load("plain").c2 == 0.1 and load("plain").random_state == 0
    assert load("new").c1 == 0.5 and load("new").tagger_ is None
    assert load("new").fit(X, tags).predict(X).tolist() == tags
    info, log, file = load("info"), load("log"), load("file")
    assert vars(info) == answers["info"]
    assert (log.events, log.last_iteration["num"]) == answers["log"]
    assert log.last_log == "".join(log.log[slice(*log.events[-1][1:])])
    assert file.auto and pathlib.Path(file.name).read_bytes() == answers["bytes"]
    assert file.name.endswith(".crfsuite")
    assert load("label") == answers["label"] and load("label").f1 == answers["label"][-1]
"""


def test_pickles_of_the_originals_are_opened(tmp_path: Path) -> None:
    needs_originals()
    run(PICKLES, str(tmp_path))
    run(OPENING, str(tmp_path))


@needs_sklearn
def test_pickles_that_were_made_under_it_are_opened_with_and_without(tmp_path: Path) -> None:
    run("valuesparse.crf.install()" + PICKLES, str(tmp_path))
    run(OPENING, str(tmp_path))
    run(OPENING.replace("valuesparse.crf.install()", ""), str(tmp_path))


def test_without_scikit_learn_the_error_says_how_to_get_it() -> None:
    done = children.run("""
import sys
sys.modules["sklearn"] = None  # as if it were not installed
import valuesparse.crf
valuesparse.crf.install()
import pycrfsuite
try:
    import sklearn_crfsuite
except ImportError as error:
    assert "valuesparse[sklearn]" in str(error), error
    sys.exit(7)
""")
    assert done.returncode == 7, done.stderr


@needs_sklearn
def test_the_examples_of_the_docstrings() -> None:
    found = doctest.DocTestFinder().find(_install)
    code = "\n".join(example.source for test in found for example in test.examples)
    assert "sklearn_crfsuite.CRF is" in code
    wants = [example.want for test in found for example in test.examples if example.want]
    assert set(wants) == {"True\n"}
    checked = re.sub(r"^(\w+\.\w+ is .*?)( *#.*)?$", r"assert \1", code, flags=re.MULTILINE)
    assert checked.count("assert ") == len(wants)
    run("from valuesparse.crf import install\n" + checked.replace("#", "  #"))
