"""`kglink finetune` and `runs` as their users meet them, with a tiny model."""

from __future__ import annotations

import json
import re
from importlib.resources import as_file, files
from pathlib import Path

import pytest
from conftest import Kglink

from finetune_support import TOTAL, Finetune, fingerprint
from kglink.errors import ModelError
from kglink.training.run import Curve, read_settings
from kglink.workspace import Workspace
from kglink_cli import console

pytest_plugins = ["finetune_fixtures"]


@pytest.mark.parametrize(
    "model",
    [
        {},
        {"model.pooling": "tokens", "model.scorer": "sum_of_max"},
        {"model.shared": "false", "train.transformation.layer": 1, "model.metric": "dot"},
    ],
    ids=["vectors", "token matrices", "two towers, transformed"],
)
def test_from_annotated_documents_to_a_space_with_a_model_of_its_own(
    finetune: Finetune, kglink: Kglink, here: Path, model: dict[str, object]
) -> None:
    ran = finetune("--json", **model)
    told = json.loads(ran.out)
    assert (told["run"], told["sources"], told["steps"]) == ("default-1", "TOS", TOTAL)
    assert told["space"] == "default"
    assert told["kbs"] == ["atlas", "saga"]
    assert told["encoded_rows"] == 80  # a vector for each entity, none for its names
    figures = {"mean", "judged_joint", "joint", "kb", "mentions"}
    assert set(told["before"]) == set(told["after"]) == figures
    for said in (
        *("S (source KBs): 54 pairs", "T (target KBs): 60 pairs", "O (overlaps): 16 pairs"),
        *("TS 26 steps, O 2 steps", "(mining ", "validation ", "default-1: 28 steps"),
    ):
        assert said in ran.err
    manifest = json.loads(next(here.glob("spaces/default/versions/*/manifest.json")).read_text())
    assert manifest["model"]["path"] == "runs/default-1/model"
    linked = kglink("link", "-", "-f", "jsonl", stdin=_a_text(here))
    assert json.loads(linked.out)["entities"]
    judged = json.loads(kglink("eval", "--docs", "docs", "--found-by", "vectors", "--json").out)
    assert set(judged["metrics"]["kb"]) == {"atlas", "saga"}
    (run,) = json.loads(kglink("runs", "--json").out)
    assert (run["name"], run["state"], run["spaces"]) == ("default-1", "done", ["default"])
    assert "cannot do without its model" in kglink("runs", "--delete", "default-1", code=2).err
    shown = kglink("runs", "default-1").out
    assert "curve.png" in shown
    assert "before" in shown


def _a_text(folder: Path) -> str:
    with Workspace.open(folder) as workspace:
        return next(workspace.store.documents("docs")).text


def test_the_table_compares_before_with_after(finetune: Finetune, here: Path) -> None:
    ran = finetune("--no-publish", "--sources", "T")
    header, *rows = ran.out.splitlines()
    assert header.split("\t")[:4] == ["pool", "mentions", "R@1 before", "R@1 after"]
    # A mention with golds in both KBs counts in each of them.
    assert [row.split("\t")[:2] for row in rows] == [
        ["atlas", "6"], ["saga", "3"], ["[judged joint]", "8"],
    ]  # fmt: skip
    report = json.loads((here / "runs" / "default-1" / "report.json").read_text())
    shares = [f"{report[when]['kb']['saga']['R@8']:.3f}" for when in ("before", "recalls")]
    assert rows[1].split("\t")[4:6] == shares
    assert not (here / "spaces").exists()
    assert "kglink finetune --resume --run default-1" in ran.err


@pytest.mark.slow
def test_a_run_that_nobody_judged_takes_no_space_s_place(
    finetune: Finetune, kglink: Kglink
) -> None:
    nothing = {"selection.documents": "held_out", "selection.held_out": 0, "train.epochs": 1}
    short: dict[str, object] = {**nothing, "train.batch": 64}
    ran = finetune("--sources", "T", **short)
    assert "no mentions were held back, so nobody knows how well it answers" in ran.err
    ran = finetune("--sources", "T", "--seed", "1", **short, code=1)
    assert "stays as it was: no mentions were held back to judge it by" in ran.err
    assert "kglink finetune --resume --run default-2 --space trial" in ran.err
    first, second = json.loads(kglink("runs", "--json").out)
    assert (first["steps"], first["recalls"]) == (1, None)
    assert (first["state"], second["state"]) == ("done", "unpublished")
    assert (first["spaces"], second["spaces"]) == (["default"], [])
    kglink("finetune", "--resume", "--run", "default-2", "--space", "trial")
    # Once more, as after a kill: the space has the model already.
    kglink("finetune", "--resume", "--run", "default-2", "--space", "trial")


