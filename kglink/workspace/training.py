"""Making models: runs of fine-tuning and what becomes of them, recipes, and static models."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from pydantic import TypeAdapter

from kglink.arrays import FloatArray
from kglink.errors import SpaceError, TrainingError, UnknownNameError, UsageError
from kglink.files.atomic import write_atomically
from kglink.models.static_folder import STATIC, write_static
from kglink.records import OnProgress
from kglink.shown import Shown, ShownList
from kglink.space.folder import SpaceFolder, build_command, space_names
from kglink.space.index import share_version
from kglink.space.manifest import RowKind
from kglink.space.space import Space
from kglink.store import Store
from kglink.text.entity_text import entity_text
from kglink.training.recipe import Recipe
from kglink.training.recipe_files import RecipeInfo, list_recipes, load_recipe
from kglink.training.run import MODEL, SETTINGS, Curve, RunInfo, alone, list_runs, read_run
from kglink.workspace.folder import RUNS_FOLDER, SPACES_FOLDER
from kglink.workspace.opened import Opened
from kglink.workspace.spaces import folder_of

if TYPE_CHECKING:
    from kglink.training.distil import Distilled

_DESTINATION = "space.json"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")

State = Literal["running", "stopped", "trained", "unpublished", "done"]


class Compared(NamedTuple):
    """Two KBs whose overlaps were found for a run."""

    left: str
    right: str
    finished_at: str = ""
    """When that search ended: a later one is no longer the run's."""


@dataclass(frozen=True, slots=True)
class Destination:
    """The space that a run's model is for; ``space`` is empty where it is for none yet."""

    space: str = ""
    published: bool = False
    refused: bool = False
    """Whether the space answers no better with the model than without, or nobody can tell."""
    compared: tuple[Compared, ...] = ()
    """The KBs whose overlaps were found for the run; where it is refused they are taken back."""

    @classmethod
    def reached(cls, space: str, refused: str) -> Destination:
        """Where the model came to, unless it was ``refused`` for some reason."""
        return cls(space, published=not refused, refused=bool(refused))


@dataclass(frozen=True, slots=True)
class WorkspaceRun(Shown):
    """A run, and where its model is."""

    info: RunInfo
    destination: Destination
    spaces: tuple[str, ...]
    """The spaces that were made with its model."""

    @property
    def curve(self) -> Curve:
        """Its losses and recalls, step by step."""
        return Curve(self.info.folder)

    @property
    def state(self) -> State:
        """``running`` now, ``stopped`` before its end, ``trained`` but not published yet, done.

        ``unpublished``: done, and its space was not published because it answers no better.
        """
        if self.info.busy:
            return "running"
        if not self.info.done:
            return "stopped"
        if self.destination.refused:
            return "unpublished"
        return "trained" if self.destination.space and not self.destination.published else "done"

    def as_json(self) -> dict[str, Any]:
        """A plain dictionary for machine-readable output."""
        return {**self.info.as_json(), "state": self.state, "spaces": list(self.spaces)}

    def whole_as_json(self) -> dict[str, Any]:
        """The run with all its settings, and its curve."""
        ran_with = self.info.settings
        settings = {
            "recipe": ran_with.recipe.model_dump(mode="json"),
            "docs": list(ran_with.docs),
            "hardware": asdict(ran_with.hardware),
            "processes": ran_with.processes,
            "libraries": ran_with.libraries,
        }
        return {**self.as_json(), "settings": settings, "curve": self.curve.lines()}


def run_folder(opened: Opened, name: str) -> Path:
    """The folder of a run, which may not be there yet."""
    if not _NAME.fullmatch(str(name)):
        raise UsageError(
            f"{name!r} cannot be the name of a run",
            hint="Letters, digits, dots, dashes and underscores, at most 100 of them.",
        )
    return opened.folder / RUNS_FOLDER / str(name)


def read_destination(run: Path) -> Destination:
    """The space that a run's model is for."""
    path = run / _DESTINATION
    if not path.is_file():
        return Destination()
    try:
        return TypeAdapter(Destination).validate_json(path.read_bytes())
    except ValueError as error:
        raise TrainingError(
            f"{path}: is not what a run writes",
            hint=f"Delete it, and name the space: `kglink finetune --resume --run {run.name} "
            "--space SPACE`.",
        ) from error


