"""Without PyTorch, the layer says what to install."""

from __future__ import annotations

import children

CODE = """
import sys
sys.modules["torch"] = None  # as if it were not installed
try:
    import valuesparse.torch
except ImportError as error:
    print(type(error).__name__, error)
"""


def test_the_extra_is_named() -> None:
    out = children.run(CODE).stdout
    assert out.startswith("MissingExtraError torch not found.")
    assert 'pip install "valuesparse[torch]"' in out
