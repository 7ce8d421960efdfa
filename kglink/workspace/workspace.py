"""`Workspace`: everything that kglink does, as methods of one object."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

from kglink.config import CONFIG_FILE, ResolvedSettings, Settings, load_settings
from kglink.errors import ConfigError, UsageError
from kglink.plugins import Registry, load_registry
from kglink.records import Document, LinkedDocument, OnProgress, TextInput
from kglink.sources import Source, SourceLimits
from kglink.workspace.folder import expanded, find_workspace, init_workspace

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

    from kglink.evaluation.overlaps import OverlapFigures
    from kglink.evaluation.rankings import RankedMention
    from kglink.evaluation.report import RetrievalReport
    from kglink.linking.pipeline import Linker
    from kglink.linking.scoring import Scoring
    from kglink.overlap.search import OverlapReport, OverlapTools
    from kglink.overlap.train import Training
    from kglink.records import Candidate
    from kglink.space.build import BuildReport
    from kglink.space.space import Space
    from kglink.store import Store
    from kglink.training.job import Tell
    from kglink.training.loop import Pace
    from kglink.training.recipe import Recipe
    from kglink.workspace.add_kb import AddedKB
    from kglink.workspace.encoder import LazyEncoder
    from kglink.workspace.finetune import Finetuned
    from kglink.workspace.joint_space import WorkspaceSpace
    from kglink.workspace.runs import Runs


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
        """The encoder of the space that the settings name, loaded when it is first used."""
        from kglink.space.space import SpaceFolder
        from kglink.workspace.joint_space import SPACES_FOLDER
        from kglink.workspace.space_model import space_encoder

        folder = SpaceFolder(self.folder / SPACES_FOLDER, self.settings.space.name)
        return space_encoder(self.folder, folder, self.settings)

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
        progress: OnProgress = lambda _: None,
    ) -> AddedKB:
        """Read a source into KB ``name``; a KB that exists is updated to what the source holds.

        ``resolve`` says how golds name entities of the KBs ``links_to``: by ``key``, by ``xref``,
        as codes that are looked up through cross-references, or by ``title``, redirects included.
        Where it is not told, the adapter's own way counts.
        """
        from kglink.workspace.add_kb import Told, add_kb

        told = Told(name, adapter, options or {}, tuple(links_to), split, resolve, licence)
        opened = source if isinstance(source, Source) else self.open_source(source)
        return add_kb(self, opened, told, progress=progress)

    # ------------------------------------------------------------------------------ overlap
    def find_overlaps(
        self,
        left: str | None = None,
        right: str | None = None,
        *,
        fresh: bool = False,
        progress: OnProgress = lambda _: None,
    ) -> list[OverlapReport]:
        """Find the overlaps of one pair of KBs, or of all pairs.

        Of all pairs, those are passed over whose KBs and settings are as they were at their last
        search, unless ``fresh``; their reports say so (``current``). ``progress`` is told of what
        the search is at, how far it is in that, and how much that is in all (0: nobody knows).
        """
        from kglink.overlap.search import find_all_overlaps, find_overlaps

        if (left is None) != (right is None):
            raise UsageError("overlap needs two KBs or none", hint="None: all pairs.")
        tools = self._overlap_tools(progress)
        if left is not None and right is not None:
            return [find_overlaps(tools, left, right, progress=progress)]
        return list(find_all_overlaps(tools, fresh=fresh, progress=progress))

    def train_overlap_model(self, *, progress: OnProgress = lambda _: None) -> Training:
        """Fit the overlap model to the verdicts of the store; later searches use it."""
        from kglink.overlap.model import default_model
        from kglink.overlap.train import train
        from kglink.workspace.overlaps import keep_model

        tools = self._overlap_tools(progress)
        # Always from the default model: verdicts that were learnt from must not count twice.
        trained = train(tools, prior=default_model(tools.evidence), progress=progress)
        keep_model(self.folder, trained.model)
        return trained

    def _overlap_tools(self, progress: OnProgress) -> OverlapTools:
        from kglink.workspace.overlaps import overlap_space, overlap_tools

        space = overlap_space(self.joint_space)
        return overlap_tools(
            self.folder,
            self.store,
            self.settings.overlap,
            space.encoder,
            space,
            self.registry,
            progress=progress,
        )

    # -------------------------------------------------------------------------------- space
    @cached_property
    def joint_space(self) -> WorkspaceSpace:
        """The space that the settings name, built or not."""
        from kglink.workspace.joint_space import WorkspaceSpace

        return WorkspaceSpace(self.folder, self.store, self.encoder, self.registry, self.resolved)

    def space_of(self, model: str = "") -> WorkspaceSpace:
        """The space as a build with this model makes it; none named: with its own."""
        from kglink.workspace.space_model import with_model

        if model:
            return with_model(self.joint_space, model)
        self._follow_published()
        return self.joint_space

    def build(
        self,
        *,
        model: str = "",
        fresh: bool = False,
        progress: OnProgress = lambda _: None,
    ) -> BuildReport:
        """Build and publish the joint space of all KBs; only what changed is encoded.

        ``model``, a name or a folder, takes the place of the model that the space was made with;
        ``fresh`` encodes everything again.
        """
        space = self.space_of(model)
        report = space.build(fresh=fresh, progress=progress)
        self.joint_space, self.encoder = space, space.encoder
        return report

    # ------------------------------------------------------------------------------ training
    @property
    def runs(self) -> Runs:
        """The runs of fine-tuning: what there is of them, and removing one."""
        from kglink.workspace.runs import Runs

        return Runs(self.folder)

    def finetune(
        self,
        *,
        recipe: Recipe | str | Path | None = None,
        sources: str = "",
        source_kbs: Sequence[str] = (),
        target_kbs: Sequence[str] = (),
        docs: Sequence[str] = (),
        changes: Mapping[str, object] | None = None,
        run: str = "",
        resume: bool = False,
        space: str = "",
        publish: bool = True,
        pace: Pace | None = None,
        progress: Tell = lambda _: None,
    ) -> Finetuned:
        """Learn from mentions of the source KBs (S), the target KBs (T), their overlaps (O).

        The run ``run`` (of none, one is named after the recipe) leaves a model, and ``space`` is
        built with it and published. ``resume`` goes on with the run, or with the last that did not
        come to its end. ``changes`` are values of the recipe that differ, nested as in its file.
        ``progress`` is told of every step, and what the training reports of itself.
        """
        from kglink.training.loop import Pace
        from kglink.workspace.finetune import Learning, finetune

        return finetune(
            self,
            Learning(recipe, sources, source_kbs, target_kbs, docs, changes),
            run=run,
            resume=resume,
            space=space,
            publish=publish,
            pace=pace or Pace(),
            progress=progress,
        )

    def space(self) -> Space:
        """The published space."""
        self._follow_published()
        return self.joint_space.open()

    def _follow_published(self) -> None:
        """Forget the space's model where another process has published another since."""
        from kglink.workspace.encoder import AUTO

        if "encoder" not in self.__dict__ or self.settings.encoder.model != AUTO:
            return
        published = self.joint_space.folder.model()
        if published is not None and published.fingerprint != self.encoder.info.fingerprint:
            del self.encoder, self.joint_space

    # ------------------------------------------------------------------------- link, search
    def linked_kbs(self, space: Space, kbs: Sequence[str] = ()) -> tuple[str, ...]:
        """The KBs to link to: these, else those of the settings, else all of the space."""
        return space.kbs(kbs or self.settings.link.kbs)

    def linker(
        self, kbs: Sequence[str] = (), *, space: Space | None = None, candidates: int = 0
    ) -> Linker:
        """A linker to some KBs of the space, or to all; ``candidates``: at least so many."""
        from kglink.workspace.links import linker_of, search_of

        space = space or self.space()
        link, names = self.settings.link, self.linked_kbs(space, kbs)
        search = search_of(space, self.encoder, link, self.registry, candidates=candidates)
        return linker_of(search, space, names, link, self.store, self.registry)

    def link(
        self, texts: Iterable[TextInput | str], kbs: Sequence[str] = ()
    ) -> Iterator[LinkedDocument]:
        """Link texts to the space; plain strings are numbered."""
        inputs = (
            TextInput(str(number), text) if isinstance(text, str) else text
            for number, text in enumerate(texts, 1)
        )
        return self.linker(kbs).link(inputs)

    def search(self, text: str, *, k: int = 10, kbs: Sequence[str] = ()) -> list[Candidate]:
        """The entities of the space that a text names or describes, best first."""
        from kglink.workspace.links import search

        space = self.space()
        return search(space, self.encoder, self.registry, text, k, space.kbs(kbs))

    def fit_scoring(
        self,
        documents: Iterable[Document],
        *,
        progress: OnProgress = lambda _: None,
    ) -> Scoring:
        """Fit how the space of a trained model weighs evidence, on mentions with known answers.

        They must not be those that the model was trained on: it knows these too well. What was
        fitted is kept beside the space, for as long as it has this model.
        """
        from kglink.workspace.links import fit_space

        return fit_space(
            self.space(), self.encoder, self.settings.link, self.registry, documents, progress
        )

    # --------------------------------------------------------------------------- evaluation
    def evaluate(
        self,
        docs: str | Sequence[str],
        *,
        split: str = "dev",
        kbs: Sequence[str] = (),
        ks: Sequence[int] = (1, 5),
        counterparts: bool = False,
        domains: bool = False,
        seen_in: str = "auto",
        progress: OnProgress = lambda _: None,
        each: Callable[[RankedMention], None] = lambda mention: None,
    ) -> RetrievalReport:
        """Retrieval on the annotated documents of one or more KBs, their mentions' places given.

        With ``counterparts`` a gold's counterpart in another KB is right in joint rankings;
        ``domains`` adds figures by type of entity. ``seen_in`` names documents that were learnt
        from, as ``kglink eval --seen-in`` does. ``each`` is told of every mention.
        """
        from kglink.evaluation.retrieval import Question
        from kglink.workspace.evaluation import evaluate

        names = (docs,) if isinstance(docs, str) else tuple(docs)
        question = Question(
            names, split, tuple(kbs), tuple(ks), counterparts, domains=domains, seen_in=seen_in
        )
        return evaluate(self, question, progress=progress, each=each)

    def evaluate_overlaps(
        self,
        kbs: Sequence[str] = (),
        *,
        progress: OnProgress = lambda _: None,
    ) -> list[OverlapFigures]:
        """How near to each other the accepted overlaps of these KBs, or of all, are."""
        from kglink.evaluation.overlaps import evaluate_overlaps

        space = self.space()
        return evaluate_overlaps(space, self.store, self.linked_kbs(space, kbs), progress=progress)
