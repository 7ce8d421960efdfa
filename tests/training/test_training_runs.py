"""Runs: the same losses from one seed, after a kill, and with several processes."""

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

from kglink.errors import KglinkError, ModelError, TrainingError, UnknownNameError, UsageError
from kglink.models import Encoder, resolve_model
from kglink.models.hardware import Hardware
from kglink.models.model_folder import TRAINED
from kglink.plugins import load_registry
from kglink.records import Entity, Progress
from kglink.store import Store
from kglink.training import Recipe
from kglink.training.job import EpochNews, FinetuneJob, News, Note, StepNews, Tell
from kglink.training.loop import Done, Task
from kglink.training.recipe import chosen_recipe
from kglink.training.run import (
    Curve,
    RunSettings,
    TrainingReport,
    list_runs,
    read_run,
    read_settings,
    write_settings,
)
from kglink.training.train import train
from training_world import fill, small, world_of, write_world_model

SUPPORT = Path(__file__).parents[1] / "support"
Run = Callable[..., TrainingReport]

ON_ONE_CORE: Any = {"device": "cpu", "precision": "fp32", "threads": 1}
#: Hard negatives, two epochs, the transformation: what a run must carry over a kill.
CHANGES: dict[str, Any] = {
    "train": {"epochs": 2, "transformation": {"layer": 1, "epsilon": 20.0}},
    "overlap": {"epochs": 2},
    "selection": {"metric": "R@8"},
}


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
    def run_it(
        folder: Path,
        given: Recipe | None = recipe,
        progress: Tell = lambda _: None,
        **more: Any,
    ) -> TrainingReport:
        told: dict[str, Any] = {
            "sources": "TOS",
            "source_kbs": ["atlas"],
            "target_kbs": ["saga"],
            "checkpoint_steps": 3,
            "curve_steps": 1,
        }
        job = FinetuneJob(recipe=given, **ON_ONE_CORE, **told | more)
        return train(store, load_registry(), job, folder, progress=progress)

    return run_it


@pytest.fixture(scope="module")
def whole(run: Run, tmp_path_factory: pytest.TempPathFactory) -> TrainingReport:
    """A run that nothing disturbed."""
    return run(tmp_path_factory.mktemp("runs") / "whole")


def curve(folder: Path) -> list[dict[str, Any]]:
    return Curve(folder).lines()


def weights(report: TrainingReport) -> dict[str, str]:
    return TRAINED.read(report.model).files


def gone_through(run: Run, folder: Path, recipe: Recipe) -> dict[str, list[tuple[int, int]]]:
    """What a run of stage T counted: of each step how much in all, and of how many."""
    counted: dict[str, list[tuple[int, int]]] = {}

    def keep(news: News) -> None:
        if isinstance(news, Progress):
            counts = counted.setdefault(news.step, [])
            if not counts or news.done <= counts[-1][0]:  # it begins anew
                counts.append((news.done, news.total))
            counts[-1] = (news.done, news.total)

    run(folder, recipe, sources="T", progress=keep)
    return counted


# ------------------------------------------------------------------------- what a run leaves
def test_a_run_leaves_a_model_that_searches(whole: TrainingReport) -> None:
    encoder = Encoder(resolve_model(str(whole.model)), precision="fp32", threads=1)
    assert encoder.trained
    vectors = encoder.encode_entities([Entity("1", "a name")])
    assert vectors.shape == (1, 32)
    history = TRAINED.read(whole.model).history
    assert [step["kind"] for step in history] == ["finetune"]
    assert history[0]["sources"] == "TOS"
    assert history[0]["source_kbs"] == ["atlas"]


def test_what_is_kept_of_a_run(whole: TrainingReport) -> None:
    lines = curve(whole.folder)
    steps = [line for line in lines if "loss" in line]
    # 80 mentions, those of each KB in batches of 8, twice; then the pairs, twice.
    assert [line["total"] for line in steps] == list(range(1, whole.steps + 1))
    assert [line["stage"] for line in steps] == ["TS"] * 26 + ["O"] * 4
    assert [line["epoch"] for line in lines if "mean" in line] == [0, 1, 2, 1, 2]
    assert whole.stages[0]["figure"] == max(
        line["mean"]["R@8"] for line in lines if "epoch_loss" in line and line["stage"] == "TS"
    )
    assert whole.stages[1] == {"name": "O", "epochs": 2, "kept": 2, "figure": None}
    assert whole.recalls is not None
    assert whole.recalls == {key: lines[-1][key] for key in whole.recalls}
    assert (lines[0]["total"], lines[0]["epoch"]) == (0, 0)
    assert whole.before == {key: lines[0][key] for key in whole.recalls}
    assert (whole.folder / "curve.png").stat().st_size > 1000
    facts = json.loads((whole.folder / "data" / "data.json").read_text())
    assert {kb["name"] for kb in facts["kbs"]} == {"atlas", "saga"}
    assert not (whole.folder / "checkpoints").exists()
    info = read_run(whole.folder)
    assert info.done
    assert info.as_json()["recipe"] == ""
    assert [one.name for one in list_runs(whole.folder.parent)] == ["whole"]


