"""From KBs, documents and overlaps to a space with a model of its own: train, build, fit, judge."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import islice, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kglink.errors import KglinkError, UsageError
from kglink.evaluation.measures.end_to_end import Score
from kglink.linking.scoring import read_scoring
from kglink.models.reranker_folder import RERANKER
from kglink.models.static_folder import is_static_folder
from kglink.models.tagger_folder import TAGGER, Comparison
from kglink.records import Document, TextInput
from kglink.training.detector import (
    SOURCES_OF_DETECTOR,
    DetectorReport,
    detector_run,
    detector_stage,
)
from kglink.training.documents import sources_of_documents
from kglink.training.job import FinetuneJob, Note, Tell
from kglink.training.processes import Team, leave
from kglink.training.recipe import SPACE, merged
from kglink.training.reranker import SOURCES_OF_RERANKER, RerankerReport
from kglink.training.run import SETTINGS, TrainingReport, alone, is_busy, read_settings
from kglink.training.stages import check_kbs, with_kbs
from kglink.training.tagged_texts import LEAST_HELD_OUT, TaggedText, TaggedTexts, whole_texts
from kglink.training.train import train
from kglink.workspace.build import build_if_stale
from kglink.workspace.detectors import DICTIONARY, LEARNED, chosen_detector
from kglink.workspace.joint_space import AUTO
from kglink.workspace.linker import linker_of, search_of
from kglink.workspace.named import named
from kglink.workspace.overlaps import find_overlaps
from kglink.workspace.publish import new_space
from kglink.workspace.reranking import publish_reranker, train_for
from kglink.workspace.runs import Destination, Runs, stem_of

if TYPE_CHECKING:
    from kglink.evaluation.replacement import Replacement
    from kglink.linking.scoring import Scoring
    from kglink.space.build import BuildReport
    from kglink.store import Store
from kglink.workspace.opened import Opened

#: So many held-out documents are enough to compare detectors by.
_MOST_COMPARED = 40
#: So many documents of a source tell whether all are annotated whole.
_MOST_READ = 200
_DICTIONARY_ALONE = {"link.detector": (DICTIONARY,), "link.detector_settings": {}}


@dataclass(frozen=True, slots=True)
class Finetuned:
    """What `Workspace.finetune` did; ``build`` is None where no space was published."""

    report: TrainingReport
    build: BuildReport | None = None
    scoring: Scoring | None = None
    """How evidence is weighed in the space; None where no mentions were held back to learn it."""
    detector: DetectorReport | None = None
    """The detector that was trained; None where the documents did not allow it."""
    replacement: Replacement | None = None
    """What the space answers, beside the one before; None where there was nothing to compare."""
    reranker: RerankerReport | None = None
    """The reranker that was trained, where it was asked for."""
    refused: str = ""
    """Why what was trained was not published; empty where nothing was against it."""

    @property
    def before(self) -> Mapping[str, Any] | None:
        """Recall on the mentions held back, of the model that the run began with."""
        return self.report.before

    @property
    def after(self) -> Mapping[str, Any] | None:
        """The same of the model that it made."""
        return self.report.recalls


def finetune(workspace: Opened, job: FinetuneJob, progress: Tell) -> Finetuned:
    """Train in ``runs/RUN``, and publish a space with the model that came of it.

    A space that does not answer better than the published one is not published unless the job
    says so. Where the job names no space it is the one that the run was begun for,
    else the workspace's. Under torchrun every process calls this; the first one alone searches,
    writes and publishes.
    """
    runs = Runs(workspace.folder)
    encoder = workspace.settings.encoder
    if job.publish is not False:
        _check_destination(workspace, job)
    try:
        team = Team(encoder.device)
        job = replace(
            job,
            source_kbs=named(job.source_kbs),
            target_kbs=named(job.target_kbs),
            docs=named(job.docs),
            run=_name(runs, job, team),
            device=encoder.device if job.device == "auto" else job.device,
            precision=encoder.precision if job.precision == "auto" else job.precision,
            threads=job.threads or encoder.threads,
        )
        tell = progress if team.is_first else lambda _: None
        job = _of_the_space(workspace, job, tell)
        if not job.resume and job.what not in _LETTERS:
            job = with_kbs(workspace.store, job, tell)
        if team.is_first and not job.resume:
            _begin(workspace, runs, job, progress)
        team.wait()
        folder = runs.path(job.run)
        alone_in_run = _STAGES_ALONE.get(_letter(job, folder))
        if alone_in_run is not None:
            return _one_stage(alone_in_run, workspace, runs, job, folder, team, progress)
        with _nothing_left_of_a_refusal(folder) if team.is_first else nullcontext():
            report = train(workspace.store, workspace.registry, job, folder, progress=progress)
        if not team.is_first:
            return Finetuned(report)
    finally:
        leave()
    with alone(folder):
        told, detector = read_settings(folder), None
        if told.detector:
            detector = detector_stage(
                *(workspace.store, folder, told),
                checkpoint_steps=job.checkpoint_steps,
                tell=progress,
            )
        if job.publish is False:
            return Finetuned(report, detector=detector)
        return _published(workspace, runs, report, detector, job, progress)


def _of_the_space(workspace: Opened, job: FinetuneJob, progress: Tell) -> FinetuneJob:
    """A recipe that goes on from the space's model, or learns from its reranker, with folders.

    A run that goes on has them in its settings.
    """
    if job.resume and job.recipe is None:
        return job
    recipe = job.chosen_recipe()
    if job.what in _LETTERS:
        if recipe.teacher or recipe.model.base == SPACE:
            raise UsageError(
                f"the recipe goes on from the space's model, and a {job.what} is wanted",
                hint="Such a recipe is for the linker: `kglink finetune --what linker`.",
            )
        return job
    read_as: dict[str, Any] = {}
    folders: dict[str, Any] = {}
    if recipe.model.base == SPACE:
        teacher = workspace.joint_space.encoder
        own, path = teacher.trained, teacher.info.path
        folder = workspace.folder / path
        read_as["model"] = own.model_dump(mode="json") if own else {}
        folders["model"] = {"base": str(folder) if folder.is_dir() else path}
    if recipe.teacher == SPACE:
        folders["teacher"] = str(_reranker_of(workspace, progress))
    return replace(job, changes=merged(merged(read_as, job.changes), folders))


def _reranker_of(workspace: Opened, progress: Tell) -> Path:
    """The folder of the space's reranker; told where it was weighed for another model."""
    space = workspace.settings.space.name
    folder = workspace.joint_space.folder
    if not RERANKER.is_there(folder.reranker):
        raise UsageError(
            f"the recipe learns from a reranker, and space {space} has no trained one",
            hint="Train it first: `kglink finetune --what reranker`; or name the folder of one: "
            "--set teacher=FOLDER.",
        )
    manifest = folder.usable_manifest()
    if manifest and read_scoring(folder.reranker, manifest.model.fingerprint) is None:
        progress(Note(f"the reranker of space {space} was trained for another model of the space"))
    return folder.reranker.resolve()


