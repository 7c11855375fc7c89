"""Runs that share a folder, are killed, or find it changed: one at a time, no wrong byte."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import joblib
import pytest
from corpus_files import as_conll, begin_tagging, contents, kill, make_model, sentences
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from joblib.parallel import ThreadingBackend

from valuesparse.corpora import _lock, _run_file
from valuesparse.corpora._lock import LOCK
from valuesparse.corpora._run_file import RUN
from valuesparse.crf import tag_corpus, tag_file

needs_sigkill = pytest.mark.skipif(
    os.name == "nt", reason="kills a process with SIGKILL, which Windows lacks"
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def finished(model: Path, tmp_path: Path) -> tuple[Path, Path, dict[str, bytes]]:
    """Return an input, its output, and what that holds."""
    source, out = tmp_path / "a.conll", tmp_path / "out"
    source.write_text(as_conll(sentences(200, seed=6)))
    tag_corpus(model, [source], out, shard_bytes=2000)
    return source, out, contents(out)


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def flipped(data: bytes) -> bytes:
    return data[:10] + bytes([data[10] ^ 1]) + data[11:]


@pytest.mark.parametrize("change", [cut, flipped, bytes.upper, lambda data: b""])
def test_a_shard_that_changed_is_made_again(
    change, model: Path, finished: tuple[Path, Path, dict[str, bytes]]
) -> None:
    source, out, before = finished
    names = sorted(name for name in before if name != RUN)
    stamps = {name: (out / name).stat().st_mtime_ns for name in names}
    (out / names[2]).write_bytes(change(before[names[2]]))
    report = tag_corpus(model, [source], out, shard_bytes=2000)
    assert report.skipped == len(names) - 1
    assert contents(out) == before
    assert all((out / n).stat().st_mtime_ns == s for n, s in stamps.items() if n != names[2])


class ListsOnly(ThreadingBackend):
    """Does as the backends of clusters, in this process."""

    supports_return_generator = False


@pytest.mark.parametrize("change", [cut, flipped, lambda data: data[:-9], bytes.upper])
@pytest.mark.parametrize("how", [{"jobs": 1}, {"jobs": 2}, {"jobs": 2, "backend": "ray"}])
def test_an_input_that_changes_meanwhile_is_an_error(
    how, change, model: Path, finished: tuple[Path, Path, dict[str, bytes]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Its tags once passed for those of the text that was there before."""
    # Machines of a cluster need not agree on more of a file than its size.
    monkeypatch.setitem(joblib.parallel.BACKENDS, "ray", ListsOnly)
    source, clean, before = finished
    out, text = clean.with_name("again"), source.read_bytes()
    seen = []

    def progress(done: int, total: int) -> None:
        seen.append(done)
        if len(seen) == 3:
            source.write_bytes(change(text))

    with pytest.raises(ValueError, match=r"a\.conll: it changed while it was read; run again"):
        tag_corpus(model, [source], out, shard_bytes=1000, progress=progress, **how)
    assert not list(out.glob(".*"))
    told = json.loads((out / RUN).read_text())["shards"]
    assert 0 < len(told) < len(before) - 1
    with pytest.raises(ValueError, match="a run with other inputs"):
        tag_corpus(model, [source], out, shard_bytes=1000)
    source.write_bytes(text)
    report = tag_corpus(model, [source], out, shard_bytes=1000)
    assert report.skipped == len(told)
    whole = b"".join(path.read_bytes() for path in report.outputs)
    assert whole == b"".join(before[name] for name in sorted(before) if name != RUN)


@pytest.mark.parametrize("name", [".notes.part", ".NOTES.part", RUN, LOCK, RUN.upper()])
def test_names_of_the_runs_own_files_are_refused(name: str, model: Path, tmp_path: Path) -> None:
    source, out = tmp_path / name, tmp_path / "out"
    source.write_text("the\ndog\n\n")
    with pytest.raises(ValueError, match=r"inputs: .* a name of the run's own files; rename it"):
        tag_corpus(model, [source], out, input_format="conll")
    assert not out.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="needs names that are no text")
