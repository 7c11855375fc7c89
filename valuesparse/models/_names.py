"""Names of variables and of their states, and the numbers behind them."""

from __future__ import annotations

import operator
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Cardinalities", "Name", "Variables"]

Name = Hashable

#: Numbers of states, or {name: number of states, or their names}.
Cardinalities = Sequence[int] | npt.NDArray[np.integer[Any]] | Mapping[Any, Any]


class Variables:
    """Variables with a number of states each; both may have names."""

    __slots__ = (
        "_number",
        "_state_number",
        "cardinalities",
        "cards",
        "n_states",
        "names",
        "states",
    )

    cardinalities: tuple[int, ...]
    #: Number of states of all variables together.
    n_states: int
    names: tuple[Any, ...]
    states: tuple[tuple[Any, ...] | None, ...]

    def __init__(
        self,
        cardinalities: Cardinalities,
        names: Sequence[Name] | None,
        states: Sequence[Sequence[Any] | None] | None,
    ) -> None:
        if isinstance(cardinalities, Mapping):
            if names is not None or states is not None:
                raise ValueError(
                    "names and states must not be given beside a mapping, which has them: "
                    '{"rain": ["no", "yes"], "wet": 2}'
                )
            cardinalities, names, states = _of_mapping(cardinalities)
        cards = _cardinalities(cardinalities)
        n = len(cards)
        self.cardinalities = cards
        self.cards = np.array(cards, dtype=np.int64)
        self.cards.flags.writeable = False
        self.n_states = sum(cards)
        self.names = tuple(range(n)) if names is None else _names(names, n)
        self._number = None if names is None else {v: i for i, v in enumerate(self.names)}
        self.states = (None,) * n if states is None else _states(states, cards, self.names)
        self._state_number: dict[int, dict[Any, int]] = {}

    def _share(self, other: Variables) -> None:
        """Have the variables of another one."""
        self.cardinalities, self.cards = other.cardinalities, other.cards
        self.n_states = other.n_states
        self.names, self._number = other.names, other._number
        self.states, self._state_number = other.states, other._state_number

    def _rename(self, names: Sequence[Name]) -> None:
        """Have these names."""
        self.names = _names(names, len(self.cardinalities))
        self._number = {v: i for i, v in enumerate(self.names)}

    @property
    def n_variables(self) -> int:
        """Number of variables."""
        return len(self.cardinalities)

    def variable(self, name: Any) -> int:
        """Return the number of a variable, given its name or number; a name wins.

        Raises
        ------
        ValueError
            When there is no such variable.
        """
        if self._number is not None:
            try:
                return self._number[_unwrapped(name)]
            except (KeyError, TypeError):
                index = _index(name, len(self.cardinalities))
                if index is not None:
                    return index
                raise ValueError(
                    f"there is no variable named {name!r}: the names are {listed(self.names)}"
                ) from None
        try:
            number = operator.index(name)
        except TypeError:
            raise ValueError(
                f"variables of this graph have no names: give {_wanted(name)}, not {name!r}"
            ) from None
        if not 0 <= number < len(self.cardinalities):
            raise ValueError(
                f"variable {number} is out of range: there are {len(self.cardinalities)}, "
                "numbered from 0"
            )
        return number

    def variable_numbers(self, argument: str, variables: Any) -> tuple[int, ...]:
        """Return the numbers of several variables; a name alone is told from a sequence of them."""
        if isinstance(variables, str) or not isinstance(variables, Iterable):
            raise ValueError(
                f"{argument} must be a sequence of variables, got {variables!r}; write "
                f"[{variables!r}]"
            )
        numbers: list[int] = []
        for v in in_order(argument, variables):
            try:
                numbers.append(self.variable(v))
            except ValueError as error:
                raise ValueError(f"{argument}[{len(numbers)}]: {error}") from None
        return tuple(numbers)

    def state(self, variable: int, state: Any) -> int:
        """Return the number of a state of a variable, given its name or number; a name wins.

        Raises
        ------
        ValueError
            When the variable has no such state.
        """
        named = self.states[variable]
        if named is not None:
            try:
                return self._numbers_of(variable)[_unwrapped(state)]
            except (KeyError, TypeError):
                index = _index(state, len(named))
                if index is not None:
                    return index
                raise ValueError(
                    f"variable {self.names[variable]!r} has no state {state!r}: its states are "
                    f"{listed(named)}"
                ) from None
        try:
            number = int(state) if isinstance(state, np.bool_) else operator.index(state)
        except TypeError:
            raise ValueError(
                f"states of variable {self.names[variable]!r} have no names: give "
                f"{_wanted(state)}, not {state!r}"
            ) from None
        if not 0 <= number < self.cardinalities[variable]:
            raise ValueError(
                f"variable {self.names[variable]!r} has no state {number}: it has "
                f"{self.cardinalities[variable]}, numbered from 0"
            )
        return number

    def resolve_states(self, argument: str, states: Mapping[Any, Any]) -> dict[int, int]:
        """Return {variable: state} by numbers."""
        found: dict[int, int] = {}
        for name, state in states.items():
            try:
                v = self.variable(name)
                number = self.state(v, state)
            except ValueError as error:
                raise ValueError(f"{argument}[{name!r}]: {error}") from None
            if v in found:
                raise ValueError(f"{argument} names variable {name!r} twice")
            found[v] = number
        return found

    def place(self, key: Any) -> tuple[int, int | None]:
        """Return the numbers that a key stands for: a variable, or a pair (variable, state).

        A tuple may be the name of a variable, too, and then it is.
        """
        pair = isinstance(key, tuple) and len(key) == 2 and not self.has_name(key)
        # A pair that is no name may be a mistake for one: its first part is no index then.
        if pair and (self._number is None or self.has_name(key[0])):
            v = self.variable(key[0])
            return v, self.state(v, key[1])
        return self.variable(key), None

    def has_name(self, name: Any) -> bool:
        """Whether a variable has this name (without names, this number)."""
        if self._number is None:
            return _index(name, len(self.cardinalities)) is not None
        try:
            return name in self._number
        except TypeError:  # it has no hash
            return False

    def state_name(self, variable: int, state: int) -> Any:
        """Return the name of a state (both numbered); its number where it has none."""
        named = self.states[variable]
        return state if named is None else named[state]

    def has_state(self, variable: int, value: Any) -> bool:
        """Whether this is the name of a state."""
        try:
            return _unwrapped(value) in self._numbers_of(variable)
        except TypeError:  # it has no hash
            return False

    def _numbers_of(self, variable: int) -> dict[Any, int]:
        """Return the number of each state by its name; empty without names."""
        named = self.states[variable]
        if named is None:
            return {}
        table = self._state_number.get(variable)
        if table is None:
            table = self._state_number[variable] = {s: i for i, s in enumerate(named)}
        return table

    def _shape(self, scope: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(map(self.cardinalities.__getitem__, scope))


def _unwrapped(value: Any) -> Any:
    """Return the one entry of an array without dimensions, which has no hash."""
    return value.item() if isinstance(value, np.ndarray) and not value.ndim else value


def _index(value: Any, below: int) -> int | None:
    """Return an integer that counts things of this number; None for anything else."""
    if isinstance(value, (bool, np.bool_)):
        return None
    try:
        index = operator.index(value)
    except TypeError:
        return None
    return index if 0 <= index < below else None


def listed(items: Sequence[Any]) -> str:
    """Return the first ten items for a message, and how many there are."""
    shown = ", ".join(map(repr, items[:10]))
    return f"{shown}, ... ({len(items)})" if len(items) > 10 else shown


def _of_mapping(
    variables: Mapping[Any, Any],
) -> tuple[list[int], list[Any], list[tuple[Any, ...] | None]]:
    """Return cardinalities, names and states of {name: number of states, or their names}."""
    cards: list[int] = []
    states: list[tuple[Any, ...] | None] = []
    for name, value in variables.items():
        own = None
        if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
            own = in_order(f"cardinalities[{name!r}]", value)
        count = value if own is None else len(own)
        if isinstance(count, (bool, np.bool_)) or not isinstance(count, (int, np.integer)):
            raise ValueError(
                f"cardinalities[{name!r}] must be a number of states or a sequence of their "
                f"names, got {value!r}"
            )
        if count < 1:
            raise ValueError(
                f"cardinalities[{name!r}] is {value!r}; a variable needs at least one state"
            )
        cards.append(int(count))
        states.append(own)
    return cards, list(variables), states


def _cardinalities(value: Any) -> tuple[int, ...]:
    try:
        cards = tuple(operator.index(c) for c in in_order("cardinalities", value))
    except TypeError:
        raise ValueError(f"cardinalities must be a sequence of integers, got {value!r}") from None
    for v, c in enumerate(cards):
        if c < 1:
            raise ValueError(f"cardinalities[{v}] is {c}; a variable needs at least one state")
        if c >= 2**31:
            raise ValueError(f"cardinalities[{v}] is {c}; a variable has fewer than 2**31 states")
    return cards


def _names(value: Sequence[Name], n: int) -> tuple[Any, ...]:
    names = _tuple("names", value)
    if len(names) != n:
        raise ValueError(f"names must have one entry for each of {n} variables, got {len(names)}")
    seen = set()
    for v, name in enumerate(names):
        _require_hash(f"names[{v}]", name)
        if name in seen:
            raise ValueError(f"names[{v}] is {name!r}, which another variable has already")
        seen.add(name)
    return names


def _states(
    value: Sequence[Sequence[Any] | None], cards: tuple[int, ...], names: tuple[Any, ...]
) -> tuple[tuple[Any, ...] | None, ...]:
    states = tuple(
        None if s is None else _tuple(f"states[{v}]", s)
        for v, s in enumerate(_tuple("states", value))
    )
    if len(states) != len(cards):
        raise ValueError(
            f"states must have one entry for each of {len(cards)} variables, got {len(states)}"
        )
    for v, s in enumerate(states):
        if s is None:
            continue
        if len(s) != cards[v]:
            raise ValueError(f"states[{v}] must have {cards[v]} entries, got {len(s)}")
        seen = set()
        for i, name in enumerate(s):
            _require_hash(f"states[{v}][{i}]", name)
            if name in seen:
                raise ValueError(
                    f"states[{v}][{i}] (variable {names[v]!r}) is {name!r}: the same name twice"
                )
            seen.add(name)
    return states


def _tuple(name: str, value: Any) -> tuple[Any, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ValueError(f"{name} must be a sequence, got {value!r}")
    return in_order(name, value)


def in_order(name: str, value: Iterable[Any]) -> tuple[Any, ...]:
    """Return what stands in a sequence; a set has no order, and that of a table's axes matters."""
    if isinstance(value, (set, frozenset)):
        raise ValueError(f"{name} must be a sequence, and a set has no order: write a list")
    return tuple(value)


def _wanted(given: Any) -> str:
    """Return what an error asks for where something else than a number was given."""
    return "a whole number" if isinstance(given, (float, np.floating)) else "a number"


def _require_hash(place: str, name: Any) -> None:
    try:
        hash(name)
    except TypeError:
        raise TypeError(
            f"{place} is {name!r}, which has no hash; names are text, numbers or tuples"
        ) from None
