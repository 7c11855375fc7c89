"""Arguments of `infer` and friends, and the exceptions themselves."""

from __future__ import annotations

import inspect
import pickle
import threading
from collections.abc import Callable

import numpy as np
import pytest
from checks import refused

import valuesparse as vs


@pytest.fixture
def model() -> vs.Chain:
    return vs.Chain(np.zeros((6, 3)), np.zeros((3, 3)), lengths=[4, 2])


@pytest.mark.parametrize("bad", [-0.1, 1.0000001, np.nan, np.inf, -np.inf, 2, -1])
def test_zeta_out_of_range(model: vs.Chain, bad: float) -> None:
    with refused(ValueError, "zeta"):
        vs.infer(model, zeta=bad)


@pytest.mark.parametrize("bad", ["0.5", None, 1j, [0.5], np.array([0.5, 0.6]), True, False])
def test_zeta_of_the_wrong_type(model: vs.Chain, bad: object) -> None:
    with pytest.raises((TypeError, ValueError), match="zeta"):
        vs.infer(model, zeta=bad)


@pytest.mark.parametrize("bad", [-1, 1.5, 2.0, "3", np.nan, [1]])
def test_bad_revisit(model: vs.Chain, bad: object) -> None:
    for zeta in (0.5, 1.0):
        with pytest.raises((ValueError, TypeError), match="revisit"):
            vs.infer(model, zeta=zeta, revisit=bad)


@pytest.mark.parametrize(
    ("kind", "methods"),
    [
        (vs.Chain, ["exact"]),
        (vs.Tree, ["exact"]),
        (
            vs.FactorGraph,
            ["exact", "junction_tree", "bp", "trw", "mean_field", "structured_mean_field"],
        ),
    ],
)
def test_revisit_is_for_islands(kind: type, methods: list[str]) -> None:
    some = {
        vs.Chain: lambda: vs.Chain(np.zeros((3, 2)), np.zeros((2, 2))),
        vs.Tree: lambda: vs.Tree([-1, 0, 0], np.zeros((3, 2)), np.zeros((2, 2))),
        vs.FactorGraph: lambda: vs.FactorGraph([2, 2]),
    }[kind]()
    for method in methods:
        with pytest.raises(ValueError, match=rf"'{method}' takes no islands, got revisit=0; leave"):
            vs.infer(some, method=method, revisit=0)
        assert vs.infer(some, method=method).method != "islands"
    for method in ("auto", "islands"):
        assert vs.infer(some, method=method, zeta=0.9, revisit=0).method == "islands"
    assert vs.infer(some, revisit=0).method != "islands"  # the end of a row of thresholds


@pytest.mark.parametrize("bad", [0, -1, -8])
def test_threads_below_one(model: vs.Chain, bad: int) -> None:
    for call in (
        lambda: vs.infer(model, threads=bad),
        lambda: vs.decode(model, threads=bad),
        lambda: vs.sample(model, 1, 0, threads=bad),
    ):
        with refused(ValueError, "threads", bad):
            call()
    with refused(ValueError, "n", bad):
        vs.set_num_threads(bad)


def test_more_threads_than_there_may_be(model: vs.Chain) -> None:
    before = vs.get_num_threads()
    with refused(ValueError, "n must be an integer between 1 and 4096", 4097):
        vs.set_num_threads(4097)
    assert vs.get_num_threads() == before
    vs.infer(model, threads=10**6)  # a call is told how many at most


@pytest.mark.parametrize("bad", [1.5, "2", np.nan, [2], 2.0])
def test_threads_of_the_wrong_type(model: vs.Chain, bad: object) -> None:
    with pytest.raises((TypeError, ValueError), match="threads"):
        vs.infer(model, threads=bad)
    with pytest.raises((TypeError, ValueError), match=r"\bn\b"):
        vs.set_num_threads(bad)


@pytest.mark.parametrize("good", [1, 2, np.int64(2), np.uint8(3), 1000, None])
def test_threads_that_are_fine(model: vs.Chain, good: object) -> None:
    vs.infer(model, threads=good)


@pytest.mark.parametrize("bad", [-1, -0.001, np.nan, "1", [1.0]])
def test_bad_deadline(model: vs.Chain, bad: object) -> None:
    with pytest.raises((ValueError, TypeError), match="deadline"):
        vs.infer(model, deadline=bad)


@pytest.mark.parametrize("bad", ["fast", "", "EXACT", "junction_tree", None, 3])
def test_unknown_method(model: vs.Chain, bad: object) -> None:
    with pytest.raises((ValueError, TypeError), match="method"):
        vs.infer(model, method=bad)


def test_unknown_method_lists_the_known() -> None:
    with refused(ValueError, "method", "fast", "exact", "auto"):
        vs.infer(vs.Chain(np.zeros((1, 1)), np.zeros((1, 1))), method="fast")


