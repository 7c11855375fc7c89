"""Label sets of hundreds to thousands: tables with a default, lists of marginals, proofs.

Tables are counted from a treebank, as `_counted.py` says. A pair that was not seen has what its
column has, so that the table is a default and a list. "Dense" is that table plus noise of rank four
and size 1e-3, of which nothing is a default. One thread; "BLAS" is a forward-backward pass of numpy
with all sentences side by side. `--guesses 0` rules out all labels that a word was not seen with.

With `--trained` our Trainer trains a CRF on each treebank, by so many iterations of L-BFGS (default
features; the transitions that it has seen), and the report has the labels, the transitions that are
no default, the time of an iteration, the accuracy, and for each route tokens a second and the
multiply-adds of its messages.

python benchmarks/large_labels.py [--corpus NAME ...] [--tokens N] [--rounds R]
With `--models` what was trained is kept in a folder, and read from there the next time.

python benchmarks/large_labels.py --trained ITERATIONS [--tol E] [--corpus NAME ...] [--tokens N]
    [--models FOLDER]

With `--crfsuite N` the first N sentences of each corpus train python-crfsuite, and our Trainer, by
three iterations (c2 = 1), features and file included; 160 of pt_bosque XPOS have 512 labels.

python benchmarks/large_labels.py --crfsuite SENTENCES [--corpus NAME ...] [--rounds R]
"""

from __future__ import annotations

import argparse
import functools
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
from _costs import fastest
from _counted import Counted, Sentences
from _machine import describe
from _tagging import DATA, attributes, read_conll
from _treebanks import ORIGIN
from _wanted import wanted
from threadpoolctl import threadpool_limits

import valuesparse as vs
from valuesparse.crf import Trainer
from valuesparse.io import CrfsuiteModel, read_crfsuite

#: Training files, test file and the column of the label; UPOS and FEATS are joined as column None.
CORPORA: dict[str, tuple[tuple[str, ...], str, int | None]] = {
    "nl_alpino XPOS": (("nl_lassysmall_v2-dev", "nl_lassysmall_v2-test"), "nl_alpino-test", 4),
    "it_partut UPOS|FEATS": (("it_partut-train",), "it_partut-test", None),
    "en_ewt UPOS|FEATS": (("en_ewt-train",), "en_ewt-test", None),
    "pt_bosque UPOS|FEATS": (("pt_bosque-train",), "pt_bosque-test", None),
    "pt_bosque XPOS": (("pt_bosque-train",), "pt_bosque-test", 4),
    "pt_bosque XPOS, 1449": (("pt_bosque-train",), "pt_bosque-test", 4),
    "en_ewt XPOS, 45": (("en_ewt-train",), "en_ewt-test", 4),
    "en_ewt XPOS": (("en_ewt-train",), "en_ewt-test", 4),
    "nl_alpino XPOS, 96": (("nl_lassysmall_v2-dev", "nl_lassysmall_v2-test"), "nl_alpino-test", 4),
}
#: The most frequent labels of a corpus that are kept; the others become one.
MOST = {"pt_bosque XPOS, 1449": 1449, "en_ewt XPOS, 45": 45, "nl_alpino XPOS, 96": 96}
#: Too few labels for this script, unless they are asked for: `bars.py` asks about them.
FEWER = ("en_ewt XPOS, 45", "en_ewt XPOS", "nl_alpino XPOS, 96")


def sentences(name: str, column: int | None) -> Sentences:
    """Return the words and labels of each sentence of a file."""
    path = wanted(DATA / f"{name}.conllu.gz", f"treebanks lie beside the repository; {ORIGIN}")
    if column is not None:
        return list(read_conll(path, 1, column))
    both = zip(read_conll(path, 1, 3), read_conll(path, 1, 5), strict=True)
    return [
        (words, [f"{a}|{b}" for a, b in zip(upos, feats, strict=True)])
        for (words, upos), (_, feats) in both
    ]


