"""A run that was killed or stopped goes on as if nothing had happened, or says why it cannot."""

from __future__ import annotations

import dataclasses
import errno
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from kglink.errors import TrainingError, UsageError
from kglink.models.hardware import Hardware
from kglink.records import Progress
from kglink.store import Store
from kglink.training import Recipe
from kglink.training.checkpoint import Checkpoints, Position, write_tensors
from kglink.training.job import News, StepNews
from kglink.training.loop import Task
from kglink.training.processes import Team
from kglink.training.recipe_files import chosen_recipe
from kglink.training.run import (
    Curve,
    RunSettings,
    TrainingReport,
    read_run,
    read_settings,
    write_settings,
)
from training_runs import CHANGES, Run, curve, runner, weights
from training_world import fill, small, world_of, write_world_model

SUPPORT = Path(__file__).parents[1] / "support"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = f"sqlite:///{tmp_path_factory.mktemp('store')}/kglink.db"
    fill(url, world_of()).close()
    return url


@pytest.fixture(scope="module")
def store(url: str) -> Iterator[Store]:
    with Store.open(url) as store:
        yield store


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_world_model(tmp_path_factory.mktemp("model") / "tiny", world_of())


@pytest.fixture(scope="module")
def recipe(base: Path) -> Recipe:
    return small("small", base, CHANGES)


@pytest.fixture(scope="module")
def run(store: Store, recipe: Recipe) -> Run:
    return runner(store, recipe)


@pytest.fixture(scope="module")
def whole(run: Run, tmp_path_factory: pytest.TempPathFactory) -> TrainingReport:
    """A run that nothing disturbed."""
    return run(tmp_path_factory.mktemp("runs") / "whole")


@pytest.mark.slow
@pytest.mark.parametrize(
    "step", [pytest.param(5, marks=pytest.mark.slow), 17, pytest.param(29, marks=pytest.mark.slow)]
)
def test_a_killed_run_goes_on_as_if_nothing_had_happened(
    step: int, url: str, run: Run, recipe: Recipe, whole: TrainingReport, tmp_path: Path
) -> None:
    """Killed in the first epoch, in the second, and in stage O."""
    told = tmp_path / "recipe.json"
    told.write_text(recipe.model_dump_json())
    folder = tmp_path / "killed"
    script = str(SUPPORT / "training_child.py")
    child = [sys.executable, script, url, str(folder), str(told), str(step)]
    done = subprocess.run(child, check=False, capture_output=True, text=True)
    assert done.returncode == -9, done.stderr
    assert not read_run(folder).done
    assert curve(folder)[-1]["total"] == step
    resumed = run(folder, None, sources="", source_kbs=(), target_kbs=(), resume=True)
    assert curve(folder) == curve(whole.folder)
    assert weights(resumed) == weights(whole)
    assert [dict(stage) for stage in resumed.stages] == [dict(stage) for stage in whole.stages]


class _StopError(Exception):
    """What a test stops a run with."""


def stop_after(step: int) -> Callable[[News], None]:
    seen = []

    def tell(news: News) -> None:
        if isinstance(news, StepNews):
            seen.append(news)
            if len(seen) == step:
                raise _StopError

    return tell


def interrupted(run: Run, folder: Path, step: int) -> Path:
    with pytest.raises(_StopError):
        run(folder, progress=stop_after(step))
    return folder


def test_a_kill_as_the_second_training_begins_is_gone_on_from(
    run: Run, base: Path, tmp_path: Path
) -> None:
    """Between two trainings there is a checkpoint without A, and both have one."""
    changes = {"train": {"transformation": {"layer": 1, "epsilon": 20.0}}}
    given = small("blink/zeshel-base-hard", base, changes)
    undisturbed = run(tmp_path / "whole", given, sources="T")
    first = [line["stage"] for line in curve(undisturbed.folder) if "loss" in line].count("T")

    def stop(news: News) -> None:
        if isinstance(news, Progress) and news.step.startswith("mining"):
            raise _StopError

    with pytest.raises(_StopError):
        run(tmp_path / "run", given, sources="T", progress=stop)
    lines = [line for line in curve(tmp_path / "run") if "loss" in line]
    assert len(lines) == first
    resumed = run(tmp_path / "run", None, sources="T", resume=True)
    assert weights(resumed) == weights(undisturbed)


