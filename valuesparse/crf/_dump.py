"""The contents of a model as CRFsuite dumps them: in text, and as dicts made of the text."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from valuesparse.io.crfsuite import CrfsuiteModel

__all__ = [
    "CRFsuiteDumpParser",
    "ParsedDump",
    "dump_lines",
    "header_of",
    "header_of_model",
    "parse",
]

_HEADER = struct.Struct("<4sI4s4I5I")
_NAMES = (
    "magic",
    "size",
    "type",
    "version",
    "num_features",
    "num_labels",
    "num_attrs",
    "off_features",
    "off_labels",
    "off_attrs",
    "off_labelrefs",
    "off_attrrefs",
)


@dataclass
class ParsedDump:
    """Parameters of a model; weights have the six decimals of CRFsuite's dump.

    Attributes
    ----------
    header : dict
        The fields of the file's header, as text.
    labels, attributes : dict
        ``{name: id}``, ids as text.
    transitions : dict
        ``{(from_label, to_label): weight}``
    state_features : dict
        ``{(attribute, label): weight}``
    """

    header: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    attributes: dict[str, str] = field(default_factory=dict)
    transitions: dict[tuple[str, str], float] = field(default_factory=dict)
    state_features: dict[tuple[str, str], float] = field(default_factory=dict)


def header_of(data: bytes) -> dict[str, str]:
    """Return what the header of a model file says, as CRFsuite writes it.

    Examples
    --------
    >>> header_of(b"lCRF" + bytes([48, 0, 0, 0]) + b"FOMC" + bytes(36))["size"]
    '48'
    """
    header = {}
    for name, value in zip(_NAMES, _HEADER.unpack_from(data), strict=True):
        if isinstance(value, bytes):
            header[name] = value.decode("latin-1")
        else:
            header[name] = f"0x{value:X}" if name.startswith("off_") else str(value)
    return header


def header_of_model(model: CrfsuiteModel) -> dict[str, str]:
    """Return the header of a model that comes from no file: sizes and offsets are 0."""
    header = header_of(_HEADER.pack(b"lCRF", 0, b"FOMC", 100, *[0] * 8))
    header["num_labels"] = str(len(model.labels))
    header["num_attrs"] = str(len(model.attributes))
    return header


def _transitions(model: CrfsuiteModel) -> Iterator[tuple[str, str, float]]:
    """Yield label, next label and weight of each transition that is not 0."""
    labels = model.labels
    for source, target in zip(*(part.tolist() for part in model.transition.nonzero()), strict=True):
        yield labels[source], labels[target], float(model.transition[source, target])


def _states(model: CrfsuiteModel) -> Iterator[tuple[str, str, float]]:
    """Yield attribute, label and weight of each state feature."""
    weights = model.state_weights
    indptr, indices, data = (
        part.tolist() for part in (weights.indptr, weights.indices, weights.data)
    )
    for a, attribute in enumerate(model.attributes):
        for at in range(indptr[a], indptr[a + 1]):
            yield attribute, model.labels[indices[at]], data[at]


def dump_lines(model: CrfsuiteModel, header: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of CRFsuite's text dump."""
    yield "FILEHEADER = {\n"
    yield from (f"  {name}: {value}\n" for name, value in header.items())
    yield "}\n\n"
    for title, names in (("LABELS", model.labels), ("ATTRIBUTES", model.attributes)):
        yield f"{title} = {{\n"
        yield from (f"  {i:5}: {name}\n" for i, name in enumerate(names))
        yield "}\n\n"
    for title, kind, features in (
        ("TRANSITIONS", 1, _transitions(model)),
        ("STATE_FEATURES", 0, _states(model)),
    ):
        yield f"{title} = {{\n"
        yield from (f"  ({kind}) {a} --> {b}: {weight:f}\n" for a, b, weight in features)
        yield "}\n\n"


