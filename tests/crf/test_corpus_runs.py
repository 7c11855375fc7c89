"""Runs over corpora: shards, what is interrupted, killed and resumed, Dask, memory."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import children
import pytest
from corpus_files import as_conll, as_conllu, begin_tagging, contents, kill, make_model, sentences

from valuesparse.crf import tag_corpus
from valuesparse.crf.corpora import _shard
from valuesparse.crf.corpora._functions import identity_of
from valuesparse.io.errors import TextFormatError


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("model"))


def test_shards_do_not_show(model: Path, tmp_path: Path) -> None:
    source = tmp_path / "a.conll"
    source.write_text(as_conll(sentences(700, seed=5)))
    whole = tag_corpus(model, [source], tmp_path / "whole").outputs[0].read_bytes()
    runs = []
    for name, more in {
        "1": {"jobs": 1},
        "3": {"jobs": 3},
        "loky": {"jobs": 2, "backend": "loky"},
    }.items():
        report = tag_corpus(model, [source], tmp_path / name, shard_bytes=1000, **more)
        assert len(report.outputs) > 10
        assert b"".join(path.read_bytes() for path in report.outputs) == whole
        runs.append(contents(tmp_path / name))
    assert runs[0] == runs[1] == runs[2]


def test_finished_shards_stay(model: Path, tmp_path: Path) -> None:
    source = tmp_path / "a.conll"
    source.write_text(as_conll(sentences(200, seed=6)))
    out = tmp_path / "out"
    first = tag_corpus(model, [source], out, shard_bytes=1000)
    before = contents(out)
    stamps = {path: path.stat().st_mtime_ns for path in first.outputs}
    gone = first.outputs[3]
    gone.unlink()
    (out / ".a.conll-0123.part").write_bytes(b"half")
    seen: list[tuple[int, int]] = []
    again = tag_corpus(model, [source], out, shard_bytes=1000,
                       progress=lambda *a: seen.append(a))  # fmt: skip
    assert again.skipped == len(first.outputs) - 1
    assert contents(out) == before
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in stamps.items() if path != gone)
    total = source.stat().st_size
    assert seen == [(total - 1000, total), (total, total)]
    for more in ({"marginals": "all"}, {"zeta": 0.9}, {"shard_bytes": 999}):
        with pytest.raises(ValueError, match=f"other {next(iter(more))}.*choose another folder"):
            tag_corpus(model, [source], out, **{"shard_bytes": 1000, **more})
    source.write_text(as_conll(sentences(200, seed=7)))
    with pytest.raises(ValueError, match="other inputs"):
        tag_corpus(model, [source], out, shard_bytes=1000)


def test_a_failure_leaves_no_half_file(model: Path, tmp_path: Path) -> None:
    source = tmp_path / "a.conllu"
    source.write_text(as_conllu(sentences(40)) + "1\tshort\n")
    out = tmp_path / "out"
    with pytest.raises(TextFormatError, match=r"a.conllu: line \d+, sentence: 2 columns") as info:
        tag_corpus(model, [source], out, shard_bytes=500, jobs=1)
    assert info.value.line == source.read_text().count("\n")
    names = [path.name for path in out.iterdir()]
    assert not [name for name in names if name.endswith(".part")]
    assert len(names) > 3


@pytest.mark.parametrize("kind", ["conll", "parquet"])
def test_nothing_runs_on_after_an_interruption(kind: str, model: Path, tmp_path: Path) -> None:
    source, out = tmp_path / f"a.{kind}", tmp_path / "out"
    data = sentences(30_000, seed=9)
    if kind == "parquet":
        pyarrow = pytest.importorskip("pyarrow", reason="needs the extra parquet")
        from pyarrow import parquet

        table = pyarrow.table({"words": [words for words, _ in data]})
        parquet.write_table(table, source, row_group_size=10_000)
    else:
        source.write_text(as_conll(data))

    def interrupt(done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tag_corpus(model, [source], out, shard_bytes=150_000, jobs=2, progress=interrupt)
    names = sorted(path.name for path in out.iterdir())
    assert len(names) > 1
    assert not [name for name in names if name.endswith(".part")]
    time.sleep(0.3)
    assert sorted(path.name for path in out.iterdir()) == names


@pytest.mark.skipif(os.name == "nt", reason="kills a process with SIGKILL, which Windows lacks")
def test_killed_at_random_and_resumed(model: Path, tmp_path: Path, seed: int) -> None:
    source = tmp_path / "a.conll"
    source.write_text(as_conll(sentences(12_000, seed=8)))
    expected = tmp_path / "expected"
    tag_corpus(model, [source], expected, shard_bytes=20000)
    out = tmp_path / "out"
    rng = random.Random(seed)
    interrupted = 0
    for _ in range(3):
        child = begin_tagging(model, source, out, 20000)
        deadline = time.monotonic() + 60
        have = len(list(out.glob("a-*"))) if out.exists() else 0
        while child.poll() is None and time.monotonic() < deadline:
            if out.exists() and len(list(out.glob("a-*"))) > have + rng.randint(0, 4):
                break
            time.sleep(0.001)
        interrupted += kill(child)
    assert interrupted
    tag_corpus(model, [source], out, shard_bytes=20000, jobs=2)
    assert contents(out) == contents(expected)


@pytest.mark.smoke
def test_dask_loses_nothing_with_a_worker(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed", reason="needs the extra dask")
    source, work = tmp_path / "a.conll", tmp_path / "work"
    source.write_text(as_conll(sentences(12_000, seed=9)))
    expected = tmp_path / "expected"
    # Workers find a function in the working folder as well, and what its module imports.
    work.mkdir()
    (work / "mine_for_dask.py").write_text("from mine_beside import f\n")
    (work / "mine_beside.py").write_text(
        "from valuesparse.crf.corpora._features import word_attributes as f\n"
    )
    monkeypatch.chdir(work)
    tag_corpus(model, [source], expected, shard_bytes=20000, features="mine_for_dask:f")
    script = tmp_path / "run.py"
    script.write_text(DASK)
    environment = children.environment(DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="3")
    child = subprocess.run(
        [sys.executable, script, model, source, tmp_path / "out"],
        capture_output=True, text=True, timeout=150, check=False, env=environment,
    )  # fmt: skip
    assert child.returncode == 0, child.stderr[-3000:]
    assert "killed at" in child.stdout
    assert contents(tmp_path / "out") == contents(expected)


ENDS = """
import os, signal
from pathlib import Path

