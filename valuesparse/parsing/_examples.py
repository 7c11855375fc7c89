"""A treebank as structures made of parts, which is all that learning asks of it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse import _parser
from valuesparse._validation import as_count, as_flag, as_reals, as_threshold, is_choice
from valuesparse.errors import InfeasibleError
from valuesparse.learning import Aggressive
from valuesparse.parsing._dictionary import (
    Dictionary,
    as_features,
    as_min_count,
    counted,
    require_order,
)
from valuesparse.parsing._encoding import (
    as_candidates,
    as_ignored,
    encode,
    heads_of,
    projective_and_single,
)
from valuesparse.parsing._parts import as_whole, require_own, require_scores
from valuesparse.parsing._sentences import Sentence, iterated, require_sentence
from valuesparse.threads import resolve

__all__ = [
    "BITS",
    "CONSTRAINTS",
    "Arcs",
    "Examples",
    "as_bits",
    "as_constraint",
    "as_order",
    "require_nonprojective",
    "sets_of",
]

Array = npt.NDArray[np.float64]
#: Where the arcs of each sentence begin, (B + 1,), and their heads and modifiers.
Arcs = tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]

#: Kinds of trees that can be asked for.
CONSTRAINTS = ("tree", "projective")
#: By default the largest templates have 2**BITS lines of 16 weights.
BITS = 14


def as_order(order: Any, least: int = 1) -> int:
    """Return the order of a model; 0 is that of a pruner, whose arcs have fewer features."""
    whole = isinstance(order, (int, np.integer)) and not isinstance(order, bool)
    if not whole or not least <= order <= 2:
        raise ValueError(f"order must be {'' if least else '0, '}1 or 2, not {order!r}")
    return int(order)


def as_bits(bits: int, name: str = "bits") -> int:
    """Return the logarithm of how many lines a template has, once it is checked."""
    count = as_count(name, bits, at_least=1)
    if not _parser.LEAST_BITS <= count <= _parser.MOST_BITS:
        raise ValueError(f"{name} must be {_parser.LEAST_BITS} to {_parser.MOST_BITS}, not {bits}")
    return count


def as_constraint(constraint: str) -> str:
    """Return what trees have to be, once it is checked."""
    if not is_choice(constraint, CONSTRAINTS):
        raise ValueError(f"constraint must be 'tree' or 'projective', not {constraint!r}")
    return constraint


def sets_of(order: int, nonprojective: bool) -> int:
    """Return the order of a model as the engine takes it: 3 has parts of non-projective arcs."""
    return order + nonprojective


def require_nonprojective(
    wanted: bool,
    order: int,
    constraint: str,
    beta: float | None = np.inf,
    called: Callable[[str, object], str] = lambda name, value: f"{name}={value!r}",
) -> bool:
    """Return whether non-projective arcs have parts, once it is checked that they may.

    `beta` is None for the default, which is finite; `called` says an argument and its value in the
    words of the caller.
    """
    if wanted and (order != 2 or constraint != "tree"):
        raise ValueError(
            f"{called('nonprojective', True)} wants {called('order', 2)} and "
            f"{called('constraint', 'tree')}, not {called('order', order)} and "
            f"{called('constraint', constraint)}"
        )
    if wanted and (beta is None or not np.isinf(beta)):
        raise ValueError(
            f"{called('nonprojective', True)} wants {called('beta', np.inf)}: it has no marginals"
        )
    return bool(wanted)


class Examples:
    """The parts of the sentences of a treebank, as :class:`valuesparse.learning.Online` wants them.

    Sentence i has a part for each arc, and of order 2 for each pair of modifiers of a head and for
    each arc below another (RS10); a structure says of each part whether the tree has it.
    Features are those of McDonald et al. (2005) and of MSFXM10, section 6. Hashed, two features
    that share a weight are one; with a dictionary each that the treebank has is its own. Every
    method computes with the arrays it is given and keeps nothing but the sentence it has read last:
    one call at a time.

    Parameters
    ----------
    sentences : iterable of Sentence
        Each with its tree.
    order : {0, 1, 2}
        1: parts are arcs, and losses are exact. 2: pairs of arcs as well; log Z and marginals are
        those of belief propagation with a tree factor (parser #1 of MSFXM10). 0: arcs with the few
        features of a pruner, for `prune`.
    constraint : {"tree", "projective"}, optional
        Which trees there are; by default projective ones where below 0.5 % of the arcs are not.
    single_root : bool, optional
        Whether exactly one word is attached to the root; by default where that is so in every
        sentence.
    ignore : iterable of str
        Columns without features, of LEMMA, UPOS, XPOS, FEATS.
    bits : int
        The largest templates have 2**bits lines of 16 weights each; 4 to 20.
    threads : int, optional
        For `sweep`; None: every core this process may use.
    arcs : tuple of three arrays, optional
        The arcs that are looked at, as `prune` returns them; by default all. Whole numbers: where
        those of each sentence begin and the last end, (B + 1,), their heads, and their modifiers.
        They ascend by modifier, then by head. Each word has one; those of the trees should be
        among them.
    features : {"hashed", "supported", "complete"}, or Dictionary
        The features: all, hashed; those of the sentences' trees; or those of all parts, whether a
        tree has them or not (MSFXM10, section 5). The last two are counted. A dictionary is the
        attribute `dictionary` of examples of the same order.
    min_count : int
        A dictionary leaves out keys that were met less often: features in any direction and at any
        distance.
    least : float
        `sweep` learns nothing from parts whose residual is not above this in magnitude.
    nonprojective : bool
        Whether arcs that are non-projective have a part of their own, on the path variables of
        parser #2: for order 2, trees of any kind and losses with β = ∞. There are no marginals.

    Attributes
    ----------
    n_weights : int
        The number of weights.
    constraint : str
        As given or found.
    single_root : bool
        As given or found.
    nonprojective : bool
        As given.
    dictionary : Dictionary or None
        The features; None: they are hashed.

    Raises
    ------
    ValueError
        A sentence without a tree, or an argument that is wrong.

    Notes
    -----
    The cost of a tree is the Hamming distance of its arcs, p = 1 − 2z and q = n (MSFXM10,
    section 5). Most parts are improbable: with the default of `least` a pass takes half the time.

    Examples
    --------
    >>> import numpy as np, valuesparse as vs
    >>> s = vs.parsing.Sentence(["Dogs", "bark"], upos=["NOUN", "VERB"], heads=[2, 0])
    >>> examples = vs.parsing.Examples([s], bits=4)
    >>> examples.parts(0)[1][:, :2].tolist(), examples.gold(0).tolist()
    ([[0, 1], [2, 1], [0, 2], [1, 2]], [0.0, 1.0, 1.0, 0.0])
    >>> log_z, p = examples.marginals(0, examples.scores(0, np.zeros(examples.n_weights)))
    >>> round(float(np.exp(log_z)), 9), p.round(3).tolist()
    (2.0, [0.5, 0.5, 0.5, 0.5])
    """

    def __init__(
        self,
        sentences: Iterable[Sentence],
        order: int = 1,
        constraint: str | None = None,
        single_root: bool | None = None,
        *,
        ignore: Iterable[str] = (),
        bits: int = BITS,
        threads: int | None = None,
        arcs: Arcs | None = None,
        features: str | Dictionary = "hashed",
        min_count: int = 1,
        least: float = 1e-3,
        nonprojective: bool = False,
    ) -> None:
        order, bits = as_order(order, 0), as_bits(bits)
        nonprojective = as_flag("nonprojective", nonprojective)
        named = not isinstance(features, Dictionary) and as_features(features) != "hashed"
        as_min_count(min_count, named)
        sentences = list(iterated(sentences))
        for i, sentence in enumerate(sentences):
            require_sentence(sentence, i)
        heads = heads_of(sentences)
        words, offset = encode(sentences, as_ignored(ignore))
        if arcs is not None:
            arcs = as_candidates(arcs, offset)
        if constraint is None or single_root is None:
            projective, single = projective_and_single(heads, offset)
            if constraint is None:
                constraint = CONSTRAINTS[projective and not nonprojective]
            single_root = single if single_root is None else single_root
        self.constraint = as_constraint(constraint)
        self.single_root = as_flag("single_root", single_root)
        self.nonprojective = require_nonprojective(nonprojective, order, self.constraint)
        self.order, self._threads = order, resolve(threads)
        self._least = as_threshold("least", least)
        self._arrays = (words, offset, heads)
        for array in self._arrays:
            array.flags.writeable = False  # the engine points into them
        sets = sets_of(order, self.nonprojective)
        self.dictionary: Dictionary | None = None
        if isinstance(features, Dictionary):
            self.dictionary = features.checked("features")
            require_order(self.dictionary, sets)
        elif named:
            if order == 0:
                raise ValueError(f"order 0 has hashed features, not {features!r}")
            self.dictionary = counted(self._arrays, arcs, sets, features, min_count, self._threads)
        self._learner = _parser.Learner(
            words, offset, heads, arcs, sets, bits, constraint == "projective", self.single_root,
            self.dictionary and self.dictionary.native,
        )  # fmt: skip
        self.n_weights: int = self._learner.n_weights

    @property
    def arrays(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
        """The words, encoded, where sentences begin, and heads; read-only."""
        return self._arrays

    def __len__(self) -> int:
        return len(self._arrays[1]) - 1

    def __repr__(self) -> str:
        return (
            f"Examples({len(self)} sentences, order={self.order}, {self.constraint!r},"
            f" {self.n_weights} weights)"
        )

    def __reduce__(self) -> Any:
        """Refuse to pickle: the features of a treebank are native and many."""
        raise TypeError("Examples do not pickle: pickle the sentences, and make Examples of them")

    def parts(self, i: int) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int32]]:
        """Return the parts of sentence i.

        Returns
        -------
        kinds : (P,) int8
            0: an arc, 1: two siblings, 2: a grandparent, 3: a non-projective arc.
        nodes : (P, 3) int32
            (head, modifier, -1), (head, left modifier, right modifier), (grandparent, head,
            modifier), (head, modifier, -1); 0 is the root.
        """
        kinds, nodes = self._learner.parts(self._at(i))
        return kinds, nodes

    def scores(self, i: int, weights: Array) -> Array:
        """Return the potentials of the parts (P,), sums of the weights of their features.

        Raises
        ------
        ValueError
            A weight of theirs is not finite, or there are too few or too many weights.
        """
        checked = self._checked("weights", weights, self._learner.n_weights)
        found: Array = self._learner.scores(self._at(i), checked)
        # All weights take much longer to look at than those of one sentence to add up.
        if not np.isfinite(found).all():
            _refuse("weights", checked, ~np.isfinite(checked), "finite")
        return found

    def gold(self, i: int) -> Array:
        """Return which parts the tree has, (P,) of 0 and 1."""
        found: Array = self._learner.gold(self._at(i))
        return found

    def cost(self, i: int) -> tuple[Array, float]:
        """Return p (P,) and q: the arcs that are wrong and those that are missing."""
        kinds, _ = self.parts(i)
        return np.where(kinds == 0, 1.0 - 2.0 * self.gold(i), 0.0), float(self._words(i))

    def marginals(self, i: int, potentials: Array) -> tuple[float, Array]:
        """Return log Z and the marginals (P,); of order 2 Bethe's and beliefs.

        Raises
        ------
        InfeasibleError
            Potentials of −inf leave no tree.
        ValueError
            A potential is NaN or +inf, or there are parts of non-projective arcs.
        """
        self._require_best(1.0)
        checked = self._potentials(i, potentials)
        log_z, found = self._learner.marginals(self._at(i), checked)
        if log_z == -np.inf:
            raise InfeasibleError(i, -1, message=f"sentence {i}: the potentials allow no tree")
        return float(log_z), found

    def best(self, i: int, potentials: Array) -> Array:
        """Return the parts of the tree that scores best (P,).

        With order 2 they are the parts of the best point of the linear relaxation (parser #2 of
        MSFXM10, by AD3): the best tree if the point is a tree, else it scores at least as high.

        Raises
        ------
        InfeasibleError
            Potentials of −inf leave no tree.
        ValueError
            A potential is NaN or +inf.
        """
        checked = self._potentials(i, potentials)
        found: Array | None
        if self.order > 1:
            found = self._learner.point(self._at(i), checked)
        else:
            score, found = self._learner.best(self._at(i), checked)
            found = None if score == -np.inf else found
        if found is None:
            raise InfeasibleError(i, -1, message=f"sentence {i}: the potentials allow no tree")
        return found

    def gradient(self, i: int, residual: Array) -> tuple[npt.NDArray[np.int64], Array]:
        """Return the weights that parts with a residual have, once each, and its sums.

        Raises
        ------
        ValueError
            A residual is not finite.
        """
        checked = self._checked("residual", residual, len(self.gold(i)))
        _refuse("residual", checked, ~np.isfinite(checked), "finite")
        indices, values = self._learner.gradient(self._at(i), checked)
        unique, place = np.unique(indices, return_inverse=True)
        sums = np.zeros(len(unique))
        np.add.at(sums, place, values)
        return unique, sums

    def sweep(
        self,
        rule: Any,
        order: npt.NDArray[np.int64],
        weights: Array,
        late: Array,
        touched: npt.NDArray[np.bool_],
        time: int,
        batch: int,
    ) -> tuple[float, int] | None:
        """Take a pass in the engine, on all threads, where the rule is one that it knows.

        Raises
        ------
        TypeError
            One of `weights`, `late` and `touched` is no array of its dtype: they are changed as
            they stand.
        ValueError
            One of them has another shape, is read-only or not contiguous; a sentence that is not
            there; `batch` below 1, or `time` below 0.
        """
        if type(rule) is not Aggressive:
            return None
        self._require_best(rule.beta)
        batch = min(as_count("batch", batch, at_least=1), max(len(self), 1))
        as_count("time", time, at_least=0)
        order = self._numbers(order)
        for name, array, dtype in (
            ("weights", weights, np.float64), ("late", late, np.float64),
            ("touched", touched, np.bool_),
        ):  # fmt: skip
            require_own(name, array, dtype, self._learner.n_weights)
        return self._learner.sweep(
            rule.beta, rule.gamma, rule.longest, order, batch, self._least, weights, late,
            touched, time, self._threads,
        )  # fmt: skip

    @property
    def cut_short(self) -> int:
        """How many sentences of the last `sweep` had a linear program that was cut short.

        Programs with parts of non-projective arcs are: after five rounds in which flows are added,
        flows of twelve words, or 300 iterations of a round. The point that is learned from then
        counts a non-projective arc for the most that it can be worth.
        """
        return self._learner.cut_short

    def prune(self, weights: npt.NDArray[Any]) -> Arcs:
        """Return the arcs that are left by the weights of an arc-factored model, and all gold.

        Parameters
        ----------
        weights : (n_weights,) array of float
            The weights; they are rounded to float32.

        Raises
        ------
        ValueError
            A weight is not finite in float32, or there are too few or too many.
        """
        checked = self._checked("weights", weights, self._learner.n_weights, np.float32)
        _refuse("weights", checked, ~np.isfinite(checked), "finite")
        return self._learner.prune(checked, self._threads)

    def _require_best(self, beta: float) -> None:
        if self.nonprojective and not np.isinf(beta):
            raise ValueError(
                "parts of non-projective arcs have no marginals: learn with beta=inf, or make "
                "Examples with nonprojective=False"
            )

    def _at(self, i: int) -> int:
        try:
            at = operator.index(i)
        except TypeError:
            raise TypeError(f"i must be the index of a sentence, not {i!r}") from None
        if not 0 <= at < len(self):
            raise IndexError(f"there are {len(self)} sentences, and none has the index {at}")
        return at

    def _numbers(self, order: Any) -> npt.NDArray[np.int64]:
        """Return the indices of sentences, checked."""
        found = as_whole("order", order)
        bad = (found < 0) | (found >= len(self))
        if bad.any():
            k = int(bad.argmax())
            raise ValueError(f"order[{k}] is {found[k]}; there are {len(self)} sentences, from 0")
        return np.ascontiguousarray(found, np.int64)

    def _words(self, i: int) -> int:
        offset = self._arrays[1]
        return int(offset[i + 1] - offset[i])

    def _potentials(self, i: int, potentials: npt.ArrayLike) -> Array:
        checked = self._checked("potentials", potentials, len(self.gold(i)))
        require_scores("potentials", checked)
        return checked

    @staticmethod
    def _checked(name: str, array: npt.ArrayLike, size: int, dtype: type = np.float64) -> Any:
        found = as_reals(name, array)
        if found.shape != (size,):
            raise ValueError(
                f"{name}: an array of {size} numbers is wanted, not of shape {found.shape}"
            )
        with np.errstate(over="ignore"):  # too large for float32
            return np.ascontiguousarray(found, dtype)


def _refuse(name: str, array: npt.NDArray[Any], bad: npt.NDArray[np.bool_], wanted: str) -> None:
    """Raise ValueError for the first number that is bad."""
    if bad.any():
        at = int(bad.argmax())
        shown = "NaN" if np.isnan(array[at]) else f"{array[at]:+g}"
        raise ValueError(f"{name}[{at}] is {shown}; {name} must be {wanted}")
