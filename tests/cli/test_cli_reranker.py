"""`kglink finetune --what reranker`, and what `--rerank` changes afterwards."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from conftest import Kglink

from kglink.records import Document, EntityId, Mention
from kglink.store import Store
from kglink.workspace import init_workspace
from store_support import entity, job
from tiny_detectors import job_of

#: What makes stage R small, as `tests/training/test_reranker.py` has it.
SMALL = (
    "reranker.epochs=8",
    "reranker.learning_rate=0.005",
    "reranker.inputs.mention_tokens=12",
    "reranker.inputs.entity_tokens=8",
)
FINETUNE = ("finetune", "--what", "reranker", *(f"--set={one}" for one in SMALL))
#: The mercury of the river is the bird, that of a planet the metal.
TEXT = "the river of a [[mercury]]\n"


def documents(count: int, seed: int) -> Sequence[Document]:
    chance = random.Random(seed)
    made = []
    for number in range(count):
        by_river = chance.random() < 0.5
        text = f"the {'river' if by_river else 'planet'} of a mercury"
        gold = EntityId("things", "bird" if by_river else "metal")
        mention = Mention(len(text) - 7, len(text), "mercury", (gold,))
        made.append(Document(f"{seed}-{number}", text, (mention,), title=f"{seed}-{number}"))
    return made


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = init_workspace(tmp_path_factory.mktemp("master"))
    with Store.open(f"sqlite:///{folder}/kglink.db") as store:
        things = [
            entity("metal", "metal", "mercury"),
            entity("bird", "bird", "mercury"),
        ]
        store.ingest(job("things", fingerprint="things"), things)
        store.ingest(job("docs", fingerprint="docs", links_to=("things",)), documents(250, 0))
    base = job_of(folder).base
    (folder / "kglink.toml").write_text(
        f"[encoder]\nmodel = {json.dumps(base)}\nprecision = 'fp32'\nthreads = 1\ndevice = 'cpu'\n"
    )
    return folder


@pytest.fixture
def here(master: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = Path(shutil.copytree(master, tmp_path / "workspace"))
    monkeypatch.setenv("KGLINK_WORKSPACE", str(folder))
    return folder


def test_a_trained_reranker_reads_what_retrieval_cannot_tell(kglink: Kglink, here: Path) -> None:
    said = kglink("link", "-", "--marked", "--rerank", "2", stdin=TEXT, code=2).err
    assert "no trained reranker" in said
    assert "kglink finetune --what reranker" in said

    ran = kglink(*FINETUNE, "--set", f"model.base={here / 'tiny'}", "--json")
    done = json.loads(ran.out)
    assert done["run"] == "reranker-1"
    assert done["sources"] == "R"
    compared = done["reranker"]["compared"]
    assert compared["with_it"] > 0.9 > compared["without"]
    assert "reranker-1" in kglink("runs").out

    def answer(*options: str) -> dict[str, object]:
        out = kglink("link", "-", "--marked", "--format", "jsonl", *options, stdin=TEXT).out
        (one,) = json.loads(out)["entities"]
        return dict(one)

    assert answer("--rerank", "2")["key"] == "bird"
    explained = json.loads(
        kglink("explain", TEXT.replace("[[", "").replace("]]", "").strip(), "--surface", "mercury",
               "--rerank", "2", "--json").out
    )  # fmt: skip
    reads = [one["evidence"]["read"] for one in explained[0]["candidates"]]
    assert reads[0] > 0.5 > reads[1]
    # Without it everything is as it was: its weights are its own.
    plain = json.loads(
        kglink("explain", "the river of a mercury", "--surface", "mercury", "--json").out
    )
    assert all("read" not in one["evidence"] for one in plain[0]["candidates"])
    figures = json.loads(
        kglink("eval", "--docs", "docs", "--split", "", "--rerank", "2", "--json").out
    )
    assert figures["metrics"]["joint"]["R@1"] > 0.9


def test_without_annotated_mentions_it_says_why(kglink: Kglink, here: Path) -> None:
    with Store.open(f"sqlite:///{here}/kglink.db") as store:
        store.ingest(
            job("bare", fingerprint="bare", links_to=("things",)), [Document("b", "A river.", ())]
        )
    said = kglink(*FINETUNE, "--docs", "bare", code=2).err
    assert "no reranker can be trained: 0 annotated mentions" in said
    assert not list((here / "runs").glob("*"))
