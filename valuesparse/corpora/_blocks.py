"""Sentences of line files: the lines between blank ones, and how many are read together."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from valuesparse.corpora._text import Line
from valuesparse.io.errors import TextFormatError

__all__ = ["BATCH", "BATCH_TOKENS", "LONGEST", "batches", "blocks"]

#: The most lines (of Parquet: words) of a sentence: all that is made of it is in memory together.
LONGEST = 16_000
#: The most sentences, tokens and bytes that are read and worked on together, unless one sentence
#: has more: enough for the threads, little memory.
BATCH = 256
BATCH_TOKENS = 1 << 13
BATCH_BYTES = 1 << 20

Block = TypeVar("Block")


def blocks(
    lines: Iterable[Line], largest: int, blank: str = ""
) -> Iterator[tuple[list[str], Sequence[int]]]:
    """Yield the lines of each sentence, and where they begin; the last may want its blank line.

    Parameters
    ----------
    lines : iterable of Line
        The lines.
    largest : int
        The most bytes that a sentence may have.
    blank : str
        Characters of which a line may have any number and is blank still.

    Raises
    ------
    TextFormatError
        A sentence has more than 16,000 lines, or too much text.

    Examples
    --------
    >>> [found for found, _ in blocks([Line(0, "a"), Line(2, ""), Line(3, "b")], 10)]
    [['a'], ['b']]
    """
    held: list[str] = []
    # Beside their text nothing is kept of lines before their sentence is known to end.
    offsets = array("q")
    for line in lines:
        if line.text.strip(blank):
            held.append(line.text)
            offsets.append(line.offset)
            size = line.offset + len(line.text) - offsets[0]  # characters of the last one
            if len(held) > LONGEST or size > largest:
                raise _endless(line, largest if size > largest else None)
        elif held:
            yield held, offsets
            held, offsets = [], array("q")
    if held:
        yield held, offsets


def _endless(line: Line, largest: int | None) -> TextFormatError:
    """Return the error of a sentence that is too long, or larger than is allowed, at a line."""
    what = f"{LONGEST:,} lines" if largest is None else f"{largest >> 20} MiB of text"
    problem = (
        f"a sentence of more than {what}; a blank line must end each sentence, and what is "
        "longer must be cut"
    )
    return TextFormatError("sentence", line.offset, problem, 0, line.text[:40])


def batches(
    found: Iterable[Block], measure: Callable[[Block], tuple[int, int]]
) -> Iterator[list[Block]]:
    """Yield sentences that are worked on together; `measure` tells the tokens and bytes of one."""
    batch: list[Block] = []
    tokens = size = 0
    for block in found:
        more, longer = measure(block)
        tokens, size = tokens + more, size + longer
        if batch and (len(batch) >= BATCH or tokens > BATCH_TOKENS or size > BATCH_BYTES):
            yield batch
            batch, tokens, size = [], more, longer
        batch.append(block)
    if batch:
        yield batch
