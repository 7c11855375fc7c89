"""The names of sklearn-crfsuite's trainer."""

from __future__ import annotations

from valuesparse.crf._lines import LinePerIterationTrainer

__all__ = ["LinePerIterationTrainer"]
