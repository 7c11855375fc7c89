"""``python -m valuesparse``: the command line."""

from valuesparse.cli import main

main()
