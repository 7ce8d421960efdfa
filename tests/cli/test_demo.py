"""`kglink demo`: each step makes its figures better, and its texts are what they are said to be."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import ROOT, Kglink

from kglink.records import Entity
from kglink.training.job import FinetuneJob
from kglink.workspace import Workspace
from kglink_cli import demo

DATA = ROOT / "cli" / "kglink_cli" / "demo_data"
KBS = ("encyclopedia", "lanternfall")
JOINT = ("[joint]", "[judged joint]")
#: One of a KB's 95 or 118 mentions, which differs from processor to processor.
A_MENTION = 0.011


def records(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / f"{name}.jsonl").read_text("utf-8").splitlines()]


def steps(printed: str) -> Mapping[str, Mapping[str, float]]:
    """By step and pool R@1, as the table at the demo's end has it."""
    header, *rest = re.findall(r"^pool\tmentions\tbuild\t.*(?:\n.+\t.+)+", printed, re.MULTILINE)[
        -1
    ].splitlines()
    names = header.split("\t")[2:]
    rows = [line.split("\t") for line in rest]
    assert {row[0] for row in rows} == {*KBS, *JOINT}
    return {name: {row[0]: float(row[at]) for row in rows} for at, name in enumerate(names, 2)}


def test_no_demo_is_made_in_what_is_somebodys_own(kglink: Kglink, tmp_path: Path) -> None:
    (tmp_path / "demo.html").write_text("mine")
    assert "demo.html is there already" in kglink("demo", "--dir", tmp_path, code=2).err
    (tmp_path / "kglink.toml").touch()
    with Workspace.open(tmp_path) as workspace:
        workspace.add_kb("birds", [Entity("owl", "Owl")])
    said = kglink("demo", "--dir", tmp_path, code=2).err
    assert "it has the KB 'birds'" in said
    assert (tmp_path / "demo.html").read_text() == "mine"


@pytest.mark.slow
def test_overlaps_and_memory_make_the_demo_better(kglink: Kglink, tmp_path: Path) -> None:
    ran = kglink("demo", "--quick", "--dir", tmp_path)
    assert "also lanternfall:" in ran.out or "also encyclopedia:" in ran.out
    whole = ran.out.partition("--end-to-end")[2].partition("$ kglink eval")[0]
    assert "detection\t[joint]\tstrict\t170\t" in whole
    assert "Every name of the two KBs is annotated" in whole
    assert (tmp_path / "demo.html").exists()
    assert ran.out.count("\n  kglink ") == 3
    assert not (tmp_path / "runs").exists()
    told = steps(ran.out)
    assert list(told) == ["build", "overlap", "learn"]
    for pool in (*KBS, *JOINT):
        assert told["build"][pool] <= told["overlap"][pool] <= told["learn"][pool] + A_MENTION
    assert all(told["overlap"][pool] + 0.05 < told["learn"][pool] for pool in JOINT)
    # Counterparts say what a thing is called elsewhere: they help the answers of one KB.
    assert all(told["build"][kb] < told["overlap"][kb] for kb in KBS)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_training_makes_the_demo_better(kglink: Kglink, tmp_path: Path) -> None:
    """Or it is refused: the arithmetic of some processors gives a model that gains too little.

    Memory alone may answer as many judged mentions already (.970): joint is where training gains.
    """
    ran = kglink("demo", "--dir", tmp_path)
    told = steps(ran.out)
    is_kept = "The space stays as it was: it would answer" not in ran.out
    assert list(told) == ["build", "overlap", "learn", *["finetune"] * is_kept]
    for pool in (*KBS, *JOINT) if is_kept else ():
        assert told["learn"][pool] <= told["finetune"][pool] + A_MENTION
    assert not is_kept or told["learn"]["[joint]"] < told["finetune"]["[joint]"]


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_reranker_that_helps_nobody_is_not_used(kglink: Kglink, tmp_path: Path) -> None:
    """On most processors it helps nobody, and is not there."""
    ran = kglink("demo", "--quick", "--rerank", "--dir", tmp_path)
    assert "stage R" in ran.err
    is_used = "The reranker is not used: it would answer" not in ran.out
    assert list(steps(ran.out)) == ["build", "overlap", "learn", *["rerank"] * is_used]
    assert (tmp_path / "spaces" / "default" / "reranker").exists() == is_used


@pytest.mark.slow
def test_what_was_trained_in_vain_has_no_column(
    kglink: Kglink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs: list[FinetuneJob] = []

    def refused(_: object, job: FinetuneJob) -> SimpleNamespace:
        jobs.append(job)
        return SimpleNamespace(refused="it would answer worse than before")

    monkeypatch.setattr(demo, "finetune_with_progress", refused)
    monkeypatch.setattr(demo, "print_finetuned", lambda _: None)
    ran = kglink("demo", "--rerank", "--dir", tmp_path)
    assert [job.what for job in jobs] == ["reranker", "all"]
    assert "The reranker is not used: it would answer worse than before." in ran.out
    assert "The space stays as it was: it would answer worse than before." in ran.out
    assert "With rerank" not in ran.out
    assert list(steps(ran.out)) == ["build", "overlap", "learn"]


def test_spans_and_golds_of_the_texts_are_exact() -> None:
    known = {f"{kb}:{one['id']}" for kb in KBS for one in records(kb)}
    for document in records("documents"):
        assert document["entities"]
        for one in document["entities"]:
            assert document["text"][one["start"] : one["end"]] == one["text"]
            assert known.issuperset(one["gold"])


def test_every_name_in_the_texts_is_annotated() -> None:
    names = {
        name.casefold()
        for kb in KBS
        for one in records(kb)
        for name in (one["title"], *one["aliases"])
    }
    pattern = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, names))})(?!\w)")
    for document in records("documents"):
        spans = [range(one["start"], one["end"]) for one in document["entities"]]
        for found in pattern.finditer(document["text"].casefold()):
            assert any(found.start() < one.stop and one.start < found.end() for one in spans), found


def test_no_sentence_is_in_two_splits() -> None:
    split_of: dict[str, str] = {}
    for document in records("documents"):
        for sentence in re.split(r"(?<=[.!?])\s+", document["text"]):
            assert split_of.setdefault(sentence, document["split"]) == document["split"]
