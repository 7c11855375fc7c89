"""A part-of-speech tagger trained on CoNLL-style files, as input for benchmarks.

CoNLL-style: a token a line in columns, sentences apart by blank lines, plain or gzipped. In
CoNLL-U the word is column 1 and the tags are columns 3 (UPOS) and 4 (XPOS); in CoNLL 2003 the word
is column 0 and the tag column 1.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from _wanted import wanted

from valuesparse.cli._features import shape
from valuesparse.cli._training import train_crf
from valuesparse.io import CrfsuiteModel, read_crfsuite

# English-EWT beside the repository, where the project keeps its data.
DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "ud"
TRAIN, TEST = DATA / "en_ewt-train.conllu.gz", DATA / "en_ewt-test.conllu.gz"
CACHE = Path(tempfile.gettempdir()) / "valuesparse-models"
# Attributes may change between versions: part of the name a model is kept under.
VERSION = 1


@dataclass(frozen=True)
class Tagging:
    """A trained model and the sentences to tag.

    Attributes
    ----------
    name : str
        The training data of each model.
    model : CrfsuiteModel
        Labels, transitions and state weights.
    sentences : list of list of list of str
        Attributes of each token of each test sentence.
    tags : list of list of str
        The tags the file gives them.
    """

    name: str
    model: CrfsuiteModel
    sentences: list[list[list[str]]]
    tags: list[list[str]]


def read_conll(path: Path, word: int, tag: int) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the words and the tags of each sentence."""
    opened = gzip.open if path.suffix == ".gz" else open
    words: list[str] = []
    tags: list[str] = []
    with opened(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            columns = line.rstrip("\n").split("\t") if "\t" in line else line.split()
            if not columns or columns == [""]:
                if words:
                    yield words, tags
                words, tags = [], []
            elif columns[0].startswith("-DOCSTART-") or (word > 0 and not columns[0].isdigit()):
                # Comments, and in CoNLL-U ranges and empty nodes: no tokens of the sentence.
                continue
            elif max(word, tag) >= len(columns):
                raise ValueError(
                    f"{path}, line {number}: {len(columns)} columns, none numbered "
                    f"{max(word, tag)}; say which columns hold words and tags"
                )
            else:
                words.append(columns[word])
                tags.append(columns[tag])
    if words:
        yield words, tags


def conll_file(path: Path, option: str) -> Path:
    """Return the file that --train or --test names; where there is none, end the script."""
    return wanted(
        path,
        "the default input is English-EWT of Universal Dependencies "
        "(https://github.com/UniversalDependencies/UD_English-EWT); give its "
        f"{option.removeprefix('--')} file, or any in CoNLL format, with {option}",
    )


def attributes(words: list[str]) -> list[list[str]]:
    """Return the attributes of each word: itself, its ends, its shape and its neighbours."""
    padded = ["<s>", *words, "</s>"]
    rows = []
    for i, word in enumerate(words):
        before, after = padded[i], padded[i + 2]
        row = ["bias", f"w={word}", f"lower={word.lower()}", f"shape={shape(word)}"]
        row += [f"end={word[-n:]}" for n in range(1, min(4, len(word)) + 1)]
        row += [f"start={word[:n]}" for n in range(1, min(3, len(word)) + 1)]
        row += [f"w-1={before.lower()}", f"w+1={after.lower()}", f"shape+1={shape(after)}"]
        rows.append(row)
    return rows


def load(
    train: Path = TRAIN,
    test: Path = TEST,
    *,
    word: int = 1,
    tag: int = 4,
    cache: Path = CACHE,
) -> Tagging:
    """Train a tagger on one file, unless `cache` has it already, and read another to tag.

    Parameters
    ----------
    train, test : Path
        CoNLL-style files.
    word, tag : int
        Columns of the word and of its tag, counted from 0.
    cache : Path
        Folder for trained models.
    """
    train, test = conll_file(train, "--train"), conll_file(test, "--test")
    digest = hashlib.sha256(train.read_bytes()).hexdigest()[:16]
    path = cache / f"{train.stem.split('.')[0]}-{word}-{tag}-v{VERSION}-{digest}.crfsuite"
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        corpus = list(read_conll(train, word, tag))
        train_crf((attributes(words) for words, _ in corpus), (tags for _, tags in corpus), path)
    corpus = list(read_conll(test, word, tag))
    return Tagging(
        name=f"tags of {test.name.split('.')[0]}, trained on {train.name.split('.')[0]}",
        model=read_crfsuite(path),
        sentences=[attributes(words) for words, _ in corpus],
        tags=[tags for _, tags in corpus],
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that say what to train on and what to tag."""
    parser.add_argument("--train", type=Path, default=TRAIN, help="CoNLL-style file to train on")
    parser.add_argument("--test", type=Path, default=TEST, help="CoNLL-style file to tag")
    parser.add_argument("--word-column", type=int, default=1, help="counted from 0")
    parser.add_argument("--tag-column", type=int, default=4, help="counted from 0")
    parser.add_argument(
        "--cache-dir", type=Path, default=CACHE, help="where trained models are kept"
    )


def load_chosen(options: argparse.Namespace) -> Tagging:
    """Load what the options of `add_arguments` name."""
    return load(
        options.train,
        options.test,
        word=options.word_column,
        tag=options.tag_column,
        cache=options.cache_dir,
    )
