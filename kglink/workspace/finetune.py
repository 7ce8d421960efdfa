"""From KBs, documents and overlaps to a space with a model of its own: train, build, fit, judge."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import chain, count, islice, product
from pathlib import Path
from typing import Any

from kglink.config import AUTO
from kglink.errors import KglinkError, TrainingError, UsageError
from kglink.evaluation.candidate_files import judged_places, read_candidates
from kglink.evaluation.rankings import in_text
from kglink.linking.describe import as_candidate, described
from kglink.linking.fit import FOLDS, JudgedMention, fold_of, judged_mentions
from kglink.linking.pipeline import BATCH_MENTIONS, Linker, whole_documents
from kglink.linking.scoring import read_scoring
from kglink.models.head_folder import RERANKER
from kglink.models.static_folder import STATIC
from kglink.records import Candidate, Document, OnProgress, Progress, Ranking
from kglink.store import Store
from kglink.training.detector import DetectorReport, detector_run, detector_stage
from kglink.training.documents import sources_of_documents, splits_of
from kglink.training.job import FinetuneJob, Note, Tell
from kglink.training.processes import Team, leave
from kglink.training.recipe import DEFAULT_RECIPE, SPACE, Recipe
from kglink.training.recipe_files import merged
from kglink.training.reranker import JudgedRanking, ToRead, reranker_run
from kglink.training.run import (
    SETTINGS,
    SOURCES_OF_DETECTOR,
    TRAINED_ALONE,
    RunSettings,
    TrainingReport,
    alone,
    is_busy,
    list_runs,
    read_settings,
)
from kglink.training.stages import check_kbs, with_kbs
from kglink.training.train import train
from kglink.workspace.folder import named
from kglink.workspace.joint_space import backend_of
from kglink.workspace.opened import Opened
from kglink.workspace.overlaps import find_overlaps
from kglink.workspace.publish import Finetuned, publish_detector, publish_model, publish_reranker
from kglink.workspace.spaces import build_if_stale
from kglink.workspace.training import (
    Compared,
    Destination,
    read_destination,
    run_folder,
    runs,
    write_destination,
)


def finetune(workspace: Opened, job: FinetuneJob, progress: Tell) -> Finetuned:
    """Train in ``runs/RUN``, and publish a space with the model that came of it.

    A space that does not answer better than the published one is not published unless the job
    says so. Where the job names no space it is the one that the run was begun for,
    else the workspace's. Under torchrun every process calls this; the first one alone searches,
    writes and publishes.
    """
    encoder = workspace.settings.encoder
    _check_destination(workspace, job)
    try:
        team = Team(encoder.device)
        tell = progress if team.is_first else lambda _: None
        job = replace(
            job,
            source_kbs=named(job.source_kbs),
            target_kbs=named(job.target_kbs),
            docs=named(job.docs),
            run=_name(workspace, job, team, tell),
            device=encoder.device if job.device == "auto" else job.device,
            precision=encoder.precision if job.precision == "auto" else job.precision,
            threads=job.threads or encoder.threads,
        )
        job = _of_the_space(workspace, job, tell)
        if not job.resume and job.learns_pairs:
            job = with_kbs(workspace.store, job, tell)
        folder = run_folder(workspace, job.run)
        if team.is_first and not job.resume:
            with _nothing_left_of_a_refusal(folder), alone(folder):
                _begin(workspace, job, folder, progress)
        team.wait()
        # A run that is resumed keeps its stages.
        alone_by_what = {what: letter for letter, what in TRAINED_ALONE.items()}
        letter = read_settings(folder).sources if job.resume else alone_by_what.get(job.what, "")
        if letter in TRAINED_ALONE:
            if team.count > 1:
                raise UsageError(
                    f"a {job.what} is trained by one process, and here are {team.count}",
                    hint=f"Run `kglink finetune --what {job.what}` without torchrun.",
                )
            return _alone(letter, workspace, job, folder, progress)
        with _nothing_left_of_a_refusal(folder) if team.is_first else nullcontext():
            report = train(workspace.store, workspace.registry, job, folder, progress=progress)
        if not team.is_first:
            return Finetuned(report)
    finally:
        leave()
    with alone(folder):
        settings, detector = read_settings(folder), None
        if settings.detector and job.what != "linker":
            try:
                detector = detector_stage(
                    *(workspace.store, folder, settings),
                    checkpoint_steps=job.checkpoint_steps,
                    tell=progress,
                )
            except KglinkError as error:
                command = f"`kglink finetune --resume --run {folder.name} --what linker`"
                without = f"{command} publishes the model that was trained, without a detector."
                raise TrainingError(
                    f"the detector: {error.message}", hint=f"{error.hint} {without}".strip()
                ) from error
        if job.publish is False:
            return Finetuned(report, detector=detector)
        return _published(workspace, report, detector, job, progress)


def _of_the_space(workspace: Opened, job: FinetuneJob, progress: Tell) -> FinetuneJob:
    """A recipe that goes on from the space's model, or learns from its reranker, with folders.

    A run that goes on has them in its settings.
    """
    if job.resume and job.recipe is None:
        return job
    recipe = job.chosen_recipe()
    if not job.learns_pairs:
        if job.sources or job.source_kbs or job.target_kbs:
            raise UsageError(
                f"--sources, --source-kb and --target-kb are for the linker, and a {job.what} is "
                "wanted",
                hint="It learns from annotated documents of all KBs; --docs names some of them.",
            )
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
        own_folder, name = workspace.joint_space.folder, workspace.settings.space.name
        if not RERANKER.is_there(own_folder.reranker):
            raise UsageError(
                f"the recipe learns from a reranker, and space {name} has no trained one",
                hint="Train it first: `kglink finetune --what reranker`; or name the folder of "
                "one: --set teacher=FOLDER.",
            )
        manifest = own_folder.usable_manifest()
        if manifest and read_scoring(own_folder.reranker, manifest.model.fingerprint) is None:
            note = f"the reranker of space {name} was trained for another model of the space"
            progress(Note(note))
        folders["teacher"] = str(own_folder.reranker.resolve())
    return replace(job, changes=merged(merged(read_as, job.changes), folders))


def _alone(
    letter: str, workspace: Opened, job: FinetuneJob, folder: Path, progress: Tell
) -> Finetuned:
    """Train a detector or a reranker in a run of its own, for a space."""
    space = job.space or read_destination(folder).space or workspace.settings.space.name
    with (
        workspace.with_settings({"space.name": space}) as target,
        _nothing_left_of_a_refusal(folder),
    ):
        if letter == SOURCES_OF_DETECTOR:
            report, detector = detector_run(target.store, job, folder, progress=progress)
            done = Finetuned(report, detector=detector)
            if job.publish is not False:
                with alone(folder):
                    build_if_stale(target, progress=progress)
                    done = replace(done, detector=publish_detector(target, detector))
        else:
            build_if_stale(target, progress=progress)
            report, reranker = reranker_run(
                target.store,
                lambda settings: mentions_to_read(target, settings, progress),
                *(job, folder),
                tell=progress,
            )
            done = Finetuned(report, reranker=reranker)
            if job.publish is not False:
                with alone(folder):
                    done = publish_reranker(
                        target, report, reranker, progress, anyway=bool(job.publish)
                    )
        if job.publish is not False:
            write_destination(folder, Destination.reached(space, done.refused))
        return replace(done, space=space)


def _check_destination(workspace: Opened, job: FinetuneJob) -> None:
    """Refuse what could not be published, before hours of training."""
    if not isinstance(job, FinetuneJob):
        raise UsageError(
            f"a fine-tuning is given by the type {type(job).__name__}",
            hint="Give a FinetuneJob: it has the recipe, the KBs and the documents.",
        )
    if job.publish is False:
        return
    opened = workspace.with_settings({"space.name": job.space}) if job.space else workspace
    if not job.learns_pairs:
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
    if STATIC.is_there(space.student):
        raise UsageError(
            f"space {space.name!r} is read by a static model, and a run has a model of its own",
            hint="Name another space: --space NAME. A new one is made where there is none.",
        )
    if manifest := space.usable_manifest():
        backend_of(workspace.registry, space)(manifest.index, manifest.index_settings)


def _name(workspace: Opened, job: FinetuneJob, team: Team, tell: Tell) -> str:
    """The run that is meant: the same one in all processes."""
    if job.run:
        return run_folder(workspace, job.run).name
    if job.resume:
        # One process looks: it would see those that the others are just looking at as busy.
        known = runs(workspace) if team.is_first else []
        open_ = ["", *(one.info.name for one in known if one.state in ("stopped", "trained"))]
        if last := team.told(open_[-1] if team.is_first else None):
            tell(Note(f"run {last} goes on"))
            return last
        if busy := [one.info.name for one in known if one.state == "running"]:
            raise UsageError(f"run {busy[-1]!r} is in progress", hint="Wait for it, or stop it.")
        raise UsageError(
            "there is no run to go on with",
            hint="`kglink runs` lists all of them; without --resume a new one begins.",
        )
    stem = stem_of(job.recipe) if job.learns_pairs else job.what
    number = team.agree([free_number(workspace, stem)] if team.is_first else None, 1)
    return f"{stem}-{number[0]:.0f}"


def free_number(workspace: Opened, stem: str) -> int:
    """The first number with which ``STEM-NUMBER`` is a name that no run has."""
    for number in count(1):
        folder = run_folder(workspace, f"{stem}-{number}")
        # What a refused run left behind is not taken; one that still reads its data is.
        if not ((folder / SETTINGS).is_file() or is_busy(folder)):
            break
    return number


def stem_of(recipe: Recipe | str | Path | None) -> str:
    """How a run is called that nobody named: as its recipe."""
    if isinstance(recipe, Recipe):
        return "run"
    name = str(recipe or DEFAULT_RECIPE)
    plain = Path(name).stem if name.endswith(".toml") else name
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", plain).strip("-._")
    return stem[:80] or "run"


def _begin(workspace: Opened, job: FinetuneJob, folder: Path, progress: Tell) -> None:
    """Find the overlaps that are to be learnt from, and note where the model will go."""
    if (folder / SETTINGS).is_file():
        return  # `train` says that there is a run already
    compared: list[Compared] = []
    if job.learns_pairs:
        check_kbs(workspace.store, job)
        if "O" in job.stages():
            compared = find_missing_overlaps(workspace, job, progress)
    space = "" if job.publish is False else job.space or workspace.settings.space.name
    write_destination(folder, Destination(space, compared=tuple(compared)))


@contextmanager
def _nothing_left_of_a_refusal(folder: Path) -> Iterator[None]:
    """Remove the folder of a run that was refused before it began."""
    try:
        yield
    except KglinkError:
        if not (folder / SETTINGS).is_file() and not is_busy(folder):
            shutil.rmtree(folder, ignore_errors=True)
        raise


def find_missing_overlaps(workspace: Opened, job: FinetuneJob, progress: Tell) -> list[Compared]:
    """Compare the KBs that nobody has compared yet; returns which these were."""
    store = workspace.store
    method = job.chosen_recipe().overlap.method
    searching = workspace.with_settings({"overlap.method": method}) if method else workspace
    searched = _ends_of_searches(store)
    compared = []
    for left, right in product(job.source_kbs, job.target_kbs):
        known = left == right or frozenset((left, right)) in searched
        if not known and next(store.overlaps(left, right), None) is None:
            command = f"`kglink overlap {left} {right}`"
            progress(Note(f"no overlaps of {left} and {right} are known: {command} runs first"))
            find_overlaps(searching, left, right, progress=progress)
            compared.append((left, right))
    ends = _ends_of_searches(store)
    return [Compared(*pair, ends.get(frozenset(pair), "")) for pair in compared]


def _ends_of_searches(store: Store) -> dict[frozenset[str], str]:
    """When overlaps were last looked for, by the two KBs."""
    return {frozenset((one.left, one.right)): one.finished_at for one in store.overlap_runs()}


def _of_this_run_alone(workspace: Opened, run: Path, found: Sequence[Compared]) -> list[Compared]:
    """Pairs of KBs searched for this run, but not searched again or used by another run."""
    ends = _ends_of_searches(workspace.store)
    others = [
        one.settings
        for one in (list_runs(run.parent) if found else ())
        if one.folder != run and "O" in one.settings.sources
    ]

    def is_used(pair: Compared) -> bool:
        both = {pair.left, pair.right}
        return any(
            one.started >= pair.finished_at
            and both & set(one.source_kbs)
            and both & set(one.target_kbs)
            for one in others
        )

    return [
        one for one in found if ends.get(frozenset(one[:2])) == one.finished_at and not is_used(one)
    ]


def _published(
    workspace: Opened,
    report: TrainingReport,
    detector: DetectorReport | None,
    job: FinetuneJob,
    progress: Tell,
) -> Finetuned:
    """Build the space that the run is for, and publish it with the detector, unless it is worse."""
    was = read_destination(report.folder)
    space = job.space or was.space or workspace.settings.space.name
    own = _of_this_run_alone(workspace, report.folder, was.compared)
    with workspace.with_settings({"space.name": space}) as target:
        done = publish_model(
            target, report, {one[:2] for one in own}, progress, anyway=bool(job.publish)
        )
        for left, right, _ in own if done.refused else ():
            workspace.store.save_overlaps(left, right, (), lambda _: None)
            both = f"{left} and {right}"
            progress(Note(f"the overlaps of {both}, found for this run, are forgotten again"))
        if detector is not None and not done.refused:
            detector = publish_detector(target, detector)
        write_destination(report.folder, Destination.reached(space, done.refused))
        return replace(done, detector=detector, space=space)


#: Least number of candidates to find for each mention: a right one may rank low.
LEAST_CANDIDATES = 64
#: More mentions than these judge no better.
MOST_HELD_OUT = 1000


def mentions_to_read(opened: Opened, settings: RunSettings, progress: OnProgress) -> ToRead:
    """The mentions of annotated documents with their candidates, divided as for all stages.

    Where memory was learnt from the same documents it is asked without what those of the same
    part say themselves.
    """
    store, section = opened.store, settings.recipe.reranker
    space = opened.space()
    kbs, depth = space.kbs(), max(LEAST_CANDIDATES, section.candidates)
    parts: tuple[dict[str, list[Document]], dict[str, list[Document]]] = ({}, {})
    used = sources_of_documents(store, settings.docs)
    for name in used:
        splits = splits_of(store, name, settings.recipe.selection)
        for document, held_back in splits.divided(store):
            parts[held_back].setdefault(name, []).append(document)
    setup = opened.link_setup().changed(found_by=section.found_by, rerank_top=0)
    search = setup.search()

    def judged(documents: Sequence[Document], most: int) -> Iterator[JudgedRanking]:
        """Mentions with their candidates, from all documents alike."""
        chosen, done = judged_mentions(documents, kbs, most), 0
        for fold in range(FOLDS):
            memory = store.memory_without([one for one in documents if fold_of(one) == fold])
            linker = setup.linker(search.with_memory(memory))
            own = (one for one in chosen if one.fold == fold)
            for batch in whole_documents(own, lambda one: one.mention.text):
                found = list(_with_candidates(linker, store, batch, kbs, depth))
                done += len(found)
                progress(Progress("candidates of mentions", done, len(chosen)))
                yield from found

    found = []
    most = section.most_mentions * section.epochs, MOST_HELD_OUT
    for stem, part, limit in zip(("train", "val"), parts, most, strict=True):
        if section.lists:
            path = Path(section.lists) / f"{stem}.json"
            listed = _listed(store, path, part, kbs, section.candidates, learnt=stem == "train")
            found.append(list(islice(listed, limit)))
        else:
            found.append(list(judged([*chain.from_iterable(part.values())], limit)))
    train, valid = found
    return ToRead(train, valid, tuple(used))


def _listed(
    store: Store, path: Path, documents: Mapping[str, Sequence[Document]], kbs: Sequence[str],
    depth: int, *, learnt: bool,
) -> Iterator[JudgedRanking]:  # fmt: skip
    """The mentions of some documents with the first candidates that a file lists for them.

    With ``learnt``, a mention without a right candidate gets one, placed last.
    """
    lists = read_candidates(path, documents, kbs, store)
    places = judged_places(documents, kbs)
    while batch := list(islice(places, BATCH_MENTIONS)):
        rankings = []
        for place, document, one in batch:
            ids, gold = lists[place].ids, sorted(one.gold or ())
            first = list(ids[:depth])
            if learnt and gold and not set(gold).intersection(first):
                first.append(next((own for own in ids if own in gold), gold[0]))
            candidates = tuple(Candidate(own, "", 1 / rank) for rank, own in enumerate(first, 1))
            rankings.append(Ranking(in_text(document, one), candidates))
        ranked = described(store, rankings, depth + 1)
        for ranking, (_, _, one) in zip(ranked, batch, strict=True):
            if ranking.candidates:
                yield JudgedRanking(ranking, frozenset(one.gold or ()))


def _with_candidates(
    linker: Linker, store: Store, batch: Sequence[JudgedMention], kbs: Sequence[str], depth: int
) -> Iterator[JudgedRanking]:
    """Candidates of each mention in the KBs that hold its gold; of a NIL mention, in all KBs.

    If none is right, a right entity of the store is added, placed last.
    """
    rankings = []
    found = linker.joint([one.mention for one in batch], limit=depth)
    for ranking, (_, _, gold) in zip(found, batch, strict=True):
        judged = {one.kb for one in gold} or kbs
        own = [one for one in ranking.candidates if one.id.kb in judged]
        rankings.append(replace(ranking, candidates=tuple(own[:depth])))
    not_found = [
        [] if any(found.id in one.gold for found in ranking.candidates) else sorted(one.gold)[:1]
        for ranking, one in zip(rankings, batch, strict=True)
    ]
    entities = store.get_entities(chain.from_iterable(not_found))
    for ranking, one, golds in zip(linker.described(rankings), batch, not_found, strict=True):
        more = [as_candidate(gold, entities[gold]) for gold in golds if gold in entities]
        if ranking.candidates:
            candidates = (*ranking.candidates, *more)
            yield JudgedRanking(replace(ranking, candidates=candidates), one.gold)
