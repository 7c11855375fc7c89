"""A question resolves its evidence once, and takes it apart once, however many engines it asks."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import valuesparse as vs
from valuesparse.inference import trw_dual_bound
from valuesparse.models import _evidence

#: A state, and the log-likelihoods of another variable.
GIVEN: dict[Any, Any] = {1: 0, 5: np.array([-2.0, -0.3])}
N = 9


def with_cycles() -> vs.FactorGraph:
    rng = np.random.default_rng(0)
    graph = vs.FactorGraph([2] * N)
    for v in range(N):
        graph.add([v], rng.normal(size=2))
    for pair in [*zip(range(N - 1), range(1, N), strict=True), (0, 8), (0, 4)]:
        graph.add_feature(pair, [1, 1], float(rng.normal()))
    return graph


def compiled(graph: vs.FactorGraph) -> vs.JunctionTree:
    return vs.JunctionTree(graph)


Ask = Callable[[vs.FactorGraph, Any], object]
METHODS = ("auto", "exact", "junction_tree", "bp", "trw", "mean_field", "structured_mean_field")
#: Questions that ask one engine about the graph itself.
PLAIN: dict[str, Ask] = {
    **{f"infer, {m}": lambda g, e, m=m: vs.infer(g, evidence=e, method=m) for m in METHODS},
    "infer, islands": lambda g, e: vs.infer(g, evidence=e, zeta=0.7),
    "infer, factors": lambda g, e: vs.infer(g, evidence=e, factors=range(15)),
    **{
        f"decode, {m}": lambda g, e, m=m: vs.decode(g, evidence=e, method=m)
        for m in ("auto", "exact", "bp", "trw", "ad3", "lp")
    },
    "sample": lambda g, e: vs.sample(g, 2, 0, evidence=e),
    "joint, bp": lambda g, e: vs.infer(g, evidence=e, method="bp").joint([2, 3]),
    "entropy, bp": lambda g, e: vs.infer(g, evidence=e, method="bp").entropy(),
    "bounds of a result": lambda g, e: vs.infer(g, evidence=e, method="bp").log_z_upper,
    "tree, infer": lambda g, e: compiled(g).infer(e),
    "tree, log_z": lambda g, e: compiled(g).log_z(e),
    "tree, joint": lambda g, e: compiled(g).joint([2, 3], e),
    "tree, decode": lambda g, e: compiled(g).decode(e),
    "tree, sample": lambda g, e: compiled(g).sample(2, 0, evidence=e),
    "bounds.log_z": lambda g, e: vs.bounds.log_z(g, evidence=e),
    "bounds.preconditioner": lambda g, e: vs.bounds.preconditioner(g, evidence=e),
    "trw_dual_bound": lambda g, e: trw_dual_bound(g, evidence=e),
}
#: Those that go on with another graph: with parts of this one, or one that has the evidence.
MORE: dict[str, Ask] = {
    "infer, likelihood": lambda g, e: vs.infer(g, evidence=e, likelihood={2: [0.2, 0.8]}),
    "bounds, likelihood": lambda g, e: vs.bounds.log_z(g, evidence=e, likelihood={2: [0.2, 0.8]}),
    "log_prob": lambda g, e: vs.log_prob(g, np.zeros(N, int), evidence=e),
    "log_prob of some": lambda g, e: vs.log_prob(g, {2: 0}, evidence=e),
    "joint": lambda g, e: vs.infer(g, evidence=e).joint([2, 6]),
    "pairwise": lambda g, e: vs.infer(g, evidence=e).pairwise(),
    "expectations": lambda g, e: vs.infer(g, evidence=e).expectations(),
    "factor_marginals": lambda g, e: vs.infer(g, evidence=e).factor_marginals(),
    "entropy": lambda g, e: vs.infer(g, evidence=e).entropy(),
    "relax": lambda g, e: vs.relax(g, evidence=e).divergence_bound,
    "select": lambda g, e: vs.select(g, min_divergence=2, evidence=e).divergence_bound,
    "gain": lambda g, e: vs.gain(g, range(N, 19), vs.infer(g, factors=range(N), evidence=e)),
}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count how often evidence is resolved, and taken apart where there is any."""
    found: Counter[str] = Counter()
    resolve, split = vs.FactorGraph.resolve_evidence, _evidence.split

    def counted_resolve(graph: Any, *args: Any, **more: Any) -> Any:
        found["resolve"] += 1
        return resolve(graph, *args, **more)

    def counted_split(graph: Any, given: Any) -> Any:
        found["split"] += bool(given)
        return split(graph, given)

    monkeypatch.setattr(vs.FactorGraph, "resolve_evidence", counted_resolve)
    for name, module in list(sys.modules.items()):
        if name.startswith("valuesparse") and vars(module).get("split") is split:
            monkeypatch.setattr(module, "split", counted_split)
    return found


@pytest.mark.parametrize("name", PLAIN)
def test_one_engine_is_handed_what_was_resolved(name: str, calls: Counter[str]) -> None:
    PLAIN[name](with_cycles(), GIVEN)
    assert calls == {"resolve": 1, "split": 1}


@pytest.mark.parametrize("name", MORE)
def test_so_are_questions_that_go_on_with_other_graphs(name: str, calls: Counter[str]) -> None:
    MORE[name](with_cycles(), GIVEN)
    assert calls["resolve"] == 1


@pytest.mark.parametrize("name", [*PLAIN, *MORE])
def test_the_graphs_own_evidence_is_never_resolved_again(name: str, calls: Counter[str]) -> None:
    graph = with_cycles()
    graph.set_evidence(GIVEN)
    calls.clear()
    (PLAIN | MORE)[name](graph, None)
    assert calls["resolve"] == 0
