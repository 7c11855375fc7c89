"""The demo on the terminal: the table, and sentences with their uncertain tags."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.table import Table
from rich.text import Text

from valuesparse.cli._corpus import Utterance
from valuesparse.cli._measure import FloatArray, Measurements, Row

#: The least agreement with exact inference that the demo recommends.
ENOUGH = 0.999

# Tags of the corpus that its authors describe, in a word or two.
_MEANING = {
    "a": "adjective",
    "b": "non-predicate adjective",
    "c": "conjunction",
    "d": "adverb",
    "e": "interjection",
    "f": "direction, locality",
    "h": "prefix",
    "i": "idiom",
    "j": "abbreviation",
    "k": "suffix",
    "l": "fixed expression",
    "m": "numeral",
    "n": "noun",
    "nr": "personal name",
    "ns": "place name",
    "nt": "organisation",
    "nx": "letters as a noun",
    "nz": "other proper noun",
    "o": "onomatopoeia",
    "p": "preposition",
    "q": "classifier",
    "r": "pronoun",
    "s": "space word",
    "t": "time word",
    "u": "auxiliary particle",
    "v": "verb",
    "vd": "verb as adverbial",
    "vn": "verb as noun",
    "y": "modal particle",
    "z": "descriptive word",
}


class TaggedSentence(NamedTuple):
    """A sentence with the marginals of its tags.

    Attributes
    ----------
    sentence : Utterance
        Words and gold tags.
    marginals : (n, K) ndarray
        One row per word.
    uncertain : (n,) bool ndarray
        The words that no island has decided.
    """

    sentence: Utterance
    marginals: FloatArray
    uncertain: np.ndarray


def recommended(rows: Sequence[Row]) -> int:
    """Return the index of the smallest ζ that agrees with exact often enough, else the best.

    Examples
    --------
    >>> rows = [Row(str(z), z, 1.0, a, 1.0, 0.0, 0.0, 0.0, 1.0)
    ...         for z, a in [(None, 1.0), (0.9, 0.9995), (0.8, 0.9991), (0.5, 0.99)]]
    >>> recommended(rows)
    2
    """
    candidates = [i for i, row in enumerate(rows) if row.zeta is not None]
    if not candidates:
        return 0
    good = [i for i in candidates if rows[i].agreement >= ENOUGH]
    if good:
        return min(good, key=lambda i: (rows[i].zeta, i))
    return max(candidates, key=lambda i: (rows[i].agreement, -i))


def results_table(measurements: Measurements) -> Table:
    """Return the table of all engines; it fits into 80 columns."""
    rows, rival = measurements.rows, measurements.rival
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 0, 0, 1), show_edge=False, header_style="bold")
    table.add_column("engine", no_wrap=True, min_width=12)
    for heading in (
        "k tok\nper s",
        "× crf-\nsuite",
        "× our\nexact",
        "agree\n%",
        "gold\n%",
        "max\nerror",
        "prov-\ned",
        "isl-\nands",
        "full\nmsgs",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    exact = rows[0]
    for name, speed, last in (
        ("CRFsuite", rival.speed, False),
        ("  its C core", rival.core_speed, True),
    ):
        cells = [name, _speed(speed), _ratio(speed / rival.speed), _ratio(speed / exact.speed)]
        table.add_row(*cells, *[""] * 6, style="dim", end_section=last)
    best = recommended(rows)
    for i, row in enumerate(rows):
        table.add_row(
            row.name + (" ◀" if i == best and row.zeta is not None else ""),
            _speed(row.speed),
            _ratio(row.speed / rival.speed),
            _ratio(row.speed / exact.speed),
            _percent(row.agreement, 2),
            _percent(row.accuracy, 2),
            _error(row.max_error),
            proved(row),
            _percent(row.islands, 0),
            _percent(row.full, 0),
            style="bold green" if i == best and row.zeta is not None else None,
        )
    return table


def proved(row: Row) -> str:
    """Return the largest error that is proved, in few characters."""
    return f"{row.proved:.3f}" if row.proved >= 0.01 else f"{row.proved:.0e}"


def notes(measurements: Measurements, threads: int | None, scoring: float) -> Text:
    """Return what to know when reading the table.

    Parameters
    ----------
    measurements : Measurements
        The rows of the table.
    threads : int or None
        Threads our rows ran on.
    scoring : float
        Microseconds per token that turning attributes into log-potentials takes.
    """
    rival = measurements.rival
    ours = {None: "all cores", 1: "1 thread"}.get(threads, f"{threads} threads")
    return Text(
        f"Log-potentials in, marginals out; medians of alternating runs; ours on {ours}, "
        f"CRFsuite on 1 thread. Turning attributes into log-potentials ({scoring:.1f} µs per "
        "token with our reader) comes before all of these and is not counted.\n"
        "k tok per s: thousands of tokens a second. CRFsuite: all marginals through "
        f"python-crfsuite, {rival.sentences} sentences; its C core: the forward-backward inside. "
        f"Its marginals and our exact ones differ by at most {rival.difference:.0e}.\n"
        "agree: same best tag as exact. gold: same tag as the corpus. error: a token's largest "
        "marginal error over its labels, the largest of all, and what is proved of it. "
        "islands: % of tokens held deterministic. full msgs: % of messages that cost K² instead "
        "of K. "
        f"◀: the smallest ζ that agrees on {ENOUGH:.1%} of the tokens, if there is one.",
        style="dim",
    )


class Sentences:
    """Sentences over their tags, uncertain ones marked ``?`` and in colour, with alternatives.

    Parameters
    ----------
    tagged : sequence of TaggedSentence
        The sentences to show.
    labels : sequence of str
        Names of the columns of the marginals.
    """

    def __init__(self, tagged: Sequence[TaggedSentence], labels: Sequence[str]) -> None:
        self.tagged = tagged
        self.labels = labels

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Lay the sentences out in the width there is."""
        for one in self.tagged:
            yield from self._lines(one, options.max_width)
            yield from self._alternatives(one)
            yield Text()
        yield self._legend()

    def _lines(self, one: TaggedSentence, width: int) -> list[Text]:
        """Words above, tags below, as many per line as fit."""
        lines: list[Text] = []
        words, tags = Text("  "), Text("  ")
        for i, word in enumerate(one.sentence.words):
            best = self.labels[int(one.marginals[i].argmax())]
            tag = best + "?" if one.uncertain[i] else best
            cell = max(cell_len(word), cell_len(tag)) + 2
            if len(words) > 2 and cell_len(words.plain) + cell > width:
                lines += [words, tags]
                words, tags = Text("  "), Text("  ")
            style = "bold yellow" if one.uncertain[i] else ""
            words.append(word, style=style)
            words.append(" " * (cell - cell_len(word)))
            tags.append(tag, style=style or "dim")
            tags.append(" " * (cell - cell_len(tag)))
        return [*lines, words, tags]

    def _alternatives(self, one: TaggedSentence) -> list[Text]:
        """One line for each uncertain word: its likeliest tags and their probabilities."""
        shown = [i for i in range(len(one.uncertain)) if one.uncertain[i]]
        width = max((cell_len(one.sentence.words[i]) for i in shown), default=0)
        lines = []
        for i in shown:
            word, gold = one.sentence.words[i], one.sentence.tags[i]
            line = Text("    ")
            line.append(word + " " * (width - cell_len(word)), style="bold yellow")
            order = np.argsort(-one.marginals[i], kind="stable")[:3]
            for k in order:
                name, p = self.labels[int(k)], float(one.marginals[i, k])
                text = f"{name}{'*' if name == gold else ''} {p:.2f} "
                line.append("  " + text.ljust(10))
                line.append(("▇" * round(10 * p)).ljust(10), style="cyan")
            if gold not in [self.labels[int(k)] for k in order]:
                line.append(f"  corpus: {gold}")
            line.rstrip()
            lines.append(line)
        return lines

    def _legend(self) -> Text:
        """Say what the tags that were shown mean."""
        seen = set()
        for one in self.tagged:
            for i, unsure in enumerate(one.uncertain):
                order = np.argsort(-one.marginals[i], kind="stable")[: 3 if unsure else 1]
                seen |= {self.labels[int(k)] for k in order}
        known = [f"{tag} {_MEANING[tag]}" for tag in sorted(seen) if tag in _MEANING]
        code = any(tag[0] == "x" for tag in seen)
        known += ["x… a word of another language"] if code else []
        return Text("Tags: " + " · ".join(known) + ".", style="dim")


