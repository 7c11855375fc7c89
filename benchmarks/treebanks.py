"""The cost of files of treebanks: reading, writing, and all of parsing a file but the parser.

python benchmarks/treebanks.py FILE [--rounds 7]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

from _machine import describe
from _wanted import wanted

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from stub_parser import StubParser

from valuesparse.parsing import evaluate, read_conll, write_conll
from valuesparse.parsing._corpora import parse_file


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("file", type=Path)
    arguments.add_argument("--rounds", type=int, default=7)
    given = arguments.parse_args()
    wanted(given.file, "give a CoNLL-U file")
    print(*describe(()), sep="\n")
    tracemalloc.start()
    sentences = list(read_conll(given.file))
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    words = sum(map(len, sentences))
    print(f"{given.file.name}: {len(sentences):,} sentences, {words:,} words")
    print(f"held in memory: {held / words:.0f} bytes a word")
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "out.conllu")
        calls: dict[str, Callable[[], object]] = {
            "read_conll": lambda: list(read_conll(given.file)),
            "read_conll, check='training'": lambda: list(read_conll(given.file, check="training")),
            "write_conll": lambda: write_conll(sentences, target),
            "parse_file, parser apart": lambda: parse_file(
                StubParser("x"), given.file, target, options={"threads": 1}
            ),
            "evaluate, of sentences": lambda: evaluate(sentences, sentences),
        }
        took: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(given.rounds + 1):
            for name, call in calls.items():
                begin = time.perf_counter()
                call()
                took[name].append((time.perf_counter() - begin) / words * 1e6)
    for name, times in took.items():
        kept = sorted(times[1:])  # the first warms up
        print(f"{name:<30}{statistics.median(kept):6.2f} µs a word ({kept[0]:.2f}-{kept[-1]:.2f})")


if __name__ == "__main__":
    main()
