"""Locks on folders: one run at a time, and nothing to clean up after one that was killed."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

import children
import pytest
from corpus_files import as_conll, make_model, sentences

from valuesparse.corpora import _lock
from valuesparse.corpora._lock import LOCK, locked, require_mine
from valuesparse.corpora._run_file import RUN
from valuesparse.crf import tag_corpus


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("model"))


HOLDER = """
import sys, time
from pathlib import Path
from valuesparse.corpora._lock import locked
with locked(Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(600)
"""


def holder(folder: Path) -> subprocess.Popen[str]:
    """Return a process that has locked a folder."""
    child = children.start(HOLDER, str(folder))
    assert child.stdout.readline() == "locked\n"
    return child


def end(child: subprocess.Popen[str]) -> None:
    child.kill()
    child.communicate()


def test_a_second_run_is_refused_until_the_first_ends(model: Path, tmp_path: Path) -> None:
    source, out = tmp_path / "a.conll", tmp_path / "out"
    source.write_text(as_conll(sentences(5)))
    out.mkdir()
    child = holder(out)
    try:
        with pytest.raises(ValueError, match="another run writes there") as info:
            tag_corpus(model, [source], out)
        said = str(info.value)
        assert said.startswith(f"{out.resolve()}: ")
        assert f"process {child.pid} on {_lock.socket.gethostname()}, since 20" in said
        assert "wait for its end, or choose another folder" in said
        assert "\n" not in said
        assert os.listdir(out) == [LOCK]  # nothing of it was touched
    finally:
        end(child)
    # Killed, it leaves its file, and nothing to do by hand.
    assert os.listdir(out) == [LOCK]
    assert tag_corpus(model, [source], out).sentences == 5
    assert sorted(os.listdir(out)) == sorted(["a.conll", RUN])


def test_a_lock_holds_within_a_process_too(tmp_path: Path) -> None:
    with locked(tmp_path) as run:
        with pytest.raises(ValueError, match=rf"process {os.getpid()}, this one"), locked(tmp_path):
            pass
        (tmp_path / "sub").mkdir()
        with locked(tmp_path / "sub") as other:
            assert other != run
        require_mine(tmp_path, run)
    assert not (tmp_path / LOCK).exists()
    # Workers of a run that was killed write nothing into the next one's output.
    over = pytest.raises(ValueError, match="this run is over, another one writes there now")
    with locked(tmp_path), over:
        require_mine(tmp_path, run)
    require_mine(tmp_path, run)  # nobody else came


def test_exactly_one_of_many_gets_the_lock(tmp_path: Path) -> None:
    """In threads that come and go, so that files are removed and made again all the time."""
    inside, most, got = 0, 0, 0
    guard = threading.Lock()
    until = time.monotonic() + 1

    def compete() -> None:
        nonlocal inside, most, got
        while time.monotonic() < until:
            with suppress(ValueError), locked(tmp_path):
                with guard:
                    inside, got = inside + 1, got + 1
                    most = max(most, inside)
                with guard:
                    inside -= 1

    threads = [threading.Thread(target=compete) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got > 10
    assert most == 1
    assert not _lock._open
    assert not _lock._here


COUNTER = """
import os, sys, time
from pathlib import Path
from valuesparse.corpora._lock import locked
folder, got = Path(sys.argv[1]), 0
until = time.monotonic() + float(sys.argv[2])
while time.monotonic() < until:
    try:
        with locked(folder):
            handle = os.open(folder / "inside", os.O_CREAT | os.O_EXCL)  # fails if two are
            os.close(handle)
            os.unlink(folder / "inside")
            got += 1
    except ValueError:
        pass
print(got)
"""


def test_exactly_one_of_many_processes_gets_the_lock(tmp_path: Path) -> None:
    found = [children.start(COUNTER, str(tmp_path), "1.5") for _ in range(3)]
    said = [child.communicate(timeout=60) for child in found]
    assert [child.returncode for child in found] == [0, 0, 0], said
    assert sum(int(out) for out, _ in said) > 10
    # Windows cannot remove what another has open; the file alone locks nothing.
    assert os.listdir(tmp_path) in ([], [LOCK] if os.name == "nt" else [])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks, which Windows cannot")
def test_a_forked_child_does_not_hold_the_lock(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    child = 0
    try:
        with locked(tmp_path):
            child = os.fork()
            if child == 0:  # lives until the pipe is closed
                os.close(writer)
                os.read(reader, 1)
                os._exit(0)
        with locked(tmp_path):
            pass
    finally:
        os.close(writer)
        os.close(reader)
        if child:
            os.waitpid(child, 0)


@pytest.mark.skipif(os.name == "nt", reason="stands for file systems that Windows does not mount")
def test_a_file_system_without_locks_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import errno
    import fcntl

    def flock(handle: int, how: int) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.warns(RuntimeWarning, match="has no locks"), locked(tmp_path):
        pass


def test_a_folder_that_cannot_be_written_is_named(model: Path, tmp_path: Path) -> None:
    source = tmp_path / "a.conll"
    source.write_text(as_conll(sentences(5)))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / LOCK).mkdir()
    with pytest.raises(ValueError, match=f"{LOCK} there is a link or no regular file"):
        tag_corpus(model, [source], tmp_path / "out")


@pytest.mark.skipif(os.name == "nt", reason="makes links and pipes")
@pytest.mark.parametrize("what", ["symlink", "dangling", "hard link", "pipe"])
def test_what_is_no_file_of_the_folder_is_never_written_to(
    what: str, model: Path, tmp_path: Path
) -> None:
    source, out, victim = tmp_path / "a.conll", tmp_path / "out", tmp_path / "victim"
    source.write_text(as_conll(sentences(5)))
    out.mkdir()
    if what != "dangling":
        victim.write_text("precious")
    if what == "pipe":
        os.mkfifo(out / LOCK)
    elif what == "hard link":
        os.link(victim, out / LOCK)
    else:
        (out / LOCK).symlink_to(victim)
    with pytest.raises(ValueError, match="is a link or no regular file") as info:
        tag_corpus(model, [source], out)
    assert str(info.value).startswith(f"{out.resolve()}: {LOCK} there")
    assert "\n" not in str(info.value)
    assert not victim.exists() if what == "dangling" else victim.read_text() == "precious"
    assert os.listdir(out) == [LOCK]
    assert not _lock._open
    (out / LOCK).unlink()
    assert tag_corpus(model, [source], out).sentences == 5


@pytest.mark.skipif(os.name == "nt", reason="makes links")
@pytest.mark.parametrize("name", ["a.conll", RUN])
def test_output_is_not_written_through_links(name: str, model: Path, tmp_path: Path) -> None:
    """Not even where the folder says that an earlier run wrote it."""
    source, out, victim = tmp_path / "a.conll", tmp_path / "out", tmp_path / "victim"
    source.write_text(as_conll(sentences(5)))
    tag_corpus(model, [source], out)
    os.replace(out / name, victim)
    if name == "a.conll":
        victim.write_text("precious")
    before = victim.read_bytes()
    (out / name).symlink_to(victim)
    with pytest.raises(ValueError, match=f"{name} there is a link, and is not written to"):
        tag_corpus(model, [source], out)
    assert victim.read_bytes() == before
    assert not _lock._open
