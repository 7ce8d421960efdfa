"""A space is published where what it answers is better than before; else the run is kept."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Kglink

from kglink.evaluation.rankings import JUDGED_JOINT
from kglink.evaluation.significance import randomization_test
from kglink.files.atomic import file_lock
from kglink.workspace import Workspace, init_workspace
from kglink.workspace.publish import Replacement

NAMES = (
    "Alder",
    "Brenna",
    "Corvel",
    "Dunmar",
    "Esker",
    "Fallow",
    "Garnet",
    "Hollin",
    "Isk",
    "Jura",
)
#: Each name is a river's and a singer's: only the words beside it tell which is meant.
SENSES = {
    "river": ("River in the north, with fish, boats and bridges.", "We caught fish in the {}."),
    "singer": ("Singer of love songs, on stage with a band.", "The crowd clapped as {} sang."),
}
MORE = {
    "river": "Our boat went down the {} and under the bridges.",
    "singer": "The band was late, so {} sang her songs alone.",
}
#: At such a rate a model forgets all that it knew.
RUINOUS = "train.learning_rate=0.1"


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = init_workspace(tmp_path_factory.mktemp("master"))
    entities = [
        {"id": f"{name}_{sense}", "title": name, "description": told[0]}
        for name in NAMES
        for sense, told in SENSES.items()
    ]
    documents = [
        {
            "id": f"{split} {name} {sense}",
            "split": split,
            "text": text.format(name),
            "entities": [
                {
                    "start": text.index("{"),
                    "end": text.index("{") + len(name),
                    "text": name,
                    "gold": [f"known:{name}_{sense}"],
                }
            ],
        }
        for split, texts in (
            ("dev", {sense: told[1] for sense, told in SENSES.items()}),
            ("train", MORE),
        )
        for name in NAMES
        for sense, text in texts.items()
    ]
    for name, lines in (("known", entities), ("notes", documents)):
        text = "\n".join(json.dumps(line) for line in lines)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
    with Workspace.open(folder) as workspace:
        workspace.add_kb("known", folder / "known.jsonl")
        workspace.add_kb("notes", folder / "notes.jsonl", links_to=["known"])
        workspace.build()
    return folder


@pytest.fixture
def here(master: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "workspace"
    shutil.copytree(master, folder)
    monkeypatch.setenv("KGLINK_WORKSPACE", str(folder))
    return folder


def finetune(*changes: str) -> list[str]:
    """One epoch of a few small batches; of the names' own vectors nothing is left."""
    small = ("train.epochs=1", "train.batch=20", "train.names=0.0", *changes)
    sets = [word for change in small for word in ("--set", change)]
    return ["finetune", "--target-kb", "known", "--sources", "T", *sets]


def state_of(folder: Path, run: str) -> str:
    with Workspace.open(folder) as workspace:
        return workspace.run(run).state


def linked(kglink: Kglink) -> list[str]:
    texts = "We caught fish in the [[Esker]].\nThe crowd clapped as [[Esker]] sang.\n"
    ran = kglink("link", "-", "--lines", "--marked", "-f", "jsonl", stdin=texts)
    return [one["key"] for line in ran.out.splitlines() for one in json.loads(line)["entities"]]


@pytest.mark.slow
def test_a_training_that_damages_is_kept_unpublished_until_it_is_asked_for(
    here: Path, kglink: Kglink
) -> None:
    before, manifest = linked(kglink), _manifest(here)
    assert before == ["Esker_river", "Esker_singer"]
    ran = kglink(*finetune(RUINOUS), "--run", "ruined", code=1)
    assert re.search(r"known: \S+ before, \S+ after, of 20 mentions   worse by more than", ran.err)
    assert "the space stays as it was" in ran.err
    assert "kglink finetune --resume --run ruined --publish" in ran.err
    assert (_manifest(here), linked(kglink)) == (manifest, before)
    assert state_of(here, "ruined") == "unpublished"
    assert "there is no run to go on with" in kglink("finetune", "--resume", code=2).err
    with file_lock(here / "runs" / "ruined" / ".lock"):
        assert "run 'ruined' is in progress" in kglink("finetune", "--resume", code=2).err
    again = ("finetune", "--resume", "--run", "ruined", "--json")
    everywhere = ["known", "[judged joint]", "[links of raw texts]"]
    told = json.loads(kglink(*again, code=1).out)
    assert (told["space"], told["answers"]["worse"]) == (None, everywhere)
    assert told["unpublished"] == "it would answer worse than before"
    known = told["answers"]["R@1"]["known"]
    assert known["p"] < 0.05
    assert known["before"] >= 0.9
    assert known["after"] <= 0.6
    told = json.loads(kglink(*again, "--publish").out)
    assert (told["space"], told["answers"]["worse"]) == ("default", everywhere)
    assert _manifest(here)["model"]["path"] == "runs/ruined/model"
    assert state_of(here, "ruined") == "done"
    assert not (here / "runs" / "ruined" / "spaces").exists()
    assert linked(kglink) != before


