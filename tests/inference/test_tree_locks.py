"""Locks of what calls share: interrupts and forks amid a call leave them open."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
from children import run

import valuesparse as vs
from valuesparse.inference._network import Held, Network, network_of

# Thousands of questions are cut short, wherever they are; then every thread may ask.
INTERRUPTS = """
import random, signal, sys, threading
import numpy as np, valuesparse as vs
graph = vs.FactorGraph([2, 2, 2])
for edge in [(0, 1), (1, 2), (0, 2)]:
    graph.add(edge, np.eye(2))
tree = vs.JunctionTree(graph)
questions = [
    lambda: tree.infer({0: 1}).log_z, lambda: tree.log_z({1: 0}), lambda: tree.decode().score,
    lambda: tree.joint([0, 1]).tolist(), lambda: tree.sample(2, 0).tolist(),
]
want, got, cut = [ask() for ask in questions], [], 0
def stop(*_):
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, stop)
random.seed(0)
for n in range(int(sys.argv[1])):
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(2e-5, 3e-4))
        while True:
            questions[n % len(questions)]()
    except KeyboardInterrupt:
        cut += 1
thread = threading.Thread(target=lambda: got.extend(ask() for ask in questions), daemon=True)
thread.start()
thread.join(20)
print(cut, got == want, [ask() for ask in questions] == want)
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no setitimer on this platform")
def test_interrupts_leave_a_tree_that_every_thread_may_ask() -> None:
    done = run(INTERRUPTS, "4000", timeout=120)
    assert (done.returncode, done.stdout.split()) == (0, ["4000", "True", "True"]), done.stderr


# A thread is amid a question at the fork; each child begins with another question.
FORKS = """
import os, signal, sys, threading
import numpy as np, valuesparse as vs
rng = np.random.default_rng(0)
def grid():
    graph = vs.FactorGraph([2] * 144)
    for v in range(144):
        for u in [v - 1] * (v % 12 > 0) + [v - 12] * (v >= 12):
            graph.add([u, v], rng.normal(size=(2, 2)))
    return graph
graph = grid()
tree, idle = vs.JunctionTree(graph, evidence={9: 1}), vs.JunctionTree(graph)
CALLS = [
    lambda: repr(tree), lambda: tree.cliques, lambda: tree.parent, lambda: tree.possible_states(9),
    lambda: tree.log_z({3: 0}), lambda: tree.infer({0: 1}).flat_marginals().tobytes(),
    lambda: tree.infer().log_z, lambda: tree.joint([0, 1], {2: 1}).tolist(),
    lambda: tree.joint([0, 143]).tolist(), lambda: tree.decode({5: 0}).states.tolist(),
    lambda: tree.sample(2, 0).tolist(), lambda: tree.infer_many({1: [0, 1]}).log_z.tolist(),
    lambda: vs.schedule.plan(tree).n_tasks, lambda: tree.divide(), lambda: idle.infer().log_z,
]
want = [call() for call in CALLS]
inside, go = threading.Event(), threading.Event()
def report(done, total):
    if done:
        inside.set()
        go.wait()
lost = 0
for first in range(len(CALLS)):
    inside.clear()
    go.clear()
    thread = threading.Thread(target=tree.infer, args=({0: 1},), kwargs={"progress": report})
    thread.start()
    inside.wait()
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)  # a child that hangs is killed
        order = [*range(first, len(CALLS)), *range(first)]
        os._exit(0 if [CALLS[i]() for i in order] == [want[i] for i in order] else 1)
    go.set()
    thread.join()
    lost += os.waitpid(pid, 0)[1] != 0
again = [call() for call in CALLS] == want
# The thread that forks may be the one that asks: its question goes on in both.
seen = []
def fork(done, total):
    if not seen:
        seen.append(os.fork())
        if seen == [0]:
            signal.alarm(60)
found = tree.infer({0: 1}, progress=fork).flat_marginals().tobytes() == want[5]
if seen == [0]:
    os._exit(0 if found and [call() for call in CALLS] == want else 1)
lost += os.waitpid(seen[0], 0)[1] != 0
print(lost, again, found)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_a_forked_child_asks_a_tree_that_a_thread_was_asking() -> None:
    done = run(FORKS, timeout=300)
    assert (done.returncode, done.stdout.split()) == (0, ["0", "True", "True"]), done.stderr


def _network() -> Network:
    graph = vs.FactorGraph([2, 2, 2])
    for edge in [(0, 1), (1, 2), (0, 2)]:
        graph.add(edge, np.eye(2))
    return network_of(graph)


def test_a_network_that_was_lost_is_made_once_more() -> None:
    network = _network()
    assert Held(network).__enter__() is network.native  # an interrupt or a fork, and no end
    with Held(network) as other:
        assert other is not network.native
    with Held(network) as again:
        assert again is other


def test_a_network_is_not_kept_twice() -> None:
    network = _network()
    one, two = Held(network), Held(network)
    mine, other = one.__enter__(), two.__enter__()
    assert mine is network.native is not other
    two.__exit__()
    one.__exit__()
    assert network.idle == [mine]
    one.__enter__()
    two.__enter__()
    one.__exit__()
    two.__exit__()
    assert network.idle == [mine]
