"""The joint space of a workspace: what it should hold, building it, opening it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kglink.config import ResolvedSettings, SpaceSection
from kglink.errors import SpaceError
from kglink.records import Entity
from kglink.registry import Registry
from kglink.space.build import (
    BuildProgress,
    BuildReport,
    SpaceSource,
    build_space,
    is_current,
    plan_of,
)
from kglink.space.space import Space, SpaceFolder
from kglink.workspace.encoder import LazyEncoder

if TYPE_CHECKING:
    from kglink.protocols import IndexBackend
    from kglink.store import KBInfo, Store

SPACES_FOLDER = "spaces"


@dataclass(frozen=True, slots=True)
class WorkspaceSpace:
    """The space that the settings name, over all KBs of the store."""

    root: Path
    store: Store
    encoder: LazyEncoder
    registry: Registry
    resolved: ResolvedSettings

    @property
    def folder(self) -> SpaceFolder:
        """Where it lies."""
        return SpaceFolder(self.root / SPACES_FOLDER, self._section.name)

    def is_current(self) -> bool:
        """Whether the published space holds just what the store holds now."""
        return is_current(self.folder, list(self._sources()), self.encoder.info, self._section)

    def expected_rows(self) -> int | None:
        """About how many vectors a build will go through; None where nothing is left to do."""
        manifest = self.folder.manifest()
        ready = set(manifest.segments.values()) if manifest else set()
        infos = {info.name: info for info in self.store.kbs()}
        rows = 0
        for source in self._sources():
            if plan_of(source, self.encoder.info, self._section).folder_name not in ready:
                info = infos[source.kb]
                rows += info.entities * ("text" in self._section.rows)
                rows += info.aliases * ("alias" in self._section.rows)
        return rows or None

    def discard(self) -> None:
        """Remove it with all its files."""
        if self.folder.path.exists():
            shutil.rmtree(self.folder.path)

    def build(self, *, progress: BuildProgress = lambda kb, rows: None) -> BuildReport:
        """Build and publish it; only what changed is encoded."""
        return build_space(
            self.folder,
            list(self._sources()),
            self.encoder.info,
            self.encoder,
            self._index_backend,
            self._section,
            recorded_settings=self.resolved.as_dict(),
            progress=progress,
        )

    def open(self) -> Space:
        """The published version; vectors of another model than the settings name are refused."""
        space = Space(self.folder, self._index_backend)
        if space.manifest.model.fingerprint != self.encoder.info.fingerprint:
            raise SpaceError(
                f"space {space.folder.name!r} was made by another model "
                f"({space.manifest.model.name}) than the settings name "
                f"({self.encoder.info.name})",
                hint="Set encoder.model back, or rebuild the space with `kglink build`.",
            )
        return space

    @property
    def _section(self) -> SpaceSection:
        return self.resolved.values.space

    def _index_backend(
        self, name: str, settings: Mapping[str, str | int | float | bool]
    ) -> IndexBackend:
        return self.registry.create("index", name, settings)

    def _sources(self) -> Iterator[SpaceSource]:
        for info in self.store.kbs():
            if not info.entities:
                continue
            if not info.complete:
                raise SpaceError(
                    f"KB {info.name!r} is half-way through an update",
                    hint="Finish it: run the same `kglink add-kb` again.",
                )
            yield SpaceSource(
                kb=info.name,
                revision=info.revision,
                content=_content(info),
                licence=info.licence,
                entities=partial(self._entities, info.name),
                unchanged=partial(self._is_still, info),
            )

    def _entities(self, kb: str) -> Iterator[Entity]:
        return (row.entity for row in self.store.entities(kb))

    def _is_still(self, before: KBInfo) -> bool:
        return _content(self.store.kb(before.name)) == _content(before)


def _content(info: KBInfo) -> str:
    return f"{info.revision} {info.updated_at} {info.complete}"
