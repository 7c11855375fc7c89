"""
Bounds on log Z
===============

Intervals that are proved, on a grid whose exact log Z is known: the stronger the pairs, the
harder the model.
"""

import numpy as np
from matplotlib import pyplot as plt

import valuesparse as vs


def grid(strength: float) -> vs.FactorGraph:
    """Return a grid of 6 x 6 binary variables with random pairs."""
    rng = np.random.default_rng(1)
    graph = vs.FactorGraph([2] * 36)
    for i in range(36):
        graph.add([i], rng.normal(size=2))
        for j in [i + 1] * (i % 6 < 5) + [i + 6] * (i < 30):
            graph.add([i, j], strength * rng.normal(size=(2, 2)))
    return graph


strengths = np.linspace(0.2, 2, 6)
exact = np.array([vs.infer(grid(s)).log_z for s in strengths])
methods = ["structured_mean_field", "trw", "mini_bucket"]
found = [vs.bounds.log_z(grid(s), exact=False, methods=methods, i_bound=2) for s in strengths]

figure, axes = plt.subplots(figsize=(7, 3.5))
for method in methods:
    low = np.array([b.methods[method].lower for b in found]) - exact
    high = np.array([b.methods[method].upper for b in found]) - exact
    (line,) = axes.plot(strengths, np.where(np.isfinite(high), high, np.nan), label=method)
    axes.plot(strengths, np.where(np.isfinite(low), low, np.nan), color=line.get_color())
axes.axhline(0, color="black", linewidth=0.8)
axes.set(xlabel="strength of the pairs", ylabel="difference to the exact log Z")
axes.legend()
