"""`kglink finetune`, `runs` and `recipes` as their users meet them, with a tiny model."""

from __future__ import annotations

import errno
import json
import os
import pkgutil
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import Kglink, Ran

from kglink.errors import ModelError, UsageError
from kglink.models.model_folder import TRAINED
from kglink.store import Store
from kglink.training import list_recipes, load_recipe
from kglink.training.job import FinetuneJob
from kglink.training.recipe import read_recipe
from kglink.training.run import Curve, alone, is_busy, read_settings
from kglink.training.stages import with_kbs
from kglink.workspace import Workspace, init_workspace
from kglink.workspace.opened import Opened
from kglink_cli import console
from kglink_cli.finetune import read_changes
from kglink_cli.runs import sparkline, toml_lines
from store_support import entity, job
from training_world import fill, world_of, write_world_model

SUPPORT = Path(__file__).parents[1] / "support"
#: What makes the default recipe small: 26 steps of TS in two epochs, then two of O.
SMALL = {
    "model.inputs.mention_tokens": 16,
    "model.inputs.entity_tokens": 16,
    "train.epochs": 2,
    "train.batch": 8,
    "train.sampler": "hard_in_domain",
    "train.negatives": 2,
    "train.columns": "shared",
    "train.names": 0.0,
    "overlap.batch": 8,
    "selection.metric": "R@8",
}
KBS = ("--source-kb", "atlas", "--target-kb", "saga")
#: A line of the curve at each tenth step; kills come at those.
TOTAL = 28

Finetune = Callable[..., Ran]


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = init_workspace(tmp_path_factory.mktemp("master"))
    fill(f"sqlite:///{folder}/kglink.db", world_of()).close()
    write_world_model(folder / "tiny", world_of())
    return folder


