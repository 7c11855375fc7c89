"""Models hold arrays and never compute."""

from valuesparse.models.chain import Chain

__all__ = ["Chain"]
