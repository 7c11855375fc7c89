"""Tables 2 and 3 of MSFXM10: losses, orders, and which features a parser has.

    python benchmarks/msfxm10_tables.py TREEBANKS WORK

Table 2, for each treebank: arc-factored and second-order parsers by the loss of CRFs (β = 1, γ = 0)
and that of structured SVMs (∞, 1), with a pruner; those with features that training trees have
("supported") and with all that any tree has ("complete"), and those with features of non-projective
arcs besides, on the path variables of parser #2, where trees are not projective. Parser #1 is "bp",
at most 100 iterations damped by a half; parser #2 is "ad3" on the linear program, of the first
--programs sentences. Table 3: accuracy of each (β, γ), Danish. A parser that `train` cannot learn
yet is a row "not measured".
"""

from __future__ import annotations

import inspect
import math
from typing import Any

from _reproduction import Row, Run, arguments, publish, run_of

from valuesparse.parsing import Parser, evaluate, train

CRF, SVM = (1.0, 0.0), (math.inf, 1.0)
LOSSES = {"CRF": CRF, "SVM": SVM}
BETAS, GAMMAS = (1.0, 3.0, 5.0, math.inf), (0.0, 1.0, 3.0, 5.0)
GRID = "Danish"
PROGRAMS = 100
FEATURES = ("supported", "complete")


def kind(order: int, beta: float, gamma: float, features: str = "hashed") -> str:
    """Return what the file of such a parser is called."""
    return f"{features}-{order}-{beta:g}-{gamma:g}"


def parser_of(
    run: Run, language: str, order: int, loss: tuple[float, float], features: str = "hashed"
) -> Parser | None:
    """Return such a parser; None where `train` has no such features, or no such loss."""
    how: dict[str, Any] = {"order": order, "beta": loss[0], "gamma": loss[1]}
    if features != "hashed":
        if "features" not in inspect.signature(train).parameters:
            return None
        how["features"] = features
    try:
        return run.parser(language, kind(order, *loss, features), **how)
    except ValueError as error:
        if "beta" in str(error):
            return None
        raise


def accuracy(run: Run, language: str, order: int, loss: tuple[float, float]) -> Row:
    """Return how well parser #1 does, or that of arcs, and whether its messages converge."""
    parser = parser_of(run, language, order, loss)
    return {} if parser is None else parsed(run, language, parser)


def parsed(run: Run, language: str, parser: Parser) -> Row:
    """Return the accuracy of a parser."""
    gold = run.gold(language)
    how: dict[str, Any] = {"method": "exact"}
    if parser.order > 1:
        how = {"method": "bp", "max_iterations": 100, "damping": 0.5}
    parses = parser.parse(gold, threads=1, **how)
    system = list(parses)
    return {"uas": evaluate(gold, system).uas, "converged": parses.summary.converged / len(gold)}


def program(
    run: Run, language: str, loss: tuple[float, float], count: int, features: str = "hashed"
) -> Row:
    """Return how well parser #2 does, beside parser #1 on the same sentences."""
    parser = parser_of(run, language, 2, loss, features)
    if parser is None:
        return {}
    gold = run.gold(language)[:count]
    found: Row = {"sentences": len(gold)}
    for name, how in (
        ("bp", {"method": "bp", "max_iterations": 100, "damping": 0.5}),
        ("lp", {"method": "ad3"}),
    ):
        parses = parser.parse(gold, threads=1, **how)
        found[name] = evaluate(gold, list(parses)).uas
        summary = parses.summary
    found["integral"] = summary.integral / len(gold)
    found["solved"] = summary.converged / len(gold)
    return found


def counted(run: Run, language: str, features: str) -> Row:
    """Return the accuracy and the number of features of a parser with a dictionary."""
    parser = parser_of(run, language, 2, SVM, features)
    if parser is None:
        return {}
    row = parsed(run, language, parser)
    row["features"] = getattr(parser, "n_weights", None)
    return row


