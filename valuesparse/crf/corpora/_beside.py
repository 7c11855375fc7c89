"""The file beside a model, which says how its data were read."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from valuesparse.corpora._files import digest_of, fingerprint
from valuesparse.crf._schemes import SCHEMES
from valuesparse.io._files import flush, replacing, write_bytes
from valuesparse.io._json import parse_json, read_json

__all__ = ["CONSTRAINTS", "beside", "constraints_of", "read_beside", "require_tied", "write_pair"]

# JSON can write what UTF-8 cannot.
_HALF = re.compile("[\ud800-\udfff]")
#: The file beside a model has its SHA-256 under this name.
_TIE = "model_sha256"
#: The tagging scheme that a model was trained under has this name.
CONSTRAINTS = "constraints"
#: Until a model is in place, the contents kept for the one that it replaces.
_BEFORE = "before"
# The largest file beside a model: two templates of 1 MiB fit, however JSON writes them.
_BESIDE = 16 << 20


def beside(model: Path) -> Path:
    """Return the path of the file beside a model."""
    return model.with_name(model.name + ".json")


def write_pair(model: Path, data: bytes, settings: dict[str, Any]) -> None:
    """Write a model, and beside it how its data were read; names and templates, never code.

    Both are on disk before either gets its name. The file beside the model comes first, and also
    holds what was kept of the model that it replaces: whatever is interrupted, the model that
    stands there can be used. When this raises, all is as it was.
    """
    path = beside(model)
    old = path.read_bytes() if path.is_file() else None
    kept = {**settings, _TIE: digest_of(data)}
    before = _kept_of(model)
    both = kept if before is None else {**kept, _BEFORE: _json(before)}
    text = (_json(both) + "\n").encode()
    try:
        with replacing(model) as last, replacing(path) as first:
            last.write(data)
            flush(last)
            first.write(text)
    except BaseException:
        with suppress(OSError):
            if path.is_file() and path.read_bytes() == text:  # it had its name already
                path.unlink() if old is None else write_bytes(path, old)
        raise
    if before is not None:
        with suppress(OSError):  # it only says more than is needed
            write_bytes(path, (_json(kept) + "\n").encode())


def _kept_of(model: Path) -> dict[str, Any] | None:
    """Return the file beside a model, with the model's SHA-256; None for no such pair."""
    try:
        digest = fingerprint(model) if model.is_file() else ""
        found = read_beside(model, digest)
    except (OSError, ValueError):
        return None
    return {_TIE: digest, **found} if digest and found.get(_TIE, digest) == digest else None


def _json(settings: dict[str, Any]) -> str:
    return json.dumps(settings, indent=2, ensure_ascii=False, sort_keys=True)


def require_tied(model: Path, kept: dict[str, Any], digest: str | None = None) -> None:
    """Refuse a file beside a model that belongs to another one; an empty one fits every model.

    Parameters
    ----------
    model : Path
        The model.
    kept : dict
        The contents of the file beside the model.
    digest : str, optional
        The SHA-256 of the model, where it is known.

    Raises
    ------
    ValueError
        It is of another model.
    """
    if not kept:
        return
    told = kept.get(_TIE)
    if told != (digest or fingerprint(model)):
        problem = "does not belong to" if told else "does not say that it belongs to"
        raise ValueError(
            f"{beside(model)} {problem} {model}: train again, or remove it and say with --features "
            "(features=) how words become attributes; where --word (word=) is said, too, it is "
            "not used"
        )


def read_beside(model: Path, digest: str | None = None) -> dict[str, Any]:
    """Return the contents of the file beside a model; an empty dict where there is none.

    Parameters
    ----------
    model : Path
        The model.
    digest : str, optional
        The SHA-256 of the model, where it is known.

    Raises
    ------
    ValueError
        It is not an object of JSON that holds texts.
    """
    path = beside(model)
    try:
        found = _texts(path, read_json(path, _BESIDE, regular=True))
    except FileNotFoundError:
        return {}
    before = found.pop(_BEFORE, None)
    if before is None or found.get(_TIE) == (digest := digest or fingerprint(model)):
        return found
    try:
        old = _texts(path, parse_json(before.encode()))
    except ValueError as error:
        problem = str(error).removeprefix(f"{path}: ")
        raise ValueError(f"{path}: {_BEFORE!r}: {problem}") from None
    # A training that was killed left the model that it was to replace.
    return old if old.get(_TIE) == digest else found


def constraints_of(model: Path, asked: str | None, digest: str) -> str | None:
    """Return the tagging scheme asked for, else the one that a model was trained under.

    Parameters
    ----------
    model : Path
        The model.
    asked : str or None
        A scheme, or "none" for no scheme at all; None: that of the file beside the model.
    digest : str
        The SHA-256 of the model. A file beside it that belongs to another model is not asked.

    Raises
    ------
    ValueError
        The file beside the model names no scheme.
    """
    if asked is not None:
        return None if asked == "none" else asked
    kept = read_beside(model, digest)
    found = kept.get(CONSTRAINTS) if kept.get(_TIE) == digest else None
    if found is not None and found not in SCHEMES:
        names = ", ".join(SCHEMES)
        raise ValueError(
            f"{beside(model)}: {CONSTRAINTS!r} must be one of {names}, not {found[:80]!r}"
        )
    return found


def _texts(path: Path, found: Any) -> dict[str, Any]:
    """Return an object of JSON, if it holds nothing but texts."""
    if not isinstance(found, dict):
        raise ValueError(f"{path} must hold an object, not {type(found).__name__}")
    for name, value in found.items():
        if not (value is None or isinstance(value, str)):
            raise ValueError(f"{path}: {name[:80]!r} must be text, not {type(value).__name__}")
        if value is not None and (half := _HALF.search(value)):
            raise ValueError(
                f"{path}: {name[:80]!r} holds {half[0]!r}, half of a character, which is no text"
            )
    return found
