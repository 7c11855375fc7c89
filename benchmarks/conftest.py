"""Let the benchmarks import each other, whatever import mode pytest runs in."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

# Scripts and rivals are imported by what needs them, not collected.
collect_ignore_glob = ["[!t]*.py", "rivals/*"]
