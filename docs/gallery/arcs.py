"""
Arcs of a sentence
==================

Scores of all arcs go in; the probability of each arc over all dependency trees comes out. Crosses
mark the best tree.
"""

import numpy as np
from matplotlib import pyplot as plt

import valuesparse as vs

words = ["ROOT", "the", "dog", "chased", "a", "small", "cat"]
scores = np.random.default_rng(0).normal(0, 0.7, (7, 7))
for head, modifier in ((0, 3), (3, 2), (2, 1), (3, 6), (6, 4), (6, 5)):
    scores[head, modifier] += 2.5
p = vs.parsing.marginals([scores]).marginals[0]
heads = vs.parsing.best_trees([scores]).heads[0]

figure, axes = plt.subplots(figsize=(5, 4.5))
picture = axes.imshow(p[:, 1:], cmap="Blues", vmin=0, vmax=1)
axes.plot(np.arange(6), heads, "rx")
axes.set_xticks(range(6), words[1:], rotation=45)
axes.set_yticks(range(7), words)
axes.set(xlabel="modifier", ylabel="head")
figure.colorbar(picture)
