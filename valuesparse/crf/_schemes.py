"""Which labels may follow each other, begin and end a sequence: tagging schemes and pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from valuesparse._validation import as_choice, as_items

__all__ = ["SCHEMES", "Constraints", "Forbidden", "Rules", "constraints"]

#: Pairs of a label and the next that are forbidden. None as the first: the other may not begin a
#: sequence; None as the second: the first may not end one.
Forbidden: TypeAlias = "Iterable[tuple[str | None, str | None]]"

Flags: TypeAlias = npt.NDArray[np.bool_]
Floats: TypeAlias = npt.NDArray[np.float64]

# Whether (prefix, type) may follow another one; ("^", "") begins a sequence, ("$", "") ends it.
_May: TypeAlias = Callable[[str, str, str, str], bool]


def _bio(before: str, old: str, after: str, new: str) -> bool:
    return after != "I" or (before in "BI" and old == new)


def _iob1(before: str, old: str, after: str, new: str) -> bool:
    return after != "B" or (before in "BI" and old == new)


def _bioes(before: str, old: str, after: str, new: str) -> bool:
    if before in "BI":
        return after in "IE" and old == new
    return after not in "IE"


#: Name of a scheme -> the prefixes of its labels beside "O", and its rule.
SCHEMES: dict[str, tuple[str, _May]] = {
    "BIO": ("BI", _bio),
    "BIOES": ("BIES", _bioes),
    "IOB1": ("BI", _iob1),
}


class Constraints(NamedTuple):
    """Which labels may follow each other, begin a sequence and end one; True: it may.

    The fields are named as the arguments of :class:`valuesparse.torch.CRF`, which takes them with
    ``**c._asdict()``.
    """

    allowed_transitions: Flags  #: (K, K) ``[from, to]``
    allowed_start: Flags  #: (K,)
    allowed_end: Flags  #: (K,)

    def log_potentials(self) -> tuple[Floats, Floats, Floats]:
        """Return transition (K, K), start (K,) and end (K,): 0 where it may be, −inf elsewhere.

        Examples
        --------
        >>> import numpy as np
        >>> import valuesparse as vs
        >>> transition, start, end = constraints(["O", "B", "I"], "BIO").log_potentials()
        >>> chain = vs.Chain(np.zeros((2, 3)), transition, start=start, end=end)
        >>> vs.infer(chain).marginals[0].round(3).tolist()  # 5 of 9 labellings
        [0.4, 0.6, 0.0]
        """
        table, start, end = (np.where(flags, 0.0, -np.inf) for flags in self)
        return table, start, end


def constraints(
    labels: Sequence[str], scheme: str | None = None, *, forbidden: Forbidden = ()
) -> Constraints:
    """Return the constraints of a tagging scheme, of forbidden pairs, or of both.

    Parameters
    ----------
    labels : sequence of K str
        All different, in the order of rows and columns.
    scheme : {"BIO", "BIOES", "IOB1"}, optional
        Labels are "O" or a prefix, a hyphen and a type, as in "B-PER"; a bare prefix has a type of
        its own. BIO (also called IOB2): a span begins with B and goes on with I. BIOES: a span is S
        alone, or begins with B, goes on with I and closes with E. IOB1: a span is I throughout,
        but begins with B right after another one of its type.
    forbidden : iterable of pairs (from, to), optional
        Labels that may not follow each other. ``(None, label)``: a sequence may not begin with it;
        ``(label, None)``: nor end.

    Returns
    -------
    Constraints
        Three arrays of bool.

    Raises
    ------
    ValueError
        For an unknown scheme, a label that the scheme does not have, or a pair with a name that is
        none of `labels`.
    TypeError
        For a label that is no str, or an entry of `forbidden` that is no pair of str or None.

    Examples
    --------
    >>> c = constraints(["O", "B-PER", "I-PER"], "BIO")
    >>> c.allowed_transitions.astype(int).tolist()
    [[1, 1, 0], [1, 1, 1], [1, 1, 1]]
    >>> c.allowed_start.tolist(), c.allowed_end.tolist()
    ([True, True, False], [True, True, True])
    """
    if isinstance(labels, str):
        raise TypeError(f"labels must be a sequence of labels, got {labels!r}")
    names = as_items("labels", labels, "a sequence of labels")
    for i, label in enumerate(names):
        if not isinstance(label, str):
            raise TypeError(f"labels[{i}] must be str, not {type(label).__name__}")
    k = len(names)
    number = {name: i for i, name in enumerate(names)}
    if len(number) < k:
        raise ValueError(f"labels: {k - len(number)} of {k} names are repeats")
    found = Constraints(np.ones((k, k), bool), np.ones(k, bool), np.ones(k, bool))
    if scheme is not None:
        as_choice("scheme: constraints", scheme, SCHEMES, "not")
        prefixes, may = SCHEMES[scheme]
        parts = [_parts(name, scheme, prefixes) for name in names]
        for i, one in enumerate(parts):
            found.allowed_start[i] = may("^", "", *one)
            found.allowed_end[i] = may(*one, "$", "")
            found.allowed_transitions[i] = [may(*one, *other) for other in parts]
    for j, pair in enumerate(_pairs(forbidden)):
        places = []
        for name in pair:
            if name is not None and name not in number:
                raise ValueError(f"forbidden[{j}]: {name!r} is no label of the model")
            places.append(None if name is None else number[name])
        before, after = places
        if before is None:
            found.allowed_start[after] = False
        elif after is None:
            found.allowed_end[before] = False
        else:
            found.allowed_transitions[before, after] = False
    return found


def _parts(name: str, scheme: str, prefixes: str) -> tuple[str, str]:
    """Return the prefix and the type of a label."""
    prefix, _, kind = name.partition("-")
    if name == "O" or (len(prefix) == 1 and prefix in prefixes):
        return prefix, kind
    raise ValueError(
        f"label {name!r} is none of {scheme}, which has 'O' and labels that begin with "
        f"{', '.join(repr(p + '-') for p in prefixes)}"
    )


def _pairs(forbidden: Any) -> list[tuple[str | None, str | None]]:
    """Return forbidden pairs as a list, checked."""
    if isinstance(forbidden, (str, bytes)) or not isinstance(forbidden, Iterable):
        raise TypeError(f"forbidden must be pairs of labels, not {type(forbidden).__name__}")
    pairs = list(forbidden)
    for j, pair in enumerate(pairs):
        good = (
            isinstance(pair, (tuple, list)) and len(pair) == 2 and any(x is not None for x in pair)
        )
        if not (good and all(x is None or isinstance(x, str) for x in pair)):
            raise TypeError(
                f"forbidden[{j}] must be a pair of labels (from, to), of which one may be None, "
                f"not {pair!r}"
            )
    return pairs


class Rules:
    """Constraints that a tagger or trainer was given before its labels are known."""

    def __init__(self, scheme: str | None, forbidden: Forbidden | None) -> None:
        if scheme is not None:  # an unknown name is refused at once
            as_choice("constraints", scheme, SCHEMES, "not")
        self.scheme = scheme
        self.forbidden = _pairs(() if forbidden is None else forbidden)

    def __bool__(self) -> bool:
        return self.scheme is not None or bool(self.forbidden)

    def of(self, labels: Sequence[str]) -> Constraints | None:
        """Return the constraints on these labels, None where there are none."""
        return constraints(labels, self.scheme, forbidden=self.forbidden) if self else None

    def __repr__(self) -> str:
        words = [] if self.scheme is None else [f"constraints={self.scheme!r}"]
        return " and ".join([*words, *(["forbidden"] if self.forbidden else [])])
