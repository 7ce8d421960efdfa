"""Candidates of mentions: names and vectors asked together, KB by KB, and scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from kglink.linking.contexts import (
    Contexts,
    Measure,
    PooledContexts,
    TokenContexts,
    TokenSearchOf,
    measure_of,
)
from kglink.linking.names import Found, NameSearch, Surface
from kglink.linking.reading import Reader, ReadMentions
from kglink.linking.scoring import (
    ALIAS_SCORING,
    EVIDENCE,
    MENTION_SCORING,
    NAME_SCORING,
    TRAINED_SCORING,
    Scoring,
)
from kglink.records import Candidate, EntityId, MentionInText
from kglink.space.segment import Segment
from kglink.space.space import Space
from kglink.text.fold import fold

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]
#: What finds and orders candidates.
FoundBy = Literal["all", "vectors", "names"]
#: For each KB the candidates of a mention, best first.
ByKB = Mapping[str, Sequence[Candidate]]


class _Use(NamedTuple):
    """Which evidence a search uses."""

    names: bool
    name_vectors: bool
    contexts: bool
    """Whether mentions in their texts are compared with the texts of entities."""
    texts_bring: bool
    """Whether texts bring candidates, or are compared for those that names brought."""


class CandidateSearch:
    """Finds and scores the candidates of mentions in a space.

    Without ``scoring`` it is that of a plain or of a trained encoder which was fitted on no
    mentions; for evidence of one kind alone there is but one. ``token_search`` is for a model
    that compares tokens; without it such a model's pooled vectors are compared.
    """

    def __init__(
        self,
        space: Space,
        reader: Reader,
        *,
        candidates: int,
        scoring: Scoring | None = None,
        by: FoundBy = "all",
        token_search: TokenSearchOf | None = None,
    ) -> None:
        self._space = space
        self._reader = reader
        self._candidates = candidates
        self.scoring = self._chosen_scoring(scoring, by)
        self._use = self._chosen_use(by)
        trained = reader.trained
        compares_tokens = trained is not None and trained.compares_tokens
        self._token_search = token_search if compares_tokens else None
        cosine = trained is None or trained.searches_by_cosine
        self._measure = Measure() if by == "names" else measure_of(space, cosine=cosine)
        self._name_search = NameSearch(
            space, self._measure, candidates, self._use.names, self._use.name_vectors
        )

    def find(
        self, mentions: Sequence[MentionInText], kbs: Sequence[str], *, limit: int | None = None
    ) -> list[dict[str, list[Candidate]]]:
        """For each mention and KB the scored candidates, best first, at most ``limit`` of them.

        Equal scores are ordered by popularity, then by key; between KBs the caller keeps the
        order of ``kbs``.
        """
        if not mentions:
            return []
        texts = list(dict.fromkeys(mention.surface for mention in mentions))
        place = {text: at for at, text in enumerate(texts)}
        read = self._read(texts, mentions)
        surfaces = [
            Surface(text, fold(text) or text, None if read.names is None else read.names[at])
            for at, text in enumerate(texts)
        ]
        own = [surfaces[place[mention.surface]] for mention in mentions]
        contexts = self._contexts(read, own)
        answers: list[dict[str, list[Candidate]]] = [{} for _ in mentions]
        for kb in kbs:
            segment = self._space.segments[kb]
            by_surface = self._name_search.find(surfaces, kb)
            near = contexts.near(kb, self._candidates) if self._use.texts_bring else None
            for at, mention in enumerate(mentions):
                found = by_surface[place[mention.surface]]
                if near is not None:
                    found = self._name_search.with_more(found, near[at], own[at], segment)
                found = self._with_context(found, at, contexts, segment)
                answers[at][kb] = self._ranked(segment, found, limit or self._candidates)
        return answers

    def count_truncated(self, mentions: Sequence[MentionInText]) -> int:
        """How many mentions are longer, alone or with their context, than the encoder reads."""
        if not (self._use.name_vectors or self._use.contexts):
            return 0
        return self._reader.count_truncated(mentions)

    def _chosen_scoring(self, scoring: Scoring | None, by: FoundBy) -> Scoring:
        trained = self._reader.trained is not None
        if by == "names":
            return NAME_SCORING
        if by == "vectors":
            return MENTION_SCORING if trained and self._space.has_rows("text") else ALIAS_SCORING
        return scoring or (TRAINED_SCORING if trained else Scoring())

    def _chosen_use(self, by: FoundBy) -> _Use:
        has_texts, has_names = self._space.has_rows("text"), self._space.has_rows("alias")
        weights, alone = self.scoring.weights, by == "vectors"
        if by == "names":
            return _Use(names=True, name_vectors=False, contexts=False, texts_bring=False)
        if self.scoring is MENTION_SCORING:
            return _Use(names=False, name_vectors=False, contexts=True, texts_bring=True)
        return _Use(
            names=not alone,
            name_vectors=alone or not has_texts or weights.alias > 0,
            contexts=not alone and has_texts,
            # Where the context counts for every candidate, it must be able to bring candidates.
            texts_bring=has_texts and (not has_names or weights.context > 0),
        )

    def _read(self, texts: Sequence[str], mentions: Sequence[MentionInText]) -> ReadMentions:
        if not (self._use.name_vectors or self._use.contexts):
            return ReadMentions(None, [None] * len(mentions))
        return self._reader.read(
            texts,
            mentions,
            names=self._use.name_vectors,
            contexts=self._use.contexts and self._token_search is None,
            tokens=self._use.contexts and self._token_search is not None,
        )

    def _contexts(self, read: ReadMentions, own: Sequence[Surface]) -> Contexts:
        if self._token_search is not None and read.tokens is not None:
            return TokenContexts(self._space, self._measure, read.tokens, self._token_search)
        names = [surface.vector for surface in own]
        return PooledContexts(self._space, self._measure, read.contexts, names)

    def _with_context(self, found: Found, at: int, contexts: Contexts, segment: Segment) -> Found:
        """Add the context, for the candidates for which it counts."""
        values = np.zeros(len(found.entities), dtype=np.float32)
        if self._use.contexts:
            exact = found.evidence["exact"] > 0
            counts = np.flatnonzero(exact | (self.scoring.weights.context > 0))
            scores = contexts.scores(at, found.entities[counts], segment) if len(counts) else None
            if scores is not None:
                values[counts] = scores
        return Found(found.entities, {**found.evidence, "context": values})

    def _ranked(self, segment: Segment, found: Found, limit: int) -> list[Candidate]:
        entities = found.entities
        scores = self.scoring.weights.score(found.evidence)
        popularity = segment.popularity[entities]
        order = np.lexsort((entities, -popularity, -scores))
        return [
            Candidate(
                id=EntityId(segment.kb, segment.keys[entities[at]]),
                title=segment.titles[entities[at]],
                score=float(scores[at]),
                popularity=float(popularity[at]),
                evidence={kind: round(float(found.evidence[kind][at]), 4) for kind in EVIDENCE},
            )
            for at in order[:limit]
        ]


def joint_ranking(by_kb: ByKB, kbs: Sequence[str]) -> list[Candidate]:
    """All KBs in one list: by score, then popularity, then KB order, then key."""
    ranked = [one for kb in kbs for one in by_kb.get(kb, ())]
    return sorted(ranked, key=lambda one: (-one.score, -one.popularity))
