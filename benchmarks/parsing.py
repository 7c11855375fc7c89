"""Dependency trees against numpy, ufal.chu-liu-edmonds and torch-struct; one thread.

    python benchmarks/parsing.py

A batch of sentences of one length goes in, marginals of arcs or the best heads come out. numpy and
ufal's package take a sentence at a time, in their layout, prepared before; torch-struct takes the
batch. Medians of alternating samples; the ratio is the median of those of neighbouring samples,
with its quartiles. Beside them stand times of what has no rival: grandparents, and the graph of a
sentence.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from _machine import describe, pinned, require_quiet
from paired import LEAST, alternate
from rivals import Prepared
from rivals.dependency_trees import inside_outside, matrix_tree

import valuesparse as vs

LENGTHS, BATCH = [12, 25, 40], 32
PACKAGES = ("ufal.chu-liu-edmonds", "torch", "torch-struct")
#: Aims, at 12 and at 40 words.
AIMS = {"matrix tree": (8, 5), "inside-outside": (40, 40), "best tree": (2, 4)}


def sentences(words: int, count: int) -> list[np.ndarray]:
    """Return scores of normal size."""
    rng = np.random.default_rng(words)
    return [rng.normal(0.0, 2.0, (words + 1, words + 1)) for _ in range(count)]


def check(batch: list[np.ndarray]) -> None:
    """Stop where a rival answers something else."""
    for projective, rival in ((False, matrix_tree), (True, inside_outside)):
        r = vs.parsing.marginals(batch, projective)
        for scores, p, log_z in zip(batch, r.marginals, r.log_z, strict=True):
            other, mass = rival(scores)
            np.testing.assert_allclose(p, other, rtol=0, atol=1e-8)
            assert abs(log_z - mass) < 1e-8


def rivals(batch: list[np.ndarray]) -> dict[tuple[str, str], tuple[Callable, Callable]]:
    """Return (what, whose): theirs and ours."""
    marginals, best = vs.parsing.marginals, vs.parsing.best_trees
    found: dict[tuple[str, str], tuple[Callable, Callable]] = {
        ("matrix tree", "numpy"): (
            lambda: [matrix_tree(s) for s in batch],
            lambda: marginals(batch, threads=1),
        ),
        ("inside-outside", "numpy"): (
            lambda: [inside_outside(s) for s in batch],
            lambda: marginals(batch, True, threads=1),
        ),
    }
    try:
        from ufal.chu_liu_edmonds import chu_liu_edmonds
    except ImportError:
        print("without ufal.chu-liu-edmonds, which is not installed", file=sys.stderr)
    else:
        by_modifier = []
        for s in batch:
            table = np.ascontiguousarray(s.T)
            table[0] = np.nan  # the root has no head
            np.fill_diagonal(table, np.nan)
            by_modifier.append(table)
        scores = best(batch).score
        for table, score in zip(by_modifier, scores, strict=True):
            assert abs(chu_liu_edmonds(table)[1] - score) < 1e-8
        found["best tree", "ufal"] = (
            lambda: [chu_liu_edmonds(t) for t in by_modifier],
            lambda: best(batch, threads=1),
        )
    try:
        import torch
        from torch_struct import DependencyCRF, NonProjectiveDependencyCRF
    except ImportError:
        print("without torch-struct, which is not installed", file=sys.stderr)
    else:
        torch.set_num_threads(1)
        # The root's scores stand on the diagonal.
        stacked = np.stack([s[1:, 1:] for s in batch])
        stacked[:, range(stacked.shape[1]), range(stacked.shape[1])] = [s[0, 1:] for s in batch]
        leaf = torch.from_numpy(stacked).requires_grad_()
        for what, kind, projective in (
            ("matrix tree", NonProjectiveDependencyCRF, False),
            ("inside-outside", DependencyCRF, True),
        ):
            # Scores as a network gives them: it writes to what is no leaf.
            found[what, "torch-struct"] = (
                lambda kind=kind: kind(leaf * 1.0, multiroot=True).marginals,
                lambda projective=projective: marginals(batch, projective, threads=1),
            )
    return found


def others(words: int) -> dict[str, Callable]:
    """Return what has no rival here, of one sentence."""
    (scores,) = sentences(words, 1)
    places = np.arange(words + 1)
    g, h, m = (x.ravel() for x in np.meshgrid(places, places, places, indexing="ij"))
    apart = (g != h) & (h != m) & (g != m) & (m > 0)
    grand = np.stack([g, h, m], axis=1)[apart & (h > 0)]
    pairs = np.stack([g, h, m], axis=1)[apart & (h > 0) & (h < m)]
    rng = np.random.default_rng(0)
    parts = (grand, rng.normal(size=len(grand)))
    siblings = (pairs, rng.normal(size=len(pairs)))
    marginals, best = vs.parsing.marginals, vs.parsing.best_trees
    return {
        "marginals with grandparents": lambda: marginals(
            [scores], True, threads=1, grandparents=[parts]
        ),
        "best tree with grandparents": lambda: best(
            [scores], True, threads=1, grandparents=[parts]
        ),
        f"graph with {len(grand) + len(pairs):,} pairs": lambda: vs.parsing.graph(
            scores, siblings, parts
        ),
    }


def against(words: int, count: int, samples: int) -> Iterator[dict[str, Any]]:
    """Yield a row for each rival at one length: microseconds a sentence, and their ratio."""
    batch = sentences(words, count)
    check(batch[:4])
    for (what, whose), (theirs, ours) in rivals(batch).items():
        if whose == "torch-struct":
            p = theirs()[0].detach().numpy().copy()
            np.fill_diagonal(p, 0.0)
            mine = ours().marginals[0][1:, 1:]
            np.testing.assert_allclose(p, mine, rtol=0, atol=1e-4)
        t = alternate(Prepared(theirs), Prepared(ours), samples=samples)
        aim = {12: AIMS[what][0], 40: AIMS[what][1]}.get(words)
        yield {
            "what": what, "words": words, "rival": whose, "theirs": 1e6 * t.a / count,
            "ours": 1e6 * t.b / count, "ratio": t.ratio, "low": t.low, "high": t.high,
            "aim": aim if whose != "torch-struct" else None,
        }  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--words", type=int, nargs="*", default=LENGTHS)
    parser.add_argument("--sentences", type=int, default=BATCH, help="in a batch")
    parser.add_argument("--samples", type=int, default=9)
    parser.add_argument("--allow-busy", action="store_true", help="run on a busy machine")
    options = parser.parse_args(arguments)
    if options.samples < LEAST:
        parser.error(f"--samples {options.samples}: give at least {LEAST}")
    require_quiet(options.allow_busy)
    print(*describe(PACKAGES), sep="\n")
    print(f"batches of {options.sentences} sentences, one thread, microseconds a sentence\n")
    print("| what | words | rival | theirs | ours | ratio | quartiles | aim |")
    print("|---|---:|---|---:|---:|---:|---:|---:|")
    with pinned(0):
        for words in options.words:
            for r in against(words, options.sentences, options.samples):
                print(
                    f"| {r['what']} | {words} | {r['rival']} | {r['theirs']:.1f} | "
                    f"{r['ours']:.2f} | {r['ratio']:.1f} | {r['low']:.1f} to {r['high']:.1f} | "
                    f"{r['aim'] or ''} |",
                    flush=True,
                )
        print("\n| what | words | milliseconds |\n|---|---:|---:|")
        for words in options.words:
            for what, call in others(words).items():
                t = alternate(Prepared(call), Prepared(call), samples=options.samples)
                print(f"| {what} | {words} | {1e3 * min(t.a, t.b):.3f} |", flush=True)
    require_quiet(allow_busy=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
