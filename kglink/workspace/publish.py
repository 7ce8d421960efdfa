"""A trained model's space: built in its run, judged beside the published one, then published."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kglink.errors import ModelError, SpaceError
from kglink.evaluation.replacement import Replacement, compare_spaces
from kglink.linking.pipeline import Linker
from kglink.linking.scoring import read_scoring, write_scoring
from kglink.records import Document, OnProgress
from kglink.training.documents import held_back_documents, sources_of_documents
from kglink.training.job import Note, Tell
from kglink.training.run import RunSettings, TrainingReport, read_settings
from kglink.workspace.build import build_if_stale
from kglink.workspace.detectors import without_auto
from kglink.workspace.fitting import Fitted, fit_space, is_remembered, memory_of
from kglink.workspace.folder import SPACES_FOLDER
from kglink.workspace.linker import counterparts_of, linker_of, search_of

if TYPE_CHECKING:
    from kglink.linking.counterparts import Counterparts
    from kglink.linking.scoring import Scoring
    from kglink.models import Encoder
    from kglink.space.build import BuildReport
    from kglink.space.space import Space
    from kglink.workspace.joint_space import WorkspaceSpace
    from kglink.workspace.opened import Opened


@dataclass(frozen=True, slots=True)
class NewSpace:
    """A space in the folder of a run, as it would be published."""

    joint: WorkspaceSpace
    model: str
    build: BuildReport
    scoring: Scoring | None
    """None where no mentions were held back to fit it."""
    replacement: Replacement | None
    """How it answers beside the published space; None where there is none."""
    replaces: str
    """The model of the space that was published when it was judged; empty: none was."""

    def publish(self, target: Opened, progress: Tell, *, anyway: bool = False) -> BuildReport:
        """Put it in the place of the published space; what was encoded is kept.

        An error where that space is no longer the one that it was judged by, unless ``anyway``.
        """
        folder = target.joint_space.folder
        if not anyway and folder.model_published() != self.replaces:
            raise SpaceError(
                f"space {folder.name!r} got another model while this run was judged",
                hint="`kglink finetune --resume` with --run and the run's name judges it again.",
            )
        folder.take_segments(self.joint.folder)
        joint = target.joint_space.with_model(self.model)
        may_replace = None if anyway else self.replaces
        built = replace(joint, replaces=may_replace).build(progress=progress)
        target.joint_space = joint
        if self.scoring is not None:
            write_scoring(folder.path, built.manifest.model.fingerprint, self.scoring)
        shutil.rmtree(self.joint.root / SPACES_FOLDER)
        return replace(self.build, manifest=built.manifest)


def new_space(
    target: Opened, report: TrainingReport, compared: Collection[tuple[str, str]], progress: Tell
) -> NewSpace:
    """Build the space of a run's model in the run's folder, fit it, and compare its answers.

    ``compared``: the KBs whose overlaps were found for the run; the published space answers
    without these.
    """
    model, replaces = str(report.model), target.joint_space.folder.model_published()
    joint = replace(target.joint_space.with_model(model), root=report.folder)
    built = joint.build(progress=progress)
    before = _published_before(target, built.manifest.model.fingerprint, progress)
    if report.recalls is None:  # no mentions were held back
        return NewSpace(joint, model, built, None, Replacement({}) if before else None, replaces)
    space = joint.open()
    judging = _judging(target, read_settings(report.folder), space, progress)
    fitted = judging.fit(space, joint.encoder)
    replacement = None
    if before:
        replacement = judging.compare(before, space, joint.encoder, fitted, compared)
    return NewSpace(joint, model, built, fitted.scoring, replacement, replaces)


def fit_to_held_back(target: Opened, told: RunSettings, progress: OnProgress) -> None:
    """Fit the space of a run's model as if it were published, where nobody has fitted it."""
    space = target.space()
    if read_scoring(space.folder.path, space.manifest.model.fingerprint) is None:
        judging = _judging(target, told, space, progress)
        if judging.documents:
            judging.fit(space, target.encoder)


def _judging(target: Opened, told: RunSettings, space: Space, progress: OnProgress) -> _Judging:
    asked = told.docs, told.recipe.selection, told.seed, space.kbs()
    documents = [*held_back_documents(target.store, *asked)]
    remembered = is_remembered(target.store, sources_of_documents(target.store, told.docs))
    return _Judging(target, documents, remembered, progress)


def _published_before(target: Opened, fingerprint: str, progress: Tell) -> Space | None:
    """The space as it would answer now.

    None where nobody has built it, it has the model already, or it cannot be read.
    """
    manifest = target.joint_space.folder.usable_manifest()
    if manifest is None or manifest.model.fingerprint == fingerprint:
        return None
    try:
        build_if_stale(target, progress=progress)
        return target.space()
    except (ModelError, SpaceError) as error:
        progress(Note(f"nothing to compare with, the space cannot be read: {error.message}"))
        return None


@dataclass(frozen=True, slots=True)
class _Judging:
    """Held-out documents, and what they are linked with."""

    target: Opened
    documents: Sequence[Document]
    remembered: bool
    """Whether memory was learnt from them."""
    progress: OnProgress

    def fit(self, space: Space, encoder: Encoder) -> Fitted:
        """Fit the new space to the documents."""
        target = self.target
        return fit_space(
            *(space, encoder, target.settings.link, target.store, target.registry),
            *(self.documents, self.progress),
            remembered=self.remembered,
        )

    def compare(
        self,
        before: Space,
        after: Space,
        encoder: Encoder,
        fitted: Fitted,
        compared: Collection[tuple[str, str]],
    ) -> Replacement:
        """The published space as it was; the new one fitted to the other documents each time."""
        target = self.target
        known = counterparts_of(target.store, before, but=compared)
        return compare_spaces(
            self.documents,
            after.kbs(),
            lambda fold, part: self._linker(before, target.encoder, part, None, known),
            lambda fold, part: self._linker(after, encoder, part, fitted.without(fold)),
            progress=self.progress,
        )

    def _linker(
        self,
        space: Space,
        encoder: Encoder,
        part: Sequence[Document],
        scoring: Scoring | None,
        known: Counterparts | None = None,
    ) -> Linker:
        """A linker that remembers nothing of some documents; ``scoring`` None: the space's."""
        store, registry = self.target.store, self.target.registry
        link = without_auto(self.target.settings.link).model_copy(update={"evidence": "all"})
        search = search_of(space, encoder, link, store, registry, scoring=scoring or "kept")
        if known is not None:
            search = search.with_counterparts(known)
        memory = memory_of(store, remembered=self.remembered)(part)
        return linker_of(search.with_memory(memory), space, space.kbs(), link, store, registry)
