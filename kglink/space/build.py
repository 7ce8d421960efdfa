"""Building a space: a segment for each KB, one joint index over all, published at once.

KBs that the space does not hold yet, and that take more than a moment to encode, are published by
their names first: in segments without vectors, in whose places the whole ones come. Readers see
the old version until the file ``CURRENT`` is replaced; kill -9 at any moment leaves that version
readable and the finished segments (and the vectors of an unfinished one) to be found by the next
build.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kglink.config import SpaceSection
from kglink.errors import DamagedSpaceError, SpaceError
from kglink.files.manifest import file_info, library_versions, note_checked, now
from kglink.models.source import ModelInfo
from kglink.records import OnProgress, Progress
from kglink.space.folder import INDEX_FILE, SpaceFolder, index_files, link_or_copy
from kglink.space.index import (
    DEFAULT_INDEX,
    IndexChoice,
    chosen_index,
    vector_batches,
    write_version,
)
from kglink.space.layers import LayeredSegment, open_segment
from kglink.space.manifest import (
    ROW_KINDS,
    RowKind,
    SegmentInfo,
    SpaceManifest,
    read_part,
)
from kglink.space.segment import INFO_FILE, Segment
from kglink.space.segment_build import (
    History,
    SegmentPlan,
    SpaceSource,
    TextEncoder,
    build_names,
    build_segment,
    names_segment,
    vectors_there,
)
from kglink.space.space import BackendOf, row_spans

#: So few vectors are made at once: names are not published before them.
FEW_VECTORS = 1000
#: Segments of smaller KBs are made anew: that takes but a moment.
LEAST_IN_LAYERS = 2000
#: A layer stands on a segment that holds at least so many times as many entities itself.
LAYER_SHARE = 8


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What a build did."""

    manifest: SpaceManifest
    encoded_rows: int
    reused_rows: int
    truncated_texts: int
    index_bytes: int


def build_space(
    folder: SpaceFolder,
    sources: Sequence[SpaceSource],
    model: ModelInfo,
    encoder: TextEncoder,
    backend_of: BackendOf,
    settings: SpaceSection,
    *,
    recorded_settings: Mapping[str, Any],
    replaces: Collection[str] = (),
    fresh: bool = False,
    progress: OnProgress = lambda _: None,
) -> BuildReport:
    """Build and publish the space of these KBs, reusing whatever is still right.

    ``fresh`` reuses nothing; readers keep the old version until the new one is whole all the same.
    ``replaces``: the models whose space it may replace; none: whichever is published.
    """
    publish = _publisher(folder, model, settings, backend_of, recorded_settings, progress)
    if not sources:
        raise SpaceError("there is no KB with entities yet", hint="Run `kglink add-kb` first.")
    with folder.writing(replaces):
        maker = _SegmentMaker(folder, model, encoder, settings, fresh, progress)
        segments = maker.names_first(sources)
        if segments and not answers_by_names(folder, sources, model, settings):
            publish(segments)
        # An exact index is its rows; others take long to build, and are built once.
        by_steps = bool(segments)
        waiting = [
            one for one in sources if one.kb not in segments or not segments[one.kb].info.rows
        ]
        for source in waiting:
            segments[source.kb] = maker.segment(source)
            by_steps = by_steps and _index_for(folder, settings, segments).name == DEFAULT_INDEX
            if by_steps and source is not waiting[-1]:
                publish(segments)
        manifest = publish(segments)
        folder.drop_segments(folder.segment_folders(manifest).__contains__)
    made = maker.made
    encoded = sum(info.row_total - info.reused_rows for info in made)
    return BuildReport(
        manifest=manifest,
        encoded_rows=encoded,
        reused_rows=sum(one.info.row_total for one in segments.values()) - encoded,
        truncated_texts=sum(info.truncated_texts for info in made),
        index_bytes=manifest.index_bytes,
    )


