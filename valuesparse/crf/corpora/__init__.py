"""Whole corpora: reading, tagging in shards, training.

=============== ==================================================================
``_text``       line files: cut into shards, read as a stream, blocks between blank lines
``_formats``    what the lines mean; what is written after tagging
``_parquet``    tables with lists of words
``_features``   how words become attributes, by name; ``_templates``: those of CRF++ and Wapiti
``_files``      files that appear when they are complete; what is kept beside a model
``tagging``     `tag_corpus`
``training``    `train_corpus`
=============== ==================================================================
"""

from __future__ import annotations

from valuesparse.crf.corpora.tagging import CorpusReport, tag_corpus
from valuesparse.crf.corpora.training import train_corpus

__all__ = ["CorpusReport", "tag_corpus", "train_corpus"]
