"""`kglink finetune --what reranker`, and what `--rerank` changes afterwards."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import Kglink

from kglink.records import Document, EntityId, Mention, Split
from kglink.store import Store
from kglink.training.checkpoint import Checkpoints
from kglink.training.negatives import Teacher
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


def documents(
    count: int, seed: int, *, split: Split = "", shuffled: bool = False
) -> Sequence[Document]:
    """Texts of both kinds; ``shuffled``: their golds are those of other texts."""
    chance = random.Random(seed)
    made = []
    for number in range(count):
        by_river = chance.random() < 0.5
        text = f"the {'river' if by_river else 'planet'} of a mercury"
        is_bird = chance.random() < 0.5 if shuffled else by_river
        gold = EntityId("things", "bird" if is_bird else "metal")
        mention = Mention(len(text) - 7, len(text), "mercury", (gold,))
        title = f"{seed}-{number}"
        made.append(Document(title, text, (mention,), title=title, split=split))
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


@pytest.mark.slow
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
    orders_candidates_of_files(kglink, here)
    bad_input_stops_no_link(kglink, here)


def orders_candidates_of_files(kglink: Kglink, here: Path) -> None:
    """What a file lists is ordered by what the reranker reads alone."""
    path = here / "candidates.jsonl"
    kglink("candidates", "docs", "--split", "", "-o", path)
    judged = ("eval", "--docs", "docs", "--split", "", "--candidates", path, "--json")
    before, after = (
        json.loads(kglink(*judged, *more).out)["accuracy"]["micro"]
        for more in ((), ("--rerank", "64"))
    )
    assert before["with_gold"] == after["with_gold"] == 250
    assert after["normalized"] == after["unnormalized"] > 0.9 > before["normalized"]


def bad_input_stops_no_link(kglink: Kglink, here: Path) -> None:
    """Nothing to read, a KB that is gone, a reranker that was weighed for another model."""

    link = ("link", "-", "--marked", "--format", "jsonl")

    def links(text: str) -> tuple[list[dict[str, Any]], str]:
        ran = kglink(*link, "--rerank", "2", stdin=text)
        return json.loads(ran.out)["entities"], ran.err

    assert len(links("a [[\u2603]]\n")[0]) == 1
    assert links("no mention here\n")[0] == []
    with Store.open(f"sqlite:///{here}/kglink.db") as store:
        store.ingest(job("more", fingerprint="more"), [entity("god", "god", "mercury")])
    assert {one["kb"] for one in _candidates(links(TEXT)[0])} == {"things", "more"}
    kglink("kbs", "remove", "more", "--yes")
    found, told = links(TEXT)
    assert {one["kb"] for one in _candidates(found)} == {"things"}
    assert found[0]["key"] == "bird"
    assert "another model" not in told

    (scoring,) = here.glob("spaces/*/reranker/scoring.json")
    kept = json.loads(scoring.read_text())
    scoring.write_text(json.dumps(kept | {"fingerprint": "of another"}))
    # What it says cannot be weighed: the first stage answers, and the output says so.
    ran = kglink(*link, "--rerank", "2", stdin=TEXT)
    assert "trained for another model of the space, and is not asked" in " ".join(ran.err.split())
    answer, plain = (json.loads(one) for one in (ran.out, kglink(*link, stdin=TEXT).out))
    assert answer["entities"] == plain["entities"]
    (why,) = answer["meta"]["not_reranked"]
    assert "another model" in why
    assert "not_reranked" not in plain["meta"]
    # Weighed for this model it is asked again.
    kglink("fit", "docs", "--rerank", "2")
    found, told = links(TEXT)
    assert (found[0]["key"], "another model" in told) == ("bird", False)
    (weights,) = here.glob("spaces/*/reranker/head.safetensors")
    weights.write_bytes(weights.read_bytes()[:-4])
    said = kglink("link", "-", "--marked", "--rerank", "2", stdin=TEXT, code=1).err
    assert "kglink finetune --what reranker" in said


def _candidates(entities: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [candidate for one in entities for candidate in one["candidates"]]


@pytest.mark.slow
def test_what_was_learnt_from_wrong_golds_is_not_given_to_the_space(
    kglink: Kglink, here: Path
) -> None:
    with Store.open(f"sqlite:///{here}/kglink.db") as store:
        learnt = documents(250, 1, split="train", shuffled=True)
        held_back = documents(60, 2, split="dev")
        about = job("wrong", fingerprint="wrong", links_to=("things",))
        store.ingest(about, [*learnt, *held_back])
    link = ("link", "-", "--marked", "--format", "jsonl")
    before = kglink(*link, stdin=TEXT).out
    base = ("--set", f"model.base={here / 'tiny'}")
    said = kglink(*FINETUNE, *base, "--docs", "wrong", "--seed", "1", code=1).err
    assert "unpublished" in said
    assert "the space stays as it was: it would answer" in " ".join(said.split())
    assert "--resume --run reranker-1 --publish" in " ".join(said.split())
    assert not list(here.glob("spaces/*/reranker"))
    assert "no trained reranker" in kglink(*link, "--rerank", "2", stdin=TEXT, code=2).err
    assert kglink(*link, stdin=TEXT).out == before
    kglink("finetune", "--resume", "--run", "reranker-1", "--publish")
    assert kglink(*link, "--rerank", "2", stdin=TEXT).out


def test_without_annotated_mentions_it_says_why(kglink: Kglink, here: Path) -> None:
    with Store.open(f"sqlite:///{here}/kglink.db") as store:
        store.ingest(
            job("bare", fingerprint="bare", links_to=("things",)), [Document("b", "A river.", ())]
        )
    said = kglink(*FINETUNE, "--docs", "bare", code=2).err
    assert "no reranker can be trained: 0 annotated mentions" in said
    assert not list((here / "runs").glob("*"))


def _stopping(save: Callable[..., None]) -> Callable[..., None]:
    """As if Ctrl-C came just after the first checkpoint."""

    def stop(*given: object) -> None:
        save(*given)
        raise KeyboardInterrupt

    return stop


DISTIL = (
    *("finetune", "--what", "linker", "--recipe", "distilled", "--target-kb", "things"),
    *("--set=train.negatives=1", "--set=train.learning_rate=0.003", "--set=train.epochs=3"),
    "--set=train.refresh_epochs=3",
    *("--set=model.inputs.mention_tokens=12", "--set=model.inputs.entity_tokens=8"),
)


def test_a_recipe_with_a_teacher_wants_a_trained_reranker(kglink: Kglink, here: Path) -> None:
    said = kglink(*DISTIL, "--no-publish", code=2).err
    assert "space default has no trained one" in said
    assert "kglink finetune --what reranker" in said
    assert not list((here / "runs").glob("*"))
    said = kglink(*DISTIL, "--no-publish", f"--set=teacher={here}", code=1).err
    assert str(here) in said
    assert not list((here / "runs").glob("*"))
    for what in ("reranker", "detector"):
        for option in ("--sources", "--source-kb", "--target-kb"):
            said = kglink("finetune", "--what", what, option, "T", code=2).err
            assert f"are for the linker, and a {what} is wanted" in said
    assert not list((here / "runs").glob("*"))
    said = kglink("finetune", "--what", "reranker", "--recipe", "distilled", code=2).err
    assert "kglink finetune --what linker" in said


@pytest.mark.slow
def test_the_model_of_the_space_learns_what_its_reranker_knows(
    kglink: Kglink, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "kglink.toml").write_text(
        "[encoder]\nprecision = 'fp32'\nthreads = 1\ndevice = 'cpu'\n"
    )
    kglink("build", "--model", here / "tiny")
    kglink(*FINETUNE, "--set", f"model.base={here / 'tiny'}")
    # Stopped after its first epoch it goes on without asking the teacher again, wherever the
    # workspace lies by then.
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "save", _stopping(Checkpoints.save))
        kglink(*DISTIL, code=130)
    here = here.rename(here.with_name("moved"))
    monkeypatch.setenv("KGLINK_WORKSPACE", str(here))
    with monkeypatch.context() as patch:
        patch.setattr(Teacher, "scores", None)
        done = json.loads(kglink("finetune", "--resume", "--json").out)
    assert done["run"] == "distilled-1"
    told = json.loads((here / "runs" / "distilled-1" / "settings.json").read_text())["recipe"]
    assert told["model"]["base"] == "{workspace}/tiny"
    assert told["teacher"] == "{workspace}/spaces/default/reranker"
    assert done["after"]["mean"]["R@1"] > 0.9 > done["before"]["mean"]["R@1"]
    out = kglink("link", "-", "--marked", "--format", "jsonl", stdin=TEXT).out
    assert json.loads(out)["entities"][0]["key"] == "bird"

    # The next student goes on from this one, as it reads; the reranker was weighed for the first.
    again = kglink(*DISTIL[:7], "--set=train.epochs=1", "--set=train.negatives=1", "--publish")
    assert "was trained for another model of the space" in " ".join(again.err.split())
    told = json.loads((here / "runs" / "distilled-2" / "settings.json").read_text())["recipe"]
    assert told["model"]["base"] == "{workspace}/runs/distilled-1/model"
    assert told["model"]["inputs"]["mention_tokens"] == 12
