"""A model and what is kept beside it belong together, whatever is interrupted, or are refused."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import children
import pytest

from valuesparse.crf import Trainer, tag_corpus, tag_file, train_corpus
from valuesparse.crf.corpora import training
from valuesparse.crf.corpora._beside import beside
from valuesparse.crf.corpora._reader import extraction_of

TEXT = "the DET\ndog NOUN\nran VERB\n\na DET\ncat NOUN\n\n" * 5


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "a.conll"
    path.write_text(TEXT)
    return path


def train(source: Path, **options: Any) -> Path:
    model = source.with_name("m.crfsuite")
    train_corpus([source], model, **options)
    return model


def kept(model: Path) -> dict[str, Any]:
    return json.loads(model.with_name(model.name + ".json").read_text())


def refused(model: Path, source: Path, match: str, **options: Any) -> None:
    with pytest.raises(ValueError, match=match) as caught:
        tag_corpus(model, [source], source.parent / "out", **options)
    text = str(caught.value)
    assert text.startswith(f"{model}.json does not ")
    assert "train again, or remove it and say with --features (features=) how words" in text
    assert "\n" not in text
    assert not (source.parent / "out").exists()


def test_they_belong_together_and_the_model_is_what_the_trainer_returns(source: Path) -> None:
    model = train(source)
    assert kept(model)["model_sha256"] == hashlib.sha256(model.read_bytes()).hexdigest()
    assert tag_corpus(model, [source], source.parent / "out").sentences == 10
    # Both move together, under other names.
    other = source.with_name("other")
    os.replace(model, other)
    os.replace(f"{model}.json", f"{other}.json")
    assert tag_corpus(other, [source], source.parent / "out2").sentences == 10


def test_a_model_of_another_training_is_refused(source: Path) -> None:
    model = train(source, features="cantonese")
    trainer = Trainer(verbose=False)
    trainer.append([["w=a"]], ["X"])
    trainer.train(model)
    refused(model, source, "does not belong to")
    refused(model, source, "does not belong to", features="words")
    Path(f"{model}.json").unlink()
    assert tag_corpus(model, [source], source.parent / "out", features="words").sentences == 10


@pytest.mark.parametrize("told", [None, "", "0" * 64])
def test_what_says_nothing_of_its_model_is_refused(source: Path, told: str | None) -> None:
    model = train(source)
    settings = kept(model)
    settings["model_sha256"] = told
    for content in (settings, {k: v for k, v in settings.items() if k != "model_sha256"}):
        Path(f"{model}.json").write_text(json.dumps(content))
        refused(model, source, "does not (say that it belong|belong)s? to")


@pytest.mark.parametrize("word", ["1e9", "-1", "0", "7"])
def test_a_bad_column_is_blamed_on_the_file_that_says_it(source: Path, word: str) -> None:
    model = train(source)
    Path(f"{model}.json").write_text(json.dumps({**kept(model), "word": word}))
    with pytest.raises(ValueError, match=f"'word' in {re.escape(str(model))}.json") as caught:
        tag_corpus(model, [source], source.parent / "out")
    text = str(caught.value)
    if word == "7":
        assert f"line 1, sentence: no column 7, the word ('word' in {model}.json), among 2" in text
    else:
        assert text.startswith("a.conll: 'word' in ")
        assert text.endswith(f"{word!r} must be the number of a column, from 1")
    assert tag_corpus(model, [source], source.parent / "out", word="1").sentences == 10


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("calls", [0, 1])
def test_a_kill_between_the_two_never_leaves_a_pair_that_looks_right(
    source: Path, monkeypatch: pytest.MonkeyPatch, before: bool, calls: int
) -> None:
    """Nothing runs after a kill: neither do the renames that would come."""
    model = source.with_name("m.crfsuite")
    old = train(source, features="words").read_bytes() if before else b""
    settings = kept(model) if before else {}
    replace, done = os.replace, []

    def killed(*names: Any) -> None:
        if len(done) == calls:
            raise KeyboardInterrupt
        done.append(names)
        replace(*names)

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        train(source, features="cantonese")
    monkeypatch.undo()
    if before:
        assert model.read_bytes() == old
    else:
        assert not model.exists()
    if calls == 0:  # as if nothing had been
        assert not before or kept(model) == settings
        assert before or not Path(f"{model}.json").exists()
    elif before:
        # The old one, as it was kept before.
        assert {k: v for k, v in kept(model).items() if k != "before"} != settings
        assert json.loads(kept(model)["before"]) == settings
        how = extraction_of(model, None, None)
        assert how.features == "words"
        assert tag_corpus(model, [source], source.parent / "old").sentences == 10
        shutil.rmtree(source.parent / "old")
    else:
        with pytest.raises(FileNotFoundError, match=r"m\.crfsuite"):
            tag_corpus(model, [source], source.parent / "out")
    assert {p.name for p in source.parent.iterdir()} <= {"a.conll", "m.crfsuite", "m.crfsuite.json"}
    train(source, features="cantonese")
    assert "before" not in kept(model)
    assert extraction_of(model, None, None).features == "cantonese"
    assert tag_corpus(model, [source], source.parent / "out").sentences == 10


RETRAINED = """
import resource, sys
from valuesparse.crf import train_corpus
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]),) * 2)
try:
    train_corpus([sys.argv[1]], sys.argv[2], features="cantonese")
