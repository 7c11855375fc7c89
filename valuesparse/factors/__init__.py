"""Factors of a `FactorGraph`: log-tables, features, structured factors, and their protocols."""

from valuesparse.factors._at_most_one import AtMostOne
from valuesparse.factors._base import Factor
from valuesparse.factors._budget import Budget
from valuesparse.factors._feature import Feature, Features
from valuesparse.factors._or import Imply, Nand, Or, OrOut
from valuesparse.factors._structured import Structured
from valuesparse.factors._table import Table
from valuesparse.factors._tree import ProjectiveTree, Tree
from valuesparse.factors._xor import Xor, XorOut

__all__ = [
    "AtMostOne",
    "Budget",
    "Factor",
    "Feature",
    "Features",
    "Imply",
    "Nand",
    "Or",
    "OrOut",
    "ProjectiveTree",
    "Structured",
    "Table",
    "Tree",
    "Xor",
    "XorOut",
]
