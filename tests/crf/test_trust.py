"""A model and its MODEL.json may name features, and never run code, whoever made them."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import children
import pytest
from corpus_files import as_conll, attributes_of, make_model, sentences

from valuesparse.crf import tag_corpus, train_corpus
from valuesparse.crf.corpora._functions import find_function
from valuesparse.crf.corpora._reader import extraction_of

SECRET = "the-secret-of-somebody"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "of").mkdir()
    return make_model(tmp_path / "of")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "a.conll"
    path.write_text(as_conll(sentences(20, seed=1)))
    return path


def keep(model: Path, **settings: object) -> None:
    """Write what is kept beside a model, as one who has the model can."""
    tie = hashlib.sha256(model.read_bytes()).hexdigest()
    path = model.with_name(model.name + ".json")
    path.write_text(json.dumps({**settings, "model_sha256": tie}))


@pytest.mark.parametrize(
    "name",
    [
        "subprocess:check_output",
        "os:system",
        "valuesparse.crf.corpora._features:word_attributes",
        "antigravity:f",
        ":",
        "a:b:c",
        "\n:\x1b[31m",
        "x" * 10_000 + ":f",
    ],
)
def test_a_model_that_names_a_function_runs_nothing(
    name: str, model: Path, source: Path, tmp_path: Path
) -> None:
    keep(model, features=name)
    made = tmp_path / "made"
    source.write_text(f"touch\n{made}\n\n")
    before, path = set(sys.modules), list(sys.path)
    with pytest.raises(ValueError, match="asks for the function") as info:
        tag_corpus(model, [source], tmp_path / "out")
    said = str(info.value)
    assert repr(name[:80]) in said
    assert f"{model}.json" in said
    assert "--features NAME (features=NAME)" in said
    assert "\n" not in said
    assert "\x1b" not in said
    assert len(said) < len(str(model)) + 400
    assert not made.exists()
    assert not (tmp_path / "out").exists()
    assert set(sys.modules) == before
    assert sys.path == path


def test_the_command_line_refuses_and_takes_the_name(model: Path, source: Path, tmp_path: Path):
    """The reproduction of the defect: the words of the input made a file."""
    keep(model, features="subprocess:check_output")
    made, mark = tmp_path / "made", tmp_path / "mark"
    source.write_text(f"touch\n{made}\n\n")
    (tmp_path / "mine.py").write_text(
        f"open({str(mark)!r}, 'w').close()\nimport beside\n"
        "def f(words): return [[beside.PRE + w] for w in words]\n"
    )
    (tmp_path / "beside.py").write_text("PRE = 'w='\n")

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", "from valuesparse.cli import main; main()",
             *map(str, arguments)],
            env=children.environment(PYTHONSAFEPATH="1"), cwd=tmp_path, capture_output=True,
            text=True, timeout=120, check=False,
        )  # fmt: skip

    pytest.importorskip("click", reason="the command line needs the cli extra")
    found = run("tag", model, source, "-o", "out")
    assert found.returncode == 1
    assert found.stderr.startswith("Error: ")
    assert found.stderr.count("\n") == 1
    assert "asks for the function 'subprocess:check_output'" in found.stderr
    assert not made.exists()
    # A function of one's own, in the working folder, with a neighbour that it imports.
    source.write_text(as_conll(sentences(30)))
    found = run("train", source, "-o", "mine.crfsuite", "--features", "mine:f", "-q")
    assert found.returncode == 0, found.stderr
    mark.unlink()
    found = run("tag", "mine.crfsuite", source, "-o", "out")
    assert found.returncode == 1
    assert "asks for the function 'mine:f'" in found.stderr
    assert not mark.exists()  # its module was not imported before the check
    for backend in ("threads", "loky"):
        found = run("tag", "mine.crfsuite", source, "-o", f"{backend}/", "--features", "mine:f",
                    "--backend", backend, "-j", 2)  # fmt: skip
        assert found.returncode == 0, found.stderr
        output = (tmp_path / backend / source.name).read_text()
        rows = [line.split("\t") for line in output.split("\n") if line]
        assert all(row[1] == row[2] for row in rows)
    assert mark.exists()


@pytest.mark.parametrize("backend", ["threads", "loky"])
def test_a_function_itself_may_be_given(backend: str, source: Path, tmp_path: Path) -> None:
    model = tmp_path / "m.crfsuite"
    train_corpus([source], model, features=attributes_of)
    kept = json.loads((tmp_path / "m.crfsuite.json").read_text())
    assert kept["features"] == "corpus_files:attributes_of"
    with pytest.raises(ValueError, match="asks for the function"):
        tag_corpus(model, [source], tmp_path / "out")
    [output] = tag_corpus(
        model, [source], tmp_path / "out", features=attributes_of, backend=backend, jobs=2
    ).outputs
    rows = [line.split("\t") for line in output.read_text().split("\n") if line]
    assert all(row[1] == row[2] for row in rows)
    with pytest.raises(TypeError, match="features must be the name of an extractor or a function"):
        tag_corpus(model, [source], tmp_path / "other", features=5)  # type: ignore[arg-type]


def test_sys_path_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise RuntimeError('an installed module was shadowed')\n")
    (tmp_path / "trust_alone.py").write_text(
        "import json, sys, trust_beside\nf = trust_beside.f\nnumber = 5\npath = list(sys.path)\n"
        "class C:\n    @staticmethod\n    def g(words): return words\n"
    )
    (tmp_path / "trust_beside.py").write_text("def f(words): return [[w] for w in words]\n")
    package = tmp_path / "trust_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "inner.py").write_text("from .other import f\n")
    (package / "other.py").write_text(
        "def f(words):\n    from .late import g\n    return g(words)\n"
    )
    (package / "late.py").write_text("def g(words): return [[w] for w in words]\n")
    (tmp_path / "trust_broken.py").write_text("1 / 0\n")
    (tmp_path / "trust_syntax.py").write_text("def f(:\n")
    folder = str(tmp_path)
    before, finders = list(sys.path), list(sys.meta_path)
    for name in ("trust_alone:f", "trust_alone:C.g", "trust_package.inner:f"):
        assert len(find_function(name, folder)(["a"])) == 1
        assert sys.path == before
        assert sys.meta_path == finders
    assert sys.modules["trust_alone"].path == before  # not even while it is imported
    for name, message in (
        ("trust_broken:f", r"'trust_broken:f' cannot be imported: ZeroDivisionError"),
        ("trust_syntax:f", r"cannot be imported: SyntaxError"),
        ("trust_alone:number", "is a int, not a function"),
        ("trust_alone:h", r"cannot be imported: .*trust_alone\.py has no 'h'"),
        ("trust_nowhere:f", r"no module 'trust_nowhere', neither where Python looks nor in"),
        ("json:f", r"cannot be imported: .* has no 'f'"),  # Python's own comes first
        (".trust_alone:f", "cannot be imported"),
        ("trust_alone:", "does not name a function"),
    ):
        with pytest.raises(ValueError, match=message):
            find_function(name, folder)
        assert sys.path == before
    with pytest.raises(ValueError, match="No module named 'trust_beyond'"):
        find_function("trust_beyond:f")


def ways_out(tmp_path: Path) -> dict[str, str]:
    """Return names of templates that lead out of the model's folder, `of`."""
    secret = tmp_path / "secret.txt"
    secret.write_text(SECRET + "\n")
    named = {
        "absolute": str(secret),
        "up": "../secret.txt",
        "up again": "sub/../../secret.txt",
        "up as on Windows": "..\\secret.txt",
        "a drive": "C:\\secret.txt",
        "a drive's own folder": "C:secret.txt",
        "a share": "\\\\host\\share\\secret.txt",
        "a root": "\\secret.txt",
        "a device": "/dev/stdin",
        "null": "a\0b",
        "half a character": "\ud800",
        "in": "",
        "nowhere": "nothing.txt",
    }
    return named


