"""Results of a script as a CSV file."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any


def write_csv(rows: Sequence[Any], path: Path) -> None:
    """Write instances of one dataclass, a column per field; the file appears when it is whole."""
    temporary = path.with_suffix(".tmp.csv")
    with temporary.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(field.name for field in fields(rows[0]))
        writer.writerows(tuple(vars(row).values()) for row in rows)
    temporary.replace(path)