@pytest.mark.slow
def test_a_training_that_helps_is_published_with_what_was_fitted(
    here: Path, kglink: Kglink, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The settings want a reranker, and the new space has none: that does not stop it.
    monkeypatch.setenv("KGLINK_LINK_RERANK_TOP", "8")
    kglink(*finetune(RUINOUS), "--run", "ruined", "--publish")
    told = json.loads(kglink(*finetune(), "--json").out)
    assert (told["space"], told["answers"]["worse"]) == ("default", [])
    assert told["unpublished"] is None
    known = told["answers"]["R@1"]["known"]
    assert known["mentions"] == 20
    assert known["after"] > known["before"]
    assert told["answers"]["raw"]["texts"] == 20
    assert told["answers"]["raw"]["after"] > told["answers"]["raw"]["before"]
    assert _manifest(here)["model"]["path"] == "runs/default-1/model"
    assert state_of(here, "default-1") == "done"
    monkeypatch.delenv("KGLINK_LINK_RERANK_TOP")
    with Workspace.open(here) as workspace:
        assert workspace.linker().scoring.mentions == told["scoring"]["mentions"] == 20
    assert not (here / "runs" / "default-1" / "spaces").exists()
    # A space of another name takes nobody's place.
    told = json.loads(
        kglink("finetune", "--resume", "--run", "default-1", "--space", "beside", "--json").out
    )
    assert (told["space"], told["answers"]) == ("beside", None)


@pytest.mark.slow
def test_a_handful_of_notes_does_not_replace_a_space_that_answers_them(
    here: Path, kglink: Kglink
) -> None:
    before, manifest = linked(kglink), _manifest(here)
    texts = [MORE[sense].format(name) for name in NAMES[:3] for sense in MORE]
    spans = [(text.index(name), name) for text in texts for name in NAMES if name in text]
    lines = [
        {"text": text, "entities": [{"start": at, "end": at + len(name), "gold": f"known:{gold}"}]}
        for text, (at, name), gold in zip(
            texts, spans, (f"{name}_{sense}" for name in NAMES[:3] for sense in MORE), strict=True
        )
    ]
    (here / "few.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    kglink("add-kb", "few", here / "few.jsonl", "--links-to", "known")
    kglink("learn", "few")
    told = json.loads(kglink(*finetune(RUINOUS), "--docs", "notes", "--json", code=1).out)
    answers = {pool: one["mentions"] for pool, one in told["answers"]["R@1"].items()}
    words = {"[words that memory knows]": 6, "[other words]": 14}
    assert answers == {"known": 20, "[judged joint]": 20, **words}
    kglink("forget", "few")
    ran = kglink(*finetune(), "--docs", "few", code=1)
    assert "judged by 1 mention held back" in ran.err
    assert "the space stays as it was: it would answer no more right than before" in ran.err
    assert (_manifest(here), linked(kglink)) == (manifest, before)
    # Where there is one text, nothing can be held back.
    (here / "one.jsonl").write_text(json.dumps(lines[0]), encoding="utf-8")
    kglink("add-kb", "one", here / "one.jsonl", "--links-to", "known")
    ran = kglink(*finetune(), "--docs", "one", code=1)
    assert "the space stays as it was: no mentions were held back to judge it by" in ran.err
    assert (_manifest(here), linked(kglink)) == (manifest, before)


@pytest.mark.slow
def test_overlaps_found_for_a_training_that_is_refused_are_forgotten(
    here: Path, kglink: Kglink
) -> None:
    """They would change what the space answers, and nobody asked for them."""
    songs = [
        {"id": name, "title": name, "description": "Singer of love songs, on stage with a band."}
        for name in NAMES
    ]
    (here / "songs.jsonl").write_text("\n".join(map(json.dumps, songs)), encoding="utf-8")
    kglink("add-kb", "songs", here / "songs.jsonl")
    kglink("build")
    before = linked(kglink)
    ruinous = [*finetune(RUINOUS), "--source-kb", "songs"]
    ruinous[ruinous.index("T")] = "TO"
    ran = kglink(*ruinous, "--run", "ruined", code=1)
    assert "O (overlaps): 10 pairs" in ran.err
    assert "the overlaps of songs and known, found for this run, are forgotten again" in ran.err
    assert linked(kglink) == before
    with Workspace.open(here) as workspace:
        assert (list(workspace.overlaps()), workspace.store.overlap_runs()) == ([], [])
    # Those that somebody asked for while it was trained stay, and those from before.
    kglink(*ruinous, "--run", "again", "--no-publish")
    kglink("overlap", "songs", "known", "--fresh")
    kglink("finetune", "--resume", "--run", "again", code=1)
    kglink(*ruinous, "--run", "last", code=1)
    with Workspace.open(here) as workspace:
        assert len(list(workspace.overlaps())) >= 10


@pytest.mark.slow
def test_overlaps_that_another_training_learns_from_are_no_longer_a_run_s_own(
    here: Path, kglink: Kglink
) -> None:
    songs = [{"id": name, "title": name, "description": "Singer of songs."} for name in NAMES]
    (here / "songs.jsonl").write_text("\n".join(map(json.dumps, songs)), encoding="utf-8")
    kglink("add-kb", "songs", here / "songs.jsonl")
    ruinous = [*finetune(RUINOUS), "--source-kb", "songs", "--no-publish"]
    ruinous[ruinous.index("T")] = "TO"
    kglink(*ruinous, "--run", "first")
    kglink(*ruinous, "--run", "second")
    ran = kglink("finetune", "--resume", "--run", "first", code=1)
    assert "are forgotten again" not in ran.err
    with Workspace.open(here) as workspace:
        assert len(list(workspace.overlaps())) == 10


def _manifest(folder: Path) -> dict[str, dict[str, str]]:
    (path,) = folder.glob("spaces/default/versions/*/manifest.json")
    manifest: dict[str, dict[str, str]] = json.loads(path.read_text(encoding="utf-8"))
    return manifest


def test_worse_is_what_chance_does_not_explain() -> None:
    # Five losses and no gain: p = 2 / 2**5; six: 2 / 2**6.
    right, five, six = [1.0] * 20, [0.0] * 5 + [1.0] * 15, [0.0] * 6 + [1.0] * 14
    tests = {
        "by chance": randomization_test(five, right),
        "too many": randomization_test(six, right),
        "better": randomization_test(right, six),
        "the same": randomization_test(six, six),
    }
    assert Replacement(tests).worse == ("too many",)
    joint = {name: Replacement({JUDGED_JOINT: test}).objection for name, test in tests.items()}
    assert joint == {
        "by chance": "it would answer worse than before",
        "too many": "it would answer worse than before",
        "better": "",
        "the same": "it would answer no more right than before",
    }
    one_kb = {"a": tests["too many"], JUDGED_JOINT: tests["better"]}
    assert Replacement(one_kb).objection == "it would answer worse than before"
    assert not Replacement({**one_kb, "a": tests["by chance"]}).objection
    assert Replacement({}).objection == "no mentions were held back to judge it by"
    # Who ranks given mentions better, and links raw texts worse, is of no use.
    raw = Replacement({JUDGED_JOINT: tests["better"]}, raw=tests["too many"])
    assert raw.worse == ("[links of raw texts]",)
    assert raw.objection == "it would answer worse than before"
    assert not replace(raw, raw=tests["by chance"]).objection
    told = Replacement({"a": tests["too many"]}).as_json()
    figures = {"mentions": 20, "before": 1.0, "after": 0.7, "p": tests["too many"].p}
    assert told == {"R@1": {"a": figures}, "raw": None, "worse": ["a"]}
    figures = {"texts": 20, "before": 1.0, "after": 0.7, "p": tests["too many"].p}
    assert raw.as_json()["raw"] == figures
