"""Trains: from KBs, documents and overlaps of a store to the folder of a fine-tuned model."""

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
from kglink.models.cross_encoder import open_cross_encoder
from kglink.models.hardware import Hardware, choose_hardware, usable_cores
from kglink.models.inputs import Inputs
from kglink.plugins import Registry
from kglink.store import Store
from kglink.training.checkpoint import Checkpoints
from kglink.training.data import TEACHER, KBChoice, TrainingData, prepare
from kglink.training.job import FinetuneJob, Note, Planned, Tell, read_sources
from kglink.training.loop import Loop
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
    kept_recipe,
    read_report,
    read_settings,
    recalls_of_epoch,
    write_report,
    write_settings,
)
from kglink.training.stages import Stage, check_kbs, lacking, make_plan, warnings_of
from kglink.training.step import Tools, check_sections
from kglink.training.teacher import Teacher, teacher_fingerprint
from kglink.training.validation import judged_mentions


def train(
    store: Store,
    registry: Registry,
    job: FinetuneJob,
    folder: Path,
    *,
    progress: Tell = lambda _: None,
) -> TrainingReport:
    """Fine-tune a model in ``folder`` so that entities and mentions of the KBs share one space.

    A resumed run keeps the settings that it began with. Under torchrun all processes call this
    with the same arguments.
    """
    team = Team(job.device)
    run = _Run(store, registry, job, folder, team, progress if team.is_first else lambda _: None)
    try:
        with alone(folder) if team.is_first else contextlib.nullcontext():
            settings = run.resumed_settings() if job.resume else run.new_settings()
            if job.resume and (report := read_report(folder)):
                run.clear()
                return report
            if settings.processes != team.count:  # dropout would draw otherwise
                raise TrainingError(
                    f"the run began with {settings.processes} processes, and here are {team.count}",
                    hint="Start it as it was started then (torchrun --nproc-per-node), "
                    "or begin a new run.",
                )
            with _threads(settings.hardware.threads):
                return run.train(settings)
    finally:
        leave()


