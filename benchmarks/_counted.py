"""Models counted from sentences, as a textbook tagger counts them (Brants 2000, TnT).

Transitions are interpolated: l1 P(tag) + l2 P(tag | tag before), where deleted interpolation finds
l1 and l2. A word's tags are those that it was seen with; the tags of others are guessed from their
ends: P(tag | end of i letters) is counted over words that were seen ten times or less, apart for
capitals, and mixed with that of the end of i - 1 letters. Scores are log P(word | tag), up to a
number for each word, by Bayes' rule. Tags that a word was not seen with keep a weight
(`Counted.guesses`): so none is ruled out, and nothing is -inf.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict

import numpy as np
import scipy.sparse as sp

import valuesparse as vs

Sentences = list[tuple[list[str], list[str]]]
#: How long ends are at most, and how often words were seen whose ends are counted.
LONGEST, RARE = 10, 10


class Counted:
    """A model counted from sentences.

    `guesses` is the weight of what the end of a word says, in times that a word was seen; 0 is
    TnT, which rules out all tags that a word was not seen with.
    """

    def __init__(self, train: Sentences, guesses: float) -> None:
        names = sorted({tag for _, tags in train for tag in tags})
        self.label, self.guesses = {name: i for i, name in enumerate(names)}, guesses
        k = len(names)
        ids = [[self.label[tag] for tag in tags] for _, tags in train]
        pairs = Counter(pair for one in ids for pair in itertools.pairwise(one))
        seen = np.bincount(list(itertools.chain.from_iterable(ids)), minlength=k)
        self.share = seen / seen.sum()
        self._transitions(pairs, seen, Counter(one[0] for one in ids))
        self.words: defaultdict[str, Counter[int]] = defaultdict(Counter)
        for (sentence, _), tags in zip(train, ids, strict=True):
            for word, tag in zip(sentence, tags, strict=True):
                self.words[word][tag] += 1
        self.ends: defaultdict[tuple[bool, str], Counter[int]] = defaultdict(Counter)
        for word, tags in self.words.items():
            if tags.total() > RARE:
                continue
            for i in range(min(LONGEST, len(word)) + 1):
                self.ends[word[:1].isupper(), word[len(word) - i :]].update(tags)
        self.spread = float(self.share.std(ddof=1))
        self.guessed: dict[str, np.ndarray] = {}

    def _transitions(
        self, pairs: Counter[tuple[int, int]], seen: np.ndarray, first: Counter[int]
    ) -> None:
        at, count = np.array(list(pairs)).T, np.array(list(pairs.values()))
        rows = np.bincount(at[0], count, seen.size)
        with np.errstate(invalid="ignore", divide="ignore"):
            # A pair that was seen once says nothing: 0 / 0 is 0.
            two = np.nan_to_num((count - 1) / (rows[at[0]] - 1), posinf=0.0)
        better = two > (seen[at[1]] - 1) / (seen.sum() - 1)
        self.mixed = float(count[better].sum() / count.sum())
        alone = np.log((1 - self.mixed) * self.share)
        known = self.mixed * count / rows[at[0]]
        scores = np.log(known + (1 - self.mixed) * self.share[at[1]])
        entries = sp.csr_array((scores, (at[0], at[1])), shape=(seen.size, seen.size))
        self.table = vs.SparseTransition(entries, 0.0, columns=alone)
        begin = np.bincount(list(first.elements()), minlength=seen.size) / first.total()
        self.start = np.log(self.mixed * begin + (1 - self.mixed) * self.share)

    def guess(self, word: str) -> np.ndarray:
        """Return P(tag | end of the word), (K,)."""
        found = self.share
        for i in range(min(LONGEST, len(word)) + 1):
            tags = self.ends.get((word[:1].isupper(), word[len(word) - i :]))
            if tags is None:
                break
            found = self.spread * found
            for tag, count in tags.items():
                found[tag] += count / tags.total()
            found /= 1 + self.spread
        return found

    def unary(self, test: Sentences) -> np.ndarray:
        """Return log P(word | tag) of each token, at the first with what sentences begin with."""
        scores = []
        for sentence, _ in test:
            for word in sentence:
                if word not in self.guessed:
                    tags = self.words.get(word, Counter())
                    weight = self.guesses if tags else 1.0
                    found = weight * self.guess(word) if weight else np.zeros(self.share.size)
                    for tag, count in tags.items():
                        found[tag] += count
                    with np.errstate(divide="ignore"):
                        self.guessed[word] = np.log(found / self.share)
                scores.append(self.guessed[word])
        unary = np.array(scores)
        lengths = np.array([len(words) for words, _ in test])
        unary[np.cumsum(lengths) - lengths] += self.start
        return unary
