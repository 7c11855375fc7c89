"""The algorithm of a trainer and its parameters, as users set them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from valuesparse.crf.training._parameters import ALGORITHMS, ALIASES, parse

__all__ = ["Settings"]


class Settings:
    """The settings of :class:`valuesparse.crf.Trainer` before it trains."""

    _algorithm: str
    _values: dict[str, Any]

    def select(self, algorithm: str, type: str = "crf1d") -> None:
        """Choose the training algorithm; its parameters have their defaults afterwards.

        Parameters
        ----------
        algorithm : {'lbfgs', 'l2sgd', 'ap', 'pa', 'arow', 'aggressive'}
            L-BFGS (with c1 > 0: OWL-QN), stochastic gradient descent, averaged perceptron, passive
            aggressive, adaptive regularisation of weights, or the aggressive online learner of
            MSFXM10, which CRFsuite does not have.
        type : {'crf1d'}
            The kind of model.

        Raises
        ------
        TypeError, ValueError
            For another algorithm or type.
        """
        if not isinstance(algorithm, str):
            raise TypeError(f"algorithm must be a str, not {algorithm.__class__.__name__}")
        name = algorithm.lower()
        name = ALIASES.get(name, name)
        if name not in ALGORITHMS or type != "crf1d":
            known = ", ".join([*ALGORITHMS, *ALIASES])
            raise ValueError(
                f"Bad arguments: algorithm={name!r}, type={type!r}; there are the algorithms "
                f"{known} and the type 'crf1d'"
            )
        self._algorithm = name
        self._values = {key: spec.default for key, spec in ALGORITHMS[name].items()}

    def params(self) -> list[str]:
        """Return the names of the algorithm's parameters."""
        return list(self._values)

    def set_params(self, params: Mapping[str, Any]) -> None:
        """Set several parameters, given as a dict."""
        if not hasattr(params, "items"):
            raise TypeError(f"params must be a dict, not {type(params).__name__}")
        for name, value in params.items():
            self.set(name, value)

    def get_params(self) -> dict[str, Any]:
        """Return all parameters as a dict."""
        return {name: self.get(name) for name in self.params()}

    def set(self, name: str, value: Any) -> None:
        """Set a parameter; a text is converted.

        Raises
        ------
        ValueError
            The algorithm has no such parameter, or the value is no number where one is needed.
        """
        spec = ALGORITHMS[self._algorithm].get(name)
        if spec is None:
            known = ", ".join(self._values)
            raise ValueError(
                f"Parameter not found: {name} = {value}; {self._algorithm} has {known}"
            )
        self._values[name] = parse(name, spec, value)

    def get(self, name: str) -> Any:
        """Return the value of a parameter."""
        if name not in self._values:
            raise ValueError(f"Parameter not found: {name}")
        return self._values[name]

    def help(self, name: str) -> str:
        """Return what a parameter means."""
        if name not in self._values:
            raise ValueError(f"Parameter not found: {name}")
        return ALGORITHMS[self._algorithm][name].help