def test_progress_must_be_callable(model: vs.Chain) -> None:
    with pytest.raises((TypeError, ValueError), match="progress"):
        vs.infer(model, progress="yes")


@pytest.mark.parametrize("bad", [None, np.zeros((3, 2)), "chain", vs.Chain, [1, 2]])
def test_not_a_model(bad: object) -> None:
    for call in (
        lambda: vs.infer(bad),
        lambda: vs.decode(bad),
        lambda: vs.sample(bad, 1, 0),
        lambda: vs.log_prob(bad, [0]),
    ):
        with pytest.raises(TypeError, match="model"):
            call()


def test_infer_has_these_options_and_no_others() -> None:
    """Those of one method alone stand in its record."""
    options = (
        "zeta revisit threads method deadline progress evidence likelihood memory_limit factors"
    )
    options += " tol work keep"
    assert set(inspect.signature(vs.infer).parameters) == {"model", *options.split()}


def test_options_are_keywords(model: vs.Chain) -> None:
    with pytest.raises(TypeError):
        vs.infer(model, 0.5)
    with pytest.raises(TypeError):
        vs.decode(model, 3)


def test_after_an_error_all_is_well(model: vs.Chain) -> None:
    want = vs.infer(model, threads=2).marginals
    bad = vs.Chain(np.full((4, 3), -np.inf), np.zeros((3, 3)))
    for _ in range(3):
        with pytest.raises(vs.InfeasibleError):
            vs.infer(bad, threads=2)
        with pytest.raises(ValueError, match="zeta"):
            vs.infer(model, zeta=7)
        np.testing.assert_array_equal(vs.infer(model, threads=2).marginals, want)


# ------------------------------------------------------------------------- what stands for nothing


def some_graph() -> vs.FactorGraph:
    graph = vs.FactorGraph([2, 2])
    graph.add([0, 1], np.eye(2))
    return graph


def some_plan() -> vs.schedule.Plan:
    return vs.schedule.plan(vs.Chain(np.zeros((6, 3)), np.zeros((3, 3))))


NUMBERS, HUGE = np.zeros(2), 10**30
LEARNING, PARSING, SCHEDULE = vs.learning, vs.parsing, vs.schedule
SENTENCE = PARSING.Sentence(["a", "b"], heads=[2, 0], labels=["x", "root"])


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("method", lambda: vs.infer(some_graph(), method=NUMBERS)),
        ("method", lambda: vs.decode(some_graph(), method=NUMBERS)),
        ("frame", lambda: vs.sample(some_graph(), 2, 0, frame=NUMBERS)),
        ("frame", lambda: vs.JunctionTree(some_graph()).sample(2, 0, frame="no")),
        ("evidence", lambda: vs.JunctionTree(some_graph()).log_z(NUMBERS)),
        ("effort", lambda: vs.JunctionTree(some_graph(), effort="x")),
        ("effort", lambda: vs.JunctionTree(some_graph(), effort=np.inf)),
        ("seed", lambda: vs.JunctionTree(some_graph(), seed=HUGE)),
        ("sparse", lambda: vs.infer(infeasible("none")).expectations(sparse="no")),
        ("labels", lambda: vs.infer(infeasible("none")).to_frame(labels=5)),
        ("exact", lambda: vs.bounds.log_z(some_graph(), exact="no")),
        ("methods", lambda: vs.bounds.log_z(some_graph(), methods=5)),
        ("methods", lambda: vs.bounds.log_z(some_graph(), methods=[NUMBERS])),
        ("kind", lambda: vs.bounds.preconditioner(some_graph(), NUMBERS)),
        ("graph", lambda: vs.inference.trw_dual_bound("x")),
        ("exhaustive", lambda: vs.relax(some_graph(), exhaustive={})),
        ("plan", lambda: SCHEDULE.simulate(5, 2)),
        (r"plan\[0\]", lambda: SCHEDULE.simulate("x", 2)),
        ("cores", lambda: SCHEDULE.simulate(some_plan(), HUGE)),
        ("costs", lambda: some_plan().path_costs("x")),
        ("costs", lambda: some_plan().path_costs(NUMBERS)),
        ("record", lambda: SCHEDULE.Plan.of("x")),
        ("serial", lambda: SCHEDULE.record(serial="no")),
        ("beta", lambda: LEARNING.Aggressive(NUMBERS)),
        ("gamma", lambda: LEARNING.Aggressive(gamma="x")),
        ("longest", lambda: LEARNING.Aggressive(longest=None)),
        ("kind", lambda: LEARNING.PassiveAggressive(NUMBERS)),
        ("error_sensitive", lambda: LEARNING.PassiveAggressive(error_sensitive="no")),
        ("n_weights", lambda: LEARNING.Arow(-1)),
        ("n_weights", lambda: LEARNING.Arow(1.5)),
        ("n_weights", lambda: LEARNING.Arow(HUGE)),
        ("variance", lambda: LEARNING.Arow(2, variance="x")),
        ("linesearch", lambda: LEARNING.Lbfgs(max, NUMBERS, linesearch=NUMBERS)),
        (r"gold\[0\]", lambda: PARSING.evaluate([1], [1])),
        ("gold", lambda: PARSING.evaluate(5, [SENTENCE])),
        (r"system\[0\]", lambda: PARSING.evaluate([SENTENCE], np.zeros((2, 2)))),
        ("confidence", lambda: PARSING.Sentence(["a"], confidence="x")),
        ("forms", lambda: PARSING.Sentence(np.zeros((2, 2)))),
        ("format", lambda: PARSING.Sentence(["a"], format=NUMBERS)),
        ("progress", lambda: PARSING.train("not read", progress=5)),
        ("checkpoint", lambda: PARSING.train("not read", checkpoint=5)),
        ("ignore", lambda: PARSING.train("not read", ignore=5)),
        ("features", lambda: PARSING.train("not read", features=NUMBERS)),
        ("constraint", lambda: PARSING.train("not read", constraint=NUMBERS)),
        ("constraint", lambda: PARSING.graph(np.zeros((3, 3)), constraint=NUMBERS)),
        ("variables", lambda: vs.factors.Tree([(0, 1)], 5)),
        ("labels", lambda: vs.crf.constraints(5, "BIO")),
        ("scheme", lambda: vs.crf.constraints(["O"], "x")),
        ("yseq", lambda: vs.crf.Trainer().append([["a"]], 5)),
        ("xseqs", lambda: vs.io.CrfsuiteModel(["A"], ["x"], [[0]], [[1]]).chain(5)),
        ("evidence", lambda: vs.read_uai(b"MARKOV 1 2 1 1 0 2 0.5 0.5", evidence=-1)),
        ("kind", lambda: vs.write_uai(some_graph(), "not written", kind=NUMBERS)),
    ],
)
def test_what_is_no_value_is_named(name: str, call: Callable[[], object]) -> None:
    with pytest.raises((ValueError, TypeError, MemoryError), match=rf"(?<!\w){name}(?!\w)"):
        call()


