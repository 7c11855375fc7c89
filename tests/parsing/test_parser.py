"""Training, parsing and model files, on a treebank made by chance."""

from __future__ import annotations

import hashlib
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checks import in_small_stack

import valuesparse as vs
from tests.parsing.treebank import treebank
from valuesparse.learning import Aggressive, Online
from valuesparse.parsing import Examples, Parser, Progress, Sentence, load, train
from valuesparse.parsing._model import bytes_of, model_of, rounded

BITS = 6


@pytest.fixture(scope="module")
def parser() -> Parser:
    return train(treebank(), order=1, bits=BITS, epochs=4)


def bare(sentences: list[Sentence]) -> list[Sentence]:
    return [Sentence(s.forms, s.lemmas, s.upos, s.xpos, s.feats) for s in sentences]


def outputs(sentences: Any) -> list[Any]:
    return [(s.heads.tolist(), s.labels, s.confidence.tolist()) for s in sentences]


def test_a_grammar_is_learned(parser: Parser) -> None:
    gold = treebank(20, seed=5)
    found = list(parser.parse(bare(gold)))
    score = vs.parsing.evaluate(gold, found)
    assert score.uas > 0.95
    assert score.las > 0.95
    assert parser.order == 1
    assert (parser.constraint, parser.single_root) == ("projective", True)
    assert parser.labels == ("advmod", "det", "nsubj", "obj", "punct", "root")
    for one, other in zip(found, gold, strict=True):
        assert one.forms == other.forms
        assert ((one.confidence > 0.0) & (one.confidence <= 1.0)).all()


@pytest.mark.parametrize("constraint", ["tree", "projective"])
@pytest.mark.parametrize("single_root", [False, True])
def test_trees_have_the_greatest_sum_of_marginals(
    parser: Parser, constraint: str, single_root: bool
) -> None:
    """Against the parts of the sentences, one by one."""
    sentences = treebank(6, seed=9, crossing=True)
    model = parser.model
    examples = Examples(sentences, 1, constraint, single_root, bits=BITS)
    found = list(
        parser.parse(sentences, constraint=constraint, single_root=single_root, prune=False)
    )
    for i, sentence in enumerate(found):
        _, p = examples.marginals(i, examples.scores(i, model.weights.astype(float)))
        structure = examples.best(i, p)
        _, nodes = examples.parts(i)
        arcs = {(int(h), int(m)): k for k, (h, m, _) in enumerate(nodes)}
        on = [arcs[int(h), m] for m, h in enumerate(sentence.heads.tolist(), 1)]
        assert structure[on].all()
        np.testing.assert_allclose(sentence.confidence, p[on], atol=1e-5)


