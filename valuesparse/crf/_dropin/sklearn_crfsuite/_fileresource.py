"""The names of sklearn-crfsuite's files of models."""

from __future__ import annotations

from valuesparse.crf._fileresource import FileResource

__all__ = ["FileResource"]
