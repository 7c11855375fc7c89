"""Features with names: which there are and how often, against counting by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import valuesparse as vs
from tests.parsing.test_examples import learned_both_ways, some_weights
from tests.parsing.test_relaxed import check
from tests.parsing.treebank import treebank
from valuesparse import _parser as native
from valuesparse.learning import Aggressive, Online, supported
from valuesparse.parsing import Examples, Parser, Sentence, train
from valuesparse.parsing._dictionary import Dictionary
from valuesparse.parsing._model import bytes_of, model_of

Array = npt.NDArray[Any]
NAMED = pytest.mark.parametrize("features", ["supported", "complete"])


def pieces(dictionary: Dictionary) -> list[tuple[Array, Array]]:
    """Return the slots and the counts of each template."""
    ends = np.cumsum(dictionary.sizes)[:-1]
    return list(
        zip(np.split(dictionary.slots, ends), np.split(dictionary.counts, ends), strict=True)
    )


def bin_of(d: int) -> int:
    return min(d, 4) if d < 6 else 5 if d < 11 else 6


def arcs_of(sentence: Sentence, every: bool) -> Iterator[tuple[int, int]]:
    for m, head in enumerate(sentence.heads.tolist(), 1):
        for h in range(len(sentence) + 1) if every else (head,):
            if h != m:
                yield h, m


def by_hand(
    sentences: list[Sentence], column: str, every: bool
) -> tuple[Counter[Any], dict[Any, set[Any]]]:
    """Return of each (cell of the head, cell of the modifier) how often, and its features."""
    count: Counter[Any] = Counter()
    features: dict[Any, set[Any]] = {}
    for s in sentences:
        cells = ["root", *getattr(s, column)]
        for h, m in arcs_of(s, every):
            key = cells[h] if h else "", cells[m], h == 0
            count[key] += 1
            features.setdefault(key, set()).update(["alone", h < m, (h < m, bin_of(abs(h - m)))])
    return count, features


@NAMED
def test_keys_are_counted_as_by_hand(features: str) -> None:
    """Templates 16 to 18 of arcs: XPOS, UPOS and form of both ends."""
    sentences = treebank(12, seed=3)
    found = Examples(sentences, 1, features=features, threads=1).dictionary
    assert found is not None
    every = features == "complete"
    own = pieces(found)
    arcs = sum(len(list(arcs_of(s, every))) for s in sentences)
    for template, column in ((17, "upos"), (18, "forms")):
        count, named = by_hand(sentences, column, every)
        slots, counts = own[template]
        expected = sorted((n, len(named[key])) for key, n in count.items())
        assert sorted(zip(counts, [int(x).bit_count() for x in slots], strict=True)) == expected
        assert counts.sum() == arcs
    # A template without tags between has one key of each arc.
    assert sum(int(counts.sum()) == arcs for _, counts in own) > 70


def test_pairs_are_counted_as_by_hand() -> None:
    """The first templates of siblings and of grandparents: UPOS of the outer words."""
    sentences = treebank(12, seed=4, crossing=True)
    siblings: Counter[Any] = Counter()
    grandparents: Counter[Any] = Counter()
    for s in sentences:
        assert s.upos is not None
        tags = ["root", *s.upos]
        heads = [-1, *s.heads.tolist()]
        for m in range(1, len(heads)):
            siblings.update((tags[m], tags[k]) for k in range(m + 1, len(heads))
                            if heads[k] == heads[m])  # fmt: skip
            if heads[m] > 0:
                grandparents[tags[heads[heads[m]]], tags[m]] += 1
    found = Examples(sentences, 2, features="supported").dictionary
    assert found is not None
    arcs = native.templates_of_parts(1)
    own = pieces(found)
    assert sorted(own[arcs][1]) == sorted(siblings.values())
    by_kind = [sum(counter.values()) for counter in (siblings, grandparents)]
    totals = [int(counts.sum()) for _, counts in own[arcs:]]
    cut = next(k for k, total in enumerate(totals) if total == by_kind[1])
    assert by_kind[0] != by_kind[1]
    assert totals == [by_kind[0]] * cut + [by_kind[1]] * (len(totals) - cut)
    assert sorted(own[arcs + cut][1]) == sorted(grandparents.values())


@pytest.mark.parametrize("order", [1, 2])
def test_supported_features_are_those_of_the_trees(order: int) -> None:
    sentences = treebank(8, seed=1)
    some, every = (Examples(sentences, order, features=f) for f in ("supported", "complete"))
    assert supported(some).all()
    assert supported(every).sum() == some.n_weights < every.n_weights
    reached = np.zeros(every.n_weights, bool)
    for i in range(len(every)):
        reached[every.gradient(i, np.ones(len(every.gold(i))))[0]] = True
    assert reached.all()


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000), least=st.integers(1, 6), order=st.sampled_from([1, 2]))
def test_rare_keys_are_left_out(seed: int, least: int, order: int) -> None:
    sentences = treebank(4, seed=seed)
    every = Examples(sentences, order, features="complete").dictionary
    found = Examples(sentences, order, features="complete", min_count=least).dictionary
    assert every is not None and found is not None  # noqa: PT018
    kept = every.counts >= least
    for whole, part in zip(every[1:], found[1:], strict=True):
        assert part.tolist() == whole[kept].tolist()
    ends = np.cumsum(every.sizes)
    expected = [int(part.sum()) for part in np.split(kept, ends[:-1])]
    assert found.sizes.tolist() == expected


@NAMED
@pytest.mark.parametrize("order", [1, 2])
def test_scores_are_sums_of_the_features_there_are(features: str, order: int) -> None:
    sentences = treebank(3, seed=7)
    examples = Examples(sentences, order, features=features)
    weights = some_weights(examples, 2)
    for i in range(len(examples)):
        scores = examples.scores(i, weights)
        for part in range(0, len(scores), 5):
            one = np.zeros(len(scores))
            one[part] = 1.0
            indices, values = examples.gradient(i, one)
            assert (values >= 1.0).all()
            assert abs(weights[indices] @ values - scores[part]) < 1e-11
    # Words that are new have no feature.
    new = ["?"] * 4
    other = Sentence(new, lemmas=new, upos=new, feats=new, heads=[2, 0, 2, 2])
    assert examples.dictionary is not None
    blind = Examples([other], order, features=examples.dictionary)
    _, nodes = blind.parts(0)
    inner = (nodes[:, :2] > 0).all(axis=1) & (nodes[:, 2] != 0)
    assert inner.any()
    assert not blind.scores(0, weights)[inner].any()


@NAMED
@pytest.mark.parametrize(("beta", "gamma"), [(1.0, 0.0), (np.inf, 1.0)])
def test_a_native_pass_is_the_walk_of_batches(features: str, beta: float, gamma: float) -> None:
    examples = Examples(treebank(9), features=features, least=1e-9)
    fast, slow, touched, also = learned_both_ways(examples, beta, gamma, 4)
    assert also[np.abs(fast) > 1e-9].all()
    assert touched[np.abs(slow) > 1e-9].all()


def test_for_the_best_tree_unsupported_features_come_with_mistakes() -> None:
    """MSFXM10, section 5: the active set is between the supported and the complete features."""
    sentences = treebank(30, seed=2)
    some, every = (Examples(sentences, 1, features=f) for f in ("supported", "complete"))
    learner = Online(every, Aggressive(np.inf, 1.0), epochs=3)
    list(learner)
    parser = train(sentences, 1, beta=np.inf, gamma=1.0, features="complete", prune=False)
    assert some.n_weights / 2 < learner.touched.sum() < every.n_weights
    assert parser.n_weights < every.n_weights
    assert (learner.touched & ~supported(every)).any()


@NAMED
@pytest.mark.parametrize("order", [1, 2])
def test_threads_do_not_show(features: str, order: int) -> None:
    sentences = treebank(15, seed=4)
    given: dict[str, Any] = {"features": features, "epochs": 2, "batch": 5}
    one = bytes_of(train(sentences, order, threads=1, **given).model)
    for threads in (2, 3, 8):
        assert bytes_of(train(sentences, order, threads=threads, **given).model) == one


@pytest.fixture(scope="module")
def parser() -> Parser:
    return train(treebank(), epochs=2, features="complete", min_count=2)


def test_a_parser_keeps_the_features_that_it_uses(parser: Parser) -> None:
    gold = treebank(20, seed=5)
    assert vs.parsing.evaluate(gold, parser.parse(gold)).uas > 0.95
    kept = parser.model.dictionary
    assert parser.features == "complete"
    assert kept is not None
    assert parser.n_weights == kept.n_features > 0
    assert parser.model.weights.all()
    assert (kept.counts >= 2).all()
    assert kept.slots.all()


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 1000), zeros=st.floats(0.0, 1.0))
def test_weights_of_nothing_can_go(seed: int, zeros: float) -> None:
    sentences = treebank(3, seed=seed % 20)
    examples = Examples(sentences, 2, features="complete")
    rng = np.random.default_rng(seed)
    weights = some_weights(examples, seed) * (rng.random(examples.n_weights) >= zeros)
    assert examples.dictionary is not None
    fewer = Examples(sentences, 2, features=examples.dictionary.used(weights))
    assert fewer.n_weights == np.count_nonzero(weights)
    for i in range(3):
        scores = fewer.scores(i, weights[weights != 0.0])
        np.testing.assert_allclose(scores, examples.scores(i, weights), atol=1e-12)


def test_relaxed_parsing_adds_what_relax_adds() -> None:
    """Bounds on the potentials of pairs hold with a dictionary, too."""
    made = train(treebank(6), epochs=3, features="complete", prune=False)
    weights = np.random.default_rng(1).normal(size=made.n_weights).astype(np.float32) * 0.03
    parser = Parser(made.model._replace(weights=weights))
    sentences = [s for s in treebank(6) if len(s) < 7][:2]
    for s in sentences:
        few, many = (check(parser, s, threshold, 1) for threshold in (1e-3, 1e-5))
        assert 0 < few < many


def test_files_hold_the_dictionary(parser: Parser) -> None:
    data = bytes_of(parser.model)
    again = model_of(data)
    assert bytes_of(again) == data
    assert data[8] == 2
    assert bytes_of(train(treebank(3), 1, bits=4, epochs=1).model)[8] == 1
    assert parser.model.dictionary is not None and again.dictionary is not None  # noqa: PT018
    for one, other in zip(parser.model.dictionary, again.dictionary, strict=True):
        assert one.dtype == other.dtype
        assert one.tolist() == other.tolist()
    sentences = treebank(9, seed=3)
    assert [s.confidence.tolist() for s in Parser(again).parse(sentences)] == [
        s.confidence.tolist() for s in parser.parse(sentences)
    ]


def test_dictionaries_that_are_none_are_refused(parser: Parser) -> None:
    found = parser.model.dictionary
    assert found is not None
    turned, none, far = found.keys.copy(), found.slots.copy(), found.sizes.copy()
    turned[:2] = turned[1::-1]
    none[3] = 0
    far[:2] += [1, -1]
    for damaged, problem in (
        (found._replace(keys=turned), "they do not ascend"),
        (found._replace(slots=none), "key 3 has no feature"),
        (found._replace(sizes=far), "they do not ascend"),
        (found._replace(sizes=found.sizes[:-1]), "of other templates"),
        (found._replace(sizes=found.sizes * 1000), "the file ends before"),
        (found._replace(sizes=-found.sizes), "'keys' is"),
        (found._replace(slots=found.slots | np.uint16(1 << 15)), "are wanted"),
    ):
        model = parser.model._replace(dictionary=damaged)
        with pytest.raises(vs.io.ModelFormatError, match=problem):
            model_of(bytes_of(model))
    # Keys that all belong at one place of a table would take for ever.
    many = 9000
    keys = (np.arange(many) << 16).astype(np.uint32)
    sizes = np.zeros(native.templates_of_parts(1), np.int64)
    sizes[0] = many
    crowd = Dictionary(sizes, keys, np.ones(many, np.uint16), np.ones(many, np.uint32))
    model = parser.model._replace(order=1, dictionary=crowd, weights=np.ones(many, np.float32))
    with pytest.raises(vs.io.ModelFormatError, match="keys fall together"):
        model_of(bytes_of(model))


@pytest.mark.parametrize("change", [np.int64, ">u4", list, lambda x: np.repeat(x, 2)[::2]])
def test_keys_of_any_whole_numbers_are_those_of_files(parser: Parser, change: Any) -> None:
    found = parser.model.dictionary
    assert found is not None
    make = change if callable(change) and not isinstance(change, type) else None
    arrays = [make(x) if make else list(x) if change is list else x.astype(change) for x in found]
    again, sentences = Dictionary(*arrays), treebank(4, seed=8)
    other = Parser(parser.model._replace(dictionary=again))
    assert [s.confidence.tolist() for s in other.parse(sentences)] == [
        s.confidence.tolist() for s in parser.parse(sentences)
    ]
    examples = [Examples(sentences, parser.order, features=x) for x in (found, again)]
    weights = np.random.default_rng(0).normal(size=examples[0].n_weights)
    assert len({tuple(x.scores(1, weights)) for x in examples}) == 1


def test_dictionaries_are_checked(parser: Parser) -> None:
    found = parser.model.dictionary
    assert found is not None
    total = len(found.keys)
    for damaged, problem in (
        (found._replace(keys=found.keys[:2]), rf"keys has 2 entries, \S+sizes sum to {total}"),
        (found._replace(counts=found.counts[:2]), "counts has 2 entries"),
        (found._replace(sizes=found.sizes + 2**60), f"keys has {total} entries"),
        (found._replace(sizes=-found.sizes), r"sizes\[0\] is -"),
        (found._replace(keys=found.keys[::-1]), r"keys\[[0-9]+\] is [0-9]+, not above"),
        (found._replace(keys=found.keys.astype(np.int64) + 2**32), r"keys\[0\] .*, not 0 to 4294"),
        (found._replace(keys=found.keys.astype(float)), "keys must be whole numbers, .* float64"),
        (found._replace(slots=None), "slots must be whole numbers, one after the other"),  # type: ignore[arg-type]
        (found._replace(slots=found.slots * 0), r"slots\[0\] is 0, and says of no feature"),
    ):
        with pytest.raises(ValueError, match=rf"^model\.dictionary\.{problem}"):
            Parser(parser.model._replace(dictionary=damaged))
        with pytest.raises(ValueError, match=rf"^features\.{problem}"):
            Examples(treebank(2), parser.order, features=damaged)
    with pytest.raises(TypeError, match="must be a Dictionary, not int"):
        Parser(parser.model._replace(dictionary=5))  # type: ignore[arg-type]


def test_errors_say_what_is_wrong() -> None:
    few = treebank(2)
    for wrong, problem in (
        ({"features": "all"}, "features must be one of hashed, supported, complete, not 'all'"),
        ({"min_count": 0}, "min_count must be an integer >= 1"),
        ({"min_count": 2}, "min_count=2 wants features='supported' or 'complete'"),
    ):
        for make in (train, Examples):
            with pytest.raises(ValueError, match=problem):
                make(few, **wrong)  # type: ignore[operator]
    with pytest.raises(ValueError, match="order 0 has hashed features"):
        Examples(few, 0, features="supported")
    found = Examples(few, features="supported").dictionary
    assert found is not None
    with pytest.raises(ValueError, match="min_count=2 wants"):
        Examples(few, features=found, min_count=2)
    larger = Examples(few, 2, features="supported").dictionary
    assert larger is not None
    for order, own, other in ((0, found, 1), (2, found, 1), (1, larger, 2)):
        with pytest.raises(ValueError, match=f"of a model of order {other}, order is {order}$"):
            Examples(few, order, features=own)
    with pytest.raises(ValueError, match="order 2, order is 2 with non-projective arcs"):
        Examples(few, 2, "tree", features=larger, nonprojective=True)
    model = train(few, order=1, epochs=1, features="supported").model
    with pytest.raises(ValueError, match="of order 1, order is 2"):
        Parser(model._replace(order=2))