def crossing(run: Run, language: str, count: int) -> Row:
    """Return how well a parser does with features of non-projective arcs, beside one without.

    Both have complete features, and parse by the linear program. Empty where trees are projective.
    """
    plain = parser_of(run, language, 2, SVM, "complete")
    if plain is None or plain.constraint == "projective":
        return {}
    how: dict[str, Any] = {"order": 2, "beta": SVM[0], "gamma": SVM[1], "features": "complete"}
    parser = run.parser(language, kind(2, *SVM, "nonprojective"), nonprojective=True, **how)
    gold = run.gold(language)[:count]
    found: Row = {"sentences": len(gold), "features": parser.n_weights}
    for name, one in (("with", parser), ("without", plain)):
        parses = one.parse(gold, "ad3", threads=1)
        found[name] = evaluate(gold, list(parses)).uas
        found[f"{name}, integral"] = parses.summary.integral / len(gold)
    return found


def line_of(run: Run, language: str, programs: int) -> Row:
    """Return the cells of table 2 of a treebank."""
    line: Row = {"language": language}
    for order, name in ((1, "arcs"), (2, "pairs")):
        for loss, numbers in LOSSES.items():
            row = run.row(
                "accuracy", "msfxm10", f"{language}, {kind(order, *numbers)}",
                lambda o=order, x=numbers: accuracy(run, language, o, x),
            )  # fmt: skip
            line[f"{name}, {loss} %"] = percent(row, "uas")
            if order == 2:
                line[f"BP converged, {loss} %"] = percent(row, "converged")
    for loss, numbers in LOSSES.items():
        row = run.row(
            "accuracy", "msfxm10", f"{language}, program, {kind(2, *numbers)}, {programs}",
            lambda x=numbers: program(run, language, x, programs),
        )  # fmt: skip
        line[f"LP integral, {loss} %"] = percent(row, "integral")
        line[f"#1, {loss}, some %"] = percent(row, "bp")
        line[f"#2, {loss}, some %"] = percent(row, "lp")
    for features in FEATURES:
        row = run.row(
            "accuracy", "msfxm10", f"{language}, {kind(2, *SVM, features)}",
            lambda f=features: counted(run, language, f),
        )  # fmt: skip
        line[f"{features} %"] = percent(row, "uas")
        line[f"{features}, features"] = row.get("features")
    row = run.row(
        "accuracy", "msfxm10", f"{language}, {kind(2, *SVM, 'nonprojective')}, {programs}",
        lambda: crossing(run, language, programs),
    )  # fmt: skip
    line["complete, #2, some %"] = percent(row, "without")
    line["non-projective arcs, #2, some %"] = percent(row, "with")
    line["non-projective arcs, LP integral %"] = percent(row, "with, integral")
    line["non-projective arcs, features"] = row.get("features")
    return line


def table_3(run: Run) -> list[Row]:
    """Return a row of each β and order."""
    found = []
    for order in (1, 2):
        for beta in BETAS:
            line: Row = {"order": order, "β": f"{beta:g}".replace("inf", "∞")}
            for gamma in GAMMAS:
                row = run.row(
                    "accuracy", "msfxm10", f"{GRID}, {kind(order, beta, gamma)}",
                    lambda o=order, x=(beta, gamma): accuracy(run, GRID, o, x),
                )  # fmt: skip
                line[f"γ = {gamma:g}"] = percent(row, "uas")
            found.append(line)
    return found


def percent(row: Row, key: str) -> float | None:
    """Return a share as per cent; None where it is not known."""
    return round(100 * row[key], 2) if key in row else None


def make(run: Run, programs: int = PROGRAMS) -> None:
    """Measure and write both tables."""
    two = [line_of(run, language, programs) for language in run.languages]
    three = table_3(run) if GRID in run.languages else []
    if "tables" in run.steps:
        publish(run, "msfxm10-table2", two)
        if three:
            publish(run, "msfxm10-table3", three)


if __name__ == "__main__":
    p = arguments(__doc__)
    p.add_argument("--programs", type=int, default=PROGRAMS)
    given = p.parse_args()
    make(run_of(given), given.programs)