def test_blocks_of_edges_may_be_larger_than_any() -> None:
    model = vs.SecondOrderChain(np.zeros((4, 2)), np.zeros((2, 2, 2)))
    assert [len(part) for part in vs.infer(model).iter_pairwise(block=HUGE)] == [3]


# ------------------------------------------------------------------------------- infeasible models


def infeasible(where: str) -> vs.Chain:
    unary, transition = np.zeros((7, 2)), np.zeros((2, 2))
    kwargs: dict = {"lengths": [3, 4]}
    if where == "unary":
        unary[5] = -np.inf
    elif where == "allowed":
        kwargs["allowed"] = np.ones((7, 2), bool)
        kwargs["allowed"][5] = False
    elif where == "transition":
        transition = np.zeros((5, 2, 2))
        transition[3] = -np.inf
    elif where == "together":
        transition = np.array([[0, -np.inf], [-np.inf, 0]])
        unary[3, 0] = unary[5, 1] = -np.inf
    return vs.Chain(unary, transition, **kwargs)


@pytest.mark.parametrize("where", ["unary", "allowed", "transition", "together"])
def test_infeasible_names_sequence_and_position(where: str) -> None:
    model = infeasible(where)
    for call in (
        lambda: vs.infer(model),
        lambda: vs.infer(model, zeta=0.9),
        lambda: vs.infer(model, zeta=0.0, revisit=0),
        lambda: vs.decode(model),
        lambda: vs.decode(model, n_best=2),
        lambda: vs.sample(model, 2, 0),
        lambda: vs.log_prob(model, np.zeros(7, int)),
    ):
        with refused(vs.InfeasibleError, 1, 2) as info:
            call()
        assert (info.value.sequence, info.value.position) == (1, 2)


@pytest.mark.parametrize("where", ["start", "end"])
def test_infeasible_ends(where: str) -> None:
    unary = np.zeros((4, 2))
    model = vs.Chain(unary, np.zeros((2, 2)), **{where: [-np.inf, -np.inf]})
    with refused(vs.InfeasibleError) as info:
        vs.infer(model)
    assert (info.value.sequence, info.value.position) == (0, 0 if where == "start" else 3)


def test_the_first_infeasible_sequence_is_named_whoever_finds_it() -> None:
    unary = np.zeros((4000, 2))
    unary[[2999, 3999, 1501]] = -np.inf
    model = vs.Chain(unary, np.zeros((2, 2)), lengths=np.full(400, 10))
    for threads in (1, 2, 3, 8):
        for zeta in (1.0, 0.7):
            with refused(vs.InfeasibleError, 150, 1) as info:
                vs.infer(model, threads=threads, zeta=zeta)
            assert (info.value.sequence, info.value.position) == (150, 1)


