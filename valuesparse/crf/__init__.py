"""Conditional random fields: what other CRF libraries offer, on this package's inference.

=============== ============================================================================
``crfsuite``    python-crfsuite's module: `Tagger`, `Trainer`, `ItemSequence` and the exceptions
``training``    the trainer, its algorithms and their engine
``estimator``   sklearn-crfsuite's estimator, `CRF`; needs the extra ``sklearn``
``metrics``     sklearn-crfsuite's measures of how well sequences are labelled
``scorers``     two of those as scikit-learn's scorers; needs the extra ``sklearn``
``corpora``     whole files: `tag_corpus`, `tag_file`, `train_corpus`, `evaluate`
``constraints`` which labels may follow each other: tagging schemes and forbidden pairs
``install``     puts all this in the place of ``pycrfsuite`` and ``sklearn_crfsuite``
=============== ============================================================================
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from valuesparse._extras import require
from valuesparse.crf._install import install
from valuesparse.crf._schemes import Constraints, constraints
from valuesparse.crf.training.trainer import Trainer

if TYPE_CHECKING:
    from valuesparse.crf import corpora as corpora
    from valuesparse.crf import crfsuite as crfsuite
    from valuesparse.crf import estimator as estimator
    from valuesparse.crf import metrics as metrics
    from valuesparse.crf import scorers as scorers
    from valuesparse.crf.corpora import (
        CorpusReport,
        Evaluation,
        evaluate,
        tag_corpus,
        tag_file,
        train_corpus,
    )
    from valuesparse.crf.estimator import CRF

__all__ = [
    "CRF", "Constraints", "CorpusReport", "Evaluation", "Trainer", "constraints", "evaluate",
    "install", "tag_corpus", "tag_file", "train_corpus",
]  # fmt: skip
_MODULES = ("corpora", "crfsuite", "estimator", "metrics", "scorers")
_CORPORA = ("CorpusReport", "Evaluation", "evaluate", "tag_corpus", "tag_file", "train_corpus")


def __getattr__(name: str) -> Any:
    # scikit-learn is optional, and takes a second to import; joblib takes a while, too.
    if name == "CRF":
        try:
            from valuesparse.crf.estimator import CRF
        except ModuleNotFoundError:
            require("sklearn", "sklearn")  # if it is missing, this says how to get it
            raise
        return CRF
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name in _CORPORA:
        return getattr(import_module(f"{__name__}.corpora"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