FLAG = Path(__file__).with_name("flag")

def f(words):
    if FLAG.exists() and words[-1] == "ran":
        os.kill(os.getpid(), signal.SIGKILL)
    return [["w=" + word] for word in words]
"""


@pytest.mark.skipif(os.name == "nt", reason="kills a process with SIGKILL, which Windows lacks")
def test_a_worker_that_is_killed_is_told(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ends_for_loky.py").write_text(ENDS)
    monkeypatch.chdir(tmp_path)
    source, out, flag = tmp_path / "a.conll", tmp_path / "out", tmp_path / "flag"
    source.write_text(as_conll(sentences(300, seed=13)))
    how = {"features": "ends_for_loky:f", "shard_bytes": 2000}
    flag.touch()
    with pytest.raises(OSError, match=r"^a worker was ended .*run the same again") as info:
        tag_corpus(model, [source], out, backend="loky", jobs=2, **how)
    assert "\n" not in str(info.value)
    assert not list(out.glob(".*"))
    flag.unlink()
    tag_corpus(model, [source], out, backend="loky", jobs=2, **how)
    tag_corpus(model, [source], tmp_path / "expected", jobs=1, **how)
    assert contents(out) == contents(tmp_path / "expected")


DASK = """
import os, signal, sys
from distributed import LocalCluster
from valuesparse.crf import tag_corpus

if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True,
                      dashboard_address=None) as cluster:
        victim = cluster.workers[0].process.process.pid
        state = {"killed": False}
        def progress(done, total):
            if done > total / 8 and not state["killed"]:
                assert done < total
                state["killed"] = True
                os.kill(victim, signal.SIGKILL)
                print("killed at", done, "of", total)
        report = tag_corpus(sys.argv[1], [sys.argv[2]], sys.argv[3], shard_bytes=20000,
                            backend="dask", scheduler=cluster.scheduler_address,
                            progress=progress, features="mine_for_dask:f")
        assert report.sentences >= 12_000, report
"""


def test_a_folder_without_output_is_nobodys(model: Path, tmp_path: Path) -> None:
    source, out = tmp_path / "a.conllu", tmp_path / "out"
    source.write_text("1\tno\n")
    with pytest.raises(TextFormatError, match="2 columns"):
        tag_corpus(model, [source], out)
    source.write_text(as_conllu(sentences(2)))
    assert tag_corpus(model, [source], out, zeta=0.9).sentences == 2
    with pytest.raises(ValueError, match="a run with other zeta"):
        tag_corpus(model, [source], out)


def test_another_model_is_noticed(model: Path) -> None:
    _shard.tagger_of.cache_clear()
    with pytest.raises(ValueError, match="is not the model that the run began with"):
        _shard.tagger_of(str(model), "0" * 64)


PEAK = """
import resource, sys
from valuesparse.crf import tag_corpus
tag_corpus(sys.argv[1], [sys.argv[2]], sys.argv[3])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="measures memory with resource, which Windows lacks")
def test_memory_does_not_grow_with_the_corpus(model: Path, tmp_path: Path) -> None:
    text = as_conll([(words[:2], tags[:2]) for words, tags in sentences(1000, seed=10)])
    peaks = []
    for thousands in (10, 1000):
        source = tmp_path / f"{thousands}.conll"
        with open(source, "w") as file:
            for _ in range(thousands):
                file.write(text)
        out = tmp_path / f"out{thousands}"
        child = subprocess.run(
            [sys.executable, "-c", PEAK, model, source, out],
            env=children.environment(),
            cwd=tmp_path,
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        peaks.append(int(child.stdout))
    assert peaks[1] <= 1.1 * peaks[0], peaks


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="kills a process with SIGKILL, which Windows lacks")
def test_a_million_sentences_killed_and_resumed(model: Path, tmp_path: Path) -> None:
    text = as_conll([(words[:2], tags[:2]) for words, tags in sentences(1000, seed=11)])
    source = tmp_path / "a.conll"
    with open(source, "w") as file:
        for _ in range(1000):
            file.write(text)
    expected, out = tmp_path / "expected", tmp_path / "out"
    begin = time.monotonic()
    whole = tag_corpus(model, [source], expected, shard_bytes=500_000, jobs=2)
    assert whole.sentences == 1_000_000
    took = time.monotonic() - begin
    rng = random.Random(11)
    killed = 0
    for _ in range(3):
        child = begin_tagging(model, source, out, 500_000)
        time.sleep(rng.uniform(0.1, 0.4) * took)
        killed += kill(child)
    assert killed
    report = tag_corpus(model, [source], out, shard_bytes=500_000, jobs=2)
    assert report.sentences < 1_000_000  # the rest was there
    assert contents(out) == contents(expected)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="makes a pipe, which Windows lacks")