def pick_sentences(tagged: Sequence[TaggedSentence], count: int) -> list[TaggedSentence]:
    """Choose sentences worth reading: of middling length, a few tags uncertain, most of them not.

    Parameters
    ----------
    tagged : sequence of TaggedSentence
        All sentences.
    count : int
        How many to choose at most.

    Returns
    -------
    list of TaggedSentence
        Evenly spread over the input. First choice: 8 to 16 words, 1 to 3 of them uncertain;
        where there are too few of those, any sentence with an uncertain tag.
    """
    some = [one for one in tagged if one.uncertain.any()]
    nice = [
        one for one in some if 8 <= len(one.uncertain) <= 16 and 1 <= int(one.uncertain.sum()) <= 3
    ]
    pool = nice if len(nice) >= count else some
    if not pool or count < 1:
        return []
    places = np.linspace(0, len(pool) - 1, min(count, len(pool))).round().astype(int)
    return [pool[i] for i in places]


def sentences_block(tagged: Sequence[TaggedSentence], labels: Sequence[str], zeta: float) -> Group:
    """Return the chosen sentences under a heading."""
    if not tagged:
        return Group(Text(f"No tag of the held-out sentences is uncertain at ζ = {zeta:g}."))
    heading = Text.assemble(
        ("What is still uncertain", "bold"),
        f" at ζ = {zeta:g}, marked ",
        ("?", "bold yellow"),
        ", with the likeliest tags below (* the corpus's tag)\n",
    )
    return Group(heading, Sentences(tagged, labels))


def _speed(tokens_per_second: float) -> str:
    thousands = tokens_per_second / 1000
    return f"{thousands:,.0f}" if thousands >= 10 else f"{thousands:.1f}"


def _ratio(ratio: float) -> str:
    if ratio >= 100:
        return f"{ratio:,.0f}"
    return f"{ratio:.1f}" if ratio >= 10 else f"{ratio:.2f}"


def _percent(share: float, digits: int) -> str:
    return f"{100 * share:.{digits}f}"


def _error(error: float) -> str:
    if error == 0:
        return "0"
    return f"{error:.1e}" if error < 0.001 else f"{error:.4f}"
