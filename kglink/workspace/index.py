"""The index of a workspace's space: changed without encoding, and measured against exact search."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kglink.errors import UsageError
from kglink.plugins import IndexBackend, VectorIndex
from kglink.records import OnProgress
from kglink.space.index_change import (
    IndexChange,
    change_index,
    has_whole_index,
    published_manifest,
    trial_index,
)
from kglink.space.index_choice import DEFAULT_INDEX, IndexChoice
from kglink.space.recall import PartFigures, measure_index
from kglink.space.space import SpaceFolder
from kglink.space.token_rows import BITS_FILE
from kglink.workspace.index_queries import index_queries
from kglink.workspace.index_wish import (
    IndexWish,
    Value,
    differences,
    is_search_only,
    refuse_to_be_undone,
    wished_index,
    words,
)
from kglink.workspace.joint_space import SPACES_FOLDER
from kglink.workspace.links import reader_of

if TYPE_CHECKING:
    from kglink.space.space import Space
    from kglink.workspace.workspace import Workspace

#: Queries of a measurement where nobody says how many.
QUERIES = 256

Stage = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class IndexFigures:
    """An index of a space beside exact search on the same vectors."""

    index: IndexChoice
    bytes: int
    exact_bytes: int
    build_seconds: float | None
    """None where it was there already."""
    queries: int
    asked: str
    """What the queries are."""
    parts: tuple[PartFigures, ...]

    def as_json(self) -> dict[str, object]:
        """A plain dictionary for machine-readable output."""
        return {
            "index": self.index.name,
            "index_settings": dict(self.index.settings),
            "bytes": self.bytes,
            "exact_bytes": self.exact_bytes,
            "build_seconds": self.build_seconds,
            "queries": self.queries,
            "asked": self.asked,
            "parts": [part.as_json() for part in self.parts],
        }


def is_never_asked(workspace: Workspace) -> bool:
    """Whether no search uses the space's index: all of its rows are texts, compared by tokens."""
    folder = SpaceFolder(workspace.folder / SPACES_FOLDER, workspace.settings.space.name)
    manifest = published_manifest(folder)
    by_tokens = all(
        (folder.segments / name / BITS_FILE).is_file() for name in manifest.segments.values()
    )
    return by_tokens and all(span.kind == "text" for span in manifest.spans)


def change_space_index(
    workspace: Workspace, wish: IndexWish, *, stage: Stage = lambda text: None
) -> IndexChange | None:
    """Give the space another index and publish it; None where it has it already."""
    folder, registry = workspace.joint_space.folder, workspace.registry
    manifest = published_manifest(folder)
    has = IndexChoice(manifest.index, manifest.index_settings)
    wanted = wished_index(registry, wish, has)
    changed = differences(registry, has, wanted)
    whole = has_whole_index(folder)
    if whole and changed == set():
        return None
    refuse_to_be_undone(workspace.resolved, manifest, wanted)
    keep = whole and changed is not None and is_search_only(registry, wanted.name, changed)
    stage(f"{'opening' if keep else 'building'} {words(wanted)}")
    return change_index(folder, wanted, _Backends(workspace), keep_file=keep)


def measure_space_index(
    workspace: Workspace,
    wish: IndexWish | None = None,
    *,
    queries: int = QUERIES,
    stage: Stage = lambda text: None,
    progress: OnProgress = lambda _: None,
) -> IndexFigures:
    """Compare the space's index, or one that is wished for and not published, with exact search."""
    if queries < 1:
        raise UsageError(f"{queries} queries measure nothing", hint="--queries 256")
    space = workspace.space()
    with _under_test(workspace, space, wish or IndexWish(), stage) as tested:
        stage("encoding queries")
        asker = reader_of(workspace.encoder, workspace.settings.link.window_chars)
        asked = index_queries(workspace.store, space, asker, queries)
        with _exact(workspace, tested, stage) as exact:
            stage("measuring")
            parts = measure_index(space, tested.index, exact.index, asked, progress=progress)
    return IndexFigures(
        index=tested.choice,
        bytes=tested.bytes,
        exact_bytes=exact.bytes,
        build_seconds=tested.seconds,
        queries=asked.count,
        asked=asked.what,
        parts=tuple(parts),
    )


@dataclass(frozen=True, slots=True)
class _Tested:
    choice: IndexChoice
    index: VectorIndex
    bytes: int
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class _Backends:
    """Finds back ends by their names."""

    workspace: Workspace

    def __call__(self, name: str, settings: Mapping[str, Value]) -> IndexBackend:
        return self.workspace.registry.create("index", name, settings)


@contextmanager
def _under_test(
    workspace: Workspace, space: Space, wish: IndexWish, stage: Stage
) -> Iterator[_Tested]:
    """The index of the space, or the one that is wished for."""
    manifest, registry = space.manifest, workspace.registry
    has = IndexChoice(manifest.index, manifest.index_settings)
    wanted = wished_index(registry, wish, has)
    if differences(registry, has, wanted) == set():
        yield _Tested(has, space.index, manifest.index_file.bytes)
        return
    stage(f"building {words(wanted)} for a trial")
    with trial_index(space.folder, wanted, _Backends(workspace)) as trial:
        yield _Tested(wanted, trial.index, trial.bytes, trial.seconds)


@contextmanager
def _exact(workspace: Workspace, tested: _Tested, stage: Stage) -> Iterator[_Tested]:
    """An exact index of the same vectors; the tested one where it is exact itself."""
    if tested.index.exact:
        yield tested
        return
    stage("building an exact index to compare with")
    choice = IndexChoice(DEFAULT_INDEX, {})
    with trial_index(workspace.joint_space.folder, choice, _Backends(workspace)) as trial:
        yield _Tested(choice, trial.index, trial.bytes, trial.seconds)
