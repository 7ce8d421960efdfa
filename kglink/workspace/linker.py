"""Makes the linker, the search and the detectors of a workspace: of its space, store, plugins."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kglink.config import LinkSection, all_settings, env_name
from kglink.errors import ConfigError, UsageError
from kglink.files.digest import digest_of
from kglink.linking.asked import AskedKind
from kglink.linking.candidates import CandidateSearch
from kglink.linking.contexts import TokenSearchOf
from kglink.linking.corrected import Corrected
from kglink.linking.fit_clusterer import ClustererChoice, read_choice
from kglink.linking.judge import SpanJudge, default_weights
from kglink.linking.kinds import EvidenceKind, joint_ranking
from kglink.linking.pipeline import Linker
from kglink.linking.read_together import read_together
from kglink.linking.reading import PlainReader, Reader, TrainedReader
from kglink.linking.sameness import Counterparts
from kglink.linking.scoring import SCORING_FILE, SEARCH_SCORING, Scoring, read_scoring
from kglink.linking.stages import Stage
from kglink.plugins import DefaultWeights, KeepsFiles, NameRow, PluginSettings
from kglink.plugins.settings import setting_keys
from kglink.records import Candidate, MentionInText
from kglink.space.folder import SpaceFolder
from kglink.space.remembered import RememberedSurface, RememberedVectors, remembered_vectors
from kglink.space.segment_build import alias_rows
from kglink.space.space import Space, SpaceNames

if TYPE_CHECKING:
    from kglink.models import Encoder
    from kglink.plugins import Detector, Names, Registry
    from kglink.store import Store
    from kglink.store.memory import PartOfMemory
    from kglink.store.occurrences import Meaning


_ANOTHER_MODEL = "the trained reranker was weighed for another model of the space"


def reader_of(encoder: Encoder, window_chars: int) -> Reader:
    """Reads mentions as the encoder does."""
    return TrainedReader(encoder) if encoder.trained else PlainReader(encoder, window_chars)


def token_search_of(encoder: Encoder, registry: Registry) -> TokenSearchOf | None:
    """How the token matrices of a model that compares tokens are searched: exactly."""
    trained = encoder.trained
    if trained is None or not trained.compares_tokens:
        return None
    from kglink.space.token_search import TokenSearch

    scorer = registry.create("scorer", trained.scorer, trained.scorer_settings)
    return cache(lambda tokens: TokenSearch(tokens, scorer))


def search_of(
    space: Space,
    encoder: Encoder,
    settings: LinkSection,
    store: Store,
    registry: Registry,
    *,
    candidates: int = 0,
    scoring: Scoring | Literal["kept", "default"] = "kept",
    reranker: Path | None = None,
) -> CandidateSearch:
    """A search as the settings want it; ``candidates`` per KB at least are found.

    ``scoring``: this one, what is kept of the space, or what a space has before it is fitted.
    ``reranker``: the folder of one that is not the space's. The space's own is not asked where
    it was weighed for another model.
    """
    asked = asked_kinds(settings, registry)
    place = space.folder.path
    unfit = scoring == "kept" and not reranker and is_reranker_of_another_model(space)
    if settings.rerank and settings.evidence == "all" and not unfit:
        place = reranker or space.folder.reranker
        asked.append(
            read_together(place, encoder.hardware, settings.rerank, settings.rerank_margin)
        )
    if scoring == "kept":
        kept = read_scoring(place, space.manifest.model.fingerprint)
    else:
        kept = None if scoring == "default" else scoring
    reader = reader_of(encoder, settings.window_chars)
    remembered = None
    if settings.evidence == "all":
        remembered = remembered_of(space, encoder, store)
    return CandidateSearch(
        space,
        reader,
        candidates=max(settings.candidates, settings.top_k, candidates),
        scoring=kept,
        by=settings.evidence,
        token_search=token_search_of(encoder, registry)
        if settings.evidence in ("all", "vectors")
        else None,
        memory=store,
        remembered=remembered,
        counterparts=None if settings.evidence != "all" else counterparts_of(store, space),
        asked=asked,
        facts=store,
    )


def is_reranker_of_another_model(space: Space) -> bool:
    """Whether the space's trained reranker was weighed for a model that the space had before."""
    place = space.folder.reranker
    weighed = (place / SCORING_FILE).exists()
    return weighed and read_scoring(place, space.manifest.model.fingerprint) is None


def remembered_of(space: Space, encoder: Encoder, store: Store) -> RememberedVectors | None:
    """The vectors of what memory knows; None where that is nothing, or the space has none."""
    if not space.manifest.rows or not store.memory_sources():
        return None
    return remembered_vectors(
        space.folder.memory,
        store.memory_state(),
        encoder.info.fingerprint,
        space.manifest.model.dim,
        lambda most: [RememberedSurface(*one) for one in store.remembered_surfaces(most)],
        encoder.encode_queries,
    )