def test_exceptions() -> None:
    assert issubclass(vs.InfeasibleError, ValueError)
    assert issubclass(vs.DeadlineError, TimeoutError)


def test_infeasible_error_pickles() -> None:
    with pytest.raises(vs.InfeasibleError) as info:
        vs.infer(infeasible("unary"))
    error = pickle.loads(pickle.dumps(info.value))
    assert (error.sequence, error.position) == (1, 2)
    assert str(error) == str(info.value)


# ----------------------------------------------------------------------------- deadline, progress


def test_deadline_missed() -> None:
    model = vs.Chain(np.zeros((20_000, 256), np.float32), np.zeros((256, 256), np.float32))
    with pytest.raises(vs.DeadlineError, match="1e-06"):
        vs.infer(model, deadline=1e-6, threads=1)
    with pytest.raises(vs.DeadlineError):
        vs.infer(model, deadline=1e-6, zeta=0.9)
    # Nothing is left running or half done.
    small = vs.Chain(np.zeros((4, 2)), np.zeros((2, 2)))
    np.testing.assert_array_equal(vs.infer(small).marginals, 0.5)


def test_deadline_kept(model: vs.Chain) -> None:
    for zeta in (1.0, 0.5):
        a, b = vs.infer(model, zeta=zeta), vs.infer(model, zeta=zeta, deadline=60)
        assert a.marginals.tobytes() == b.marginals.tobytes()


@pytest.fixture(scope="module")
def large() -> vs.Chain:
    """Return a batch that takes a tenth of a second or more: several reports of progress."""
    rng = np.random.default_rng(0)
    unary = rng.normal(size=(60_000, 160)).astype(np.float32)
    transition = rng.normal(size=(160, 160)).astype(np.float32)
    return vs.Chain(unary, transition, lengths=np.full(600, 100))


@pytest.mark.parametrize("zeta", [1.0, 0.99])
@pytest.mark.parametrize("threads", [1, 2])
def test_progress_is_called(zeta: float, threads: int, large: vs.Chain) -> None:
    calls: list[tuple[int, int]] = []

    def note(done: int, total: int) -> None:
        calls.append((done, total))

    r = vs.infer(large, zeta=zeta, threads=threads, progress=note)
    assert calls
    assert [c[0] for c in calls] == sorted(c[0] for c in calls)
    assert all(0 <= done <= total == 60_000 for done, total in calls)
    assert r.marginals.tobytes() == vs.infer(large, zeta=zeta).marginals.tobytes()


@pytest.mark.parametrize("threads", [1, 2])
def test_what_progress_raises_comes_out(threads: int, large: vs.Chain) -> None:
    def stop(*_: object) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        vs.infer(large, progress=stop, threads=threads)
    assert vs.infer(vs.Chain(np.zeros((4, 2)), np.zeros((2, 2))), threads=threads).converged


@pytest.mark.parametrize("zeta", [1.0, 0.99])
@pytest.mark.parametrize("threads", [1, 2])
def test_progress_may_compute(threads: int, zeta: float, large: vs.Chain) -> None:
    # A call within a call must not work in the workspace of the outer one.
    rng = np.random.default_rng(1)
    other = vs.Chain(rng.normal(size=(150, 120)), rng.normal(size=(120, 120)))
    want = vs.infer(large, zeta=zeta).marginals.tobytes()
    expected = [vs.infer(other).marginals.tobytes(), vs.decode(other).states.tobytes()]
    draws = vs.sample(other, 2, 0).tobytes()
    calls = []

    def within(done: int, total: int) -> None:
        calls.append(done)
        inner = vs.infer(other, threads=threads), vs.decode(other, threads=threads)
        assert [inner[0].marginals.tobytes(), inner[1].states.tobytes()] == expected
        assert vs.sample(other, 2, 0, threads=threads).tobytes() == draws
        with pytest.raises(RuntimeError):
            vs.infer(other, threads=threads, progress=fail)

    def fail(*_: object) -> None:
        raise RuntimeError

    for _ in range(3):
        r = vs.infer(large, zeta=zeta, threads=threads, progress=within)
        assert r.marginals.tobytes() == want
    assert calls


def test_progress_on_a_thread_that_is_not_the_main_one(large: vs.Chain) -> None:
    calls: list[str] = []

    def note(*_: object) -> None:
        calls.append(threading.current_thread().name)

    worker = threading.Thread(
        target=lambda: vs.infer(large, progress=note, threads=2), name="caller"
    )
    worker.start()
    worker.join()
    assert set(calls) == {"caller"}
