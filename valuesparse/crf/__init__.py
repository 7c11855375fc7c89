"""Conditional random fields: what other CRF libraries offer, on this package's inference.

=============== ============================================================================
``crfsuite``    python-crfsuite's module: `Tagger`, `Trainer`, `ItemSequence` and the exceptions
``training``    the trainer, its algorithms and their engine
=============== ============================================================================
"""

from __future__ import annotations

from valuesparse.crf.training.trainer import Trainer

__all__ = ["Trainer"]
