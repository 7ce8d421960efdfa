"""A fine-tuning that is killed, stopped or divided comes to the same end when it goes on."""

from __future__ import annotations

import errno
import json
import os
import pkgutil
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import Kglink

from finetune_support import KBS, SMALL, TOTAL, Finetune, base_of, fingerprint, options
from kglink.training.job import FinetuneJob
from kglink.training.run import alone
from kglink.workspace import Workspace
from kglink_cli.finetune import read_changes

pytest_plugins = ["finetune_fixtures"]

SUPPORT = Path(__file__).parents[1] / "support"


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
    ran = kglink("finetune", "--resume", "--json")
    assert "run default-1 goes on" in ran.err
    told = json.loads(ran.out)
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
