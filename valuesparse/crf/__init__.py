"""Conditional random fields: what other CRF libraries offer, on this package's inference.

=============== ============================================================================
``crfsuite``    python-crfsuite's module: `Tagger`, `Trainer`, `ItemSequence` and the exceptions
``training``    the trainer, its algorithms and their engine
``estimator``   sklearn-crfsuite's estimator, `CRF`; needs the extra ``sklearn``
``metrics``     sklearn-crfsuite's measures of how well sequences are labelled
=============== ============================================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from valuesparse._extras import require
from valuesparse.crf.training.trainer import Trainer

if TYPE_CHECKING:
    from valuesparse.crf.estimator import CRF

__all__ = ["CRF", "Trainer"]


def __getattr__(name: str) -> Any:
    # scikit-learn is optional, and takes a second to import.
    if name == "CRF":
        try:
            from valuesparse.crf.estimator import CRF
        except ModuleNotFoundError:
            require("sklearn", "sklearn")  # says how to get it, if that is what is missing
            raise
        return CRF
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