def blas(unary: np.ndarray, table: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the marginals of sentences, longest first, position by position."""
    e = np.exp(table - table.max())
    order = np.argsort(-lengths, kind="stable")
    lens = lengths[order]
    first = np.concatenate([[0], np.cumsum(lengths)])[:-1][order]
    n, k = int(lens[0]), table.shape[0]
    psi = np.zeros((n, lens.size, k))
    for b in range(lens.size):
        rows = unary[first[b] : first[b] + lens[b]]
        psi[: lens[b], b] = np.exp(rows - rows.max(axis=1, keepdims=True))
    alive = [int((lens > i).sum()) for i in range(n)]
    a = np.empty_like(psi)
    a[0] = psi[0] / psi[0].sum(axis=1, keepdims=True)
    for i in range(1, n):
        x = (a[i - 1, : alive[i]] @ e) * psi[i, : alive[i]]
        a[i, : alive[i]] = x / x.sum(axis=1, keepdims=True)
    message = np.ones((lens.size, k))
    for i in range(n - 1, -1, -1):
        if i < n - 1:
            m = alive[i + 1]
            y = (psi[i + 1, :m] * message[:m]) @ e.T
            message[:m] = y / y.sum(axis=1, keepdims=True)
        p = a[i, : alive[i]] * message[: alive[i]]
        a[i, : alive[i]] = p / p.sum(axis=1, keepdims=True)
    return a


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    large = [name for name in CORPORA if name not in FEWER]
    arguments.add_argument("--corpus", nargs="+", choices=CORPORA, default=large)
    arguments.add_argument("--tokens", type=int, default=1500, help="of the test file")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--guesses", type=float, default=1.0, help="weight of a word's end")
    arguments.add_argument("--trained", type=int, metavar="ITERATIONS", help="train a CRF")
    arguments.add_argument("--tol", type=float, help="with --trained: how far marginals may be off")
    arguments.add_argument("--models", type=Path, help="with --trained: where models are kept")
    arguments.add_argument("--crfsuite", type=int, metavar="SENTENCES", help="train it, too")
    given = arguments.parse_args()
    print(*describe(()), sep="\n")
    if given.crfsuite is None:
        print("µs a token; in brackets the ratio to dense exact")
    with threadpool_limits(1):
        for name in given.corpus:
            if given.crfsuite is not None:
                report_rival(name, given.crfsuite, given.rounds)
                continue
            if given.trained is not None:
                model = trained(name, given.trained, given.tol, given.models)
                report_trained(name, model, given.tokens, given.rounds)
                continue
            report(name, given.tokens, given.rounds, given.guesses)


def train_and_test(name: str, tokens: int) -> tuple[Sentences, Sentences]:
    """Return the sentences to train on, and some to tag."""
    train, test, column = CORPORA[name]
    chosen: Sentences = []
    for sentence in sentences(test, column):
        if sum(len(words) for words, _ in chosen) < tokens:
            chosen.append(sentence)
    lessons = [one for part in train for one in sentences(part, column)]
    if name not in MOST:
        return lessons, chosen
    counts = Counter(tag for _, tags in lessons for tag in tags)
    kept = {tag for tag, _ in counts.most_common(MOST[name] - 1)}
    return tuple(
        [(words, [tag if tag in kept else "other" for tag in tags]) for words, tags in some]
        for some in (lessons, chosen)
    )


def trained(name: str, iterations: int, tol: float | None, kept: Path | None) -> CrfsuiteModel:
    """Return a model that is trained, or kept, and print what training takes."""
    file = "".join(c if c.isalnum() else "-" for c in name) + f"-{iterations}"
    if kept is not None and (kept / file).is_file():
        print(f"\n{name}: trained before")
        return read_crfsuite(kept / file)
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)  # now, and not when training is done
    train, _ = train_and_test(name, 0)
    params = {"max_iterations": iterations, "c2": 0.1}
    trainer = Trainer("lbfgs", params, verbose=False, threads=1, tol=tol)
    for words, tags in train:
        trainer.append(attributes(words), tags)
    with tempfile.TemporaryDirectory() as folder:
        path = (kept or Path(folder)) / file
        begin = time.perf_counter()
        trainer.train(str(path))
        took = time.perf_counter() - begin
        model = read_crfsuite(path)
    log = trainer.logparser.iterations
    print(
        f"\n{name}: trained on {len(train):,} sentences, {sum(len(w) for w, _ in train):,} tokens: "
        f"{len(log)} iterations, {statistics.median(i['time'] for i in log):.2f} s each, "
        f"{took:.1f} s in all, loss {log[-1]['loss']:.6g}",
        flush=True,
    )
    return model


def report_rival(name: str, most: int, rounds: int) -> None:
    """Print what training on a few sentences takes, by python-crfsuite once and by ours."""
    import pycrfsuite  # no other report needs it

    train = train_and_test(name, 0)[0][:most]
    data = [(attributes(words), tags) for words, tags in train]
    labels = len({tag for _, tags in train for tag in tags})
    print(
        f"\n{name}: {len(data)} sentences, {sum(len(t) for _, t in data):,} tokens, {labels} labels"
    )
    params = {"max_iterations": 3, "c2": 1.0}
    took: dict[str, float] = {}
    for who in ["ours"] * rounds + ["CRFsuite"]:
        begin = time.perf_counter()
        trainer = (
            Trainer("lbfgs", params, verbose=False, threads=1)
            if who == "ours"
            else pycrfsuite.Trainer(algorithm="lbfgs", params=params, verbose=False)
        )
        for items, tags in data:
            trainer.append(items, tags)
        with tempfile.TemporaryDirectory() as folder:
            trainer.train(str(Path(folder) / "model"))
        seconds = time.perf_counter() - begin
        took[who] = min(took.get(who, np.inf), seconds)
        log = trainer.logparser.iterations
        each = ", ".join(f"{i['time']:.3f}" for i in log)
        print(f"  {who:<9}{seconds:8.2f} s; iterations {each} s, loss {log[-1]['loss']:.6f}")
    print(f"  CRFsuite takes {took['CRFsuite'] / took['ours']:.1f} times as long", flush=True)


def report_trained(name: str, model: CrfsuiteModel, tokens: int, rounds: int) -> None:
    """Print how good a model is, and what each route takes."""
    _, test = train_and_test(name, tokens)
    unary, lengths = model.unary_batch([attributes(words) for words, _ in test])
    table = vs.SparseTransition.of(model.transition)
    n, k = unary.shape
    chain = vs.Chain(unary, table, lengths)
    number = {label: i for i, label in enumerate(model.labels)}
    gold = np.array([number.get(tag, -1) for _, tags in test for tag in tags])
    right = float((vs.decode(chain).states == gold).mean())
    print(
        f"  {k:,} labels, {table.nnz:,} transitions are no default ({table.nnz / k**2:.2%}); "
        f"{right:.2%} of {n:,} tokens right"
    )
    for label, ask in {
        "exact": {}, "tol=1e-2": {"tol": 1e-2}, "tol=1e-3": {"tol": 1e-3},
        "zeta=0.9": {"zeta": 0.9}, "keep=1e-4": {"keep": 1e-4},
    }.items():  # fmt: skip
        seconds = fastest(lambda ask=ask: vs.infer(chain, threads=1, **ask), rounds)
        r = vs.infer(chain, threads=1, **ask)
        full, sparse = r.stats["messages_full"], r.stats["messages_sparse"]
        each = table.nnz + 2 * k if r.stats["sequences_sparse"] else k * k
        work = r.stats.get("multiply_adds", full * each + sparse * k)
        print(f"  {label:<12}{n / seconds:12,.0f} tokens/s {work / n:12,.0f} multiply-adds a token")
    seconds = fastest(lambda: vs.decode(chain, threads=1), rounds)
    print(f"  {'decode':<12}{n / seconds:12,.0f} tokens/s")
    report_dense(vs.Chain(unary, without_default(model.transition), lengths), rounds)


def without_default(table: np.ndarray) -> np.ndarray:
    """Return a table with noise of rank four, of which nothing is a default."""
    noise = np.random.default_rng(0).normal(size=(2, len(table), 4))
    return table + 1e-3 * noise[0] @ noise[1].T


def report_dense(chain: vs.Chain, rounds: int) -> None:
    """Print what a tolerance takes where no default is left, against exact and BLAS."""
    n, unary, table, lengths = chain.n_positions, chain.unary, chain.transition, chain.lengths
    ask = functools.partial(vs.infer, chain, threads=1)
    base = fastest(ask, rounds) / n * 1e6
    rival = fastest(lambda: blas(unary, table, lengths), rounds) / n * 1e6
    exact = ask()
    print(f"  dense: exact {base:.2f} µs a token, BLAS {rival:.2f} ({rival / base:.2f})")
    for tol in (1e-1, 1e-2, 1e-3):
        took = fastest(lambda tol=tol: ask(tol=tol), rounds) / n * 1e6
        r = ask(tol=tol)
        off = np.abs(r.marginals - exact.marginals).max()
        rows, columns = (r.stats[x] / max(1, 2 * n) for x in ("rows", "columns"))
        print(
            f"  dense, tol={tol:g}: {took:.2f} µs a token, {base / took:.2f} of exact, "
            f"{rival / took:.2f} of BLAS; {r.reason}; {rows:.1f} rows and {columns:.1f} columns a "
            f"message; proved {r.error.max():.1e}, true {off:.1e}"
        )


def report(name: str, tokens: int, rounds: int, guesses: float) -> None:
    """Print what each route takes."""
    train, chosen = train_and_test(name, tokens)
    model = Counted(train, guesses)
    lengths = np.array([len(words) for words, _ in chosen])
    gold = np.array([model.label.get(t, -1) for _, tags in chosen for t in tags])
    unary = model.unary(chosen)
    n, k = unary.shape
    sparse = vs.Chain(unary, model.table, lengths)
    dense = vs.Chain(unary, without_default(model.table.todense()), lengths)
    right = float((vs.infer(sparse).marginals.argmax(axis=1) == gold).mean())
    print(
        f"\n{name}: {k:,} labels, {model.table.nnz:,} pairs listed "
        f"({model.table.nnz / k**2:.2%}), {lengths.size} sentences, {n:,} tokens, "
        f"{right:.1%} right"
    )
    report_dense(dense, rounds)
    calls: dict[str, Callable[[], object]] = {
        "dense, exact": lambda: vs.infer(dense, threads=1),
        "dense, keep=1e-4": lambda: vs.infer(dense, threads=1, keep=1e-4),
        "dense, decode": lambda: vs.decode(dense, threads=1),
        "dense, BLAS": lambda: blas(unary, dense.transition, lengths),
        "sparse, exact": lambda: vs.infer(sparse, threads=1),
        "sparse, keep=1e-4": lambda: vs.infer(sparse, threads=1, keep=1e-4),
        "sparse, decode": lambda: vs.decode(sparse, threads=1),
    }
    base = 0.0
    for label, call in calls.items():
        took = fastest(call, rounds) / n * 1e6
        base = base or took
        print(f"  {label:<20}{took:10.2f}  ({base / took:.2f})", flush=True)
    kept = vs.infer(sparse, keep=1e-4)
    print(f"  keep=1e-4: {kept.sparse().nnz / n:.1f} labels a token are listed")


if __name__ == "__main__":
    main()
