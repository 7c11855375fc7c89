"""Attributes to numbers, against dictionaries of Python."""

from __future__ import annotations

import doctest
import pickle
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from checks import in_eight_threads, in_small_stack
from children import run
from hypothesis import example, given, settings
from hypothesis import strategies as st

from valuesparse._crf import Dictionary, ItemSequence

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=24)
XSEQS = st.lists(st.lists(st.lists(NAMES, max_size=5), max_size=4), max_size=4)


def encode(xseqs: Iterable[Any], known: dict[str, int], grow: bool) -> list[list[Any]]:
    """Number lists of names with a dict; a name ends at its first NUL."""
    indptr, ids, lengths = [0], [], []
    for xseq in xseqs:
        lengths.append(len(xseq))
        for item in xseq:
            for name in item:
                name = name.partition("\0")[0]
                if grow:
                    known.setdefault(name, len(known))
                if name in known:
                    ids.append(known[name])
            indptr.append(len(ids))
    return [indptr, ids, [1.0] * len(ids), lengths]


@settings(max_examples=200)
@given(XSEQS, XSEQS)
@example([[["a\0b", "a", "\0", ""]]], [[["a\0c", "é\0"]]])
def test_like_a_dict(first: list[Any], second: list[Any]) -> None:
    ours, known = Dictionary(), {}
    for xseqs, grow in ((first, True), (second, False), (second, True), (first, False)):
        got = ours.encode(xseqs, grow)
        assert [part.tolist() for part in got] == encode(xseqs, known, grow)
        assert ours.names() == list(known)
        assert len(ours) == len(known)
    assert [part.dtype.name for part in got] == ["int64", "int32", "float64", "int64"]
    for name, i in known.items():
        assert ours.find(name) == ours.find(name.encode()) == i
    again = pickle.loads(pickle.dumps(ours))
    assert again.names() == ours.names()


def test_many_names_of_every_length() -> None:
    # Past several sizes of the table and several blocks of a long batch.
    rng = np.random.default_rng(0)
    names = ["".join(map(chr, rng.integers(33, 600, n % 40))) for n in range(60_000)]
    xseqs = [[names[i : i + 20]] for i in range(0, len(names), 20)] * 2
    ours, known = Dictionary(), {}
    got = ours.encode(iter(xseqs), grow=True)
    assert [part.tolist() for part in got] == encode(xseqs, known, True)
    assert ours.names() == list(known)
    assert Dictionary(known).encode(xseqs)[1].tolist() == got[1].tolist()
    assert ours.find("not there") == -1


@pytest.mark.parametrize("length", range(1, 40))
def test_names_that_differ_in_one_byte(length: int) -> None:
    base = "x" * length
    names = [base, *(base[:i] + "y" + base[i + 1 :] for i in range(length)), base + "x"]
    ours = Dictionary(names)
    assert [ours.find(name) for name in names] == list(range(len(names)))
    assert ours.find(base[:-1] + "z") == -1


def test_one_sequence() -> None:
    ours = Dictionary()
    indptr, ids, values, lengths = ours.encode([["a"], {"b": 0.5, "a": True}], True, single=True)
    assert (indptr.tolist(), ids.tolist()) == ([0, 1, 3], [0, 1, 0])
    assert (values.tolist(), lengths.tolist()) == ([1.0, 0.5, 1.0], [2])
    with pytest.raises(TypeError, match=r"^xseq\[1\]: an item must be"):
        ours.encode([["a"], 5], single=True)


def test_a_failure_leaves_no_names() -> None:
    ours = Dictionary(["a"])
    long = [[[f"n{i}"] for i in range(70_000)]]
    for bad in ([["new", 3]], [{"new": float("nan")}], [["new"], None]):
        with pytest.raises((TypeError, ValueError), match=r"xseqs\[1\]\["):
            ours.encode([*long, bad], grow=True)
        assert ours.names() == ["a"]
        assert ours.find("n5") == -1
    assert ours.encode([[["b"]]], grow=True)[1].tolist() == [1]


def test_repeats_are_refused() -> None:
    with pytest.raises(ValueError, match=r"names\[2\] is 'a' again"):
        Dictionary(["a", "b", "a"])
    with pytest.raises(TypeError, match="must be str"):
        Dictionary(["a", 3])  # type: ignore[list-item]


def test_surrogates_are_no_text() -> None:
    with pytest.raises(UnicodeEncodeError, match=r"xseqs\[0\]\[1\]: surrogates"):
        Dictionary().encode([[["a"], ["é\ud800"]]])


def test_strings_as_items() -> None:
    ours = Dictionary(["a", "b"])
    for xseq in (["ab", "b"], [{"a": 1}.keys(), {"b": 2.0}.keys()]):
        assert ours.encode([xseq], characters=True)[1].tolist()[-1] == 1
    assert ours.encode("ab", characters=True, single=True)[1].tolist() == [0, 1]
    with pytest.raises(TypeError, match="not str"):
        ours.encode([["ab"]])
    for bad in ([b"ab"], [7], [iter("ab")]):
        with pytest.raises(TypeError, match=r"xseqs\[0\]\[0\]: an item must be"):
            ours.encode([bad], characters=True)


def test_endless_nesting() -> None:
    item: dict[str, Any] = {}
    item["a"] = item
    with pytest.raises(RecursionError):
        Dictionary().encode([[item]])
    deep: dict[str, Any] = {"x": 1.0}
    for _ in range(200):
        deep = {"a": deep}
    ours = Dictionary()
    ours.encode([[deep, {"b": deep, "c": 1.0}]], grow=True)
    assert ours.names() == ["a:" * 200 + "x", "b:" + "a:" * 200 + "x", "c"]


