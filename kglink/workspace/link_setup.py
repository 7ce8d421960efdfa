"""`LinkSetup`: a space, its encoder and settings make searches and linkers, and are fitted."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, combinations
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from kglink.config import LinkSection
from kglink.errors import SpaceError, UnknownNameError, UsageError, errors_of
from kglink.evaluation.annotated import is_annotated_whole
from kglink.linking.asked import AskedKind
from kglink.linking.candidates import CandidateSearch
from kglink.linking.contexts import TokenSearchOf
from kglink.linking.fit_clusterer import ClustererChoice, read_choice
from kglink.linking.judge import SpanJudge, default_weights
from kglink.linking.kinds import EvidenceKind
from kglink.linking.pipeline import Linker
from kglink.linking.read_together import READ, ReadTogether
from kglink.linking.reading import MentionReader
from kglink.linking.sameness import Counterparts
from kglink.linking.scoring import SCORING_FILE, Scoring, keeping, read_scoring, write_scoring
from kglink.linking.stages import Stage
from kglink.models import Encoder
from kglink.plugins import DefaultWeights, KeepsFiles, PluginSettings, Registry
from kglink.records import Document, EntityId, OnProgress
from kglink.space.folder import SpaceFolder
from kglink.space.remembered import RememberedSurface, remembered_vectors
from kglink.space.space import Space, SpaceNames, limited_space
from kglink.store import Store
from kglink.store.entity_reader import WantedEntities
from kglink.store.memory import PartOfMemory
from kglink.workspace.detectors import (
    NamesWithMemory,
    detector_settings,
    detectors_for,
    without_auto,
)

if TYPE_CHECKING:
    from kglink.linking.fit import Rankings

#: So many documents that a space is fitted to show by themselves whether they are annotated whole.
_MANY = 100
_ANOTHER_MODEL = "the trained reranker was weighed for another model of the space"


def token_search_of(encoder: Encoder, registry: Registry) -> TokenSearchOf | None:
    """How the token matrices of a model that compares tokens are searched: exactly."""
    trained = encoder.trained
    if trained is None or not trained.compares_tokens:
        return None
    from kglink.space.token_search import TokenSearch  # which loads torch

    scorer = registry.create("scorer", trained.scorer, trained.scorer_settings)
    return cache(lambda tokens: TokenSearch(tokens, scorer))


class Fitted(NamedTuple):
    """The scoring that was fitted, and to what."""

    scoring: Scoring
    rankings: Rankings
    start: Scoring

    def without(self, fold: int) -> Scoring:
        """What is fitted without one part of the documents, to judge that part by.

        The few weights by which a place is a mention are those of all parts.
        """
        from kglink.linking.fit import fit_rankings

        own, all_parts = fit_rankings(self.rankings.without(fold), self.start), self.scoring
        return replace(
            own, spans=all_parts.spans, threshold=all_parts.threshold, links=all_parts.links
        )


@dataclass(frozen=True, slots=True)
class LinkSetup:
    """A space, its encoder and the settings of linking: makes searches and linkers.

    ``reranker`` is the folder of one that is not the space's.
    """

    space: Space
    encoder: Encoder
    link: LinkSection
    store: Store
    registry: Registry
    reranker: Path | None = None

    def changed(self, **settings: object) -> LinkSetup:
        """The same with some settings of linking changed."""
        return replace(self, link=self.link.model_copy(update=settings))

    def search(
        self, *, candidates: int = 0, scoring: Scoring | Literal["kept", "default"] = "kept"
    ) -> CandidateSearch:
        """A search as the settings want it; ``candidates`` per KB at least are found.

        ``scoring``: this one, what is kept of the space, or what a space has before it is fitted.
        The space's own reranker is not asked where it was weighed for another model.
        """
        space, encoder, link, store = self.space, self.encoder, self.link, self.store
        asked = asked_kinds(link, self.registry)
        place, fingerprint = space.folder.path, space.manifest.model.fingerprint
        unfit = scoring == "kept" and not self.reranker and is_reranker_of_another_model(space)
        if link.rerank_top and link.found_by == "all" and not unfit:
            place = self.reranker or space.folder.reranker
            read = ReadTogether(place, encoder.hardware, link.rerank_top, link.rerank_margin)
            asked.append(AskedKind(READ, read, link.rerank_top))
        if scoring == "kept":
            kept = read_scoring(place, fingerprint)
        else:
            kept = None if scoring == "default" else scoring
        by_all, remembered = link.found_by == "all", None
        learnt = store.memory_sources()
        if by_all and space.manifest.rows and learnt:
            remembered = remembered_vectors(
                space.folder.memory,
                store.memory_state(),
                encoder.info.fingerprint,
                space.manifest.model.dim,
                lambda most: [RememberedSurface(*one) for one in store.remembered_surfaces(most)],
                encoder.encode_queries,
                lambda keys: _meant(store, keys),
            )
        by_vectors = by_all or link.found_by == "vectors"
        return CandidateSearch(
            space,
            MentionReader(encoder, link.window_chars),
            candidates=max(link.candidates, link.top_k, candidates),
            scoring=kept,
            found_by=link.found_by,
            token_search=token_search_of(encoder, self.registry) if by_vectors else None,
            memory=store if learnt else None,
            remembered=remembered,
            counterparts=counterparts_of(store, space) if by_all else None,
            asked=asked,
            store=store,
        )

    def linker(
        self,
        search: CandidateSearch,
        kbs: Sequence[str] = (),
        *,
        unfinished: Mapping[str, object] | None = None,
        memory: Store | PartOfMemory | None = None,
        clusters: Mapping[str, str] | None = None,
    ) -> Linker:
        """A linker to some KBs, or all; ``memory``: its detectors look for the names of this one.

        ``clusters``: by folded name what was discovered.
        """
        space, link, store = self.space, self.link, self.store
        kbs = kbs or space.kbs()
        space.kbs(link.prefer)
        # Where several KBs have the same thing, those answer first that the settings prefer, then
        # those that more mentions of the documents meant which memory was learnt from.
        habit = store.memory_kbs()
        preferred = [kb for kb in link.prefer if kb in kbs]
        others = sorted((kb for kb in kbs if kb not in preferred), key=lambda kb: -habit.get(kb, 0))
        unfit = link.rerank_top and is_reranker_of_another_model(space)
        scoring = search.scoring
        return Linker(
            search,
            lambda: detectors_for(
                NamesWithMemory(SpaceNames(space, kbs), memory or store, kbs), link, self.registry
            ),
            store,
            kbs,
            link,
            judge=SpanJudge(
                scoring,
                scoring.spans or default_weights(),
                scoring.threshold if link.threshold == "auto" else link.threshold,
                link.nested,
                {kb: space.segments[kb].proper for kb in kbs},
            ),
            stages=stages_of(link, self.registry, space.folder),
            preferred=(*preferred, *others),
            unfinished=unfinished,
            clusters=clusters,
            not_reranked=[_ANOTHER_MODEL] if unfit else [],
        )

    def fit(self, documents: Mapping[str, Sequence[Document]], progress: OnProgress) -> Fitted:
        """Fit the scoring to documents by source, and keep it; memory of these does not count.

        The sources that are annotated whole say which places are mentions. Where a reranker is
        asked, the space's or the one of a folder, the scoring is kept beside that.
        """
        # These load scipy.optimize, which no link waits for.
        from kglink.linking.fit import fit_rankings, judged_rankings
        from kglink.linking.fit_judge import fit_judge

        space = self.space
        place = space.folder.path
        if self.link.rerank_top:
            place = self.reranker or space.folder.reranker
        unfitted, known = self.changed(found_by="all"), [*chain.from_iterable(documents.values())]
        search = unfitted.search(scoring="default")
        with keeping(place):
            pass  # what may not be written is told before the work
        rankings = judged_rankings(search, known, space.kbs(), self.store.memory_without, progress)
        scoring = fit_rankings(rankings, search.scoring)
        whole = [
            own
            for name, own in documents.items()
            if is_annotated_whole(
                name, own if not name or len(own) >= _MANY else self.store.documents(name)
            )
        ]
        if whole:
            links_all = replace(unfitted, link=without_auto(unfitted.link)).changed(threshold=0.0)
            judging = unfitted.search(scoring=scoring)

            def linker_without(part: Sequence[Document]) -> Linker:
                memory = self.store.memory_without(part)
                return links_all.linker(judging.with_memory(memory), memory=memory)

            judge = fit_judge(linker_without, [*chain.from_iterable(whole)], progress)
            scoring = replace(
                scoring, spans=judge.weights, threshold=judge.threshold, links=judge.links
            )
        # Write the scoring, unless the space has another model by now: that one has its own.
        fingerprint = space.manifest.model.fingerprint

        def check() -> None:
            if space.folder.published_manifest().model.fingerprint != fingerprint:
                raise SpaceError(
                    f"space {space.manifest.name!r} got another model while evidence was fitted to "
                    "it",
                    hint="Run the same command again: it fits the new model.",
                )

        write_scoring(place, fingerprint, scoring, check)
        return Fitted(scoring, rankings, search.scoring)


def _meant(store: Store, keys: Collection[str]) -> Mapping[str, Collection[EntityId]]:
    """What surfaces meant in annotated documents, by their keys."""
    found = store.meanings(keys)
    return {key: {one.entity for one in own if one.entity.kb and one.entity.key}
            for key, own in found.items()}  # fmt: skip


def is_reranker_of_another_model(space: Space) -> bool:
    """Whether the space's trained reranker was weighed for a model that the space had before."""
    place = space.folder.reranker
    weighed = (place / SCORING_FILE).exists()
    return weighed and read_scoring(place, space.manifest.model.fingerprint) is None


