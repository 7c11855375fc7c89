"""Forks from a process whose threads are inside calls: every child answers as its parent."""

from __future__ import annotations

import os

import pytest
from children import run

# Threads of the parent call without end; each child asks each kind of model once, then ends.
FORKS = """
import os, signal, sys, threading
import numpy as np, valuesparse as vs
rng = np.random.default_rng(0)
chain = vs.Chain(rng.normal(size=(2000, 12)), rng.normal(size=(12, 12)), lengths=np.full(40, 50))
tree = vs.Tree((np.arange(500) - 1) // 2, rng.normal(size=(500, 6)), rng.normal(size=(6, 6)))
graph = vs.FactorGraph([3] * 16)
for v in range(16):
    for u in [v - 1] * (v % 4 > 0) + [v - 4] * (v >= 4):
        graph.add([u, v], rng.normal(size=(3, 3)))
CALLS = [
    lambda **limit: vs.infer(chain, threads=2, **limit).marginals.tobytes(),
    lambda **limit: vs.infer(chain, zeta=0.7, threads=2, **limit).marginals.tobytes(),
    lambda **limit: vs.infer(tree, threads=2, **limit).marginals.tobytes(),
    lambda **limit: vs.JunctionTree(graph).infer(threads=2, **limit).marginals[3].tobytes(),
    lambda **limit: vs.infer(graph, method="bp", threads=2, **limit).marginals[3].tobytes(),
    lambda **limit: vs.sample(chain, 2, np.random.default_rng(0), threads=2, **limit).tobytes(),
]
want = [call() for call in CALLS]
stop, wrong = threading.Event(), []
def busy(call, answer):
    while not stop.is_set():
        if call(deadline=1e6, progress=lambda done, total: None) != answer:
            wrong.append(answer)
threads = [threading.Thread(target=busy, args=pair) for pair in zip(CALLS, want)]
[t.start() for t in threads]
lost = 0
for _ in range(int(sys.argv[1])):
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)  # a child that hangs is killed
        seen = []
        limit = {"deadline": 1e6, "progress": lambda done, total: seen.append(done)}
        os._exit(0 if [call(**limit) for call in CALLS] == want and seen else 1)
    lost += os.waitpid(pid, 0)[1] != 0
stop.set()
[t.join() for t in threads]
print(lost, len(wrong))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_forks_while_every_kind_of_call_is_under_way(runs: int) -> None:
    done = run(FORKS, str(runs), timeout=120 + 5 * runs)
    assert (done.returncode, done.stdout.strip()) == (0, "0 0"), done.stderr


# A thread imports a function of the user's, another installs the packages: each holds a lock.
LOCKS = """
import os, signal, sys, threading
from valuesparse.crf import _install, install
from valuesparse.crf.corpora import _functions
go, ready = threading.Event(), threading.Barrier(3)
def hold(module, name):
    lock = getattr(module, name)
    with lock:
        ready.wait()
        go.wait()
threads = [
    threading.Thread(target=hold, args=pair)
    for pair in ((_functions, "_IMPORTING"), (_install._PLACE, "lock"))
]
[t.start() for t in threads]
ready.wait()
pid = os.fork()
if pid == 0:
    signal.alarm(20)  # a child that hangs is killed
    found = _functions.find_function("json:dumps")
    installation = install()
    import pycrfsuite
    installation.uninstall()
    os._exit(0 if found([]) == "[]" and "pycrfsuite" not in sys.modules else 1)
status = os.waitpid(pid, 0)[1]
go.set()
[t.join() for t in threads]
print(status)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_forks_while_threads_import() -> None:
    done = run(LOCKS)
    assert (done.returncode, done.stdout.strip()) == (0, "0"), done.stderr


# A thread grows a dictionary, which holds its lock without the GIL; each child grows it, too.
DICTIONARIES = """
import os, signal, sys, threading, time
from valuesparse.crf.crfsuite import Trainer
trainer, stop = Trainer(verbose=False), threading.Event()
def grow():
    n = 0
    while not stop.is_set():
        n += 1
        trainer.append([[f"{n}-{i}"] for i in range(20_000)], ["A"] * 20_000)
        if n % 20 == 0:
            trainer.clear()
thread = threading.Thread(target=grow)
thread.start()
lost = 0
for _ in range(int(sys.argv[1])):
    time.sleep(0.03)
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)  # a child that hangs is killed
        trainer.append([["x"], ["y"]], ["A", "B"])
        os._exit(0)
    lost += os.waitpid(pid, 0)[1] != 0
    if lost:
        break
stop.set()
thread.join()
print(lost)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_forks_while_a_dictionary_grows(runs: int) -> None:
    done = run(DICTIONARIES, str(10 * runs), timeout=120 + 5 * runs)
    assert (done.returncode, done.stdout.strip()) == (0, "0"), done.stderr
