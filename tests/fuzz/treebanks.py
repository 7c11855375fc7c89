"""Treebanks: what is taken is written as it was read, and is a tree where that was demanded."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
from stub_parser import StubParser

from fuzz.core import Reading, target
from fuzz.graph_models import unpacked_size
from fuzz.mutators import Mutate, packed, texts
from valuesparse.io.errors import TextFormatError
from valuesparse.parsing import Sentence, evaluate, read_conll, write_conll
from valuesparse.parsing._conll import sentence_of
from valuesparse.parsing._corpora import parse_file
from valuesparse.parsing._files import lines_of

SEEDS = [
    b"# sent_id = 1\n1-2\tx\t_\t_\t_\t_\t_\t_\t_\t_\n1\tthe\tthe\tDET\tXD\t_\t2\tdet\t2:det\tA=b\n"
    b"2\tdog\tdog\tNOUN\tXN\tA=b|C=d\t0\troot\t_\t_\n2.1\te\t_\t_\t_\t_\t_\t_\t1:x\t_\n\n"
    b"1\tran\t_\tVERB\tXV\t_\t0\troot\t_\tHeadProbability=0.5|X=y\n\n",
    b"\xef\xbb\xbf1\tRome\tRome\tPROPN\t_\t_\t3\tnsubj\t_\tSpaceAfter=No\r\n"
    b"2\tis\tbe\tAUX\t_\t_\t3\tcop\t_\t_\r\n3\tbig\tbig\tADJ\t_\t_\t0\troot\t_\t_\r\n",
    "1\t字\t_\tX\t_\t_\t0\t_\t_\t_\n\n# end\n\n".encode(),
]
WORDS = (b"1-2", b"2-1", b"1.1", b"0.1", b"1", b"2", b"10", b"_", b"\t_\t", b"\n\n", b"\r\n", b"#",
         b"HeadProbability=", b"|", b"9" * 20)  # fmt: skip
COLUMNS = ("forms", "lemmas", "upos", "xpos", "feats", "labels", "deps", "misc")


def same(one: list[Sentence], other: list[Sentence]) -> bool:
    """Return whether sentences have the same cells, heads and lines beside their words."""
    return len(one) == len(other) and all(
        a.heads.tolist() == b.heads.tolist()
        and list(a.others) == list(b.others)
        and all(getattr(a, name) == getattr(b, name) for name in COLUMNS)
        for a, b in zip(one, other, strict=True)
    )


def add(name: str, suffix: str, seeds: list[bytes], mutate: Mutate) -> None:
    """List a kind of files."""

    @target(name)
    def treebank(folder: Path) -> Reading:
        source, copy = folder / f"a{suffix}", folder / f"b{suffix}"

        def read(data: bytes, r: Random) -> None:
            source.write_bytes(data)
            check = r.choice((None, "training"))
            found = list(read_conll(source, check=check))
            if unpacked_size(data) > 1 << 18:
                return
            write_conll(found, copy)
            # A CR at the end of a line is part of its end, and only one.
            ends = [end for s in found for end in (*s.misc, *(line for _, line in s.others))]
            if not any(end.endswith("\r") for end in ends):
                assert same(found, list(read_conll(copy)))
            if check == "training":
                for sentence in found:
                    assert_tree(sentence.heads)
                assert evaluate(found, found)[0] in (0, 1)

        return Reading(seeds, mutate, read, named=(source.name,))


def assert_tree(heads: np.ndarray) -> None:
    """Check that every word leads to the root."""
    way = np.arange(1, len(heads) + 1)
    parents = np.concatenate([[0], heads])
    for _ in heads:
        way = parents[way]
    assert not way.any()


add("treebank-conllu", ".conllu", SEEDS, texts(*WORDS))
add("treebank-conllu.gz", ".conllu.gz", SEEDS, packed(texts(*WORDS)))
add("treebank-conllx", ".conllx", SEEDS[1:], texts(*WORDS))


@target("parse-file")
def parsed(folder: Path) -> Reading:
    """A file that is parsed: sentences that are wrong end it, or are copied as they are."""
    source, copy = folder / "a.conllu", folder / "b.conllu"

    def read(data: bytes, r: Random) -> None:
        source.write_bytes(data)
        on_error = r.choice(("stop", "skip"))
        copy.unlink(missing_ok=True)
        try:
            counts = parse_file(
                StubParser("x"), source, copy, options={"threads": 1}, on_error=on_error
            )
        except ValueError:
            assert not copy.exists()
            raise
        before, after = list(lines_of(source)), list(lines_of(copy))
        assert len(before) == len(after)
        left = 0
        for one, other in zip(before, after, strict=True):
            try:
                sentence, found = sentence_of(one, "conllu"), sentence_of(other, "conllu")
            except TextFormatError:
                # One mark or CR of several is none of the text.
                both = [[x.strip("\r\ufeff") for x in lines.lines] for lines in (one, other)]
                assert both[0] == both[1]
                left += 1
                continue
            n = len(sentence)
            assert found.forms == sentence.forms
            assert found.heads.tolist() == [*range(2, n + 1), 0][:n]
        assert counts.left == left
        # So that both outcomes are counted.
        if left:
            raise ValueError(f"{source}: {left} sentences were left")

    made = texts(*WORDS, b"refuse-me")
    return Reading(SEEDS, made, read, named=(source.name,))
