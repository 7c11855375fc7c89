"""CRF tagging and training: drop-ins for the libraries that people use."""

from __future__ import annotations

from valuesparse.crf.training.trainer import Trainer

__all__ = ["Trainer"]