def test_templates_come_from_the_models_folder(model: Path, source: Path, tmp_path: Path) -> None:
    for what, name in ways_out(tmp_path).items():
        keep(model, features=f"template:{name}")
        with pytest.raises(ValueError, match=r"m\.crfsuite\.json|regular file") as info:
            tag_corpus(model, [source], tmp_path / "out")
        assert SECRET not in str(info.value), what
        assert "\n" not in str(info.value), what
    folder = model.parent
    (folder / "sub").mkdir()
    for name in ("t.template", "sub/t.template"):
        (folder / name).write_text("U00:%x[0,0]\n")
        keep(model, features=f"template:{name}")
        assert extraction_of(model, None, None).template == "U00:%x[0,0]\n"
    keep(model, features="template:t.template", template_sha256="0" * 64)
    with pytest.raises(ValueError, match="is not the template that the model was trained with"):
        extraction_of(model, None, None)
    # Nothing of a file that is no template is told, wherever it is.
    (folder / "diary.txt").write_text(SECRET + "\n")
    keep(model, features="template:diary.txt")
    with pytest.raises(ValueError, match=r"'template:diary.txt', which is no template") as info:
        extraction_of(model, None, None)
    assert SECRET not in str(info.value)
    (folder / "bytes.txt").write_bytes(b"U00:\xff")
    keep(model, features="template:bytes.txt")
    with pytest.raises(ValueError, match=r"bytes\.txt: not UTF-8 at byte 4"):
        extraction_of(model, None, None)
    (folder / "large.txt").write_bytes(b"#" * ((1 << 20) + 1))
    keep(model, features="template:large.txt")
    with pytest.raises(ValueError, match=r"large\.txt: a template may have 1048576 bytes"):
        extraction_of(model, None, None)


