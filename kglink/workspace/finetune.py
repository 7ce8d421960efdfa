"""From KBs, documents and overlaps to a space with a model of its own: train, build, fit."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kglink.errors import KglinkError, UsageError
from kglink.records import OnProgress
from kglink.training.documents import held_back_documents
from kglink.training.job import Tell
from kglink.training.loop import Pace
from kglink.training.processes import Team, leave
from kglink.training.recipe import DEFAULT_RECIPE, Recipe, chosen_recipe
from kglink.training.run import SETTINGS, TrainingReport, alone, is_busy, read_settings
from kglink.training.stages import default_sources, read_sources
from kglink.training.train import Where, train
from kglink.workspace.build import build
from kglink.workspace.encoder import AUTO
from kglink.workspace.link import fit_scoring
from kglink.workspace.overlaps import find_overlaps
from kglink.workspace.runs import Destination, Runs, stem_of

if TYPE_CHECKING:
    from kglink.linking.scoring import Scoring
    from kglink.space.build import BuildReport
    from kglink.workspace.opened import Opened


@dataclass(frozen=True, slots=True)
class Finetuned:
    """What `Workspace.finetune` did; ``build`` is None where nothing was published."""

    report: TrainingReport
    build: BuildReport | None = None
    scoring: Scoring | None = None
    """How evidence is weighed in the space; None where no mentions were held back to learn it."""

    @property
    def before(self) -> Mapping[str, Any] | None:
        """Recall on the mentions held back, of the model that the run began with."""
        return self.report.before

    @property
    def after(self) -> Mapping[str, Any] | None:
        """The same of the model that it made."""
        return self.report.recalls


@dataclass(frozen=True, slots=True)
class Learning:
    """What is to be learnt; empty values are the recipe's, or all that there is."""

    recipe: Recipe | str | Path | None = None
    sources: str = ""
    source_kbs: Sequence[str] = ()
    target_kbs: Sequence[str] = ()
    docs: Sequence[str] = ()
    changes: Mapping[str, Any] | None = None

    @property
    def needs_overlaps(self) -> bool:
        """Whether stage O is among the stages."""
        recipe = chosen_recipe(self.recipe or DEFAULT_RECIPE, self.changes)
        sources = self.sources or recipe.sources
        return "O" in read_sources(sources or default_sources(self.source_kbs, self.target_kbs))


def finetune(
    workspace: Opened,
    learning: Learning,
    *,
    run: str = "",
    resume: bool = False,
    space: str = "",
    publish: bool = True,
    pace: Pace = Pace(),  # noqa: B008 - frozen
    progress: Tell = lambda _: None,
) -> Finetuned:
    """Train in ``runs/RUN``, and publish a space with the model that came of it.

    Where ``space`` is not named it is the one that the run was begun for, else the workspace's.
    Under torchrun every process calls this; the first one alone searches, writes and publishes.
    """
    runs = Runs(workspace.folder)
    encoder = workspace.settings.encoder
    where = Where(encoder.device, encoder.precision)
    if publish:
        _check_destination(workspace, space, resume=resume)
    try:
        team = Team(where.device)
        name = _name(runs, learning, run, team, resume=resume)
        if team.is_first and not resume:
            planned = (space or workspace.settings.space.name) if publish else ""
            _begin(workspace, runs, name, learning, progress, planned)
        team.wait()
        with _nothing_left_of_a_refusal(runs.path(name)) if team.is_first else nullcontext():
            report = train(
                *(workspace.store, learning.recipe, learning.sources),
                *(learning.source_kbs, learning.target_kbs, runs.path(name)),
                registry=workspace.registry,
                docs=learning.docs,
                changes=learning.changes,
                resume=resume,
                where=where,
                pace=pace,
                progress=progress,
            )
        if not team.is_first or not publish:
            return Finetuned(report)
    finally:
        leave()
    with alone(report.folder):
        return _published(workspace, runs, report, space, progress)


def _check_destination(workspace: Opened, space: str, *, resume: bool) -> None:
    """Refuse what could not be published, before hours of training."""
    model = workspace.settings.encoder.model
    if model != AUTO and not resume:
        origin = workspace.resolved.origins.get("encoder.model", "settings")
        raise UsageError(
            f"encoder.model is set to {model!r} ({origin}), and a run has a model of its own",
            hint="Take the setting back: without it each space goes on with its own model. "
            "--no-publish trains a model alone, and model.base says where it begins.",
        )
    if space:
        workspace.with_settings({"space.name": space})


def _name(runs: Runs, learning: Learning, run: str, team: Team, *, resume: bool) -> str:
    """The run that is meant: the same one in all processes."""
    if run:
        runs.path(run)
        return run
    if resume:
        # One process looks: it would see those that the others are just looking at as busy.
        if last := team.told(runs.last_unfinished() if team.is_first else None):
            return last
        raise UsageError(
            "there is no run to go on with",
            hint="`kglink runs` lists all of them; without --resume a new one begins.",
        )
    stem = stem_of(learning.recipe)
    number = team.agree([runs.free_number(stem)] if team.is_first else None, 1)
    return f"{stem}-{number[0]:.0f}"


def _begin(
    workspace: Opened,
    runs: Runs,
    name: str,
    learning: Learning,
    progress: Tell,
    space: str,
) -> None:
    """Find the overlaps that are to be learnt from, and note where the model will go."""
    if (runs.path(name) / SETTINGS).is_file():
        return  # `train` says that there is a run already
    if learning.needs_overlaps:
        _find_missing_overlaps(workspace, learning, progress)
    runs.set_destination(name, Destination(space))


@contextmanager
def _nothing_left_of_a_refusal(folder: Path) -> Iterator[None]:
    """Remove the folder of a run that was refused before it began."""
    try:
        yield
    except KglinkError:
        if not (folder / SETTINGS).is_file() and not is_busy(folder):
            shutil.rmtree(folder, ignore_errors=True)
        raise


def _find_missing_overlaps(workspace: Opened, learning: Learning, progress: OnProgress) -> None:
    """Compare the KBs that nobody has compared yet."""
    store = workspace.store
    for kb in chain(learning.source_kbs, learning.target_kbs):
        store.kb(kb)
    searched = {frozenset((run.left, run.right)) for run in store.overlap_runs()}
    for left, right in product(learning.source_kbs, learning.target_kbs):
        known = left == right or frozenset((left, right)) in searched
        if not known and next(store.overlaps(left, right), None) is None:
            find_overlaps(workspace, left, right, progress=progress)


def _published(
    workspace: Opened, runs: Runs, report: TrainingReport, space: str, progress: Tell
) -> Finetuned:
    """Build the space that the run is for with its model, and fit its scoring."""
    name = report.folder.name
    space = space or runs.destination(name).space or workspace.settings.space.name
    target = workspace.with_settings({"space.name": space})
    try:
        built = build(target, model=str(report.model), progress=progress)
        scoring = None
        if report.recalls is not None:  # else nothing was held back to learn it from
            told = read_settings(report.folder)
            selection, seed = told.recipe.selection, told.recipe.seed
            documents = held_back_documents(target.store, told.docs, selection, seed)
            scoring = fit_scoring(target, documents, progress=progress)
        runs.set_destination(name, Destination(space, published=True))
        return Finetuned(report, built, scoring)
    finally:
        if target is not workspace:
            target.close()
