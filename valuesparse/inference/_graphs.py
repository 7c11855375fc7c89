"""Factor graphs: what each public function does with one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from valuesparse._validation import as_indices, as_states, is_choice
from valuesparse.errors import MemoryLimitError
from valuesparse.inference import _ad3, _auto, _loopy
from valuesparse.inference._conditioning import ASKED, AUTO, WHOLE, Slices
from valuesparse.inference._graph_islands import infer_islands
from valuesparse.inference._memory import as_limit, show_bytes
from valuesparse.inference._methods import (
    AD3,
    BP,
    DECODERS,
    LOOPY,
    TRW,
    Loopy,
    MeanField,
    Options,
    name_of,
    record_of,
)
from valuesparse.inference._network import network_of
from valuesparse.inference._pendant import Pendant, TakenApart, parts_of
from valuesparse.inference._refusals import ADVICE, SearchGivenUp, check_states
from valuesparse.inference._relaxation import Binary
from valuesparse.inference._snapshots import beyond_memory, require_memory, snapshot_of
from valuesparse.inference._watch import NOBODY, Watch
from valuesparse.inference.junction_tree import JunctionTree
from valuesparse.models import FactorGraph
from valuesparse.models._blocks import structured_factors
from valuesparse.models._evidence import Evidence, Known, known_of
from valuesparse.results import Decoding, GraphResult
from valuesparse.results._factors import CONDITIONED

#: A method of `decode`; its module loads HiGHS, and is imported when it is asked for.
_LP = "lp"
#: Methods of `decode`.
_DECODERS = ("auto", "exact", _LP, AD3.name, *DECODERS)
METHODS = ("auto", "exact", "islands", "junction_tree", *LOOPY)

#: Bytes that loopy inference takes for each state: messages, beliefs and marginals.
_LOOPY_BYTES = 96

#: Each method of loopy inference, and the meaning of its ``log_z``.
_WORDS = {
    "bp": "loopy belief propagation (log_z is the Bethe free energy)",
    "trw": "tree-reweighted message passing (log_z is an upper bound once it has converged)",
    "mean_field": "mean field (log_z is a lower bound)",
    "structured_mean_field": "mean field with the structure of a forest (log_z is a lower bound)",
}


def infer(
    model: FactorGraph,
    zeta: float,
    rounds: int,
    workers: int,
    method: str | Loopy,
    deadline: float | None,
    progress: Callable[[int, int], object] | None,
    evidence: Evidence | Known | None = None,
    memory_limit: int | None = None,
    factors: Iterable[int] | None = None,
    start: GraphResult | None = None,
) -> GraphResult:
    """See :func:`valuesparse.infer`; `start` is what belief propagation of "auto" begins from."""
    if factors is not None:
        kept = as_indices("factors", factors, model.n_factors)
        result = infer(
            model.part(kept), zeta, rounds, workers, method, deadline, progress,
            evidence, memory_limit, None, start,
        )  # fmt: skip
        return result.of_whole(model, kept)
    known = known_of(model, evidence)
    watch = Watch(deadline, progress)
    choice = choose(model, zeta, name_of(method), known, memory_limit, watch, workers)
    if choice.method is None:
        raise MemoryLimitError(choice.reason)
    if choice.method in LOOPY:
        network_of(model, watch, memory_limit)  # kept for what follows, which has no limit
        loopy = record_of(method)
        if loopy is None:
            return _auto.infer(model, choice.reason, start, known.given, workers, watch)
        beliefs = _loopy.infer(model, loopy, choice.reason, known.given, workers, watch, progress)
        watch.finish(_loopy.steps_of(loopy))
        return beliefs
    if choice.method == "exact" and choice.tree is None:
        return _loopy.two_passes(model, choice.reason, known.given, workers, watch, progress)
    if choice.tree is None:
        limit = as_limit(memory_limit)
        return infer_islands(model, zeta, rounds, workers, known, limit, watch)
    tree, pendant = choice.tree, choice.pendant
    if pendant is None:
        found = tree._infer(None, workers, watch, choice.method, choice.reason)
    else:
        core = pendant.of_core(lambda: tree._infer(None, workers, watch))
        found = pendant.whole(core, choice.method, choice.reason, tree.memory_limit)
    tree._keep()
    return found


_APART = "loopy belief propagation (tree-reweighted messages where it does not converge)"


class Choice(NamedTuple):
    """The method that `infer` runs (None: it refuses), the reason, and the tree if there is one.

    `pendant`: the tree is that of the core of a graph that was taken apart.
    """

    method: str | None
    reason: str
    tree: JunctionTree | None
    pendant: Pendant | None = None


def choose(
    model: FactorGraph,
    zeta: float = 1.0,
    method: str = "auto",
    evidence: Evidence | Known | None = None,
    memory_limit: int | None = None,
    watch: Watch = NOBODY,
    workers: int = 1,
) -> Choice:
    """Decide what `infer` runs with these arguments.

    Nothing is computed but the plan, and the messages to the core of a graph that is taken apart.
    """
    if method == "islands" or zeta < 1.0:
        if method not in ("auto", "islands") or zeta >= 1.0:
            raise ValueError(f"method {method!r} does not go with zeta={zeta}")
        return Choice("islands", f"zeta={zeta:g} was asked for", None)
    own = structured_factors(model)
    if method == MeanField.name and own:
        index, factor = next(iter(own.items()))
        raise ValueError(
            f"method 'mean_field' has only single configurations within factor {index}, "
            f"{factor.described}; method='structured_mean_field' keeps such a factor whole"
        )
    if method in LOOPY:
        check_states(model, as_limit(memory_limit), _LOOPY_BYTES)
        return Choice(method, f"{_WORDS[method]} was asked for", None)
    if not own or (method == "junction_tree" and not _large(model, None, memory_limit)):
        return _choose_tree(model, method, evidence, memory_limit, watch)
    known = known_of(model, evidence)
    if without_cycles(model, known, memory_limit):
        return Choice("exact", _TWO_PASSES[bool(known.given)], None)
    parts = parts_of(model, known.held)
    large = _large(model, parts, memory_limit)
    if large and method == "auto":
        what = f"factor {large[0]}, {own[large[0]].described}, has no table that fits"
        return Choice(
            "bp", f"{what}, and lies on a cycle or between two; so {_APART}, an approximation", None
        )
    _require_tables(model, large)
    if parts is None:
        return _choose_tree(model, method, known, memory_limit, watch)
    pendant = Pendant(model, parts, known, workers, watch)
    choice = pendant.of_core(
        lambda: _choose_tree(parts.core, method, pendant.within, memory_limit, watch)
    )
    if choice.tree is None or choice.method is None or choice.method in LOOPY:
        return choice
    return choice._replace(reason=pendant.reason + choice.reason, pendant=pendant)


def _large(model: FactorGraph, parts: TakenApart | None, memory_limit: int | None) -> list[int]:
    """Return the structured factors (of the core) whose tables do not fit."""
    own, limit = structured_factors(model), as_limit(memory_limit)
    core = own if parts is None else set(parts.of_core.tolist())
    return [
        i
        for i, f in own.items()
        if i in core and not (f.has_table and 8.0 * 2.0 ** len(f.scope) <= limit)
    ]


def _require_tables(
    model: FactorGraph, large: list[int], instead: str = "method='bp' takes it, an approximation"
) -> None:
    """Refuse structured factors on cycles that are too large for any table, and name `instead`."""
    own = structured_factors(model)
    for i in large:
        if not own[i].has_table:
            raise ValueError(
                f"factor {i}, {own[i].described}, lies on a cycle or between two, where exact "
                f"inference needs a table of it: at most 26 variables fit; {instead}"
            )


def _decoder(model: FactorGraph) -> str:
    """Return what an error advises where the best configuration is refused."""
    if (model.cards == 2).all():
        return "method='ad3' takes it, and bounds the best score"
    if all(factor.has_max_product for factor in structured_factors(model).values()):
        return "method='bp' takes it, an approximation"
    return "only infer(method='bp') takes it, an approximation of marginals"


def _taken_apart(
    model: FactorGraph,
    evidence: Evidence | Known | None,
    workers: int,
    watch: Watch,
    *,
    best: bool = False,
) -> Pendant | None:
    """Return the messages to the core of a graph with pendant structured factors."""
    if not structured_factors(model):
        return None
    known = known_of(model, evidence)
    parts = parts_of(model, known.held)
    large = _large(model, parts, None)
    if large:
        bp = "infer(method='bp') takes it, an approximation"
        _require_tables(model, large, _decoder(model) if best else bp)
    return None if parts is None else Pendant(model, parts, known, workers, watch, best=best)


def _choose_tree(
    model: FactorGraph,
    method: str,
    evidence: Evidence | Known | None,
    memory_limit: int | None,
    watch: Watch,
) -> Choice:
    """Decide about a graph, or the core of one, that is for a junction tree if it fits."""
    auto = method == "auto"
    jt = None
    try:
        beyond = beyond_memory(model, memory_limit) if auto else None
        if beyond is not None:
            raise SearchGivenUp(beyond)
        jt = JunctionTree._of_call(
            model, evidence, memory_limit, watch, give_up=auto, budget=AUTO if auto else ASKED
        )
        slices = jt._own_slices(watch)
    except SearchGivenUp as error:
        slices = str(error)
    if jt is None or isinstance(slices, str):
        refusal = slices
        if method != "auto":
            return Choice(None, f"{refusal}: {ADVICE}", jt)
        known = known_of(model, evidence)
        if network_of(model, watch, memory_limit).is_forest(known.held):  # which needs no tables
            return Choice("exact", _TWO_PASSES[bool(known.given)], None)
        reason = f"{refusal}; so {_APART}, an approximation"
        return Choice("bp", reason, jt)
    if slices is not WHOLE:
        return Choice(CONDITIONED, jt._conditioned_because(slices), jt)
    if method == "junction_tree":
        return Choice(method, f"a junction tree of width {jt.width} was asked for", jt)
    if jt.width <= 1:
        return Choice("exact", _TWO_PASSES[_has_evidence(model, evidence)], jt)
    reason = (
        f"the junction tree has width {jt.width} and needs {show_bytes(jt.memory)}, within "
        f"memory_limit={show_bytes(jt.memory_limit)}: exact"
    )
    return Choice("junction_tree", reason, jt)


_TWO_PASSES = (
    "a graph without cycles: two passes solve it exactly",
    "the evidence leaves a graph without cycles: two passes solve it exactly",
)


def _has_evidence(model: FactorGraph, evidence: Evidence | Known | None) -> bool:
    return bool(known_of(model, evidence).given)


def without_cycles(
    model: FactorGraph, evidence: Evidence | Known | None, memory_limit: int | None = None
) -> bool:
    """Whether a graph with structured factors has no cycle given the evidence."""
    if not structured_factors(model):
        return False
    return network_of(model, limit=memory_limit).is_forest(known_of(model, evidence).held)


def log_z(
    model: FactorGraph,
    workers: int,
    memory_limit: int | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> float:
    """Return the log partition function alone."""
    return mass(model, workers, memory_limit, progress)[0]


def mass(
    model: FactorGraph,
    workers: int,
    memory_limit: int | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> tuple[float, str]:
    """Return the log partition function, and what the tree was conditioned on, if at all."""
    watch = Watch(None, progress)
    if without_cycles(model, None, memory_limit):
        found = _loopy.two_passes(model, "", model.evidence, workers, watch, progress)
        return float(found.log_z), ""
    pendant = _taken_apart(model, None, workers, watch)
    if pendant is not None:
        core, known, more = pendant.parts.core, pendant.within, pendant.up.log_z
        value, slices = pendant.of_core(lambda: _mass(core, known, workers, memory_limit, watch))
        value += more
    else:
        value, slices = _mass(model, None, workers, memory_limit, watch)
    return value, "" if slices is WHOLE else slices.describe(model.names)


def _mass(
    model: FactorGraph,
    known: Known | None,
    workers: int,
    memory_limit: int | None,
    watch: Watch,
) -> tuple[float, Slices]:
    jt = JunctionTree._of_call(model, known, memory_limit, watch, barren=False)
    found = jt._mass(None, workers, watch)
    jt._keep()
    return found


def decode(
    model: FactorGraph,
    k: int,
    workers: int,
    watch: Watch,
    evidence: Evidence | Known | None = None,
    memory_limit: int | None = None,
    method: str | Options = "auto",
) -> tuple[Any, ...]:
    """Return states (1, n) and the score (1,); after messages, the other fields of `Decoding`."""
    if k != 1:
        raise ValueError(f"n_best is for chains, got n_best={k} with a FactorGraph")
    if not is_choice(name_of(method), _DECODERS):
        raise ValueError(f"method must be one of {', '.join(_DECODERS)}, got {method!r}")
    if name_of(method) in (_LP, AD3.name):
        asked = Binary.of(model, known_of(model, evidence).given, name_of(method))
        if method == _LP:
            from valuesparse.inference import _lp

            point = _lp.decode(asked.model, asked.evidence, watch)
        else:
            record = method if isinstance(method, AD3) else AD3()
            point = _ad3.decode(asked.model, record, asked.evidence, workers, watch)
        states, score, upper, relaxed, integral, converged = asked.answer(point, model.cards)
        return states[None], np.array([score]), converged, upper, (), relaxed, integral
    loopy = record_of(method)
    if isinstance(loopy, (BP, TRW)):
        network_of(model, watch, memory_limit)  # as in `infer`
        _require_max_product(model, evidence)
        given = known_of(model, evidence).given
        best = _loopy.decode(model, loopy, given, workers, watch)
        return best.states[None], np.array([best.score]), best.converged, best.upper
    if without_cycles(model, evidence, memory_limit):
        given = known_of(model, evidence).given
        best = _loopy.decode_passes(model, given, workers, watch)
        return best.states[None], np.array([best.score]), True, None
    pendant = _taken_apart(model, evidence, workers, watch, best=True)
    if pendant is None:
        found = _decode(model, evidence, workers, memory_limit, watch)
        states, score = found.states, float(found.score)
    else:
        core, known = pendant.parts.core, pendant.within
        found = pendant.of_core(lambda: _decode(core, known, workers, memory_limit, watch))
        states, score = pendant.decoded(found.states, float(found.score))
    return states[None], np.array([score]), True, None, found.conditioned


def _decode(
    model: FactorGraph,
    evidence: Evidence | Known | None,
    workers: int,
    memory_limit: int | None,
    watch: Watch,
) -> Decoding:
    jt = JunctionTree._of_call(model, evidence, memory_limit, watch)
    found = jt._decode(None, workers, watch)
    jt._keep()
    return found


def _require_max_product(model: FactorGraph, evidence: Evidence | Known | None) -> None:
    """Raise for a structured factor without max-marginals on a cycle."""
    for index, factor in structured_factors(model).items():
        if not factor.has_max_product and not without_cycles(model, evidence):
            raise ValueError(
                f"factor {index}, {factor.described}, has no max-marginals, and decoding by "
                f"messages needs them where the graph has cycles; {_decoder(model)}"
            )


def sample(
    model: FactorGraph,
    count: int,
    generator: np.random.Generator,
    workers: int,
    watch: Watch,
    evidence: Evidence | Known | None = None,
    memory_limit: int | None = None,
) -> npt.NDArray[np.int64]:
    """Return (count, n) samples."""
    for i, factor in structured_factors(model).items():
        if not factor.has_table:
            raise ValueError(
                f"factor {i}: {factor.lacks_table()}, and sampling needs one; use factors of fewer "
                "variables, or infer(method='bp') for marginals, which needs none"
            )
    advice = "use factors of fewer variables: sampling needs tables"
    require_memory(model, advice, memory_limit)
    jt = JunctionTree._of_call(model, evidence, memory_limit, watch)
    found = jt._sample(count, generator, None, workers, watch)
    jt._keep()
    return found


def score(
    model: FactorGraph, states: npt.ArrayLike, workers: int, memory_limit: int | None = None
) -> npt.NDArray[np.float64]:
    """Return the sum of log-potentials of given states, soft evidence included; −inf forbids."""
    y = as_states(states, model.n_variables, model.cards)
    total = 0.0
    if structured_factors(model):
        for factor in model.factors:
            total += float(factor.checked_log_potential(y[None, list(factor.scope)])[0])
    else:
        total = snapshot_of(model, memory_limit).score(y)
    for v, value in model.evidence.items():
        known: Any = value
        total += (0.0 if y[v] == known else -np.inf) if isinstance(value, int) else known[y[v]]
    return np.array(total)
