"""
How belief propagation converges
================================

The same grid with four orders of messages. Each curve shows how far the messages still moved.
"""

import numpy as np
from matplotlib import pyplot as plt

import valuesparse as vs

side = 12
rng = np.random.default_rng(2)
cell = np.arange(side * side).reshape(side, side)
pairs = np.r_[np.c_[cell[:, :-1].flat, cell[:, 1:].flat], np.c_[cell[:-1].flat, cell[1:].flat]]
graph = vs.FactorGraph([2] * side * side)
graph.add_many(cell.reshape(-1, 1), rng.normal(size=(side * side, 2)))
graph.add_many(pairs, rng.normal(0, 0.8, size=(len(pairs), 2, 2)))

figure, axes = plt.subplots(figsize=(7, 3.5))
for schedule in ("flooding", "rounds", "tree", "residual"):
    r = vs.infer(graph, method=vs.BP(schedule=schedule, max_iterations=200))
    messages = np.linspace(0, r.stats["messages"], len(r.residuals) + 1)[1:]
    axes.semilogy(messages, r.residuals, label=schedule)
axes.set(xlabel="messages computed", ylabel="largest move of a message")
axes.legend()
