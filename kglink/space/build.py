"""Building a space: a segment for each KB, one joint index over all, published at once.

KBs that the space does not hold yet, and that take more than a moment to encode, are published by
their names first: in segments without vectors, in whose places the whole ones come. Readers see
the old version until the file ``CURRENT`` is replaced; kill -9 at any moment leaves that version
readable and the finished segments (and the vectors of an unfinished one) to be found by the next
build.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
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
    write_index,
    write_version,
)
from kglink.space.layers import LayeredSegment, open_segment
from kglink.space.manifest import (
    ROW_KINDS,
    RowKind,
    RowSpan,
    SegmentInfo,
    SpaceManifest,
    read_part,
)
from kglink.space.segment import INFO_FILE, Segment
from kglink.space.segment_build import (
    build_names,
    build_segment,
    fullest_draft,
    names_segment,
    vectors_in,
)
from kglink.space.segment_plan import SegmentPlan, SpaceSource
from kglink.space.segment_vectors import EncodeBlocks, TextEncoder
from kglink.space.space import BackendOf, row_spans

#: To make up to this many vectors, names are not published first.
FEW_VECTORS = 1000
#: With an exact index, smaller KBs get no layers: building anew takes a moment.
LEAST_IN_LAYERS = 2000
#: The segment below must itself hold at least this many times the changed entities.
LAYER_SHARE = 8


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What a build did."""

    manifest: SpaceManifest
    encoded_rows: int
    reused_rows: int
    truncated_texts: int
    index_bytes: int


def row_kinds(settings: SpaceSection) -> tuple[RowKind, ...]:
    """The rows that the settings name, else all that there are."""
    return tuple(sorted(set(settings.rows or ROW_KINDS), reverse=True))


