"""Readers and writers of other programs' files, and conversions of their models.

Files are untrusted input: every count, offset and number in them is checked before it is used, and
a :class:`ModelFormatError` tells what is wrong with a file, with the byte or the line.

================================ ==========================================================
``read_uai``, ``write_uai``      the UAI competitions' models (``uai``)
``read_uai_evidence``            and their evidence; ``write_uai_evidence``
``read_uai_result``              and their answers (``uai_result``); ``write_uai_result``
``read_fg``, ``write_fg``        libDAI's factor graphs (``fg``)
``read_bif``, ``write_bif``      Bayesian networks (``bif``, ``_bif_writer``)
``from_pgmpy``, ``to_pgmpy``     models of pgmpy (``_pgmpy``)
``from_pyagrum``                 models of pyAgrum (``_pyagrum``)
``read_crfsuite``                CRFsuite's binary models -> :class:`CrfsuiteModel`
``errors``                       :class:`ModelFormatError`, :class:`TextFormatError`
``_files``                       bounded reading, gzip, writing under a temporary name
``_text``                        one tokenizer for all formats of words and numbers
``_tables``                      numbers to log-tables and back
``_crfsuite_format``             the bytes: header, chunks, name tables, references, features
``_corpora``                     the lines of CRFsuite's attribute files
================================ ==========================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from valuesparse.io._bif_writer import write_bif
from valuesparse.io._pgmpy import from_pgmpy, to_pgmpy
from valuesparse.io._pyagrum import from_pyagrum
from valuesparse.io.bif import read_bif
from valuesparse.io.errors import ModelFormatError, TextFormatError
from valuesparse.io.fg import read_fg, write_fg
from valuesparse.io.uai import read_uai, read_uai_evidence, write_uai, write_uai_evidence
from valuesparse.io.uai_result import UaiResult, read_uai_result, write_uai_result

if TYPE_CHECKING:
    from valuesparse.io.crfsuite import CrfsuiteModel, read_crfsuite

__all__ = [
    "CrfsuiteModel",
    "ModelFormatError",
    "TextFormatError",
    "UaiResult",
    "from_pgmpy",
    "from_pyagrum",
    "read_bif",
    "read_crfsuite",
    "read_fg",
    "read_uai",
    "read_uai_evidence",
    "read_uai_result",
    "to_pgmpy",
    "write_bif",
    "write_fg",
    "write_uai",
    "write_uai_evidence",
    "write_uai_result",
]


def __getattr__(name: str) -> Any:
    # scipy.sparse takes longer to import than all of valuesparse.
    if name in ("CrfsuiteModel", "read_crfsuite"):
        from valuesparse.io import crfsuite

        return getattr(crfsuite, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
