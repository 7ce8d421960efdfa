"""The joint space of a workspace: what it should hold, building it, opening it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from kglink.config import AUTO, EncoderSection, ResolvedSettings, SpaceSection
from kglink.errors import KBChangedError, ModelError, SpaceError, UnknownNameError, UsageError
from kglink.models import DEFAULT_MODEL, Encoder
from kglink.models.hardware import Precision
from kglink.models.static_folder import STATIC
from kglink.plugins import IndexBackend, Registry
from kglink.records import OnProgress
from kglink.space.build import SpaceBuild, row_kinds
from kglink.space.folder import SpaceFolder, build_command
from kglink.space.segment import Segment
from kglink.space.segment_plan import SpaceSource
from kglink.space.segment_vectors import Block, Encoded, encode_block
from kglink.space.space import BackendOf, Space
from kglink.store import KBInfo, Store
from kglink.store.entity_reader import Changes, FoldedEntity
from kglink.workspace.folder import SPACES_FOLDER


@dataclass(frozen=True, slots=True)
class WorkspaceSpace:
    """A space over all KBs of the store: the one that the settings name.

    ``own_name`` is that of a space which is never published and serves with its segments alone.
    """

    root: Path
    store: Store
    encoder: Encoder
    registry: Registry
    resolved: ResolvedSettings
    own_name: str = ""
    replaces: str | None = None
    """The published model by which the encoder was chosen, empty where there was none; None: the
    encoder was chosen by its user."""

    @property
    def folder(self) -> SpaceFolder:
        """Where it lies."""
        name = self.own_name or self.resolved.values.space.name
        return SpaceFolder(self.root / SPACES_FOLDER, name)

    def with_model(self, model: str) -> WorkspaceSpace:
        """The same space made with another model; one that the settings name stands against it."""
        section = self.resolved.values.encoder
        encoder = encoder_of(model, section, self.root)
        if section.model == AUTO or self.encoder.info.fingerprint == encoder.info.fingerprint:
            return replace(self, encoder=encoder, replaces=None)
        origin = self.resolved.origins.get("encoder.model", "settings")
        raise UsageError(
            f"encoder.model is set to {section.model!r} ({origin}), and the space is to be built "
            f"with {encoder.info.name}",
            hint="Take the setting back: without it each space goes on with its own model.",
        )

    def is_current(self) -> bool:
        """Whether the published space holds just what the store holds now."""
        return self.job().is_current()

    def is_published(self) -> bool:
        """Whether there is a version, of whatever age, of the encoder's model."""
        manifest = self.folder.usable_manifest()
        return manifest is not None and manifest.model.fingerprint == self.encoder.info.fingerprint

    def missing_rows(self, kb: str) -> int | None:
        """How many vectors a KB's segment still needs; None where it cannot be made now."""
        job = self.job()
        source = next((one for one in job.sources if one.kb == kb), None)
        if source is None:
            return None
        if job.has_segment(source):
            return 0
        info, trained, kinds = self.store.kb(kb), self.encoder.trained, row_kinds(self._section)
        each = 2 if trained is not None and trained.compares_tokens else 1
        return each * info.entities * ("text" in kinds) + info.aliases * ("alias" in kinds)

    def segment(self, kb: str, *, progress: OnProgress = lambda _: None) -> Segment | None:
        """A KB's names and vectors, made where they are missing; the next build reuses them."""
        job = self.job(progress=progress)
        source = next((one for one in job.sources if one.kb == kb), None)
        if source is None:
            return None
        segment = job.make_segment(source)
        if self.own_name:  # No build will ever do it.
            wanted = {plan.folder_name for plan in job.plans}
            self.folder.drop_segments(wanted)
        return segment

    def job(self, **how: Any) -> SpaceBuild:
        """What makes it, as `SpaceBuild` is told ``how``, and says how much of it is there."""
        sources = [self._source(info) for info in self.store.kbs() if info.entities]
        models = () if self.replaces is None else (self.replaces, self.encoder.info.fingerprint)
        return SpaceBuild(
            *(self.folder, sources, self.encoder.info, self.encoder, self._section),
            backend_of(self.registry, self.folder),
            recorded_settings=self.resolved.as_dict(),
            replaces=models,
            **how,
        )

    def encode_job(self) -> EncodeJob:
        """What encodes rows of the space in any process that sees the model's folder."""
        section, encoder, info = self.resolved.values.encoder, self.encoder, self.encoder.info
        precision = info.precision or section.precision
        own = encoder.source.path
        # A name is looked up by each node, which may have the model somewhere else.
        model = str(own) if own.is_relative_to(self.root.resolve()) else info.path
        return EncodeJob(model, info.fingerprint, precision, section.device, section.threads or 1)

    def open(self) -> Space:
        """The published version; vectors of another model than the encoder's are refused."""
        space = self.folder.reading(
            lambda: Space(self.folder, backend_of(self.registry, self.folder))
        )
        if space.manifest.model.fingerprint != self.encoder.info.fingerprint:
            raise self._of_another_model(space)
        return space

    def _of_another_model(self, space: Space) -> SpaceError:
        name, made_by = space.folder.name, space.manifest.model.name
        if (made_in := space.manifest.model.precision) != self.encoder.info.precision:
            return SpaceError(
                f"the vectors of space {name!r} are {made_in or 'fp32 or bf16'}, and "
                f"encoder.precision says {self.encoder.info.precision or 'otherwise'}",
                hint=f"Set encoder.precision back, or rebuild with `{build_command(name)}`.",
            )
        if self.resolved.values.encoder.model == AUTO:
            return SpaceError(
                f"space {name!r} was made by another model: {made_by} is not what it was",
                hint=f"Rebuild the space with `{build_command(name)}`.",
            )
        return SpaceError(
            f"space {name!r} was made by another model ({made_by}) than the settings name "
            f"({self.encoder.info.name})",
            hint=f"Set encoder.model back, or rebuild the space with `{build_command(name)}`.",
        )

    @property
    def _section(self) -> SpaceSection:
        """The settings; where they name no rows a trained model has those of texts.

        Words are indexed where they are already, if the settings say nothing.
        """
        settings, chosen = self.resolved.values.space, dict[str, object]()
        if settings.index != AUTO:
            chosen["index"] = self.registry.get("index", settings.index).name
        if self.encoder.trained and not settings.rows:
            chosen["rows"] = ("text",)
        if settings.words == AUTO or self.own_name:
            manifest = self.folder.usable_manifest()
            chosen["words"] = "yes" if manifest is not None and manifest.words else "no"
        return settings.model_copy(update=chosen)

    def _source(self, info: KBInfo) -> SpaceSource:
        return SpaceSource(
            kb=info.name,
            revision=info.revision,
            content=f"{self.store.identity} {info.revision}",
            licence=info.licence,
            entities=partial(self._entities, info),
            store=self.store.identity,
            last_id=info.last_id,
            size=info.entities,
            count_changes=partial(self.store.count_changes, info.name),
            changes=partial(self._changes, info),
        )

    def _entities(self, info: KBInfo) -> Iterator[FoldedEntity]:
        """The entities of the revision that the segment is named by."""
        with self._seen(info) as seen:
            yield from seen.folded_entities(info.name)

    def _changes(self, info: KBInfo, last_id: int, revision: int) -> Changes:
        """What has changed in the KB up to that revision."""
        with self._seen(info) as seen:
            return seen.changes(info.name, last_id, revision)

    @contextmanager
    def _seen(self, info: KBInfo) -> Iterator[Store]:
        """The store with that revision of a KB."""
        with self.store.snapshot() as seen:
            if info.revision not in (one.revision for one in seen.kbs() if one.name == info.name):
                raise KBChangedError(
                    f"KB {info.name!r} was changed or removed just before it was read",
                    hint="Run the same command again.",
                )
            yield seen


