"""The spaces of a workspace: what each is, and deleting one."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kglink.errors import KglinkError, SpaceError, UnknownNameError
from kglink.space.index_change import published_manifest
from kglink.space.manifest import SegmentInfo, SpaceManifest, read_part
from kglink.space.publish import build_lock, told_of_full_disks
from kglink.space.segment import INFO_FILE
from kglink.space.space import SpaceFolder, space_names
from kglink.workspace.joint_space import SPACES_FOLDER, WorkspaceSpace
from kglink.workspace.space_model import space_encoder

if TYPE_CHECKING:
    from kglink.workspace.workspace import Workspace

#: Below the spaces, so that what lies in it is none: a deleted space until it is gone.
_TRASH = ".trash"
_RUN_MODEL = re.compile(r"runs/([^/]+)/model")


@dataclass(frozen=True, slots=True)
class KBShare:
    """What a space has of one KB."""

    kb: str
    revision: int
    entities: int
    rows: int


@dataclass(frozen=True, slots=True)
class SpaceSummary:
    """What a published space is; where it is ``damaged``, what can be said all the same."""

    name: str
    used: bool
    """Whether the settings name it."""
    bytes: int
    """Everything in its folder."""
    kbs: tuple[KBShare, ...] = ()
    rows: int = 0
    kinds: tuple[str, ...] = ()
    model: str = ""
    fingerprint: str = ""
    dim: int = 0
    run: str = ""
    """The run that made its model; empty for an untrained one."""
    index: str = ""
    index_settings: Mapping[str, str | int | float | bool] | None = None
    index_bytes: int = 0
    created: str = ""
    version: str = ""
    current: bool | None = None
    """Whether a build would leave it as it is; None where nobody can say."""
    problem: str = ""
    """Why it cannot be read, or why nobody can say whether it is current."""

    @property
    def entities(self) -> int:
        """Of all KBs together."""
        return sum(share.entities for share in self.kbs)

    def as_json(self) -> dict[str, object]:
        """A plain dictionary for machine-readable output."""
        return {**asdict(self), "entities": self.entities}


def list_spaces(workspace: Workspace) -> list[SpaceSummary]:
    """All published spaces by name."""
    return [_summary(workspace, name) for name in space_names(workspace.folder / SPACES_FOLDER)]


def read_space(workspace: Workspace, name: str) -> SpaceSummary:
    """One published space."""
    _folder_of(workspace, name)
    return _summary(workspace, name)


def delete_space(workspace: Workspace, name: str) -> None:
    """Remove a space at once and whole; whoever has it open goes on with it.

    While it is built, or its index is changed, it cannot be removed.
    """
    folder = _folder_of(workspace, name)
    trash = workspace.folder / SPACES_FOLDER / _TRASH
    with told_of_full_disks(folder), build_lock(folder):
        trash.mkdir(exist_ok=True)
        gone = trash / f"{name}-{os.getpid()}"
        folder.path.rename(gone)
    # What an earlier deletion did not come to remove goes as well.
    shutil.rmtree(trash)


def space_named(workspace: Workspace, name: str) -> WorkspaceSpace:
    """A space of the workspace, whichever the settings name."""
    if name == workspace.settings.space.name:
        return workspace.joint_space
    section = workspace.settings.space.model_copy(update={"name": name})
    values = workspace.settings.model_copy(update={"space": section})
    folder = SpaceFolder(workspace.folder / SPACES_FOLDER, name)
    return WorkspaceSpace(
        workspace.folder,
        workspace.store,
        space_encoder(workspace.folder, folder, values),
        workspace.registry,
        replace(workspace.resolved, values=values),
    )


def _folder_of(workspace: Workspace, name: str) -> SpaceFolder:
    root = workspace.folder / SPACES_FOLDER
    if name not in (known := space_names(root)):
        raise UnknownNameError("space", name, known, hint="`kglink spaces` lists all of them.")
    return SpaceFolder(root, name)


def _summary(workspace: Workspace, name: str) -> SpaceSummary:
    folder = SpaceFolder(workspace.folder / SPACES_FOLDER, name)
    summary = SpaceSummary(name, name == workspace.settings.space.name, _bytes(folder.path))
    try:
        manifest, version = published_manifest(folder), folder.current
        shares = tuple(_share(folder, manifest, kb) for kb in manifest.kbs)
    except SpaceError as error:
        return replace(summary, problem=error.message)
    run = _RUN_MODEL.fullmatch(manifest.model.path)
    current, problem = _currency(workspace, name)
    return replace(
        summary,
        kbs=shares,
        rows=manifest.spans[-1].stop,
        kinds=tuple(dict.fromkeys(span.kind for span in manifest.spans)),
        model=manifest.model.name,
        fingerprint=manifest.model.fingerprint,
        dim=manifest.model.dim,
        run=run.group(1) if run else "",
        index=_index_name(workspace, manifest.index),
        index_settings=manifest.index_settings,
        index_bytes=manifest.index_file.bytes,
        created=manifest.created,
        version=version.name if version else "",
        current=current,
        problem=problem,
    )


def _share(folder: SpaceFolder, manifest: SpaceManifest, kb: str) -> KBShare:
    info = read_part(SegmentInfo, folder.segments / manifest.segments[kb] / INFO_FILE)
    rows = sum(span.stop - span.start for span in manifest.spans if span.kb == kb)
    return KBShare(kb, manifest.revisions[kb], info.entities, rows)


def _currency(workspace: Workspace, name: str) -> tuple[bool | None, str]:
    """Whether a space is current, and why nobody can say."""
    try:
        return space_named(workspace, name).is_current(), ""
    except KglinkError as error:  # its model may be gone, and the list must show it all the same
        return None, error.message


def _index_name(workspace: Workspace, name: str) -> str:
    """The full name of an index; of one whose plugin is gone, what the space calls it."""
    known = workspace.registry.plugins("index")
    found = [one.name for one in known if name in (one.name, one.short_name)]
    return found[0] if len(found) == 1 else name


def _bytes(folder: Path) -> int:
    total = 0
    for parent, _, files in os.walk(folder):
        for name in files:
            try:
                total += (Path(parent) / name).stat().st_size
            except FileNotFoundError:  # a build has just published, and removed what was before
                continue
    return total