def test_the_rate_climbs_and_falls_in_each_stage(whole: TrainingReport) -> None:
    rates = [line["rate"] for line in curve(whole.folder) if "loss" in line]
    # A tenth of 26 steps is 3 (2.6): 1/3, 2/3, 3/3 of the rate, then down to 1/23.
    assert rates[:4] == pytest.approx([1e-5, 2e-5, 3e-5, 3e-5])
    assert rates[25] == pytest.approx(3e-5 / 23)
    assert rates[26] == pytest.approx(1e-5)
    assert rates[29] == pytest.approx(1e-5 / 4)


# ------------------------------------------------------------------------------ one seed
def test_one_seed_gives_the_same_losses_and_another_gives_others(
    run: Run, recipe: Recipe, whole: TrainingReport, tmp_path: Path
) -> None:
    again = run(tmp_path / "again")
    assert curve(again.folder) == curve(whole.folder)
    assert weights(again) == weights(whole)
    other = run(tmp_path / "other", recipe.model_copy(update={"seed": 1}), sources="TS")
    assert curve(other.folder)[1]["loss"] != curve(whole.folder)[1]["loss"]


@pytest.mark.slow
def test_gradients_are_cached_without_another_loss(run: Run, base: Path, tmp_path: Path) -> None:
    smooth = write_world_model(tmp_path / "smooth", world_of(), dropout=0.0)
    parts = {"model": {"base": str(smooth)}, "train": {**CHANGES["train"], "epochs": 1}}
    one = run(tmp_path / "one", small("small", smooth, parts), sources="TS")
    parts["train"]["micro_batch"] = 5
    cached = run(tmp_path / "cached", small("small", smooth, parts), sources="TS")
    losses = [
        [line["loss"] for line in curve(report.folder) if "loss" in line]
        for report in (one, cached)
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


@pytest.mark.slow
def test_training_teaches(tmp_path: Path) -> None:
    world = world_of(entities=100)
    base = write_world_model(tmp_path / "tiny", world, dropout=0.0)
    quick = {"epochs": 4, "learning_rate": 2e-3, "batch": 16, "freeze_embeddings": False}
    changes = {"train": quick, "selection": {"metric": "R@1"}}
    with fill(f"sqlite:///{tmp_path}/kglink.db", world, 150) as store:
        recipe = small("small", base, changes)
        job = FinetuneJob(["atlas"], ["saga"], "TS", recipe=recipe, **ON_ONE_CORE)
        report = train(store, load_registry(), job, tmp_path / "run")
    found = [line["mean"]["R@1"] for line in curve(tmp_path / "run") if "mean" in line]
    # One of 100 by chance; after an epoch 1 in 13, after four of them half of the mentions.
    assert found[0] < found[1] < 0.15
    assert found[-1] > 0.35
    assert report.before is not None
    assert report.recalls is not None
    assert (report.before["mean"]["R@1"], report.recalls["mean"]["R@1"]) == (found[0], max(found))


@pytest.mark.slow
# --------------------------------------------------------------------------- interruptions
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


@pytest.mark.parametrize(
    ("name", "changes", "told"),
    [
        ("small", {"overlap": {"objective": "nope"}}, "nope"),
        ("small", {"overlap": {"objective_settings": {"temperatur": 1}}}, "temperatur"),
        (
            "blink/zeshel-base-hard",
            {"again": {"transformation": {"layer": 9}}},
            "after layer 9, and the model has 2",
        ),
        (
            "blink/zeshel-base-hard",
            {"again": {"sampler": "adaptive_mixup_hard"}},
            "among the golds of the batch",
        ),
    ],
)
def test_what_a_later_stage_cannot_work_with_is_refused_before_the_first(
    run: Run, base: Path, tmp_path: Path, name: str, changes: dict[str, Any], told: str
) -> None:
    with pytest.raises(KglinkError, match=told):
        run(tmp_path / "run", small(name, base, changes))
    assert not (tmp_path / "run" / "settings.json").exists()


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


def test_too_little_memory_gives_advice(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Task, "step", _hungry)
    with pytest.raises(TrainingError, match="does not fit into memory") as caught:
        run(tmp_path / "run")
    # 8 mentions, their golds and 2 negatives each: 32 texts, half of them at once.
    assert "micro_batch = 16" in caught.value.hint


def test_negatives_out_of_the_batch_are_no_texts_of_their_own(
    run: Run, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Task, "step", _hungry)
    with pytest.raises(TrainingError, match="a step of 8 with up to 16 texts does not fit") as told:
        run(tmp_path / "run", small("amh/dual-amh", base))
    assert "micro_batch = 8" in told.value.hint


@pytest.mark.parametrize(
    ("what", "told"),
    [("mine", "the search for hard negatives"), ("validate", "judging the model")],
)
def test_too_little_memory_to_search_the_pool_gives_advice(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, told: str
) -> None:
    place = "pairs.Negatives.mine" if what == "mine" else "pairs.validate"
    monkeypatch.setattr(f"kglink.training.{place}", _hungry)
    with pytest.raises(TrainingError, match=f"{told} does not fit into memory"):
        run(tmp_path / "run")


def _hungry(*_: object, **__: object) -> Done:
    raise torch.OutOfMemoryError("CUDA out of memory")


# -------------------------------------------------------------------------------- choosing
@pytest.mark.parametrize("pooling", ["mean", "tokens"])
def test_long_work_says_how_far_it_is(run: Run, base: Path, tmp_path: Path, pooling: str) -> None:
    scorer = "sum_of_max" if pooling == "tokens" else "mean"
    given = small("small", base, {**CHANGES, "model": {"pooling": pooling, "scorer": scorer}})
    counted = gone_through(run, tmp_path / "run", given)
    facts = json.loads((tmp_path / "run" / "data" / "data.json").read_text())
    entities = sum(kb["stop"] - kb["start"] for kb in facts["kbs"])
    # Encoded before the first epoch and after both; two epochs are mined for, the second one
    # with what the first one was judged by.
    assert counted["encoding the pool"] == [(entities, entities)] * 3
    assert len(counted["mining negatives of T"]) == 2
    assert len(counted["judging by mentions"]) == 3
    assert all(done == of > 0 for counts in counted.values() for done, of in counts)


@pytest.mark.parametrize("pooling", ["mean", "tokens"])
def test_nothing_but_facts_of_the_data_is_left(
    run: Run, base: Path, tmp_path: Path, pooling: str
) -> None:
    scorer = "sum_of_max" if pooling == "tokens" else "mean"
    changes = {**CHANGES, "model": {"pooling": pooling, "scorer": scorer}}
    report = run(tmp_path / "run", small("small", base, changes))
    assert [path.name for path in (report.folder / "data").iterdir()] == ["data.json"]
    assert not (report.folder / "best.safetensors").exists()


def test_training_stops_when_nothing_gets_better(
    run: Run, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kglink.training.validation import Recalls

    figures = iter([0.2, 0.5, 0.4, 0.3, 0.9])
    monkeypatch.setattr(Recalls, "chosen", lambda *_: next(figures))
    changes = {"train": {"epochs": 9, "sampler": "in_batch", "columns": "in_batch", "negatives": 0}}
    given = small("small", base, {**changes, "selection": {"patience": 2}})
    news: list[News] = []
    best: list[dict[str, torch.Tensor]] = []

    def keep(one: News) -> None:
        news.append(one)
        if isinstance(one, EpochNews) and one.is_best:
            best.append(load_file(tmp_path / "run" / "best.safetensors"))

    report = run(tmp_path / "run", given, sources="T", progress=keep)
    kept = load_file(report.model / "encoder" / "model.safetensors")
    for name, value in kept.items():
        assert value.equal(best[1][f"mention.{name}"])
    assert any(not value.equal(best[0][f"mention.{name}"]) for name, value in kept.items())
    assert report.stages == ({"name": "T", "epochs": 4, "kept": 2, "figure": 0.5},)
    second = [line for line in curve(report.folder) if "mean" in line][2]
    assert second["epoch"] == 2
    assert report.recalls == {key: second[key] for key in report.recalls or ()}
    epochs = [one.is_best for one in news if isinstance(one, EpochNews) and one.epoch]
    assert epochs == [True, True, False, False]


# --------------------------------------------------------------------------------- refusals
@pytest.mark.parametrize(("keep", "kept"), [("last", 3), ("best", 2)])
def test_stage_o_keeps_its_last_epoch_or_the_best(
    run: Run,
    base: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    keep: str,
    kept: int,
) -> None:
    from kglink.training.validation import Recalls

    figures = iter([0.4, 0.6, 0.5])
    monkeypatch.setattr(Recalls, "chosen", lambda *_: next(figures))
    given = small("small", base, {"overlap": {"epochs": 3, "keep": keep}})
    report = run(tmp_path / "run", given, sources="O")
    assert report.stages[0]["kept"] == kept
    assert report.recalls is not None


def test_what_cannot_be_trained_is_said_in_words(
    run: Run, store: Store, base: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="stage S: there are no annotated mentions of docs"):
        run(tmp_path / "a", source_kbs=["docs"], sources="S", target_kbs=())
    with pytest.raises(
        UsageError, match="stage O: needs two accepted overlaps of docs and saga, and has 0"
    ):
        run(tmp_path / "b", source_kbs=["docs"], sources="TO")
    with pytest.raises(UnknownNameError, match="Did you mean 'saga'"):
        run(tmp_path / "c", target_kbs=["sagas"])
    with pytest.raises(UsageError, match="unknown sources 'TX'"):
        run(tmp_path / "d", sources="TX")
    with pytest.raises(UsageError, match="need a source KB"):
        run(tmp_path / "e", sources="S", source_kbs=())
    with pytest.raises(UsageError, match="is named twice"):
        run(tmp_path / "f", source_kbs=["saga"])
    gpt = tmp_path / "gpt"
    write_world_model(gpt, world_of())
    config = json.loads((gpt / "config.json").read_text()) | {"model_type": "gpt2"}
    (gpt / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match="towers are encoders like BERT"):
        run(tmp_path / "g", small("small", gpt))


def test_a_kb_without_descriptions_is_told_of(url: str, base: Path, tmp_path: Path) -> None:
    from store_support import entity, job

    notes: list[str] = []

    def tell(news: News) -> None:
        if isinstance(news, Note):
            notes.append(news.text)

    with Store.open(f"sqlite:///{tmp_path}/kglink.db") as store:
        for kb in ("left", "right"):
            store.ingest(job(kb, fingerprint=kb), [entity(f"{n}") for n in range(3)])
        from kglink.records import EntityId, Overlap

        pairs = [Overlap(EntityId("left", k), EntityId("right", k), 1.0) for k in "012"]
        store.save_overlaps("left", "right", pairs)
        given = FinetuneJob(["left"], ["right"], "O", recipe=small("small", base), **ON_ONE_CORE)
        report = train(store, load_registry(), given, tmp_path / "run", progress=tell)
    assert any("left: none of its 3 entities has a description" in note for note in notes)
    assert any("the last epoch is kept" in note for note in notes)
    assert report.recalls is None
    assert set(notes) >= set(report.notes)


@pytest.mark.slow
# ------------------------------------------------------------------------ several processes
@pytest.mark.parametrize(
    ("processes", "batch"), [(2, 8), pytest.param(3, 2, marks=pytest.mark.slow)]
)
def test_several_processes_have_the_losses_of_one(
    url: str, run: Run, tmp_path: Path, processes: int, batch: int
) -> None:
    """With a batch of two one of three processes has no mention of it, or no entity."""
    smooth = write_world_model(tmp_path / "smooth", world_of(), dropout=0.0)
    changes = {
        **CHANGES["train"],
        "micro_batch": 9,
        "batch": batch,
        "epochs": 2 if batch == 8 else 1,
    }
    given = small("small", smooth, {**CHANGES, "train": changes, "overlap": {"epochs": 1}})
    told = tmp_path / "recipe.json"
    told.write_text(given.model_dump_json())
    one = run(tmp_path / "one", given)
    torchrun = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={processes}"]
    child = [str(SUPPORT / "training_child.py"), url, str(tmp_path / "two"), str(told)]
    done = subprocess.run(
        [*torchrun, "--standalone", *child], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    single, double = curve(one.folder), curve(tmp_path / "two")
    assert [line["total"] for line in double] == [line["total"] for line in single]
    losses = [[line["loss"] for line in lines if "loss" in line] for lines in (single, double)]
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    recalls = [[line["mean"] for line in lines if "mean" in line] for lines in (single, double)]
    assert recalls[1] == recalls[0]