def test_the_pruner_keeps_heads_by_their_marginals_and_a_tree() -> None:
    sentences = treebank(5, seed=2)
    words = 14
    sentences.append(
        Sentence(["w"] * words, upos=["NOUN", "VERB"] * (words // 2), heads=[0, *range(1, words)])
    )
    examples = Examples(sentences, 0, "tree", True, bits=BITS)
    learner = Online(examples, Aggressive(), epochs=3)
    list(learner)
    weights = (4.0 * learner.result()).astype(np.float32)
    begin, heads, modifiers = examples.prune(weights)
    few = 0
    for i, sentence in enumerate(sentences):
        scores = examples.scores(i, weights.astype(float))
        _, p = examples.marginals(i, scores)
        best = examples.best(i, scores)
        _, nodes = examples.parts(i)
        own = slice(int(begin[i]), int(begin[i + 1]))
        kept = set(zip(heads[own].tolist(), modifiers[own].tolist(), strict=True))
        assert list(zip(modifiers[own], heads[own], strict=True)) == sorted((m, h) for h, m in kept)
        expected = {(int(h), m) for m, h in enumerate(sentence.heads.tolist(), 1)}
        expected |= {(int(h), int(m)) for (h, m, _), on in zip(nodes, best, strict=True) if on}
        for m in range(1, len(sentence) + 1):
            own_p = {int(h): q for (h, n, _), q in zip(nodes, p, strict=True) if n == m}
            ranked = sorted(own_p, key=lambda h: (-own_p[h], h))[:10]
            expected |= {(h, m) for h in ranked if own_p[h] >= 1e-4 * own_p[ranked[0]]}
        near = {
            (int(h), int(m))
            for (h, m, _), q in zip(nodes, p, strict=True)
            if abs(q / max(p[nodes[:, 1] == m]) - 1e-4) < 1e-6
        }
        assert kept - near == expected - near
        few += len(kept) < len(sentence) ** 2
    assert few


def test_files_hold_all_of_a_parser(parser: Parser, tmp_path: Path) -> None:
    path = tmp_path / "m.parser"
    parser.save(path)
    again = load(path)
    assert repr(again) == repr(parser) == "Parser(order=1, 6 labels, 'projective')"
    assert bytes_of(again.model) == bytes_of(parser.model) == path.read_bytes()
    sentences = bare(treebank(9, seed=3))
    assert outputs(again.parse(sentences)) == outputs(parser.parse(sentences))
    copy = pickle.loads(pickle.dumps(parser))
    assert outputs(copy.parse(sentences)) == outputs(parser.parse(sentences))


def test_records_say_what_they_hold(parser: Parser) -> None:
    sentences = treebank(3, seed=3)
    examples = Examples(sentences, order=2, constraint="projective", bits=4)
    expected = f"Examples(3 sentences, order=2, 'projective', {examples.n_weights} weights)"
    assert repr(examples) == expected
    parses = parser.parse(bare(sentences))
    assert len(list(parses)) == 3
    assert repr(parses) == "Parses(3 sentences parsed so far)"


@pytest.mark.simd
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_weights_are_rounded_to_half_precision(threads: int) -> None:
    rng = np.random.default_rng(0)
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(float)
    halves = np.unique_values(halves[np.isfinite(halves)])
    between = (halves[1:] + halves[:-1]) / 2  # ties go to the even one
    near = np.concatenate([np.nextafter(between, s) for s in (-np.inf, np.inf)])
    wide = rng.normal(size=50_000) * np.exp(rng.uniform(-30, 8, 50_000))
    weights = np.concatenate([halves, between, near, wide, [1e300, -7e4, 0.0, -0.0, 5e-324]])
    expected = weights.clip(-65504, 65504).astype(np.float16).astype(np.float32)
    np.testing.assert_array_equal(rounded(weights, threads), expected)


def test_damaged_files_are_refused(parser: Parser, tmp_path: Path) -> None:
    data = bytes_of(parser.model)
    path = tmp_path / "m.parser"
    for damaged, problem in (
        (b"", "no model of a parser"),
        (b"PK" + data[2:], "no model of a parser"),
        (data[:-1], "checksum"),
        (data[:100] + b"!" + data[101:], "checksum"),
        (data[:8] + b"\x07" + data[9:], "version 7"),
    ):
        path.write_bytes(damaged)
        with pytest.raises(vs.io.ModelFormatError, match=problem) as caught:
            load(path)
        assert caught.value.path == str(path)
    assert model_of(data).labels == parser.labels


@pytest.mark.parametrize("header", [b"[" * 400_000, b'{"order": 1, "order": 1}', b'{"order": NaN}'])
def test_headers_of_files_cost_no_stack(header: bytes) -> None:
    body = struct.pack("<8sII", b"vsparser", 1, len(header)) + header
    data = body + hashlib.sha256(body).digest()
    found: list[str] = []

    def read() -> None:
        try:
            model_of(data)
        except vs.io.ModelFormatError as error:
            found.append(str(error))

    in_small_stack(read, 128 << 10)
    assert len(found) == 1
    assert "it is not JSON" in found[0]


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_threads_do_not_show(threads: int) -> None:
    sentences = treebank(25, seed=4)
    one = train(sentences, bits=BITS, epochs=2, batch=5, threads=1)
    other = train(sentences, bits=BITS, epochs=2, batch=5, threads=threads)
    assert bytes_of(one.model) == bytes_of(other.model)
    many = bare(sentences) * 8
    assert outputs(one.parse(many, threads=1)) == outputs(one.parse(many, threads=threads))


def test_arcs_are_scored_by_shares_of_any_size(parser: Parser) -> None:
    # Those of one thread hold 2**18 arcs at most: of the long sentences one at a time.
    rng = np.random.default_rng(0)
    long = [Sentence([str(x) for x in rng.integers(9, size=n)]) for n in (400, 3, 380, 1)]
    sentences = [Sentence([]), *long, *bare(treebank(5)), Sentence([])]
    alone = [outputs(parser.parse([s], prune=False, threads=1)) for s in sentences]
    for threads in (1, 3):
        found = outputs(parser.parse(sentences, prune=False, threads=threads))
        assert found == [one for (one,) in alone]


def test_training_goes_on_where_it_was_cut_off(tmp_path: Path) -> None:
    class Cut(Exception):
        pass

    def cut(progress: Progress) -> None:
        if (progress.stage, progress.epoch) == ("parts", 2):
            raise Cut

    given: dict[str, Any] = {"bits": 4, "epochs": 4, "seed": 3, "batch": 4}
    whole = train(treebank(), **given)
    kept = tmp_path / "state"
    with pytest.raises(Cut):
        train(treebank(), **given, checkpoint=kept, progress=cut)
    seen: list[Progress] = []
    resumed = train(treebank(), **given, checkpoint=kept, progress=seen.append)
    assert [p.epoch for p in seen if p.stage == "parts"] == [3, 4]
    assert bytes_of(resumed.model) == bytes_of(whole.model)
    assert str(seen[-1]).startswith("parts, pass 4 of 4, loss ")
    with pytest.raises(ValueError, match="is a checkpoint of other data"):
        train(treebank(), **{**given, "beta": 2.0}, checkpoint=kept)
    longer = train(treebank(), **{**given, "epochs": 5}, checkpoint=kept)
    assert bytes_of(longer.model) == bytes_of(train(treebank(), **{**given, "epochs": 5}).model)
    state = kept.read_bytes()
    with pytest.raises(ValueError, match="state has 5 passes, epochs is 4: ask for 5 or more"):
        train(treebank(), **given, checkpoint=kept)
    assert kept.read_bytes() == state


def test_progress_within_a_pass_changes_no_bit() -> None:
    """Each pass tells the share that is over, after every 32 batches and at its end."""
    given: dict[str, Any] = {"bits": 4, "epochs": 2, "seed": 3, "batch": 1}
    seen: list[Progress] = []
    told = train(treebank(70), **given, progress=seen.append)
    parts = [p for p in seen if p.stage == "parts"]
    assert [(p.epoch, p.share) for p in parts] == [
        (epoch, share) for epoch in (1, 2) for share in (32 / 70, 64 / 70, 1.0)
    ]
    assert str(parts[0]).startswith("parts, pass 1 of 2 (46%), loss ")
    assert 0.5 < parts[1].loss / parts[2].loss < 2.0
    assert bytes_of(told.model) == bytes_of(train(treebank(70), **given).model)


def test_what_is_not_learned_stays_out(tmp_path: Path) -> None:
    sentences = treebank(10)
    plain = train(sentences, bits=4, epochs=1, prune=False)
    assert plain.model.pruner is None
    assert outputs(plain.parse(sentences)) == outputs(plain.parse(sentences, prune=False))
    path = tmp_path / "m"
    plain.save(path)
    assert load(path).model.pruner is None
    blind = train(sentences, bits=4, epochs=1, ignore=["xpos"])
    assert blind.ignore == ("XPOS",)
    other = [Sentence(s.forms, s.lemmas, s.upos, ["Z"] * len(s), s.feats) for s in sentences]
    assert outputs(blind.parse(other)) == outputs(blind.parse(sentences))


def test_files_are_trained_on(tmp_path: Path) -> None:
    sentences = treebank(8)
    path = tmp_path / "t.conllu"
    vs.parsing.write_conll(sentences, path)
    given: dict[str, Any] = {"bits": 4, "epochs": 1}
    expected = bytes_of(train(sentences, **given).model)
    assert bytes_of(train(path, **given).model) == expected
    assert bytes_of(train([path], **given).model) == expected
    path.write_text("1\ta\t_\t_\t_\t_\t2\tx\t_\t_\n2\tb\t_\t_\t_\t_\t1\tx\t_\t_\n\n")
    with pytest.raises(vs.io.TextFormatError, match="HEADs go round in a circle"):
        train(path, **given)


def test_sentences_come_one_after_the_other(parser: Parser) -> None:
    def endless() -> Any:
        while True:
            yield from treebank(50)

    stream = parser.parse(endless())
    assert len(next(stream).heads) > 0
    assert list(parser.parse([])) == []
    (empty,) = parser.parse([Sentence([])])
    assert empty.heads.tolist() == []
    (unknown,) = parser.parse([Sentence(["?"])])
    assert unknown.heads.tolist() == [0]


def test_pairs_of_arcs_are_learned_and_parsed() -> None:
    parser = train(treebank(), bits=BITS, epochs=3)
    assert parser.order == 2
    gold = treebank(20, seed=5)
    assert vs.parsing.evaluate(gold, parser.parse(bare(gold))).uas > 0.95
    examples = Examples(gold[:3], 2, bits=BITS)
    for i, sentence in enumerate(parser.parse(gold[:3], method="bp", prune=False)):
        scores = examples.scores(i, parser.model.weights.astype(float))
        _, beliefs = examples.marginals(i, scores)
        _, nodes = examples.parts(i)
        arcs = {(int(h), int(m)): k for k, (h, m, s) in enumerate(nodes) if s < 0}
        on = [arcs[int(h), m] for m, h in enumerate(sentence.heads.tolist(), 1)]
        np.testing.assert_allclose(sentence.confidence, beliefs[on], atol=1e-5)
    with pytest.raises(ValueError, match="'exact' wants a parser of order 1"):
        parser.parse([], method="exact")


@pytest.mark.parametrize("column", ["lemmas", "upos", "xpos", "feats", "forms", "labels", "misc"])
@pytest.mark.parametrize("change", ["clear", "append", "pop"])
def test_columns_that_have_changed_are_refused(column: str, change: str, tmp_path: Path) -> None:
    sentences = treebank(4)
    parser = train(sentences, order=1, bits=BITS, epochs=1)
    cells = getattr(sentences[2], column)
    getattr(cells, change)(*["x"] * (change == "append"))
    told = rf"(forms|lemmas|{column}) has [0-9]+ entries, "
    problem = rf"sentences\[2\]: {told}"
    if column not in ("labels", "misc"):  # which parsing does not look at
        for method in ("exact", "lp"):
            with pytest.raises(ValueError, match=problem):
                list(parser.parse(sentences, method))
        with pytest.raises(ValueError, match=rf"sentences\[0\]: {told}"):
            parser.graph(sentences[2])
    elif column == "labels":
        assert len(list(parser.parse(sentences))) == 4
    if sentences[2].forms:  # without words it is left out
        with pytest.raises(ValueError, match=r"sentences\[[12]\]: "):
            train(sentences, order=1, bits=BITS, epochs=1)
    with pytest.raises(ValueError, match=problem):
        Examples(sentences, bits=BITS)
    with pytest.raises(ValueError, match=problem):
        vs.parsing.write_conll(sentences, tmp_path / "a.conllu")


def test_cells_of_arrays_are_text(parser: Parser) -> None:
    forms = np.array(["the", "dog"])
    made = [Sentence(list(forms), upos=list(np.array(["DET", "NOUN"])))]
    assert type(made[0].forms[0]) is not str
    plain = [Sentence(forms.tolist(), upos=["DET", "NOUN"])]
    assert outputs(parser.parse(made)) == outputs(parser.parse(plain))
    assert Examples([s.parsed([2, 0], ["a", "b"]) for s in made], bits=BITS).n_weights


def test_weights_of_any_numbers_are_those_of_files(parser: Parser, tmp_path: Path) -> None:
    sentences, model = treebank(3, seed=4), parser.model
    expected = outputs(parser.parse(sentences))
    for change in (
        lambda w: w.astype(float), lambda w: w.astype(">f2"), lambda w: np.repeat(w, 2)[::2],
        lambda w: w.tolist(),
    ):  # fmt: skip
        names = ("weights", "pruner", "labeller")
        again = Parser(model._replace(**{name: change(getattr(model, name)) for name in names}))
        assert outputs(again.parse(sentences)) == expected
        again.save(tmp_path / "a.model")
        assert outputs(load(tmp_path / "a.model").parse(sentences)) == expected


def test_models_are_checked(parser: Parser) -> None:
    model = parser.model
    n, nan = len(model.weights), np.where(np.arange(len(model.weights)) == 7, np.nan, 0.0)
    assert model.pruner is not None
    for change, error, problem in (
        ({"weights": model.weights[:3]}, ValueError, rf"model.weights must have shape \({n},\)"),
        ({"weights": nan}, ValueError, r"model.weights\[7\] is nan; weights of a parser lie"),
        ({"weights": np.full(n, 7e4)}, ValueError, r"model.weights\[0\] is 70000.0; .* 65504"),
        ({"weights": np.full(n, 1e99)}, ValueError, r"model.weights\[0\] is 1e\+99"),
        ({"weights": model.weights * 1j}, TypeError, "model.weights must hold real numbers"),
        ({"labeller": None}, TypeError, "model.labeller must hold real numbers"),
        ({"pruner": model.pruner[:3]}, ValueError, "model.pruner must have shape"),
        ({"bits": BITS + 1}, ValueError, "model.weights must have shape"),
        ({"label_bits": 30}, ValueError, "model.label_bits must be 4 to 20, not 30"),
        ({"pruner_bits": 13}, ValueError, "model.pruner must have shape"),
        ({"order": 2}, ValueError, "model.weights must have shape"),
        ({"order": 3}, ValueError, "order must be 1 or 2"),
        ({"labels": ()}, ValueError, "model.labels must be a tuple of cells"),
        ({"labels": ("a", 3)}, ValueError, "model.labels must be a tuple of cells"),
        ({"labels": tuple(map(str, range(99)))}, ValueError, "model.labeller must have shape"),
        ({"features": "complete"}, ValueError, "model.features is 'complete', model.dictionary is"),
        ({"single_root": "no"}, ValueError, "model.single_root must be True or False"),
        ({"nonprojective": True}, ValueError, "nonprojective=True wants order=2"),
    ):
        with pytest.raises(error, match=problem):
            Parser(model._replace(**change))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="model must be a ParserModel, not tuple"):
        Parser(tuple(model))  # type: ignore[arg-type]


def test_errors_say_what_is_wrong(parser: Parser, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="method must be one of auto"):
        parser.parse([], method="viterbi")
    with pytest.raises(ValueError, match="constraint must be"):
        parser.parse([], constraint="flow")
    with pytest.raises(ValueError, match="threshold must be"):
        parser.parse([], threshold=-1.0)
    with pytest.raises(ValueError, match="max_rounds must be"):
        parser.parse([], max_rounds=-1)
    with pytest.raises(TypeError, match=r"sentences\[1\] must be a Sentence, not str"):
        list(parser.parse([Sentence(["a"]), "a b"]))  # type: ignore[list-item]
    with pytest.raises(TypeError, match=r"sentences\[0\].upos\[1\] must be a str, not NoneType"):
        list(parser.parse([Sentence(["a", "b"], upos=["X", None])]))  # type: ignore[list-item]
    with pytest.raises(ValueError, match=r"sentences\[0\].forms\[0\] is .*: UTF-8 has no bytes"):
        list(parser.parse([Sentence(["\ud800"])]))
    with pytest.raises(TypeError, match="sentence must be a Sentence, not str"):
        parser.graph("a b")  # type: ignore[arg-type]
    for bad, problem in ((Sentence(["a"]), "not Sentence; put it into a list"), (3, "not int$")):
        with pytest.raises(
            TypeError, match=f"sentences must be an iterable of Sentence, {problem}"
        ):
            parser.parse(bad)  # type: ignore[arg-type]
    for use, given in (
        (parser.parse, []), (parser.graph, Sentence(["a"])), (train, treebank(2))
    ):  # fmt: skip
        with pytest.raises(ValueError, match="prune must be True or False, not 'no'"):
            use(given, prune="no")  # type: ignore[operator]
    for given, problem in (
        ({"order": 5}, "order must be"),
        ({"beta": 0.0}, "beta must be above 0"),
        ({"epochs": 0}, "epochs must be an integer >= 1"),
        ({"batch": 0}, "batch must be an integer >= 1"),
        ({"seed": -1}, "seed must be an integer >= 0"),
        ({"constraint": "flow"}, "constraint must be"),
        ({"ignore": ["MISC"]}, "ignore: 'MISC'"),
        ({"bits": 2}, "bits must be 4 to 20"),
    ):
        with pytest.raises(ValueError, match=problem):
            train(treebank(2), **given)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^treebank has no sentence"):
        train([])
    (tmp_path / "a.conllu").write_text("\n")
    with pytest.raises(ValueError, match=r"a\.conllu: treebank has no sentence"):
        train(tmp_path / "a.conllu")
    for treebank_of_none in ([3], 3, None):
        with pytest.raises(TypeError, match="treebank must be paths or Sentence records, not "):
            train(treebank_of_none)
