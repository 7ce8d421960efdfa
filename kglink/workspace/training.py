"""Fine-tuning: a run, what runs there are, and the recipes for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kglink.training.job import Tell
    from kglink.training.loop import Pace
    from kglink.training.recipe import Recipe, RecipeInfo
    from kglink.workspace.finetune import Finetuned
    from kglink.workspace.opened import Opened
    from kglink.workspace.runs import WorkspaceRun


def finetune(
    opened: Opened,
    *,
    recipe: Recipe | str | Path | None = None,
    sources: str = "",
    source_kbs: Sequence[str] = (),
    target_kbs: Sequence[str] = (),
    docs: Sequence[str] = (),
    changes: Mapping[str, object] | None = None,
    run: str = "",
    resume: bool = False,
    space: str = "",
    publish: bool = True,
    pace: Pace | None = None,
    progress: Tell = lambda _: None,
) -> Finetuned:
    """Learn from mentions of the source KBs (S), the target KBs (T), their overlaps (O).

    The run ``run`` (of none, one is named after the recipe) leaves a model, and ``space`` is
    built with it and published. ``resume`` goes on with the run, or with the last that did not
    come to its end. ``changes`` are values of the recipe that differ, nested as in its file.
    ``progress`` is told of every step, and what the training reports of itself.
    """
    from kglink.training.loop import Pace
    from kglink.workspace.finetune import Learning, finetune

    return finetune(
        opened,
        Learning(recipe, sources, source_kbs, target_kbs, docs, changes),
        run=run,
        resume=resume,
        space=space,
        publish=publish,
        pace=pace or Pace(),
        progress=progress,
    )


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


def recipes(_: Opened) -> list[RecipeInfo]:
    """All recipes for `finetune`."""
    from kglink.training.recipe import list_recipes

    return list_recipes()


def recipe(_: Opened, name: str) -> Recipe:
    """One recipe, by its name or as a .toml file, with every value that it has."""
    from kglink.training.recipe import load_recipe

    return load_recipe(name)
