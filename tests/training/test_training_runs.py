"""Runs: what they leave and keep, and the same losses from one seed and with several processes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from kglink.errors import RunWarning
from kglink.models import Encoder, resolve_model
from kglink.models.model_folder import TRAINED
from kglink.plugins import load_registry
from kglink.records import Entity, Progress
from kglink.store import Store
from kglink.training import Recipe
from kglink.training.job import EpochNews, FinetuneJob, News
from kglink.training.processes import Team
from kglink.training.run import TrainingReport, list_runs, read_run
from kglink.training.train import train
from training_runs import CHANGES, ON_ONE_CORE, Run, curve, runner, weights
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
    damaged = whole.folder.parent / "damaged"
    damaged.mkdir()
    (damaged / "settings.json").write_text('{"format": 1')
    with pytest.warns(RunWarning, match="left out: .*damaged"):
        assert [one.name for one in list_runs(whole.folder.parent)] == ["whole"]
    shutil.rmtree(damaged)


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


# ------------------------------------------------------------------------ several processes
@pytest.mark.slow
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


def test_a_text_is_told_to_all_processes() -> None:
    assert Team("cpu").told("default-1") == "default-1"
    assert Team("cpu").told("") == ""