@dataclass(frozen=True, slots=True)
class SpaceBuild:
    """A space that is to hold some KBs by one model: how much of it is there, and making it.

    ``fresh`` reuses nothing; readers keep the old version until the new one is whole all the same.
    ``replaces``: the models whose space it may replace; none: whichever is published.
    """

    folder: SpaceFolder
    sources: Sequence[SpaceSource]
    model: ModelInfo
    encoder: TextEncoder
    settings: SpaceSection
    backend_of: BackendOf
    recorded_settings: Mapping[str, Any] = field(default_factory=dict)
    replaces: Collection[str] = ()
    fresh: bool = False
    progress: OnProgress = lambda _: None
    encode_blocks: EncodeBlocks | None = None
    """Encodes rows elsewhere; None: they are encoded here."""
    made: list[SegmentInfo] = field(default_factory=list)
    """The segments that had to be made."""

    # ------------------------------------------------------------------------ what is there
    def plan_of(self, source: SpaceSource) -> SegmentPlan:
        """The segment that a KB needs with these settings."""
        chars, words = self.settings.description_chars, self.settings.words == "yes"
        return SegmentPlan(source, row_kinds(self.settings), self.model, chars, words)

    @property
    def plans(self) -> list[SegmentPlan]:
        """The segments that all KBs need."""
        return list(map(self.plan_of, self.sources))

    def has_segment(self, source: SpaceSource) -> bool:
        """Whether a build would find the KB's segment ready."""
        return (self.folder.segments / self.plan_of(source).folder_name / INFO_FILE).is_file()

    def is_current(self) -> bool:
        """Whether the published version is what a build would make now."""
        manifest = self.folder.usable_manifest()
        if manifest is None:
            return False
        wanted = {plan.kb: plan.folder_name for plan in self.plans}
        return (
            list(manifest.segments.items()) == list(wanted.items())
            and all((self.folder.segments / name).is_dir() for name in wanted.values())
            and (manifest.index, manifest.index_settings) == chosen_index(self.settings, manifest)
        )

    def answers_by_names(self) -> bool:
        """Whether the published version has all that a build would make, but for vectors."""
        manifest, plans = self.folder.usable_manifest(), self.plans
        if manifest is None or list(manifest.segments) != [plan.kb for plan in plans]:
            return False
        return all(
            manifest.segments[plan.kb] in (plan.folder_name, plan.names_alone.folder_name)
            and (self.folder.segments / manifest.segments[plan.kb]).is_dir()
            for plan in plans
        )

    def vectors_done(self) -> tuple[int, int]:
        """How many vectors of the published KBs are there, and how many there will be."""
        root = self.folder.segments

        def read() -> tuple[int, int]:
            done = wanted = 0
            manifest = self.folder.published_manifest()
            for plan in (one for one in self.plans if one.kb in manifest.segments):
                info = read_part(SegmentInfo, root / manifest.segments[plan.kb] / INFO_FILE)
                rows = info.model_copy(update={"rows": plan.rows}).row_total
                done += rows if info.rows else vectors_in(root / plan.draft_name, plan)
                wanted += rows
            return done, wanted

        return self.folder.reading(read)

    # --------------------------------------------------------------------------- publishing
    def build(self) -> BuildReport:
        """Build and publish the space of the KBs, reusing whatever is still right."""
        # Made now: that an index cannot be must not be found out after hours of encoding.
        self.backend_of(*self._index_of())
        if not self.sources:
            raise SpaceError("there is no KB with entities yet", hint="Run `kglink add-kb` first.")
        with self.folder.writing(self.replaces):
            segments = self._names_first()
            if segments and not self.answers_by_names():
                self._publish(segments)
            by_steps = bool(segments)
            waiting = [
                plan
                for plan in self.plans
                if plan.kb not in segments or not segments[plan.kb].info.rows
            ]
            for plan in waiting:
                segments[plan.kb] = self._segment(plan)
                # An exact index is its rows; others take long to build, and are built once.
                if (
                    by_steps
                    and plan is not waiting[-1]
                    and self._index_of(row_spans(segments)).name == DEFAULT_INDEX
                ):
                    self._publish(segments)
            manifest = self._publish(segments)
            self.folder.drop_segments(self.folder.segment_folders(manifest))
        encoded = sum(info.row_total - info.reused_rows for info in self.made)
        return BuildReport(
            manifest=manifest,
            encoded_rows=encoded,
            reused_rows=sum(one.info.row_total for one in segments.values()) - encoded,
            truncated_texts=sum(info.truncated_texts for info in self.made),
            index_bytes=manifest.index_bytes,
        )

    def publish_names(self) -> bool:
        """Publish the space with its new KBs by their names alone, and the others up to date.

        False: nothing was published, because no KB is new or a build takes but a moment.
        """
        self.backend_of(*self._index_of())
        with self.folder.writing(self.replaces):
            first = self._names_first()
            if first:
                kept = self.folder.segment_folders(self._publish(first))
                kept |= {plan.draft_name for plan in self.plans}
                left = (fullest_draft(plan, self.folder.segments) for plan in self.plans)
                kept |= {draft.name for draft in left if draft}
                self.folder.drop_segments(kept)
        return bool(first)

    def make_segment(self, source: SpaceSource) -> Segment:
        """One KB's segment, made where it is missing: the next build finds it ready."""
        with self.folder.writing():
            return self._segment(self.plan_of(source))

    def _index_of(self, spans: Sequence[RowSpan] = ()) -> IndexChoice:
        """The index that a space of these rows gets."""
        manifest = self.folder.usable_manifest()
        return chosen_index(self.settings, manifest, spans[-1].stop if spans else 0)

    def _publish(self, segments: Mapping[str, Segment]) -> SpaceManifest:
        """Put some segments, their vectors indexed, in the place of the version before."""
        spans = row_spans(segments)
        index = self._index_of(spans)
        lowest = {kb: one.indexed.folder.name for kb, one in segments.items()}
        indexed = {kb: name for kb, name in lowest.items() if name != segments[kb].folder.name}
        # An index of the segments below is that of the version before.
        before = self.folder.usable_manifest() if indexed else None
        kept = None
        if before is not None and (
            spans == before.spans
            and before.segments | before.indexed == lowest
            and (before.index, before.index_settings) == index
            and self.folder.has_whole_index()
        ):
            kept = before.index_file
        with self.folder.new_version() as version:
            file = kept
            if kept:
                link_or_copy(self.folder.published()[0] / INDEX_FILE, version / INDEX_FILE)
            elif spans:
                self.progress(Progress("building the index"))
                path, shape = version / INDEX_FILE, (spans[-1].stop, self.model.dim)
                write_index(index, self.backend_of, path, segments.values(), shape)
                file = file_info(version / INDEX_FILE)
            manifest = SpaceManifest(
                name=self.folder.name,
                created=now(),
                model=self.model,
                segments={kb: segment.folder.name for kb, segment in segments.items()},
                revisions={kb: segment.info.revision for kb, segment in segments.items()},
                spans=spans,
                index=index.name,
                index_settings=dict(index.settings),
                index_file=file,
                indexed=indexed,
                words=all(segment.words is not None for segment in segments.values()),
                settings=dict(self.recorded_settings),
                libraries=library_versions(),
            )
            write_version(version, manifest)
        if kept:
            # The file looks touched, since the version before that had it is gone.
            note_checked(self.folder.published()[0], index_files(manifest))
        return manifest

    # ----------------------------------------------------------------------------- segments
    def _names_first(self) -> dict[str, Segment]:
        """The segments of all KBs, those of new ones without vectors; empty: a build is as quick.

        New are the KBs of which the published version holds no vectors.
        """
        if self.fresh:
            return {}
        root, manifest = self.folder.segments, self.folder.usable_manifest()
        held = set(manifest.kbs).difference(manifest.names_alone) if manifest else set()
        plans = self.plans
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
                rows += build_names(plan, root, progress=self.progress)
                rows -= vectors_in(root / plan.draft_name, plan)
        if rows <= FEW_VECTORS:
            return {}
        segments = {}
        for plan in plans:
            alone = plan.names_alone
            if plan.kb not in new:
                segments[plan.kb] = self._segment(plan)
            elif self._below(alone) or self._found(root / alone.folder_name):
                segments[plan.kb] = self._segment(alone)
            else:
                segments[plan.kb] = Segment(names_segment(plan, root, self.progress))
        return segments

    def _segment(self, plan: SegmentPlan) -> Segment:
        if found := self._found(self.folder.segments / plan.folder_name):
            return found
        if below := self._below(plan):
            layered = self._built(replace(plan, below=below))
            if layered.info.entities == plan.source.size:
                return layered
            self.made.pop()  # The store's history is not this segment's.
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
            encode_blocks=self.encode_blocks,
        )
        segment = open_segment(self.folder.segments / plan.folder_name)
        self.made.append(segment.info)
        return segment

    def _below(self, plan: SegmentPlan) -> Segment | None:
        """The segment on which a layer with what has changed can stand; None: all is made anew.

        Each layer holds a small share of what the one below it holds, so that there are few, and
        an entity is written again in few of the updates that follow. An index that is not exact
        takes long to build, so the first layer may be as large as a KB that is made anew.
        """
        source, trained = plan.source, self.encoder.trained
        if self.fresh or not source.store or plan.words or (trained and trained.compares_tokens):
            return None
        is_exact = self._index_of().name == DEFAULT_INDEX
        if is_exact and source.size < LEAST_IN_LAYERS:
            return None
        segment = self._published(plan.kb)
        if segment is None or not _fits(segment, plan):
            return None
        while True:
            changed = source.count_changes(segment.info.last_id, segment.info.revision)
            if changed is None:
                return None
            # Even what changed nothing takes the place of a layer without entities.
            if max(changed, 1) * LAYER_SHARE <= len(segment.layers[0].keys):
                return segment
            if not isinstance(segment, LayeredSegment):
                return None if is_exact or changed > LEAST_IN_LAYERS else segment
            segment = segment.below

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
        made = self.folder.segments.glob(f"{plan.kb}-*/{INFO_FILE}")
        for path in sorted(made, key=lambda path: path.stat().st_mtime, reverse=True):
            of_kb = path.parent.name.rpartition("-")[0] == plan.kb
            if of_kb and (found := self._found(path.parent)):
                return found.layers
        return ()


def _fits(segment: Segment, plan: SegmentPlan) -> bool:
    """Whether a segment was made like one of a plan, of an earlier revision of the same KB."""
    info, source = segment.info, plan.source
    return (
        (info.store, info.rows, info.model.fingerprint, info.description_chars)
        == (source.store, plan.rows, plan.model.fingerprint, plan.description_chars)
        and info.revision <= source.revision
        and 0 <= info.last_id <= source.last_id
        and segment.words is None
    )
