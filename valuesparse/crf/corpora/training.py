"""Train a tagger on files."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from valuesparse._validation import as_choice, as_count
from valuesparse.corpora._text import Given, as_source, as_sources
from valuesparse.crf.corpora._beside import CONSTRAINTS, beside, write_pair
from valuesparse.crf.corpora._features import TEMPLATE, files_behind
from valuesparse.crf.corpora._formats import FORMATS
from valuesparse.crf.corpora._reader import (
    FeatureSource,
    Reader,
    extraction_given,
    kind_of,
)
from valuesparse.crf.training._held_out import CorpusTrainer
from valuesparse.crf.training._parameters import require_apart
from valuesparse.crf.training._possible import ImpossibleSequenceError
from valuesparse.crf.training._progress import asks_to_stop
from valuesparse.io._files import check_target, require_spared

__all__ = ["train_corpus"]


def train_corpus(
    inputs: Iterable[Given] | Given,
    model: str | os.PathLike[str],
    *,
    features: FeatureSource | None = None,
    input_format: str | None = None,
    word: str | None = None,
    tags: str | None = None,
    algorithm: str = "lbfgs",
    params: Mapping[str, Any] | None = None,
    threads: int | None = None,
    callback: Callable[[Any], object] | None = None,
    checkpoint: str | bytes | os.PathLike[str] | None = None,
    dev: Given | None = None,
    patience: int = 10,
    constraints: str | None = None,
) -> CorpusTrainer:
    """Train a model on files, and keep beside it how they were read, in ``MODEL.json``.

    ``MODEL.json`` has the SHA-256 of the model: who tags with it is told when the two do not belong
    together.

    Parameters
    ----------
    inputs : iterable of paths or binary files, or one of them
        Files with labels. One that is open is read once, and CoNLL unless `input_format` is given.
    model : path
        Where the model goes.
    features : str or callable, optional
        As in :func:`tag_corpus`. ``MODEL.json`` keeps a template as it is, and of a function the
        name alone: who tags has to give it again.
    input_format, word : str, optional
        As in :func:`tag_corpus`.
    tags : str, optional
        Name or number (from 1) of the column of labels; by default UPOS in CoNLL-U, the last column
        in CoNLL, ``tag``, ``label`` or the last one in TSV, ``tags`` in Parquet.
    algorithm, params, threads : optional
        As in :class:`valuesparse.crf.Trainer`.
    callback, checkpoint : optional
        As in :meth:`valuesparse.crf.Trainer.train`.
    dev : path or binary file, optional
        Held-out sentences. They are labelled after each iteration: `callback` finds
        ``dev_accuracy``, and of labels such as B-PER ``dev_entity_f1``, in the `info` of its
        progress. The model has the weights that were best at it, by F1 of entities where there are
        such, else by accuracy; nothing else of `dev` gets into it.
    patience : int
        Training stops once so many iterations brought nothing better.
    constraints : {"BIO", "BIOES", "IOB1"}, optional
        As in :class:`valuesparse.crf.Trainer`. ``MODEL.json`` keeps the name, and
        :func:`tag_corpus` tags under the same scheme unless it is told otherwise.

    Returns
    -------
    CorpusTrainer
        A :class:`Trainer`, with its log; `accuracy` is the share of the tokens of `inputs` that the
        model labels rightly, and `best` has the iteration that was kept, with its scores on `dev`.

    Raises
    ------
    ValueError
        A file or an argument is wrong, or there is no sentence.
    OSError
        A file cannot be read or written. Most such failures are found before training.
    """
    if input_format is not None:
        as_choice("input_format", input_format, FORMATS, "not")
    target = Path(model).resolve()
    sources = as_sources(inputs, "inputs")
    if not sources:
        raise ValueError("inputs: there is no file")
    held_out = None if dev is None else as_source(dev, "dev")
    patience = as_count("patience", patience, at_least=1)
    if held_out is not None and checkpoint is not None:
        raise ValueError(
            "dev cannot go with checkpoint, which does not keep the best weights so far: leave one "
            "of them out"
        )
    # Without a word on features, attribute files among others have theirs, and the rest has words.
    extraction = extraction_given(features or "words", word, tags)
    read: dict[Any, str] = dict.fromkeys(sources, "one of the inputs")
    read.update(files_behind(features))
    for path in (target, beside(target)):  # refused before the work, not after it
        check_target(path)
        require_apart(checkpoint, path)
        require_spared("model", path, read | ({held_out: "one of the inputs"} if held_out else {}))
    if checkpoint is not None:
        require_spared("checkpoint", Path(os.fsdecode(checkpoint)), read)
    trainer = CorpusTrainer(
        algorithm, params, verbose=False, threads=threads, constraints=constraints
    )
    kinds = {input_format or kind_of(source) for source in sources}
    name = extraction.features
    if features is None and kinds == {"attributes"}:
        name = "attributes"
    kept: dict[str, Any] = {"features": name, "word": word, "tags": tags}
    if constraints is not None:
        kept[CONSTRAINTS] = constraints
    if extraction.template is not None:
        # Its text goes with the model; the name is enough of its path.
        kept["features"] = TEMPLATE + Path(name.removeprefix(TEMPLATE)).name
        kept["template"] = extraction.template
        kept["template_sha256"] = extraction.digest
    count, any_items = 0, False
    begins = []  # how many sentences there are before each source
    for source in sources:
        begins.append(count)
        reader = Reader(source, input_format, extraction)
        for number, sentence in enumerate(reader, 1):
            assert sentence.labels is not None
            items = reader.items(sentence)
            try:
                trainer.append(items, sentence.labels)
            except (TypeError, ValueError) as error:
                raise ValueError(f"{source.name}: sentence {number}: {error}") from error
            count += 1
            any_items = any_items or any(items)
    if not count:
        raise ValueError("inputs: there is no sentence in them")
    if not any_items and name != "attributes":
        raise ValueError(f"inputs: the features {name} give no token an attribute")
    if not any_items:
        raise ValueError(
            "inputs: no token has an attribute; say --input-format (input_format=) if these files "
            "are not CRFsuite's attributes, which names that end in none of ours stand for"
        )
    if held_out is not None:
        _hold_out(trainer, Reader(held_out, input_format, extraction), patience)

    def watch(progress: Any) -> bool:
        stop = trainer.measured(progress)
        asked = callback is not None and asks_to_stop(callback(progress))
        return stop or asked

    try:
        data = trainer.train_inmemory(callback=watch, checkpoint=checkpoint)
    except ImpossibleSequenceError as error:
        at = bisect_right(begins, error.sequence) - 1
        number = error.sequence - begins[at] + 1
        raise ValueError(
            f"{sources[at].name}: sentence {number}, token {error.item + 1}: {error.cause}"
        ) from error
    write_pair(target, data, kept)
    return trainer


def _hold_out(trainer: CorpusTrainer, reader: Reader, patience: int) -> None:
    items, labels = [], []
    for sentence in reader:
        assert sentence.labels is not None
        items.append(reader.items(sentence))
        labels.append(sentence.labels)
    if not items:
        raise ValueError(f"dev: there is no sentence in {reader.path.name}")
    trainer.hold_out(items, labels, patience)