def _letter(job: FinetuneJob, folder: Path) -> str:
    """The one stage of a run that trains but a detector or a reranker; a resumed one keeps it."""
    if not job.resume:
        return _LETTERS.get(job.what, "")
    return read_settings(folder).sources


def _one_stage(
    stage: _StageAlone,
    workspace: Opened,
    runs: Runs,
    job: FinetuneJob,
    folder: Path,
    team: Team,
    progress: Tell,
) -> Finetuned:
    """Train a detector or a reranker in a run of its own, by one process, for a space."""
    if team.count > 1:
        raise UsageError(
            f"a {job.what} is trained by one process, and here are {team.count}",
            hint=f"Run `kglink finetune --what {job.what}` without torchrun.",
        )
    name = folder.name
    space = job.space or runs.destination(name).space or workspace.settings.space.name
    target = workspace.with_settings({"space.name": space})
    try:
        with _nothing_left_of_a_refusal(folder):
            done = stage(target, job, folder, progress)
        if done.refused:
            runs.set_destination(name, Destination(space, refused=True))
        elif job.publish is not False:
            runs.set_destination(name, Destination(space, published=True))
        return done
    finally:
        if target is not workspace:
            target.close()


def _detector_alone(target: Opened, job: FinetuneJob, folder: Path, progress: Tell) -> Finetuned:
    report, detector = detector_run(target.store, job, folder, progress=progress)
    if job.publish is not False:
        with alone(folder):
            build_if_stale(target, progress=progress)
            detector = _publish_detector(target, detector)
    return Finetuned(report, detector=detector)


