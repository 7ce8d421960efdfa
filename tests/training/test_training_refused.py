"""What cannot be trained is said in words: stages, KBs, models, and too little memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from kglink.errors import (
    KglinkError,
    ModelError,
    PluginError,
    TrainingError,
    UnknownNameError,
    UsageError,
)
from kglink.plugins import load_registry
from kglink.store import Store
from kglink.training import Recipe
from kglink.training.job import FinetuneJob, News, Note
from kglink.training.loop import Done, Task
from kglink.training.train import train
from training_runs import CHANGES, ON_ONE_CORE, Run, runner
from training_world import fill, small, world_of, write_world_model


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


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"what": "linkers"}, "unknown what = 'linkers'"),
        ({"checkpoint_steps": 0}, "checkpoint_steps and curve_steps are at least 1"),
        ({"curve_steps": 0}, "checkpoint_steps and curve_steps are at least 1"),
        ({"checkpoint_steps": None}, "checkpoint_steps and curve_steps are at least 1"),
    ],
)
def test_a_job_that_would_end_amid_its_work_is_refused(given: Any, told: str) -> None:
    with pytest.raises(UsageError, match=told) as caught:
        FinetuneJob(**given)
    assert caught.value.hint


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


@pytest.mark.parametrize(
    ("method", "answer", "told"),
    [
        ("samplers.mixed.MixedP.sample", np.zeros((1, 40), int), "of the shape"),
        ("samplers.mixed.MixedP.sample", None, "gave object numbers"),
        (
            "samplers.mixed.MixedP.sample",
            lambda _, pool, batch, k, rng: np.full((len(batch.gold), k), len(pool)),
            "drew rows 80 to 80 of 80|drew rows 40 to 40 of 40",
        ),
        (
            "samplers.mixed.MixedP.sample",
            lambda _, pool, batch, k, rng: np.array([[*gold] * k for gold in batch.gold]),
            "which is forbidden for mention 0",
        ),
        (
            "scorers.DualScorer.score",
            torch.zeros(3),
            r"scorers\.DualScorer gave scores of the shape",
        ),
        ("scorers.DualScorer.score", None, r"scorers\.DualScorer failed with TypeError"),
        (
            "scorers.DualScorer.score",
            lambda _, mentions, entities: np.zeros((len(mentions.states), len(entities.states))),
            "scores are a tensor, not of the type ndarray",
        ),
        (
            "scorers.DualScorer.score",
            lambda _, mentions, entities: torch.zeros(len(mentions.states), len(entities.states)),
            r"scorers\.DualScorer gave scores without a gradient",
        ),
        ("objectives.Nce.loss", torch.zeros(2), "objective 'nce' gave a loss of the shape"),
        ("objectives.Nce.loss", torch.zeros(()), "objective 'nce' gave a loss without a gradient"),
        ("objectives.Nce.loss", 0.5, "objective 'nce' gave a loss of the type float"),
        (
            "objectives.Nce.loss",
            lambda _, scores, positive: scores.logsumexp(1).sum() + scores.zero_().sum(),
            "the scorer or the objective changes in place what it is given",
        ),
    ],
)
def test_a_broken_plugin_is_named(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, answer: Any, told: str
) -> None:
    broken = answer if callable(answer) else lambda *_: answer
    monkeypatch.setattr(f"kglink_plugins.{method}", broken)
    with pytest.raises(PluginError, match=told):
        run(tmp_path / "run")


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