@dataclass(frozen=True, slots=True)
class _Run:
    """One process of a run."""

    store: Store
    registry: Registry
    job: FinetuneJob
    folder: Path
    team: Team
    tell: Tell

    @property
    def _is_new(self) -> bool:
        """Whether this process creates the run's folder."""
        return self.team.is_first and not self.job.resume

    def new_settings(self) -> RunSettings:
        """Settings of a new run, checked."""
        if (self.folder / SETTINGS).exists():
            raise UsageError(
                f"{self.folder}: there is a run already",
                hint="Go on with it (--resume), give another name, or delete the folder.",
            )
        job = self.job
        recipe, stages = job.chosen_recipe(), job.stages()
        check_kbs(self.store, job)
        for name in job.docs:
            self.store.kb(name)
        threads = job.threads or max(1, usable_cores() // self.team.count)
        return RunSettings(
            recipe=recipe,
            recipe_name="" if isinstance(job.recipe, Recipe) else str(job.recipe or DEFAULT_RECIPE),
            sources=stages,
            source_kbs=tuple(job.source_kbs),
            target_kbs=tuple(job.target_kbs),
            docs=tuple(job.docs),
            hardware=choose_hardware(self.team.device(job.device), job.precision, threads),
            processes=self.team.count,
            detector=job.what == "all",
        )

    def resumed_settings(self) -> RunSettings:
        """Settings of the run when it began; a job that contradicts them is refused."""
        began, job = read_settings(self.folder), self.job
        given: list[tuple[str, Any, Any]] = []
        if job.recipe is not None or job.changes:
            # Changes alone are of the run's own recipe.
            whole = chosen_recipe(began.recipe if job.recipe is None else job.recipe, job.changes)
            both = [_facts(kept_recipe(one, self.folder)) for one in (whole, began.recipe)]
            given.append(("recipe", both[0], both[1]))
        if job.sources:
            given.append(("list of sources", read_sources(job.sources), began.sources))
        for what, now, before in (
            ("list of source KBs", job.source_kbs, began.source_kbs),
            ("list of target KBs", job.target_kbs, began.target_kbs),
            ("list of documents", job.docs, began.docs),
        ):
            if now:
                given.append((what, tuple(now), before))
        for what, now, before in given:
            if now != before:
                raise TrainingError(
                    f"the run began with another {what}",
                    hint="Leave it out to go on as the run began, or begin a new run.",
                )
        return began

    def train(self, settings: RunSettings) -> TrainingReport:
        """Train to the end, and write the model and the report."""
        began = time.monotonic()
        recipe, hardware = settings.recipe, settings.hardware
        if self.team.count > 1 and hardware.device != "cpu":
            hardware = dataclasses.replace(hardware, device=self.team.device("auto"))
        model = load_bi_encoder(
            recipe.model.base,
            settings=recipe.model.settings,
            hardware=hardware,
            fetch=self._is_new,
        )
        scorer = self.registry.create("scorer", recipe.model.scorer, recipe.model.scorer_settings)
        reader = open_cross_encoder(Path(recipe.teacher), hardware) if recipe.teacher else None
        check_sections(
            recipe.sections(settings.sources), model, self.registry, taught=reader is not None
        )
        data = self._data(settings, model, reader.inputs if reader else None)
        if self._is_new and not (self.job.sources or recipe.sources):
            settings = self._of_stages_with_data(settings, data)
        stages = make_plan(data, recipe, settings.sources)
        checkpoints = Checkpoints(
            self.folder / CHECKPOINTS, _identity(settings, model, data, self.folder)
        )
        notes = warnings_of(data)
        if model.inputs.added_tags:
            added = ", ".join(model.inputs.added_tags)
            notes.append(f"the vocabulary got rows for the tags {added}")
        for note in notes:
            self.tell(Note(note))
        if self._is_new:
            checkpoints.clear()
            write_settings(self.folder, settings)
        self.team.wait()
        self.tell(_planned(stages, data, settings, hardware))
        teacher = Teacher(reader, self.folder / DATA / TEACHER) if reader else None
        tools = Tools(model, scorer, data, self.registry, self.team, settings.seed, teacher)
        loop = Loop(
            tools, stages, recipe.selection, hardware, self.job, self.folder, checkpoints, self.tell
        )
        loop.run(resume=checkpoints.exists())
        if self.team.is_first:
            self._finish(settings, model, loop, notes, time.monotonic() - began)
        self.team.wait()
        report = read_report(self.folder)
        if report is None:
            raise TrainingError(f"{self.folder / REPORT}: is gone")
        return report

    def _of_stages_with_data(self, settings: RunSettings, data: TrainingData) -> RunSettings:
        """Without the stages that nobody asked for and that have nothing to learn from."""
        missing = lacking(data, settings.sources)
        rest = "".join(one for one in settings.sources if one not in missing)
        if not missing or not rest:
            return settings
        for letter, why in missing.items():
            self.tell(Note(f"stage {letter} is left out: {why}"))
        return dataclasses.replace(settings, sources=read_sources(rest))

    def _data(
        self, settings: RunSettings, model: BiEncoder, teacher: Inputs | None
    ) -> TrainingData:
        """The data of the run, as the store was when it began."""
        if self._is_new:
            kbs = KBChoice(settings.source_kbs, settings.target_kbs)
            prepare(
                *(self.folder / DATA, self.store, settings.recipe, kbs, model.inputs),
                docs=settings.docs,
                teacher=teacher,
                progress=self.tell,
            )
        self.team.wait()
        return TrainingData(self.folder / DATA)

    def _finish(
        self,
        settings: RunSettings,
        model: BiEncoder,
        loop: Loop,
        notes: list[str],
        seconds: float,
    ) -> None:
        results = [result._asdict() for result in loop.position.results]
        step = {
            "kind": "finetune",
            "run": self.folder.name,
            "recipe": settings.recipe_name,
            "sources": settings.sources,
            "source_kbs": list(settings.source_kbs),
            "target_kbs": list(settings.target_kbs),
            "seed": settings.seed,
            "steps": loop.position.total,
            "stages": results,
        }
        model.history = (*model.history, step)
        model.save(self.folder / MODEL, libraries=settings.libraries)
        if Curve(self.folder).draw() is None:
            notes.append("no picture of the curves: pip install 'kglink[plots]'")
        write_report(
            TrainingReport(
                folder=self.folder,
                model=self.folder / MODEL,
                sources=settings.sources,
                steps=loop.position.total,
                seconds=round(seconds, 3),
                stages=tuple(results),
                recalls=recalls_of_epoch(self.folder, results[-1]["name"], results[-1]["kept"]),
                notes=tuple(notes),
                before=recalls_of_epoch(self.folder, results[0]["name"], 0),
            )
        )
        self.clear()

    def clear(self) -> None:
        """Remove files that a finished run does not need."""
        if not self.team.is_first:
            return
        Checkpoints(self.folder / CHECKPOINTS, {}).clear()
        for scratch in (*self.folder.glob("best.*"), *(self.folder / DATA).iterdir()):
            if scratch.is_dir():
                shutil.rmtree(scratch)
            elif scratch.name != DATA_FACTS:
                scratch.unlink()


def _planned(
    plan: Sequence[Stage], data: TrainingData, settings: RunSettings, hardware: Hardware
) -> Planned:
    """The plan of the run."""
    groups = {group.letter: len(group.items) for stage in plan for group in stage.groups}
    return Planned(
        base=settings.recipe.model.base,
        stages=tuple((stage.name, stage.steps) for stage in plan),
        groups=tuple(groups.items()),
        valid=len(judged_mentions(data, settings.recipe.selection)),
        device=hardware.device,
        precision=hardware.precision,
        threads=hardware.threads,
        processes=settings.processes,
    )


def _facts(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """A recipe's values, without its descriptions."""
    told = ("summary", "source", "extends")
    return {key: value for key, value in recipe.items() if key not in told}


def _identity(
    settings: RunSettings, model: BiEncoder, data: TrainingData, folder: Path
) -> dict[str, str]:
    """What must be equal to resume from a checkpoint."""
    recipe = kept_recipe(settings.recipe, folder)
    teacher = teacher_fingerprint(settings.recipe.teacher)
    return {
        "recipe": _digest(_facts(recipe)),
        "base model": model.base.fingerprint,
        "list of stages and KBs": _digest(
            [settings.sources, settings.source_kbs, settings.target_kbs]
        ),
        "state of the data": _digest(data.fingerprints),
        **({"teacher": _digest(teacher)} if teacher else {}),
    }


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


@contextlib.contextmanager
def _threads(count: int) -> Iterator[None]:
    """Limit torch to so many cores: more would wait for each other in every product."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