def test_a_name_that_is_no_text_is_refused(model: Path, tmp_path: Path) -> None:
    source, out = tmp_path / os.fsdecode(b"caf\xe9.conll"), tmp_path / "out"
    source.write_text("the\ndog\n\n")
    with pytest.raises(ValueError, match=r"the name of '.*caf\\udce9\.conll' is no UTF-8") as info:
        tag_corpus(model, [source], out)
    assert str(info.value).isascii()
    assert not out.exists()


def test_progress_must_be_callable(model: Path, tmp_path: Path) -> None:
    source = tmp_path / "a.conll"
    source.write_text("the\ndog\n\n")
    for tag in (tag_corpus, tag_file):
        with pytest.raises(ValueError, match="progress must be callable, got 3"):
            tag(model, source, tmp_path / "out", progress=3)  # type: ignore[operator]
    assert not (tmp_path / "out").exists()


def test_shards_that_nobody_vouches_for_are_made_again(
    model: Path, finished: tuple[Path, Path, dict[str, bytes]]
) -> None:
    source, out, before = finished
    told = json.loads(before[RUN])
    names = sorted(told["shards"])
    assert names == sorted(name for name in before if name != RUN)
    for name, shard in told["shards"].items():
        assert shard["bytes"] == len(before[name])
    del told["shards"][names[1]]
    told["shards"]["../elsewhere"] = {"bytes": 0, "sha256": ""}
    (out / RUN).write_text(json.dumps(told))
    (out / names[1]).write_bytes(b"")
    report = tag_corpus(model, [source], out, shard_bytes=2000)
    assert report.skipped == len(names) - 1
    assert contents(out) == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "damaged: not an object, but list"),
        ("null", "damaged: not an object, but NoneType"),
        ("[" * 100_000, "damaged: this is not JSON|damaged: nested more than 64 deep"),
        ("", "damaged: this is not JSON"),
        ('{"shards": []}', "damaged: 'shards' is not an object, but list"),
        ('{"shards": {"a": 5}}', "damaged: shard 'a' without bytes and sha256"),
        ('{"shards": {"a": {"bytes": true, "sha256": ""}}}', "without bytes and sha256"),
        ("{}", "a run with other features, formats, inputs, marginals, model_sha256"),
        ('{"zeta": {}}', "a run with other features"),
        ('{"a\\nb": {}}', r"a run with other 'a\\nb', features"),
    ],
)
def test_a_damaged_run_file_is_one_line(
    text: str, message: str, model: Path, finished: tuple[Path, Path, dict[str, bytes]]
) -> None:
    source, out, before = finished
    (out / RUN).write_text(text)
    with pytest.raises(ValueError, match=message) as info:
        tag_corpus(model, [source], out, shard_bytes=2000)
    assert str(out) in str(info.value)
    assert "choose another folder, or remove this one" in str(info.value)
    assert "\n" not in str(info.value)
    assert {**contents(out), RUN: before[RUN]} == before


