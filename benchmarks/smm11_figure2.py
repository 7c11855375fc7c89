"""Figure 2 of SMM11: speed-up on chains of length 128 with 15 islands, from bunched to even.

The islands stand at ``round((1 - tau) * j + tau * ((j + 1) * 129 / 16 - 1))``, j = 0 ... 14: at
tau = 0 together at one end of the chain, which leaves one long segment and is the worst there is,
and at tau = 1 spread evenly. They are islands because their local factors are peaked; all other
potentials are random, and each run checks that no other variable became one.

The baseline of every speed-up is one core with the *same* islands: against exact inference the
cheap messages that leave islands would look like parallelism. The grey line is exact inference,
whose two passes are all it can run at once.

Left, as in the paper: virtual cores, a queue of messages, a full message costs 1 and one that
leaves an island 1 / K. Middle: virtual cores, the tasks that ``infer(..., threads=P)`` really runs
for P of them, recorded and measured one by one on this machine. Right: the real cores. The last two
have 31 labels: with 32 and more `infer` answers such chains exactly, since islands would not pay.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np
from _costs import ZETA, MessageCosts, measure, peaked_chain, virtual_seconds
from _machine import cores, describe, require_quiet
from _messages import message_plan
from _tables import write_csv

import valuesparse as vs
from valuesparse.schedule import simulate

mpl.use("Agg")
import matplotlib.pyplot as plt

LENGTH, ISLANDS, LABELS = 128, 15, 45
#: Labels of what `infer` runs: from 32 on it answers such chains exactly, since islands do not pay.
OURS = 31
VIRTUAL_CORES = range(1, 17)
TAUS = tuple(round(0.1 * step, 1) for step in range(11))
GREY = "0.45"


@dataclass(frozen=True)
class Row:
    """One point: `cores` of `kind`, mean and standard deviation over the repetitions."""

    kind: str
    tau: float | str
    cores: int
    seconds: float
    speedup: float
    deviation: float
    repetitions: int


def island_positions(tau: float) -> np.ndarray:
    """Return the positions of the islands, bunched at 0 and even at 1."""
    j = np.arange(ISLANDS)
    even = (j + 1) * (LENGTH + 1) / (ISLANDS + 1) - 1
    # Half up, not half to even: neighbours are at least 1 apart and must not round together.
    return np.floor((1 - tau) * j + tau * even + 0.5).astype(int)


def simulated(seed: int) -> list[Row]:
    """Return the speed-ups on virtual cores: of messages that cost 1, and of the tasks that run."""
    rng = np.random.default_rng(seed)
    rows = []
    for tau in (*TAUS, "exact"):
        exact = tau == "exact"
        positions = np.array([], dtype=int) if exact else island_positions(tau)
        mask = np.zeros(LENGTH, dtype=bool)
        mask[positions] = True
        messages = message_plan(mask, 1 / LABELS)
        chain = peaked_chain(LENGTH, positions, OURS, rng)
        one = virtual_seconds(chain, 1.0 if exact else ZETA, 1)
        for count in VIRTUAL_CORES:
            run = simulate(messages, count)
            rows.append(Row("unit", tau, count, run.makespan, run.speedup, 0.0, 1))
            seconds = virtual_seconds(chain, 1.0 if exact else ZETA, count)
            rows.append(Row("tasks", tau, count, seconds, one / seconds, 0.0, 1))
    return rows


def measured(repetitions: int, seed: int) -> list[Row]:
    """Return the speed-ups on real cores, each repetition with its own random potentials."""
    rng = np.random.default_rng(seed)
    counts = range(1, min(cores(), 16) + 1)
    rows = []
    for tau in (*TAUS, "exact"):
        positions = np.array([], dtype=int) if tau == "exact" else island_positions(tau)
        zeta = 1.0 if tau == "exact" else ZETA
        times = np.empty((repetitions, len(counts)))
        for repetition in range(repetitions):
            chain = peaked_chain(LENGTH, positions, OURS, rng)
            found = np.flatnonzero(vs.infer(chain, zeta=zeta, threads=1).islands >= 0)
            if not np.array_equal(found, positions):
                raise RuntimeError(f"tau = {tau}: islands at {found}, wanted at {positions}")
            times[repetition] = _alternate(chain, zeta, counts)
        for at, count in enumerate(counts):
            speedups = times[:, 0] / times[:, at]
            rows.append(
                Row(
                    "real",
                    tau,
                    count,
                    float(times[:, at].mean()),
                    float(speedups.mean()),
                    float(speedups.std()),
                    repetitions,
                )
            )
    return rows


def _alternate(chain: vs.Chain, zeta: float, counts: range, samples: int = 9) -> np.ndarray:
    """Return the median seconds of a call for each number of threads, taking turns."""
    times = np.empty((samples + 1, len(counts)))
    for sample in times:
        for at, count in enumerate(counts):
            began = time.perf_counter()
            vs.infer(chain, zeta=zeta, threads=count)
            sample[at] = time.perf_counter() - began
    # The first turn is the warm-up.
    return np.median(times[1:], axis=0)


def check(rows: list[Row]) -> bool:
    """Print the paper's claims and what came out; return whether the simulation agrees."""
    table = {(row.kind, row.tau, row.cores): row for row in rows}
    even = min(table["unit", 1.0, p].speedup / p for p in VIRTUAL_CORES)
    wins = [
        table["unit", 0.0, p].seconds <= table["unit", "exact", p].seconds for p in VIRTUAL_CORES
    ]
    # The two passes of the one long segment differ by one message: a full one against a cheap one.
    floor = 2 * (1 - 1 / (LENGTH - ISLANDS))
    bunched = min(table["unit", 0.0, p].speedup for p in VIRTUAL_CORES if p > 1)
    verdicts = [
        (
            even >= 0.85,
            f"tau = 1 is near-linear, queue of messages and unit costs: at least {even:.2f} P on "
            "every P <= 16",
        ),
        (all(wins), "tau = 0 never takes longer than exact two-pass inference on as many cores"),
        (
            bunched >= floor,
            f"tau = 0 speeds up by {bunched:.3f} or more from two cores on: the two passes of "
            "exact inference, to within one message",
        ),
    ]
    for holds, claim in verdicts:
        print("holds " if holds else "FAILS ", claim)
    for tau in (1.0, 0.0, "exact"):
        best = max((table["tasks", tau, p] for p in VIRTUAL_CORES), key=lambda row: row.speedup)
        name = tau if tau == "exact" else f"tau = {tau:g}"
        print(f"tasks  {name}: {best.speedup:.2f} on {best.cores} virtual cores, the best")
    most = max(row.cores for row in rows if row.kind == "real")
    for tau in (1.0, 0.0, "exact"):
        row = table["real", tau, most]
        name = tau if tau == "exact" else f"tau = {tau:g}"
        print(
            f"real   {name}: {row.speedup:.2f} on {most} of this machine's cores, "
            f"{1e6 * row.seconds:.0f} us"
        )
    return all(holds for holds, _ in verdicts)


