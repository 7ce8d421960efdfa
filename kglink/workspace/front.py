"""`Workspace`: everything that kglink does, as methods of one object."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Self, get_args

from kglink.config import CONFIG_FILE, ResolvedSettings, Settings, load_settings
from kglink.errors import ConfigError, UnknownNameError, UsageError
from kglink.records import Document, LinkedDocument, Split, TextInput
from kglink.registry import Registry, load_registry
from kglink.sources import Problems, Source, SourceLimits
from kglink.workspace.folder import expanded, find_workspace, init_workspace

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

    from kglink.evaluation.recall import RecallReport
    from kglink.linking.linker import Linker
    from kglink.linking.retrieve import Scored
    from kglink.overlap.report import OverlapReport
    from kglink.overlap.tools import OverlapTools
    from kglink.overlap.train import Training
    from kglink.protocols import Detector
    from kglink.space.build import BuildProgress, BuildReport
    from kglink.space.space import Space
    from kglink.store import IngestSummary, Resolve, Store
    from kglink.workspace.encoder import LazyEncoder
    from kglink.workspace.spaces import WorkspaceSpace


#: Where adapters keep what must outlive an interruption; a folder for each unfinished job.
SCRATCH_FOLDER = ".scratch"


@dataclass(frozen=True, slots=True)
class AddedKB:
    """What `Workspace.add_kb` did."""

    summary: IngestSummary
    adapter: str
    problems: Problems


class Workspace:
    """A workspace folder, opened."""

    def __init__(self, folder: Path, resolved: ResolvedSettings, registry: Registry) -> None:
        self.folder = folder
        self.resolved = resolved
        self.registry = registry

    # ------------------------------------------------------------------------ open and close
    @classmethod
    def open(
        cls,
        folder: str | Path | None = None,
        *,
        create: bool = False,
        flags: Mapping[str, object] | None = None,
        registry: Registry | None = None,
    ) -> Self:
        """Open a workspace: this folder, or the one found upward from the current folder.

        ``create`` makes one (in ``folder`` or the current folder) where there is none. ``flags``
        are settings by their full names, such as ``{"link.top_k": 10}``.
        """
        named = expanded(Path(folder)) if folder is not None else None
        if create and named is not None and not (named / CONFIG_FILE).exists():
            init_workspace(named)
        found = find_workspace(named=named)
        if found is None:
            if not create:
                raise UsageError(
                    "there is no workspace here or above",
                    hint="Make one with `kglink init`, or add a KB: `kglink add-kb NAME SOURCE`.",
                )
            found = init_workspace(Path.cwd())
        resolved = load_settings(found / CONFIG_FILE, flags=flags)
        return cls(found, resolved, registry or load_registry())

    def close(self) -> None:
        """Close the store."""
        if "store" in self.__dict__:
            self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def settings(self) -> Settings:
        """The resolved settings."""
        return self.resolved.values

    @cached_property
    def store(self) -> Store:
        """The entity store."""
        from kglink.store import Store

        return Store.open(self.store_url)

    @property
    def store_url(self) -> URL:
        """The store's address, a relative SQLite path counted from the workspace folder."""
        from sqlalchemy.engine import make_url
        from sqlalchemy.exc import ArgumentError

        try:
            url = make_url(self.settings.store.url)
        except ArgumentError as error:
            raise ConfigError(
                "store.url is no database address", hint="For a file: sqlite:///kglink.db"
            ) from error
        if url.get_backend_name() == "sqlite" and url.database:
            return url.set(database=str(self.folder / url.database))
        return url

    @cached_property
    def encoder(self) -> LazyEncoder:
        """The text encoder, loaded when it is first used."""
        from kglink.workspace.encoder import LazyEncoder

        return LazyEncoder(self.settings.encoder)

    # ------------------------------------------------------------------------------- ingest
    def open_source(self, source: str | Path) -> Source:
        """Open a file, a folder or ``-`` within the limits of the settings."""
        ingest = self.settings.ingest
        limits = SourceLimits(int(ingest.max_line_mb * 2**20), ingest.max_expansion)
        return Source.open_path(source, limits=limits)

    def add_kb(
        self,
        name: str,
        source: str | Path | Source,
        *,
        adapter: str = "",
        options: Mapping[str, object] | None = None,
        links_to: Sequence[str] = (),
        split: str = "",
        resolve: str = "",
        licence: str = "",
        progress: Callable[[int], None] | None = None,
    ) -> AddedKB:
        """Read a source into KB ``name``; a KB that exists is updated to what the source holds.

        ``resolve`` says how golds name entities of the KBs ``links_to``: by ``key``, by ``xref``,
        as codes that are looked up through cross-references, or by ``title``, redirects included.
        Where it is not told, the adapter's own way counts.
        """
        opened = source if isinstance(source, Source) else self.open_source(source)
        plugin = self.registry.get("kb", adapter or self.registry.guess_kb(opened.head).name)
        settings = self.registry.settings_for("kb", plugin.name, options)
        reader = self.registry.create("kb", plugin.name, settings)
        if not resolve:
            resolve = getattr(reader, "resolve", "key") if links_to else "key"
        problems = Problems(self.settings.ingest.on_error)
        from kglink.store import IngestJob

        job = IngestJob(
            kb=name,
            adapter=plugin.name,
            source=opened.name,
            fingerprint=_job_fingerprint(
                opened, plugin.name, settings.model_dump(mode="json"), [*links_to], split, resolve
            ),
            settings=settings.model_dump(mode="json"),
            links_to=tuple(links_to),
            split=_split(split),
            resolve=_resolve(resolve, links_to),
            licence=licence,
            batch_size=self.settings.ingest.batch_size,
            problems=problems,
        )
        opened.scratch_in = self.folder / SCRATCH_FOLDER / job.fingerprint
        summary = self.store.ingest(job, reader.read(opened, problems), progress=progress)
        opened.drop_scratch()
        return AddedKB(summary, plugin.name, problems)

    # ------------------------------------------------------------------------------ overlap
    def find_overlaps(
        self,
        left: str | None = None,
        right: str | None = None,
        *,
        fresh: bool = False,
        progress: Callable[[int], None] = lambda pairs: None,
        stage: Callable[[str], None] = lambda text: None,
        encoding: BuildProgress = lambda kb, rows: None,
    ) -> list[OverlapReport]:
        """Find the overlaps of one pair of KBs, or of all pairs.

        Of all pairs, those are passed over whose KBs and settings are as they were at their last
        search, unless ``fresh``; their reports say so (``current``). ``progress`` is told of pairs
        that were weighed, ``stage`` what begins, ``encoding`` of vectors that were made.
        """
        from kglink.overlap.find import find_all_overlaps, find_overlaps

        if (left is None) != (right is None):
            raise UsageError("overlap needs two KBs or none", hint="None: all pairs.")
        tools = self._overlap_tools(stage, encoding)
        if left is not None and right is not None:
            return [find_overlaps(tools, left, right, progress=progress, stage=stage)]
        return list(find_all_overlaps(tools, fresh=fresh, progress=progress, stage=stage))

    def train_overlap_model(
        self,
        *,
        progress: Callable[[int], None] = lambda pairs: None,
        stage: Callable[[str], None] = lambda text: None,
        encoding: BuildProgress = lambda kb, rows: None,
    ) -> Training:
        """Fit the overlap model to the verdicts of the store; later searches use it."""
        from kglink.overlap.model import default_model
        from kglink.overlap.train import train
        from kglink.workspace.overlaps import keep_model

        tools = self._overlap_tools(stage, encoding)
        # Always from the default model: verdicts that were learnt from must not count twice.
        trained = train(tools, prior=default_model(tools.evidence), progress=progress, stage=stage)
        keep_model(self.folder, trained.model)
        return trained

    def _overlap_tools(self, stage: Callable[[str], None], encoding: BuildProgress) -> OverlapTools:
        from kglink.workspace.overlaps import overlap_tools

        return overlap_tools(
            self.folder,
            self.store,
            self.settings.overlap,
            self.encoder,
            self.joint_space,
            self.registry,
            stage=stage,
            encoding=encoding,
        )

    # -------------------------------------------------------------------------------- space
    @cached_property
    def joint_space(self) -> WorkspaceSpace:
        """The space that the settings name, built or not."""
        from kglink.workspace.spaces import WorkspaceSpace

        return WorkspaceSpace(self.folder, self.store, self.encoder, self.registry, self.resolved)

    def build(
        self, *, fresh: bool = False, progress: BuildProgress = lambda kb, rows: None
    ) -> BuildReport:
        """Build and publish the joint space of all KBs; only what changed is encoded.

        ``fresh`` encodes everything again.
        """
        return self.joint_space.build(fresh=fresh, progress=progress)

    def space(self) -> Space:
        """The published space."""
        return self.joint_space.open()

    # ------------------------------------------------------------------------- link, search
    def linked_kbs(self, space: Space, kbs: Sequence[str] = ()) -> tuple[str, ...]:
        """The KBs to link to: these, else those of the settings, else all of the space."""
        return space.kbs(kbs or self.settings.link.kbs)

    def linker(self, kbs: Sequence[str] = (), *, space: Space | None = None) -> Linker:
        """A linker to some KBs of the space, or to all."""
        from kglink.linking.linker import Linker
        from kglink.linking.retrieve import Retriever
        from kglink.space.alias_names import SpaceNames

        space = space or self.space()
        link = self.settings.link
        names = self.linked_kbs(space, kbs)

        def detector() -> Detector:
            all_names = SpaceNames(space, names)
            return self.registry.create(
                "detector", link.detector, link.detector_settings, all_names
            )

        reranker = (
            self.registry.create("reranker", link.reranker, link.reranker_settings)
            if link.reranker
            else None
        )
        retriever = Retriever(space, self.encoder, candidates=max(link.candidates, link.top_k))
        return Linker(retriever, detector, self.store, names, link, reranker=reranker)

    def link(
        self, texts: Iterable[TextInput | str], kbs: Sequence[str] = ()
    ) -> Iterator[LinkedDocument]:
        """Link texts to the space; plain strings are numbered."""
        inputs = (
            TextInput(str(number), text) if isinstance(text, str) else text
            for number, text in enumerate(texts, 1)
        )
        return self.linker(kbs).link(inputs)

    def search(self, text: str, *, k: int = 10, kbs: Sequence[str] = ()) -> list[Scored]:
        """The entities of the space that a text names or describes, best first."""
        from kglink.linking.linker import joint_ranking
        from kglink.linking.retrieve import MentionQuery, Retriever
        from kglink.linking.scoring import SEARCH_WEIGHTS

        if k < 1:
            raise UsageError(f"k = {k}: a search has at least one answer")
        space = self.space()
        names = space.kbs(kbs)
        retriever = Retriever(space, self.encoder, candidates=k, weights=SEARCH_WEIGHTS)
        found = retriever.retrieve([MentionQuery(text, text)], names)
        return joint_ranking(found[0], names)[:k]

    # --------------------------------------------------------------------------- evaluation
    def evaluate(
        self,
        docs: str,
        *,
        split: str = "dev",
        kbs: Sequence[str] = (),
        ks: Sequence[int] = (1, 5),
        counterparts: bool = False,
        progress: Callable[[int], None] = lambda documents: None,
    ) -> RecallReport:
        """Recall of retrieval on the annotated documents of a KB, their spans given.

        With ``counterparts`` a gold's counterpart in another KB is right in joint rankings.
        """
        from kglink.evaluation.recall import evaluate_recall

        known = self.store.kb(docs)
        if not known.mentions:
            raise UnknownNameError(
                "source of annotated documents",
                docs,
                [info.name for info in self.store.kbs() if info.mentions],
            )
        space = self.space()
        linker = self.linker(kbs, space=space)
        documents = self.store.documents(docs, _split(split) or None)
        first = next(documents, None)
        if first is None:
            raise UsageError(
                f"{docs!r} has no documents in the split {split!r}",
                hint='--split names another one; --split "" takes all documents.',
            )

        def counted() -> Iterator[Document]:
            for document in chain([first], documents):
                yield document
                progress(1)

        same = self.store.counterparts if counterparts else None
        return evaluate_recall(linker, counted(), self.linked_kbs(space, kbs), ks, same)


def _split(split: str) -> Split:
    if split not in get_args(Split):
        raise UsageError(f"unknown split {split!r}", hint="There is: train, dev, test.")
    return split  # type: ignore[return-value]  # just checked


def _resolve(resolve: str, links_to: Sequence[str]) -> Resolve:
    from kglink.store import Resolve

    if resolve not in get_args(Resolve):
        ways = ", ".join(get_args(Resolve))
        raise UsageError(f"unknown way to resolve golds: {resolve!r}", hint=f"There is: {ways}.")
    if resolve != "key" and not links_to:
        raise UsageError(
            f"--resolve {resolve} needs the KBs to look in", hint="Name them: --links-to KB,KB"
        )
    return resolve  # type: ignore[return-value]  # just checked


def _job_fingerprint(source: Source, *facts: object) -> str:
    """The same for the same content read in the same way: such a job can be resumed."""
    digest = hashlib.blake2b(source.fingerprint().encode(), digest_size=16)
    digest.update(json.dumps(facts, sort_keys=True).encode())
    return digest.hexdigest()
