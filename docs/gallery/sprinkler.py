"""
Rain, sprinkler, wet grass
==========================

A Bayesian network of three variables. The grass is wet: what does that say about rain, and what
if the sprinkler was on?
"""

import numpy as np
from matplotlib import pyplot as plt

import valuesparse as vs

graph = vs.FactorGraph([2, 2, 2], names=["rain", "sprinkler", "wet"], states=[["no", "yes"]] * 3)
graph.add(["rain"], np.log([0.8, 0.2]))
graph.add(["rain", "sprinkler"], np.log([[0.6, 0.4], [0.99, 0.01]]))
wet = [[[0.999, 0.001], [0.1, 0.9]], [[0.2, 0.8], [0.01, 0.99]]]
graph.add(["rain", "sprinkler", "wet"], np.log(wet))

jt = vs.JunctionTree(graph)
questions = {
    "nothing known": {},
    "wet": {"wet": "yes"},
    "wet, sprinkler on": {"wet": "yes", "sprinkler": "yes"},
    "wet, sprinkler off": {"wet": "yes", "sprinkler": "no"},
}
rain = [jt.infer(evidence)["rain"][1] for evidence in questions.values()]

figure, axes = plt.subplots(figsize=(6, 2.5))
bars = axes.barh(list(questions), rain, color="#2a7f9e")
axes.bar_label(bars, fmt="%.2f", padding=3)
axes.set(xlabel="P(rain)", xlim=(0, 1.1))
axes.invert_yaxis()
