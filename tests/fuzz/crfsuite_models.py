"""CRFsuite's model files, as a tagger opens them."""

from __future__ import annotations

import importlib.util
import struct
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
from crfsuite_files import small_file, write_model

from fuzz.core import Reading, target
from fuzz.mutators import BYTES, INTEGERS, Seeds, damaged
from valuesparse.crf.crfsuite import Tagger, Trainer
from valuesparse.io import CrfsuiteModel, ModelFormatError, read_crfsuite

WEIGHTS = (np.nan, np.inf, -np.inf, 1e300, -1e100, 1e99, 5e-324, -0.0)
DATA = [
    ([["a", "b"], {"f": 0.5}], ["X", "Y"]),
    ([["字"], ["é", "a"], ["a:b"]], ["名詞", "X", "Y"]),
    ([["b"]], ["Y"]),
]


def fields_of(data: bytes) -> list[list[int]]:
    """Return where the integers of a valid file stand that say how to read it, by their kinds."""
    begins = struct.unpack_from("<5I", data, 28)
    header = list(range(4, 48, 4))
    chunks = [begin + at for begin in begins for at in (4, 8)]
    (count,) = struct.unpack_from("<I", data, begins[0] + 8)
    features = [begins[0] + 12 + 20 * i + at for i in range(count) for at in (0, 4, 8)]
    tables: list[int] = []
    names: list[int] = []
    for begin in begins[1:3]:
        size, _, _, _, by_id = struct.unpack_from("<5I", data, begin + 4)
        chunks += [begin + 12, begin + 16, begin + 20]
        tables += range(begin + 24, begin + 2072, 4)
        for at in range(begin + by_id, begin + size, 4) if by_id else ():
            record = begin + struct.unpack_from("<I", data, at)[0]
            names += [at, record, record + 4]
        for table in range(begin + 24, begin + 2072, 8):
            at, buckets = struct.unpack_from("<2I", data, table)
            tables += range(begin + at, begin + at + 8 * buckets, 4) if at else ()
    references: list[int] = []
    for begin in begins[3:]:
        (size,) = struct.unpack_from("<I", data, begin + 4)
        references += range(begin + 12, begin + size, 4)
    return [group for group in (header, chunks, features, tables, names, references) if group]


class Mutator:
    """Damages model files, most often where it hurts."""

    def __init__(self, seeds: Seeds) -> None:
        self.fields = {data: fields_of(data) for data in seeds}
        self.anywhere = damaged(BYTES)

    def __call__(self, r: Random, seeds: Seeds) -> bytes:
        seed = r.choice(seeds)
        data = bytearray(seed)
        for _ in range(r.choice((1, 1, 1, 2, 3))):
            kind = r.randrange(10)
            if kind < 5:
                self.number(r, data, self.fields[seed])
            elif kind < 6:
                at = 48 + 12 + 12 + 20 * r.randrange(8)  # of a weight
                if at + 8 <= len(data):
                    struct.pack_into("<d", data, at, r.choice(WEIGHTS))
            else:
                data = bytearray(self.anywhere(r, [bytes(data)]))
        # Half of the files that changed their size say so, so that reading goes on.
        if len(data) >= 8 and r.random() < 0.5:
            struct.pack_into("<I", data, 4, len(data))
        return bytes(data)

    def number(self, r: Random, data: bytearray, groups: list[list[int]]) -> None:
        fields = r.choice(groups)
        at = r.choice(fields)
        if at + 4 > len(data):
            return
        (old,) = struct.unpack_from("<I", data, at)
        kind = r.randrange(4)
        if kind == 0:
            new = r.choice(INTEGERS)
        elif kind == 1:
            new = old + r.choice((-20, -12, -8, -4, -1, 1, 4, 8, 12, 20))
        elif kind == 2:
            new = len(data) + r.randrange(5) - 2
        else:
            (new,) = struct.unpack_from("<I", data, min(r.choice(fields), len(data) - 4))
        struct.pack_into("<I", data, at, new & 0xFFFFFFFF)


