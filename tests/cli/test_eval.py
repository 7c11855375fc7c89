"""`valuesparse eval`: which labels it compares, what it counts, and where it cannot know."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

pytest.importorskip("click", reason="the command line needs the cli extra")
pytest.importorskip("rich", reason="the command line needs the cli extra")

from command_line import NER, out, run


def test_eval(model: Path, source: Path, tmp_path: Path) -> None:
    tagged = tmp_path / "tagged.conll"
    tagged.write_bytes(out("tag", model, source, "--marginals", "none"))
    for extra in ((), ("--json",)):
        whole = out("eval", source, tagged, *extra)
        assert whole == out("eval", "-", tagged, *extra, given=source)
        assert whole == out("eval", source, "-", *extra, given=tagged)
    found = json.loads(whole)
    assert (found["accuracy"], found["entity_f1"], found["unknown"]) == (1.0, None, None)
    with_p = tmp_path / "p.conll"
    with_p.write_bytes(out("tag", model, source))
    assert out("eval", source, with_p, "--system", 3, "--json") == whole
    assert out("eval", source, with_p, "--json") == whole
    result = run("eval", "-", "-", given=b"")
    assert (result.exit_code, "read once alone" in result.stderr) == (2, True)


@pytest.mark.parametrize("end", ["conllu", "tsv", "jsonl"])
def test_eval_finds_the_labels_that_tag_wrote(model: Path, tmp_path: Path, end: str) -> None:
    gold = {
        "conllu": "".join(
            f"{i}\t{w}\t_\t{t}" + "\t_" * 6 + "\n"
            for i, (w, t) in enumerate([("the", "DET"), ("dog", "VERB")], 1)
        ),
        "tsv": "word\ttag\nthe\tDET\ndog\tVERB\n",
        "jsonl": '{"words": ["the", "dog"], "tags": ["DET", "VERB"]}\n',
    }[end]
    source, tagged = tmp_path / f"gold.{end}", tmp_path / f"tagged.{end}"
    source.write_text(gold)
    out("tag", model, source, "-o", tagged)
    train = tmp_path / "train.conll"
    train.write_text("the DET\n")
    found = json.loads(out("eval", source, tagged, "--json", "--train", train))
    assert (found["accuracy"], found["unknown"], found["unknown_accuracy"]) == (0.5, 1, 0.0)
    piped = out("eval", source, tagged, "--json", "--train", "-", given=train)
    assert json.loads(piped) == found
    assert found["labels"]["VERB"] == {"precision": 0, "recall": 0, "f1": 0, "support": 1}


MIXED = "the DET\ndog VERB\n\na DET\ncat NOUN\nran VERB\n\n"  # one of these is not what is found


@pytest.mark.parametrize("text", [MIXED, "a DET\n\n" + MIXED, MIXED.replace(" ", "\t")])
@pytest.mark.parametrize(
    "options", [(), ("--marginals", "none"), ("--marginals", "all"), ("--n-best", 3)]
)
def test_eval_reads_what_tag_writes_without_options(
    model: Path, tmp_path: Path, text: str, options: tuple[object, ...]
) -> None:
    gold, words = tmp_path / "gold.conll", tmp_path / "words.conll"
    gold.write_text(text)
    words.write_text("\n".join(line.split()[0] if line else "" for line in text.split("\n")))
    tokens = len(text.split()) // 2
    for source in (gold, words):  # with the right label among the columns, and without
        tagged = out("tag", model, source, *options)
        found = json.loads(out("eval", gold, "-", "--json", given=tagged))
        assert found["accuracy"] == pytest.approx((tokens - 1) / tokens)


def test_eval_says_where_it_cannot_know(model: Path, source: Path, tmp_path: Path) -> None:
    once = out("tag", model, source)
    twice = out("tag", model, given=once)
    best = out("tag", model, source, "--n-best", 2, "--marginals", "none")
    for tagged, columns in ((twice, "3, 5"), (best, "3, 4")):
        result = run("eval", source, "-", given=tagged)
        assert result.exit_code == 1
        assert result.stderr == (
            f"Error: system_column: columns {columns} of - may all be labels; say which one, "
            "--system COLUMN (system_column=)\n"
        )
        assert out("eval", source, "-", "--system", 3, given=tagged)
    numbers = b"the 0.500000\ndog 0.250000\nran 1.000000\n"
    gold = b"the DET\ndog NOUN\nran VERB\n"
    (tmp_path / "gold.conll").write_bytes(gold)
    result = run("eval", tmp_path / "gold.conll", "-", given=numbers)
    assert "the last column of - holds numbers such as 0.500000; say which" in result.stderr
    # CoNLL may have more or fewer columns in the next sentence.
    uneven = "the x y DET\n\ndog NOUN\n"
    (tmp_path / "gold.conll").write_text("the DET\n\ndog NOUN\n")
    whole = out("eval", tmp_path / "gold.conll", "-", "--json", given=uneven.encode())
    assert json.loads(whole)["accuracy"] == 1


def test_eval_of_attribute_files(model: Path, tmp_path: Path) -> None:
    gold, tagged = tmp_path / "gold.crfsuite.txt", tmp_path / "tagged.crfsuite.txt"
    gold.write_text("DET\tw=the\nVERB\tw=ran\n\n")
    for options in ((), ("--marginals", "none")):
        text = out("tag", model, gold, *options, "--features", "words")
        tagged.write_bytes(text)
        whole = out("eval", gold, tagged, "--json")
        assert whole == out("eval", gold, "-", "--json", given=text)
        assert json.loads(whole)["accuracy"] == 0.5


def test_eval_counts_entities_and_names_what_differs(tmp_path: Path) -> None:
    gold, system = tmp_path / "gold.conll", tmp_path / "system.conll"
    gold.write_text(NER)
    system.write_text(NER.replace("I-PER", "O", 5))
    found = json.loads(out("eval", gold, system, "--json"))
    assert found["entity_f1"] == 15 / 20
    assert found["entities"]["LOC"]["f1"] == 1
    assert "entity F1            75.00%" in out("eval", gold, system).decode()
    assert json.loads(out("eval", gold, system, "--json", "--scheme", "BIO"))["entity_f1"] == 0.75
    system.write_text(NER.replace("Lee", "Lea", 1))
    result = run("eval", gold, system)
    assert result.exit_code == 1
    assert result.stderr == (f"Error: sentence 1: word 2 is 'Lee' in {gold}, 'Lea' in {system}\n")
    system.write_text(NER[: NER.rindex("in O")])
    assert f"sentence 20 is in {gold} alone" in run("eval", gold, system).stderr
    system.write_text(NER.replace("Lee I-PER\n", "", 1))
    assert "sentence 1: 3 words in " in run("eval", gold, system).stderr
    result = run("eval", gold, gold, "--system", "9")
    assert (result.exit_code, "system_column: no column 9" in result.stderr) == (1, True)
    result = run("eval", gold, system, "--input-format", "text")
    assert result.exit_code == 2


OLD = {
    "conllu": (
        "1\tthe\t_\tDET\t_\t_\t_\t_\t_\tPredicted=Y|Probability=0.9\n"
        "2\tdog\t_\tNOUN\t_\t_\t_\t_\t_\tA=b|P(Y)=0.9|Predicted2=Z|Predicted=Y|Sense=P(x)\n"
    ),
    "tsv": ("word\tlabel\tPredicted\tp(Y)\tnote\nthe\tDET\tY\t0.9\tone \ndog\tNOUN\tY\t1\t\n"),
    "jsonl": (
        '{"words": ["the", "dog"], "tags": ["DET", "NOUN"], "predicted": ["Y", "Y"], '
        '"probability": [0.9, 1], "marginals": [], "n_best": [], "note": 1}\n'
    ),
}
OPTIONS: list[tuple[object, ...]] = [
    (), ("--marginals", "none"), ("--marginals", "all"), ("--n-best", 3),
]  # fmt: skip


@pytest.mark.parametrize("end", list(OLD))
@pytest.mark.parametrize("options", OPTIONS)
def test_tagging_again_replaces_what_was_predicted(
    model: Path, tmp_path: Path, end: str, options: tuple[object, ...]
) -> None:
    old, clean, again = (tmp_path / f"{name}.{end}" for name in ("old", "clean", "again"))
    text = OLD[end]
    old.write_text(text)
    for stale, new in (
        ("Predicted=Y|Probability=0.9", "_"), ("|P(Y)=0.9|Predicted2=Z|Predicted=Y", ""),
        ("\tPredicted\tp(Y)", ""), ("\tY\t0.9", ""), ("\tY\t1", ""),
        ('"predicted": ["Y", "Y"], "probability": [0.9, 1], "marginals": [], "n_best": [], ', ""),
    ):  # fmt: skip
        text = text.replace(stale, new)
    clean.write_text(text)
    expected = out("tag", model, clean, *options)
    assert out("tag", model, old, *options) == expected
    out("tag", model, old, "-o", f"{tmp_path}/folder/", *options)
    assert (tmp_path / "folder" / old.name).read_bytes() == expected
    for first, second in itertools.product(OPTIONS, OPTIONS[:2]):
        again.write_bytes(out("tag", model, clean, *first))
        assert out("tag", model, again, *second) == out("tag", model, clean, *second)
    assert json.loads(out("eval", clean, again, "--json"))["accuracy"] == 1


@pytest.mark.parametrize("name", ["predicted", "Predicted"])
def test_the_column_of_words_is_not_replaced(model: Path, tmp_path: Path, name: str) -> None:
    source = tmp_path / "a.tsv"
    source.write_text(f"x\t{name}\nDET\tthe\n")
    result = run("tag", model, source, "--word", name)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"Error: a.tsv: word: the column {name!r} has the words, and tagging adds one of that "
        "name; rename it, or write another format, --output-format (output_format=)\n"
    )
    assert out("tag", model, source, "--word", name, "--output-format", "jsonl")


@pytest.mark.parametrize(
    ("end", "text", "said"),
    [
        (
            "tsv",
            "word\tpredicted\tprobability\tPredicted\nthe\tY\t0.9\tDET\n",
            "a.tsv: sentence 1: system_column: columns 2, 4 are all named 'predicted'; say the "
            "number of one",
        ),
        (
            "conllu",
            "1\tthe\t_\tDET" + "\t_" * 5 + "\tPredicted=Y|Predicted=DET\n",
            "sentence 1: several Predicted= in MISC of word 1; tag the file again, or leave one",
        ),
    ],
    ids=["tsv", "conllu"],
)
def test_eval_takes_none_of_two_predictions(tmp_path: Path, end: str, text: str, said: str) -> None:
    gold, system = tmp_path / "gold.conll", tmp_path / f"a.{end}"
    gold.write_text("the DET\n")
    system.write_text(text)
    for column in ((), ("--system", "predicted")):
        result = run("eval", gold, system, *column)
        assert result.exit_code == 1
        assert said in result.stderr
    if end == "tsv":
        found = json.loads(out("eval", gold, system, "--system", 4, "--json"))
        assert found["accuracy"] == 1
