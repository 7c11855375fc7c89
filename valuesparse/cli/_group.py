"""The click group that every command of valuesparse belongs to."""

from __future__ import annotations

from _valuesparse import COMMANDS, group

__all__ = ["COMMANDS", "valuesparse"]

valuesparse = group()
