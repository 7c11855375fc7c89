"""The parser of UDPipe 1, by ufal.udpipe: trained on tags of the treebank, and used on such."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from ufal.udpipe import InputFormat, Model, ProcessingError, Sentences, Trainer
from ufal.udpipe import Sentence as Tree

from valuesparse.parsing import Sentence, write_conll

EPOCHS = 10


def trees(sentences: Sequence[Sentence]) -> list[Tree]:
    """Return sentences as UDPipe has them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.conllu")
        write_conll(sentences, path)
        text = path.read_text(encoding="utf-8")
    reader = InputFormat.newConlluInputFormat()
    reader.setText(text)
    found, error = [], ProcessingError()
    tree = Tree()
    while reader.nextSentence(tree, error):
        found.append(tree)
        tree = Tree()
    if error.occurred():
        raise ValueError(error.message)
    return found


def train(
    sentences: Sequence[Sentence],
    path: Path,
    epochs: int = EPOCHS,
    *,
    projective: bool,
    single_root: bool,
) -> None:
    """Train a parser and keep it in a file; where trees are not projective, that swaps words.

    UDPipe wants a single root to be labelled "root".
    By default its parser reads forms, UPOS and FEATS; neither lemmas nor XPOS.
    """
    single_root &= all(
        label == "root"
        for s in sentences
        for head, label in zip(s.heads, s.labels, strict=True)
        if head == 0
    )
    options = [f"iterations={epochs}", f"single_root={int(single_root)}"]
    if not projective:
        options += ["transition_system=swap", "transition_oracle=static_lazy"]
    lessons = Sentences()
    for tree in trees(sentences):
        lessons.push_back(tree)
    error = ProcessingError()
    data = Trainer.train(
        "morphodita_parsito", lessons, Sentences(), Trainer.NONE, Trainer.NONE,
        ";".join(options), error,
    )  # fmt: skip
    if error.occurred():
        raise ValueError(error.message)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(data if isinstance(data, bytes) else data.encode("latin-1"))
    temporary.replace(path)


def load(path: Path) -> Model:
    """Return the parser of a file."""
    model = Model.load(str(path))
    if model is None:
        raise ValueError(f"{path} is no model of UDPipe")
    return model


def parse(model: Model, sentences: Sequence[Tree]) -> list[list[int]]:
    """Parse in place, by the model's default beam; return the heads of the words."""
    error = ProcessingError()
    for tree in sentences:
        if not model.parse(tree, Model.DEFAULT, error):
            raise ValueError(error.message)
    return [[word.head for word in list(tree.words)[1:]] for tree in sentences]


def parsed(model: Model, sentences: Sequence[Sentence]) -> list[Sentence]:
    """Return sentences with the heads and labels that UDPipe finds."""
    own = trees(sentences)
    heads = parse(model, own)
    labels = [[word.deprel for word in list(tree.words)[1:]] for tree in own]
    return [s.parsed(h, d) for s, h, d in zip(sentences, heads, labels, strict=True)]
