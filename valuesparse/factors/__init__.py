"""Factors of a `FactorGraph`: log-tables, and the protocol that other kinds follow."""

from valuesparse.factors._base import Factor
from valuesparse.factors._feature import Feature, Features
from valuesparse.factors._table import Table

__all__ = ["Factor", "Feature", "Features", "Table"]
