"""
States of ancestors
===================

A tree of species: the leaves are observed, and inference says which state each ancestor had.
Samples show how sure that is.
"""

import numpy as np
from matplotlib import pyplot as plt

import valuesparse as vs

parent = np.array([-1, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6])
observed = {7: 0, 8: 0, 9: 0, 10: 2, 11: 1, 12: 1, 13: 1, 14: 2}  # the state of each leaf
stay, change = np.log(0.8), np.log(0.1)
unary = np.zeros((15, 3))
for leaf, state in observed.items():
    unary[leaf] = -np.inf
    unary[leaf, state] = 0.0
tree = vs.Tree(parent, unary, np.where(np.eye(3) > 0, stay, change))
p = vs.infer(tree).marginals

depth = np.zeros(15)
for i in range(1, 15):
    depth[i] = depth[parent[i]] + 1
x = np.r_[[3.5, 1.5, 5.5, 0.5, 2.5, 4.5, 6.5], np.arange(8)]
figure, axes = plt.subplots(figsize=(8, 3.6))
for i in range(1, 15):
    axes.plot([x[parent[i]], x[i]], [-depth[parent[i]], -depth[i]], color="#888888", zorder=0)
for i in range(15):
    left = x[i] - 0.24
    for state, color in enumerate(("#2a7f9e", "#d9822b", "#7a9e3a")):
        width = 0.48 * p[i, state]
        axes.barh(-depth[i], width, 0.22, left, color=color)
        left += width
axes.axis("off")
