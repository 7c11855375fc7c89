"""Templates of Wapiti: the patterns of its macros, held against a matcher of a few lines."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from valuesparse.crf.corpora._templates import compile_template

CLASSES = {
    "a": string.ascii_letters, "d": string.digits, "l": string.ascii_lowercase,
    "p": string.punctuation, "s": string.whitespace, "u": string.ascii_uppercase,
    "w": string.ascii_letters + string.digits,
}  # fmt: skip
WORDS = ["Rome", "USA", "U.S.", "...", "x-y", "1984", "a1", "Éa", "C++", "(", "?", "", "a b"]


def made(line: str, word: str) -> str:
    [[found]] = compile_template(line)([[word, "X"]])
    return found.partition("=")[2]


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (r"\u", ["Rome", "USA", "U.S.", "C++"]),
        (r"^\u*$", ["USA", ""]),
        (r"^\u", ["Rome", "USA", "U.S.", "C++"]),
        (r"\p", ["U.S.", "...", "x-y", "C++", "(", "?"]),
        (r"^\p*$", ["...", "(", "?", ""]),
        (r".\p.", ["U.S.", "...", "x-y", "C++"]),
        (r"\d", ["1984", "a1"]),
        (r"^\d*$", ["1984", ""]),
        (r"^\d\d\d\d$", ["1984"]),
        (r"^\w*$", ["Rome", "USA", "1984", "a1", ""]),
        (r"\s", ["a b"]),
        (r"^\A*$", ["...", "1984", "(", "?", ""]),
        (r"^\U\l*$", ["Éa", "(", "?"]),
        (r"^\L\D*$", ["Rome", "USA", "U.S.", "...", "Éa", "C++", "(", "?"]),
        (r"^\l\L\w$", ["x-y", "a b"]),
        (r"^Ro?m?x?e$", ["Rome"]),
        (r"^Rox*me*$", ["Rome"]),
        ("(", ["("]),
        ("\\?", ["?"]),
        (r"\+\+$", ["C++"]),
        ("^.$", ["(", "?"]),
    ],
)
def test_the_usual_lines(pattern: str, words: list[str]) -> None:
    line = f'U:Caps? X=%t[ 0,0,"{pattern}"]'
    assert [word for word in WORDS if made(line, word) == "true"] == words
    for word in WORDS:
        assert made(line.replace("%t", "%T"), word) == made(line, word)


@pytest.mark.parametrize(
    ("pattern", "word", "found"),
    [
        ("^.?.?.?.?", "Romeo", "Rome"),
        ("^.?.?.?.?", "Ro", "Ro"),
        (r".?.?$", "Rome", "me"),
        (r"\d\d*$", "a1984", "1984"),
        (r"\u*", "USA", ""),  # as few as it can
        (r"^\u*\l", "USAx", "USAx"),
        (r"-\l*-", "x-y-z-", "-y-"),
        (r"a\"b", 'xa"b', 'a"b'),
        (r"\\", "a\\b", "\\"),
        (r"\$", "5$", "$"),
        ("$5", "a$5", "$5"),
        ("a^b", "a^b", "a^b"),
        (r"\u", "rome", ""),
    ],
)
def test_what_matches(pattern: str, word: str, found: str) -> None:
    assert made(f'U:X=%m[0,0,"{pattern}"]', word) == found
    assert made(f'U:X=%M[0,0,"{pattern}"]', word) == found.lower()


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("[A-Z]", "'[A-Z]' has no meaning of its own in Wapiti's patterns"),
        ("^(Mr|Mrs)$", "'(Mr|Mrs)' has no meaning"),
        ("((x)y)", "'(x)' has no meaning"),
        (r"\d+", r"'d+' has no meaning"),
        ("a|b", "'a|b' has no meaning"),
        ("a{2,3}", "'{2,3}' has no meaning"),
        ("*", "'*' at 1 of '*' has nothing before it"),
        ("^?", "'?' at 2 of '^?' has nothing before it"),
        ("a**", "'*' at 3 of 'a**' has nothing before it"),
        (".*?", "'?' at 3 of '.*?' has nothing before it"),
        (r"\b", r"there is no class '\\b'; there are \a \d \l \p \s \u \w, and capitals"),
        (r"\1", r"there is no class '\\1'"),
    ],
)
def test_what_wapiti_does_not_have_is_refused(pattern: str, problem: str) -> None:
    line = f'U:%t[0,0,"{pattern}"]'
    said = re.escape(f"template, line 2: {line[2:]!r}: {problem}")
    with pytest.raises(ValueError, match=said):
        compile_template(f"U:%x[0,0]\n{line}")


def ends(items: list[tuple[str, str]], text: str, at: int) -> Iterator[int]:
    """Yield where a match that begins at a place may end, in the order of Wapiti's search."""
    if not items:
        yield at
        return
    (item, repeat), rest = items[0], items[1:]
    if item == "$" and not repeat and not rest:
        if at == len(text):
            yield at
        return
    fits = at < len(text) and one(item, text[at])
    if repeat == "*":
        yield from ends(rest, text, at)
        if fits:
            yield from ends(items, text, at + 1)
        return
    if fits:
        yield from ends(rest, text, at + 1)
    if repeat == "?":
        yield from ends(rest, text, at)


def one(item: str, letter: str) -> bool:
    if item == ".":
        return True
    if len(item) == 2 and item[1].lower() in CLASSES:
        return (letter in CLASSES[item[1].lower()]) is item[1].islower()
    return letter == item[-1]


ITEMS = st.tuples(
    st.sampled_from([*".aB1-^$(", *(f"\\{c}" for c in "adlpsuwADLPSUW*?.\\$^+[")]),
    st.sampled_from(["", "", "*", "?"]),
)


@given(st.booleans(), st.lists(ITEMS, max_size=5), st.text("aB1- ^$([+?*.\\É\n", max_size=6))
@example(False, [("^", ""), ("a", "")], "a")
def test_matches_are_those_of_a_plain_search(
    begins: bool, items: list[tuple[str, str]], text: str
) -> None:
    pattern = "^" * begins + "".join(map("".join, items))
    if not begins and items[:1] and items[0][0] == "^":  # it is the beginning, and nothing else
        if items[0][1]:
            return
        begins, items = True, items[1:]
    starts = [0] if begins else range(len(text) + 1)
    found = [text[at:end] for at in starts for end in [*ends(items, text, at)][:1]]
    assert made(f'U=%t[0,0,"{pattern}"]', text) == ("true" if found else "false")
    assert made(f'U=%m[0,0,"{pattern}"]', text) == (found[0] if found else "")
