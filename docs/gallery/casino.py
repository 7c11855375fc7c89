"""
The dishonest casino
====================

A casino now and then swaps its fair die for a loaded one. The hidden Markov model sees the rolls
and says how probable the loaded die is at each of them.
"""

import numpy as np
from matplotlib import pyplot as plt

import valuesparse as vs

fair, loaded = np.full(6, 1 / 6), np.array([0.1] * 5 + [0.5])
switch = np.array([[0.95, 0.05], [0.1, 0.9]])
rng = np.random.default_rng(3)
state, states, rolls = 0, [], []
for _ in range(200):
    state = rng.choice(2, p=switch[state])
    states.append(state)
    rolls.append(rng.choice(6, p=[fair, loaded][state]))

# %%
# The emissions are the unary scores, the switches the transition, all as logarithms.

emission = np.log(np.stack([fair, loaded], axis=1))[rolls]
chain = vs.Chain(emission, np.log(switch))
p = vs.infer(chain).marginals[:, 1]
best = vs.decode(chain).states

figure, axes = plt.subplots(figsize=(8, 3))
axes.fill_between(range(200), states, step="mid", alpha=0.25, label="the loaded die was used")
axes.plot(p, color="black", label="P(loaded | all rolls)")
axes.plot(best * 1.06, ".", markersize=3, label="most probable sequence")
axes.set(xlabel="roll", ylim=(-0.05, 1.3))
axes.legend(ncols=3, fontsize=8, loc="upper center")
