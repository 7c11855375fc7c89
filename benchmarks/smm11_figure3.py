"""Figure 3 of SMM11: relative running time and max-marginal accuracy of a tagger as zeta varies.

The model is a linear-chain CRF for English part-of-speech tags, trained on UD English-EWT, or one
trained on the first CoNLL-style file given and run on the second. Inference runs on up to 1,000
sentences of the test set. The paper says "filtered by size < 10", which can be read both ways: here
sentences of at least 10 tokens are *kept*.

Accuracy is 1 - mean |max_k m(k) - max_k p(k)| over all tokens, m the marginals found and p the
exact ones. The share of tokens whose best tag is that of exact inference, and the mean over tokens
of the largest error of any tag, stand beside it.

Time is that of all sentences, relative to exact inference on one core. Real cores: one call with
all sentences. Virtual cores, as in the paper: one sentence after the other, and only the messages
of one sentence at the same time, so that exact inference gains nothing beyond two (the grey line at
0.5); each message costs what it was measured to cost on this machine, and the time on one core is
the real one. Turning attributes into local factors is not timed in the paper; both are given.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, fields
from pathlib import Path

import matplotlib as mpl
import numpy as np
from _costs import MessageCosts
from _machine import cores, pinned
from paired import alternate
from rivals import Prepared

import valuesparse as vs
from valuesparse.schedule import chain_schedule, simulate

mpl.use("Agg")
import matplotlib.pyplot as plt

ZETAS = (0.0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999, 1.0)
VIRTUAL_CORES = (1, 2, 4, 8)
SHORTEST = 10
GREY = "0.45"


@dataclass(frozen=True)
class Row:
    """One point of the figure; times are relative to exact inference on one core."""

    zeta: float
    cores: int
    kind: str
    relative_time: float
    relative_time_with_local: float
    accuracy: float
    agreement: float
    mean_largest_error: float
    islands: float
    full_messages: float


@dataclass(frozen=True)
class Quality:
    """How near the marginals at one zeta come to the exact ones, and at how much work."""

    accuracy: float
    agreement: float
    mean_largest_error: float
    islands: float
    full_messages: float


def select(lengths: np.ndarray, limit: int) -> np.ndarray:
    """Return the first `limit` sentences that are long enough."""
    return np.flatnonzero(lengths >= SHORTEST)[:limit]


def quality(found: vs.Result, exact: np.ndarray) -> Quality:
    error = np.abs(found.marginals - exact)
    top = np.abs(found.marginals.max(axis=1) - exact.max(axis=1))
    full, sparse = found.stats["messages_full"], found.stats["messages_sparse"]
    return Quality(
        accuracy=float(1 - top.mean()),
        agreement=float((found.marginals.argmax(axis=1) == exact.argmax(axis=1)).mean()),
        mean_largest_error=float(error.max(axis=1).mean()),
        islands=float((found.islands >= 0).mean()),
        full_messages=full / (full + sparse),
    )


def virtual_times(islands: np.ndarray, lengths: np.ndarray, costs: MessageCosts) -> dict:
    """Return seconds by number of virtual cores, sentence by sentence, parallel inside each."""
    total = dict.fromkeys(VIRTUAL_CORES, 0.0)
    for sentence in np.split(islands, np.cumsum(lengths)[:-1]):
        plan = chain_schedule(
            sentence.size, sentence, sparse_cost=costs.sparse_cost, granularity="pass"
        )
        for count in VIRTUAL_CORES:
            total[count] += simulate(plan, count).makespan * costs.full
    return total


def run(chain: vs.Chain, local_seconds: float, costs: MessageCosts) -> list[Row]:
    """Return the rows of every zeta on real and on virtual cores."""
    real = sorted({1, *(count for count in VIRTUAL_CORES if count <= cores())})
    exact = vs.infer(chain, threads=1)
    baseline = Prepared(lambda: vs.infer(chain, threads=1))
    rows = []
    for zeta in ZETAS:
        found = vs.infer(chain, zeta=zeta, threads=1)
        made = vars(quality(found, exact.marginals))
        times = {}
        for count in real:
            side = Prepared(lambda z=zeta, c=count: vs.infer(chain, zeta=z, threads=c))
            with pinned(0 if count == 1 else None):
                times[count] = alternate(baseline, side, samples=7)
        virtual = virtual_times(found.islands, chain.lengths, costs)
        one = times[1].b / times[1].a
        points = [("real", count, timing.b / timing.a) for count, timing in times.items()]
        points += [
            ("virtual", count, one * seconds / virtual[1]) for count, seconds in virtual.items()
        ]
        local = local_seconds / times[1].a
        rows += [
            Row(zeta, count, kind, relative, (local + relative) / (local + 1), **made)
            for kind, count, relative in points
        ]
    return rows


def draw(rows: list[Row], path: Path, title: str) -> None:
    """Write the figure."""
    figure, (time_axes, trade_axes, error_axes) = plt.subplots(
        1, 3, figsize=(14, 4.8), layout="constrained"
    )
    ticks = np.arange(len(ZETAS))
    colours = dict(
        zip(VIRTUAL_CORES, ("tab:blue", "tab:orange", "tab:green", "tab:red"), strict=True)
    )
    time_axes.axhline(0.5, color=GREY, lw=3, alpha=0.6, label="exact, two cores (0.5)")
    lines = {}
    for row in rows:
        lines.setdefault((row.kind, row.cores), []).append(row)
    for (kind, count), points in sorted(lines.items()):
        if (kind, count) == ("virtual", 1):
            continue
        style = {"color": colours[count], "marker": "o", "ms": 4}
        if kind == "virtual":
            style |= {"ls": "--", "mfc": "white"}
        name = f"{count} {kind} core{'s' * (count > 1)}"
        relative = [row.relative_time for row in points]
        time_axes.plot(ticks, relative, label=name, **style)
        trade_axes.plot(relative, [row.accuracy for row in points], label=name, **style)
    one = lines["real", 1]
    time_axes.plot(
        ticks,
        [row.relative_time_with_local for row in one],
        ":",
        color=colours[1],
        label="1 real core, local factors timed too",
    )
    time_axes.set(ylim=(0, None), ylabel="time relative to exact on one core")
    for row in one:
        trade_axes.annotate(
            f"{row.zeta:g}",
            (row.relative_time, row.accuracy),
            (5, -9),
            textcoords="offset points",
            fontsize=8,
            color=colours[1],
        )
    trade_axes.plot((1.0, 0.5), (1.0, 1.0), "D", color=GREY, ms=7, zorder=0, label="exact")
    trade_axes.set(xlim=(0, None), xlabel="time relative to exact on one core")
    trade_axes.set(ylabel="max-marginal accuracy")
    for name, values in (
        ("max-marginal error (1 - accuracy)", [1 - row.accuracy for row in one]),
        ("largest error of any tag, mean", [row.mean_largest_error for row in one]),
        ("tokens with another best tag", [1 - row.agreement for row in one]),
    ):
        error_axes.plot(ticks[:-1], values[:-1], "o-", ms=4, label=name)
    error_axes.plot(
        ticks[:-1],
        [row.full_messages for row in one][:-1],
        color=GREY,
        label="share of full messages",
    )
    error_axes.set(yscale="log", ylabel="error against exact inference")
    for axes in (time_axes, error_axes):
        axes.set(xlabel="ζ")
        axes.set_xticks(ticks, [f"{zeta:g}" for zeta in ZETAS], fontsize=9)
    for axes in (time_axes, trade_axes, error_axes):
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=9)
    figure.suptitle(title)
    temporary = path.with_suffix(".tmp.png")
    figure.savefig(temporary, dpi=150)
    temporary.replace(path)


def write_csv(rows: list[Row], path: Path) -> None:
    temporary = path.with_suffix(".tmp.csv")
    with temporary.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(field.name for field in fields(Row))
        writer.writerows(tuple(vars(row).values()) for row in rows)
    temporary.replace(path)
