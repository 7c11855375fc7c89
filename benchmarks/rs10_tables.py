"""Tables 1 and 2 of RS10: belief propagation on all pairs of arcs, and on those that matter.

    python benchmarks/rs10_tables.py TREEBANKS WORK

Parsers of order 2 are trained without a pruner. Rel R, ε, B adds pairs of a gain above ε in at most
R rounds of at most B iterations. Times are of the processor, from sentence to heads and labels,
features included, one thread. "without features of pairs" is the ratio to full belief propagation
once those are taken off on both sides; the pairs that Rel scores are reckoned at the price that
each pair has where all are scored. Features of arcs cannot be taken off: they are scored for many
sentences at once.

Pruned t is the paper's baseline: pairs of |potential| > t, at most 50 iterations. The parser has no
such method; the general engine answers, and its time includes all features and making the graph.
Error: the mean over all arcs of a sentence of the difference to full belief propagation, and that
over sentences.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from _reproduction import Row, Run, alternating, main, publish
from _sentence_graphs import (
    difference,
    graph_of,
    heads_of,
    parts_of,
    propagated,
    relaxed,
)

from valuesparse.parsing import Parser, Sentence, evaluate

#: Arguments of `Parser.parse`.
CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "BP": {"method": "bp", "max_iterations": 10},
    "Rel ∞, 0.0001, 5": {"max_rounds": None, "threshold": 1e-4, "max_iterations": 5},
    "Rel ∞, 0.0001, 50": {"max_rounds": None, "threshold": 1e-4, "max_iterations": 50},
    "Rel 1, 0.0001, 50": {"max_rounds": 1, "threshold": 1e-4, "max_iterations": 50},
    "Rel ∞, 0.1, 50": {"max_rounds": None, "threshold": 0.1, "max_iterations": 50},
}
FULL, ONE_ROUND, FEW = "BP", "Rel 1, 0.0001, 50", "Rel ∞, 0.1, 50"
CUTS = (0.1, 0.5)
TABLE_2 = "Danish"


def parse(parser: Parser, sentences: list[Sentence], how: dict[str, Any]) -> Any:
    """Return the sentences parsed, and how that went."""
    how = {"method": "relaxed", **how}
    parses = parser.parse(sentences, prune=False, threads=1, **how)
    return list(parses), parses.summary


def accuracy(parser: Parser, gold: list[Sentence], how: dict[str, Any]) -> Row:
    """Return how well a configuration parses."""
    system, s = parse(parser, gold, how)
    return {
        "uas": evaluate(gold, system).uas, "used": s.used / s.pairs, "scored": s.scored / s.pairs,
        "converged": s.converged / s.sentences, "sentences": len(gold),
    }  # fmt: skip


def error(parser: Parser, gold: list[Sentence], how: dict[str, Any]) -> Row:
    """Return how far a configuration's beliefs are from those of full belief propagation."""
    found = []
    for sentence in gold:
        parts = parts_of(parser, sentence)
        full = propagated(parser, parts, 10)
        iterations, rounds = how["max_iterations"], how["max_rounds"]
        own = relaxed(parser, parts, iterations, threshold=how["threshold"], max_rounds=rounds)
        found.append(difference(own, full)[0])
    return {"error": float(np.mean(found))}


def cut(parser: Parser, sentence: Sentence, least: float) -> tuple[Any, float, Any]:
    """Return beliefs, the share of pairs and all parts of a sentence, small potentials left out."""
    parts = parts_of(parser, sentence)
    few = parts.above(least)
    return propagated(parser, few, 50), few.pairs / max(1, parts.pairs), parts


def accuracy_of_cut(parser: Parser, gold: list[Sentence], least: float) -> Row:
    """Return accuracy, size and error of the paper's baseline."""
    system, errors, used, pairs = [], [], 0.0, 0
    for sentence in gold:
        p, share, parts = cut(parser, sentence, least)
        errors.append(difference(p, propagated(parser, parts, 10))[0])
        used, pairs = used + share * parts.pairs, pairs + parts.pairs
        system.append(sentence.parsed(heads_of(parser, p), sentence.labels))
    return {
        "uas": evaluate(gold, system).uas, "used": used / pairs, "error": float(np.mean(errors)),
        "sentences": len(gold),
    }  # fmt: skip


def arcs_of(parser: Parser) -> Parser:
    """Return the parser without the weights of pairs: it scores arcs alone."""
    from valuesparse import _parser as native

    model = parser.model
    count = native.weights_of_parts(1, model.bits)
    return Parser(model._replace(order=1, weights=model.weights[:count].copy()))


