"""How soon Ctrl-C and a deadline end a call that is under way: DESIGN promises 100 ms.

python benchmarks/interrupts.py [--rounds 7] [NAME ...]
"""

from __future__ import annotations

import argparse
import signal
import statistics
import sys
import time
from pathlib import Path

from _machine import describe
from _wanted import named

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from children import start
from slow_calls import CALLS, NAMES

CHILD = (
    CALLS
    + """
if asked_late:
    # Machines differ: halved until the call needs longer than that.
    for deadline in (0.3 / 2**k for k in range(9)):
        begin = time.monotonic()
        try:
            call(deadline=deadline)
        except vs.DeadlineError:
            print("late", time.monotonic() - begin - deadline, flush=True)
            break
for _ in range(int(sys.argv[3])):
    print("ready", flush=True)
    try:
        while True:
            call()
    except KeyboardInterrupt:
        print("interrupted", time.monotonic(), flush=True)
"""
)


def measure(what: str, threads: int, rounds: int) -> tuple[list[float], float | None]:
    """Return the seconds from each Ctrl-C to its exception, and how late a deadline was."""
    child = start(CHILD, what, str(threads), str(rounds))
    late, sent, took = None, 0.0, []
    for line in child.stdout:
        word, *value = line.split()
        if word == "late":
            late = float(value[0])
        elif word == "ready":
            time.sleep(0.3)  # into the call
            sent = time.monotonic()
            child.send_signal(signal.SIGINT)
        else:
            took.append(float(value[0]) - sent)
    if child.wait() != 0:
        raise RuntimeError(child.stderr.read())
    return took, late


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="names of calls; by default all")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    named(parser, "call", options.names, dict.fromkeys(what for what, _ in NAMES))
    print(*describe(()), sep="\n")
    print(
        f"{'call':30} {'threads':>7} {'Ctrl-C, ms':>11} {'worst':>7} {'deadline late by, ms':>21}"
    )
    for what, threads in NAMES:
        if options.names and what not in options.names:
            continue
        took, late = measure(what, threads, options.rounds)
        middle, worst = 1e3 * statistics.median(took), 1e3 * max(took)
        words = "" if late is None else f"{1e3 * late:.1f}"
        print(f"{what:30} {threads:7} {middle:11.1f} {worst:7.1f} {words:>21}", flush=True)


if __name__ == "__main__":
    main()
