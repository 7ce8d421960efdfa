"""`LinkJob`: what a process needs to link some of the texts of a run, on whatever machine it is."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from kglink.config import CONFIG_FILE, ResolvedSettings
from kglink.errors import SpaceError
from kglink.linking.pipeline import Linker
from kglink.plugins import Exporter, load_registry
from kglink.records import LinkedDocument, TextInput
from kglink.workspace.opened import Opened
from kglink.workspace.spaces import build_if_stale


class ChunkLines(NamedTuple):
    """The answers to the texts of a chunk, as they are written, and how many mentions they have."""

    lines: bytes
    mentions: int


class Failed(NamedTuple):
    """Why a chunk has no answers."""

    why: str


@dataclass(frozen=True, slots=True)
class LinkJob:
    """A workspace, the settings of a run, and what the answers depend on.

    It can be pickled. A process that sees the same workspace at the same path links any texts with
    it, and gives the answers that one process would give to all of them.
    """

    folder: Path
    resolved: ResolvedSettings
    made_of: tuple[object, ...]
    """The versions of the space, of the memory and of the overlaps."""

    def link(self, texts: Sequence[TextInput]) -> list[LinkedDocument]:
        """The answers to a chunk of texts; the linker is made once in a process, and kept."""
        if not _kept or _kept[0][0] != self:
            _kept[:] = [(self, self._linker())]
        return list(_kept[0][1].link(texts))

    def lines(self, texts: Sequence[TextInput], exporter: Exporter) -> ChunkLines:
        """The answers to a chunk of texts, written by an exporter whose lines stand alone."""
        documents = self.link(texts)
        out = io.StringIO(newline="\n")
        exporter.export(documents, out)
        mentions = sum(len(document.links) for document in documents)
        return ChunkLines(out.getvalue().encode(), mentions)

    def _linker(self) -> Linker:
        if not (self.folder / CONFIG_FILE).is_file():
            raise SpaceError(
                f"there is no workspace at {self.folder}",
                hint="Mount the folder at this path on every machine that links, or copy it there.",
            )
        opened = Opened(self.folder, self.resolved, load_registry())
        if made_of(opened) != self.made_of:
            raise SpaceError(
                f"the workspace at {self.folder} is not as it was when the run began",
                hint="If somebody built, learnt or reviewed meanwhile, run the same command again; "
                "if it is a copy on another machine, copy it anew.",
            )
        return opened.linker(space=opened.space())


#: The job that this process worked at last, and its linker.
_kept: list[tuple[LinkJob, Linker]] = []


def made_of(opened: Opened) -> tuple[object, ...]:
    """What the answers of a workspace depend on, apart from its settings."""
    space, store = opened.space(), opened.store
    segments = tuple(space.manifest.segments.items())
    return space.version, segments, store.memory_state(), store.overlap_state()


def job_of(opened: Opened, flags: Mapping[str, object] | None = None) -> LinkJob:
    """The job of linking to the published space as this workspace does, with some settings changed.

    A process uses one core, unless ``encoder.threads`` says more.
    """
    threads = opened.settings.encoder.threads or 1
    own = {"encoder.threads": threads, **(flags or {}), "link.workers": 1}
    # The settings were checked when the workspace was opened, and are not read again.
    resolved = replace(opened.resolved.changed(own), trusted=True)
    return LinkJob(opened.folder.resolve(), resolved, made_of(opened))


def link_job(opened: Opened) -> LinkJob:
    """What links texts as this workspace does, in any process on any machine that sees its folder.

    A space that is missing or older than the store is built first. Each process uses one core,
    unless ``encoder.threads`` says more.

    >>> job = workspace.link_job()
    >>> (text,) = job.link([TextInput("1", "A grey heron stood there.")])
    >>> str(text.links[0].chosen.id)
    'birds:h'
    """
    build_if_stale(opened)
    return job_of(opened)
