"""`kglink finetune --what detector`, and who finds the mentions afterwards."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from conftest import Kglink

from kglink.models.head_folder import TAGGER, Comparison
from kglink.records import Document, EntityId, Mention, Split
from kglink.store import Store
from kglink.workspace import init_workspace
from store_support import entity, job
from tiny_detectors import MENTIONS, job_of, texts_of

#: What makes stage D small, as `tiny_detectors` has it.
SMALL = ("detector.tokens=32", "detector.learning_rate=0.03", "detector.batch=4")
FINETUNE = ("finetune", "--what", "detector", *(f"--set={one}" for one in SMALL))
TEXT = "the mercury of the bird\n"


def documents(first: int, count: int, split: Split) -> Sequence[Document]:
    golds = {MENTIONS[0]: "heron", MENTIONS[1]: "metal"}

    def mention(text: str, start: int, end: int) -> Mention:
        gold = EntityId("birds", golds[text[start:end]])
        return Mention(start, end, text[start:end], (gold,))

    return [
        Document(
            f"{split}{number}",
            one.text,
            tuple(mention(one.text, *place) for place in one.places),
            split=split,
        )
        for number, one in enumerate(texts_of(count, seed=first))
    ]


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = init_workspace(tmp_path_factory.mktemp("master"))
    with Store.open(f"sqlite:///{folder}/kglink.db") as store:
        # The KB calls them otherwise than the texts do, and "river" is what it must not find.
        birds = [
            entity("heron", "Gold Heron"),
            entity("metal", "Quicksilver"),
            entity("w", "river"),
        ]
        store.ingest(job("birds", fingerprint="birds"), birds)
        both = [*documents(0, 60, "train"), *documents(1, 12, "dev")]
        store.ingest(job("docs", fingerprint="docs", links_to=("birds",)), both)
    base = Path(job_of(folder).recipe.model.base).relative_to(folder)
    (folder / "kglink.toml").write_text(
        f"[encoder]\nmodel = '{base}'\nprecision = 'fp32'\nthreads = 1\ndevice = 'cpu'\n"
    )
    return folder


@pytest.fixture
def here(master: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = Path(shutil.copytree(master, tmp_path / "workspace"))
    monkeypatch.setenv("KGLINK_WORKSPACE", str(folder))
    return folder


def surfaces(kglink: Kglink, *options: str) -> list[str]:
    said = kglink("link", "-", "--format", "jsonl", *options, stdin=TEXT)
    return [one["text"] for one in json.loads(said.out)["entities"]]


def test_a_trained_detector_finds_the_mentions(kglink: Kglink, here: Path) -> None:
    base = f"model.base={here / 'tiny'}"
    assert surfaces(kglink) == surfaces(kglink, "--set", "learned.recall=0.5") == []
    ran = kglink(*FINETUNE, "--set", base, "--set", "detector.epochs=2", "--json")
    done = json.loads(ran.out)
    assert done["run"] == "detector-1"
    assert done["sources"] == "D"
    assert done["detector"]["used"]
    assert done["detector"]["texts"] == 60
    assert done["detector"]["held_out"] == 12
    assert done["detector"]["f1"] > 0.5 > done["detector"]["dictionary_f1"]
    assert surfaces(kglink) == ["mercury"]
    said = kglink("link", "-", stdin=TEXT).err
    assert "found by the detector trained on docs (held-out documents: F1 " in said
    assert surfaces(kglink, "--set", "recall=0.99") != []
    # Settings of the detector that is not asked wait until it is.
    assert surfaces(kglink, "--set", "dictionary.min_chars=3") == ["mercury"]
    assert "detector-1" in kglink("runs").out
    again = ("finetune", "--resume", "--run", "detector-1")
    assert (
        "trains a detector, and a reranker is wanted"
        in kglink(*again, "--what", "reranker", code=1).err
    )
    assert "began with another recipe" in kglink(*again, "--seed", "9", code=1).err
    assert "another list of documents" in kglink(*again, "--docs", "birds", code=1).err

    # Worse than the dictionary on held-out documents: not used, and said.
    detector = here / "spaces" / "default" / "detector"
    worse = TAGGER.read(detector).model_copy(
        update={"compared": Comparison(learned=0.1, dictionary=0.2, documents=12)}
    )
    (detector / TAGGER.name).write_text(worse.model_dump_json())
    assert surfaces(kglink) == []
    assert "is worse (held-out documents: F1 0.10" in kglink("link", "-", stdin=TEXT).err

    # Best together with the dictionary: both are asked.
    both = TAGGER.read(detector).model_copy(
        update={"compared": Comparison(learned=0.3, together=0.4, dictionary=0.2, documents=12)}
    )
    (detector / TAGGER.name).write_text(both.model_dump_json())
    said = kglink("link", "-", "--set", "recall=0.5", stdin=TEXT).err
    assert "found by the dictionary and the detector trained on docs" in said

    # Best alone on documents like its own, but far worse on others: both are asked here, too.
    alone, others = (
        Comparison(learned=learned, together=together, dictionary=0.3, documents=12)
        for learned, together in ((0.42, 0.4), (0.1, 0.35))
    )
    manifest = TAGGER.read(detector).model_copy(update={"compared": alone})
    assert manifest.finds_alone
    manifest = manifest.model_copy(update={"elsewhere": {"rivers": others}})
    (detector / TAGGER.name).write_text(manifest.model_dump_json())
    said = kglink("link", "-", stdin=TEXT).err
    assert "found by the dictionary and the detector trained on docs" in said
    assert "(held-out documents: F1 0.40, the dictionary alone 0.30)" in said
    (detector / TAGGER.name).write_text(worse.model_dump_json())

    # It can be named all the same; and a run is deleted without its detector.
    toml = here / "kglink.toml"
    toml.write_text(toml.read_text() + "\n[link]\ndetector = 'learned'\n")
    kglink("runs", "--delete", "detector-1", "--yes")
    assert surfaces(kglink) == ["mercury"]


def test_it_says_where_the_dictionary_is_better(kglink: Kglink, here: Path) -> None:
    # Texts of the same words, in which the river is a mention: the detector has learnt otherwise.
    text = "the river and the river"
    places = [(4, 9), (18, 23)]
    rivers = [
        Document(
            f"r{number}",
            f"{text} {'and ' * number}".strip(),
            tuple(Mention(*at, "river", (EntityId("birds", "w"),)) for at in places),
        )
        for number in range(6)
    ]
    with Store.open(f"sqlite:///{here}/kglink.db") as store:
        store.ingest(job("rivers", fingerprint="rivers", links_to=("birds",)), rivers)
    options = ("--docs", "docs", "--set", f"model.base={here / 'tiny'}")
    said = kglink(*FINETUNE, *options, "--set", "detector.epochs=2", "--json")
    found = json.loads(said.out)["detector"]
    assert found["used"]
    assert found["elsewhere"]["rivers"]["documents"] == 6
    elsewhere = found["elsewhere"]["rivers"]
    assert elsewhere["learned"] < elsewhere["dictionary"]
    assert (
        "the dictionary is better on documents that it has not learnt from: rivers (F1" in said.err
    )
    told = kglink("link", "-", stdin=TEXT).err
    assert "texts like those of rivers (F1 " in told
    assert "are for `--detector dictionary`" in told


def test_without_annotated_documents_it_says_why(kglink: Kglink, here: Path) -> None:
    with Store.open(f"sqlite:///{here}/kglink.db") as store:
        store.ingest(
            job("bare", fingerprint="bare", links_to=("birds",)), [Document("b", "A river.", ())]
        )
    said = kglink(*FINETUNE, "--docs", "bare", code=2).err
    assert "no detector can be trained: 0 mentions to learn from" in said
    assert not list((here / "runs").glob("*"))


@pytest.mark.slow
def test_the_dictionary_is_judged_by_documents_that_memory_has_not_seen(
    kglink: Kglink, here: Path
) -> None:
    options = ("--set", f"model.base={here / 'tiny'}", "--set", "detector.epochs=1", "--json")
    plain = json.loads(kglink(*FINETUNE, *options).out)["detector"]
    kglink("learn", "docs", "--split", "dev")
    learnt = json.loads(kglink(*FINETUNE, *options).out)["detector"]
    assert learnt["dictionary_f1"] == plain["dictionary_f1"]
    kglink("forget", "docs")
    kglink("learn", "docs", "--split", "train")
    others = json.loads(kglink(*FINETUNE, *options).out)["detector"]
    assert others["dictionary_f1"] > plain["dictionary_f1"]