def write_destination(run: Path, destination: Destination) -> None:
    """Remember the space that a run's model is for, and whether it came there."""
    run.mkdir(parents=True, exist_ok=True)
    write_atomically(run / _DESTINATION, json.dumps(asdict(destination)))


def _described(opened: Opened, infos: Iterable[RunInfo]) -> list[WorkspaceRun]:
    used: dict[str, list[str]] = {}
    root = opened.folder / SPACES_FOLDER
    for name in space_names(root):
        if model := SpaceFolder(root, name).model():
            used.setdefault(model.path, []).append(name)
    found = []
    for one in infos:
        spaces = used.get(f"{RUNS_FOLDER}/{one.name}/{MODEL}", ())
        found.append(WorkspaceRun(one, read_destination(one.folder), tuple(spaces)))
    return found


# --------------------------------------------------------------------------------------- verbs
def runs(opened: Opened) -> list[WorkspaceRun]:
    """All runs of fine-tuning, the oldest first."""
    return ShownList(_described(opened, list_runs(opened.folder / RUNS_FOLDER)))


def run(opened: Opened, name: str) -> WorkspaceRun:
    """One run, with its curve."""
    folder = run_folder(opened, name)
    if not (folder / SETTINGS).is_file():
        raise UnknownNameError("run", name, [one.name for one in list_runs(folder.parent)])
    return _described(opened, [read_run(folder)])[0]


def check_run_deletable(opened: Opened, name: str) -> None:
    """Refuse a run that is in progress, or whose model a space needs."""
    found = run(opened, name)
    if found.spaces:
        raise UsageError(
            f"run {name!r}: space {' and '.join(found.spaces)} cannot do without its model",
            hint="Build the space with another model first "
            f"(`{build_command(found.spaces[0])} --model NAME`), or delete the space.",
        )
    if found.info.busy:
        raise UsageError(f"run {name!r} is in progress", hint="Wait for it, or stop it.")


def delete_run(opened: Opened, name: str) -> None:
    """Remove a run with its model, unless it is in progress or a space needs the model."""
    check_run_deletable(opened, name)
    folder = run_folder(opened, name)
    with alone(folder):
        # Without its settings it is no run: a removal that is cut short leaves none.
        (folder / SETTINGS).unlink()
        shutil.rmtree(folder)


def recipes(_: Opened, *, paper: str = "", table: str = "") -> list[RecipeInfo]:
    """All recipes for `finetune`, or those of one paper or table."""
    return list_recipes(paper, table)


def recipe(_: Opened, name: str) -> Recipe:
    """One recipe with all its values, by its name or as a .toml file."""
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
    """Make a space ``into`` with a fast static model; it shares all vectors of the space.

    The static model learns to imitate the vectors of the entities' names and texts. The same space
    gives the same bytes.
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
    with space.folder.writing():
        pass  # what may not be written is told before the work
    student = distilled(
        teacher,
        tokenizer_files(teacher.source)["tokenizer.json"],
        lambda: _taught(space, opened.store, "alias"),
        lambda: _taught(space, opened.store, "text"),
        progress=progress,
    )
    with space.folder.writing(), folder.writing():
        if space.folder.published_manifest().model.fingerprint != teacher.info.fingerprint:
            raise SpaceError(
                f"space {space.folder.name!r} has got another model meanwhile",
                hint="Run the command again.",
            )
        taught_by = replace(teacher.source, fingerprint=teacher.info.fingerprint)
        write_static(folder.student, student.table, student.tokenizer, taught_by)
        share_version(folder, space.folder)
    return DistilledSpace(into, student)


def export_model(opened: Opened, folder: str | Path) -> list[str]:
    """Write the trained towers and reranker of the space for sentence-transformers.

    Each is a folder in ``folder``, which must not exist; returns their names.
    ``SentenceTransformer`` and ``CrossEncoder`` open them with the same vectors and scores.
    """
    from kglink.models import sentence_export

    folder_of(opened, opened.settings.space.name)  # refuses one that is not there
    joint = opened.joint_space
    return sentence_export.export_model(joint.encoder.source, Path(folder), joint.folder.reranker)


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
