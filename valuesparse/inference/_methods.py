"""Methods of loopy inference with their options: what `method=` takes beside a string."""

from __future__ import annotations

import numbers
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from valuesparse._validation import LARGEST_COUNT, as_count, as_reals
from valuesparse.results import GraphResult

__all__ = [
    "AD3",
    "BP",
    "DECODERS",
    "LOOPY",
    "SCHEDULES",
    "TRW",
    "Loopy",
    "MeanField",
    "Options",
    "StructuredMeanField",
    "name_of",
    "record_of",
    "refuse",
]

#: Orders in which messages are sent, by their number in the engine.
SCHEDULES = {"flooding": 0, "residual": 1, "rounds": 2, "tree": 3}


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options that every method that iterates has."""

    #: The method's own string.
    name: ClassVar[str]

    tolerance: float = 1e-6
    max_iterations: int = 1000

    def __post_init__(self) -> None:
        if not _is_number(self.tolerance) or not 0.0 <= float(self.tolerance) < np.inf:
            raise ValueError(f"tolerance must be a number >= 0, got {self.tolerance!r}")
        self._set("tolerance", float(self.tolerance))
        self._count("max_iterations", at_least=1)

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _count(self, name: str, at_least: int) -> None:
        value = getattr(self, name)
        self._set(name, as_count(name, value, at_least=at_least, at_most=LARGEST_COUNT))


@dataclass(frozen=True, kw_only=True)
class Loopy(Options):
    """Options that every method of loopy inference has."""

    start: GraphResult | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.start is not None:
            self._check_start(self.start)

    def _check_start(self, start: Any) -> None:
        if not isinstance(start, GraphResult):
            raise ValueError(f"start must be a result of a graph, got {type(start).__name__}")


@dataclass(frozen=True, kw_only=True)
class _Messages(Loopy):
    """Options of methods that pass messages."""

    schedule: str = "flooding"
    damping: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if str(self.schedule) not in SCHEDULES:  # a list has no hash
            raise ValueError(
                f"schedule must be one of {', '.join(SCHEDULES)}, got {self.schedule!r}"
            )
        if not _is_number(self.damping) or not 0.0 <= float(self.damping) < 1.0:
            raise ValueError(f"damping must lie in [0, 1), got {self.damping!r}; 0 damps nothing")
        self._set("damping", float(self.damping))

    def _check_start(self, start: Any) -> None:
        if not isinstance(start, GraphResult) or not hasattr(start.state, "messages"):
            raise ValueError(
                "start must be a result of loopy inference, with messages to begin from"
            )


@dataclass(frozen=True, kw_only=True)
class _Ascent(Loopy):
    """Options of methods that ascend to a bound from several points."""

    restarts: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._count("restarts", at_least=0)
        self._count("seed", at_least=0)


@dataclass(frozen=True, kw_only=True)
class BP(_Messages):
    """Loopy belief propagation: a `method` of :func:`valuesparse.infer` and `decode`.

    Parameters
    ----------
    schedule : {"flooding", "residual", "rounds", "tree"}, default "flooding"
        The order in which messages are sent. "flooding": all at once. "residual": always the one
        that messages to its factor may have moved most (a queue, on one thread). "rounds": the most
        urgent quarter of those that still move, at a time. "tree": up and down forests that hold
        every factor, so that one iteration is exact without cycles. ``stats["messages"]`` counts
        the messages that were computed. A structured factor sends all of its messages at once.
    damping : float, default 0
        In [0, 1): the share of the old message (of its logarithm) that a new one keeps.
    tolerance : float, default 1e-6
        It has converged when no log-ratio of two entries of a message would change by more without
        damping.
    max_iterations : int, default 1000
        Iterations after which it stops; ``r.converged`` says whether it had to. An iteration of
        "residual" and "rounds" is as many messages as there are.
    start : GraphResult, optional
        Begin from the messages of this result: of the same graph with other evidence, or before
        factors were added.

    Raises
    ------
    ValueError
        For an option that is out of its range, by name.

    Examples
    --------
    >>> import valuesparse as vs
    >>> graph = vs.FactorGraph([2, 2, 2])
    >>> for edge in [(0, 1), (1, 2), (0, 2)]:
    ...     _ = graph.add(edge, [[1.0, 0.0], [0.0, 1.0]])
    >>> r = vs.infer(graph, method=vs.BP(schedule="residual", damping=0.5))
    >>> r.method, r.converged
    ('bp', True)
    """

    name: ClassVar[str] = "bp"


@dataclass(frozen=True, kw_only=True)
class TRW(_Messages):
    """Tree-reweighted messages: a `method` of :func:`valuesparse.infer` and `decode`.

    Parameters
    ----------
    schedule, tolerance, max_iterations, start : optional
        As for :class:`valuesparse.BP`.
    damping : float, default 0.5
        As for :class:`valuesparse.BP`; undamped, tree-reweighted messages swing to and fro.
    edge_probabilities : "uniform" or array_like of shape (factors,), default "uniform"
        How often the forests hold each factor, in (0, 1]. Entries of factors of one variable are
        ignored, and among factors of the same variables the largest counts. "uniform": as uniform
        spanning trees do (matrix-tree theorem); with scopes of three and more, structured factors,
        more than 2**16 variables, or many more pairs than variables, as 8 forests that hold every
        factor. An array is kept as a tuple.
    optimise : int, default 0
        Steps of the conditional gradient on these probabilities. The result is that of the smallest
        `log_z` among those whose messages converged; of the last step, where none did.
    seed : int, default 0
        Random seed of the forests, where they are drawn.

    Raises
    ------
    ValueError
        For an option that is out of its range, by name.

    Examples
    --------
    >>> import valuesparse as vs
    >>> graph = vs.FactorGraph([2, 2, 2])
    >>> for edge in [(0, 1), (1, 2), (0, 2)]:
    ...     _ = graph.add(edge, [[1.0, 0.0], [0.0, 1.0]])
    >>> r = vs.infer(graph, method=vs.TRW(optimise=2))
    >>> r.log_z >= vs.infer(graph).log_z
    True
    """

    name: ClassVar[str] = "trw"

    damping: float = 0.5
    edge_probabilities: str | npt.ArrayLike = "uniform"
    optimise: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        given = self.edge_probabilities
        if not isinstance(given, str):
            rho = as_reals("edge_probabilities", given)
            if rho.ndim != 1:
                raise ValueError(
                    "edge_probabilities must have shape (factors,), one for each factor of the "
                    f"graph, got {rho.shape}"
                )
            # Numbers of their own, which nobody changes, and records compare.
            self._set("edge_probabilities", tuple(rho.tolist()))
        elif given != "uniform":
            raise ValueError(
                "edge_probabilities must be 'uniform' or an array with a number for each factor, "
                f"got {given!r}"
            )
        self._count("optimise", at_least=0)
        self._count("seed", at_least=0)


@dataclass(frozen=True, kw_only=True)
class MeanField(_Ascent):
    """Naive mean field: a `method` of :func:`valuesparse.infer`; ``log_z`` is a lower bound.

    Parameters
    ----------
    tolerance : float, default 1e-6
        It has converged when no marginal changes by more.
    max_iterations : int, default 1000
        Sweeps over the variables after which it stops.
    start : GraphResult, optional
        Begin from the marginals of any result of a graph with the same variables, and from nothing
        else unless they have mass where the graph forbids it.
    restarts : int, default 3
        Random points to ascend from, beside the beliefs of a few iterations of belief propagation
        and their mode.
    seed : int, default 0
        Random seed of the restarts.

    Raises
    ------
    ValueError
        For an option that is out of its range, by name.

    Examples
    --------
    >>> import valuesparse as vs
    >>> graph = vs.FactorGraph([2, 2, 2])
    >>> for edge in [(0, 1), (1, 2), (0, 2)]:
    ...     _ = graph.add(edge, [[1.0, 0.0], [0.0, 1.0]])
    >>> r = vs.infer(graph, method=vs.MeanField(restarts=5, seed=1))
    >>> r.log_z <= vs.infer(graph).log_z
    True
    """

    name: ClassVar[str] = "mean_field"


@dataclass(frozen=True, kw_only=True)
class StructuredMeanField(_Ascent):
    """Mean field with the structure of a forest: a `method` of :func:`valuesparse.infer`.

    Parameters
    ----------
    tolerance, max_iterations, restarts, seed : optional
        As for :class:`valuesparse.MeanField`, from which it begins.
    start : GraphResult, optional
        Begin from the distribution of a result of its own, of "mean_field", or of a graph without
        cycles (whose factors then are the forest): it never falls below what that is worth. By
        default it takes the forest of the largest mutual information by the beliefs of a few
        iterations of "bp", and begins from naive mean field too.

    Raises
    ------
    ValueError
        For an option that is out of its range, by name.

    Examples
    --------
    >>> import valuesparse as vs
    >>> graph = vs.FactorGraph([2, 2, 2])
    >>> for edge in [(0, 1), (1, 2), (0, 2)]:
    ...     _ = graph.add(edge, [[1.0, 0.0], [0.0, 1.0]])
    >>> naive = vs.infer(graph, method="mean_field")
    >>> r = vs.infer(graph, method=vs.StructuredMeanField(start=naive))
    >>> r.log_z <= vs.infer(graph).log_z
    True
    """

    name: ClassVar[str] = "structured_mean_field"


@dataclass(frozen=True, kw_only=True)
class AD3(Options):
    """Dual decomposition with quadratic steps: a `method` of :func:`valuesparse.decode`.

    It solves the linear program of MSFXM10 over the local polytope of a graph of binary variables,
    as "lp" does, and is faster.

    Parameters
    ----------
    tolerance : float, default 1e-5
        It has converged when the bound on the best score and the score of its point differ by at
        most this share of that score. Where its point has no score of its own (a variable is in two
        factors that are no pair), 0.03 of this is asked for, also of what factors disagree
        about and of what a variable moves in an iteration (root mean squares). Where a `Tree` was
        held by cuts, its point may lack as much of the arc that has to lead into every set of
        words.
    max_iterations : int, default 5000
        Iterations after which it stops, those of Newton's method included; ``d.converged`` says
        whether it had to. ``d.upper`` is a bound after any number.

    Raises
    ------
    ValueError
        For an option that is out of its range, by name.

    Examples
    --------
    >>> import valuesparse as vs
    >>> graph = vs.FactorGraph([2, 2, 2])
    >>> _ = graph.add(vs.factors.Xor(0, 1, 2))
    >>> _ = graph.add([0], [0.0, 1.0])
    >>> _ = graph.add([0, 1], [[0.0, 2.0], [0.0, 0.0]])
    >>> d = vs.decode(graph, method=vs.AD3(max_iterations=100))
    >>> d.states.tolist(), float(d.score), d.integral
    ([0, 1, 0], 2.0, True)
    """

    name: ClassVar[str] = "ad3"

    tolerance: float = 1e-5
    max_iterations: int = 5000


#: Methods of loopy inference, by their string.
LOOPY: dict[str, type[Loopy]] = {
    kind.name: kind for kind in (BP, TRW, MeanField, StructuredMeanField)
}
#: Those that `decode` takes.
DECODERS = (BP.name, TRW.name)


def name_of(method: Any) -> Any:
    """Return the string of a method that is given as a record; anything else as it is."""
    return method.name if isinstance(method, Options) else method


def record_of(method: str | Options) -> Loopy | None:
    """Return the record of a method, of its defaults for a string; None where it is not loopy."""
    if isinstance(method, Options):
        return method if isinstance(method, Loopy) else None
    kind = LOOPY.get(method)
    return None if kind is None else kind()


def refuse(method: Loopy, names: tuple[str, ...], where: str) -> None:
    """Raise ValueError where a record has an option that does nothing in `where`."""
    for field in fields(method):
        if field.name in names and getattr(method, field.name) != field.default:
            raise ValueError(
                f"{field.name} has no meaning in {where}; leave it out of {type(method).__name__}"
            )


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real)
