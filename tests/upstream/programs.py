"""Public programs that use CRFs: each prints what it answers, as JSON.

``python programs.py SIDE PROGRAM FOLDER`` runs one on the side ``ours`` or ``theirs``. The code of
the programs is as it was published, and so are their models.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

VIETNAMESE = [
    "Trường đại học Bách Khoa Hà Nội",
    "Việt Nam là một quốc gia nằm ở phía đông bán đảo Đông Dương.",
    "Ông Nguyễn Văn A sinh ngày 12/3/1975 tại thành phố Hồ Chí Minh!",
    "tôi học tiếng việt ở nhà",
    "",
]
KHMER = [
    "ខួបឆ្នាំទី២៨! ២៣ តុលា ស្មារតីផ្សះផ្សាជាតិរវាងខ្មែរនិងខ្មែរ ឈានទៅបញ្ចប់សង្រ្គាម",
    "នាំពន្លឺសន្តិភាព និងការរួបរួមជាថ្មី",
    "ភាសាខ្មែរ គឺជាភាសារបស់ប្រទេសកម្ពុជា។ ខ្ញុំស្រលាញ់ភាសាខ្មែរ។",
]

ADDRESSES = [
    "123 Main St. Suite 100 Chicago, IL",
    "1 N. State Street, Apartment 4B, Boston MA 02109-1234",
    "PO Box 77, Springfield, OH 45501",
    "Corner of Fifth Ave & W 42nd St, New York",
    "c/o J. Smith, Building C, 9876 Old Mill Rd #12, Unit 3",
    "Rua das Flores, 25, 2.º andar",
    "",
]
NAMES = [
    "Mr. George 'Gob' Bluth II",
    "Dr. Maria-José de la Cruz, PhD",
    "Smith, John A. & Jane",
    "The Acme Widget Company, Inc.",
    "Johnson Family Trust c/o First National Bank",
    "李小龍",
    "",
]


def pyvi(folder: Path) -> Any:
    from pyvi import ViPosTagger, ViTokenizer, ViUtils

    answers: list[Any] = []
    for text in VIETNAMESE:
        tokens = ViTokenizer.tokenize(text)
        answers.append(tokens)
        if text:
            words, tags = ViPosTagger.postagging(tokens)
            answers.append([list(words), list(tags)])
            answers.append(ViUtils.add_accents(ViUtils.remove_accents(text).decode()))
    return answers


def khmernltk(folder: Path) -> Any:
    from khmernltk import pos_tag, sentence_tokenize, word_tokenize

    return [[word_tokenize(t), pos_tag(t), sentence_tokenize(t)] for t in KHMER]


def gecco(folder: Path) -> Any:
    import random

    from Bio.Seq import Seq
    from Bio.SeqRecord import SeqRecord
    from gecco.crf import ClusterCRF
    from gecco.model import Domain, Gene, Protein, Strand

    crf = ClusterCRF.trained()
    known = sorted({name for name, label in crf.model.state_features_ if label == "1"})
    rng = random.Random(0)
    source = SeqRecord(Seq("A" * 60_000), id="contig")
    genes = []
    for i in range(50):
        domains = [
            Domain(rng.choice([*known, "unknown"]), 1 + 40 * d, 30 + 40 * d, "Pfam", 1e-20, 1e-22)
            for d in range(rng.randrange(4))
        ]
        protein = Protein(f"p{i}", Seq("M" * 300), domains)
        genes.append(Gene(source, 1 + 1000 * i, 900 + 1000 * i, Strand.Coding, protein))
    found = crf.predict_probabilities(genes)
    return [
        [gene.average_probability, [domain.cluster_weight for domain in gene.protein.domains]]
        for gene in found
    ]


def usaddress(folder: Path) -> Any:
    import usaddress as package

    names = ("labeled", "us50_train_tagged", "us50_messiest_manual_label", "synthetic_osm_data_xml")
    paths = [folder / "training" / f"{name}.xml" for name in names]
    return [package.parse(text) for text in ADDRESSES + _labelled(folder, *paths)]


def probablepeople(folder: Path) -> Any:
    import probablepeople as package

    paths = sorted((folder / "name_data" / "labeled").glob("*.xml"))
    return [package.parse(text) for text in NAMES + _labelled(folder, *paths)]


def nltk_tagger(folder: Path) -> Any:
    import tempfile

    import nltk.data
    from nltk.tag import CRFTagger

    train = [
        [("The", "DT"), ("cat", "NN"), ("sat", "VBD"), ("on", "IN"), ("mats", "NNS"), (".", ".")],
        [("A", "DT"), ("Dog", "NN"), ("ate", "VBD"), ("12", "CD"), ("fish-cakes", "NNS")],
        [("Cats", "NNS"), ("like", "VBP"), ("the", "DT"), ("dog", "NN"), ("!", ".")],
    ]
    tests = [["The", "dog", "sat", "."], ["Fish", "like", "7", "mats", "!"], ["cat"], []]
    with tempfile.TemporaryDirectory() as temporary:
        nltk.data.path.append(temporary)  # it writes nowhere else
        path = str(Path(temporary, "model"))
        tagger = CRFTagger()
        tagger.train(train, path)
        again = CRFTagger()
        again.set_model_file(path)
        answers = [again.tag_sents(tests), tagger.tag_sents(tests), again.accuracy(train)]
    return answers


def _labelled(folder: Path, *paths: Path) -> list[str]:
    """Return the first texts of labelled XML files of a source distribution, if it is there."""
    from xml.etree import ElementTree

    texts = []
    for path in paths if folder.is_dir() else ():
        for entry in list(ElementTree.parse(path).getroot())[:1500]:
            texts.append(" ".join(" ".join(entry.itertext()).split()))
    return [text for text in texts if text]


PROGRAMS: dict[str, Callable[[Path], Any]] = {
    f.__name__: f for f in (pyvi, khmernltk, gecco, usaddress, probablepeople, nltk_tagger)
}


def main() -> None:
    side, name, folder = sys.argv[1:]
    warnings.simplefilter("ignore")  # theirs
    if side == "ours":
        import valuesparse.crf

        valuesparse.crf.install()
    answers = PROGRAMS[name](Path(folder))
    modules = ("pycrfsuite", "sklearn_crfsuite", "sklearn_crfsuite.estimator")
    ran = [getattr(sys.modules.get(module), "__file__", None) for module in modules]
    Path("answers.json").write_text(json.dumps({"answers": answers, "ran": ran}))


if __name__ == "__main__":
    main()
