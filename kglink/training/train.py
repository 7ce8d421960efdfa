"""Trains: from KBs, documents and overlaps of a store to the folder of a fine-tuned model."""

from __future__ import annotations

import contextlib
import shutil
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

from kglink.errors import TrainingError
from kglink.files.digest import digest_of
from kglink.models.bi_encoder import BiEncoder, load_bi_encoder
from kglink.models.cross_encoder import open_cross_encoder
from kglink.models.hardware import choose_hardware, usable_cores
from kglink.models.head_folder import RERANKER
from kglink.plugins import Registry
from kglink.store import Store
from kglink.training.checkpoint import Checkpoints
from kglink.training.data import TEACHER, KBChoice, TrainingData, prepare
from kglink.training.job import FinetuneJob, Note, Planned, Tell, read_sources
from kglink.training.loop import BEST, Loop, threads
from kglink.training.negatives import Teacher
from kglink.training.pairs import PairTask, Tools, check_sections
from kglink.training.processes import Team, leave
from kglink.training.run import (
    CHECKPOINTS,
    DATA,
    DATA_FILE,
    MODEL,
    REPORT,
    Curve,
    RunSettings,
    TrainingReport,
    alone,
    new_settings,
    read_report,
    recalls_of_epoch,
    recipe_values,
    resumed_settings,
    write_report,
    write_settings,
)
from kglink.training.stages import check_kbs, lacking, make_plan, warnings_of
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
    tell = progress if team.is_first else lambda _: None
    try:
        with alone(folder) if team.is_first else contextlib.nullcontext():
            if job.resume:
                settings = resumed_settings(job, folder)
                if report := read_report(folder):
                    if team.is_first:
                        clear(folder)
                    return report
            else:
                cores = job.threads or max(1, usable_cores() // team.count)
                hardware = choose_hardware(team.device(job.device), job.precision, cores)
                settings = new_settings(store, job, folder, job.stages(), hardware, team.count)
                check_kbs(store, job)
            if settings.processes != team.count:  # dropout would draw otherwise
                raise TrainingError(
                    f"the run began with {settings.processes} processes, and here are {team.count}",
                    hint="Start it as it was started then (torchrun --nproc-per-node), "
                    "or begin a new run.",
                )
            with threads(settings.hardware.threads):
                return _train(store, registry, job, settings, folder, team, tell)
    finally:
        leave()


def _train(
    store: Store,
    registry: Registry,
    job: FinetuneJob,
    settings: RunSettings,
    folder: Path,
    team: Team,
    tell: Tell,
) -> TrainingReport:
    """Train to the end, and write the model and the report."""
    began = time.monotonic()
    is_new = team.is_first and not job.resume
    recipe, hardware = settings.recipe, settings.hardware
    if team.count > 1 and hardware.device != "cpu":
        hardware = replace(hardware, device=team.device("auto"))
    model = load_bi_encoder(
        recipe.model.base, settings=recipe.model.settings, hardware=hardware, fetch=not job.resume
    )
    scorer = registry.create("scorer", recipe.model.scorer, recipe.model.scorer_settings)
    reader = open_cross_encoder(Path(recipe.teacher), hardware) if recipe.teacher else None
    sections = recipe.sections(settings.sources)
    check_sections(sections, model, registry, taught=reader is not None)
    if is_new:  # the data are those of the store as it is now
        prepare(
            *(folder / DATA, store, recipe),
            *(KBChoice(settings.source_kbs, settings.target_kbs), model.inputs),
            docs=settings.docs,
            teacher=reader.inputs if reader else None,
            progress=tell,
        )
    team.wait()
    data = TrainingData(folder / DATA)
    if is_new and not (job.sources or recipe.sources):
        settings = _of_stages_with_data(settings, data, tell)
    stages = make_plan(data, recipe, settings.sources)
    checkpoints = Checkpoints(folder / CHECKPOINTS, _identity(settings, model, data, folder))
    notes = warnings_of(data)
    if model.inputs.added_tags:
        added = ", ".join(model.inputs.added_tags)
        notes.append(f"the vocabulary got rows for the tags {added}")
    for note in notes:
        tell(Note(note))
    if is_new:
        checkpoints.clear()
        write_settings(folder, settings)
    team.wait()
    groups = {group.letter: len(group.items) for stage in stages for group in stage.groups}
    tell(
        Planned(
            base=recipe.model.base,
            stages=tuple((stage.name, stage.steps) for stage in stages),
            groups=tuple(groups.items()),
            valid=len(judged_mentions(data, recipe.selection)),
            device=hardware.device,
            precision=hardware.precision,
            threads=hardware.threads,
            processes=settings.processes,
        )
    )
    teacher = Teacher(reader, folder / DATA / TEACHER) if reader else None
    tools = Tools(
        *(model, scorer, data, registry, team, settings.seed, teacher),
        *(recipe.selection, hardware, folder / DATA, tell),
    )
    loop = Loop(
        model,
        [partial(PairTask, tools, stage, number) for number, stage in enumerate(stages)],
        *(checkpoints, folder, tell, job.checkpoint_steps, Curve(folder), job.curve_steps),
        is_first=team.is_first,
        wait=team.wait,
    )
    loop.run()
    if team.is_first:
        _finish(folder, settings, model, loop, notes, time.monotonic() - began)
    team.wait()
    report = read_report(folder)
    if report is None:
        raise TrainingError(f"{folder / REPORT}: is gone")
    return report


def _of_stages_with_data(settings: RunSettings, data: TrainingData, tell: Tell) -> RunSettings:
    """Without the stages that nobody asked for and that have nothing to learn from."""
    missing = lacking(data, settings.sources)
    rest = "".join(one for one in settings.sources if one not in missing)
    if not missing or not rest:
        return settings
    for letter, why in missing.items():
        tell(Note(f"stage {letter} is left out: {why}"))
    return replace(settings, sources=read_sources(rest))


def _finish(
    folder: Path,
    settings: RunSettings,
    model: BiEncoder,
    loop: Loop,
    notes: list[str],
    seconds: float,
) -> None:
    """Write the model, the picture of the curves, and the report."""
    results = [result._asdict() for result in loop.position.results]
    step = {
        "kind": "finetune",
        "run": folder.name,
        "recipe": settings.recipe_name,
        "sources": settings.sources,
        "source_kbs": list(settings.source_kbs),
        "target_kbs": list(settings.target_kbs),
        "seed": settings.seed,
        "steps": loop.position.total,
        "stages": results,
    }
    model.history = (*model.history, step)
    model.save(folder / MODEL, libraries=settings.libraries)
    if Curve(folder).draw() is None:
        notes.append("no picture of the curves: pip install 'kglink[plots]'")
    write_report(
        TrainingReport(
            folder=folder,
            model=folder / MODEL,
            sources=settings.sources,
            steps=loop.position.total,
            seconds=round(seconds, 3),
            stages=tuple(results),
            recalls=recalls_of_epoch(folder, results[-1]["name"], results[-1]["kept"]),
            notes=tuple(notes),
            before=recalls_of_epoch(folder, results[0]["name"], 0),
        )
    )
    clear(folder)


def clear(folder: Path) -> None:
    """Remove files that a finished run does not need."""
    Checkpoints(folder / CHECKPOINTS, {}).clear()
    (folder / BEST).unlink(missing_ok=True)
    for scratch in (folder / DATA).iterdir():
        if scratch.is_dir():
            shutil.rmtree(scratch)
        elif scratch.name != DATA_FILE:
            scratch.unlink()


def _identity(
    settings: RunSettings, model: BiEncoder, data: TrainingData, folder: Path
) -> dict[str, str]:
    """What must be equal to resume from a checkpoint."""
    files = {}
    if teacher := settings.recipe.teacher:
        manifest = RERANKER.read(Path(teacher))
        files = {name: info.blake2b for name, info in manifest.files.items()}
    return {
        "recipe": digest_of(recipe_values(settings.recipe, folder)),
        "base model": model.base.fingerprint,
        "list of stages and KBs": digest_of(
            [settings.sources, settings.source_kbs, settings.target_kbs]
        ),
        "state of the data": digest_of(data.fingerprints),
        **({"teacher": digest_of(files)} if files else {}),
    }
