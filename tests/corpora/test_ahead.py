"""Items made one ahead: their order, their errors, and nothing that is left running."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from valuesparse.corpora._ahead import ahead


def test_the_next_item_is_made_meanwhile() -> None:
    made = [threading.Event() for _ in range(5)]

    def items() -> Iterator[int]:
        for i, event in enumerate(made):
            event.set()
            yield i

    seen = []
    for i in ahead(items()):
        assert all(event.wait(10) for event in made[: i + 2])
        assert not any(event.is_set() for event in made[i + 2 :])  # one ahead, no more
        seen.append(i)
    assert seen == [0, 1, 2, 3, 4]


def test_an_error_comes_in_its_place() -> None:
    def items() -> Iterator[int]:
        yield 1
        yield 2
        raise ValueError("third")

    found = ahead(items())
    assert [next(found), next(found)] == [1, 2]
    with pytest.raises(ValueError, match="third"):
        next(found)
    assert list(ahead([])) == []


def test_who_leaves_leaves_no_thread() -> None:
    before = threading.active_count()
    found = ahead(iter(range(10)))
    assert next(found) == 0
    found.close()
    assert threading.active_count() == before