def asked_kinds(settings: LinkSection, registry: Registry) -> list[AskedKind]:
    """The evidence of plugins that is weighed: the built-in kinds, and those of the settings."""
    if settings.evidence != "all":
        return []
    names = [*registry.builtin_names("evidence"), *settings.more_evidence]
    checked = registry.settings_of_each(
        "evidence", names, settings.more_evidence_settings, "link.more_evidence_settings"
    )
    made = []
    for name, own in checked.items():
        plugin = registry.get("evidence", name)
        evidence = registry.create("evidence", name, own)
        shown = plugin.short_name if plugin.provider.builtin else plugin.name
        kind = EvidenceKind(shown, plugin.summary, DefaultWeights(*evidence.weights))
        made.append(AskedKind(kind, evidence))
    return made


def counterparts_of(
    store: Store, space: Space, *, but: Collection[tuple[str, str]] = ()
) -> Counterparts:
    """The accepted overlaps of the space's KBs, but not those of some pairs."""
    left_out = {frozenset(pair) for pair in but}
    here = {info.name for info in store.kbs()} & space.segments.keys()
    overlaps = (
        overlap
        for left, right in combinations(sorted(here), 2)
        if frozenset((left, right)) not in left_out
        for overlap in store.overlaps(left, right)
        if overlap.is_accepted(0.5)
    )
    return Counterparts.of(overlaps, space.segments)


def linker_of(
    search: CandidateSearch,
    space: Space,
    kbs: Sequence[str],
    settings: LinkSection,
    store: Store,
    registry: Registry,
    unfinished: Mapping[str, object] | None = None,
    memory: PartOfMemory | None = None,
    clusters: Mapping[str, str] | None = None,
    corrected: Corrected | None = None,
) -> Linker:
    """A linker to some KBs of a space; ``memory``: its detectors look for the names of this one.

    ``clusters``: by folded name what was discovered; ``corrected``: what people said of texts.
    """
    return Linker(
        search,
        partial(detectors_of, space, kbs, settings, memory or store, registry),
        store,
        kbs,
        settings,
        judge=SpanJudge(
            search.scoring,
            search.scoring.spans or default_weights(),
            search.scoring.threshold if settings.threshold == "auto" else settings.threshold,
            settings.nested,
        ),
        stages=stages_of(settings, registry, space.folder),
        preferred=preferred_kbs(space, kbs, settings, store),
        unfinished=unfinished,
        clusters=clusters,
        corrected=corrected,
        not_reranked=[_ANOTHER_MODEL]
        if settings.rerank and is_reranker_of_another_model(space)
        else [],
    )


def preferred_kbs(
    space: Space, kbs: Sequence[str], settings: LinkSection, store: Store
) -> tuple[str, ...]:
    """The KBs in the order in which they answer where several have the same thing.

    Those that the settings prefer, then those that more mentions of the documents meant which
    memory was learnt from, then the order of the space.
    """
    space.kbs(settings.prefer)
    habit = store.memory_kbs()
    named = [kb for kb in settings.prefer if kb in kbs]
    others = (kb for kb in kbs if kb not in named)
    return (*named, *sorted(others, key=lambda kb: -habit.get(kb, 0)))


def search(
    space: Space,
    encoder: Encoder,
    registry: Registry,
    text: str,
    k: int,
    kbs: Sequence[str],
) -> list[Candidate]:
    """The entities of some KBs that a text names or describes, best first."""
    if not isinstance(k, int) or k < 1:
        raise UsageError(f"k = {k!r}: a search has at least one answer", hint="Give a number.")
    if not isinstance(text, str) or not text:
        raise UsageError("a search needs a text", hint="A name, or a description in words.")
    reader = (
        TrainedReader(encoder) if encoder.trained else PlainReader(encoder, 0, repeat_alone=True)
    )
    candidates = CandidateSearch(
        space,
        reader,
        candidates=k,
        scoring=SEARCH_SCORING,
        token_search=token_search_of(encoder, registry),
    )
    found = candidates.find([MentionInText(text, 0, len(text))], kbs)
    return joint_ranking(found[0], kbs)[:k]


def stages_of(settings: LinkSection, registry: Registry, folder: SpaceFolder) -> list[Stage]:
    """The stages that the settings name: first the reranker, then the clusterer.

    The clusterer has the settings that were chosen for the space, where the user says no others.
    """
    stages: list[Stage] = []
    if settings.reranker:
        plugin = registry.create("reranker", settings.reranker, settings.reranker_settings)
        stages.append(Stage(settings.reranker, plugin, settings.reranked))
    if settings.clusterer:
        chosen = clusterer_choice(settings, registry, folder)
        own = {**(chosen.settings if chosen else {}), **settings.clusterer_settings}
        plugin = registry.create("clusterer", settings.clusterer, own)
        stages.append(Stage(settings.clusterer, plugin, settings.reranked, sees_all=True))
    for stage in stages:
        if isinstance(stage.plugin, KeepsFiles):
            stage.plugin.keep_in(folder.path / "cache")
    return stages


