"""Samples follow the posterior: a chi-square of 20,000 draws from each model."""

from __future__ import annotations

import numpy as np
from campaign import chains as chain_family
from campaign import graphs as graph_family
from campaign import trees as tree_family
from campaign.harness import Case, family
from campaign.oracle import Joint
from graph_oracle import graph_of
from oracles import sequences
from scipy.stats import chi2

import valuesparse as vs

_DRAWS = 20_000
#: The share of right models below which a draw counts as wrong: a million models have none.
_RARE = 1e-9


@family(share=0.03, seconds=1)
def samples(case: Case) -> None:
    """Chains, trees and graphs; rare configurations are one class."""
    kind = case.choice("chain", "tree", "graph")
    if kind == "chain":
        arrays = chain_family.draw(case, most=1)
        if not len(arrays.unary) or chain_family.first_infeasible(arrays) is not None:
            return
        model, joint = (
            vs.Chain(**arrays.kwargs()),
            chain_family.joint_of(next(sequences(arrays)), arrays),
        )
        nodes, options = list(range(joint.full.ndim)), {}
    elif kind == "tree":
        forest = tree_family.draw(case, (0.1, 1.0, 3.0))
        if tree_family.first_dead_node(forest) is not None:
            return
        model = vs.Tree(**forest.kwargs())
        joint, nodes = tree_family.joint_of(forest, 0)
        options = {}
    else:
        cards, factors, evidence = graph_family.draw(case, 5)
        joint = Joint.of(cards, factors, evidence)
        if not joint.feasible:
            return
        model, options = graph_of(cards, factors), {"evidence": evidence}
        nodes = list(range(len(cards)))
    x = vs.sample(model, _DRAWS, case.rng, **options)[:, nodes]
    p = joint.probabilities().astype(float).ravel()
    flat = np.ravel_multi_index(tuple(x.T), joint.full.shape)
    count = np.bincount(flat, minlength=p.size)
    case.true("nothing impossible", not count[p == 0].any())
    often = p * _DRAWS >= 5
    seen = np.append(count[often], count[~often].sum())
    want = np.append(p[often], p[~often].sum()) * _DRAWS
    if want[-1] < 5:  # too few for a class: with the smallest one
        smallest = int(want[:-1].argmin())
        want[smallest] += want[-1]
        seen[smallest] += seen[-1]
        want, seen = want[:-1], seen[:-1]
    if len(want) < 2:
        return
    statistic = float(((seen - want) ** 2 / want).sum())
    tail = float(chi2.sf(statistic, len(want) - 1))
    case.true("chi-square", tail > _RARE, statistic, len(want) - 1, tail)
