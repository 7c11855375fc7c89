"""Files of the UAI competitions that hold one sample or several, and may say how many.

Some years' files begin with the number of samples and others do not say; nothing else in them
tells. Both readings are tried, and a file that allows both is decided by its lines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from valuesparse._validation import as_count
from valuesparse.io._text import Tokens

__all__ = ["choose", "find_samples"]

T = TypeVar("T")

#: Returns how many numbers the sample takes that begins at an index, or None if it cannot be one.
Measure = Callable[[int], "int | None"]


def find_samples(tokens: Tokens, measure: Measure) -> list[tuple[int, int]] | None:
    """Return where each sample begins and ends among the numbers, or None if nothing fits.

    A file that can be read both ways is taken to begin with the number of samples if that and
    each sample stand on lines of their own. A lone 0 is a sample: no file holds none.
    """
    values = tokens.values
    if tokens.first + len(values) < len(tokens):
        return None
    single = _fill(len(values), 0, 1, measure)
    count = float(values[0])
    several = _fill(len(values), 1, int(count), measure) if 1 <= count <= len(values) else None
    if several is not None and int(count) != count:
        several = None
    if single is None or several is None:
        return several if single is None else single
    lines = tokens.lines_of(tokens.first, len(tokens))
    apart = all(lines[a] > lines[a - 1] and lines[a] == lines[b - 1] for a, b in several)
    return several if apart else single


def _fill(size: int, begin: int, count: int, measure: Measure) -> list[tuple[int, int]] | None:
    found: list[tuple[int, int]] = []
    while begin < size and len(found) < count:
        length = measure(begin)
        if length is None or begin + length > size:
            return None
        found.append((begin, begin + length))
        begin += length
    return found if begin == size and len(found) == count else None


def choose(samples: Sequence[T], sample: int | None, what: str) -> T:
    """Return the sample that was asked for, or the only one."""
    if sample is None and len(samples) == 1:
        return samples[0]
    if sample is None:
        raise ValueError(
            f"the {what} holds {len(samples)} samples: choose one with sample=0 to "
            f"{len(samples) - 1}"
        )
    if as_count("sample", sample, at_least=0) >= len(samples):
        number = f"{len(samples)} sample" + ("" if len(samples) == 1 else "s")
        raise ValueError(f"sample is {sample!r}, but the {what} holds {number}, counted from 0")
    return samples[sample]
