"""`train`: from KBs, documents and overlaps of a store to the folder of a fine-tuned model."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from kglink.errors import TrainingError, UsageError
from kglink.models.bi_encoder import BiEncoder, load_bi_encoder
from kglink.models.hardware import Hardware, Precision, choose_hardware, usable_cores
from kglink.plugins import Registry
from kglink.store import Store
from kglink.training.checkpoint import Checkpoints
from kglink.training.data import KBChoice, TrainingData, prepare
from kglink.training.job import News, Note, Planned, Tell
from kglink.training.loop import Loop, Pace
from kglink.training.processes import Team, leave
from kglink.training.recipe import DEFAULT_RECIPE, Recipe, chosen_recipe
from kglink.training.run import (
    CHECKPOINTS,
    DATA,
    DATA_FACTS,
    MODEL,
    REPORT,
    SETTINGS,
    Curve,
    RunSettings,
    TrainingReport,
    alone,
    read_report,
    read_settings,
    recalls_of_epoch,
    run_settings,
    write_report,
    write_settings,
)
from kglink.training.stages import (
    Stage,
    choose_kbs,
    default_sources,
    make_plan,
    read_sources,
    warnings_of,
)
from kglink.training.step import Tools, check_sections


@dataclass(frozen=True, slots=True)
class Where:
    """What a run computes on; ``threads`` of 0 are all cores, shared by its processes."""

    device: str = "auto"
    precision: Precision = "auto"
    threads: int = 0


def train(
    store: Store,
    recipe: Recipe | str | Path | None = None,
    sources: str = "",
    source_kbs: Sequence[str] = (),
    target_kbs: Sequence[str] = (),
    folder: Path | str = Path("runs/run"),
    *,
    registry: Registry,
    docs: Sequence[str] = (),
    changes: Mapping[str, Any] | None = None,
    resume: bool = False,
    where: Where = Where(),
    pace: Pace = Pace(),  # noqa: B008 - frozen
    progress: Tell = lambda news: None,
) -> TrainingReport:
    """Fine-tune a model so that entities of these KBs, and mentions of them, share one space.

    ``sources`` are the stages: any of S, T, O, TS, TO, SO, TOS; none named: those of the recipe,
    else all that the KBs allow. ``docs`` names the KBs whose documents are learnt from; none: all.
    ``changes`` are values of the recipe that differ, nested as in its file.
    With ``resume`` the run in ``folder`` goes on as it was told when it began; what is given again
    must be the same. Under torchrun all processes call this with the same arguments.
    """
    team = Team(where.device)
    run = _Run(store, registry, Path(folder), team, progress if team.is_first else _say_nothing)
    try:
        with alone(Path(folder)) if team.is_first else contextlib.nullcontext():
            if resume:
                told = run.told_before()
                _check_same(told, recipe, changes, sources, source_kbs, target_kbs, docs)
                if report := read_report(run.folder):
                    run.clear()
                    return report
                run.check_processes(told)
            else:
                told = run.told_now(recipe, changes, sources, source_kbs, target_kbs, docs, where)
            return run.train(told, pace, resume=resume)
    finally:
        leave()


class _Run:
    """One process of a run."""

    def __init__(
        self, store: Store, registry: Registry, folder: Path, team: Team, tell: Tell
    ) -> None:
        self.folder = folder
        self._store = store
        self._registry = registry
        self._team = team
        self._notes: list[str] = []
        self._tell = tell

    def told_before(self) -> RunSettings:
        """What the run was told when it began."""
        return read_settings(self.folder)

    def check_processes(self, told: RunSettings) -> None:
        """Refuse to go on with more or fewer processes: dropout would draw otherwise."""
        if told.processes != self._team.count:
            raise TrainingError(
                f"the run began with {told.processes} processes, and here are {self._team.count}",
                hint="Start it as it was started then (torchrun --nproc-per-node), "
                "or begin a new run.",
            )

    def told_now(
        self,
        recipe: Recipe | str | Path | None,
        changes: Mapping[str, Any] | None,
        sources: str,
        source_kbs: Sequence[str],
        target_kbs: Sequence[str],
        docs: Sequence[str],
        where: Where,
    ) -> RunSettings:
        """Read what a new run is told, and refuse what cannot be."""
        if (self.folder / SETTINGS).exists():
            raise UsageError(
                f"{self.folder}: there is a run already",
                hint="Go on with it (--resume), give another name, or delete the folder.",
            )
        chosen = chosen_recipe(recipe or DEFAULT_RECIPE, changes)
        name = "" if isinstance(recipe, Recipe) else str(recipe or DEFAULT_RECIPE)
        stages = read_sources(sources or chosen.sources or default_sources(source_kbs, target_kbs))
        kbs = choose_kbs(self._store, stages, source_kbs, target_kbs)
        for one in docs:
            self._store.kb(one)
        threads = where.threads or max(1, usable_cores() // self._team.count)
        device = self._team.device(where.device)
        hardware = choose_hardware(device, where.precision, threads)
        facts = dataclasses.asdict(hardware)
        return run_settings(chosen, name, stages, kbs, docs, facts, self._team.count)

    def train(self, told: RunSettings, pace: Pace, *, resume: bool) -> TrainingReport:
        """Train to the end, write the model, and say what came of it."""
        with _threads(told.hardware["threads"]):
            return self._train(told, pace, resume=resume)

    def _train(self, told: RunSettings, pace: Pace, *, resume: bool) -> TrainingReport:
        began = time.monotonic()
        hardware = Hardware(**told.hardware)
        if self._team.count > 1 and hardware.device != "cpu":
            hardware = dataclasses.replace(hardware, device=self._team.device("auto"))
        model = load_bi_encoder(
            told.recipe.model.base, settings=told.recipe.model.settings, hardware=hardware
        )
        recipe = told.recipe
        scorer = self._registry.create("scorer", recipe.model.scorer, recipe.model.scorer_settings)
        check_sections(recipe.sections(told.sources), model, self._registry)
        data = self._prepared(told, model, resume=resume)
        plan = make_plan(data, told.recipe, told.sources)
        checkpoints = Checkpoints(self.folder / CHECKPOINTS, _identity(told, model, data))
        self._begin(told, data, checkpoints, model, resume=resume)
        self._tell(_planned(plan, data, told, hardware))
        tools = Tools(model, scorer, data, self._registry, self._team, told.seed)
        selection = told.recipe.selection
        loop = Loop(tools, plan, selection, hardware, self.folder, checkpoints, pace, self._tell)
        loop.run(resume=checkpoints.exists())
        seconds = time.monotonic() - began
        if self._team.is_first:
            self._finish(told, model, loop, seconds)
        self._team.wait()
        report = read_report(self.folder)
        if report is None:
            raise TrainingError(f"{self.folder / REPORT}: is gone")
        return report

    def _prepared(self, told: RunSettings, model: BiEncoder, *, resume: bool) -> TrainingData:
        """The data of the run: what the store held when it began."""
        folder = self.folder / DATA
        if self._team.is_first and not resume:
            prepare(
                folder,
                self._store,
                told.recipe,
                KBChoice(told.source_kbs, told.target_kbs),
                model.inputs,
                docs=told.docs,
                progress=self._tell,
            )
        self._team.wait()
        return TrainingData(folder)

    def _begin(
        self,
        told: RunSettings,
        data: TrainingData,
        checkpoints: Checkpoints,
        model: BiEncoder,
        *,
        resume: bool,
    ) -> None:
        """Say what a user should know, and make a folder that can be gone on with."""
        self._notes = warnings_of(data)
        if model.inputs.added_tags:
            added = ", ".join(model.inputs.added_tags)
            self._notes.append(f"the vocabulary got rows for the tags {added}")
        for note in self._notes:
            self._tell(Note(note))
        if self._team.is_first and not resume:
            checkpoints.clear()
            write_settings(self.folder, told)
        self._team.wait()

    def _finish(self, told: RunSettings, model: BiEncoder, loop: Loop, seconds: float) -> None:
        results = [result._asdict() for result in loop.position.results]
        step = {
            "kind": "finetune",
            "run": self.folder.name,
            "recipe": told.recipe_name,
            "sources": told.sources,
            "source_kbs": list(told.source_kbs),
            "target_kbs": list(told.target_kbs),
            "seed": told.seed,
            "steps": loop.position.total,
            "stages": results,
        }
        model.history = (*model.history, step)
        model.save(self.folder / MODEL, libraries=told.libraries)
        if Curve(self.folder).draw() is None:
            self._notes.append("no picture of the curves: pip install 'kglink[plots]'")
        write_report(
            TrainingReport(
                folder=self.folder,
                model=self.folder / MODEL,
                sources=told.sources,
                steps=loop.position.total,
                seconds=round(seconds, 3),
                stages=tuple(results),
                recalls=recalls_of_epoch(self.folder, results[-1]["name"], results[-1]["kept"]),
                notes=tuple(self._notes),
                before=recalls_of_epoch(self.folder, results[0]["name"], 0),
            )
        )
        self.clear()

    def clear(self) -> None:
        """Remove what a run that is done needs no longer."""
        if not self._team.is_first:
            return
        Checkpoints(self.folder / CHECKPOINTS, {}).clear()
        for scratch in (*self.folder.glob("best.*"), *(self.folder / DATA).iterdir()):
            if scratch.is_dir():
                shutil.rmtree(scratch)
            elif scratch.name != DATA_FACTS:
                scratch.unlink()


def _check_same(
    told: RunSettings,
    recipe: Recipe | str | Path | None,
    changes: Mapping[str, Any] | None,
    sources: str,
    source_kbs: Sequence[str],
    target_kbs: Sequence[str],
    docs: Sequence[str],
) -> None:
    """Refuse to go on with something else than the run began with."""
    given: list[tuple[str, Any, Any]] = []
    if recipe is not None or changes:
        # Changes alone are of the recipe that the run has: one that changes nothing is no other.
        whole = chosen_recipe(told.recipe if recipe is None else recipe, changes)
        given.append(("recipe", _facts(whole), _facts(told.recipe)))
    if sources:
        given.append(("list of sources", read_sources(sources), told.sources))
    if source_kbs:
        given.append(("list of source KBs", tuple(source_kbs), told.source_kbs))
    if target_kbs:
        given.append(("list of target KBs", tuple(target_kbs), told.target_kbs))
    if docs:
        given.append(("list of documents", tuple(docs), told.docs))
    for what, now, before in given:
        if now != before:
            raise TrainingError(
                f"the run began with another {what}",
                hint="Leave it out to go on as the run began, or begin a new run.",
            )


def _planned(
    plan: Sequence[Stage], data: TrainingData, told: RunSettings, hardware: Hardware
) -> Planned:
    """What a user should know of the work ahead."""
    groups = {group.letter: len(group.items) for stage in plan for group in stage.groups}
    return Planned(
        base=told.recipe.model.base,
        stages=tuple((stage.name, stage.steps) for stage in plan),
        groups=tuple(groups.items()),
        valid=len(data.valid),
        device=hardware.device,
        precision=hardware.precision,
        threads=hardware.threads,
        processes=told.processes,
    )


def _facts(recipe: Recipe) -> dict[str, Any]:
    """What a recipe does, without its words about itself."""
    return recipe.model_dump(mode="json", exclude={"summary", "source", "extends"})


def _identity(told: RunSettings, model: BiEncoder, data: TrainingData) -> dict[str, str]:
    """What must be the same for a checkpoint to be gone on with."""
    return {
        "recipe": _digest(_facts(told.recipe)),
        "base model": model.base.fingerprint,
        "list of stages and KBs": _digest([told.sources, told.source_kbs, told.target_kbs]),
        "state of the data": _digest(data.fingerprints),
    }


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


@contextlib.contextmanager
def _threads(count: int) -> Iterator[None]:
    """Let torch use so many cores: with more, they wait for each other at every product."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _say_nothing(news: News) -> None:
    """What processes tell that are not the first."""
