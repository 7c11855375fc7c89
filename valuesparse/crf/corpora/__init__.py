"""Whole corpora: what the tagger reads and writes, by way of `valuesparse.corpora`.

=============== ==================================================================
``_formats``    formats with a token a line; ``_sentences``: with a sentence a line
``_outputs``    what is written after tagging
``_parquet``    tables with lists of words
``_features``   how words become attributes, by name; ``_templates``: those of CRF++ and Wapiti
``_wapiti``     Wapiti's patterns; ``_regex``: how long an expression may take
``_reader``     labelled sentences; ``_beside``: what is kept beside a model
``_shard``      one shard
``tagging``     `tag_corpus`, `tag_file`
``training``    `train_corpus`
``evaluation``  `evaluate`
=============== ==================================================================
"""

from __future__ import annotations

from valuesparse.corpora import CorpusReport
from valuesparse.crf.corpora.evaluation import Evaluation, evaluate
from valuesparse.crf.corpora.tagging import tag_corpus, tag_file
from valuesparse.crf.corpora.training import train_corpus

__all__ = [
    "CorpusReport", "Evaluation", "evaluate", "tag_corpus", "tag_file", "train_corpus",
]  # fmt: skip
