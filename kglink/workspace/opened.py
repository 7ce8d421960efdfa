"""`Opened`: a workspace folder and what is open of it, kept between calls."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from copy import copy
from dataclasses import replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple, Self

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from kglink.config import AUTO, CONFIG_FILE, ResolvedSettings, Settings, load_settings
from kglink.errors import ConfigError, UsageError
from kglink.linking.corrected import corrected_texts
from kglink.linking.fit_clusterer import CHOICE_FILE
from kglink.linking.pipeline import Linker
from kglink.linking.scoring import SCORING_FILE
from kglink.linking.stages import Stage
from kglink.models import Encoder
from kglink.models.head_folder import TAGGER
from kglink.models.static_folder import STATIC
from kglink.plugins import Registry, TellsAfterwards, load_registry
from kglink.sources import Source, SourceLimits
from kglink.sources.encoding import checked_encoding
from kglink.space.folder import SpaceFolder
from kglink.space.space import Space
from kglink.store import Store
from kglink.text.printable import writable
from kglink.workspace.detectors import DetectorChoice, chosen_detector
from kglink.workspace.discoveries import names_of_discoveries
from kglink.workspace.folder import (
    DISCOVERIES_FILE,
    SPACES_FOLDER,
    find_workspace,
    init_workspace,
    named,
    named_workspace,
)
from kglink.workspace.joint_space import WorkspaceSpace, joint_space, student_of
from kglink.workspace.link_setup import Limits, LinkSetup, limited_to
from kglink.workspace.trust import check_store_file, check_trust

#: Linkers that are kept: to other KBs, or with more candidates.
MOST_LINKERS = 4
#: Files that a process may open where the system lets it: a space maps 20 of each KB.
_MOST_FILES = 65_536

#: Differs from one file to another that replaces it; None: there is no file.
Stamp = tuple[int, int, int] | None


class NamesAlone(NamedTuple):
    """KBs that answer by their names alone, because their vectors are not made yet."""

    kbs: Sequence[str]
    vectors: int
    """How many vectors of the space are made."""
    of: int


class Opened:
    """The settings, plugins, store, space and linkers of one workspace.

    Each is opened when it is first asked for, and kept. The space, its encoder and its linkers
    are opened anew once another version of the space has been published. Threads may share a
    workspace: they link side by side, and what they need is opened or built once.
    """

    def __init__(self, folder: Path, resolved: ResolvedSettings, registry: Registry) -> None:
        check_trust(folder, resolved, registry)
        _open_many_files()
        self.folder = folder
        self.resolved = resolved
        self.registry = registry
        #: Held while something is opened: threads may share a workspace.
        self.lock = RLock()
        #: Held while the space is built: meanwhile other threads go on with what is open.
        self.building = RLock()
        self.no_build_before, self.no_build_why = 0.0, ""
        """When a space that could not be written is tried again (monotonic clock), and why."""
        self._process = os.getpid()
        self._closing = ExitStack()
        self._joint_space: tuple[Stamp, WorkspaceSpace] | None = None
        self._space: tuple[Stamp, Space] | None = None
        self._student: tuple[Stamp, Encoder] | None = None
        self._limited: dict[object, tuple[Space, Space]] = {}
        self._linkers: dict[object, Linker] = {}
        #: Linkers that know people's corrections, each with the store state it knows.
        self._corrected: dict[object, tuple[object, Linker]] = {}
        #: Linkers by KBs and limits, each with the state it was made of.
        self.fresh_linkers: dict[object, tuple[object, Linker]] = {}
        self.is_new = False
        """Whether `open` made the workspace."""
        #: The stages that were made here.
        self.stages: list[Stage] = []

    @classmethod
    def open(
        cls,
        folder: str | Path | None = None,
        *,
        create: bool = False,
        flags: Mapping[str, object] | None = None,
        registry: Registry | None = None,
        trust: bool = False,
    ) -> Self:
        """Open a workspace: this folder, or the one found upward from the current folder.

        ``create`` makes one if there is none: in ``folder``, that of ``KGLINK_WORKSPACE`` or the
        current one. ``flags`` are settings by their full names, such as ``{"link.top_k": 10}``.
        ``trust`` allows its `kglink.toml` to name addresses, variables and folders elsewhere, as
        `kglink trust` does.
        """
        if not isinstance(folder, str | PathLike | None):
            hint = "Name it as a str or a Path."
            raise UsageError(f"the folder is of the type {type(folder).__name__}", hint=hint)
        named = named_workspace(Path(folder) if folder is not None else None)
        is_new = create and named is not None and not (named / CONFIG_FILE).exists()
        found = init_workspace(named) if is_new and named else find_workspace(named=named)
        if found is None:
            if not create:
                raise UsageError(
                    "there is no workspace here or above",
                    hint="Make one with `kglink init`, or add a KB: `kglink add-kb NAME SOURCE`.",
                )
            is_new, found = True, init_workspace(Path.cwd())
        resolved = replace(load_settings(found / CONFIG_FILE, flags=flags), trusted=trust)
        opened = cls(found, resolved, registry or load_registry())
        opened.is_new = is_new
        return opened

    def with_settings(self, flags: Mapping[str, object]) -> Self:
        """The same workspace with some settings changed; the store is shared, and closed once."""
        other = type(self)(self.folder, self.resolved.changed(flags), self.registry)
        if other.settings.store == self.settings.store:
            other.__dict__["store"] = self.store
        return other

    @contextmanager
    def at_one_moment(self) -> Iterator[Self]:
        """The same workspace with its store as it is now, for one thread; others go on writing."""
        other = copy(self)
        other._linkers, other._corrected, other._limited = {}, {}, {}
        with self.store.snapshot() as seen:
            other.__dict__["store"] = seen
            yield other

    def close(self) -> None:
        """Close what was opened here."""
        self._closing.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.folder)!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def settings(self) -> Settings:
        """The resolved settings."""
        if os.getpid() != self._process:  # forked: its threads are gone here
            hint = "Open the folder in each process, best one that the method spawn started."
            raise UsageError("a workspace was opened by another process", hint=hint)
        return self.resolved.values

    # -------------------------------------------------------------------------------- store
    @cached_property
    def store(self) -> Store:
        """The entity store."""
        with self.lock:
            if "store" in self.__dict__:  # another thread was faster
                kept: Store = self.__dict__["store"]
                return kept
            store = Store.open(self.store_url)
            self._closing.callback(store.close)
            return store

    @property
    def store_url(self) -> URL:
        """The store's address, a relative SQLite path counted from the workspace folder."""
        none = ConfigError(
            "store.url is no database address", hint="For a file: sqlite:///kglink.db"
        )
        if "\0" in self.settings.store.url:
            raise none
        try:
            url = make_url(self.settings.store.url)
        except ArgumentError as error:
            raise none from error
        if url.get_backend_name() == "sqlite" and url.database:
            check_store_file(self.folder, self.resolved, url.database)
            where = str(self.folder / url.database)
            if writable(where) != where:
                what = "store" if where == url.database else "workspace"  # it may be absolute
                hint = "Rename it, or name another with --workspace, or in store.url."
                raise UsageError(f"the path of the {what} is no UTF-8: {where}", hint=hint)
            return url.set(database=where)
        return url

    def open_source(self, *sources: str | Path) -> Source:
        """Open a file, a folder or ``-``, or several as one, within the limits of the settings."""
        ingest = self.settings.ingest
        limits = SourceLimits(
            max_line_bytes=int(ingest.max_line_mb * 2**20),
            max_expansion=ingest.max_expansion,
            max_spool_bytes=int(ingest.max_stdin_gb * 2**30),
            max_text_chars=int(ingest.max_text_mb * 10**6),
            max_name_chars=ingest.max_name_chars,
            encoding=checked_encoding(ingest.encoding),
        )
        if len(sources) != 1:
            return Source.several(sources, limits=limits)
        return Source.open_path(sources[0], limits=limits)

    # -------------------------------------------------------------------------------- space
    @property
    def joint_space(self) -> WorkspaceSpace:
        """The space that the settings name, built or not, with the model that it has now."""
        with self.lock:
            if self._joint_space is not None:
                before, kept = self._joint_space
                now = _published(kept)
                follows = now != before and self.settings.encoder.model == AUTO
                model = kept.folder.model() if follows else None
                if model is None or model.fingerprint == kept.encoder.info.fingerprint:
                    self._joint_space = now, kept
                    return kept
            made = joint_space(self.folder, self.store, self.registry, self.resolved)
            self._joint_space = _published(made), made
            return made

    @joint_space.setter
    def joint_space(self, space: WorkspaceSpace) -> None:
        if self.settings.encoder.model == AUTO:
            space = replace(space, replaces=space.encoder.info.fingerprint)
        self._joint_space = _published(space), space

    @property
    def encoder(self) -> Encoder:
        """The encoder of that space: its static model if it has one, else its model."""
        with self.lock:
            space = self.joint_space
            stamp = stamp_of(space.folder.student / STATIC.name)
            if stamp is None:
                return space.encoder
            if self._student is None or self._student[0] != stamp:
                self._student = stamp, student_of(space)
            return self._student[1]

    def space(self) -> Space:
        """The published space."""
        with self.lock:
            joint = self.joint_space
            stamp = _published(joint)
            if self._space is None or self._space[0] != stamp:
                self._space = stamp, joint.open()
                self._limited.clear()
                self._linkers.clear()
                self._corrected.clear()
            return self._space[1]

    def link_setup(self) -> LinkSetup:
        """What makes searches and linkers."""
        link = self.settings.link
        return LinkSetup(self.space(), self.encoder, link, self.store, self.registry)

    def linked_kbs(self, space: Space, kbs: str | Sequence[str] = ()) -> tuple[str, ...]:
        """The KBs to link to: these, else those of the settings, else all of the space."""
        return space.kbs(named(kbs) or self.settings.link.kbs)

    def limits(
        self,
        types: str | Sequence[str] = (),
        under: str | Sequence[str] = (),
        not_under: str | Sequence[str] = (),
    ) -> Limits:
        """Which entities may be found: as named here, else as the settings have it."""
        link = self.settings.link
        return Limits(
            named(types) or link.types,
            named(under) or link.under,
            named(not_under) or link.not_under,
        )

    def limited(self, space: Space, kbs: tuple[str, ...], limits: Limits) -> Space:
        """The space with those entities of these KBs that may be found."""
        with self.lock:
            key = (id(space), kbs, limits)
            if key not in self._limited:
                make_room(self._limited)
                self._limited[key] = space, limited_to(space, kbs, limits, self.store)
            return self._limited[key][1]

    def linker(
        self,
        kbs: str | Sequence[str] = (),
        *,
        limits: Limits | None = None,
        space: Space | None = None,
        candidates: int = 0,
        judged: bool = False,
    ) -> Linker:
        """A linker to some KBs of the space, or to all; ``candidates``: at least this number.

        With ``judged`` it ignores corrections of the texts themselves.
        """
        with self.lock:
            space = space or self.space()
            names, limits = self.linked_kbs(space, kbs), limits or self.limits()
            made_of = self._file_stamps(), self.store.overlap_state(), self.store.memory_state()
            key = (id(space), names, limits, candidates, made_of)
            linker = self._linkers.get(key)
            if linker is None:
                limited, link = self.limited(space, names, limits), self.detector(space).link
                setup = LinkSetup(limited, self.encoder, link, self.store, self.registry)
                alone = self.names_alone(space, names)
                linker = setup.linker(
                    setup.search(candidates=candidates),
                    names,
                    unfinished={"names_alone": alone._asdict()} if alone else None,
                    clusters=names_of_discoveries(self.folder),
                )
                self.stages += linker.stages
                make_room(self._linkers)
                self._linkers[key] = linker
            if judged:
                return linker
            state = self.store.state()
            if key not in self._corrected or self._corrected[key][0] != state:
                make_room(self._corrected)
                said = corrected_texts(self.store)
                self._corrected[key] = state, linker.with_corrected(said)
            return self._corrected[key][1]

    def state(self) -> object:
        """Differs once the store has changed, or a file that linkers are made of."""
        return self.store.state(), self._file_stamps()

    def _file_stamps(self) -> tuple[Stamp, ...]:
        space = SpaceFolder(self.folder / SPACES_FOLDER, self.settings.space.name)
        files = (
            space.path / "CURRENT",
            space.path / SCORING_FILE,
            space.path / CHOICE_FILE,
            space.reranker,
            space.reranker / SCORING_FILE,
            space.student / STATIC.name,
            space.detector / TAGGER.name,
            self.folder / DISCOVERIES_FILE,
        )
        return tuple(map(stamp_of, files))

    def waits_for_vectors(self, wait: bool) -> bool:
        """Whether to wait for vectors: `vectors` always does, `names` never does."""
        found_by = self.settings.link.found_by
        return found_by == "vectors" or (wait and found_by != "names")

    def told_by_stages(self) -> list[tuple[str, str]]:
        """What rerankers and clusterers say of the run that is done, each with its name."""
        return [
            (stage.name, line)
            for stage in self.stages
            if isinstance(stage.plugin, TellsAfterwards)
            for line in stage.plugin.told()
        ]

    def names_alone(self, space: Space, kbs: Sequence[str]) -> NamesAlone | None:
        """Which of some KBs are found by names alone until their vectors are made; None: none."""
        waiting = [kb for kb in kbs if kb in space.manifest.names_alone]
        if not waiting or self.settings.link.found_by not in ("all", "vectors"):
            return None
        return NamesAlone(waiting, *self.joint_space.job().vectors_done())

    def detector(self, space: Space | None = None) -> DetectorChoice:
        """The detectors of mentions that the settings mean, and where they come from."""
        folder = space.folder if space else self.joint_space.folder
        return chosen_detector(folder, self.settings.link, self.settings.encoder)


def _open_many_files() -> None:
    """Let this process open more files than the usual 1,024, which are those of 50 KBs."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if most == resource.RLIM_INFINITY else min(most, _MOST_FILES)
    if now != resource.RLIM_INFINITY and now < wanted:
        with suppress(ValueError, OSError):  # the system has another limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


def make_room(kept: dict[Any, Any]) -> None:
    """Drop the oldest where there are as many as are kept."""
    while len(kept) >= MOST_LINKERS:
        del kept[next(iter(kept))]


def _published(space: WorkspaceSpace) -> Stamp:
    return stamp_of(space.folder.path / "CURRENT")


def stamp_of(path: Path) -> Stamp:
    """Differs from one file to another that takes its place."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
