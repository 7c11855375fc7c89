"""The Hong Kong Cantonese Corpus, as shipped by pycantonese, and its split."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

from valuesparse._extras import require

#: The corpus, its origin and its licence.
SOURCE = (
    "Hong Kong Cantonese Corpus (CC BY; K. K. Luke and May L. Y. Wong 2015), "
    "as shipped by pycantonese"
)
#: The tag given here to tokens that the corpus leaves without one: all of them are punctuation.
PUNCTUATION = "PUNCT"


class Utterance(NamedTuple):
    """The words of one utterance and a part-of-speech tag for each."""

    words: tuple[str, ...]
    tags: tuple[str, ...]


class CorpusSize(NamedTuple):
    """Utterances, tokens and distinct tags of a corpus."""

    sentences: int
    tokens: int
    tags: int


#: The size that the figures in the documentation belong to.
EXPECTED = CorpusSize(sentences=16_162, tokens=153_656, tags=95)


def load_hkcancor() -> list[Utterance]:
    """Load the Hong Kong Cantonese Corpus: 58 recorded conversations, segmented and tagged.

    Returns
    -------
    list of Utterance
        Every utterance in the order of the corpus. Punctuation, which has no tag there, has
        `PUNCTUATION` here.

    Raises
    ------
    valuesparse._extras.MissingExtraError
        When pycantonese is not installed.

    Notes
    -----
    K. K. Luke and May L. Y. Wong (2015), The Hong Kong Cantonese Corpus: Design and Uses.
    Journal of Chinese Linguistics Monograph Series 25, 312-333. CC BY.

    Examples
    --------
    >>> sentences = load_hkcancor()  # doctest: +SKIP
    >>> size_of(sentences)  # doctest: +SKIP
    CorpusSize(sentences=16162, tokens=153656, tags=95)
    """
    require("demo", "pycantonese")
    import pycantonese

    utterances: Any = pycantonese.hkcancor().tokens(by_utterance=True)
    return [
        Utterance(
            tuple(token.word for token in utterance),
            tuple(token.pos or PUNCTUATION for token in utterance),
        )
        for utterance in utterances
        if utterance
    ]


def size_of(sentences: Sequence[Utterance]) -> CorpusSize:
    """Count sentences, tokens and distinct tags.

    Examples
    --------
    >>> size_of([Utterance(("食", "飯", "!"), ("v", "n", "PUNCT")), Utterance(("食",), ("v",))])
    CorpusSize(sentences=2, tokens=4, tags=3)
    """
    return CorpusSize(
        len(sentences),
        sum(len(sentence.words) for sentence in sentences),
        len({tag for sentence in sentences for tag in sentence.tags}),
    )


def split(
    sentences: Sequence[Utterance], seed: int, held_out: float = 0.1
) -> tuple[list[Utterance], list[Utterance]]:
    """Split at random into sentences to train on and sentences held out, in corpus order.

    Parameters
    ----------
    sentences : sequence of Utterance
        The corpus.
    seed : int
        The same seed gives the same split on every machine.
    held_out : float
        The share held out, in (0, 1).

    Returns
    -------
    train, test : list of Utterance
        A tag that only occurs among the held-out sentences brings its first sentence back to
        training, so that the model knows every tag of the corpus.

    Examples
    --------
    >>> corpus = [Utterance((str(i),), ("m",)) for i in range(10)]
    >>> train, test = split(corpus, seed=0, held_out=0.2)
    >>> len(train), len(test)
    (8, 2)
    """
    chosen = set(random.Random(seed).sample(range(len(sentences)), int(len(sentences) * held_out)))
    known = {
        tag for i, sentence in enumerate(sentences) if i not in chosen for tag in sentence.tags
    }
    for i in sorted(chosen):
        if not known.issuperset(sentences[i].tags):
            chosen.discard(i)
            known.update(sentences[i].tags)
    train = [sentence for i, sentence in enumerate(sentences) if i not in chosen]
    return train, [sentences[i] for i in sorted(chosen)]
