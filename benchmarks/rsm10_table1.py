"""Table 1 of RSM10: three ways to choose pairs of arcs, and belief propagation on all of them.

    python benchmarks/rsm10_table1.py TREEBANKS WORK

Dutch: any trees, grandparents; Italian: projective trees, grandparents; English: projective trees,
grandparents and siblings. Every parser is trained so, without a pruner. Each scheme is tried with
several parameters (RSM10, figure 2c); the table has the fastest that is as accurate as belief
propagation to 0.1 points, or else the most accurate.

F: the share of pairs that were added. E: the mean over sentences of the largest difference of a
belief from that of full belief propagation; in Italian from the exact marginal (inside-outside with
grandparents, O(n⁴)). All rows are of the general engine, `vs.infer` and `vs.select`, so that they
can be compared; their times include features, all of which are extracted, and making the graph.
"parser" rows are `Parser.parse`, English: "bp", and "relaxed" by the same schemes.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from _grandparents import trained as trained_with_grandparents
from _reproduction import Row, Run, main, publish
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

#: What trees have to be, and whether there are siblings.
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


def chosen(graph: vs.FactorGraph, name: str, amount: Any) -> Any:
    """Return the result of one scheme, or of belief propagation with all pairs."""
    if name == FULL:
        return vs.infer(graph, method=SOLVER, threads=1)
    return vs.select(graph, solver=SOLVER, threads=1, **{SCHEMES[name][0]: amount})


def all_chosen(graph: vs.FactorGraph, pairs: int) -> Iterator[tuple[str, Any]]:
    """Yield what `chosen` returns, by name of the configuration, with all gains computed once."""
    count = graph.n_factors
    own = np.arange(count - pairs)
    seed = vs.infer(graph, factors=own, method=SOLVER, threads=1)
    gains = vs.gain(graph, range(len(own), count), seed)
    for name, amount in configurations():
        if name == FULL:
            yield name, chosen(graph, name, amount)
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
    """Return of each sentence its words, and of each configuration pairs added and milliseconds."""
    parser, gold = model(run, language), run.gold(language, timed=True)
    siblings = MODELS[language][1]
    found: Row = {"words": [], "features": [], "graph": []}
    for sentence in gold:
        n = len(sentence)
        of = parts(parser, sentence, siblings)
        graph = graph_of(parser, of)
        found["words"].append(n)
        found["features"].append(_clock(lambda s=sentence: parts(parser, s, siblings), run.samples))
        found["graph"].append(_clock(lambda x=of: graph_of(parser, x), run.samples))
        for name, amount in configurations():
            row = found.setdefault(name_of(name, amount), {"added": [], "ms": []})
            r = chosen(graph, name, amount)
            row["added"].append(int(r.factors.size) - graph.n_variables - (n > 0))
            call = lambda g=graph, x=name, a=amount, n=n: heads_of(  # noqa: E731
                parser, beliefs_of(g, chosen(g, x, a), n)
            )
            row["ms"].append(_clock(call, run.samples))
        if siblings:
            for name, how in parser_rows().items():
                call = lambda s=sentence, h=how: list(  # noqa: E731
                    parser.parse([s], prune=False, threads=1, max_iterations=ITERATIONS, **h)
                )
                found.setdefault(name, {"ms": []})["ms"].append(_clock(call, run.samples))
    return found


def parser_rows() -> dict[str, dict[str, Any]]:
    """Return the arguments of `Parser.parse` for belief propagation and the schemes it has."""
    found: dict[str, dict[str, Any]] = {"BP, parser": {"method": "bp"}}
    known = inspect.signature(Parser.parse).parameters
    for name, (argument, amounts) in SCHEMES.items():
        for amount in amounts:
            how: dict[str, Any] = {"method": "relaxed", "max_rounds": 1}
            if argument in known:
                found[f"{name_of(name, amount)}, parser"] = {**how, argument: amount}
            elif name == "MinJoint":  # a round of relaxed inference but for gains of γ itself
                found[f"{name_of(name, amount)}, parser"] = {**how, "threshold": amount}
    return found


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
    return min(good, key=lambda x: sum(took[x]["ms"]))


def cells(name: str, rows: Row, took: Row) -> Row:
    """Return the cells of a configuration."""
    parser = name.endswith(", parser")
    own = rows[name.removesuffix(", parser")]
    found: Row = {"configuration": name, "F %": 100 * own["F"], "T ms": None, "ratio": None}
    if name in took:
        extra = 0.0 if parser else sum(took["features"]) + sum(took["graph"])
        ms, full = sum(took[name]["ms"]), sum(took[f"{FULL}, parser" if parser else FULL]["ms"])
        found |= {"T ms": (ms + extra) / len(took["words"]), "ratio": (full + extra) / (ms + extra)}
        if not parser:
            found["ratio without features and graph"] = full / ms
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
        if MODELS[language][1]:
            shown += [f"{name}, parser" for name in shown]
        lines += [{"language": language, **cells(name, rows, took)} for name in shown]
    if "tables" in run.steps:
        publish(run, "rsm10-table1", lines)


if __name__ == "__main__":
    main(__doc__, make)