def times(parser: Parser, gold: list[Sentence], samples: int, *, cuts: bool) -> Row:
    """Return the seconds that each configuration takes for the sentences."""
    arcs = arcs_of(parser)
    calls: dict[str, Callable[[], object]] = {
        name: lambda how=how: parse(parser, gold, how) for name, how in CONFIGURATIONS.items()
    }
    calls["features"] = lambda: [parts_of(parser, s) for s in gold]
    calls["features of arcs"] = lambda: [parts_of(arcs, s) for s in gold]
    if cuts:
        for least in CUTS:
            calls[f"Pruned {least}"] = lambda least=least: [
                heads_of(parser, cut(parser, s, least)[0]) for s in gold
            ]
        calls["BP, general engine"] = lambda: [
            heads_of(parser, propagated(parser, parts_of(parser, s), 10)) for s in gold
        ]
        calls["graphs"] = lambda: [graph_of(parser, parts_of(parser, s)) for s in gold]
    return {**alternating(calls, samples), "sentences": len(gold), "words": sum(map(len, gold))}


def rows_of(run: Run, language: str) -> tuple[dict[str, Row], Row]:
    """Return the rows of a language, by configuration, and all of its times."""
    name, rows = "rs10", {}
    gold = run.gold(language)
    for configuration, how in CONFIGURATIONS.items():
        if configuration == FEW and language != TABLE_2:
            continue
        key = f"{language}, {configuration}"
        row = run.row(
            "accuracy", name, key, lambda how=how: accuracy(run.unpruned(language), gold, how)
        )
        if configuration == ONE_ROUND or (language == TABLE_2 and configuration != FULL):
            measure = lambda how=how: error(run.unpruned(language), gold, how)  # noqa: E731
            row = {**row, **run.row("accuracy", name, f"{key}, error", measure)}
        rows[configuration] = row
    if language == TABLE_2:
        for least in CUTS:
            rows[f"Pruned {least}"] = run.row(
                "accuracy", name, f"{language}, Pruned {least}",
                lambda least=least: accuracy_of_cut(run.unpruned(language), gold, least),
            )  # fmt: skip
    timed = lambda: times(  # noqa: E731
        run.unpruned(language), run.gold(language, timed=True), run.samples,
        cuts=language == TABLE_2,
    )  # fmt: skip
    return rows, run.row("times", name, language, timed)


def line(configuration: str, row: Row, took: Row) -> Row:
    """Return a configuration's cells."""
    own, full = took.get(configuration), took.get(FULL)
    found: Row = {
        "configuration": configuration,
        "sentences": row.get("sentences"),
        "accuracy %": round(100 * row["uas"], 2) if row else None,
        "ms a sentence": 1e3 * own / took["sentences"] if own else None,
        "ratio": full / own if own and full else None,
    }
    if configuration in CONFIGURATIONS and configuration != FULL:
        found["ratio without features of pairs"] = without_features(row, took, configuration)
    found["pairs %"] = 100 * row["used"] if row else None
    if configuration in CONFIGURATIONS:
        found["converged %"] = 100 * row["converged"] if row else None
    if "error" in row:
        found["error"] = row["error"]
    return found


def without_features(row: Row, took: Row, configuration: str) -> float | str | None:
    """Return the ratio to full belief propagation, features of pairs taken off on both sides.

    It is a dash where they are reckoned at more than the whole, as in small runs.
    """
    if not row or not took:
        return None
    pairs = took["features"] - took["features of arcs"]
    own, full = took[configuration] - row["scored"] * pairs, took[FULL] - pairs
    return full / own if own > 0 and full > 0 else "–"


def make(run: Run) -> None:
    """Measure and write both tables."""
    one, two = [], []
    ratios = []
    for language in run.languages:
        rows, took = rows_of(run, language)
        for configuration, row in rows.items():
            own = line(configuration, row, took)
            if configuration in CONFIGURATIONS and configuration != FEW:
                one.append({"language": language, **own})
            if language == TABLE_2:
                two.append(own)
        if took:
            ratios.append(took[FULL] / took[ONE_ROUND])
        if took and language == TABLE_2:
            general = took["BP, general engine"]
            two.append({
                "configuration": "BP, general engine",
                "ms a sentence": 1e3 * general / took["sentences"],
                "ratio": took[FULL] / general, "pairs %": 100.0,
            })  # fmt: skip
    if ratios:
        mean = float(np.exp(np.mean(np.log(ratios))))
        one.append({"language": "geometric mean", "configuration": ONE_ROUND, "ratio": mean})
    if "tables" in run.steps:
        publish(run, "rs10-table1", one)
        if two:
            publish(run, "rs10-table2", two)


if __name__ == "__main__":
    main(__doc__, make)