def parse(model: CrfsuiteModel, header: Mapping[str, str]) -> ParsedDump:
    """Return what a reader of the dump would."""
    return ParsedDump(
        dict(header),
        {name: str(i) for i, name in enumerate(model.labels)},
        {name: str(i) for i, name in enumerate(model.attributes)},
        {(a, b): float(f"{weight:f}") for a, b, weight in _transitions(model)},
        {(a, b): float(f"{weight:f}") for a, b, weight in _states(model)},
    )


_TITLE = re.compile(r"(FILEHEADER|LABELS|ATTRIBUTES|TRANSITIONS|STATE_FEATURES) = \{")
_FIELD = re.compile(r"(\w+): (.*)")
_FEATURE = re.compile(r"\(\d+\) (.+): ([+-]?\d+\.\d+)")
_ARROW = " --> "


class CRFsuiteDumpParser:
    """Reads the text that :meth:`Tagger.dump` writes, line by line.

    Attributes
    ----------
    state : str or None
        The part of the dump that the next line belongs to.
    result : ParsedDump
        The contents read so far.

    Notes
    -----
    Each line of a part goes, without blanks before it, to the method ``parse_`` of that part.
    Subclasses may override them.

    Examples
    --------
    >>> parser = CRFsuiteDumpParser()
    >>> for line in ["LABELS = {", "      0: noun", "      1: verb", "}"]:
    ...     parser.feed(line)
    >>> parser.result.labels
    {'noun': '0', 'verb': '1'}
    """

    def __init__(self) -> None:
        self.state: str | None = None
        self.result = ParsedDump()
        self._sizes: set[int] = set()  # lengths of label names seen, when _sized were:
        self._sized = 0

    def feed(self, line: str) -> None:
        """Take one line.

        Parameters
        ----------
        line : str
            With or without its end.

        Raises
        ------
        ValueError
            The line is not one that a dump has at this place.
        """
        line = line.lstrip().rstrip("\r\n")  # a name may end with blanks
        if not line:
            return
        if title := _TITLE.match(line):
            self.state = title[1]
        elif line == "}":
            self.state = None
        elif self.state is None:
            raise self._error(line)
        else:
            getattr(self, f"parse_{self.state}")(line)

    def parse_FILEHEADER(self, line: str) -> None:
        """Take a field of the header."""
        name, value = self._field(line)
        self.result.header[name] = value

    def parse_LABELS(self, line: str) -> None:
        """Take a label and its id."""
        number, name = self._field(line)
        self.result.labels[name] = number

    def parse_ATTRIBUTES(self, line: str) -> None:
        """Take an attribute and its id."""
        number, name = self._field(line)
        self.result.attributes[name] = number

    def parse_TRANSITIONS(self, line: str) -> None:
        """Take the weight of a transition."""
        self._feature(line, self.result.labels, self.result.transitions)

    def parse_STATE_FEATURES(self, line: str) -> None:
        """Take the weight of an attribute and a label."""
        self._feature(line, self.result.attributes, self.result.state_features)

    def _field(self, line: str) -> tuple[str, str]:
        """Return what stands before and after the colon."""
        found = _FIELD.match(line)
        if found is None:
            raise self._error(line)
        return found[1], found[2]

    def _feature(
        self, line: str, first: dict[str, str], into: dict[tuple[str, str], float]
    ) -> None:
        found = _FEATURE.match(line)
        if found is None:
            raise self._error(line)
        labels, both = self.result.labels, found[1]
        if len(labels) != self._sized:
            self._sizes, self._sized = set(map(len, labels)), len(labels)
        # Names may hold an arrow themselves: both sides of the right one are known.
        at = both.rfind(_ARROW)
        while at >= 0:
            begin = at + len(_ARROW)
            if len(both) - begin in self._sizes and both[begin:] in labels and both[:at] in first:
                into[both[:at], both[begin:]] = float(found[2])
                return
            at = both.rfind(_ARROW, 0, begin - 1)
        raise self._error(line)

    def _error(self, line: str) -> ValueError:
        where = "outside of all parts" if self.state is None else f"in {self.state}"
        return ValueError(f"{line!r} cannot stand {where} of a CRFsuite dump")
