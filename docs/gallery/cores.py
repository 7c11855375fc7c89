"""
What more cores would bring
===========================

A call runs a plan: tasks and what each waits for. `simulate` plays it on as many cores as you
like, without having them.
"""

import numpy as np
from matplotlib import pyplot as plt

import valuesparse as vs

rng = np.random.default_rng(0)
transition = rng.normal(size=(20, 20))
models = {
    "one long chain": vs.Chain(rng.normal(size=(4000, 20)), transition),
    "100 sentences": vs.Chain(rng.normal(size=(2000, 20)), transition, lengths=[20] * 100),
    "a random tree": vs.Tree(
        [-1, *(rng.integers(i) for i in range(1, 4000))], rng.normal(size=(4000, 20)), transition
    ),
}

cores = [1, 2, 4, 8, 16, 32]
figure, axes = plt.subplots(figsize=(6, 3.5))
for name, model in models.items():
    plan = vs.schedule.plan(model, threads=32)
    axes.loglog(
        cores, [vs.schedule.simulate(plan, cores=c).speedup for c in cores], "o-", label=name
    )
axes.loglog(cores, cores, ":", color="gray", label="ideal")
axes.set_xticks(cores, [str(c) for c in cores])
axes.minorticks_off()
axes.set(xlabel="cores", ylabel="speed-up, by messages")
axes.legend(fontsize=8)