def test_nesting_where_the_stack_is_small() -> None:
    deep: dict[str, Any] = {"x": 1.0}
    for _ in range(100_000):
        deep = {"a": deep}
    found: list[BaseException] = []

    def read() -> None:
        try:
            ItemSequence([{}, deep])
        except RecursionError as error:
            found.append(error)

    in_small_stack(read)
    assert str(found[0]) == "xseq[1]: attributes are nested more than 256 deep; flatten the item"


class Nosy:
    """A number that encodes something while it is read."""

    def __init__(self, dictionary: Dictionary) -> None:
        self.dictionary = dictionary

    def __float__(self) -> float:
        self.dictionary.encode([[["inner"]]], grow=True)
        return 0.5


def test_calls_within_a_call() -> None:
    ours = Dictionary()
    _, ids, values, _ = ours.encode([[{"a": Nosy(ours), "b": 1.0}]], grow=True)
    assert ours.names() == ["inner", "a", "b"]
    assert (ids.tolist(), values.tolist()) == ([1, 2], [0.5, 1.0])


def test_threads_share_a_growing_dictionary() -> None:
    ours = Dictionary()
    xseqs = [[[f"n{(i * j) % 997}" for i in range(20)]] for j in range(400)]
    answers: list[Any] = [None] * 8

    def work(t: int) -> None:
        answers[t] = [ours.encode([xseq], grow=True) for xseq in xseqs[t::2]]

    in_eight_threads(work)
    names = ours.names()
    assert sorted(names) == sorted({name for xseq in xseqs for name in xseq[0]})
    for t, answer in enumerate(answers):
        for xseq, (_, ids, _, _) in zip(xseqs[t::2], answer, strict=True):
            assert [names[i] for i in ids] == xseq[0]


def test_item_sequences() -> None:
    xseq = [["a", "b", "a"], {"n": {"x": 2.0, "y": ["p"]}}, []]
    items = ItemSequence(xseq)
    assert repr(items) == "<ItemSequence of size 3>"
    assert items.items() == [{"a": 1.0, "b": 1.0}, {"n:x": 2.0, "n:y:p": 1.0}, {}]
    ours = Dictionary()
    expected = [part.tolist() for part in ours.encode([xseq, xseq], grow=True)]
    for same in (items, pickle.loads(pickle.dumps(items))):
        assert [part.tolist() for part in ours.encode([same, xseq])] == expected
        assert [part.tolist() for part in ours.encode([xseq, same])] == expected
    with pytest.raises(TypeError, match=r"xseq\[1\]: an item"):
        items.__init__([["new"], 3])  # type: ignore[misc]
    assert items.items()[0] == {"a": 1.0, "b": 1.0}


@pytest.mark.parametrize("kind", [Dictionary, ItemSequence])
def test_examples(kind: type) -> None:
    # pytest collects no docstrings of extension modules.
    for test in doctest.DocTestFinder().find(kind, globs={kind.__name__: kind}):
        assert doctest.DocTestRunner().run(test).failed == 0
    assert ">>>" in (kind.__doc__ or "")


MANY_THREADS = """
import threading, time
import numpy as np
from valuesparse._crf import Dictionary
d = Dictionary()
stop, failures = threading.Event(), []
def attempt(work):
    def run():
        try:
            work()
        except BaseException as error:
            failures.append(repr(error))
    return threading.Thread(target=run)
def write(seed):
    rng = np.random.default_rng(seed)
    mine = {}
    while not stop.is_set():
        names = [f"{x:x}" for x in rng.integers(0, 1 << 20, 300)]
        ids = d.encode([[names]], grow=True)[1].tolist()
        for name, i in zip(names, ids):
            assert mine.setdefault(name, i) == i
    known = d.names()
    assert all(known[i] == name for name, i in mine.items())
def broken():
    while not stop.is_set():
        try:
            d.encode([[["new" + str(time.perf_counter_ns())], [3]]], grow=True)
        except TypeError:
            pass
def read():
    before = []
    while not stop.is_set():
        n = len(d)
        names = d.names()
        assert len(names) == len(set(names))
        assert all(0 <= i < len(d) for i in d.encode([[names[:50]]])[1])
        assert d.find(names[0]) == 0 if names else n == 0
threads = [attempt(lambda s=s: write(s)) for s in range(3)]
threads += [attempt(read), attempt(read), attempt(broken)]
[t.start() for t in threads]
time.sleep(1.0)
stop.set()
[t.join() for t in threads]
assert not failures, failures
names = d.names()
assert len(names) == len(set(names)) == len(d)
assert not any(name.startswith("new") for name in names)
print("fine")
"""


def test_threads_that_read_and_write() -> None:
    done = run(MANY_THREADS)
    assert (done.returncode, done.stdout.strip()) == (0, "fine"), done.stderr


def test_what_fails_forgets_its_own_names_only() -> None:
    d = Dictionary()

    def xseqs() -> Iterable[Any]:
        theirs.append(d.encode([[["theirs", "too"]]], grow=True)[1].tolist())
        yield [[f"a{i}" for i in range(70_000)]]  # more than is held back
        yield [[f"b{i}" for i in range(70_000)]]
        yield [[3]]

    theirs: list[list[int]] = []
    with pytest.raises(TypeError):
        d.encode(xseqs(), grow=True)
    assert theirs == [[0, 1]]
    assert d.names() == ["theirs", "too"]
    assert d.find("a7") == d.find("b7") == -1
    assert d.encode([[["a7", "too"]]], grow=True)[1].tolist() == [2, 1]