def test_stages_without_anything_to_learn_from(
    finetune: Finetune, kglink: Kglink, here: Path
) -> None:
    """Left out and told where nobody asked for them; else refused, all at once, with the fix."""
    golds: dict[str, object] = {"few": _an_entity(here), "none": []}
    for name, gold in golds.items():
        mention = {"start": 0, "end": 5, "gold": gold}
        lines = [{"text": f"atlas saga {n}", "entities": [mention]} for n in range(3)]
        (here / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
        kglink("add-kb", name, here / f"{name}.jsonl", "--links-to", "saga")
    refused = finetune("--sources", "TOS", "--docs", "few", code=2).err
    assert "stage S: there are no annotated mentions of atlas" in refused
    assert "--sources TO." in refused
    ran = finetune("--docs", "few", "--no-publish", **{"train.batch": 2})
    assert "stage S is left out: there are no annotated mentions of atlas" in " ".join(
        ran.err.split()
    )
    assert read_settings(here / "runs" / "default-1").sources == "TO"
    ran = finetune("--sources", "TS", "--docs", "none", code=2)
    assert "mentions of atlas; stage T: there are no annotated mentions of saga" in " ".join(
        ran.err.split()
    )


def _an_entity(folder: Path) -> str:
    with Workspace.open(folder) as workspace:
        return f"saga:{next(workspace.store.entities('saga')).key}"


@pytest.mark.slow
def test_a_run_that_was_not_published_is_published_later(
    finetune: Finetune, kglink: Kglink, here: Path
) -> None:
    finetune("--no-publish", "--sources", "T", "--run", "mine")
    model = fingerprint(here, "mine")
    told = json.loads(kglink("finetune", "--resume", "--run", "mine", "--space", "x", "--json").out)
    assert (told["run"], told["space"]) == ("mine", "x")
    assert fingerprint(here, "mine") == model
    assert json.loads(kglink("runs", "--json").out)[0]["spaces"] == ["x"]


@pytest.mark.slow
def test_a_detector_that_fails_does_not_keep_the_model_from_its_space(
    finetune: Finetune, kglink: Kglink, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ModelError("tiny: has no head", hint="Name another one.")

    monkeypatch.setattr("kglink.workspace.finetune.detector_stage", fail)
    ran = finetune("--sources", "O", code=1)
    told = " ".join(ran.err.split())
    assert "the detector: tiny: has no head Name another one." in told
    command = "finetune --resume --run default-1 --what linker"
    assert f"`kglink {command}` publishes the model that was trained" in told
    done = json.loads(kglink(*command.split(), "--publish", "--json").out)
    assert (done["space"], done["detector"]) == ("default", None)


def test_names_of_runs(finetune: Finetune, kglink: Kglink, here: Path) -> None:
    mine = here / "my recipe.toml"
    mine.write_text('extends = "default"\nseed = 3\n', encoding="utf-8")
    for recipe in ("default", "default", mine):
        finetune("--no-publish", "--sources", "O", "--recipe", recipe)
    runs = json.loads(kglink("runs", "--json").out)
    assert [run["name"] for run in runs] == ["default-1", "default-2", "my-recipe-1"]
    assert [run["seed"] for run in runs] == [0, 0, 3]
    kglink("runs", "--delete", "default-1", "--yes")
    assert not (here / "runs" / "default-1").exists()
    finetune("--no-publish", "--sources", "O", "--seed", "7")
    assert read_settings(here / "runs" / "default-1").seed == 7
    again = finetune("--no-publish", "--sources", "O", "--run", "default-1", code=2)
    assert "there is a run already" in again.err


@pytest.mark.slow
def test_no_progress_of_the_demos_fine_tuning_passes_its_total(
    kglink: Kglink, master: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every line that is printed while the demo's KBs are compared, learnt and built."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KGLINK_OVERLAP_MODEL", str(master / "tiny"))
    monkeypatch.setenv("KGLINK_ENCODER_THREADS", "1")
    monkeypatch.setattr(console, "LINE_EVERY", 0.0)
    kbs = ("encyclopedia", "lanternfall")
    with as_file(files("kglink_cli") / "demo_data") as data:
        for kb in kbs:
            kglink("add-kb", kb, data / f"{kb}.jsonl")
        kglink("add-kb", "docs", data / "documents.jsonl", "--links-to", ",".join(kbs))
    words = ("--recipe", "small", "--source-kb", kbs[0], "--target-kb", kbs[1], "--sources", "TOS")
    epochs = {"train.epochs": 1, "overlap.epochs": 1, "train.names": 0.0}
    inputs = {"model.inputs.mention_tokens": 16, "model.inputs.entity_tokens": 16}
    changes = {"model.base": master / "tiny", **epochs, **inputs}
    pairs = [word for name, value in changes.items() for word in ("--set", f"{name}={value}")]
    ran = kglink("finetune", *words, *pairs)
    told = re.findall(r"^  (.+?) ([\d,]+) of ([\d,]+) \((\d+)%\)", ran.err, re.MULTILINE)
    ends = {}
    for step, *numbers, percent in told:
        done, total = (int(number.replace(",", "")) for number in numbers)
        assert done <= total
        assert int(percent) <= 100
        ends[step] = (done, total)
    assert all(done == total for step, (done, total) in ends.items() if "stage " not in step)
    with Workspace.open(tmp_path) as workspace:
        infos = {info.name: info for info in workspace.store.kbs()}
        segments = workspace.space().segments
    facts = json.loads((tmp_path / "runs" / "small-1" / "data" / "data.json").read_text())
    entities = sum(infos[kb].entities for kb in kbs)
    assert ends["reading entities"][1] == ends["encoding the pool"][1] == entities
    assert ends["judging by mentions"][1] == sum(one["valid"] for one in facts["documents"])
    mined = {letter: ends[f"mining negatives of {letter}"][1] for letter in "ST"}
    learnt = dict(re.findall(r"([ST]) \(\w+ KBs\): (\d+) pairs", ran.err))
    assert mined == {letter: int(pairs) for letter, pairs in learnt.items()}
    for kb in kbs:
        info = segments[kb].info
        rows = {"text": info.entities, "alias": info.alias_rows}
        assert ends[f"encoding {kb}"][1] == sum(rows[kind] for kind in info.rows)


@pytest.mark.slow
def test_one_seed_gives_one_curve(finetune: Finetune, here: Path) -> None:
    for run in ("one", "two"):
        finetune("--no-publish", "--run", run)
    curves = [Curve(here / "runs" / run).lines() for run in ("one", "two")]
    assert curves[0] == curves[1]
    assert len(curves[0]) == 2 + 4  # steps 10 and 20; before, two epochs of TS, one of O
    assert fingerprint(here, "one") == fingerprint(here, "two")
