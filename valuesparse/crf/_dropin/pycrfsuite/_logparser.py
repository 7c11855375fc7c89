"""The names of python-crfsuite's parser of training logs."""

from __future__ import annotations

from valuesparse.crf.training._log import LabelScore, TrainLogParser

__all__ = ["LabelScore", "TrainLogParser"]
