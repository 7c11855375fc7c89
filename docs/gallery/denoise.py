"""
Clean an image
==============

Every pixel is a binary variable that wants to be equal to its neighbours. The graph has cycles
and is too wide for a junction tree, so belief propagation answers.
"""

import numpy as np
from matplotlib import pyplot as plt

import valuesparse as vs

side = 60
y, x = np.mgrid[:side, :side]
image = (np.hypot(x - 30, y - 30) < 22) & (np.hypot(x - 24, y - 24) > 9)
noisy = image ^ (np.random.default_rng(0).random((side, side)) < 0.2)

cell = np.arange(side * side).reshape(side, side)
across = np.c_[cell[:, :-1].flat, cell[:, 1:].flat]
down = np.c_[cell[:-1].flat, cell[1:].flat]
graph = vs.FactorGraph([2] * side * side)
graph.add_many(cell.reshape(-1, 1), np.log([[0.8, 0.2], [0.2, 0.8]])[noisy.ravel().astype(int)])
graph.add_many(np.r_[across, down], 1.1 * np.eye(2))
r = vs.infer(graph, method="bp")
p = np.array(r.marginals)[:, 1].reshape(side, side)

figure, axes = plt.subplots(1, 3, figsize=(9, 3))
for ax, picture, title in zip(axes, (noisy, p, p > 0.5), ("noisy", "P(pixel = 1)", "cleaned")):
    ax.imshow(picture, cmap="gray_r")
    ax.set_title(title)
    ax.axis("off")