def check_plugins(settings: LinkSection, registry: Registry) -> None:
    """Refuse plugins, and settings of them, that do not exist: before a long build."""
    detector_settings(registry, settings)
    _evidence_settings(settings, registry)
    if settings.reranker:
        registry.settings_for("reranker", settings.reranker, settings.reranker_settings)
    if settings.clusterer:
        registry.settings_for("clusterer", settings.clusterer, settings.clusterer_settings)


def _evidence_settings(settings: LinkSection, registry: Registry) -> dict[str, PluginSettings]:
    if settings.found_by != "all":
        return {}
    names = [*registry.builtin_names("evidence"), *settings.more_evidence]
    raw = settings.more_evidence_settings
    return registry.settings_of_each("evidence", names, raw, "link.more_evidence_settings")


def asked_kinds(settings: LinkSection, registry: Registry) -> list[AskedKind]:
    """The evidence of plugins that is weighed: the built-in kinds, and those of the settings."""
    made = []
    for name, own in _evidence_settings(settings, registry).items():
        plugin = registry.get("evidence", name)
        evidence = registry.create("evidence", name, own)
        shown = plugin.short_name if plugin.provider.builtin else plugin.name
        with errors_of(f"the weights of {plugin.title}"):
            weights = DefaultWeights(*map(float, evidence.weights))
            if not all(map(math.isfinite, weights)):
                raise ValueError(f"{weights} are not finite numbers")
        kind = EvidenceKind(shown, plugin.summary, weights)
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


