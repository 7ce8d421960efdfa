"""Making models: fine-tuning, its runs and recipes, and distilling static models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from kglink.errors import SpaceError, UsageError
from kglink.models.static_folder import STATIC, write_static
from kglink.records import OnProgress
from kglink.shown import ShownList
from kglink.space.folder import SpaceFolder
from kglink.space.index import share_version
from kglink.space.manifest import RowKind
from kglink.space.space import Space
from kglink.store import Store
from kglink.text.entity_text import entity_text
from kglink.training.job import FinetuneJob, Tell
from kglink.training.recipe import Recipe, RecipeInfo, list_recipes, load_recipe
from kglink.workspace.folder import SPACES_FOLDER
from kglink.workspace.opened import Opened
from kglink.workspace.runs import Runs, WorkspaceRun

if TYPE_CHECKING:
    from kglink.training.distil import Distilled
    from kglink.workspace.finetune import Finetuned

FloatArray = npt.NDArray[np.float32]


def finetune(opened: Opened, job: FinetuneJob, *, progress: Tell = lambda _: None) -> Finetuned:
    """Learn from mentions of the source KBs (S), the target KBs (T), their overlaps (O).

    The run leaves a model, with which the job's space is built and published. ``progress`` gets
    every step, and what the training reports of itself.
    """
    from kglink.workspace.finetune import finetune

    return finetune(opened, job, progress)


def runs(opened: Opened) -> list[WorkspaceRun]:
    """All runs of fine-tuning, the oldest first."""
    return ShownList(Runs(opened.folder).all())


def run(opened: Opened, name: str) -> WorkspaceRun:
    """One run, with its curve."""
    return Runs(opened.folder).get(name)


def check_run_deletable(opened: Opened, name: str) -> None:
    """Refuse a run that is in progress, or whose model a space needs."""
    Runs(opened.folder).check_deletable(name)


def delete_run(opened: Opened, name: str) -> None:
    """Remove a run with its model, unless it is in progress or a space needs the model."""
    Runs(opened.folder).delete(name)


def recipes(_: Opened, *, paper: str = "", table: str = "") -> list[RecipeInfo]:
    """All recipes for `finetune`, or those of one paper or table."""
    return list_recipes(paper, table)


def recipe(_: Opened, name: str) -> Recipe:
    """One recipe, by its name or as a .toml file, with every value that it has."""
    return load_recipe(name)


#: Names and texts of entities that it learns from, drawn evenly from all: more change it little.
MOST: Mapping[RowKind, int] = {"alias": 100_000, "text": 20_000}
_TOGETHER = 8192


class DistilledSpace(NamedTuple):
    """A space that a static model reads for, and what that is like."""

    name: str
    student: Distilled


def distill(
    opened: Opened, into: str = "static", *, progress: OnProgress = lambda _: None
) -> DistilledSpace:
    """Make a space ``into`` for which a static model reads; it shares all vectors of the space.

    The model learns to imitate the vectors that the names and texts of the entities have: its
    tokens alone are encoded. The same space gives the same bytes.
    """
    from kglink.models.inputs import tokenizer_files
    from kglink.training.distil import distilled

    # Where the new space goes: a new name, or one that was distilled before.
    name = opened.with_settings({"space.name": into}).settings.space.name  # a checked name
    folder = SpaceFolder(opened.folder / SPACES_FOLDER, name)
    if name == opened.settings.space.name:
        raise UsageError(f"space {name!r} distilled into itself", hint="--into NAME: another one.")
    if folder.pointer is not None and not STATIC.is_there(folder.student):
        raise UsageError(
            f"there is a space {name!r} already, and it was not distilled",
            hint=f"--into another name, or `kglink spaces --delete {name}`.",
        )
    target = folder
    joint, space = opened.joint_space, opened.space()
    teacher = joint.encoder
    if teacher.trained is not None:
        raise UsageError(
            f"space {space.folder.name!r} has a trained model, which reads mentions by marks in "
            "their text: a static model cannot imitate that",
            hint="Distil a space of a plain model, such as minilm.",
        )
    if STATIC.is_there(space.folder.student):
        raise UsageError(
            f"space {space.folder.name!r} is read by a static model already",
            hint="Name the space that it was distilled from: --space NAME.",
        )
    if not joint.is_current() or space.manifest.names_alone:
        raise SpaceError(
            f"space {space.folder.name!r} is older than its KBs",
            hint=f"Run `kglink build --space {space.folder.name}` first.",
        )
    student = distilled(
        teacher,
        tokenizer_files(teacher.source)["tokenizer.json"],
        lambda: _taught(space, opened.store, "alias"),
        lambda: _taught(space, opened.store, "text"),
        progress=progress,
    )
    with space.folder.writing(), target.writing():
        if space.folder.published_manifest().model.fingerprint != teacher.info.fingerprint:
            raise SpaceError(
                f"space {space.folder.name!r} has got another model meanwhile",
                hint="Run the command again.",
            )
        taught_by = replace(teacher.source, fingerprint=teacher.info.fingerprint)
        write_static(target.student, student.table, student.tokenizer, taught_by)
        share_version(target, space.folder)
    return DistilledSpace(into, student)


def export_model(opened: Opened, folder: Path) -> list[str]:
    """Write the trained towers and reranker of the space for sentence-transformers.

    Each is a folder in ``folder``, which is new; returns their names. `SentenceTransformer` and
    `CrossEncoder` open them with the same vectors and scores.

    """
    from kglink.models import sentence_export

    joint = opened.joint_space
    return sentence_export.export_model(joint.encoder.source, folder, joint.folder.reranker)


def _taught(
    space: Space, store: Store, kind: RowKind
) -> Iterator[tuple[Sequence[str], FloatArray]]:
    """Texts with the vectors that the space has of them."""
    parts = [one for one in space.segments.values() if one.row_count(kind)]
    step = max(1, -(-sum(one.row_count(kind) for one in parts) // MOST[kind]))
    for part in parts:
        rows = np.arange(0, part.row_count(kind), step)
        # What each of these rows was encoded from.
        texts = (
            islice(part.surfaces, 0, None, step)
            if kind == "alias"
            else (
                entity_text(one.entity, description_chars=part.info.description_chars)
                for one in islice(store.folded_entities(part.kb), 0, None, step)
            )
        )
        for first in range(0, len(rows), _TOGETHER):
            some = list(islice(texts, _TOGETHER))
            yield some, part.vectors(kind, rows[first : first + _TOGETHER])