def assert_usable(model: CrfsuiteModel, size: int) -> None:
    """Check that a model read from a damaged file is a model all the same."""
    n_labels, n_attributes = len(model.labels), len(model.attributes)
    assert 1 <= n_labels <= size
    assert n_attributes <= size
    assert len(set(model.labels)) == n_labels
    assert len(set(model.attributes)) == n_attributes
    assert model.transition.shape == (n_labels, n_labels)
    assert np.isfinite(model.transition).all()
    some = list(model.attributes[:50])
    unary, lengths = model.unary_batch([[some, [], dict.fromkeys(some, 0.5)], [], [["unknown"]]])
    assert unary.shape == (4, n_labels)
    assert np.isfinite(unary).all()
    assert not unary[[1, 3]].any()
    assert lengths.tolist() == [3, 0, 1]
    expected = model.state_weights[: len(some)].sum(axis=0)
    np.testing.assert_allclose(unary[0], expected, rtol=1e-9, atol=1e-9)


def tagging(folder: Path) -> Callable[[bytes, Random], object]:
    """Return what opens a model file and tags with it."""
    path = folder / "m.crfsuite"

    def read(data: bytes, r: Random) -> None:
        tagger = Tagger()
        by_path = r.random() < 0.1
        try:
            if by_path:
                path.write_bytes(data)
                tagger.open(str(path))
            else:
                tagger.open_inmemory(data)
        except ModelFormatError as error:
            if not 0 <= error.offset <= len(data):
                raise AssertionError("the offset is not in the file") from error
            if error.path != (str(path) if by_path else None):
                raise AssertionError(f"the file is said to be {error.path}") from error
            raise
        assert_usable(tagger.model, len(data))
        items = [list(tagger.model.attributes[:5]), {"a": 1.0, "x": -2.0}, []]
        tags = tagger.tag(items)
        assert len(tags) == 3
        assert set(tags) <= set(tagger.labels())
        assert 0.0 <= tagger.probability(tags) <= 1.0 + 1e-9
        (table,) = tagger.marginals_batch([items])
        assert np.isfinite(table).all()
        np.testing.assert_allclose(table.sum(axis=1), 1.0, atol=1e-9)
        if r.random() < 0.2:
            assert set(tagger.info().labels) == set(tagger.labels())

    return read


@target("crfsuite")
def small(folder: Path) -> Reading:
    seeds = [
        small_file(),
        write_model(["A"], [], {}, {}),
        write_model(["A", "B"], ["x"], {(0, 1): 1.0}, {(0, 1): 2.0, (1, 0): -1.0}, pad=1),
        write_model(
            [f"L{i}" for i in range(9)],
            [f"attribute {i}" for i in range(40)],
            {(i, i % 9): float(i) for i in range(40)},
            {(i, j): i - j for i in range(9) for j in range(9)},
        ),
    ]
    return Reading(seeds, Mutator(seeds), tagging(folder))


@target("crfsuite-trained")
def trained(folder: Path) -> Reading:
    """Models of each algorithm, of python-crfsuite's too where it is installed."""
    seeds = []
    for algorithm in ("lbfgs", "l2sgd", "ap", "pa", "arow", "aggressive"):
        trainer = Trainer(algorithm, {"max_iterations": 3}, verbose=False)
        for xseq, yseq in DATA:
            trainer.append(xseq, yseq)
        seeds.append(trainer.train_inmemory())
    if importlib.util.find_spec("pycrfsuite"):
        import pycrfsuite

        for algorithm in ("lbfgs", "l2sgd", "ap", "pa", "arow"):
            other = pycrfsuite.Trainer(algorithm, {"max_iterations": 3}, verbose=False)
            for xseq, yseq in DATA:
                other.append(xseq, yseq)
            path = folder / f"{algorithm}.crfsuite"
            other.train(str(path))
            seeds.append(path.read_bytes())
    return Reading(seeds, Mutator(seeds), tagging(folder))


@target("crfsuite-usaddress", share=0.02, needs=("usaddress",))
def shipped(folder: Path) -> Reading:
    """A model of a public package, read without tagging, which takes longest."""
    spec = importlib.util.find_spec("usaddress")
    assert spec is not None
    assert spec.origin is not None
    seeds = [(Path(spec.origin).parent / "usaddr.crfsuite").read_bytes()]

    def read(data: bytes, _: Random) -> None:
        assert_usable(read_crfsuite(data), len(data))

    return Reading(seeds, Mutator(seeds), read)
