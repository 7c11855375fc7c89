"""One `JunctionTree` through whatever may happen to it, against enumeration and a fresh tree."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from graph_oracle import graph_of, log_joint, log_sum, marginal, probabilities, random_model
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

import valuesparse as vs

SEEDS = st.integers(0, 2**32 - 1)
THREADS = st.sampled_from([None, 1, 2, 3])


class Interrupted(Exception):
    """The error that our callback raises."""


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.tree: vs.JunctionTree | None = None
        self.kept: list[tuple[vs.Result, np.ndarray]] = []

    @initialize(seed=SEEDS)
    def build(self, seed: int) -> None:
        self.cards, self.factors, self.own = random_model(np.random.default_rng(seed), most=8)
        self.graph = graph_of(self.cards, self.factors)
        self.limit: int | None = None
        full = log_joint(self.cards, self.factors, self.own)
        if full.max() == -np.inf:
            self.own = {}
        try:
            self.tree = self.fresh()
        except vs.InfeasibleError:
            assert log_joint(self.cards, self.factors, self.own).max() == -np.inf

    def fresh(self) -> vs.JunctionTree:
        tree = vs.JunctionTree(self.graph, evidence=self.own)
        if self.limit is not None:
            tree.memory_limit = self.limit
        return tree

    def evidence(self, seed: int) -> dict[int, Any]:
        """Hard and soft evidence, now and then against what is known, or against everything."""
        rng = np.random.default_rng(seed)
        some: dict[int, Any] = {}
        for v, k in enumerate(self.cards):
            dice = rng.random()
            if dice < 0.15:  # for what contradicts the tree's own see `contradicted`
                known = self.own.get(v)
                some[v] = known if isinstance(known, int) else int(rng.integers(k))
            elif dice < 0.35:
                some[v] = rng.normal(0.0, 1.0, k)
            elif dice < 0.45:
                some[v] = np.where(rng.random(k) < 0.5, -np.inf, rng.normal(0.0, 900.0, k))
                if some[v].max() == -np.inf:
                    some[v][rng.integers(k)] = 0.0
        return some

    def full(self, evidence: dict[int, Any]) -> np.ndarray:
        """Log-weights of all configurations, given what the tree knows and what it is told."""
        return log_joint(self.cards, self.factors, self.own) + log_joint(self.cards, [], evidence)

    def ask(self, question: Any, evidence: dict[int, Any]) -> tuple[Any, Any] | None:
        """Return the answers of this tree and a fresh one; None where both rightly refuse."""
        answers, refusals = [], []
        for tree in (self.tree, self.fresh()):
            try:
                answers.append(question(tree))
            except (vs.InfeasibleError, vs.MemoryLimitError) as error:
                refusals.append(error)
        if not refusals:
            assert self.full(evidence).max() > -np.inf
            return answers[0], answers[1]
        assert not answers, refusals
        assert str(refusals[0]) == str(refusals[1])
        if isinstance(refusals[0], vs.InfeasibleError):
            assert self.full(evidence).max() == -np.inf
        else:
            assert self.limit is not None
        return None

    @precondition(lambda self: not self.tree)
    @rule()
    def nothing_is_possible(self) -> None:
        with pytest.raises(vs.InfeasibleError):
            self.fresh()

    @precondition(lambda self: self.tree)
    @rule(seed=SEEDS, threads=THREADS)
    def infer(self, seed: int, threads: int | None) -> None:
        evidence = self.evidence(seed)
        both = self.ask(lambda tree: tree.infer(evidence, threads=threads), evidence)
        if both is None:
            return
        r, fresh = both
        assert r.log_z == fresh.log_z
        p = probabilities(self.full(evidence))
        for v, found in enumerate(r.marginals):
            assert found.tobytes() == fresh.marginals[v].tobytes()
            np.testing.assert_allclose(found, marginal(p, [v]), rtol=0, atol=1e-10)
        assert r.log_z == pytest.approx(log_sum(self.full(evidence)), rel=1e-10, abs=1e-10)
        self.kept.append((r, p))

    @precondition(lambda self: self.tree)
    @rule(seed=SEEDS, threads=THREADS)
    def log_z(self, seed: int, threads: int | None) -> None:
        evidence = self.evidence(seed)
        both = self.ask(lambda tree: tree.log_z(evidence, threads=threads), evidence)
        if both is not None:
            assert both[0] == both[1]
            want = log_sum(self.full(evidence))
            assert both[0] == pytest.approx(want, rel=1e-10, abs=1e-10)

    @precondition(lambda self: self.tree)
    @rule(seed=SEEDS, threads=THREADS)
    def decode(self, seed: int, threads: int | None) -> None:
        evidence = self.evidence(seed)
        both = self.ask(lambda tree: tree.decode(evidence, threads=threads), evidence)
        if both is not None:
            found, fresh = both
            states, score = found.states, found.score
            assert (states.tolist(), score) == (fresh.states.tolist(), fresh.score)
            full = self.full(evidence)
            assert score == pytest.approx(full.max(), rel=1e-12, abs=1e-10)
            assert full[tuple(states)] == pytest.approx(full.max(), rel=1e-12, abs=1e-10)

    @precondition(lambda self: self.tree)
    @rule(seed=SEEDS, size=st.integers(0, 5), threads=THREADS)
    def sample(self, seed: int, size: int, threads: int | None) -> None:
        evidence = self.evidence(seed)
        both = self.ask(
            lambda tree: tree.sample(size, seed, evidence=evidence, threads=threads), evidence
        )
        if both is not None:
            assert both[0].tolist() == both[1].tolist()
            assert all(self.full(evidence)[tuple(states)] > -np.inf for states in both[0])

    @precondition(lambda self: self.tree)
    @rule(seed=SEEDS, data=st.data())
    def joint(self, seed: int, data: st.DataObject) -> None:
        evidence = self.evidence(seed)
        some = data.draw(st.permutations(range(len(self.cards))))[: data.draw(st.integers(0, 3))]
        both = self.ask(lambda tree: tree.joint(some, evidence), evidence)
        if both is not None:
            assert both[0].tobytes() == both[1].tobytes()
            want = marginal(probabilities(self.full(evidence)), list(some))
            np.testing.assert_allclose(both[0], want, rtol=0, atol=1e-10)

    @precondition(lambda self: self.kept)
    @rule(data=st.data())
    def earlier_results_stay(self, data: st.DataObject) -> None:
        r, p = data.draw(st.sampled_from(self.kept))
        for v, found in enumerate(r.marginals):
            np.testing.assert_allclose(found, marginal(p, [v]), rtol=0, atol=1e-10)
        some = data.draw(st.permutations(range(len(self.cards))))[:2]
        try:
            joint = r.joint(some)
        except vs.MemoryLimitError:
            assert self.limit is not None
            return
        np.testing.assert_allclose(joint, marginal(p, list(some)), rtol=0, atol=1e-10)

    @precondition(lambda self: self.tree)
    @rule(
        seed=SEEDS,
        what=st.sampled_from(["infer", "log_z", "decode", "sample"]),
        after=st.integers(0, 4),
        late=st.booleans(),
    )
    def interrupted(self, seed: int, what: str, after: int, late: bool) -> None:
        """End a call with an error of its own, wherever it then is; the next is right."""
        calls = []

        def progress(done: int, total: int) -> None:
            calls.append((done, total))
            assert 0 <= done <= total
            if len(calls) > after:
                raise Interrupted

        limits = {"deadline": 1e-9 * 10**after} if late else {"progress": progress}
        first = (2, seed) if what == "sample" else ()
        try:
            getattr(self.tree, what)(*first, evidence=self.evidence(seed), **limits)
        except Interrupted:
            assert len(calls) == after + 1
        except vs.DeadlineError:
            assert late
        except (vs.InfeasibleError, vs.MemoryLimitError):
            pass
        else:
            assert len(calls) <= after

    @precondition(lambda self: self.tree)
    @rule(v=st.integers(0, 7))
    def contradicted(self, v: int) -> None:
        known = self.own.get(v)
        if isinstance(known, int) and self.cards[v] > 1:
            with pytest.raises(ValueError, match=f"evidence for {v} contradicts"):
                self.tree.infer({v: (known + 1) % self.cards[v]})

    @precondition(lambda self: self.tree)
    @rule()
    def pickled(self) -> None:
        again = pickle.loads(pickle.dumps(self.tree))
        assert again.cliques == self.tree.cliques
        assert (again.width, again.memory) == (self.tree.width, self.tree.memory)
        self.tree = again

    @precondition(lambda self: self.tree)
    @rule(share=st.sampled_from([None, 0.1, 0.4, 0.7, 1.0, 2.0]))
    def another_limit(self, share: float | None) -> None:
        """Below the whole tree's memory questions are conditioned, or refused."""
        whole = vs.JunctionTree(self.graph, evidence=self.own)
        self.limit = None if share is None else max(1, int(share * whole.memory))
        self.tree.memory_limit = whole.memory_limit if self.limit is None else self.limit


Machine.TestCase.settings = settings(max_examples=40, stateful_step_count=25)
test_junction_tree_machine = Machine.TestCase
