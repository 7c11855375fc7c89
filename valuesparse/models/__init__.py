"""Models hold arrays and never compute."""

from valuesparse.models.chain import Chain
from valuesparse.models.factor_graph import FactorGraph

__all__ = ["Chain", "FactorGraph"]
