"""Model files of parsers: a parser, or an error that names the place."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from random import Random

import numpy as np

from fuzz.core import Reading, target
from fuzz.mutators import BYTES, Seeds, damaged
from valuesparse.io import ModelFormatError
from valuesparse.parsing import Sentence, load, train
from valuesparse.parsing._model import bytes_of, model_of

DIGEST, START = 32, 16
SENTENCES = [
    Sentence(["a", "b", "."], upos=["DET", "NOUN", "PUNCT"], heads=[2, 0, 2], labels=list("xyz")),
    Sentence(["b", "字"], upos=["NOUN", "VERB"], heads=[2, 0], labels=["x", "root"]),
]
VALUES = (0, 1, -1, 2, 3, 4, 5, 20, 21, 2**31, 1.5, True, None, "", "tree", [], ["x"], ["XPOS"],
          ["x", "x"], ["\ud800"], {}, 10**30)  # fmt: skip
NUMBERS = (np.nan, np.inf, -np.inf, 65504.0, -65504.0, -0.0, 6e-8)


def seal(body: bytes) -> bytes:
    """Return a file with the right checksum."""
    return body + hashlib.sha256(body).digest()


def mutate(r: Random, seeds: Seeds) -> bytes:
    """Damage the header, its fields, some weights or anything, most often under a checksum."""
    seed = r.choice(seeds)
    body = seed[:-DIGEST]
    kind = r.randrange(5)
    if kind == 0:
        body = damaged(BYTES)(r, [body])
    elif kind == 1:
        size = int.from_bytes(body[12:16], "little")
        header = json.loads(body[START : START + size])
        if "keys" in header and r.random() < 0.5:
            sizes = header["keys"]
            for _ in range(r.choice((1, 2))):
                k = r.randrange(len(sizes))
                sizes[k] = r.choice((0, 1, -1, sizes[k] + 1, sizes[k] - 1, 2**26, 2**63, 1.5, "1"))
        for _ in range(r.choice((0, 1, 1, 2))):
            header[r.choice(sorted(header))] = r.choice(VALUES)
        if r.random() < 0.1:
            header.pop(r.choice(sorted(header)))
        text = json.dumps(header).encode()
        body = body[:12] + len(text).to_bytes(4, "little") + text + body[START + size :]
    elif kind == 2:
        data = bytearray(body)
        for _ in range(r.choice((1, 3, 20))):
            at = len(data) - 2 * r.randrange(1, 500)
            data[at : at + 2] = np.float16(r.choice(NUMBERS)).tobytes()
        body = bytes(data)
    elif kind == 3:  # what follows the header: keys, where they have names
        data = bytearray(body)
        first = START + int.from_bytes(body[12:16], "little")
        for _ in range(r.choice((1, 1, 4))):
            at = r.randrange(min(first, len(data) - 1), min(len(data), first + 4000))
            data[at] = r.choice((0, 1, 0x7F, 0xFF, r.randrange(256)))
        body = bytes(data)
    else:
        at = r.choice((8, 12, 15))
        body = body[:at] + bytes([r.randrange(256)]) + body[at + 1 :]
    return seal(body) if r.random() < 0.9 else damaged(BYTES)(r, [seal(body)])


@target("parser", share=0.1)
def parsers(folder: Path) -> Reading:
    path = folder / "m.parser"
    seeds = [
        bytes_of(
            train(SENTENCES, order, bits=4, epochs=3, prune=prune, features=features).model
        )
        for order, prune, features in (
            (1, True, "hashed"), (1, False, "hashed"), (2, True, "hashed"),
            (1, True, "supported"), (2, False, "complete"),
        )
    ]  # fmt: skip

    # Averaged weights are 0 after one pass: no feature would be left.
    assert all(model_of(seed).weights.any() for seed in seeds)

    def read(data: bytes, _: Random) -> None:
        path.write_bytes(data)
        try:
            parser = load(path)
        except ModelFormatError as error:
            if not 0 <= error.offset <= len(data):
                raise AssertionError("the offset is not in the file") from error
            raise
        for sentence in parser.parse([Sentence(["b", "a", "?", "."]), SENTENCES[0]], threads=1):
            assert set(sentence.labels) <= set(parser.labels)
            assert ((sentence.confidence >= 0.0) & (sentence.confidence <= 1.0)).all()
            "".join(sentence.labels).encode()

    return Reading(seeds, mutate, read, named=(path.name,))
