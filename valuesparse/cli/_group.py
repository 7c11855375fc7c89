"""The click group that every command of valuesparse belongs to, and the type of commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from _valuesparse import COMMANDS, group

__all__ = ["COMMANDS", "Command", "valuesparse"]

#: A decorator with options takes this, and returns it.
Command = TypeVar("Command", bound=Callable[..., Any])

valuesparse = group()