def draw(rows: list[Row], path: Path, costs: MessageCosts) -> None:
    """Write the figure."""
    figure, (unit, tasks, real) = plt.subplots(
        1, 3, figsize=(13.5, 4.6), layout="constrained", width_ratios=(1, 1, 0.9)
    )
    shown = TAUS[::2]
    colours = dict(zip(shown, mpl.colormaps["viridis_r"](np.linspace(0.08, 1, 6)), strict=True))
    for axes, kind, title in (
        (unit, "unit", "virtual cores: queue of messages, unit costs"),
        (tasks, "tasks", "virtual cores: the tasks of infer, measured"),
    ):
        axes.plot((1, 16), (1, 16), ":", color=GREY, lw=1)
        axes.text(13.1, 14.0, "linear", color=GREY, rotation=40, ha="center", fontsize=9)
        _line(axes, rows, kind, "exact", color=GREY, lw=3, alpha=0.6, label="exact, two passes")
        for tau in reversed(shown):
            _line(axes, rows, kind, tau, color=colours[tau], marker="o", ms=3, label=f"τ = {tau:g}")
        axes.set(title=title, xlabel="cores")
        axes.set(xlim=(0.5, 16.5), ylim=(0, 16.5), xticks=(1, 2, 4, 6, 8, 10, 12, 14, 16))
        axes.legend(loc="upper left", frameon=False, fontsize=9)
    unit.set_ylabel("speed-up over one core with the same islands")
    _draw_real(real, rows, costs.call)
    figure.suptitle(
        f"SMM11 figure 2: chains of length {LENGTH}, {ISLANDS} islands, {LABELS} labels "
        f"({OURS} where `infer` runs)  "
        f"({1e9 * costs.full:.0f} ns a full message, {1e9 * costs.sparse:.0f} ns out of an island)"
    )
    for axes in (unit, tasks, real):
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    temporary = path.with_suffix(".tmp.png")
    figure.savefig(temporary, dpi=150)
    temporary.replace(path)


def _line(axes: plt.Axes, rows: list[Row], kind: str, tau: float | str, **style: object) -> None:
    points = [(row.cores, row.speedup) for row in rows if (row.kind, row.tau) == (kind, tau)]
    axes.plot(*zip(*points, strict=True), **style)


def _draw_real(axes: plt.Axes, rows: list[Row], call: float) -> None:
    most = max(row.cores for row in rows if row.kind == "real")
    points = [row for row in rows if row.kind == "real" and row.cores == most]
    exact = next(row for row in points if row.tau == "exact")
    points = [row for row in points if row.tau != "exact"]
    taus = [row.tau for row in points]
    virtual = {(row.tau, row.cores): row.seconds for row in rows if row.kind == "tasks"}
    model = [(call + virtual[tau, 1]) / (call + virtual[tau, most]) for tau in taus]
    axes.plot(
        taus, model, "--", color="tab:blue", label=f"{most} virtual cores, cost of a call included"
    )
    axes.errorbar(
        taus,
        [row.speedup for row in points],
        [row.deviation for row in points],
        fmt="o",
        color="tab:orange",
        capsize=2,
        label=f"{most} real cores, mean ± sd of {exact.repetitions}",
    )
    axes.axhline(exact.speedup, color=GREY, lw=3, alpha=0.6, label="exact, real cores")
    axes.set(title=f"this machine: {most} real cores", xlabel="τ (0 bunched, 1 even)")
    axes.set_ylim(0, most * 1.25)
    axes.legend(loc="lower left", frameon=False, fontsize=9)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output-dir", type=Path, default=Path("."))
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--allow-busy", action="store_true", help="run on a busy machine")
    options = parser.parse_args(arguments)
    require_quiet(options.allow_busy)
    options.output_dir.mkdir(parents=True, exist_ok=True)

    print(*describe(packages=()), sep="\n")
    costs = measure(LABELS, seed=options.seed)
    print(f"costs     {costs}")
    rows = simulated(options.seed) + measured(options.repetitions, options.seed)
    write_csv(rows, options.output_dir / "smm11_figure2.csv")
    draw(rows, options.output_dir / "smm11_figure2.png", costs)
    holds = check(rows)
    print("wrote", *(options.output_dir / f"smm11_figure2.{end}" for end in ("png", "csv")))
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
