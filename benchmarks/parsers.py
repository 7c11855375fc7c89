"""How well parsers parse, and how long training and parsing take; UDPipe 1 on the same files.

    python benchmarks/parsers.py TREEBANKS WORK

Tags, lemmas and features of words are gold. Ours are trained with all defaults, UDPipe's in ten
epochs. Those of order 2 parse by belief propagation, and by the linear program ("ad3"). UAS and LAS
are of all tokens; training times are of the processor on one thread, speeds of one process, from
sentences to heads, ours and labels too; files apart.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from _reproduction import Row, Run, alternating, main, publish
from _treebanks import evaluation_file, first

from valuesparse.parsing import Parser, Sentence, evaluate

# The order of each row of accuracy, and how it parses: pairs by both parsers of MSFXM10.
WAYS = {"order 1": (1, "exact"), "order 2": (2, "bp"), "order 2, ad3": (2, "ad3")}
RIVAL = "UDPipe 1"


def ours(run: Run, language: str, order: int) -> Parser:
    """Return our parser."""
    return run.parser(language, f"default-{order}", order=order)


def scores(run: Run, language: str, parse: Callable[[list[Sentence]], list[Sentence]]) -> Row:
    """Return how well a parser parses."""
    found: Row = {}
    for part in ("dev", "test"):
        gold = first(evaluation_file(run.treebanks, language, part), run.sentences)
        e = evaluate(gold, parse(gold))
        found |= {f"{part} UAS": e.uas, f"{part} LAS": e.las}
    return found


def accuracy(run: Run, language: str, order: int, method: str) -> Row:
    """Return how well ours parses; and its training, where this call trained it."""
    begun = time.process_time()
    parser = ours(run, language, order)
    took = time.process_time() - begun
    found = scores(run, language, lambda gold: list(parser.parse(gold, method, threads=1)))
    path = run.work / "models" / f"{language}-default-{order}-{run.size}.parser"
    return {**found, "training s": took if took > 1 else None, "MB": path.stat().st_size / 1e6}


def rival(run: Run, language: str) -> Any:
    """Return UDPipe's parser, and the seconds of its training where it was trained now."""
    from rivals import udpipe

    path = run.work / "models" / f"{language}-{run.size}.udpipe"
    took = None
    if not path.exists():
        like = ours(run, language, 1)
        begun = time.process_time()
        udpipe.train(
            run.lessons(language), path, projective=like.constraint == "projective",
            single_root=like.single_root,
        )  # fmt: skip
        took = time.process_time() - begun
    return udpipe.load(path), took


def rival_accuracy(run: Run, language: str) -> Row:
    """Return how well UDPipe parses."""
    from rivals import udpipe

    model, took = rival(run, language)
    return {**scores(run, language, lambda gold: udpipe.parsed(model, gold)), "training s": took}


def times(run: Run, language: str, *, with_rival: bool) -> Row:
    """Return the seconds that each parser takes for the sentences that are timed."""
    gold = run.gold(language, timed=True)
    calls: dict[str, Callable[[], object]] = {}
    for name in ("order 1", "order 2"):
        order, usual = WAYS[name]
        parser = ours(run, language, order)
        for how in (usual, "relaxed")[:order]:
            calls[f"{name}, {how}"] = lambda p=parser, how=how: list(
                p.parse(gold, method=how, threads=1)
            )
    if with_rival:
        from rivals import udpipe

        model, _ = rival(run, language)
        trees = udpipe.trees(gold)  # parsing begins by forgetting the heads
        calls[RIVAL] = lambda: udpipe.parse(model, trees)
    return {**alternating(calls, run.samples), "words": sum(map(len, gold))}


def installed() -> bool:
    """Return whether UDPipe is there."""
    try:
        import ufal.udpipe  # noqa: F401
    except ImportError:
        print("without ufal.udpipe, which is not installed")
        return False
    return True


def lines_of(run: Run, language: str, *, with_rival: bool) -> list[Row]:
    """Return the rows of a language."""
    rows: dict[str, Row] = {
        name: run.row(
            "accuracy", "parsers", f"{language}, {name}",
            lambda way=way: accuracy(run, language, *way),
        )
        for name, way in WAYS.items()
    }  # fmt: skip
    if with_rival:
        measure = lambda: rival_accuracy(run, language)  # noqa: E731
        rows[RIVAL] = run.row("accuracy", "parsers", f"{language}, {RIVAL}", measure)
    name = f"{language}, with {RIVAL}" if with_rival else language
    took = run.row("times", "parsers", name, lambda: times(run, language, with_rival=with_rival))
    found = []
    for name, row in rows.items():
        line: Row = {"language": language, "parser": name}
        for key in ("dev UAS", "dev LAS", "test UAS", "test LAS"):
            line[key] = round(100 * row[key], 2) if key in row else None
        line |= {"training s": row.get("training s"), "MB": row.get("MB")}
        for how in ("exact", "bp", "relaxed", ""):
            key = f"{name}, {how}" if how else name
            if key in took:
                line[f"words/s, {how or 'default'}"] = round(took["words"] / took[key])
        found.append(line)
    return found


def above(lines: Sequence[Row]) -> list[Row]:
    """Return how far the mean UAS of order 2 is above that of UDPipe."""
    named = {(r["language"], r["parser"]): r["test UAS"] for r in lines}
    apart = [
        named[language, "order 2"] - value
        for (language, parser), value in named.items()
        if parser == RIVAL and value is not None and named[language, "order 2"] is not None
    ]
    if not apart:
        return []
    what = f"order 2 less {RIVAL}, mean of {len(apart)}"
    return [{"language": "", "parser": what, "test UAS": round(float(np.mean(apart)), 2)}]


def make(run: Run) -> None:
    """Measure and write the table."""
    with_rival = installed()
    lines = [x for name in run.languages for x in lines_of(run, name, with_rival=with_rival)]
    if "tables" in run.steps:
        publish(run, "parsers", lines + above(lines), "ufal.udpipe")


if __name__ == "__main__":
    main(__doc__, make)
