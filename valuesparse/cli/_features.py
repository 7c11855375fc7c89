"""Attributes of the words of a sentence: the names by which the demo and its models know them."""

from __future__ import annotations

from valuesparse.crf._words import cantonese_attributes, context_attributes, shape

__all__ = ["cantonese_attributes", "context_attributes", "shape"]