def test_shards_are_not_made_of_pipes(model: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "a.conll"
    os.mkfifo(pipe)
    with pytest.raises(ValueError, match=r"^inputs\[0\]: .*a\.conll is a pipe"):
        tag_corpus(model, [pipe], tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["a.conll"]


@pytest.mark.skipif(not os.path.exists("/dev/null"), reason="needs a device with a path")
def test_devices_are_refused(model: Path, tmp_path: Path) -> None:
    """Like pipes: /dev/zero was read for ever."""
    with pytest.raises(ValueError, match=r"^inputs\[0\]: /dev/null is a device, and a corpus"):
        tag_corpus(model, ["/dev/null"], tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_dask_wants_a_scheduler(model: Path, tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="needs the extra dask")
    source = tmp_path / "a.conll"
    source.write_text(as_conll(sentences(3, seed=12)))
    with pytest.raises(ValueError, match="'dask' needs the address of its scheduler"):
        tag_corpus(model, [source], tmp_path / "out", backend="dask")


def stop(done: int, total: int) -> None:
    if done:
        raise KeyboardInterrupt


def test_another_function_of_the_same_name_is_refused(model: Path, tmp_path: Path) -> None:
    def made(size: int):
        return lambda words: [[f"{word[:size]}{size}"] for word in words]

    source, out = tmp_path / "a.conll", tmp_path / "out"
    source.write_text(as_conll(sentences(100, seed=14)))
    with pytest.raises(KeyboardInterrupt):
        tag_corpus(model, [source], out, features=made(1), shard_bytes=1000, progress=stop)
    for other in (made(2), lambda words: [["x"] for _ in words]):
        other.__qualname__ = made(1).__qualname__
        with pytest.raises(ValueError, match="a run with other features_sha256"):
            tag_corpus(model, [source], out, features=other, shard_bytes=1000)
    assert tag_corpus(model, [source], out, features=made(1), shard_bytes=1000).skipped


AGAIN = """
import sys
from valuesparse.crf import tag_corpus
source, model, out = sys.argv[1:]
print(tag_corpus(model, [source], out, features="edited_for_run:f", shard_bytes=1000).skipped)
"""


def test_a_function_is_known_again_until_its_module_is_edited(model: Path, tmp_path: Path) -> None:
    source, module = tmp_path / "a.conll", tmp_path / "edited_for_run.py"
    source.write_text(as_conll(sentences(100, seed=15)))
    text = "def f(words):\n    return [['w=' + w] for w in words if w not in {'x', 'y', 'z'}]\n"
    module.write_text(text)

    def run(seed: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", AGAIN, source, model, tmp_path / "out"], cwd=tmp_path,
            env=children.environment(PYTHONHASHSEED=seed), capture_output=True, text=True,
            check=False,
        )  # fmt: skip

    assert run("1").stdout == "0\n"
    assert int(run("2").stdout) > 1
    module.write_text(text.replace("'w='", "'v='"))
    done = run("1")
    assert done.returncode == 1
    assert "a run with other features_sha256; choose" in done.stderr


def counting(step: int):
    count, size = 0, step

    def f(words: list[str]) -> list[list[str]]:
        nonlocal count
        count += size
        return [[word] for word in words]

    return f


def test_what_tells_a_function_from_another() -> None:
    first, second = (lambda words: words), (lambda words: [words])  # of one line
    one, other = identity_of("a:f", first), identity_of("a:f", second)
    assert one["python"] == other["python"] == sys.implementation.cache_tag
    assert one["features_sha256"] != other["features_sha256"]
    assert identity_of("a:f", first) == one
    f, g = counting(1), counting(2)
    known = identity_of("a:f", f)
    assert "python" not in known
    f(["a"])  # what it counts is none of what it is
    assert identity_of("a:f", f) == identity_of("a:f", counting(1)) == known
    assert identity_of("a:f", g) != known
    assert set(identity_of("builtins:len", len)) == {"features_sha256"}