def test_what_a_killed_run_left_is_cleared_when_it_is_gone_on_with(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as killed:
        killed.setattr("kglink.training.train.clear", _stop)
        with pytest.raises(_StopError):
            run(tmp_path / "run")
    assert (tmp_path / "run" / "checkpoints").is_dir()
    run(tmp_path / "run", None, resume=True)
    assert not (tmp_path / "run" / "checkpoints").exists()
    assert [path.name for path in (tmp_path / "run" / "data").iterdir()] == ["data.json"]


def _stop(*_: object) -> None:
    raise _StopError


def test_another_number_of_processes_is_refused(run: Run, tmp_path: Path) -> None:
    folder = interrupted(run, tmp_path / "run", 4)
    told = read_settings(folder)
    write_settings(folder, dataclasses.replace(told, processes=2))
    with pytest.raises(TrainingError, match="began with 2 processes, and here are 1"):
        run(folder, None, resume=True)


def test_going_on_with_something_else_is_refused(run: Run, recipe: Recipe, tmp_path: Path) -> None:
    folder = interrupted(run, tmp_path / "run", 7)
    with pytest.raises(TrainingError, match="another recipe"):
        run(folder, recipe.model_copy(update={"seed": 9}), resume=True)
    with pytest.raises(TrainingError, match="another list of source KBs"):
        run(folder, None, source_kbs=["saga"], resume=True)
    with pytest.raises(UsageError, match="there is a run already"):
        run(folder)
    with pytest.raises(TrainingError, match="no run to go on with"):
        run(tmp_path / "nothing", None, resume=True)


def test_folders_of_a_workspace_are_found_after_it_was_moved(tmp_path: Path) -> None:
    folder = tmp_path / "here" / "runs" / "one"
    asked = {"teacher": f"{tmp_path}/here/spaces/a/reranker", "model": {"base": "runs/none"}}
    hardware = Hardware("cpu", "fp32", 1)
    told = RunSettings(chosen_recipe("default", asked), "", "T", (), ("saga",), (), hardware)
    write_settings(folder, told)
    (tmp_path / "here").rename(tmp_path / "there")
    moved = read_settings(tmp_path / "there" / "runs" / "one").recipe
    assert moved.teacher == f"{tmp_path}/there/spaces/a/reranker"
    assert moved.model.base == "runs/none"
    elsewhere = {"teacher": f"{tmp_path}/elsewhere", "model": {"base": f"{tmp_path}/there/m"}}
    write_settings(folder, dataclasses.replace(told, recipe=chosen_recipe("default", elsewhere)))
    again = read_settings(folder).recipe
    assert (again.teacher, again.model.base) == (f"{tmp_path}/elsewhere", f"{tmp_path}/there/m")


def test_folders_that_heads_begin_from_are_found_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "here" / "runs" / "one"
    (tmp_path / "here" / "tiny").mkdir(parents=True)
    (tmp_path / "beside").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    asked = {
        "model": {"base": "tiny"},
        "detector": {"base": "../beside"},
        "reranker": {"base": f"{tmp_path}/here/tiny", "lists": f"{tmp_path}/here/lists"},
    }
    hardware = Hardware("cpu", "fp32", 1)
    told = RunSettings(chosen_recipe("default", asked), "", "T", (), ("saga",), (), hardware)
    write_settings(folder, told)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").rename(tmp_path / "there")
    moved = read_settings(tmp_path / "there" / "runs" / "one").recipe
    there = f"{tmp_path}/there"
    assert moved.model.base == moved.reranker.base == f"{there}/tiny"
    assert moved.reranker.lists == f"{there}/lists"
    assert Path(moved.detector.base).resolve() == tmp_path / "beside"


def test_a_checkpoint_of_another_model_is_refused(
    run: Run, recipe: Recipe, base: Path, tmp_path: Path
) -> None:
    folder = interrupted(run, tmp_path / "run", 7)
    settings = json.loads((folder / "settings.json").read_text())
    other = write_world_model(tmp_path / "other", world_of(), dropout=0.2)
    settings["recipe"]["model"]["base"] = str(other)
    (folder / "settings.json").write_text(json.dumps(settings))
    with pytest.raises(TrainingError, match=r"another (recipe|base model)"):
        run(folder, None, resume=True)


def test_a_checkpoint_of_another_architecture_is_refused(run: Run, tmp_path: Path) -> None:
    folder = interrupted(run, tmp_path / "run", 7)
    path = next(folder.glob("checkpoints/0*/model.safetensors"))
    given = load_file(path)
    given.pop(next(name for name in given if "layer.1." in name))
    save_file(given, path)
    with pytest.raises(TrainingError, match="another architecture"):
        run(folder, None, resume=True)


@pytest.mark.parametrize("name", ["state.json", "model.safetensors"])
def test_a_damaged_checkpoint_is_told_as_one(name: str, tmp_path: Path) -> None:
    checkpoints, network = Checkpoints(tmp_path, {}), torch.nn.Linear(2, 2)
    checkpoints.save(Position(total=3), network, None, None)
    path = tmp_path / (tmp_path / "CURRENT").read_text() / name
    reads: dict[str, Callable[..., object]] = {
        "state.json": checkpoints.position,
        "model.safetensors": checkpoints.load_model,
    }
    for damage in (lambda: path.write_bytes(path.read_bytes()[:9]), path.unlink):
        damage()
        with pytest.raises(TrainingError, match=f"{name}: the checkpoint is damaged"):
            reads[name](*[network] * (name != "state.json"))


@pytest.mark.parametrize(
    "state",
    [
        [],
        {},
        {"format": 1, "identity": {}},
        {"format": 1, "position": {}},
        {"format": 1, "identity": [], "position": {}},
        {"format": 1, "identity": {}, "position": {"step": "four"}},
    ],
)
def test_a_state_that_is_none_is_told_as_damage(state: object, tmp_path: Path) -> None:
    (tmp_path / "CURRENT").write_text("1")
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "state.json").write_text(json.dumps(state))
    with pytest.raises(TrainingError, match=r"1/state\.json: the checkpoint is damaged"):
        Checkpoints(tmp_path, {}).position()


