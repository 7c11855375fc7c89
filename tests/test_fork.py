"""Modules renew in forked children what belongs to threads, by one function."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from children import run

import valuesparse
from valuesparse._fork import renew_in_forks

HELD = """
import os, sys, threading
from valuesparse import _exit
from valuesparse.corpora import _lock
from valuesparse.crf import _install
from valuesparse.crf.corpora import _functions
from valuesparse._fork import renew_in_forks

called = []
renew_in_forks(lambda: called.append(os.getpid()))

def locks():
    return [_exit._inside, _lock._guard, _install._PLACE.lock, _functions._IMPORTING]

ready, over = threading.Event(), threading.Event()

def hold():
    for lock in locks():
        lock.acquire()
    ready.set()
    over.wait()
    for lock in locks():
        lock.release()

thread = threading.Thread(target=hold)
thread.start()
ready.wait()
assert called == []
child = os.fork()
if child == 0:
    free = all(lock.acquire(blocking=False) for lock in locks())
    os._exit(0 if free and called == [os.getpid()] else 1)
_, status = os.waitpid(child, 0)
assert called == []
assert not any(lock.acquire(blocking=False) for lock in locks())
over.set()
thread.join()
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_has_the_locks_that_threads_of_its_parent_hold() -> None:
    done = run(HELD)
    assert done.returncode == 0, done.stderr


def test_nothing_happens_where_there_is_no_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "register_at_fork", raising=False)
    renew_in_forks(lambda: pytest.fail("this was called"))


def test_modules_register_what_they_renew_in_one_place() -> None:
    root = Path(valuesparse.__file__).parent
    found = [
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if "register_at_fork" in path.read_text(encoding="utf-8")
    ]
    assert found == ["_fork.py"]
