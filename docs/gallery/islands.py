"""
Work saved by islands
=====================

Below ζ = 1, variables that are sure enough are held at their value. Messages that cost K² become
messages that cost K. The price is an error, which this picture shows beside the work that is
left.
"""

import numpy as np
from matplotlib import pyplot as plt

import valuesparse as vs

rng = np.random.default_rng(0)
chain = vs.Chain(5.0 * rng.normal(size=(5000, 20)), rng.normal(size=(20, 20)))
exact = vs.infer(chain)

zetas = [0.5, 0.7, 0.8, 0.9, 0.95, 0.99]
work, error = [], []
for zeta in zetas:
    r = vs.infer(chain, zeta=zeta)
    work.append(r.stats["messages_full"] / exact.stats["messages_full"])
    error.append(np.abs(r.marginals - exact.marginals).max(axis=1).mean())

figure, axes = plt.subplots(figsize=(7, 3.5))
axes.plot(work, error, "o-", color="black")
for zeta, x, y in zip(zetas, work, error):
    axes.annotate(f"ζ = {zeta}", (x, y), (6, 6), textcoords="offset points")
axes.set(xlabel="share of messages that cost K²", ylabel="mean error of a marginal", xlim=(0, 1.4))
