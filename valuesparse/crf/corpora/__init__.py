"""Whole corpora: what the tagger reads and writes, by way of `valuesparse.corpora`.

=============== ==================================================================
``_formats``    what the lines mean; what is written after tagging
``_parquet``    tables with lists of words
``_features``   how words become attributes, by name; ``_templates``: those of CRF++ and Wapiti
``_reader``     labelled sentences; ``_beside``: what is kept beside a model
``_shard``      one shard
``tagging``     `tag_corpus`
``training``    `train_corpus`
=============== ==================================================================
"""

from __future__ import annotations

from valuesparse.corpora import CorpusReport
from valuesparse.crf.corpora.tagging import tag_corpus
from valuesparse.crf.corpora.training import train_corpus

__all__ = ["CorpusReport", "tag_corpus", "train_corpus"]