def _reranker_alone(target: Opened, job: FinetuneJob, folder: Path, progress: Tell) -> Finetuned:
    build_if_stale(target, progress=progress)
    report, reranker = train_for(target, job, folder, progress)
    if job.publish is False:
        return Finetuned(report, reranker=reranker)
    with alone(folder):
        told = read_settings(folder)
        done = publish_reranker(target, told, reranker, progress, anyway=bool(job.publish))
    return Finetuned(
        report,
        replacement=done.replacement,
        reranker=done.report,
        refused="" if done.published else done.replacement.objection,
    )


_StageAlone = Callable[["Opened", FinetuneJob, Path, Tell], Finetuned]
#: What is trained in a run of its own, by the letter of its stage.
_STAGES_ALONE: Mapping[str, _StageAlone] = {
    SOURCES_OF_DETECTOR: _detector_alone,
    SOURCES_OF_RERANKER: _reranker_alone,
}
_LETTERS = {"detector": SOURCES_OF_DETECTOR, "reranker": SOURCES_OF_RERANKER}


def _check_destination(workspace: Opened, job: FinetuneJob) -> None:
    """Refuse what could not be published, before hours of training."""
    opened = workspace.with_settings({"space.name": job.space}) if job.space else workspace
    if job.what in _LETTERS:
        return  # the space keeps the model that it has
    model = workspace.settings.encoder.model
    if model != AUTO and not job.resume:
        origin = workspace.resolved.origins.get("encoder.model", "settings")
        raise UsageError(
            f"encoder.model is set to {model!r} ({origin}), and a run has a model of its own",
            hint="Take the setting back: without it each space goes on with its own model. "
            "--no-publish trains a model alone, and model.base says where it begins.",
        )
    space = opened.joint_space.folder
    if is_static_folder(space.student):
        raise UsageError(
            f"space {space.name!r} is read by a static model, and a run has a model of its own",
            hint="Name another space: --space NAME. A new one is made where there is none.",
        )


def _name(runs: Runs, job: FinetuneJob, team: Team) -> str:
    """The run that is meant: the same one in all processes."""
    if job.run:
        runs.path(job.run)
        return job.run
    if job.resume:
        # One process looks: it would see those that the others are just looking at as busy.
        if last := team.told(runs.last_unfinished() if team.is_first else None):
            return last
        raise UsageError(
            "there is no run to go on with",
            hint="`kglink runs` lists all of them; without --resume a new one begins.",
        )
    stem = job.what if job.what in _LETTERS else stem_of(job.recipe)
    number = team.agree([runs.free_number(stem)] if team.is_first else None, 1)
    return f"{stem}-{number[0]:.0f}"


def _begin(workspace: Opened, runs: Runs, job: FinetuneJob, progress: Tell) -> None:
    """Find the overlaps that are to be learnt from, and note where the model will go."""
    if (runs.path(job.run) / SETTINGS).is_file():
        return  # `train` says that there is a run already
    compared: list[tuple[str, str]] = []
    if job.what not in _LETTERS:
        check_kbs(workspace.store, job)
        if "O" in job.stages():
            compared = find_missing_overlaps(workspace, job, progress)
    space = "" if job.publish is False else job.space or workspace.settings.space.name
    runs.set_destination(job.run, Destination(space, compared=tuple(compared)))


@contextmanager
def _nothing_left_of_a_refusal(folder: Path) -> Iterator[None]:
    """Remove the folder of a run that was refused before it began."""
    try:
        yield
    except KglinkError:
        if not (folder / SETTINGS).is_file() and not is_busy(folder):
            shutil.rmtree(folder, ignore_errors=True)
        raise


def find_missing_overlaps(
    workspace: Opened, job: FinetuneJob, progress: Tell
) -> list[tuple[str, str]]:
    """Compare the KBs that nobody has compared yet; returns which these were."""
    store = workspace.store
    method = job.chosen_recipe().overlap.method
    searching = workspace.with_settings({"overlap.method": method}) if method else workspace
    searched = {frozenset((run.left, run.right)) for run in store.overlap_runs()}
    compared = []
    for left, right in product(job.source_kbs, job.target_kbs):
        known = left == right or frozenset((left, right)) in searched
        if not known and next(store.overlaps(left, right), None) is None:
            command = f"`kglink overlap {left} {right}`"
            progress(Note(f"no overlaps of {left} and {right} are known: {command} runs first"))
            find_overlaps(searching, left, right, progress=progress)
            compared.append((left, right))
    return compared


