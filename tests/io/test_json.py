"""Small JSON files: what is read, and what is refused in one line that names the file."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

import pytest
from checks import in_small_stack
from hypothesis import given
from hypothesis import strategies as st

from valuesparse.io._json import _LEVELS, parse_json, read_json

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**18), 10**18)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda some: st.lists(some, max_size=4) | st.dictionaries(st.text(), some, max_size=4),
)


@given(JSON)
def test_what_python_writes_is_read(value: object) -> None:
    assert parse_json(json.dumps(value).encode()) == value
    assert parse_json(json.dumps(value, ensure_ascii=False, indent=1).encode("utf-8-sig")) == value


@given(st.binary(max_size=60) | st.text('[]{}",:\\u0eE+-1n ', max_size=60).map(str.encode))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        parse_json(data)


BAD = {
    "deep list": (b"[" * 1_000_000, "nested more than 64 deep"),
    "deep object": (b'{"a":' * 100 + b"1" + b"}" * 100, "nested more than 64 deep"),
    "after brackets in a text": (b'["\\"[[[' + b"[" * 99 + b'", ' + b"[" * 64, "nested more than"),
    "NaN": (b'{"a": NaN}', "NaN is no number there"),
    "infinity": (b"[-Infinity]", "-Infinity is no number there"),
    "overflow": (b"[1e999]", "1e999 is too large a number"),
    "long integer": (b"[" + b"9" * 1_000_000 + b"]", "99999... has too many digits"),
    "twice": (b'{"a": {"b": 1, "b": 2}}', "'b' stands there twice"),
    "not UTF-8": (b'{"a": "\xff"}', "not UTF-8 at byte 7"),
    "UTF-16": ('{"a": 1}'.encode("utf-16"), "not UTF-8 at byte 0"),
    "empty": (b"", "this is not JSON: Expecting value"),
    "cut short": (b'{"a": "b', "this is not JSON: Unterminated string"),
    "two of them": (b"{} {}", "this is not JSON: Extra data"),
    "large": (b'"' + b"a" * 2_000_000 + b'"', "larger than 1000000 bytes"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_refused(name: str, tmp_path: Path) -> None:
    data, message = BAD[name]
    path = tmp_path / "a.json"
    path.write_bytes(data)
    limit = 1_000_000 if name == "large" else 1 << 26
    with pytest.raises(ValueError, match=message) as info:
        read_json(path, limit)
    assert str(info.value).startswith(f"{path}: ")
    assert "\n" not in str(info.value)
    assert len(str(info.value)) < len(str(path)) + 200


def test_depth_costs_no_stack() -> None:
    """Python's parser overflows the stack of a thread that has little; depth 64 does not."""
    found: list[object] = []

    def parse() -> None:
        found.append(parse_json(b"[" * 64 + b"]" * 64))
        try:
            parse_json(b'{"a":' * 100_000)
        except ValueError as error:
            found.append(str(error))

    in_small_stack(parse)
    assert len(found) == 2


@pytest.mark.parametrize("text", ['"' + '\\"' * 500_000, '"\\', '{"a\\', "[" + '"a",' * 300_000])
def test_what_does_not_end_is_read_once(text: str) -> None:
    # Were a text without an end no match, the search for one would begin again at each quote.
    some = text[:2001]
    assert [match.end() for match in _LEVELS.finditer(some)][-1] >= len(some) - 3
    with pytest.raises(ValueError, match="not JSON"):
        parse_json(text.encode())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="makes a named pipe, which Windows lacks")
def test_a_pipe_that_nobody_writes_to_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.json")
    with pytest.raises(ValueError, match="not a regular file"):
        read_json(tmp_path / "a.json", regular=True)