def publish_names(
    folder: SpaceFolder,
    sources: Sequence[SpaceSource],
    model: ModelInfo,
    encoder: TextEncoder,
    backend_of: BackendOf,
    settings: SpaceSection,
    *,
    recorded_settings: Mapping[str, Any],
    replaces: Collection[str] = (),
    progress: OnProgress = lambda _: None,
) -> bool:
    """Publish the space with its new KBs by their names alone; what it holds is brought up to date.

    False: nothing was published, because no KB is new or a build takes but a moment.
    """
    publish = _publisher(folder, model, settings, backend_of, recorded_settings, progress)
    with folder.writing(replaces):
        maker = _SegmentMaker(folder, model, encoder, settings, False, progress)
        first = maker.names_first(sources)
        if first:
            kept = folder.segment_folders(publish(first))
            kept |= {plan_of(source, model, settings).draft_name for source in sources}
            folder.drop_segments(kept.__contains__)
    return bool(first)


def _publisher(
    folder: SpaceFolder,
    model: ModelInfo,
    settings: SpaceSection,
    backend_of: BackendOf,
    recorded_settings: Mapping[str, Any],
    progress: OnProgress,
) -> Callable[[Mapping[str, Segment]], SpaceManifest]:
    """What puts some segments, their vectors indexed, in the place of the version before."""
    # Asked for now: an index that cannot be made must not be found out after an hour of encoding.
    backend_of(*chosen_index(settings, folder.usable_manifest()))

    def publish(segments: Mapping[str, Segment]) -> SpaceManifest:
        spans = row_spans(segments)
        index = _index_for(folder, settings, segments)
        indexed = {
            kb: one.indexed.folder.name for kb, one in segments.items() if one.indexed is not one
        }
        # An index of the segments below is that of the version before.
        before = folder.usable_manifest() if indexed else None
        kept = None
        if before is not None and (
            spans == before.spans
            and before.segments | before.indexed
            == {kb: one.indexed.folder.name for kb, one in segments.items()}
            and (before.index, before.index_settings) == (index.name, index.settings)
            and folder.has_whole_index()
        ):
            kept = folder.current
        with folder.new_version() as version:
            file = None
            if kept is not None and before is not None and before.index_file is not None:
                file = before.index_file
                link_or_copy(kept / INDEX_FILE, version / INDEX_FILE)
            elif spans:
                progress(Progress("building the index"))
                vectors = vector_batches(segments.values())
                backend = backend_of(index.name, index.settings)
                backend.build(vectors, model.dim).save(version / INDEX_FILE)
                file = file_info(version / INDEX_FILE)
            manifest = SpaceManifest(
                name=folder.name,
                created=now(),
                model=model,
                segments={kb: segment.folder.name for kb, segment in segments.items()},
                revisions={kb: segment.info.revision for kb, segment in segments.items()},
                spans=spans,
                index=index.name,
                index_settings=dict(index.settings),
                index_file=file,
                indexed=indexed,
                words=all(segment.words is not None for segment in segments.values()),
                settings=dict(recorded_settings),
                libraries=library_versions(),
            )
            write_version(version, manifest)
        if kept is not None and folder.current is not None:
            # The file looks as if it were touched, since the version before that had it is gone.
            note_checked(folder.current, index_files(manifest))
        return manifest

    return publish


def _index_for(
    folder: SpaceFolder, settings: SpaceSection, segments: Mapping[str, Segment]
) -> IndexChoice:
    """The index that a space of these segments gets."""
    spans = row_spans(segments)
    return chosen_index(settings, folder.usable_manifest(), spans[-1].stop if spans else 0)


def make_segment(
    folder: SpaceFolder,
    source: SpaceSource,
    model: ModelInfo,
    encoder: TextEncoder,
    settings: SpaceSection,
    *,
    progress: OnProgress = lambda _: None,
) -> Segment:
    """One KB's segment, made where it is missing: the next build finds it ready."""
    with folder.writing():
        return _SegmentMaker(folder, model, encoder, settings, False, progress).segment(source)


def has_segment(
    folder: SpaceFolder, source: SpaceSource, model: ModelInfo, settings: SpaceSection
) -> bool:
    """Whether a build would find the KB's segment ready."""
    return (folder.segments / wanted_folder(source, model, settings) / INFO_FILE).is_file()


