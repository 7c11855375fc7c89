"""``valuesparse dump``: what a tagger's model holds, as text."""

from __future__ import annotations

from pathlib import Path

import click

from valuesparse.cli._models import one_line_errors, spare
from valuesparse.cli._options import max_labels_option, writable
from valuesparse.cli._streams import Spooled, Target, delivering


@click.command()
@click.argument("model", type=Spooled())
@click.option(
    "--output", "-o", type=Target(), callback=writable, metavar="FILE",
    help="Where the text goes, instead of the terminal.",
)  # fmt: skip
@max_labels_option
def dump(model: Path, output: Path | None, max_labels: int | None) -> None:
    """Print labels, attributes and weights of MODEL, as crfsuite dump does.

    Weights have six decimals. MODEL is a file that valuesparse train or CRFsuite wrote.
    """
    from valuesparse.crf.corpora._beside import beside
    from valuesparse.crf.crfsuite import Tagger

    spare(output, {model: "the model", beside(model): "what the model was trained with"})
    tagger = Tagger(max_labels=max_labels)
    with one_line_errors(None):
        tagger.open(model)
        with delivering(output) as path:
            tagger.dump(path)