def test_the_run_file_is_written_now_and_then(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large one takes its time, and is written the less often for it."""
    source = tmp_path / "a.conll"
    source.write_text(as_conll(sentences(600)))
    saved = []
    save = _run_file.RunFile.save

    def slow(self: _run_file.RunFile) -> None:
        saved.append(len(self._shards))
        save(self)
        self._next += 3600

    monkeypatch.setattr(_run_file.RunFile, "save", slow)
    report = tag_corpus(model, [source], tmp_path / "out", shard_bytes=500)
    assert saved == [0, len(report.outputs)]
    assert len(json.loads((tmp_path / "out" / RUN).read_text())["shards"]) == len(report.outputs)


@needs_sigkill
def test_two_at_once(model: Path, tmp_path: Path) -> None:
    """One runs, the other is refused; what comes out is right. It once killed the first."""
    source, out = tmp_path / "a.conll", tmp_path / "out"
    source.write_text(as_conll(sentences(5_000, seed=8)))
    tag_corpus(model, [source], tmp_path / "expected", shard_bytes=20_000)
    for _ in range(2):
        found = [begin_tagging(model, source, out, 20_000, subprocess.PIPE) for _ in range(2)]
        said = [child.communicate(timeout=120)[1].decode() for child in found]
        codes = sorted(child.returncode for child in found)
        # Both may be right only where the one began when the other was done.
        refused = [text for text in said if text]
        assert codes == [0, 1] or (codes == [0, 0] and not refused), said
        assert all("another run writes there (process " in text for text in refused)
        assert contents(out) == contents(tmp_path / "expected")
        shutil.rmtree(out)


class Jobs(RuleBasedStateMachine):
    """Events in a folder of outputs between the first run and the last.

    A run either makes the output of a clean run, or refuses and changes nothing.
    How many shards a run has made when it ends is up to the clock: nothing that is drawn, and no
    precondition, may depend on it, or Hypothesis calls the machine flaky.
    """

    SHARD = 8_000
    root: Path
    model: Path

    @initialize(seed=st.integers(0, 2), shards=st.integers(1, 6))
    def begin(self, seed: int, shards: int) -> None:
        self.sources, self.expected = self.inputs(seed)
        self.other, _ = self.inputs((seed + 1) % 3)
        Jobs.count = getattr(Jobs, "count", 0) + 1
        self.folder = self.root / f"run{Jobs.count}"
        self.folder.mkdir()
        self.source, self.out = self.folder / "a.conll", self.folder / "out"
        shutil.copyfile(self.sources, self.source)
        self.changed = False
        self.interrupted(shards)

    def inputs(self, seed: int) -> tuple[Path, dict[str, bytes]]:
        """Return an input, and the output of a clean run."""
        folder = self.root / f"clean{seed}"
        source = folder / "a.conll"
        if not folder.exists():
            folder.mkdir()
            source.write_text(as_conll(sentences(1500, seed=seed)))
            tag_corpus(self.model, [source], folder / "out", shard_bytes=self.SHARD)
        return source, contents(folder / "out")

    def shards(self) -> list[Path]:
        return sorted(self.out.glob("a-*")) if self.out.exists() else []

    def process(self) -> subprocess.Popen[bytes]:
        return begin_tagging(self.model, self.source, self.out, self.SHARD, subprocess.PIPE)

    @rule(jobs=st.integers(1, 3))
    def run(self, jobs: int) -> None:
        mine = self.out.exists() and any(
            not name.endswith(".part") and name not in (RUN, LOCK) for name in os.listdir(self.out)
        )
        if self.changed and mine:
            before = contents(self.out)
            with pytest.raises(ValueError, match="a run with other inputs"):
                tag_corpus(self.model, [self.source], self.out, shard_bytes=self.SHARD, jobs=jobs)
            assert {**contents(self.out), LOCK: b""} == {**before, LOCK: b""}
            return
        shutil.copyfile(self.sources, self.source)
        tag_corpus(self.model, [self.source], self.out, shard_bytes=self.SHARD, jobs=jobs)
        assert contents(self.out) == self.expected
        if self.changed:
            shutil.copyfile(self.other, self.source)

    @precondition(lambda self: not self.changed)
    @rule(shards=st.integers(0, 6))
    def interrupted(self, shards: int) -> None:
        """Ctrl-C, once some shards are done."""
        calls = iter(range(shards))

        def progress(done: int, total: int) -> None:
            if next(calls, None) is None:
                raise KeyboardInterrupt

        with suppress(KeyboardInterrupt):
            tag_corpus(self.model, [self.source], self.out, shard_bytes=self.SHARD, jobs=2,
                       progress=progress)  # fmt: skip

    @precondition(lambda self: not self.changed)
    @rule(shards=st.integers(0, 6), delay=st.floats(0, 0.05))
    def killed(self, shards: int, delay: float) -> None:
        """Kill a run once it has made some shards, at any moment after that."""
        have = len(self.shards())
        child = self.process()
        until = time.monotonic() + 60
        while child.poll() is None and time.monotonic() < until:
            if len(self.shards()) >= have + shards and self.out.exists():
                time.sleep(delay)
                break
            time.sleep(0.001)
        kill(child)
        child.communicate()

    @precondition(lambda self: not self.changed)
    @rule(delay=st.floats(0, 0.3))
    def two_at_once(self, delay: float) -> None:
        first = self.process()
        time.sleep(delay)
        second = self.process()
        said = [child.communicate(timeout=120)[1].decode() for child in (first, second)]
        codes = [first.returncode, second.returncode]
        assert 0 in codes, said
        for code, text in zip(codes, said, strict=True):
            assert code == 0 or (code == 1 and "another run writes there" in text), said
        assert contents(self.out) == self.expected

    @rule(
        which=st.integers(0, 1000),
        where=st.integers(0, 1_000_000),
        how=st.sampled_from(["cut", "flip", "longer", "empty", "gone"]),
    )
    def damage(self, which: int, where: int, how: str) -> None:
        shards = self.shards()
        if not shards:
            return
        path = shards[which % len(shards)]
        old = path.read_bytes()
        at = where % max(len(old), 1)
        if how == "gone":
            path.unlink()
        else:
            flip = old[:at] + bytes([old[at] ^ 1]) + old[at + 1 :] if old else b"x"
            new = {"cut": old[:at], "flip": flip, "longer": old + b"x", "empty": b""}
            path.write_bytes(new[how])

    @rule()
    def litter(self) -> None:
        """The files that a killed worker leaves."""
        if self.out.exists():
            (self.out / ".a-00001-of-00002.conll-0123abcd.part").write_bytes(b"half")

    @rule()
    def other_input(self) -> None:
        shutil.copyfile(self.other, self.source)
        self.changed = True

    @precondition(lambda self: self.changed)
    @rule()
    def same_input(self) -> None:
        shutil.copyfile(self.sources, self.source)
        self.changed = False

    @invariant()
    def nothing_is_locked_in_here(self) -> None:
        assert not _lock._here

    def teardown(self) -> None:
        if not hasattr(self, "out"):
            return
        shutil.copyfile(self.sources, self.source)
        self.changed = False
        self.run(2)
        shutil.rmtree(self.folder)


def run_machine(model: Path, root: Path, examples: int, steps: int) -> None:
    Jobs.model, Jobs.root = model, root
    Jobs.TestCase.settings = settings(
        max_examples=examples, stateful_step_count=steps, deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],  # shrinking would run processes for minutes
    )  # fmt: skip
    run_state_machine_as_test(Jobs, settings=Jobs.TestCase.settings)


@needs_sigkill
def test_whatever_happens_the_output_is_that_of_one_run(model: Path, tmp_path: Path) -> None:
    run_machine(model, tmp_path, 3, 6)


@pytest.mark.slow
@needs_sigkill
def test_whatever_happens_very_often(model: Path, tmp_path: Path) -> None:
    run_machine(model, tmp_path, 60, 15)


@pytest.mark.slow
@needs_sigkill
def test_killed_a_hundred_times(model: Path, tmp_path: Path, seed: int) -> None:
    """At any moment, from the first import to the last rename; some runs come to their end."""
    source, out = tmp_path / "a.conll", tmp_path / "out"
    source.write_text(as_conll(sentences(6_000, seed=8)))
    begin = time.monotonic()
    kill_after = begin_tagging(model, source, tmp_path / "expected", 10_000)
    assert kill_after.wait() == 0
    took = time.monotonic() - begin
    expected = contents(tmp_path / "expected")
    rng = random.Random(seed)
    killed = 0
    for _ in range(100):
        child = begin_tagging(model, source, out, 10_000)
        time.sleep(rng.uniform(0, took))
        killed += kill(child)
        if rng.random() < 0.2 and out.exists():
            tag_corpus(model, [source], out, shard_bytes=10_000)
            assert contents(out) == expected
            shutil.rmtree(out)
    assert killed > 50
    tag_corpus(model, [source], out, shard_bytes=10_000)
    assert contents(out) == expected
