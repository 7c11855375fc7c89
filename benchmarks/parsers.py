"""How well parsers parse, and how long training and parsing take, on five treebanks.

    python benchmarks/parsers.py FOLDER [LANGUAGE...] [--orders 1,2] [--epochs N] [--threads N]

FOLDER has the files of Universal Dependencies and CoNLL-X that LANGUAGES names. Tags are gold.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import valuesparse as vs

LANGUAGES = {
    "English": ("en_ewt", "en_ewt", ()),
    "Danish": ("da_cdt", "da_cdt", ()),
    "Dutch": ("nl_alpinocdbl", "nl_alpinocdbl", ()),
    "Italian": ("it_partut", "it_isdt", ()),
    # Its XPOS hold syntactic functions.
    "Portuguese": ("pt_bosque", "pt_bosque", ("XPOS",)),
}


def measure(folder: Path, language: str, order: int, epochs: int, threads: int) -> None:
    """Train on one treebank, parse dev and test on one thread, and print a row."""
    train, test, ignore = LANGUAGES[language]
    began, used = time.perf_counter(), time.process_time()
    parser = vs.parsing.train(
        folder / f"{train}-train.conllu.gz",
        order=order, epochs=epochs, ignore=ignore, threads=threads,
    )  # fmt: skip
    elapsed, used = time.perf_counter() - began, time.process_time() - used
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "m")
        parser.save(path)
        size = path.stat().st_size
    row = f"{language:<11}{order:>2}{elapsed:>7.0f} s{used:>7.0f} s{size / 1e6:>6.0f} MB"
    for part in ("dev", "test"):
        gold = list(vs.parsing.read_conll(folder / f"{test}-{part}.conllu.gz"))
        began = time.process_time()
        found = list(parser.parse(gold, threads=1))
        used = time.process_time() - began
        e = vs.parsing.evaluate(gold, found)
        row += f"   {part}: {e.uas:.2%} {e.las:.2%} {e.words / used:>7,.0f} words/s"
    print(row, flush=True)


def main() -> None:
    """Print a row for each language and order."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("languages", nargs="*", default=list(LANGUAGES))
    parser.add_argument("--orders", default="1,2")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    print(f"{'':<11}{'order':>2} training: elapsed, processor time; file; UAS, LAS, speed")
    for language in given.languages:
        for order in map(int, given.orders.split(",")):
            measure(given.folder, language, order, given.epochs, given.threads)


if __name__ == "__main__":
    main()
