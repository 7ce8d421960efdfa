"""From texts to links: detect, retrieve, rerank, decide, and say what else is the same thing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice
from typing import Protocol

from kglink.config import LinkSection
from kglink.errors import UsageError
from kglink.linking.queries import MentionQuery
from kglink.linking.retrieve import Retriever, Scored
from kglink.linking.scoring import Scoring
from kglink.plugins import Detector, Reranker
from kglink.records import (
    Candidate,
    Entity,
    EntityId,
    Link,
    LinkedDocument,
    MentionInText,
    Ranking,
    Span,
    TextInput,
)

#: Mentions are encoded and searched together, across documents, up to about this many.
BATCH_MENTIONS = 256
BATCH_TEXTS = 1024
#: Candidates per KB among which the best rival of the answer is looked for.
LEAST_RIVALS = 4


class EntityFacts(Protocol):
    """What the linker reads of the store."""

    def get_entities(self, ids: Iterable[EntityId]) -> dict[EntityId, Entity]:
        """The entities that are there."""
        ...

    def counterparts(self, ids: Iterable[EntityId]) -> dict[EntityId, tuple[EntityId, ...]]:
        """The same things in other KBs."""
        ...


class Linker:
    """Links texts to some KBs of a space."""

    def __init__(
        self,
        retriever: Retriever,
        detector: Callable[[], Detector],
        facts: EntityFacts,
        kbs: Sequence[str],
        settings: LinkSection,
        *,
        reranker: Reranker | None = None,
    ) -> None:
        self._retriever = retriever
        self._make_detector = detector
        self._facts = facts
        self._kbs = tuple(kbs)
        self._settings = settings
        self._reranker = reranker

    @property
    def scoring(self) -> Scoring:
        """How evidence is weighed."""
        return self._retriever.scoring

    @cached_property
    def detector(self) -> Detector:
        """The mention detector, made when the first text without given mentions comes."""
        return self._make_detector()

    @property
    def reranker(self) -> Reranker | None:
        """What orders the first candidates anew."""
        return self._reranker

    def link(self, texts: Iterable[TextInput]) -> Iterator[LinkedDocument]:
        """Link texts; the answers come in the order of the texts, a few texts behind."""
        batch: list[tuple[TextInput, list[Span]]] = []
        mentions = 0
        for source in texts:
            spans = self.detector.detect(source.text) if source.spans is None else source.spans
            batch.append((source, sorted(spans, key=lambda span: (span.start, span.end))))
            mentions += len(spans)
            if mentions >= BATCH_MENTIONS or len(batch) >= BATCH_TEXTS:
                yield from self._link_batch(batch)
                batch, mentions = [], 0
        yield from self._link_batch(batch)

    def _link_batch(
        self, batch: Sequence[tuple[TextInput, list[Span]]]
    ) -> Iterator[LinkedDocument]:
        for source, spans in batch:
            check_spans(source, spans)
        places = [(source.text, span) for source, spans in batch for span in spans]
        links: list[Link] = []
        for first in range(0, len(places), BATCH_MENTIONS):
            links += self._link_places(places[first : first + BATCH_MENTIONS])
        done = iter(self._with_facts(links))
        for source, spans in batch:
            own = tuple(islice(done, len(spans)))
            yield LinkedDocument(source.id, source.text, own, self._meta(source, spans))

    def _meta(self, source: TextInput, spans: Sequence[Span]) -> dict[str, object]:
        """What was done, and how many mentions were longer than the encoder reads."""
        how = "detected" if source.spans is None else "given"
        meta: dict[str, object] = {"kbs": list(self._kbs), "mentions": how}
        queries = [MentionQuery(source.text, span.start, span.end) for span in spans]
        if cut := self._retriever.count_truncated(queries):
            meta["truncated"] = f"{cut} of the mentions, with their contexts, were read in part"
        return meta

    def candidates(
        self, places: Sequence[tuple[str, Span]], *, limit: int
    ) -> list[dict[str, list[Scored]]]:
        """For each span of a text, and each KB, the ranked candidates; nothing is decided."""
        queries = [MentionQuery(text, span.start, span.end) for text, span in places]
        return self._retriever.retrieve(queries, self._kbs, limit=limit)

    def _link_places(self, places: Sequence[tuple[str, Span]]) -> list[Link]:
        found = self.candidates(places, limit=max(self._settings.top_k, LEAST_RIVALS))
        rankings = [joint_ranking(by_kb, self._kbs) for by_kb in found]
        best = {ranked[0].id for ranked in rankings if ranked}
        twins = self._facts.counterparts(best)
        links = [
            self._decide(text, span, ranked, twins)
            for (text, span), ranked in zip(places, rankings, strict=True)
        ]
        return self._reranked(places, links)

    def _decide(
        self,
        text: str,
        span: Span,
        ranked: Sequence[Scored],
        twins: Mapping[EntityId, tuple[EntityId, ...]],
    ) -> Link:
        candidates = tuple(
            Candidate(id=one.id, title=one.title, score=one.score, evidence=one.evidence)
            for one in ranked[: self._settings.top_k]
        )
        probability = self._probability(ranked, twins)
        linked = bool(candidates) and probability >= self._settings.threshold
        return Link(
            start=span.start,
            end=span.end,
            surface=text[span.start : span.end],
            candidates=candidates,
            chosen=candidates[0] if linked else None,
            confidence=probability if linked else 1 - probability,
        )

    def _probability(
        self, ranked: Sequence[Scored], twins: Mapping[EntityId, tuple[EntityId, ...]]
    ) -> float:
        """How likely the best is right; the same thing in another KB is no rival of it."""
        if not ranked:
            return 0.0
        best = ranked[0]
        same = {best.id, *twins.get(best.id, ())}
        rivals = [one.score for one in ranked if one.id not in same]
        lead = best.score - max(rivals, default=0.0)
        probability = self.scoring.probability(best.evidence, lead)
        # Among equals one can be right: which of them was named first says nothing.
        return probability / (1 + sum(score == best.score for score in rivals))

    def _reranked(self, places: Sequence[tuple[str, Span]], links: Sequence[Link]) -> list[Link]:
        """The links with their candidates in the reranker's order; NIL was decided before."""
        if self._reranker is None:
            return list(links)
        rankings = [
            Ranking(MentionInText(text, span.start, span.end), link.candidates)
            for (text, span), link in zip(places, links, strict=True)
        ]
        return [
            replace(
                link,
                candidates=ranked.candidates,
                chosen=ranked.candidates[0] if link.chosen else None,
            )
            for link, ranked in zip(links, self._reranker.rank(rankings), strict=True)
        ]

    def _with_facts(self, links: Sequence[Link]) -> Iterator[Link]:
        """Add what the store says of the candidates: address, description, counterparts."""
        ids = {candidate.id for link in links for candidate in link.candidates}
        entities = self._facts.get_entities(ids)
        twins = self._facts.counterparts(ids)
        for link in links:
            candidates = tuple(
                _described(candidate, entities.get(candidate.id), twins.get(candidate.id, ()))
                for candidate in link.candidates
            )
            yield replace(
                link, candidates=candidates, chosen=candidates[0] if link.chosen else None
            )


def joint_ranking(by_kb: Mapping[str, Sequence[Scored]], kbs: Sequence[str]) -> list[Scored]:
    """All KBs in one list: by score, then popularity, then KB order, then key."""
    ranked = [one for kb in kbs for one in by_kb.get(kb, ())]
    return sorted(ranked, key=lambda one: (-one.score, -one.popularity))


def check_spans(source: TextInput, spans: Sequence[Span]) -> None:
    """Refuse spans that lie outside of their text."""
    for span in spans:
        if not 0 <= span.start < span.end <= len(source.text):
            raise UsageError(
                f"text {source.id!r}: the span {span.start} to {span.end} is not inside the text "
                f"of {len(source.text)} characters",
                hint="Spans are half-open character offsets: 0 <= start < end <= length.",
            )


def _described(
    candidate: Candidate, entity: Entity | None, also: tuple[EntityId, ...]
) -> Candidate:
    if entity is None:  # Removed from the store after the space was built.
        return replace(candidate, also=also)
    return replace(
        candidate, url=entity.url, description=entity.description, type=entity.type, also=also
    )