@pytest.fixture
def here(master: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "workspace"
    shutil.copytree(master, folder)
    monkeypatch.setenv("KGLINK_WORKSPACE", str(folder))
    monkeypatch.setenv("KGLINK_ENCODER_PRECISION", "fp32")
    monkeypatch.setenv("KGLINK_ENCODER_DEVICE", "cpu")
    monkeypatch.setenv("KGLINK_ENCODER_THREADS", "1")
    return folder


def base_of(folder: Path) -> dict[str, object]:
    return {"model.base": folder / "tiny"}


def options(folder: Path, **more: object) -> list[str]:
    changes = {**base_of(folder), **SMALL, **more}
    pairs = (("--set", f"{key}={value}") for key, value in changes.items())
    return [word for pair in pairs for word in pair]


@pytest.fixture
def finetune(kglink: Kglink, here: Path) -> Finetune:
    def run(*arguments: str | Path, code: int = 0, **more: object) -> Ran:
        return kglink("finetune", *KBS, *options(here, **more), *arguments, code=code)

    return run


def fingerprint(folder: Path, run: str = "default-1") -> dict[str, str]:
    return TRAINED.read(folder / "runs" / run / "model").files


# ------------------------------------------------------------------------------ the journey
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


# ---------------------------------------------------------------------------- interruptions
@pytest.fixture(scope="module")
def undisturbed(master: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("undisturbed") / "workspace"
    shutil.copytree(master, folder)
    changes = read_changes(
        [f"{key}={value}" for key, value in {**SMALL, **base_of(folder)}.items()]
    )
    job = FinetuneJob(
        ["atlas"],
        ["saga"],
        changes=changes,
        publish=False,
        device="cpu",
        precision="fp32",
        threads=1,
    )
    with Workspace.open(folder) as workspace:
        workspace.finetune(job)
    return fingerprint(folder)


def _command(folder: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    env = os.environ | {
        "KGLINK_WORKSPACE": str(folder),
        "KGLINK_ENCODER_PRECISION": "fp32",
        "KGLINK_ENCODER_DEVICE": "cpu",
        "KGLINK_ENCODER_THREADS": "1",
    }
    return subprocess.run(
        [sys.executable, *words], env=env, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
@pytest.mark.parametrize("where", ["20", "build", "publish"])
def test_killed_and_resumed_it_comes_to_the_same_end(
    where: str, here: Path, kglink: Kglink, undisturbed: dict[str, str]
) -> None:
    words = ["finetune", *KBS, *options(here), "--checkpoint-steps", "3", "--space", "mine"]
    killed = _command(here, SUPPORT / "cli_child.py", where, *words)
    assert killed.returncode == -9, killed.stderr
    (run,) = json.loads(kglink("runs", "--json").out)
    assert (run["state"], run["spaces"]) == ("stopped" if where == "20" else "trained", [])
    told = json.loads(kglink("finetune", "--resume", "--json").out)
    assert (told["run"], told["space"]) == ("default-1", "mine")
    # Where a model stands is part of its history; that of the base model differs by folder.
    assert fingerprint(here) == undisturbed
    assert json.loads(kglink("runs", "--json").out)[0]["spaces"] == ["mine"]
    assert "no run to go on with" in kglink("finetune", "--resume", code=2).err


@pytest.mark.slow
def test_two_processes_publish_one_space(here: Path, undisturbed: dict[str, str]) -> None:
    torchrun = ("-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone")
    words = ("-m", "kglink_cli", "finetune", *KBS, *options(here), "--json")
    done = _command(here, *torchrun, *words)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["run"], told["space"], told["steps"]) == ("default-1", "default", TOTAL)
    assert done.stderr.count("S (source KBs)") == 1
    assert "2 processes" in done.stderr
    with Workspace.open(here) as workspace:
        assert [run.spaces for run in workspace.runs()] == [("default",)]


# -------------------------------------------------------------------------------- refusals
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--sources", "TX"], "unknown sources 'TX'"),
        (["--sources", "TOS", "--docs", "saga"], "stage S: there are no annotated mentions of atl"),
        (["--docs", "nothing"], "unknown KB 'nothing'"),
        (["--source-kb", "atlsa"], "Did you mean 'atlas'"),
        (["--source-kb", "saga"], "KB 'saga' is named twice"),
        (["--recipe", "defalt"], "Did you mean 'default'"),
        (["--recipe", "nowhere.toml"], "the recipe cannot be read"),
        (["--set", "train.epoch=2"], "Did you mean 'epochs'"),
        (["--set", "train.epochs=many"], "train.epochs = 'many'"),
        (["--set", "train.epochs"], "is not key=value"),
        (["--run", "../away"], "cannot be the name of a run"),
        (["--space", "No Space"], "space.name = 'No Space'"),
        (["--resume", "--run", "nowhere"], "no run to go on with"),
    ],
)
def test_what_cannot_be_is_said_in_words_and_leaves_nothing(
    arguments: list[str], said: str, finetune: Finetune, kglink: Kglink, here: Path
) -> None:
    code = 1 if "--resume" in arguments else 2
    ran = finetune("--no-publish", *arguments, code=code)
    assert said in ran.err
    assert ran.err.count("error") == 1
    assert ran.out == ""
    assert not list((here / "runs").glob("*"))
    assert json.loads(kglink("runs", "--json").out) == []


def test_what_could_not_be_published_is_refused_before_the_training(
    finetune: Finetune, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "space.name" in finetune("--space", "My Space", code=2).err
    monkeypatch.setenv("KGLINK_ENCODER_MODEL", str(here / "tiny"))
    told = finetune(code=2).err
    assert "encoder.model is set to" in told
    assert "--no-publish trains a model alone" in told
    assert not (here / "runs").exists() or not list((here / "runs").iterdir())


def test_a_recipe_with_an_unknown_key(finetune: Finetune, here: Path) -> None:
    mine = here / "mine.toml"
    mine.write_text("[train]\nlearnig_rate = 1e-5\n", encoding="utf-8")
    ran = finetune("--recipe", mine, code=2)
    assert "'learnig_rate'" in ran.err
    assert "Did you mean 'learning_rate'" in ran.err


def test_a_model_that_is_not_like_bert(finetune: Finetune, here: Path) -> None:
    config = here / "tiny" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"model_type": "gpt2"}))
    assert "towers are encoders like BERT" in finetune(code=1).err
    shutil.rmtree(here / "tiny")
    assert "tiny" in finetune(code=1).err