def test_a_checkpoint_of_another_format_or_without_its_name_is_told(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, {})
    with pytest.raises(TrainingError, match="CURRENT: the checkpoint is damaged"):
        checkpoints.position()
    checkpoints.save(Position(), torch.nn.Linear(2, 2), None, None)
    path = tmp_path / (tmp_path / "CURRENT").read_text() / "state.json"
    path.write_text('{"format": 99}')
    with pytest.raises(TrainingError, match="a checkpoint of format 99, and this kglink reads 1"):
        checkpoints.position()


def test_a_curve_that_a_kill_met_while_it_was_cut_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [{"total": total, "loss": 0.5} for total in range(1, 9)]
    own = Curve(tmp_path)
    for line in lines:
        own.add(line)
    monkeypatch.setattr("kglink.files.atomic.sync_file", _stop)
    with pytest.raises(_StopError):
        own.begin(6)
    assert own.lines() == lines
    monkeypatch.undo()
    own.begin(6)
    assert own.lines() == lines[:6]


@pytest.mark.parametrize("resume", [False, True])
def test_all_processes_may_fetch_the_model_of_a_new_run(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, resume: bool
) -> None:
    """Another machine has not what the first process fetches."""
    folder = interrupted(run, tmp_path / "run", 4) if resume else tmp_path / "run"
    fetched: list[bool] = []

    def load(*_: object, fetch: bool, **__: object) -> None:
        fetched.append(fetch)
        raise _StopError

    monkeypatch.setattr("kglink.training.train.load_bi_encoder", load)
    monkeypatch.setattr("kglink.training.train.Team", _SecondOfOne)
    with pytest.raises(_StopError):
        run(folder, resume=resume)
    assert fetched == [not resume]


class _SecondOfOne(Team):
    """A process that is not the first."""

    def __init__(self, device: str) -> None:
        super().__init__(device)
        self.is_first = False


def test_a_full_disk_keeps_the_checkpoint_before_it(
    run: Run, whole: TrainingReport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[Path] = []

    def full(tensors: Any, path: Path) -> None:
        written.append(path)
        if len(written) == 4:  # the optimiser's state of the second checkpoint
            path.write_bytes(b"half")
            raise OSError(errno.ENOSPC, "No space left on device")
        save_file(tensors, path)

    monkeypatch.setattr("kglink.training.checkpoint.save_file", full)
    with pytest.raises(TrainingError, match="No space left on device"):
        run(tmp_path / "run")
    monkeypatch.undo()
    checkpoints = tmp_path / "run" / "checkpoints"
    assert [path.name for path in checkpoints.iterdir() if path.is_dir()] == ["00000003-0-0"]
    resumed = run(tmp_path / "run", None, resume=True)
    assert weights(resumed) == weights(whole)


def test_a_loss_that_is_no_number_stops_and_says_where(
    run: Run, whole: TrainingReport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Task._clip

    def broken(self: Task[Any, Any], longest: float) -> torch.Tensor:
        norm = real(self, longest)
        broken.calls += 1  # type: ignore[attr-defined]  # a counter on a function
        return norm * float("nan") if broken.calls == 8 else norm  # type: ignore[attr-defined]  # the same

    broken.calls = 0  # type: ignore[attr-defined]  # the same
    monkeypatch.setattr(Task, "_clip", broken)
    with pytest.raises(TrainingError, match=r"stage TS, epoch 1, step 8: .* \(mentions \d+"):
        run(tmp_path / "run")
    monkeypatch.undo()
    resumed = run(tmp_path / "run", None, resume=True)
    assert weights(resumed) == weights(whole)


def test_weights_can_be_read_by_whoever_reads_the_folder(tmp_path: Path) -> None:
    usual, weights = tmp_path / "usual", tmp_path / "weights.safetensors"
    usual.touch()
    write_tensors(weights, {"a": torch.zeros(2)})
    assert weights.stat().st_mode == usual.stat().st_mode
