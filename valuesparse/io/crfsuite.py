"""CRFsuite models: read the binary file, score items.

CRFsuite's text dump keeps six digits of a weight; the binary file that its trainers write keeps all
of them, so that marginals computed from it agree with CRFsuite's own to rounding.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from valuesparse._crf import ItemSequence, Scorer
from valuesparse._validation import as_array, as_iterator, as_sparse
from valuesparse.io._crfsuite_format import parse_model
from valuesparse.io._files import naming, read_file
from valuesparse.io.errors import ModelFormatError
from valuesparse.models import Chain

__all__ = ["CrfsuiteModel", "ModelFormatError", "read_crfsuite"]

# The largest float64: scores beyond it are refused.
_LARGEST = float(np.finfo(np.float64).max)


@dataclass(frozen=True, eq=False, repr=False)
class CrfsuiteModel:
    """A linear-chain CRF with sparse state weights, as CRFsuite trains it.

    Immutable, and may be shared between threads and pickled. K is the number of labels, A the
    number of attributes. A model that was trained on empty sequences only has no labels, and
    scores no items.

    Parameters
    ----------
    labels : tuple of str, K
        Labels in the order of their ids, which is the order of columns everywhere.
    attributes : tuple of str, A
        Attributes in the order of their ids.
    transition : (K, K) float64, [from, to]
        Log-potentials of transitions; 0 where the model has none, as CRFsuite scores it.
    state_weights : (A, K) float64 sparse array
        Log-potential that an attribute of value 1 gives to each label.

    Raises
    ------
    TypeError
        A name is not a str, or weights are not real numbers.
    ValueError
        Shapes do not agree, names repeat, a weight is NaN or infinite, or a sparse array has
        entries outside of its shape.

    See Also
    --------
    read_crfsuite : read a model from a file.

    Examples
    --------
    >>> model = CrfsuiteModel(
    ...     labels=("noun", "verb"),
    ...     attributes=("bias", "word:run"),
    ...     transition=[[0.0, 1.0], [0.5, 0.0]],
    ...     state_weights=[[0.25, 0.0], [0.0, 2.0]],
    ... )
    >>> model
    CrfsuiteModel(2 labels, 2 attributes, 2 state weights)
    >>> model.unary([["bias", "word:run"], {"bias": 2.0, "word": "walk"}])
    array([[0.25, 2.  ],
           [0.5 , 0.  ]])
    """

    labels: Sequence[str]
    attributes: Sequence[str]
    transition: npt.NDArray[np.float64]
    state_weights: Any
    _scorer: Scorer = field(init=False)

    def __post_init__(self) -> None:
        """Check and normalise the arguments."""
        labels, attributes = tuple(self.labels), tuple(self.attributes)
        for what, names in (("labels", labels), ("attributes", attributes)):
            for kind in set(map(type, names)):
                if not issubclass(kind, str):
                    raise TypeError(f"{what} must be str, not {kind.__name__}")
            repeats = len(names) - len(set(names))
            if repeats:
                raise ValueError(f"{what}: {repeats} of {len(names)} names are repeats")
        for what, value in (
            ("transition", self.transition),
            ("state_weights", self.state_weights),
        ):
            dtype = getattr(value, "dtype", None) or np.asarray(value).dtype
            if dtype.kind not in "biuf":
                raise TypeError(f"{what} must have real numbers, not {dtype}")
        # Views, so that freezing them leaves the caller's arrays writable.
        transition = as_array("transition", np.asarray(self.transition, np.float64)).view()
        transition.flags.writeable = False
        from scipy.sparse import csr_array, issparse  # the import takes longer than all of ours

        given = self.state_weights
        found = as_sparse("state_weights", given) if issparse(given) else given
        weights = csr_array(found, dtype=np.float64)
        if not weights.has_canonical_format:
            weights = weights.copy()
            weights.sum_duplicates()
        for part in ("data", "indices", "indptr"):
            array = as_array(part, getattr(weights, part)).view()
            array.flags.writeable = False
            setattr(weights, part, array)
        for what, matrix, shape, numbers in (
            ("transition", transition, (len(labels), len(labels)), transition),
            ("state_weights", weights, (len(attributes), len(labels)), weights.data),
        ):
            if matrix.shape != shape:
                raise ValueError(f"{what} must have shape {shape}, not {matrix.shape}")
            if not np.isfinite(numbers).all():
                raise ValueError(f"{what} has NaN or infinite entries; weights must be finite")
        scorer = Scorer(
            attributes,
            np.ascontiguousarray(weights.indptr, np.int64),
            np.ascontiguousarray(weights.indices, np.int32),
            np.ascontiguousarray(weights.data),
            np.ascontiguousarray(transition),
        )
        values = (labels, attributes, transition, weights, scorer)
        fields = ("labels", "attributes", "transition", "state_weights", "_scorer")
        for name, value in zip(fields, values, strict=True):
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        """Return the model's sizes."""
        return (
            f"CrfsuiteModel({len(self.labels)} labels, {len(self.attributes)} attributes, "
            f"{self.state_weights.nnz} state weights)"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arguments; the table of attributes is built anew."""
        return type(self), (self.labels, self.attributes, self.transition, self.state_weights)

    def unary(self, xseq: ItemSequence | Iterable[Any]) -> npt.NDArray[np.float64]:
        """Score the labels at every item of one sequence.

        Parameters
        ----------
        xseq : sequence of n items
            As ``pycrfsuite.Tagger`` takes it: an item is a list, tuple or set of attributes, or a
            dict from names to numbers, bools, strings, lists, sets or dicts. A
            ``pycrfsuite.ItemSequence`` is accepted too, but repeats within its items count once,
            because its ``items()`` keeps one. A single string is refused where python-crfsuite
            would take its characters for attributes.

        Returns
        -------
        (n, K) float64
            Log-potentials. Attributes that the model does not know add nothing.

        Raises
        ------
        TypeError
            An item, a name or a value is of a wrong type.
        ValueError
            A value is NaN or infinite, a score is too large for float64, or there are items but no
            labels.

        Examples
        --------
        >>> model = CrfsuiteModel(["A", "B"], ["tail:es", "caps"], [[0, 0], [0, 0]],
        ...                       [[1.0, -1.0], [0.5, 0.0]])
        >>> model.unary([{"tail": ["s", "es"], "caps": True}])
        array([[ 1.5, -1. ]])
        """
        return self._scorer.unary(xseq, True, False, _LARGEST)[0]

    def unary_batch(
        self, xseqs: Iterable[ItemSequence | Iterable[Any]]
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        """Score the labels at every item of many sequences, laid end to end.

        Parameters
        ----------
        xseqs : iterable of B sequences
            Each as in :meth:`unary`.

        Returns
        -------
        unary : (N, K) float64
            Log-potentials of the items of all sequences.
        lengths : (B,) int64
            The number of items of each sequence; they sum to N.

        Raises
        ------
        TypeError, ValueError
            As in :meth:`unary`.

        Examples
        --------
        >>> model = CrfsuiteModel(["A", "B"], ["x", "y"], [[0, 0], [0, 0]], [[1, 2], [3, 4]])
        >>> unary, lengths = model.unary_batch([[["x"], ["y"]], [], [["x", "y"]]])
        >>> unary.tolist()
        [[1.0, 2.0], [3.0, 4.0], [4.0, 6.0]]
        >>> lengths.tolist()
        [2, 0, 1]
        """
        return self._scorer.unary(as_iterator("xseqs", xseqs), False, False, _LARGEST)

    def chain(self, xseqs: Iterable[ItemSequence | Iterable[Any]]) -> Chain:
        """Make the chains of many sequences, ready for ``valuesparse.infer``.

        Parameters
        ----------
        xseqs : iterable of B sequences
            Each as in :meth:`unary`.

        Returns
        -------
        valuesparse.Chain
            With ``unary`` and ``lengths`` of :meth:`unary_batch` and this model's ``transition``.

        Raises
        ------
        TypeError, ValueError
            As in :meth:`unary`.

        Examples
        --------
        >>> import valuesparse as vs
        >>> model = CrfsuiteModel(["A", "B"], ["x", "y"], [[0, 0], [0, 0]], [[1, 2], [3, 4]])
        >>> vs.infer(model.chain([[["x"], ["y"]]])).marginals.round(3).tolist()
        [[0.269, 0.731], [0.269, 0.731]]
        """
        unary, lengths = self.unary_batch(xseqs)
        return Chain(unary, self.transition, lengths)


def scorer_of(model: CrfsuiteModel) -> Scorer:
    """Return what scores items for a model; it takes arguments as they come."""
    return model._scorer


def read_crfsuite(
    source: str | os.PathLike[str] | bytes | bytearray | memoryview,
    *,
    max_labels: int | None = None,
) -> CrfsuiteModel:
    """Read a binary model file that CRFsuite 0.12 or python-crfsuite has written.

    Parameters
    ----------
    source : str, os.PathLike, bytes, bytearray or memoryview
        The file's path, or its contents.
    max_labels : int, optional
        Refuse models with more labels. The dense (K, K) transition is the one thing that can be
        much larger than the file; by default it may have 1,024 labels, and more as long as it
        takes no more than 64 bytes for each byte of the file.

    Returns
    -------
    CrfsuiteModel
        All weights are the file's float64, bit for bit.

    Raises
    ------
    ModelFormatError
        The file is not a CRFsuite model, or is damaged; the message names the file, the chunk and
        the byte.
        Nothing in a file is trusted: counts, offsets, ids, weights (finite, at most 1e100 in
        magnitude), names (UTF-8, all different) and references are checked, and things may not
        share bytes. Only the hashes in the name tables are not compared with the names.
    OSError
        The file cannot be read.
    TypeError, ValueError
        `source` or `max_labels` is of a wrong type or size.

    Examples
    --------
    >>> model = read_crfsuite("tagger.crfsuite")  # doctest: +SKIP
    >>> read_crfsuite(b"lCRF")
    Traceback (most recent call last):
        ...
    valuesparse.io.errors.ModelFormatError: header at byte 0: 4 bytes, fewer than a header's 48
    """
    if max_labels is not None and operator.index(max_labels) < 1:
        raise ValueError(f"max_labels must be 1 or more, not {max_labels}")
    if isinstance(source, (bytes, bytearray, memoryview)):
        # Read from a copy: checked numbers must not change afterwards.
        data = bytes(source)
    elif isinstance(source, (str, os.PathLike)):
        data = read_file(source)
    else:
        raise TypeError(f"source must be a path or bytes, not {type(source).__name__}")
    with naming(source):
        parts = parse_model(data, max_labels)
    return CrfsuiteModel(*parts)
