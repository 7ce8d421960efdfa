"""Small runs of training on one core, and what they left: for tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from kglink.models.model_folder import TRAINED
from kglink.plugins import load_registry
from kglink.store import Store
from kglink.training import Recipe
from kglink.training.job import FinetuneJob, Tell
from kglink.training.run import Curve, TrainingReport
from kglink.training.train import train

Run = Callable[..., TrainingReport]

ON_ONE_CORE: Any = {"device": "cpu", "precision": "fp32", "threads": 1}
#: Hard negatives, two epochs, the transformation: what a run must carry over a kill.
CHANGES: dict[str, Any] = {
    "train": {"epochs": 2, "transformation": {"layer": 1, "epsilon": 20.0}},
    "overlap": {"epochs": 2},
    "selection": {"metric": "R@8"},
}


def runner(store: Store, recipe: Recipe) -> Run:
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


def curve(folder: Path) -> list[dict[str, Any]]:
    return Curve(folder).lines()


def weights(report: TrainingReport) -> dict[str, str]:
    return TRAINED.read(report.model).files
