"""Modules renew by one function what forked children need; attributes hold no lock."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from children import run

import valuesparse
from valuesparse._fork import cached_attribute, renew_in_forks

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


def modules_with(word: str) -> list[str]:
    """Return the modules of the package whose text has a word."""
    root = Path(valuesparse.__file__).parent
    return [
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if word in path.read_text(encoding="utf-8")
    ]


def test_modules_register_what_they_renew_in_one_place() -> None:
    assert modules_with("register_at_fork") == ["_fork.py"]


class Slow:
    """Computes an attribute, once or while threads wait for each other."""

    def __init__(self, waits: threading.Barrier | threading.Event | None = None) -> None:
        self.waits = waits

    @cached_attribute
    def value(self) -> object:
        """Something new each time."""
        if self.waits is not None:
            self.waits.wait(60)
        return object()


def test_an_attribute_is_computed_while_another_thread_computes_one() -> None:
    """The lock of `functools.cached_property` made a child that was forked meanwhile hang."""
    over = threading.Event()
    slow = Slow(over)
    thread = threading.Thread(target=lambda: slow.value)
    thread.start()
    quick = Slow()
    assert quick.value is quick.value
    assert "value" not in vars(slow)
    over.set()
    thread.join()
    assert vars(slow)["value"] is slow.value
    assert isinstance(Slow.value, cached_attribute)


def test_threads_that_compute_an_attribute_together_get_the_same() -> None:
    slow = Slow(threading.Barrier(2))
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(slow.value)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [slow.value] * 2


def test_no_attribute_has_the_lock_of_functools() -> None:
    assert modules_with("cached_property") == ["_fork.py"]
