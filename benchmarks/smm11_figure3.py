"""Figure 3 of SMM11: relative running time and max-marginal accuracy of a tagger as zeta varies.

The model is a linear-chain CRF for English part-of-speech tags (XPOS), trained on UD English-EWT,
or one trained on any CoNLL-style file given as ``--train`` and run on ``--test``. Inference runs on
up to 1,000 sentences of the test set. The paper says "filtered by size < 10", which can be read
both ways: here sentences of at least 10 tokens are *kept*.

Accuracy is 1 - mean |max_k m(k) - max_k p(k)| over all tokens, m the marginals found and p the
exact ones. The share of tokens whose best tag is that of exact inference, and the mean over tokens
of the largest error of any tag, stand beside it.

Time is that of all sentences, relative to exact inference on one core. Real cores: one call with
all sentences; the CSV also has one call per sentence, relative to exact inference called like that.
Virtual cores: the tasks that one call with all sentences runs for as many threads, recorded, and
measured one by one on this machine. Messages, as in the paper: one sentence after the other, and
only the messages of one sentence at the same time, so that exact inference gains nothing beyond two
(the grey line at 0.5); `infer` cuts no sentence that short, so this is a model: messages between
the final islands, each at its measured cost, scaled to the real time on one core. Turning
attributes into local factors is not timed in the paper; both are given.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np
from _costs import MessageCosts, measure, seconds_per_call, virtual_seconds
from _machine import cores, describe, pinned, require_quiet
from _messages import message_plan
from _tables import write_csv
from _tagging import add_arguments, load_chosen
from paired import alternate
from rivals import Prepared

import valuesparse as vs
from valuesparse.schedule import simulate

mpl.use("Agg")
import matplotlib.pyplot as plt

ZETAS = (0.0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999, 1.0)
VIRTUAL_CORES = (1, 2, 4, 8)
SHORTEST = 10
GREY = "0.45"
COLOURS = {1: "tab:blue", 2: "tab:orange", 4: "tab:green", 8: "tab:red"}


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


def message_times(islands: np.ndarray, lengths: np.ndarray, sparse: float) -> dict[int, float]:
    """Return full messages by number of cores, sentence by sentence, parallel inside each."""
    total = dict.fromkeys(VIRTUAL_CORES, 0.0)
    for sentence in np.split(islands >= 0, np.cumsum(lengths)[:-1]):
        plan = message_plan(sentence, sparse)
        for count in VIRTUAL_CORES:
            total[count] += simulate(plan, count).makespan
    return total


def real_times(
    chains: list[vs.Chain], zeta: float, counts: list[int], samples: int
) -> tuple[float, dict[int, float]]:
    """Return seconds of exact inference on one core, and relative times at `zeta` by cores."""

    def side(zeta: float, threads: int) -> Prepared:
        def call() -> None:
            for chain in chains:
                vs.infer(chain, zeta=zeta, threads=threads)

        return Prepared(call)

    relative = {}
    seconds = 0.0
    for count in counts:
        with pinned(0 if count == 1 else None):
            timing = alternate(side(1.0, 1), side(zeta, count), samples=samples)
        relative[count] = timing.b / timing.a
        seconds = seconds or timing.a
    return seconds, relative


def run(chain: vs.Chain, local_seconds: float, costs: MessageCosts) -> list[Row]:
    """Return the rows of every zeta on real and on virtual cores."""
    counts = [count for count in VIRTUAL_CORES if count <= cores()]
    exact = vs.infer(chain, threads=1).marginals
    singles = [
        vs.Chain(unary, chain.transition)
        for unary in np.split(chain.unary, np.cumsum(chain.lengths)[:-1])
    ]
    rows = []
    alone = virtual_seconds(chain, 1.0, 1)
    for zeta in ZETAS:
        found = vs.infer(chain, zeta=zeta, threads=1)
        made = vars(quality(found, exact))
        together, real = real_times([chain], zeta, counts, samples=9)
        apart, called = real_times(singles, zeta, counts, samples=7)
        messages = message_times(found.islands, chain.lengths, costs.sparse_cost)
        points = [("real", count, time, together) for count, time in real.items()]
        points += [
            ("virtual", count, virtual_seconds(chain, zeta, count) / alone, together)
            for count in VIRTUAL_CORES
        ]
        points += [
            ("messages", count, real[1] * time / messages[1], together)
            for count, time in messages.items()
        ]
        points += [("call per sentence", count, time, apart) for count, time in called.items()]
        for kind, count, relative, seconds in points:
            local = local_seconds / seconds
            with_local = (local + relative) / (local + 1)
            rows.append(Row(zeta, count, kind, relative, with_local, **made))
    return rows


def draw(rows: list[Row], path: Path, title: str) -> None:
    """Write the figure."""
    figure, (time_axes, trade_axes, error_axes) = plt.subplots(
        1, 3, figsize=(14.5, 5.6), layout="constrained"
    )
    lines: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        lines.setdefault((row.kind, row.cores), []).append(row)
    time_axes.axhline(0.5, color=GREY, lw=3, alpha=0.6, label="exact, two cores (0.5)")
    diamonds = "exact, 1 and 2 cores (middle)"
    trade_axes.plot((1.0, 0.5), (1.0, 1.0), "D", color=GREY, ms=9, zorder=0, label=diamonds)
    for (kind, count), points in sorted(lines.items()):
        if kind == "call per sentence" or (kind != "real" and count == 1):
            continue
        _draw_line(time_axes, trade_axes, kind, count, points)
    one = lines["real", 1]
    _by_zeta(
        time_axes,
        one,
        [row.relative_time_with_local for row in one],
        ls=":",
        color=COLOURS[1],
        label="1 real, local factors timed too",
    )
    time_axes.set(ylabel="time relative to exact on one core")
    time_axes.set_ylim(bottom=0)
    before = 0.0
    for row in one[::2]:  # a label stands where the curve does not come from
        right = row.relative_time >= before
        trade_axes.annotate(
            f"{row.zeta:g}",
            (row.relative_time, row.accuracy),
            (6 if right else -6, -8),
            textcoords="offset points",
            ha="left" if right else "right",
            fontsize=8,
            color=COLOURS[1],
        )
        before = row.relative_time
    trade_axes.set(xlabel="time relative to exact on one core", ylabel="max-marginal accuracy")
    trade_axes.set_xlim(left=0)
    for name, values in (
        ("share of full messages", [row.full_messages for row in one]),
        ("max-marginal error (1 − accuracy)", [1 - row.accuracy for row in one]),
        ("largest error of any tag, mean", [row.mean_largest_error for row in one]),
        ("share of tokens with another best tag", [1 - row.agreement for row in one]),
    ):
        # A value of exactly 0 has no place on a logarithmic axis and leaves a gap.
        positive = [value if value > 1e-12 else np.nan for value in values]
        _by_zeta(error_axes, one, positive, ls="-", marker="o", ms=4, label=name)
    error_axes.set(yscale="log", ylabel="share, or error against exact inference")
    for axes in (time_axes, trade_axes, error_axes):
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    named = {}  # both panels have the same lines, but for two
    for axes in (time_axes, trade_axes):
        named |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    figure.legend(
        named.values(), named.keys(), loc="outside lower left", ncols=5, frameon=False, fontsize=9,
        title="cores", alignment="left",
    )  # fmt: skip
    error_axes.legend(frameon=False, fontsize=9, loc="lower left")
    figure.suptitle(title)
    temporary = path.with_suffix(".tmp.png")
    figure.savefig(temporary, dpi=150)
    temporary.replace(path)


def _draw_line(
    time_axes: plt.Axes, trade_axes: plt.Axes, kind: str, count: int, points: list[Row]
) -> None:
    style = {"color": COLOURS[count], "marker": "o", "ms": 4, "ls": "-"}
    if kind == "virtual":
        style |= {"ls": "--", "mfc": "white"}
    elif kind == "messages":
        style |= {"ls": "-.", "marker": None, "alpha": 0.6}
    relative = [row.relative_time for row in points]
    _by_zeta(time_axes, points, relative, label=f"{count} {kind}", **style)
    accuracy = [row.accuracy for row in points]
    trade_axes.plot(relative, accuracy, label=f"{count} {kind}", **style)


def _by_zeta(axes: plt.Axes, points: list[Row], values: list[float], **style: object) -> None:
    """Plot against zeta, evenly spaced: what matters lies close to 1."""
    ticks = np.arange(len(points))
    axes.plot(ticks, values, **style)
    axes.set(xlabel="ζ")
    axes.set_xticks(ticks, [f"{row.zeta:g}" for row in points], fontsize=8)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_arguments(parser)
    parser.add_argument("--sentences", type=int, default=1000, help="how many at most")
    parser.add_argument("--output-dir", type=Path, default=Path("."))
    parser.add_argument("--allow-busy", action="store_true", help="run on a busy machine")
    options = parser.parse_args(arguments)
    tagging = load_chosen(options)
    require_quiet(options.allow_busy)
    options.output_dir.mkdir(parents=True, exist_ok=True)

    sizes = np.array([len(sentence) for sentence in tagging.sentences])
    sentences = [tagging.sentences[i] for i in select(sizes, options.sentences)]
    chain = tagging.model.chain(sentences)
    local_seconds = seconds_per_call(lambda: tagging.model.unary_batch(sentences), samples=3)
    costs = measure(chain.n_labels)
    rows = run(chain, local_seconds, costs)
    write_csv(rows, options.output_dir / "smm11_figure3.csv")
    title = (
        f"SMM11 figure 3: {tagging.name}, {chain.n_sequences} sentences of at least {SHORTEST} "
        f"tokens, {chain.n_labels} tags"
    )
    draw(rows, options.output_dir / "smm11_figure3.png", title)
    print(*describe(packages=("python-crfsuite",)), sep="\n")
    print(f"costs     {costs}")
    print(f"input     {title}; local factors {1e3 * local_seconds:.0f} ms")
    report(rows)
    return 0


def report(rows: list[Row]) -> None:
    """Print a line per zeta."""
    first = [row for row in rows if row.zeta == ZETAS[0]]
    print(f"{'':43}" + "".join(f"{row.kind.split()[0]:>9}" for row in first))
    print(
        f"{'zeta':>6} accuracy  agreement  islands  full   "
        + "".join(f"{row.cores:>9}" for row in first)
    )
    for zeta in ZETAS:
        same = [row for row in rows if row.zeta == zeta]
        row = same[0]
        print(
            f"{zeta:6g} {row.accuracy:8.4f}  {row.agreement:9.2%}  {row.islands:7.1%} "
            f"{row.full_messages:5.0%}   " + "".join(f"{one.relative_time:9.3f}" for one in same)
        )


if __name__ == "__main__":
    sys.exit(main())