@pytest.mark.slow
def test_a_checkpoint_of_another_architecture(
    finetune: Finetune, kglink: Kglink, here: Path
) -> None:
    words = ["finetune", *KBS, *options(here), "--checkpoint-steps", "3"]
    assert _command(here, SUPPORT / "cli_child.py", "10", *words).returncode == -9
    folder = here / "runs" / "default-1"
    settings = json.loads((folder / "settings.json").read_text())
    settings["recipe"]["model"]["shared"] = False
    (folder / "settings.json").write_text(json.dumps(settings))
    assert "another recipe" in kglink("finetune", "--resume", code=1).err
    ran = kglink("finetune", "--resume", "--set", "train.epochs=9", code=1)
    assert "another recipe" in ran.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "fault", "said"),
    [
        (
            "kglink.training.checkpoint.save_file",
            OSError(errno.ENOSPC, "No space left on device"),
            "No space left on device",
        ),
        ("kglink.training.loop.Task._clip", float("nan"), "stage TS, epoch 1, step 8"),
        (
            "kglink.training.loop.Task.step",
            torch.OutOfMemoryError("no memory"),
            "does not fit into memory",
        ),
    ],
    ids=["full disk", "NaN", "memory"],
)
def test_what_stops_a_run_is_said_and_the_run_goes_on_when_it_is_mended(
    target: str,
    fault: Exception | float,
    said: str,
    finetune: Finetune,
    kglink: Kglink,
    here: Path,
    undisturbed: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    owner, _, name = target.rpartition(".")
    real: Callable[..., Any] = pkgutil.resolve_name(target)
    calls = 0

    def faulty(*given: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 8 and isinstance(fault, Exception):
            raise fault
        return torch.tensor(fault) if calls == 8 else real(*given)

    monkeypatch.setattr(pkgutil.resolve_name(owner), name, faulty)
    ran = finetune("--no-publish", "--checkpoint-steps", "3", code=1)
    monkeypatch.undo()
    assert said in ran.err
    monkeypatch.setenv("KGLINK_WORKSPACE", str(here))
    monkeypatch.setenv("KGLINK_ENCODER_PRECISION", "fp32")
    monkeypatch.setenv("KGLINK_ENCODER_THREADS", "1")
    assert json.loads(kglink("runs", "--json").out)[0]["state"] == "stopped"
    kglink("finetune", "--resume", "--no-publish")
    assert fingerprint(here) == undisturbed


def test_a_kb_without_descriptions_is_told_of(kglink: Kglink, here: Path) -> None:
    with Store.open(f"sqlite:///{here}/kglink.db") as store:
        store.ingest(job("bare", fingerprint="bare"), [entity(f"{n}") for n in range(3)])
    ran = kglink(
        *("finetune", "--target-kb", "saga", "--source-kb", "bare", "--sources", "T"),
        *("--no-publish", *options(here)),
    )
    assert "bare: none of its 3 entities has a description" in ran.err


# ------------------------------------------------------------------------- KBs that nobody named
@pytest.mark.slow
def test_all_stages_as_typed_without_naming_a_kb(kglink: Kglink, here: Path) -> None:
    """Source, targets and overlaps are found, and the command says which and how to change it."""
    with Workspace.open(here) as workspace:
        mentions = workspace.store.count_annotated()
        forget_overlaps(workspace.store)
    richest = max(mentions, key=mentions.__getitem__)
    (other,) = {"atlas", "saga"} - {richest}
    ran = kglink("finetune", "--sources", "TOS", *options(here, **{"overlap.method": "names"}))
    told = " ".join(ran.err.split())
    for said in (
        f"source KB: {richest} ({mentions[richest]} annotated mentions)",
        f"target KB: {other} ({mentions[other]} annotated mentions)",
        "the source is the KB with the most annotated mentions; "
        "choose others with --source-kb and --target-kb",
        f"no overlaps of {richest} and {other} are known: "
        f"`kglink overlap {richest} {other}` runs first",
        "learns O (overlaps)",
    ):
        assert said in told
    kept = read_settings(here / "runs" / "default-1")
    assert (kept.sources, kept.source_kbs, kept.target_kbs) == ("TOS", (richest,), (other,))


def forget_overlaps(store: Store) -> None:
    judged = [(one.left, one.right, None) for one in store.overlaps(judged=True)]
    store.set_verdicts(judged)
    store.save_overlaps("atlas", "saga", (), lambda _: None)


@pytest.fixture
def chosen(here: Path) -> Callable[..., tuple[str, tuple[str, ...], tuple[str, ...], str]]:
    """The stages and KBs of a job in a store of which only ``kbs`` are left, and what was said."""

    def choose(*kbs: str, **job: Any) -> tuple[str, tuple[str, ...], tuple[str, ...], str]:
        said: list[str] = []
        with Store.open(f"sqlite:///{here}/kglink.db") as store:
            for info in store.kbs():
                if info.name not in kbs:
                    store.remove_kb(info.name)
            done = with_kbs(store, FinetuneJob(**job), lambda news: said.append(str(news)))
        return done.stages(), tuple(done.source_kbs), tuple(done.target_kbs), " ".join(said)

    return choose


def test_three_kbs_have_one_source_and_two_targets(chosen: Any, here: Path) -> None:
    with Store.open(f"sqlite:///{here}/kglink.db") as store:
        store.ingest(job("bare", fingerprint="bare"), [entity(f"{n}") for n in range(3)])
        mentions = store.count_annotated()
    first, second = sorted(("atlas", "saga"), key=lambda kb: (-mentions[kb], kb))
    every = ("atlas", "saga", "bare", "docs")
    assert chosen(*every)[:3] == ("TOS", (first,), (second, "bare"))
    assert chosen(*every, sources="S")[1:3] == ((first, second, "bare"), ())
    assert chosen(*every, sources="T")[1:3] == ((), (first, second, "bare"))
    assert chosen(*every, sources="TO", target_kbs=(first,))[1:3] == ((second,), (first,))
    _, sources, targets, said = chosen(*every, sources="SO", source_kbs=(second,))
    assert (sources, targets) == ((second,), (first, "bare"))
    assert "choose others with --target-kb" in said
    assert "the source is" not in said


def test_a_side_that_is_named_or_not_needed_stays_as_it_is(chosen: Any) -> None:
    assert chosen("atlas", "saga", "docs", source_kbs=("saga",)) == ("S", ("saga",), (), "")
    assert chosen("atlas", "saga", "docs", target_kbs=("saga",)) == ("T", (), ("saga",), "")


def test_without_annotated_mentions_the_larger_kb_is_the_source(chosen: Any, here: Path) -> None:
    with Store.open(f"sqlite:///{here}/kglink.db") as store:
        store.ingest(job("bare", fingerprint="bare"), [entity(f"{n}") for n in range(3)])
    _, sources, targets, said = chosen("bare", "saga", sources="O")
    assert (sources, targets) == (("saga",), ("bare",))
    assert "the source is the KB with the most entities" in said


def test_stages_without_mentions_are_left_out_where_nobody_named_kbs(chosen: Any) -> None:
    stages, _, _, said = chosen("atlas", "saga", sources="TOS")
    assert stages == "O"
    assert said.count("is left out: there are no annotated mentions of") == 2


def test_one_kb_alone_learns_from_its_mentions(chosen: Any) -> None:
    stages, sources, targets, said = chosen("saga", "docs")
    assert (stages, sources, targets) == ("T", (), ("saga",))
    assert "there is no second KB: the run learns from annotated mentions alone" in said
    with pytest.raises(UsageError, match="sources TOS need a source and a target KB") as refused:
        chosen("saga", "docs", sources="TOS")
    assert "there is only saga" in refused.value.message
    assert "--sources T." in str(refused.value.hint)
    with pytest.raises(UsageError, match="there is no KB"):
        chosen("docs")


def test_stages_without_mentions_are_refused_before_overlaps_are_looked_for(
    kglink: Kglink, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Workspace.open(here) as workspace:
        workspace.store.remove_kb("docs")
        forget_overlaps(workspace.store)
    kbs = ("--source-kb", "atlas", "--target-kb", "saga")
    ran = kglink("finetune", "--sources", "TOS", *kbs, *options(here), code=2)
    told = " ".join(ran.err.split())
    assert "stage S: there are no annotated mentions of" in told
    assert "Learn from the others alone: --sources O." in told
    assert "kglink add-kb DOCS FILE --links-to" in told
    with Workspace.open(here) as workspace:
        assert workspace.store.overlap_runs() == []


@pytest.mark.slow
def test_overlaps_are_found_where_nobody_has_looked(
    kglink: Kglink, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []

    def find(opened: Opened, *kbs: str, **_: object) -> None:
        asked.append((*kbs, opened.settings.overlap.method))
        # The name of the run is taken while it looks for overlaps: another one gets the next.
        assert is_busy(here / "runs" / f"default-{len(asked)}")

    monkeypatch.setattr("kglink.workspace.finetune.find_overlaps", find)
    with Store.open(f"sqlite:///{here}/kglink.db") as store:
        store.ingest(job("bare", fingerprint="bare"), [entity(f"{n}") for n in range(3)])
    words = ("--source-kb", "atlas,bare", "--target-kb", "saga", *options(here), "--no-publish")
    kglink("finetune", "--sources", "TO", *words)
    kglink("finetune", "--sources", "TO", *words, "--set", "overlap.method=paper")
    assert asked == [("bare", "saga", "full"), ("bare", "saga", "paper")]


@pytest.mark.slow
def test_a_run_in_progress_is_neither_joined_nor_deleted(
    finetune: Finetune, kglink: Kglink, here: Path
) -> None:
    finetune("--no-publish", "--sources", "O")
    with alone(here / "runs" / "default-1"):
        assert json.loads(kglink("runs", "--json").out)[0]["state"] == "running"
        assert "is in progress" in kglink("runs", "--delete", "default-1", code=2).err
        resumed = kglink("finetune", "--resume", "--run", "default-1", code=1)
        assert "another process is training here" in resumed.err
    assert "unknown run 'default-9'" in kglink("runs", "default-9", code=2).err
    assert "Did you mean 'default-1'" in kglink("runs", "--delete", "default-9", code=2).err
    kglink("runs", "--delete", "default-1", stdin="n\n", code=1)
    assert (here / "runs" / "default-1").exists()


# -------------------------------------------------------------------------- recipes and curves
def test_recipes_are_listed_and_shown_whole(kglink: Kglink) -> None:
    listed = json.loads(kglink("recipes", "--json").out)
    assert [one["name"] for one in listed] == [recipe.name for recipe in list_recipes()]
    assert listed[0]["name"] == "default"
    som = next(one for one in listed if one["name"] == "t-biencoder/som-random-id")
    assert som["source"] == "T-Biencoder, Table 2: SOM, Random-ID (90.68 on test)"
    assert len(kglink("recipes").out.splitlines()) == len(listed) + 1
    described = kglink("recipes", "--help").out
    assert all(one["paper"] in described for one in listed)
    of_table = json.loads(kglink("recipes", "--paper", "amh", "--table", "6", "--json").out)
    assert [one["name"] for one in of_table if one["name"] == "amh/som-amh-k16"]
    assert all(one["paper"] == "amh" and "6" in one["tables"] for one in of_table)
    assert "Did you mean 'joint'" in kglink("recipes", "--paper", "joints", code=2).err
    told = kglink("recipes", "--paper", "amh", "--table", "77", code=2).err
    assert "unknown table of amh '77'" in told
    values = json.loads(kglink("recipes", "t-biencoder/som-random-id", "--json").out)
    assert values["train"]["negatives"] == 15
    whole = tomllib.loads(kglink("recipes", "t-biencoder/som-random-id").out)
    assert whole["train"]["transformation"]["layer"] == 1
    assert "Did you mean" in kglink("recipes", "t-biencoder/som-random", code=2).err


@pytest.mark.parametrize("name", [recipe.name for recipe in list_recipes()])
def test_a_recipe_shown_whole_is_that_recipe(name: str) -> None:
    recipe = load_recipe(name)
    shown = toml_lines(recipe.model_dump(mode="json", exclude={"extends"}))
    again = read_recipe(tomllib.loads("\n".join(shown)))
    assert again == recipe.model_copy(update={"extends": ""})


def test_changes_are_read_as_toml() -> None:
    pairs = ["train.epochs=2", "train.batch = 16", "model.base=./tiny", 'domain="type"', "again={}"]
    assert read_changes(pairs, 5) == {
        "train": {"epochs": 2, "batch": 16},
        "model": {"base": "./tiny"},
        "domain": "type",
        "again": {},
        "seed": 5,
    }


def test_sparklines() -> None:
    assert sparkline([]) == ""
    assert sparkline([1.0, 1.0]) == "▁▁"
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7]) == "▁▂▃▄▅▆▇█"
    # Ten values in five columns: the means of two each.
    assert sparkline([0, 2, 4, 4, 7, 9, 15, 15, 8, 8], width=5) == "▁▃▅█▅"
