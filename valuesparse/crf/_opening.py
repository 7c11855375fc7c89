"""The model that a tagger opens: from a file, from bytes, or made by hand."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from valuesparse._validation import InitSignature, as_count, require_potentials
from valuesparse.crf._current import Current, Opened
from valuesparse.crf._dump import header_of, header_of_model
from valuesparse.crf._schemes import Forbidden, Rules
from valuesparse.io._files import naming, read_file
from valuesparse.io.crfsuite import CrfsuiteModel, read_crfsuite

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Opening"]


class Opening:
    """The part of :class:`valuesparse.crf.crfsuite.Tagger` that opens and closes models."""

    _opened: Opened | None
    _current: Current
    _max_labels: int | None
    __signature__: Any = InitSignature()

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Make a closed tagger; not in __init__, which subclasses of pycrfsuite's need not call."""
        self = super().__new__(cls)
        self._opened = None
        self._current = Current()
        self._rules = Rules(None, None)
        self._max_labels = None
        return self

    def __init__(
        self,
        *,
        constraints: str | None = None,
        forbidden: Forbidden | None = None,
        max_labels: int | None = None,
    ) -> None:
        if constraints is not None or forbidden is not None:
            self._rules = Rules(constraints, forbidden)
        if max_labels is not None:
            self._max_labels = as_count("max_labels", max_labels, at_least=1)

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in self.__dict__.items() if name != "_current"}
        opened = self._opened
        state["_opened"] = None if opened is None else (opened.model, opened.header)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        opened = state.pop("_opened")
        self.__dict__.update(state)
        # Protocols 0 and 1 of pickle make objects without __new__.
        self._opened, self._current = None, Current()
        self.__dict__.setdefault("_rules", Rules(None, None))
        self.__dict__.setdefault("_max_labels", None)
        if opened is not None:
            self._open(*opened)

    @classmethod
    def from_model(
        cls,
        model: CrfsuiteModel,
        *,
        constraints: str | None = None,
        forbidden: Forbidden | None = None,
    ) -> Self:
        """Return a tagger that has `model` open.

        Parameters
        ----------
        model : CrfsuiteModel
            From :func:`valuesparse.io.crfsuite.read_crfsuite`, or made by hand.
        constraints, forbidden : optional
            As for the class.

        Raises
        ------
        TypeError
            `model` is something else.
        ValueError
            Its transitions are too large, or its labels do not fit the constraints.
        """
        if not isinstance(model, CrfsuiteModel):
            raise TypeError(f"model must be a CrfsuiteModel, not {type(model).__name__}")
        self = cls()
        self._rules = Rules(constraints, forbidden)
        self._open(model, header_of_model(model))
        return self

    @property
    def model(self) -> CrfsuiteModel:
        """The open model, with all digits of its weights."""
        return self._require().model

    def open(self, name: str | bytes | os.PathLike[str]) -> contextlib.closing[Self]:
        """Open a model file, instead of the one that is open.

        Parameters
        ----------
        name : str, bytes or os.PathLike
            The path of the file.

        Returns
        -------
        contextlib.closing
            A context that closes this tagger: for ``with``.

        Raises
        ------
        OSError
            The file cannot be read.
        ModelFormatError
            It is not a model, or is damaged: a `ValueError`. The model that was open stays open.
        """
        path = os.fsdecode(name)
        with naming(path):
            return self._open_bytes(read_file(path))

    def open_inmemory(self, value: bytes) -> contextlib.closing[Self]:
        """Open a model from the contents of its file.

        Parameters
        ----------
        value : bytes
            The contents; a bytearray or memoryview will do.

        Returns
        -------
        contextlib.closing
            As :meth:`open`, which tells what is raised, too.

        Raises
        ------
        TypeError
            `value` is not bytes.
        """
        if not isinstance(value, (bytes, bytearray, memoryview)):
            raise TypeError(f"value must be bytes, not {type(value).__name__}")
        return self._open_bytes(bytes(value))

    def _open_bytes(self, data: bytes) -> contextlib.closing[Self]:
        self._open(read_crfsuite(data, max_labels=self._max_labels), header_of(data))
        return contextlib.closing(self)

    def _open(self, model: CrfsuiteModel, header: dict[str, str]) -> None:
        require_potentials("transition", np.ascontiguousarray(model.transition))
        self._opened = Opened.under(self._rules, model, header)

    def close(self) -> None:
        """Close the model."""
        self._opened = None

    def labels(self) -> list[str]:
        """Return the labels of the model, in the order of their ids and of all columns."""
        return list(self._require().labels)

    def _require(self, error: Exception | None = None) -> Opened:
        opened = self._opened
        if opened is None:
            raise error or ValueError("The tagger is not opened")
        return opened
