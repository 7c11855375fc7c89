"""Corpora in lines and in tables, and templates: tagged and trained on, as users do."""

from __future__ import annotations

import io
import shutil
from pathlib import Path
from random import Random

from fuzz.core import Read, Reading, target
from fuzz.graph_models import unpacked_size
from fuzz.mutators import BYTES, damaged, packed, texts
from valuesparse.crf import tag_corpus, train_corpus

CONLL = [
    b"the\tDET\ndog\tNOUN\nran\tVERB\n\na\tDET\ncat\tNOUN\n",
    b"the DET\ndog NOUN\n \nRome PROPN\n\n\n\nran VERB\n",
    "字\t名詞\nédit\tX\n\n".encode(),
]
CONLLU = [
    b"# sent_id = 1\n1-2\tx\t_\t_\t_\t_\t_\t_\t_\t_\n1\tthe\t_\tDET\tXD\t_\t2\tdet\t_\tA=b\n"
    b"2\tdog\t_\tNOUN\tXN\t_\t0\troot\t_\t_\n2.1\te\t_\t_\t_\t_\t_\t_\t_\t_\n\n"
    b"1\tran\t_\tVERB\tXV\t_\t0\troot\t_\t_\n\n",
    b"1\tRome\tRome\tPROPN\t_\tCase=Nom|Number=Sing\t0\troot\t_\tSpaceAfter=No\n",
]
TSV = [
    b"word\ttag\nthe\tDET\ndog\tNOUN\n\nran\tVERB\n",
    b"id\tpos\tform\tmore\n1\tDET\tthe\tx\n2\tNOUN\tdog\t\n\n1\tVERB\tran\ty\n",
]
ATTRIBUTES = [
    b"DET\tw=the\tbias\nNOUN\tw=dog\tbias:0.5\n\nVERB\tw=ran\tbias:-1e3\n",
    b"X\ta\\:b:2\tc\\\\d\nY\n\nX\ta:1\ta:2\n",
]
JSONL = [
    b'{"words": ["the", "dog"], "tags": ["DET", "NOUN"]}\n\n'
    b'{"tokens": ["ran"], "labels": ["VERB"]}\n',
    b'{"id": 7, "p": [1.5e3, null], "words": ["\\u5b57", "Rome"], "tags": ["X", "PROPN"]}\n',
]
TEMPLATES = [
    b"U00:%x[0,0]\nU01:%x[-1,0]/%x[0,1]\nB\n",
    b'# c\nU:%t[0,0,"^\\u*$"]\nu2:%M[@-1,0,"..$"]\nU3:%X[1,0]\n\n',
    b'U:%m[0,0,"a\\"b"]\r\nB00\n',
]
TEMPLATE_WORDS = (b"%x[0,0]", b"%t[0,0,\"a*a*\\p*$\"]", b"%m[", b"@", b"U", b"B", b"*", b'"',
                  b"%x[99999999999,0]", b"%x[0,99999999999]", b"(?P<a>", b"[",
                  b"(" * 500)  # fmt: skip
#: A line about all inputs together.
NONE = "inputs: "
SENTENCES = [
    (["the", "dog"], ["DET", "NOUN"]),
    (["ran"], ["VERB"]),
    (["字", "Rome"], ["X", "PROPN"]),
]


def model_of(path: Path) -> Path:
    """Write a model of words, with what is kept beside it, by way of a small corpus."""
    source = path.with_name("seed.conll")
    source.write_bytes(CONLL[0] + b"\n" + CONLL[1])
    train_corpus([source], path, params={"max_iterations": 3})
    return path


def train_and_tag(folder: Path, name: str) -> Read:
    """Return what tags a corpus, and at times trains on it first."""
    model = model_of(folder / "m.crfsuite")
    source, output = folder / name, folder / "out"

    def read(data: bytes, r: Random) -> None:
        source.write_bytes(data)
        shutil.rmtree(output, ignore_errors=True)
        # Training keeps what it reads.
        if r.random() < 0.25 and unpacked_size(data) < 1 << 16:
            train_corpus([source], folder / "other.crfsuite", params={"max_iterations": 1})
        marginals = r.choice(("none", "best", "all"))
        # Small shards, so that texts are cut, but no thousands of files.
        report = tag_corpus(model, source, output, marginals=marginals, jobs=1,
                            shard_bytes=r.choice((max(40, len(data) // 8), 1 << 22)))  # fmt: skip
        assert all(path.exists() for path in report.outputs)

    return read


def add(kind: str, suffix: str, seeds: list[bytes]) -> None:
    """List a format twice, for text and for gzip."""

    @target(kind)
    def text(folder: Path) -> Reading:
        name = "corpus" + suffix
        return Reading(seeds, texts(), train_and_tag(folder, name), named=(name, NONE))

    @target(f"{kind}.gz")
    def gzip(folder: Path) -> Reading:
        name = f"corpus{suffix}.gz"
        return Reading(
            seeds,
            packed(texts()),
            train_and_tag(folder, name),
            named=(name, NONE),
        )


add("conll", ".conll", CONLL)
add("conllu", ".conllu", CONLLU)
add("tsv", ".tsv", TSV)
add("attributes", ".crfsuite.txt", ATTRIBUTES)
add("jsonl", ".jsonl", JSONL)


@target("parquet", needs=("pyarrow",))
def parquet(folder: Path) -> Reading:
    import pyarrow
    import pyarrow.parquet

    words = [words for words, _ in SENTENCES] * 3
    tags = [tags for _, tags in SENTENCES] * 3
    seeds = []
    for options in (
        {"compression": "none"},
        {"compression": "snappy", "row_group_size": 4},
        {"compression": "gzip", "use_dictionary": False, "write_statistics": False},
        {"compression": "none", "data_page_version": "2.0", "write_page_checksum": True},
    ):
        file = io.BytesIO()
        table = pyarrow.table({"words": words, "tags": tags, "id": list(range(len(words)))})
        pyarrow.parquet.write_table(table, file, **options)
        seeds.append(file.getvalue())
    read = train_and_tag(folder, "corpus.parquet")
    return Reading(seeds, damaged(BYTES), read, named=("corpus.parquet", NONE))


@target("template")
def template(folder: Path) -> Reading:
    source, path = folder / "seed.conll", folder / "words.template"
    source.write_bytes(CONLL[0])

    def read(data: bytes, _: Random) -> None:
        shutil.rmtree(folder / "out", ignore_errors=True)
        path.write_bytes(data)
        train_corpus(
            [source], folder / "m.crfsuite", features=f"template:{path}",
            params={"max_iterations": 1},
        )  # fmt: skip
        tag_corpus(folder / "m.crfsuite", source, folder / "out", jobs=1)

    named = ("words.template", "seed.conll")
    return Reading(TEMPLATES, texts(*TEMPLATE_WORDS), read, named=named)
