"""Dependency trees with hundreds of labels: what a tolerance takes, against passes in float32.

The words' scores are those of a CRF that our Trainer trains on chains; the table of heads and
dependents is trained with them on trees, by L-BFGS, and has noise of rank four and size 1e-3, so
that nothing is a default. "Supports" are the route of today, "float32" the one without them. Times
are the least CPU times of one thread, in microseconds a token.

python benchmarks/large_trees.py [--corpus NAME] [--iterations N] [--sentences N] [--tokens N]
    [--rounds R] [--models FOLDER]
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from unittest import mock

import numpy as np
import scipy.optimize
from _costs import fastest
from _machine import describe
from _tagging import DATA, attributes, read_conll
from large_labels import CORPORA, sentences, trained, without_default

import valuesparse as vs
from valuesparse.inference import _tolerance
from valuesparse.io import CrfsuiteModel

#: Words, labels and heads of a sentence; heads count from 1, 0 is the root.
Parsed = tuple[list[str], list[str], list[int]]


def parsed(name: str, column: int | None) -> list[Parsed]:
    """Return the sentences of a file with their heads."""
    heads = read_conll(DATA / f"{name}.conllu.gz", 1, 6)
    both = zip(sentences(name, column), heads, strict=True)
    return [(words, tags, [int(x) for x in up]) for (words, tags), (_, up) in both]


def forest(some: list[Parsed], model: CrfsuiteModel) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return parents, the words' scores, and the labels, -1 for those that the model lacks."""
    unary, _ = model.unary_batch([attributes(words) for words, _, _ in some])
    number = {label: i for i, label in enumerate(model.labels)}
    parent: list[int] = []
    for _, _, heads in some:
        parent.extend([-1 if head == 0 else len(parent) + head - 1 for head in heads])
    gold = np.array([number.get(tag, -1) for _, tags, _ in some for tag in tags])
    return np.array(parent), np.ascontiguousarray(unary), gold


def table_of(lessons: list[Parsed], model: CrfsuiteModel, iterations: int) -> np.ndarray:
    """Return the table (head, dependent) that fits best with the words' scores; c2 is 0.1."""
    known = set(model.labels)
    parent, unary, gold = forest([one for one in lessons if known.issuperset(one[1])], model)
    k, edges = unary.shape[1], np.flatnonzero(parent >= 0)
    seen = np.zeros((k, k))
    np.add.at(seen, (gold[parent[edges]], gold[edges]), 1.0)

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        table = flat.reshape(k, k)
        r = vs.infer(vs.Tree(parent, unary, table))
        value = r.log_z.sum() - (seen * table).sum() + 0.1 * (table**2).sum()
        return float(value), (r.expectations() - seen + 0.2 * table).ravel()

    options = {"maxiter": iterations}
    found = scipy.optimize.minimize(
        loss, np.zeros(k * k), jac=True, method="L-BFGS-B", options=options
    )
    return np.asarray(found.x.reshape(k, k))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--corpus", choices=CORPORA, default="pt_bosque UPOS|FEATS")
    arguments.add_argument("--iterations", type=int, default=50, help="of the CRF")
    arguments.add_argument("--sentences", type=int, default=1800, help="that the table is fit to")
    arguments.add_argument("--tokens", type=int, default=1500)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--models", type=Path, help="where models are kept")
    given = arguments.parse_args()
    print(*describe(()), sep="\n")
    train, test, column = CORPORA[given.corpus]
    model = trained(given.corpus, given.iterations, None, given.models)
    lessons = [one for part in train for one in parsed(part, column)][: given.sentences]
    tests, total = [], 0
    for one in parsed(test, column):
        if total < given.tokens:
            tests.append(one)
            total += len(one[0])
    kept = None if given.models is None else given.models / f"heads-{len(model.labels)}.npy"
    if kept is None or not kept.is_file():
        fitted = table_of(lessons, model, 18)
        if kept is not None:
            kept.parent.mkdir(parents=True, exist_ok=True)
            np.save(kept, fitted)
    else:
        fitted = np.load(kept)
    table = without_default(fitted)
    parent, unary, _ = forest(tests, model)
    tree = vs.Tree(parent, unary, table)
    n, messages = tree.n_nodes, 2 * (tree.n_nodes - tree.n_trees)
    base = fastest(lambda: vs.infer(tree, threads=1), given.rounds, time.process_time)
    print(f"{tree.n_labels} labels, {tree.n_trees} trees, exact {base / n * 1e6:.1f} us a token")
    exact = vs.infer(tree)
    for tol in (1e-1, 1e-2, 1e-3):

        def ask(tol: float = tol) -> vs.TreeResult:
            return vs.infer(tree, tol=tol, threads=1)

        own = fastest(ask, given.rounds, time.process_time)
        with mock.patch.object(_tolerance, "may_pay", return_value=False):
            other = fastest(ask, given.rounds, time.process_time)
        r = ask()
        assert (np.abs(r.marginals - exact.marginals).max(axis=1) <= r.error).all()
        rows, columns = (r.stats[name] / messages for name in ("rows", "columns"))
        print(
            f"  tol={tol:g}: float32 {other / n * 1e6:.1f}, supports {own / n * 1e6:.1f}, "
            f"{other / own:.2f} times as fast ({base / own:.2f} against exact); "
            f"{r.stats['sequences_supports']} trees, {rows:.1f} rows and {columns:.1f} columns a "
            f"message, {r.stats['repairs']} repairs"
        )


if __name__ == "__main__":
    main()
