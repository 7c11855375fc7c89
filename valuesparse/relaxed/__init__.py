"""Ignoring factors that do not matter (RS10, RSM10), and how far that leads away."""

from valuesparse.relaxed._formulas import feature_gain
from valuesparse.relaxed.bounds import ProxyTerms, proxy_divergence
from valuesparse.relaxed.gain import gain
from valuesparse.relaxed.relax import relax
from valuesparse.relaxed.select import largest, select, smallest_within
from valuesparse.results._bounds import Bounds

__all__ = [
    "Bounds",
    "ProxyTerms",
    "feature_gain",
    "gain",
    "largest",
    "proxy_divergence",
    "relax",
    "select",
    "smallest_within",
]
