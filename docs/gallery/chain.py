"""
Marginals of a chain
====================

Each column is a position, each row a label. Neighbours want to be equal, so the marginals are
smoother than the local scores alone.
"""

import numpy as np
from matplotlib import pyplot as plt

import valuesparse as vs

unary = np.random.default_rng(0).normal(0, 1.2, (40, 6))
chain = vs.Chain(unary, 1.5 * np.eye(6))
local = np.exp(unary) / np.exp(unary).sum(axis=1, keepdims=True)

figure, axes = plt.subplots(2, 1, figsize=(8, 3.4), sharex=True)
for ax, values, title in zip(axes, (local, vs.infer(chain).marginals), ("local", "marginals")):
    ax.imshow(values.T, aspect="auto", cmap="Blues", vmin=0, vmax=1)
    ax.set(title=title, ylabel="label")
axes[1].plot(vs.decode(chain).states, "r.", label="best labelling")
axes[1].legend(fontsize=8)
figure.tight_layout()
