"""What the tests of `kglink finetune` share: small settings, and what a run left."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from conftest import Ran

from kglink.models.model_folder import TRAINED

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


def base_of(folder: Path) -> dict[str, object]:
    return {"model.base": folder / "tiny"}


def options(folder: Path, **more: object) -> list[str]:
    changes = {**base_of(folder), **SMALL, **more}
    pairs = (("--set", f"{key}={value}") for key, value in changes.items())
    return [word for pair in pairs for word in pair]


def fingerprint(folder: Path, run: str = "default-1") -> dict[str, str]:
    return TRAINED.read(folder / "runs" / run / "model").files
