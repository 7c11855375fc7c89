"""Readers of other programs' files.

Files are untrusted input: every count, offset and number in them is checked before it is used, and
what is wrong with a file is said in a :class:`ModelFormatError`.

================================ ==========================================================
``read_crfsuite``                CRFsuite's binary models -> :class:`CrfsuiteModel`
``errors``                       :class:`ModelFormatError`
``_crfsuite_format``             the bytes: header, chunks, name tables, references, features
``_attributes``                  python-crfsuite's item formats -> attribute numbers
================================ ==========================================================
"""

from __future__ import annotations

from valuesparse.io.crfsuite import CrfsuiteModel, read_crfsuite
from valuesparse.io.errors import ModelFormatError

__all__ = ["CrfsuiteModel", "ModelFormatError", "read_crfsuite"]