def backend_of(registry: Registry, space: SpaceFolder) -> BackendOf:
    """What makes the back ends of a space's indexes: their plugins."""

    def make(name: str, settings: Mapping[str, str | int | float | bool]) -> IndexBackend:
        try:
            return registry.create("index", name, settings)
        except UnknownNameError as error:
            raise SpaceError(
                f"space {space.name!r} has an index of {name!r}, a plugin that is not there",
                hint="Install the package that brings it again, or give the space another index: "
                f"`{build_command(space.name)} --index flat`. {error.hint}",
            ) from error

    return make


@dataclass(frozen=True)
class EncodeJob:
    """A model and how to run it. It can be pickled.

    A process that sees the same model encodes any rows with it, and gives the vectors that one
    process would give to all of them, if both compute alike.
    """

    model: str
    """Its name, or its folder."""
    fingerprint: str
    precision: Precision
    device: str
    threads: int

    @cached_property
    def _encoder(self) -> Encoder:
        encoder = Encoder(
            self.model, precision=self.precision, device=self.device, threads=self.threads
        )
        if encoder.info.fingerprint != self.fingerprint:
            raise ModelError(
                f"{self.model} is another model than that of the run",
                hint="Copy the model's folder to every node, or put it on a shared disk.",
            )
        return encoder

    def load(self) -> None:
        """Load the model."""
        self._encoder.encode(["."])

    def do(self, block: Block) -> Encoded:
        """Encode some rows."""
        return encode_block(self._encoder, block)


def joint_space(
    root: Path, store: Store, registry: Registry, resolved: ResolvedSettings
) -> WorkspaceSpace:
    """The space that the settings name, with its own model or the one that they name."""
    folder = SpaceFolder(root / SPACES_FOLDER, resolved.values.space.name)
    follows = resolved.values.encoder.model == AUTO
    replaces = folder.model_published() if follows else None
    section = resolved.values.encoder
    encoder = (
        own_encoder(root, folder, section) if follows else encoder_of(section.model, section, root)
    )
    return WorkspaceSpace(root, store, encoder, registry, resolved, replaces=replaces)


def encoder_of(model: str, section: EncoderSection, root: Path, *, of_space: str = "") -> Encoder:
    """A model as the settings run it; ``of_space`` is the space whose manifest names it."""
    return Encoder(
        model,
        precision=section.precision,
        threads=section.threads,
        device=section.device,
        root=root,
        of_space=of_space,
        rebuild=build_command(of_space),
    )


def own_encoder(root: Path, folder: SpaceFolder, section: EncoderSection) -> Encoder:
    """The encoder that a space was made with; the default one of a space that is not made yet."""
    own = folder.model()
    if own is None:
        return encoder_of(DEFAULT_MODEL, section, root)
    if own.precision and section.precision == "auto":
        section = section.model_copy(update={"precision": own.precision})
    return encoder_of(own.path or own.name, section, root, of_space=folder.name)


def student_of(space: WorkspaceSpace) -> Encoder:
    """The static model that reads texts for a space; one that was taught by another is refused."""
    section, folder = space.resolved.values.encoder, space.folder
    student, teacher = STATIC.read(folder.student), folder.published_manifest().model
    if student.teacher.fingerprint != teacher.fingerprint:
        raise ModelError(
            f"the static model of space {folder.name!r} imitates {student.teacher.name}, and the "
            f"space has {teacher.name} now",
            hint=f"`kglink distill --space SPACE --into {folder.name}` makes it again from SPACE.",
        )
    return encoder_of(str(folder.student), section, space.root)
