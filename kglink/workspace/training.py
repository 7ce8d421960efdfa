"""Fine-tuning: a run, what runs there are, and the recipes for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kglink.sources import OnNote
    from kglink.training.job import FinetuneJob, Tell
    from kglink.training.recipe import Recipe, RecipeInfo
    from kglink.workspace.finetune import Finetuned
    from kglink.workspace.opened import Opened
    from kglink.workspace.reproduce import Reproduction
    from kglink.workspace.runs import WorkspaceRun


def finetune(opened: Opened, job: FinetuneJob, *, progress: Tell = lambda _: None) -> Finetuned:
    """Learn from mentions of the source KBs (S), the target KBs (T), their overlaps (O).

    The run leaves a model, with which the job's space is built and published. ``progress`` is
    told of every step, and what the training reports of itself.
    """
    from kglink.workspace.finetune import finetune

    return finetune(opened, job, progress)


def runs(opened: Opened) -> list[WorkspaceRun]:
    """All runs of fine-tuning, the oldest first."""
    from kglink.workspace.runs import Runs

    return Runs(opened.folder).all()


def run(opened: Opened, name: str) -> WorkspaceRun:
    """One run, with its curve."""
    from kglink.workspace.runs import Runs

    return Runs(opened.folder).get(name)


def check_run_deletable(opened: Opened, name: str) -> None:
    """Refuse a run that is in progress, or whose model a space needs."""
    from kglink.workspace.runs import Runs

    Runs(opened.folder).check_deletable(name)


def delete_run(opened: Opened, name: str) -> None:
    """Remove a run with its model, unless it is in progress or a space needs the model."""
    from kglink.workspace.runs import Runs

    Runs(opened.folder).delete(name)


def recipes(_: Opened, *, paper: str = "", table: str = "") -> list[RecipeInfo]:
    """All recipes for `finetune`, or those of one paper or table."""
    from kglink.training.recipe import list_recipes

    return list_recipes(paper, table)


def recipe(_: Opened, name: str) -> Recipe:
    """One recipe, by its name or as a .toml file, with every value that it has."""
    from kglink.training.recipe import load_recipe

    return load_recipe(name)


def reproduce(
    opened: Opened,
    table: str,
    data: str | Path | None = None,
    *,
    rows: Sequence[str] = (),
    seeds: int = 3,
    changes: Mapping[str, Any] | None = None,
    progress: Tell = lambda _: None,
    on_note: OnNote = lambda label, text: None,
) -> Reproduction:
    """Make a table of a paper anew, such as ``amh/table-2``: all rows or some, seed by seed.

    ``data`` is the folder of the data's release, for KBs that the workspace does not have;
    ``changes`` are values of all recipes, nested as in a recipe's file. What was run before is
    not run again.
    """
    from kglink.evaluation.protocols import find_protocol
    from kglink.workspace.reproduce import Reproducer

    asked = Reproducer(opened, find_protocol(table), tuple(rows), seeds, changes or {})
    return asked.run(None if data is None else Path(data), progress, on_note)
