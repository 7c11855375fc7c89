"""Train a tagger on files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from valuesparse.corpora._files import as_paths
from valuesparse.crf.corpora._beside import beside, write_pair
from valuesparse.crf.corpora._features import TEMPLATE
from valuesparse.crf.corpora._formats import FORMATS, format_of
from valuesparse.crf.corpora._reader import FeatureSource, Reader, extraction_given
from valuesparse.crf.training.trainer import Trainer, require_apart
from valuesparse.io._files import check_target

__all__ = ["train_corpus"]


def _require_spared(
    what: str, path: Path, sources: Iterable[Path], features: FeatureSource | None
) -> None:
    """Refuse to write where the data are, or the template."""
    read = {source: "one of the inputs" for source in sources}
    if isinstance(features, str) and features.startswith(TEMPLATE):
        read[Path(features.removeprefix(TEMPLATE))] = "the template"
    for source, name in read.items():
        with suppress(FileNotFoundError):  # which is refused later
            if path.samefile(source):
                raise ValueError(f"{what}: {path} is {name}, and would be lost; name another file")


def train_corpus(
    inputs: Iterable[str | os.PathLike[str]],
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
    checkpoint: str | os.PathLike[str] | None = None,
) -> Trainer:
    """Train a model on files, and keep beside it how they were read, in ``MODEL.json``.

    ``MODEL.json`` has the SHA-256 of the model: who tags with it is told when the two do not belong
    together.

    Parameters
    ----------
    inputs : iterable of paths, or one path
        Files with labels.
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

    Returns
    -------
    Trainer
        The trainer, with its log.

    Raises
    ------
    ValueError
        A file or an argument is wrong, or there is no sentence.
    OSError
        A file cannot be read or written. Most such failures are found before training.
    """
    if input_format is not None and input_format not in FORMATS:
        raise ValueError(f"input_format must be one of {', '.join(FORMATS)}, not {input_format!r}")
    target = Path(model).resolve()
    sources = as_paths(inputs)
    if not sources:
        raise ValueError("inputs: there is no file")
    for path in (target, beside(target)):  # refused before the work, not after it
        check_target(path)
        require_apart(checkpoint, path)
        _require_spared("model", path, sources, features)
    if checkpoint is not None:
        _require_spared("checkpoint", Path(checkpoint), sources, features)
    trainer = Trainer(algorithm, params, verbose=False, threads=threads)
    kinds = {input_format or format_of(source) for source in sources}
    # Without a word on features, attribute files among others have theirs, and the rest has words.
    extraction = extraction_given(features or "words", word, tags)
    name = extraction.features
    if features is None and kinds == {"attributes"}:
        name = "attributes"
    kept: dict[str, Any] = {"features": name, "word": word, "tags": tags}
    if extraction.template is not None:
        # Its text goes with the model; the name is enough of its path.
        kept["features"] = TEMPLATE + Path(name.removeprefix(TEMPLATE)).name
        kept["template"] = extraction.template
        kept["template_sha256"] = extraction.digest
    count, any_items = 0, False
    for source in sources:
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
    data = trainer.train_inmemory(callback=callback, checkpoint=checkpoint)
    write_pair(target, data, kept)
    return trainer
