"""A workspace with a synthetic world, a tiny plain encoder, and towers as if trained."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bi_encoders import make, shake
from kglink.models import Encoder
from kglink.models.settings import InputSettings
from kglink.records import Document, Entity, EntityId, MentionInText
from kglink.workspace import Workspace, init_workspace
from training_world import fill, world_of, write_world_model

WORLD_KBS = ("atlas", "saga")
INPUTS = InputSettings(mention_tokens=24, entity_tokens=20)
FloatArray = npt.NDArray[np.float32]


def make_workspace(folder: Path) -> Path:
    """KBs and documents, nothing built; beside it a plain encoder in ``FOLDER-plain``."""
    world = world_of()
    init_workspace(folder)
    fill(f"sqlite:///{folder}/kglink.db", world).close()
    write_world_model(plain_of(folder), world)
    return folder


def copied(master: Path, folder: Path) -> Path:
    """A workspace of one's own, with the plain encoder beside it."""
    shutil.copytree(plain_of(master), plain_of(folder))
    shutil.copytree(master, folder)
    return folder


def plain_of(folder: Path) -> Path:
    """The plain encoder of a workspace, which lies outside of it."""
    return folder.with_name(f"{folder.name}-plain")


def add_run(folder: Path, name: str, *, by: float = 0.05, **settings: Any) -> str:
    """Save towers with shaken weights where a run leaves its model; returns the path."""
    model = make(plain_of(folder), **{"inputs": INPUTS, **settings})
    shake(model, by).save(folder / "runs" / name / "model")
    return f"runs/{name}/model"


def opened(folder: Path, **flags: object) -> Workspace:
    """The workspace, with settings as ``section__key``, on one device in fp32."""
    own = {name.replace("__", "."): value for name, value in flags.items()}
    return Workspace.open(folder, flags={"encoder.device": "cpu", **own})


def towers(workspace: Workspace) -> Encoder:
    """The loaded towers of the workspace's space."""
    assert workspace.encoder.trained
    return workspace.encoder


def entities_of(workspace: Workspace, kb: str) -> list[Entity]:
    """The entities of a KB in the order of their keys."""
    return list(workspace.store.entities(kb))


def documents_of(workspace: Workspace) -> list[Document]:
    """All documents."""
    return list(workspace.store.documents("docs"))


def judged(documents: list[Document]) -> list[tuple[MentionInText, frozenset[EntityId]]]:
    """The mentions with their golds."""
    return [
        (MentionInText(one.text, mention.start, mention.end), frozenset(mention.gold))
        for one in documents
        for mention in one.mentions
        if mention.gold
    ]