except OSError as error:
    print(error.filename == sys.argv[2])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no RLIMIT_FSIZE")
@pytest.mark.parametrize("before", [False, True])
def test_a_retraining_that_fails_leaves_the_old_model_as_it_was(source: Path, before: bool) -> None:
    model = train(source) if before else source.with_name("m.crfsuite")
    old = {path.name: path.read_bytes() for path in source.parent.iterdir()}
    done = children.run(RETRAINED, str(source), str(model), "1000")
    assert done.stdout == "True\n", done.stderr
    assert {path.name: path.read_bytes() for path in source.parent.iterdir()} == old
    if before:
        assert tag_corpus(model, [source], source.parent / "out").sentences == 10


@pytest.mark.parametrize("before", [False, True])
def test_a_rename_that_fails_puts_back_what_was_kept(
    source: Path, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    if before:
        train(source)
    old = {path.name: path.read_bytes() for path in source.parent.iterdir()}
    replace = os.replace

    def failing(first: Any, second: Any) -> None:
        if Path(second).name == "m.crfsuite":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        replace(first, second)

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(OSError, match=r"m\.crfsuite"):
        train(source, features="cantonese")
    assert {path.name: path.read_bytes() for path in source.parent.iterdir()} == old


@pytest.mark.parametrize("told", ["[]", "{", '{"features": 1}', "[" * 100])
def test_what_is_kept_of_the_model_before_is_checked_too(source: Path, told: str) -> None:
    model = train(source)
    Path(f"{model}.json").write_text(json.dumps({**kept(model), "before": told}))
    assert tag_corpus(model, [source], source.parent / "out").sentences == 10  # it is not that one
    Path(f"{model}.json").write_text(json.dumps({"model_sha256": "0", "before": told}))
    with pytest.raises(ValueError, match=r"m\.crfsuite\.json") as caught:
        tag_corpus(model, [source], source.parent / "out2")
    assert "\n" not in str(caught.value)


def test_nothing_that_is_read_is_written_over(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = source.with_name("t.txt")
    template.write_text("U:%x[0,0]\n")
    other = source.with_name("b.conll.json")
    other.write_text(TEXT)
    link = source.with_name("link")
    link.symlink_to(source) if os.name != "nt" else os.link(source, link)
    for target, inputs, what in (
        (source, [other, source], "one of the inputs"),
        (link, [source], "one of the inputs"),
        (source.with_name("b.conll"), [other], "one of the inputs"),
        (template, [source], "the template"),
    ):
        with pytest.raises(ValueError, match=f"model: .* is {what}, and would be lost"):
            train_corpus(inputs, target, features=f"template:{template}", input_format="conll")
    with pytest.raises(ValueError, match=r"checkpoint: .* is one of the inputs"):
        train(source, checkpoint=source)
    model = train(source, features=f"template:{template}")
    held = {path: path.read_bytes() for path in source.parent.iterdir() if path.is_file()}
    for target, what in (
        (model, "the model"),
        (beside(model), "what the model was trained with"),
        (template, "the template"),
    ):
        with pytest.raises(ValueError, match=f"target: .* is {what}, and would be lost"):
            tag_file(model, source, target, features=f"template:{template}")
    module = source.with_name("asked_features.py")
    module.write_text("def words(ws):\n    return [['w=' + w] for w in ws]\n")
    monkeypatch.syspath_prepend(str(source.parent))
    for call in (
        lambda: train_corpus(source, module, features="asked_features:words"),
        lambda: tag_file(model, source, module, features="asked_features:words"),
    ):
        with pytest.raises(ValueError, match=r": .* is the module of the features, and would be"):
            call()
    assert {path: path.read_bytes() for path in held} == held
    assert source.read_text() == other.read_text() == TEXT
    assert template.read_text() == "U:%x[0,0]\n"
    tag_file(model, link, source)  # the text itself may be tagged where it stands
    assert source.read_text().startswith(TEXT.splitlines()[0])
    with pytest.raises(TypeError, match=r"word must be text, .* got 9"):
        tag_file(model, source, source.with_name("out.conll"), word=9)  # type: ignore[arg-type]


def test_what_is_said_whole_needs_nothing_that_is_kept(source: Path) -> None:
    model = train(source)
    Path(f"{model}.json").write_text(json.dumps({**kept(model), "model_sha256": "0"}))
    refused(model, source, "where --word", features="words")
    report = tag_corpus(model, [source], source.parent / "out", features="words", word="1")
    assert report.sentences == 10


def test_what_cannot_be_written_is_said_before_anything_is_read(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reading(*_: Any) -> None:
        raise AssertionError("the data are read")

    monkeypatch.setattr(training, "Reader", reading)
    folder = source.with_name("folder")
    folder.mkdir()
    source.with_name("m.json").mkdir()
    for name, blamed in (("folder", "folder"), ("none/m", "none/m"), ("m", "m.json")):
        with pytest.raises(OSError, match=r"m|folder") as caught:
            train_corpus([source], source.with_name("x").parent / name)
        assert caught.value.filename == str(source.parent / blamed)
    for name in ("m.crfsuite", "m.crfsuite.json"):
        with pytest.raises(ValueError, match="is where the model goes; name another file"):
            train(source, checkpoint=source.with_name(name))