def _published(
    workspace: Opened,
    runs: Runs,
    report: TrainingReport,
    detector: DetectorReport | None,
    job: FinetuneJob,
    progress: Tell,
) -> Finetuned:
    """Build the space that the run is for, and publish it with the detector, unless it is worse."""
    name = report.folder.name
    was = runs.destination(name)
    space = job.space or was.space or workspace.settings.space.name
    target = workspace.with_settings({"space.name": space})
    try:
        new = new_space(target, report, was.compared, progress)
        objection = new.replacement.objection if new.replacement else ""
        if objection and not job.publish:
            for pair in was.compared:
                workspace.store.save_overlaps(*pair, (), lambda _: None)
                told = " and ".join(pair)
                progress(Note(f"the overlaps of {told}, found for this run, are forgotten again"))
            runs.set_destination(name, Destination(space, refused=True))
            return Finetuned(
                report,
                scoring=new.scoring,
                detector=detector,
                replacement=new.replacement,
                refused=objection,
            )
        built = new.publish(target, progress, anyway=bool(job.publish))
        if detector is not None:
            detector = _publish_detector(target, detector)
        runs.set_destination(name, Destination(space, published=True))
        return Finetuned(report, built, new.scoring, detector, new.replacement)
    finally:
        if target is not workspace:
            target.close()


def _learnt(
    opened: Opened, sources: Sequence[str], texts: Iterable[TaggedText]
) -> Iterator[Document]:
    """The documents with some texts that memory has learnt from."""
    wanted = {one.text for one in texts}
    remembered = set(opened.store.memory_sources())
    for source in remembered.intersection(sources):
        yield from (one for one in opened.store.documents(source) if one.text in wanted)


def _publish_detector(opened: Opened, trained: DetectorReport) -> DetectorReport:
    """Give a trained detector to the space, with how the dictionary does on the same documents.

    Both are also asked for the mentions of documents that the store has besides: a detector may be
    good on texts like those that it has learnt from, and bad on others.
    """
    held_out = trained.texts.held_out[:_MOST_COMPARED]
    compared = Comparison(
        learned=round(trained.held_out.f1, 4),
        dictionary=_f1(opened, _DICTIONARY_ALONE, trained.texts.documents, held_out),
        documents=len(held_out),
    )
    own = {
        "link.detector": (LEARNED,),
        "link.detector_settings": {f"{LEARNED}.model": str(trained.folder)},
    }
    elsewhere = {
        name: Comparison(
            learned=_f1(opened, own, [name], texts),
            dictionary=_f1(opened, _DICTIONARY_ALONE, [name], texts),
            documents=len(texts),
        )
        for name, texts in _other_texts(opened.store, trained.texts)
    }
    manifest = trained.manifest.model_copy(update={"compared": compared, "elsewhere": elsewhere})
    TAGGER.publish(trained.folder, opened.space().folder.detector, manifest)
    return trained._replace(manifest=manifest)


def _other_texts(store: Store, learnt: TaggedTexts) -> Iterator[tuple[str, list[TaggedText]]]:
    """Some texts of each other source whose documents are annotated whole; none of a test split."""
    known = {one.text for one in learnt.train}
    for name in sources_of_documents(store, ()):
        if name in learnt.documents:
            continue
        split = next((one for one in ("dev", "train", "") if store.count_documents(name, one)), "")
        texts = whole_texts(name, islice(store.documents(name, split), _MOST_READ))
        new = [one for one in texts if one.text not in known][:_MOST_COMPARED]
        if sum(len(one.places) for one in new) >= LEAST_HELD_OUT:
            yield name, new


def _f1(
    opened: Opened, detector: Mapping[str, Any], sources: Sequence[str], texts: Sequence[TaggedText]
) -> float:
    """Strict F1 of the places that are found with these settings of the detector.

    The dictionary asks memory, which must not have learnt from the texts either.
    """
    score = Score()
    space, store = opened.space(), opened.store
    with opened.with_settings(detector) as asked:
        link = chosen_detector(space.folder, asked.settings.link, asked.settings.encoder).link
        search = search_of(space, opened.encoder, link, store, opened.registry)
        memory = store.memory_without(_learnt(opened, sources, texts))
        linker = linker_of(
            *(search.with_memory(memory), space, space.kbs(), link, store, opened.registry),
            memory=memory,
        )
        answers = linker.link(TextInput("", one.text) for one in texts)
        for text, linked in zip(texts, answers, strict=True):
            found = {(one.start, one.end) for one in linked.links}
            score.add(len(found.intersection(text.places)), len(found), len(text.places))
    return round(score.micro.f1, 4)
