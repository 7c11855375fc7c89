"""Small corpora, models of them, and processes that tag them until they are killed."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import children

from valuesparse.crf import train_corpus

LEXICON = {"the": "DET", "a": "DET", "dog": "NOUN", "cat": "NOUN", "Rome": "PROPN", "saw": "VERB",
           "ran": "VERB", "in": "ADP"}  # fmt: skip


def sentences(count: int, seed: int = 0) -> list[tuple[list[str], list[str]]]:
    rng = random.Random(seed)
    found = []
    for _ in range(count):
        words = rng.choices(list(LEXICON), k=rng.randint(1, 9))
        found.append((words, [LEXICON[word] for word in words]))
    return found


def as_conll(data: list, apart: str = "\t") -> str:
    return "".join(
        "".join(f"{w}{apart}{t}\n" for w, t in zip(*s, strict=True)) + "\n" for s in data
    )


def as_conllu(data: list) -> str:
    return "".join(
        f"# sent_id = {n}\n"
        + "1-2\tx\t_\t_\t_\t_\t_\t_\t_\t_\n"
        + "".join(f"{i}\t{w}\t_\t{t}\tX{t}\t_\t0\t_\t_\t{'A=b' if i == 1 else '_'}\n"
                  for i, (w, t) in enumerate(zip(*s, strict=True), 1))
        + "\n"
        for n, s in enumerate(data)
    )  # fmt: skip


def attributes_of(words: list[str]) -> list[list[str]]:
    """Return attributes, as a user's function does."""
    return [["w=" + word] for word in words]


def make_model(folder: Path) -> Path:
    """Train a model in a folder."""
    (folder / "train.conll").write_text(as_conll(sentences(60)))
    train_corpus([folder / "train.conll"], folder / "m.crfsuite", params={"c2": 0.1})
    return folder / "m.crfsuite"


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


KILLED = """
import sys
from valuesparse.crf import tag_corpus
tag_corpus(sys.argv[1], [sys.argv[2]], sys.argv[3], shard_bytes=int(sys.argv[4]), jobs=2)
"""


def begin_tagging(
    model: Path, source: Path, out: Path, shard_bytes: int, stderr: int | None = None
) -> subprocess.Popen[bytes]:
    """Start a process that tags, to be killed."""
    return subprocess.Popen(
        [sys.executable, "-c", KILLED, model, source, out, str(shard_bytes)],
        env=children.environment(),
        cwd=out.parent,
        stderr=stderr,
    )


def kill(child: subprocess.Popen[bytes]) -> bool:
    """Kill a process; say whether it was still running."""
    child.send_signal(signal.SIGKILL)
    return child.wait() == -signal.SIGKILL
