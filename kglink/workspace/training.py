"""Fine-tuning: a run, what runs there are, and the recipes for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kglink.shown import ShownList

if TYPE_CHECKING:
    from kglink.training.job import FinetuneJob, Tell
    from kglink.training.recipe import Recipe, RecipeInfo
    from kglink.workspace.finetune import Finetuned
    from kglink.workspace.opened import Opened
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

    return ShownList(Runs(opened.folder).all())


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
