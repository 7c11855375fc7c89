"""Factors of a `FactorGraph`: log-tables, features, structured factors, and their protocols."""

from valuesparse.factors._base import Factor
from valuesparse.factors._feature import Feature, Features
from valuesparse.factors._structured import Structured
from valuesparse.factors._table import Table
from valuesparse.factors._xor import Xor

__all__ = ["Factor", "Feature", "Features", "Structured", "Table", "Xor"]