@pytest.mark.skipif(os.name == "nt", reason="makes links and pipes, which Windows may not")
def test_no_link_leads_a_template_out(model: Path, tmp_path: Path) -> None:
    ways_out(tmp_path)
    folder = model.parent
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "up").symlink_to(tmp_path)
    (folder / "loop").symlink_to(folder / "loop")
    (folder / "inside.txt").symlink_to(folder / "t.template")
    (folder / "t.template").write_text("U00:%x[0,0]\n")
    os.mkfifo(folder / "pipe")
    for name in ("link.txt", "up/secret.txt", "loop", "pipe"):
        keep(model, features=f"template:{name}")
        with pytest.raises(ValueError, match=r"asks for the template|regular file") as info:
            extraction_of(model, None, None)
        assert SECRET not in str(info.value)
    keep(model, features="template:inside.txt")
    assert extraction_of(model, None, None).template is not None
    # A folder that is reached by a link is the model's folder all the same.
    (tmp_path / "linked").symlink_to(folder)
    assert extraction_of(tmp_path / "linked" / model.name, None, None).template is not None


def test_a_template_goes_with_its_model(source: Path, tmp_path: Path) -> None:
    template, home = tmp_path / "far" / "t.template", tmp_path / "home"
    template.parent.mkdir()
    home.mkdir()
    template.write_bytes("U00:%x[0,0]\r\nU01:é%x[-1,0]\n".encode())
    train_corpus([source], home / "m.crfsuite", features=f"template:{template}")
    digest = hashlib.sha256(template.read_bytes()).hexdigest()
    expected = tag_corpus(home / "m.crfsuite", [source], tmp_path / "one").outputs[0].read_bytes()
    template.unlink()
    moved = home.rename(tmp_path / "moved")
    how = extraction_of(moved / "m.crfsuite", None, None)
    assert (how.features, how.digest) == ("template:t.template", digest)
    [output] = tag_corpus(moved / "m.crfsuite", [source], tmp_path / "two").outputs
    assert output.read_bytes() == expected
    assert {path.name for path in moved.iterdir()} == {"m.crfsuite", "m.crfsuite.json"}
    # Who gives a template names any file; its errors tell the line.
    template.write_text("U00:%x[0,0]\nnonsense\n")
    with pytest.raises(ValueError, match=rf"{re.escape(str(template))}: template, line 2: 'nonse"):
        extraction_of(moved / "m.crfsuite", f"template:{template}", None)
    with pytest.raises(FileNotFoundError):
        extraction_of(moved / "m.crfsuite", f"template:{tmp_path / 'nothing'}", None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "nested more than 64 deep"),
        ('{"a":' * 100_000, "nested more than 64 deep"),
        ("[]", "must hold an object, not list"),
        ("null", "must hold an object, not NoneType"),
        ("5", "must hold an object, not int"),
        ("", "is not JSON"),
        ('{"features": {"a": 1}}', "'features' must be text, not dict"),
        ('{"features": NaN}', "NaN is no number there"),
        ('{"word": "1", "word": "2"}', "'word' stands there twice"),
        ('{"features": ""}', "features '': there are words, cantonese, template:FILE and"),
        ('{"features": "other"}', "'other': there are words, cantonese, template:FILE and"),
        ('{"features": "\\ud800"}', "'features' holds '.ud800', half of a character"),
        ('{"features": "template:a", "template": "\\ud800"}', "'template' holds '.ud800'"),
        ('{"features": "template:a", "template": "*:%x[0,0]"}', "template:a: template, line 1"),
        ('"' + " " * (17 << 20) + '"', "larger than 16777216 bytes"),
    ],
)
def test_any_json_beside_a_model_is_one_line(
    text: str, message: str, model: Path, source: Path, tmp_path: Path
) -> None:
    path = model.with_name(model.name + ".json")
    tie = hashlib.sha256(model.read_bytes()).hexdigest()
    path.write_text(text.replace('{"f', f'{{"model_sha256": "{tie}", "f', 1))
    with pytest.raises(ValueError, match=message) as info:
        tag_corpus(model, [source], tmp_path / "out")
    assert str(info.value).startswith(str(path))
    assert "\n" not in str(info.value)
    str(info.value).encode()