def stages_of(settings: LinkSection, registry: Registry, folder: SpaceFolder) -> list[Stage]:
    """The stages that the settings name: first the reranker, then the clusterer.

    The clusterer has the settings that were chosen for the space, where the user says no others.
    """
    stages: list[Stage] = []
    if settings.reranker:
        plugin = registry.create("reranker", settings.reranker, settings.reranker_settings)
        stages.append(Stage(settings.reranker, plugin, settings.reorder_top))
    if settings.clusterer:
        chosen = clusterer_choice(settings, registry, folder)
        own = {**(chosen.settings if chosen else {}), **settings.clusterer_settings}
        plugin = registry.create("clusterer", settings.clusterer, own)
        stages.append(Stage(settings.clusterer, plugin, settings.reorder_top, sees_all=True))
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


class Limits(NamedTuple):
    """Which entities may be found; what is empty sets no limit."""

    types: tuple[str, ...] = ()
    under: tuple[str, ...] = ()
    """In these branches, of the KBs that they are of: ``kb:key``."""
    not_under: tuple[str, ...] = ()


def limited_to(space: Space, kbs: Sequence[str], limits: Limits, store: Store) -> Space:
    """The space with what may be found of these KBs; the space itself where that is all."""
    under, not_under = _branches(space, limits.under), _branches(space, limits.not_under)
    wanted = {kb: WantedEntities(limits.types, under[kb], not_under[kb]) for kb in kbs}
    if not any(map(any, wanted.values())):
        return space
    # Refuse a type that no entity has.
    known = {one for kb in kbs for one in store.types_of(kb)} if limits.types else set()
    names = {one.casefold() for one in known}
    for one in limits.types:
        if one.casefold() not in names:
            raise UnknownNameError(f"type of entity in {', '.join(kbs)}", one, known - {""})
    keys = {kb: store.wanted_keys(kb, one) for kb, one in wanted.items() if any(one)}
    limited = limited_space(space, keys)
    segments = (limited.segments[kb] for kb in kbs)
    if not any(len(one.keys if one.rows is None else one.rows) for one in segments):
        raise UsageError(
            f"no entity of {', '.join(kbs)} is of these types and in these branches",
            hint="Leave out a type, a branch (under) or an exception (not_under).",
        )
    return limited


def _branches(space: Space, ids: Iterable[str]) -> Mapping[str, tuple[str, ...]]:
    """The keys of the entities at the head of branches, KB by KB."""
    found: dict[str, tuple[str, ...]] = defaultdict(tuple)
    for text in ids:
        kb, key = EntityId.parse(text)
        if not kb:
            raise UsageError(
                f"{text!r} names no entity of a KB",
                hint="Write it with its KB, such as doid:DOID:4.",
            )
        space.kbs([kb])
        found[kb] += (key,)
    return found
