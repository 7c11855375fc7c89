"""Turn the JSON of a pytest-benchmark run of ``test_chain.py`` into Markdown tables.

    pytest benchmarks/test_chain.py --benchmark-json=run.json
    python benchmarks/summary.py run.json

One table per shape, dtype and number of threads: microseconds per position, the overhead of a rival
taken off, and in parentheses how many times ours is faster.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path


def tables(run: dict) -> dict[tuple[str, str, int], dict[str, dict[int, float]]]:
    """Return {(shape, dtype, threads): {rival: {labels: microseconds per position}}}."""
    found: dict = {}
    for case in run["benchmarks"]:
        params, extra = case.get("params") or {}, case["extra_info"]
        if "net_us_per_position" in extra:
            table = found.setdefault((params["shape"], params["dtype"], params["threads"]), {})
            row = table.setdefault(params["name"], {})
            row[params["n_labels"]] = extra["net_us_per_position"]
    return found


def markdown(table: dict[str, dict[int, float]]) -> list[str]:
    """Return the lines of one table, a rival a row and a number of labels a column."""
    labels = sorted({count for row in table.values() for count in row})
    ours = table.get("ours", {})
    lines = [
        "| µs per position, K = | " + " | ".join(map(str, labels)) + " |",
        "|---|" + "---:|" * len(labels),
    ]
    for name, row in table.items():
        cells = []
        for count in labels:
            cell = f"{row[count]:.3g}" if count in row else "–"
            if name != "ours" and count in row and count in ours:
                cell += f" ({row[count] / ours[count]:.1f}×)"
            cells.append(cell)
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="file written by --benchmark-json")
    options = parser.parse_args(arguments)
    run = json.loads(options.run.read_text())
    for (shape, dtype, threads), table in sorted(tables(run).items()):
        print(f"\n### {shape}, {dtype}, {threads} thread{'s' * (threads > 1)}\n")
        print(*markdown(table), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
