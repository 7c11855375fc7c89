"""The ``valuesparse`` command; outside of the package, because that may refuse to be imported."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command; the process exits with its status, 2 where a setting is refused."""
    try:
        from valuesparse.cli import main as run
    except ImportError as error:
        if not (error.name or "").startswith("VALUESPARSE_"):
            raise
        sys.stderr.write(f"valuesparse: {error}\n")
        sys.exit(2)
    run()
