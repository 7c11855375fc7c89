"""Fork, signals, interpreter exit: the pool is a good citizen of its process."""

from __future__ import annotations

import os
import signal
import time

import pytest
from children import run, start
from slow_calls import CALLS, DEADLINES, NAMES

SETUP = """
import numpy as np, os, sys, time
import valuesparse as vs
rng = np.random.default_rng(0)
model = vs.Chain(rng.normal(size=(4000, 20)), rng.normal(size=(20, 20)), lengths=np.full(40, 100))
"""

FORK = (
    SETUP
    + """
want = vs.infer(model, threads=2).marginals.tobytes()
for _ in range(3):
    pid = os.fork()
    if pid == 0:
        ok = all(vs.infer(model, threads=t).marginals.tobytes() == want for t in (2, 1, 3))
        grandchild = os.fork()
        if grandchild == 0:
            os._exit(0 if vs.infer(model, threads=2).marginals.tobytes() == want else 1)
        ok = ok and os.waitpid(grandchild, 0)[1] == 0
        os._exit(0 if ok else 1)
    _, status = os.waitpid(pid, 0)
    assert status == 0, status
    assert vs.infer(model, threads=2).marginals.tobytes() == want
print("fine")
"""
)

FORK_WHILE_BUSY = (
    SETUP
    + """
import threading
want = vs.infer(model, threads=2).marginals.tobytes()
stop = threading.Event()
def busy():
    while not stop.is_set():
        vs.infer(model, threads=2)
threads = [threading.Thread(target=busy) for _ in range(2)]
[t.start() for t in threads]
for _ in range(10):
    pid = os.fork()
    if pid == 0:
        os._exit(0 if vs.infer(model, threads=2).marginals.tobytes() == want else 1)
    assert os.waitpid(pid, 0)[1] == 0
stop.set()
[t.join() for t in threads]
print("fine")
"""
)

POOL_OF_PROCESSES = (
    SETUP
    + """
import multiprocessing as mp
def work(seed):
    return vs.infer(model, threads=2, zeta=0.9).marginals.tobytes()
if __name__ == "__main__":
    want = work(0)
    with mp.get_context("fork").Pool(3) as pool:
        assert set(pool.map(work, range(9))) == {want}
    print("fine")
"""
)

INTERRUPTED = (
    CALLS
    + """
import os, threading, traceback

def under_way(error):
    # Found by the poll of a native call, or between two slices of one question: not between calls.
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    slices = any(name.endswith("_conditioning.py") for name in files)
    # Not the last one: Cython knows frames by their line, and may take another file's for it.
    return any(name.endswith("call.pxi") for name in files) or (what == "conditioned" and slices)

if asked_late:
    # Machines differ: halved until the call needs longer than that.
    for deadline in (0.3 / 2**k for k in range(9)):
        try:
            call(deadline=deadline)
        except vs.DeadlineError:
            print("late", flush=True)
            break
while True:
    print("ready", flush=True)
    try:
        while True:
            call()
    except KeyboardInterrupt as error:
        if under_way(error):
            break
print("interrupted", flush=True)
# Who still computes would be seen in some of these moments.
def running():
    here = str(threading.get_native_id())
    for task in os.listdir("/proc/self/task") if os.path.exists("/proc/self/task") else ():
        with open(f"/proc/self/task/{task}/stat") as file:
            if task != here and file.read().rpartition(")")[2].split()[0] == "R":
                yield task
time.sleep(0.3)
seen = 0
for _ in range(20):
    seen += bool(list(running()))
    time.sleep(0.005)
print("running", seen, flush=True)
small = vs.Chain(np.zeros((50, 4)), np.zeros((4, 4)))
print("after", float(vs.infer(small, threads=threads).marginals[0, 0]), flush=True)
"""
)

STOPPED_ANYWHERE = """
import os, signal, sys, threading, time
import numpy as np
import valuesparse as vs
threads, scale = int(sys.argv[1]), float(sys.argv[2])
n = int(400_000 / scale ** 0.3)
rng = np.random.default_rng(0)
unary = rng.normal(size=(n, 9))
unary[np.arange(n), rng.integers(0, 9, n)] += 9 * (rng.random(n) < 0.7)
model = vs.Chain(unary * scale, rng.normal(size=(9, 9)) * scale)
begin = time.monotonic()
want = vs.infer(model, zeta=0.9, threads=threads).marginals.tobytes()
took = time.monotonic() - begin
for wait in rng.uniform(1e-4, 1, size=16) * min(took, 1.5):
    try:
        vs.infer(model, zeta=0.9, threads=threads, deadline=wait)
    except vs.DeadlineError:
        pass
done = threading.Event()
def interrupt(wait):
    if not done.wait(wait):
        os.kill(os.getpid(), signal.SIGINT)
for wait in rng.uniform(1e-4, 0.9, size=8) * min(took, 1.5) if os.name == "posix" else ():
    done.clear()
    killer = threading.Thread(target=interrupt, args=(wait,))
    try:
        killer.start()
        vs.infer(model, zeta=0.9, threads=threads)
        done.set()
        killer.join()
    except KeyboardInterrupt:
        pass
    killer.join()
assert vs.infer(model, zeta=0.9, threads=threads).marginals.tobytes() == want
print("fine")
"""