def plan_of(source: SpaceSource, model: ModelInfo, settings: SpaceSection) -> SegmentPlan:
    """The segment that a KB needs with these settings."""
    chars, words = settings.description_chars, settings.words == "yes"
    return SegmentPlan(source, row_kinds(settings), model, chars, words)


def row_kinds(settings: SpaceSection) -> tuple[RowKind, ...]:
    """The rows that the settings name, else all that there are."""
    return tuple(sorted(set(settings.rows or ROW_KINDS), reverse=True))


def wanted_folder(source: SpaceSource, model: ModelInfo, settings: SpaceSection) -> str:
    """The name of the segment that a KB should have in the space."""
    return plan_of(source, model, settings).folder_name


def is_current(
    folder: SpaceFolder, sources: Sequence[SpaceSource], model: ModelInfo, settings: SpaceSection
) -> bool:
    """Whether the published version is what a build would make now."""
    manifest = folder.usable_manifest()
    if manifest is None:
        return False
    wanted = {source.kb: wanted_folder(source, model, settings) for source in sources}
    return (
        manifest.segments == wanted
        and list(manifest.segments) == list(wanted)
        and all((folder.segments / name).is_dir() for name in wanted.values())
        and (manifest.index, manifest.index_settings) == chosen_index(settings, manifest)
    )


def answers_by_names(
    folder: SpaceFolder, sources: Sequence[SpaceSource], model: ModelInfo, settings: SpaceSection
) -> bool:
    """Whether the published version has all that a build would make, but for vectors."""
    manifest = folder.usable_manifest()
    if manifest is None or list(manifest.segments) != [source.kb for source in sources]:
        return False
    plans = [plan_of(source, model, settings) for source in sources]
    return all(
        manifest.segments[plan.kb] in (plan.folder_name, plan.names_alone.folder_name)
        and (folder.segments / manifest.segments[plan.kb]).is_dir()
        for plan in plans
    )


def vectors_done(
    folder: SpaceFolder, sources: Sequence[SpaceSource], model: ModelInfo, settings: SpaceSection
) -> tuple[int, int]:
    """How many vectors of the published KBs are there, and how many there will be."""
    done = wanted = 0
    manifest = folder.published_manifest()
    for source in (one for one in sources if one.kb in manifest.segments):
        info = read_part(SegmentInfo, folder.segments / manifest.segments[source.kb] / INFO_FILE)
        plan = plan_of(source, model, settings)
        rows = info.model_copy(update={"rows": plan.rows}).row_total
        done += rows if info.rows else vectors_there(plan, folder.segments)
        wanted += rows
    return done, wanted


