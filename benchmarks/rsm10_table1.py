"""Table 1 of RSM10: three ways to choose pairs of arcs, and belief propagation on all of them.

    python benchmarks/rsm10_table1.py TREEBANKS WORK

Dutch: any trees, grandparents; Italian: projective trees, grandparents; English: projective trees,
grandparents and siblings. Every parser is trained so, without a pruner. Each scheme is tried with
several parameters (RSM10, figure 2c); the table has the fastest that is as accurate as belief
propagation to 0.1 points, or else the most accurate.

F: the share of pairs that were added. E: the mean over sentences of the largest difference of a
belief from that of full belief propagation; in Italian from the exact marginal, too (E*, by
inside-outside with grandparents, O(n⁴)). F, E and A are of the general engine, which chooses as
`vs.select` does. Times are of `Parser.parse`, from sentence to heads and labels. That has no belief
propagation with grandparents alone: Dutch and Italian have the general engine's in its place, with
the features of all arcs and grandparents, and without the time that its graph takes. So their
sentences are timed one by one. In English a call parses all sentences, as in RS10's tables.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from _grandparents import trained as trained_with_grandparents
from _reproduction import Row, Run, alternating, main, publish
from _sentence_graphs import (
    Parts,
    Table,
    beliefs_of,
    difference,
    graph_of,
    heads_of,
    parts_of,
)

import valuesparse as vs
from valuesparse.parsing import Parser, Sentence, evaluate, load
from valuesparse.relaxed import largest, smallest_within

#: The kind of trees, and whether there are siblings.
MODELS = {
    "Dutch": ("tree", False),
    "Italian": ("projective", False),
    "English": ("projective", True),
}
EXACT = "Italian"
#: The parameters of each scheme.
SCHEMES: dict[str, tuple[str, tuple[Any, ...]]] = {
    "MinDivergence": ("min_divergence", (10, 30, 100, 300, 1000)),
    "MinSize": ("min_size", (1.0, 0.1, 0.01, 0.001, 0.0001)),
    "MinJoint": ("min_joint", (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)),
}
FULL = "BP"
ITERATIONS = 10
SOLVER = vs.BP(max_iterations=ITERATIONS, tolerance=1e-4)
#: Accuracies that count as equal.
EQUAL = 0.001


def model(run: Run, language: str) -> Parser:
    """Return the parser of a language."""
    constraint, siblings = MODELS[language]
    if siblings:
        return run.parser(
            language, f"unpruned-2-{constraint}", order=2, prune=False, constraint=constraint
        )
    path = run.work / "models" / f"{language}-grandparents-{constraint}-{run.size}.parser"
    if not path.exists():
        arcs = run.parser(
            language, f"unpruned-1-{constraint}", order=1, prune=False, constraint=constraint
        )
        begun = time.process_time()
        parser = trained_with_grandparents(arcs, run.lessons(language), run.epochs)
        parser.save(path)
        print(f"trained {path.name}: {time.process_time() - begun:.0f} s of processor", flush=True)
    return load(path)


def parts(parser: Parser, sentence: Sentence, siblings: bool) -> Parts:
    """Return the parts of a sentence that the model has."""
    found = parts_of(parser, sentence)
    return found if siblings else found.grandparents_alone()


def all_chosen(graph: vs.FactorGraph, pairs: int) -> Iterator[tuple[str, Any]]:
    """Yield each configuration and its result, as `vs.select` has it; gains are computed once."""
    count = graph.n_factors
    own = np.arange(count - pairs)
    seed = vs.infer(graph, factors=own, method=SOLVER, threads=1)
    gains = vs.gain(graph, range(len(own), count), seed)
    for name, amount in configurations():
        if name == FULL:
            yield name, vs.infer(graph, method=SOLVER, threads=1)
            continue
        if name == "MinDivergence":
            added = largest(gains, amount)
        elif name == "MinSize":
            added = largest(gains, pairs - smallest_within(gains, amount))
        else:
            added = np.flatnonzero(gains >= amount)
        kept = np.concatenate([own, len(own) + added])
        method = replace(SOLVER, start=seed)
        r = vs.infer(graph, factors=kept, method=method, threads=1) if len(added) else seed
        yield name_of(name, amount), r


def configurations() -> list[tuple[str, Any]]:
    """Return all schemes with all of their parameters."""
    return [(FULL, None)] + [(name, x) for name, (_, some) in SCHEMES.items() for x in some]


def exact(parser: Parser, of: Parts) -> Table:
    """Return the exact marginals of arcs of a projective model with grandparents."""
    found = vs.parsing.marginals(
        [of.scores], True, single_root=parser.single_root, threads=1,
        grandparents=[of.grandparents],
    )  # fmt: skip
    return np.asarray(found.marginals[0])


def accuracies(run: Run, language: str) -> Row:
    """Return share of pairs, error and accuracy of each configuration."""
    parser, gold = model(run, language), run.gold(language)
    siblings = MODELS[language][1]
    found: dict[str, dict[str, Any]] = {
        name_of(*x): {"used": 0, "errors": [], "true": [], "system": []} for x in configurations()
    }
    pairs = 0
    for sentence in gold:
        of = parts(parser, sentence, siblings)
        graph = graph_of(parser, of)
        own = graph.n_variables + (len(sentence) > 0)
        pairs += of.pairs
        true = exact(parser, of) if language == EXACT else None
        full: Any = None
        for name, r in all_chosen(graph, of.pairs):
            row = found[name]
            p = beliefs_of(graph, r, len(sentence))
            full = p if full is None else full  # it comes first
            row["used"] += r.factors.size - own
            row["errors"].append(difference(p, full)[1])
            if true is not None:
                row["true"].append(difference(p, true)[1])
            row["system"].append(sentence.parsed(heads_of(parser, p), sentence.labels))
    return {
        name: {
            "F": row["used"] / pairs,
            "E": float(np.mean(row["errors"])),
            "E*": float(np.mean(row["true"])) if row["true"] else None,
            "A": evaluate(gold, row["system"]).uas,
        }
        for name, row in found.items()
    }


def name_of(name: str, amount: Any) -> str:
    """Return what a configuration is called."""
    return name if amount is None else f"{name} {amount:g}"


def times(run: Run, language: str) -> Row:
    """Return of each sentence its words, and of each configuration pairs added and milliseconds.

    Where the parser has all pairs, a call for all sentences is timed, too: its mean milliseconds.
    """
    parser, gold = model(run, language), run.gold(language, timed=True)
    siblings = MODELS[language][1]
    found: Row = {"words": []}
    for sentence in gold:
        found["words"].append(len(sentence))
        for name, amount in configurations():
            row = found.setdefault(name_of(name, amount), {"added": [], "ms": []})
            if name == FULL and not siblings:
                row["added"].append(0)
                row["ms"].append(without_siblings(parser, sentence, run.samples))
                continue
            parse = partial(parsed, parser, [sentence], how_of(name, amount))
            row["added"].append(parse().used)
            row["ms"].append(_clock(parse, run.samples))
    if siblings:
        calls = {
            name_of(name, amount): partial(parsed, parser, gold, how_of(name, amount))
            for name, amount in configurations()
        }
        for name, seconds in alternating(calls, run.samples).items():
            found[name]["mean"] = 1e3 * seconds / len(gold)
    return found


def how_of(name: str, amount: Any) -> dict[str, Any]:
    """Return what the parser is told of a configuration."""
    return {"method": "bp"} if name == FULL else {SCHEMES[name][0]: amount}


def mean_of(took: Row) -> float:
    """Return the mean milliseconds of a sentence: in a call for all of them, if that was timed."""
    return float(took.get("mean", np.mean(took["ms"])))


def parsed(parser: Parser, sentences: list[Sentence], how: dict[str, Any]) -> Any:
    """Parse sentences, and return how that went."""
    how = {"method": "relaxed", "max_iterations": ITERATIONS, **how}
    parses = parser.parse(sentences, prune=False, threads=1, **how)
    for _ in parses:
        pass
    return parses.summary


def without_siblings(parser: Parser, sentence: Sentence, samples: int) -> float:
    """Return the milliseconds of belief propagation where the parser would look at siblings, too.

    Features of all parts, at the price of a part, and the general engine; its graph is for free.
    """
    both = parts_of(parser, sentence)
    of = both.grandparents_alone()
    graph, n = graph_of(parser, of), len(sentence)
    share = (n * n + of.pairs) / max(1, n * n + both.pairs)
    features = _clock(lambda: parts_of(parser, sentence), samples)
    return share * features + _clock(
        lambda: heads_of(parser, beliefs_of(graph, vs.infer(graph, method=SOLVER, threads=1), n)),
        samples,
    )


def _clock(call: Any, samples: int) -> float:
    """Return the median milliseconds of a call."""
    took = []
    for _ in range(samples):
        begun = time.process_time()
        call()
        took.append(time.process_time() - begun)
    return 1e3 * float(np.median(took))


def measured(run: Run, language: str) -> tuple[Row, Row]:
    """Return what is known of a language: accuracies and times."""
    return (
        run.row("accuracy", "rsm10", language, lambda: accuracies(run, language)),
        run.row("times", "rsm10", language, lambda: times(run, language)),
    )


def best(rows: Row, took: Row, scheme: str) -> str:
    """Return the configuration of a scheme that the table shows."""
    names = [name_of(scheme, x) for x in SCHEMES[scheme][1]]
    good = [x for x in names if rows[x]["A"] >= rows[FULL]["A"] - EQUAL]
    if not good:
        return max(names, key=lambda x: rows[x]["A"])
    if not took:
        return min(good, key=lambda x: rows[x]["F"])
    return min(good, key=lambda x: mean_of(took[x]))


def cells(name: str, rows: Row, took: Row) -> Row:
    """Return the cells of a configuration."""
    own = rows[name]
    found: Row = {"configuration": name, "F %": 100 * own["F"], "T ms": None, "ratio": None}
    if took:
        found["T ms"] = mean_of(took[name])
        found["ratio"] = mean_of(took[FULL]) / found["T ms"]
    found["E %"] = 100 * own["E"]
    if own["E*"] is not None:
        found["E* %"] = 100 * own["E*"]
    found["A %"] = round(100 * own["A"], 2)
    return found


def make(run: Run) -> None:
    """Measure and write the table."""
    lines = []
    for language in MODELS:
        if language not in run.languages:
            continue
        rows, took = measured(run, language)
        if not rows:
            lines.append({"language": language, "configuration": FULL, "F %": 100.0, "A %": None})
            continue
        shown = [FULL, *(best(rows, took, scheme) for scheme in SCHEMES)]
        lines += [{"language": language, **cells(name, rows, took)} for name in shown]
    if "tables" in run.steps:
        publish(run, "rsm10-table1", lines)


if __name__ == "__main__":
    main(__doc__, make)