SIGNAL_HANDLER_COMPUTES = """
import os, signal, threading, time
import numpy as np
import valuesparse as vs
rng = np.random.default_rng(0)
model = vs.Chain(rng.normal(size=(60_000, 160)), rng.normal(size=(160, 160)),
                 lengths=np.full(600, 100))
other = vs.Chain(rng.normal(size=(300, 200)), rng.normal(size=(200, 200)))
want, inner = vs.infer(model).marginals.tobytes(), vs.infer(other).marginals.tobytes()
seen = []
def handler(*_):
    seen.append(vs.infer(other, threads=2).marginals.tobytes() == inner)
signal.signal(signal.SIGUSR1, handler)
for threads in (1, 2):
    for _ in range(3):
        before = len(seen)
        timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1))
        timer.start()
        while len(seen) == before:
            assert vs.infer(model, threads=threads).marginals.tobytes() == want
        timer.join()
assert all(seen)
print("fine")
"""

EXIT = (
    SETUP
    + """
import threading
vs.infer(model, threads=4)
t = threading.Thread(target=lambda: [vs.infer(model, threads=2) for _ in range(1000)], daemon=True)
t.start()
time.sleep(0.05)
print("fine", flush=True)
"""
)

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")


@needs_fork
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    "code",
    [FORK, FORK_WHILE_BUSY, POOL_OF_PROCESSES],
    ids=["after", "while_busy", "multiprocessing"],
)
def test_fork(code: str) -> None:
    done = run(code, timeout=60)
    assert done.stdout.strip().endswith("fine"), done.stderr
    assert done.returncode == 0


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT as POSIX has it")
@pytest.mark.parametrize(
    ("what", "threads"),
    # Where there is one on two threads, that on one is run with the slow ones.
    [
        pytest.param(
            *name, marks=pytest.mark.slow if (name[0], 2) in NAMES and name[1] == 1 else ()
        )
        for name in NAMES
    ],
)
def test_interrupts_and_deadlines_end_a_call_under_way(what: str, threads: int) -> None:
    """How soon is measured by benchmarks/interrupts.py; this says that the call itself ends."""
    lines, sent = [], 0
    with start(INTERRUPTED, what, str(threads)) as child:
        for line in child.stdout:
            lines.append(line.strip())
            if lines[-1] == "ready":  # again where Python code had the signal, between two calls
                sent += 1
                if sent > 20:
                    child.kill()
                time.sleep(0.1 + 0.2 * sent)  # machines differ in how long Python code sets up
                child.send_signal(signal.SIGINT)
        err = child.stderr.read()
    assert sent <= 20, "no call polls for signals"
    found = [line for line in lines if line != "ready"]
    late = ["late"] if what.startswith(DEADLINES) else []
    assert found[:-2] == [*late, "interrupted"], err
    # 0.3 s after, every other thread waits; a moment or two may be another's.
    assert int(found[-2].split()[1]) <= 2, "something is left running"
    assert found[-1] == "after 0.25"


@pytest.mark.parametrize("scale", [1.0, 3000.0])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_long_chain_with_islands_can_be_stopped_at_any_moment(threads: int, scale: float) -> None:
    # A skipped step writes nothing, so no later step may read it (scale: log domain).
    done = run(STOPPED_ANYWHERE, str(threads), str(scale), timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "fine"


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="no SIGUSR1 on this platform")
def test_a_signal_handler_may_compute_while_a_call_is_under_way() -> None:
    done = run(SIGNAL_HANDLER_COMPUTES, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "fine"


def test_interpreter_exit_while_a_daemon_thread_computes() -> None:
    done = run(EXIT, timeout=30)
    assert done.stdout.strip() == "fine"
    assert done.returncode == 0, done.stderr


def test_import_starts_nothing() -> None:
    done = run(
        "import threading, os, valuesparse\n"
        "tasks = '/proc/self/task'\n"
        "import numpy; before = len(os.listdir(tasks)) if os.path.isdir(tasks) else 0\n"
        "print(threading.active_count())"
    )
    assert done.stdout.strip() == "1", done.stderr


def test_silence() -> None:
    done = run(SETUP + "r = vs.infer(model, zeta=0.9)\nvs.decode(model)\nr.pairwise()\n")
    assert done.stdout == ""
    assert done.stderr == ""