@dataclass(frozen=True, slots=True)
class _SegmentMaker:
    """Finds or makes the segments of one build."""

    folder: SpaceFolder
    model: ModelInfo
    encoder: TextEncoder
    settings: SpaceSection
    fresh: bool
    progress: OnProgress
    made: list[SegmentInfo] = field(default_factory=list)
    """What had to be made."""

    def names_first(self, sources: Sequence[SpaceSource]) -> dict[str, Segment]:
        """The segments of all KBs, those of new ones without vectors; empty: a build is as quick.

        New are the KBs of which the published version holds no vectors.
        """
        if self.fresh:
            return {}
        root, manifest = self.folder.segments, self.folder.usable_manifest()
        held = set(manifest.kbs).difference(manifest.names_alone) if manifest else set()
        plans = [plan_of(source, self.model, self.settings) for source in sources]
        new = {
            plan.kb: plan
            for plan in plans
            if plan.kb not in held and not self._found(root / plan.folder_name)
        }
        rows = 0
        for plan in new.values():
            if below := self._below(plan.names_alone):
                rows += below.info.model_copy(update={"rows": plan.rows}).row_total
            else:
                rows += build_names(plan, root, progress=self.progress) - vectors_there(plan, root)
        if rows <= FEW_VECTORS:
            return {}
        return {
            plan.kb: self._names_segment(plan) if plan.kb in new else self.segment(plan.source)
            for plan in plans
        }

    def segment(self, source: SpaceSource) -> Segment:
        """The segment of a KB, made where it is missing."""
        return self._segment(plan_of(source, self.model, self.settings))

    def _segment(self, plan: SegmentPlan) -> Segment:
        if found := self._found(self.folder.segments / plan.folder_name):
            return found
        history, below = plan.source.history, self._below(plan)
        if history is not None and below is not None:
            layered = self._built(replace(plan, below=below))
            if layered.info.entities == history.entities:
                return layered
            self.made.pop()  # The store has another past than this segment knows.
        return self._built(plan)

    def _built(self, plan: SegmentPlan) -> Segment:
        previous = () if self.fresh else self._previous(plan)
        build_segment(
            plan,
            self.encoder,
            self.folder.segments,
            previous=previous,
            fresh=self.fresh,
            progress=self.progress,
        )
        segment = open_segment(self.folder.segments / plan.folder_name)
        self.made.append(segment.info)
        return segment

    def _below(self, plan: SegmentPlan) -> Segment | None:
        """The segment on which a layer with what has changed can stand; None: all is made anew.

        Each layer holds a small share of what the one below it holds, so that there are few, and
        an entity is written again in few of the updates that follow.
        """
        history, trained = plan.source.history, self.encoder.trained
        if self.fresh or history is None or history.entities < LEAST_IN_LAYERS:
            return None
        if plan.words or (trained is not None and trained.compares_tokens):
            return None
        segment = self._published(plan.kb)
        if segment is None or not _fits(segment, plan, history):
            return None
        while True:
            changed = history.count(segment.info.last_id, segment.info.revision)
            if changed is None:
                return None
            # Even what changed nothing takes the place of a layer without entities.
            if max(changed, 1) * LAYER_SHARE <= len(segment.layers[0].keys):
                return segment
            if not isinstance(segment, LayeredSegment):
                return None
            segment = segment.below

    def _names_segment(self, plan: SegmentPlan) -> Segment:
        """The segment of a KB's names, made where it is missing."""
        alone = plan.names_alone
        found = self._found(self.folder.segments / alone.folder_name)
        if found or self._below(alone):
            return found or self._segment(alone)
        return Segment(names_segment(plan, self.folder.segments))

    def _found(self, path: Path) -> Segment | None:
        """A segment, where it is there and whole."""
        if not self.fresh and (path / INFO_FILE).is_file():
            with contextlib.suppress(DamagedSpaceError):
                return open_segment(path)
        return None

    def _published(self, kb: str) -> Segment | None:
        """The KB's published segment, where it is whole."""
        manifest = self.folder.usable_manifest()
        if manifest is None or kb not in manifest.segments:
            return None
        return self._found(self.folder.segments / manifest.segments[kb])

    def _previous(self, plan: SegmentPlan) -> Sequence[Segment]:
        """The KB's published segment, or its newest where none is, to copy vectors from.

        A layer copies from those in whose place it comes: the others are below it.
        """
        if self.folder.usable_manifest() is not None:
            published = self._published(plan.kb)
            layers = published.layers if published else []
            return layers[: len(layers) - len(plan.below.layers)] if plan.below else layers
        for name in self._made_segments(plan.kb):
            if found := self._found(self.folder.segments / name):
                return found.layers
        return ()

    def _made_segments(self, kb: str) -> list[str]:
        """The finished segments of a KB, the newest first."""
        made = [
            path
            for path in self.folder.segments.glob(f"{kb}-*/{INFO_FILE}")
            if path.parent.name.rpartition("-")[0] == kb
        ]
        made.sort(key=lambda path: path.stat().st_mtime, reverse=True)
        return [path.parent.name for path in made]


def _fits(segment: Segment, plan: SegmentPlan, history: History) -> bool:
    """Whether a segment was made like one of a plan, of an earlier revision of the same KB."""
    info = segment.info
    return (
        (info.store, info.rows, info.model.fingerprint, info.description_chars)
        == (history.store, plan.rows, plan.model.fingerprint, plan.description_chars)
        and info.revision <= plan.source.revision
        and 0 <= info.last_id <= history.last_id
        and segment.words is None
    )