def clusterer_choice(
    settings: LinkSection, registry: Registry, folder: SpaceFolder
) -> ClustererChoice | None:
    """What was chosen for the clusterer in a space with the model that it has; None: nothing."""
    model = folder.model()
    name = registry.get("clusterer", settings.clusterer).name
    return read_choice(folder.path, name, model.fingerprint) if model else None


class NamesWithMemory:
    """The names of KBs, and the surfaces that meant their entities in annotated documents."""

    def __init__(self, names: SpaceNames, memory: Store | PartOfMemory, kbs: Sequence[str]) -> None:
        self._names = names
        self._memory = memory
        self._kbs = frozenset(kbs)
        self._remembers = bool(memory.memory_sources())
        self.cache_dir = names.cache_dir
        self.fingerprint = names.fingerprint
        if self._remembers:
            self.fingerprint = digest_of([names.fingerprint, memory.memory_state(), *sorted(kbs)])

    def __len__(self) -> int:
        return len(self._names) + sum(1 for _ in self._remembered())

    def __iter__(self) -> Iterator[NameRow]:
        yield from self._names
        yield from self._remembered()

    def _remembered(self) -> Iterator[NameRow]:
        told = self._memory.all_meanings() if self._remembers else ()
        return remembered_names(
            (one for one in told if not self._names.leaves_out(one.entity)), self._kbs
        )


class NamesOfStore:
    """The names of KBs as the store has them, and surfaces that meant their entities.

    They are the names of a space that is built of the store, and need none.
    """

    cache_dir: Path | None = None

    def __init__(
        self, store: Store, kbs: Sequence[str], known: Callable[[], Iterator[Meaning]]
    ) -> None:
        self._store = store
        self._kbs = kbs
        self._known = known
        revisions = [[kb, str(store.kb(kb).revision)] for kb in kbs]
        self.fingerprint = digest_of([store.identity, revisions, store.memory_state()])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[NameRow]:
        for kb in self._kbs:
            for entity, forms in self._store.folded_entities(kb):
                for folded, (surface, count) in alias_rows(entity, forms).items():
                    yield NameRow(surface, folded, kb, count, entity.key)
        yield from remembered_names(self._known(), self._kbs)


def remembered_names(meanings: Iterable[Meaning], kbs: Collection[str]) -> Iterator[NameRow]:
    """Surfaces as names of the entities of some KBs that they meant."""
    for one in meanings:
        if one.entity.key and one.entity.kb in kbs:
            times = max(1, round(one.times))
            yield NameRow(one.surface, one.folded, one.entity.kb, times, one.entity.key)


def detectors_of(
    space: Space,
    kbs: Sequence[str],
    settings: LinkSection,
    memory: Store | PartOfMemory,
    registry: Registry,
) -> dict[str, Detector]:
    """The detectors that the settings name, with all names that they look for."""
    return detectors_for(NamesWithMemory(SpaceNames(space, kbs), memory, kbs), settings, registry)


def detectors_for(names: Names, settings: LinkSection, registry: Registry) -> dict[str, Detector]:
    """The detectors that the settings name, for some names."""
    return {
        name: registry.create("detector", name, own, names)
        for name, own in detector_settings(registry, settings).items()
    }


def detector_settings(registry: Registry, settings: LinkSection) -> dict[str, PluginSettings]:
    """The checked settings of each detector, by its full name."""
    names = list(dict.fromkeys(registry.get("detector", one).name for one in settings.detector))
    raw: dict[str, dict[str, object]] = {name: {} for name in names}
    for setting, value in settings.detector_settings.items():
        if setting in dict(all_settings()):
            raise ConfigError(
                f"{setting!r} is a setting of the workspace, not of a detector",
                hint=f"Write it in kglink.toml, or for one command: {env_name(setting)}={value}",
            )
        name, dot, key = setting.rpartition(".")
        full = registry.get("detector", name).name if dot else names[0]
        if full not in raw or (len(names) > 1 and not dot):
            raise ConfigError(
                f"link.detector_settings: {setting!r} is no setting of the detectors in use",
                hint=f"Write NAME.setting, with one of: {', '.join(names)}.",
            )
        raw[full][key] = value
    if settings.language != "auto":
        for name, own in raw.items():
            if "language" in setting_keys(registry.get("detector", name).settings):
                own.setdefault("language", settings.language)
    return {name: registry.settings_for("detector", name, own) for name, own in raw.items()}
