"""The treebanks that parsers are measured on, and parsers trained on them, once.

docs/reproductions.md says where each comes from, and how it was made.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from _wanted import wanted

from valuesparse.parsing import Parser, Sentence, load, read_conll, train

#: The end of a hint.
ORIGIN = "docs/reproductions.md says where the treebanks come from"


@dataclass(frozen=True)
class Treebank:
    """Names of files of Universal Dependencies and CoNLL-X; columns without features."""

    train: str
    test: str
    ignore: tuple[str, ...] = ()


#: By language, in the order of the tables.
TREEBANKS = {
    "English": Treebank("en_ewt", "en_ewt"),
    "Danish": Treebank("da_cdt", "da_cdt"),
    "Dutch": Treebank("nl_alpinocdbl", "nl_alpinocdbl"),
    "Italian": Treebank("it_partut", "it_isdt"),
    # Its XPOS hold syntactic functions.
    "Portuguese": Treebank("pt_bosque", "pt_bosque", ("XPOS",)),
}


def lessons_file(folder: Path, language: str) -> Path:
    """Return the file that a language's parsers learn from."""
    return folder / f"{TREEBANKS[language].train}-train.conllu.gz"


def evaluation_file(folder: Path, language: str, part: str = "test") -> Path:
    """Return the file that a language's parsers are measured on."""
    return folder / f"{TREEBANKS[language].test}-{part}.conllu.gz"


def first(path: Path, count: int | None, longest: int | None = None, **how: Any) -> list[Sentence]:
    """Return the first sentences of a file, of `longest` words at most; None: no limit."""
    wanted(path, f"give a folder that has it as TREEBANKS; {ORIGIN}")
    short = (s for s in read_conll(path, **how) if longest is None or len(s) <= longest)
    return list(islice(short, count))


def trained(path: Path, sentences: Callable[[], list[Sentence]], **how: Any) -> Parser:
    """Return the parser of a file; where there is none, train it and keep it there."""
    if not path.exists():
        begun = time.process_time()
        parser = train(sentences(), **how)
        path.parent.mkdir(parents=True, exist_ok=True)
        parser.save(path)
        print(f"trained {path.name}: {time.process_time() - begun:.0f} s of processor", flush=True)
    return load(path)
