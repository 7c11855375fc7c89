"""Conditional random fields: what other CRF libraries offer, on this package's inference.

=============== ============================================================================
``crfsuite``    python-crfsuite's module: `Tagger`, `ItemSequence` and the exceptions
=============== ============================================================================
"""
