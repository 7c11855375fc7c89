"""The names of python-crfsuite's parser of model dumps."""

from __future__ import annotations

from valuesparse.crf._dump import CRFsuiteDumpParser, ParsedDump

__all__ = ["CRFsuiteDumpParser", "ParsedDump"]
