"""Candidates of mentions: names and vectors asked together, KB by KB, and scored."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cache
from itertools import combinations, permutations
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from kglink.linking.asked import AskedKind, ask
from kglink.linking.contexts import (
    Contexts,
    Measure,
    PooledContexts,
    TokenContexts,
    TokenSearchOf,
    measure_of,
)
from kglink.linking.counterparts import Counterparts
from kglink.linking.decide import LEAST_NEARNESS
from kglink.linking.describe import EntityFacts, described
from kglink.linking.memory import Memory, Recalled
from kglink.linking.names import Found, NameSearch, Surface
from kglink.linking.reading import Reader, ReadMentions
from kglink.linking.scoring import (
    ALIAS_SCORING,
    ALONE,
    MENTION_SCORING,
    PLAIN_SCORING,
    TRAINED_SCORING,
    Scoring,
)
from kglink.records import Candidate, EntityId, MentionInText, Ranking
from kglink.space.names import places_in
from kglink.space.remembered import RememberedVectors
from kglink.space.segment import Segment
from kglink.space.space import Space
from kglink.space.words import MEASURES, WordMeasure
from kglink.text.abbreviations import long_form_of
from kglink.text.fold import fold

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]
#: What finds and orders candidates.
FoundBy = Literal["all", "vectors", "names", "bm25", "tfidf"]
#: For each KB the candidates of a mention, best first.
ByKB = Mapping[str, Sequence[Candidate]]
#: The best candidates of a mention, each with its KB and its place there.
_First = list[tuple[Candidate, str, int]]

#: So many of the best counterparts of a KB's candidates become candidates in another KB.
_BROUGHT_BY_COUNTERPARTS = 5
#: What the context of an entity that bears the mention's name is where it was not read: the mean.
MEAN_CONTEXT = 0.43
#: Mentions that are read at once where all of a run are compared.
_READ_TOGETHER = 512
#: What memory says of a candidate, and of its KB.
_OF_MEMORY = ("memory", "like_memory", "nil")


class _Use(NamedTuple):
    """Which evidence a search uses."""

    names: bool
    name_vectors: bool
    contexts: bool
    """Whether mentions in their texts are compared with the texts of entities."""
    texts_bring: bool
    """Whether texts bring candidates, or are compared for those that names brought."""
    words: WordMeasure | None = None
    """How the words of mentions and entities are compared; None: they are not."""


class _Batch(NamedTuple):
    """Mentions that are searched together."""

    surfaces: list[Surface]
    """All different ones, of mentions and of what they are short for."""
    own: list[Surface]
    """For each mention that of its own words."""
    long: list[Surface | None]
    """For each mention that of what its text says it is short for."""
    contexts: Contexts
    recalled: Recalled
    """What memory knows of the surfaces."""
    unread: frozenset[int] = frozenset()
    """The mentions whose text was not read, because it would decide nothing."""


class CandidateSearch:
    """Finds and scores the candidates of mentions in a space.

    Without ``scoring`` it is that of a plain or of a trained encoder which was fitted on no
    mentions; for evidence of one kind alone there is but one. ``token_search`` is for a model
    that compares tokens; without it such a model's pooled vectors are compared. ``asked`` are
    plugins that give evidence besides, of candidates that are described with ``facts``.
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
        memory: Memory | None = None,
        remembered: RememberedVectors | None = None,
        counterparts: Counterparts | None = None,
        asked: Sequence[AskedKind] = (),
        facts: EntityFacts | None = None,
    ) -> None:
        self._space = space
        self.memory = memory
        self._counterparts = counterparts
        self._reader = reader
        self._candidates = candidates
        self._asked = tuple(asked) if by == "all" and facts is not None else ()
        self._asked_depth = max((one.depth for one in self._asked), default=0)
        self._facts = facts
        self.scoring = self._chosen_scoring(scoring, by)
        self._remembered = remembered if self.scoring.counts("like_memory") else None
        self._use = self._chosen_use(by)
        trained = reader.trained
        compares_tokens = trained is not None and trained.compares_tokens
        self._token_search = token_search if compares_tokens else None
        cosine = trained is None or trained.searches_by_cosine
        by_vectors = by in ("all", "vectors")
        self._measure = measure_of(space, cosine=cosine) if by_vectors else Measure()
        self._name_search = NameSearch(
            space,
            self._measure,
            candidates,
            self._use.names,
            self._use.name_vectors,
            self._use.words,
            words_bring=by in MEASURES,
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
        batch, places = self._each_once(self._batch(mentions))
        tables = {kb: self._in_kb(batch, kb) for kb in kbs}
        is_open = self._openness(tables)
        self._doubt_memory(batch, tables, is_open)
        if not self._reads_all:
            batch, tables, places = self._with_windows(batch, tables, places, mentions, is_open)
        for kb, found in tables.items():
            segment = self._space.segments[kb]
            tables[kb] = [
                self._with_context(one, at, batch, segment) for at, one in enumerate(found)
            ]
        self._add_counterparts(batch, tables)
        if self._asked and self._facts:
            tables, places = self._with_asked(mentions, tables, places, self._facts)
        most = limit or self._candidates
        ranked = [
            dict(zip(tables, found, strict=True))
            for found in zip(
                *(
                    [self._ranked(self._space.segments[kb], one, most) for one in column]
                    for kb, column in tables.items()
                ),
                strict=True,
            )
        ]
        return [ranked[place] for place in places]

    def _each_once(self, batch: _Batch) -> tuple[_Batch, list[int]]:
        """Mentions of the same words once, and the place of each mention among them.

        Where all texts are read no two mentions are the same.
        """
        if self._reads_all:
            return batch, list(range(len(batch.own)))
        known: dict[tuple[str, str], int] = {}
        places = [
            known.setdefault((own.text, long.text if long else ""), len(known))
            for own, long in zip(batch.own, batch.long, strict=True)
        ]
        first = [places.index(place) for place in range(len(known))]
        return batch._replace(
            own=[batch.own[at] for at in first], long=[batch.long[at] for at in first]
        ), places

    def mention_vectors(self, mentions: Sequence[MentionInText]) -> tuple[FloatArray, FloatArray]:
        """The vectors of mentions as names, and in their texts, all of length one, or zeros."""
        names, contexts = [], []
        for start in range(0, len(mentions), _READ_TOGETHER):
            some = mentions[start : start + _READ_TOGETHER]
            long = _long_forms(some)
            surfaces = [full or one.surface for one, full in zip(some, long, strict=True)]
            read = self._reader.read(surfaces, some, names=True, contexts=True, tokens=False)
            if read.names is not None:
                names.append(_of_length_one(read.names))
                none = np.zeros(read.names.shape[1], dtype=np.float32)
                found = [none if one is None else one for one in read.contexts]
                contexts.append(_of_length_one(np.stack(found)))
        dim = self._space.manifest.model.dim
        empty = [np.empty((0, dim), dtype=np.float32)]
        return np.concatenate(names or empty), np.concatenate(contexts or empty)

    def _batch(self, mentions: Sequence[MentionInText]) -> _Batch:
        """Read the mentions, and look up what their surfaces stand for and meant before."""
        own = [mention.surface for mention in mentions]
        long = _long_forms(mentions) if self._use.names else [""] * len(mentions)
        texts = list(dict.fromkeys([*own, *filter(None, long)]))
        read = self._read(texts, mentions if self._reads_all else ())
        surfaces = {
            text: Surface(text, fold(text) or text, None if read.names is None else read.names[at])
            for at, text in enumerate(texts)
        }
        named = [surfaces[text] for text in own]
        return _Batch(
            list(surfaces.values()),
            named,
            [surfaces[text] if text else None for text in long],
            self._contexts(read, named),
            self._recalled(surfaces.values()),
        )

    def _recalled(self, surfaces: Collection[Surface]) -> Recalled:
        if self.memory is None or not self.scoring.counts("memory"):
            return Recalled()
        return Recalled.of(self.memory, self._remembered, surfaces)

    def _in_kb(self, batch: _Batch, kb: str) -> list[Found]:
        """The candidates of all mentions in one KB, with all evidence but that of other KBs."""
        segment = self._space.segments[kb]
        by_surface = dict(
            zip(
                (surface.text for surface in batch.surfaces),
                self._name_search.find(batch.surfaces, kb),
                strict=True,
            )
        )
        near = batch.contexts.near(kb, self._candidates) if self._use.texts_bring else None
        return [
            self._of_mention(batch, at, segment, by_surface, None if near is None else near[at])
            for at in range(len(batch.own))
        ]

    def _of_mention(
        self,
        batch: _Batch,
        at: int,
        segment: Segment,
        by_surface: Mapping[str, Found],
        near: IntArray | None,
    ) -> Found:
        own, long = batch.own[at], batch.long[at]
        found = by_surface[own.text]
        if long is not None:
            found = self._name_search.with_long_form(found, by_surface[long.text], own, segment)
        said = batch.recalled.said(filter(None, (own, long)), segment)
        brought = np.array(sorted({*said.own, *said.like}), dtype=np.int64)
        if near is not None:
            brought = np.union1d(brought, near)
        if len(brought):
            found = self._name_search.with_more(found, brought, own, segment)
        count = len(found.entities)
        more = {
            "memory": _values_of(found.entities, said.own),
            "like_memory": _values_of(found.entities, said.like),
            "nil": np.full(count, said.nil, dtype=np.float32),
            "counterpart": np.zeros(count, dtype=np.float32),
        }
        return Found(found.entities, {**found.evidence, **more})

    def _doubt_memory(
        self, batch: _Batch, tables: Mapping[str, list[Found]], is_open: Callable[[int], bool]
    ) -> None:
        """Trust memory less where several things bear a mention's name: there its text decides."""
        for at, own in enumerate(batch.own):
            here = {kb: found[at] for kb, found in tables.items()}
            told = [one.evidence[kind] for one in here.values() for kind in _OF_MEMORY]
            if not any(values.any() for values in told) or not is_open(at):
                continue
            bearers = sum(int(np.count_nonzero(one.evidence["exact"])) for one in here.values())
            trust = np.float32(batch.recalled.trust(own, bearers))
            for kb, one in here.items():
                doubted = {kind: one.evidence[kind] * trust for kind in _OF_MEMORY}
                tables[kb][at] = Found(one.entities, {**one.evidence, **doubted})

    def _add_counterparts(self, batch: _Batch, tables: dict[str, list[Found]]) -> None:
        """Let accepted overlaps share evidence, and bring what another KB finds near the top."""
        if not self._counterparts or not self.scoring.counts("counterpart") or len(tables) < 2:
            return
        for at in range(len(batch.own)):
            # As they are before any sharing: what two KBs say is not counted back and forth.
            before = {kb: found[at] for kb, found in tables.items()}
            scores = {
                kb: np.maximum(self.scoring.weights_in(kb).score(found.evidence), 0)
                for kb, found in before.items()
            }
            for kb, other in permutations(tables, 2):
                theirs = before[other]
                owner, rows, sure = self._counterparts.of_rows(other, theirs.entities, kb)
                if len(rows):
                    segment, values = self._space.segments[kb], scores[other][owner] * sure
                    own = before[kb], scores[kb]
                    tables[kb][at] = self._shared(
                        batch, at, segment, tables[kb][at], rows, values - _score_of(*own, rows)
                    )

    def _shared(
        self,
        batch: _Batch,
        at: int,
        segment: Segment,
        found: Found,
        rows: IntArray,
        values: FloatArray,
    ) -> Found:
        """The candidates with what counterparts say of some rows, those that were not there too."""
        best = np.argsort(-values)[:_BROUGHT_BY_COUNTERPARTS]
        new = rows[best]
        new = new[~places_in(found.entities, new)[1]]
        if len(new):
            found = self._name_search.with_more(found, new, batch.own[at], segment)
            if self.scoring.counts("context"):
                found = self._with_context(found, at, batch, segment)
        places, here = places_in(found.entities, rows)
        shared = found.evidence["counterpart"].copy()
        np.maximum.at(shared, places[here], values[here])
        return Found(found.entities, {**found.evidence, "counterpart": shared})

    def _with_asked(
        self,
        mentions: Sequence[MentionInText],
        tables: Mapping[str, list[Found]],
        places: Sequence[int],
        facts: EntityFacts,
    ) -> tuple[dict[str, list[Found]], list[int]]:
        """Ask plugins for evidence of the best candidates that each KB has so far.

        Mentions that were one stay one where the plugins say the same of them.
        """
        first: dict[int, _First] = {}
        named: dict[int, Ranking] = {}
        for place, mention in zip(places, mentions, strict=True):
            if place not in first:
                first[place] = self._first({kb: found[place] for kb, found in tables.items()})
                named[place] = Ranking(mention, tuple(one for one, _, _ in first[place]))
        known = dict(
            zip(
                named,
                described(facts, list(named.values()), self._asked_depth * len(tables)),
                strict=True,
            )
        )
        columns = ask(
            self._asked,
            [
                Ranking(mention, known[place].candidates)
                for place, mention in zip(places, mentions, strict=True)
            ],
        )
        told: dict[tuple[int, bytes], int] = {}
        asked: dict[str, list[Found]] = {kb: [] for kb in tables}
        now: list[int] = []
        for at, place in enumerate(places):
            key = place, b"".join(values[at].tobytes() for values in columns.values())
            if key not in told:
                told[key] = len(told)
                for kb, found in tables.items():
                    own = [row for row, (_, of, _) in enumerate(first[place]) if of == kb]
                    one = found[place].with_asked(
                        [first[place][row][2] for row in own],
                        [known[place].candidates[row] for row in own],
                        {kind: values[at][own] for kind, values in columns.items()},
                    )
                    asked[kb].append(one)
            now.append(told[key])
        return asked, now

    def _first(self, found: Mapping[str, Found]) -> _First:
        """The best candidates of a mention so far."""
        told = []
        for kb, own in found.items():
            segment = self._space.segments[kb]
            scores = self.scoring.weights_in(kb).score(own.evidence)
            places = self._order(segment, own, scores)[: self._asked_depth]
            best = self._made(segment, own, scores, places)
            told += [(one, kb, int(place)) for one, place in zip(best, places, strict=True)]
        return sorted(told, key=lambda one: (-one[0].score, -one[0].popularity))

    def leaves_out(self, entity: EntityId) -> bool:
        """Whether an entity of these KBs is never found, because the space is limited."""
        return self._space.leaves_out(entity)

    def nearness(self, left: EntityId, right: EntityId) -> float:
        """The cosine of the texts of two entities; 0 where the space has no vectors of texts.

        Of KBs without vectors it is told by names: 1 where the two have one in common.
        """
        alone = self._space.manifest.names_alone
        if left.kb in alone or right.kb in alone:
            return float(not self._names_of(left).isdisjoint(self._names_of(right)))
        if not self._space.has_rows("text"):
            return 0.0
        vectors = []
        for one in (left, right):
            segment = self._space.segments[one.kb]
            (vector,) = segment.vectors("text", np.array([segment.row(one.key)]))
            vectors.append(vector / max(float(np.linalg.norm(vector)), 1e-9))
        return float(vectors[0] @ vectors[1])

    def _names_of(self, entity: EntityId) -> set[str]:
        """The folded names of an entity."""
        segment = self._space.segments[entity.kb]
        rows, _ = segment.aliases_of(np.array([segment.row(entity.key)]))
        return {segment.names.folded[row] for row in rows}

    def with_memory(self, memory: Memory | None) -> CandidateSearch:
        """The same search with another memory."""
        other = copy(self)
        other.memory = memory
        return other

    def count_truncated(self, mentions: Sequence[MentionInText]) -> int:
        """How many mentions are longer, alone or with their context, than the encoder reads."""
        if not (self._use.name_vectors or self._use.contexts):
            return 0
        return self._reader.count_truncated(mentions)

    def _chosen_scoring(self, scoring: Scoring | None, by: FoundBy) -> Scoring:
        trained = self._reader.trained is not None
        if by in ALONE:
            return ALONE[by]
        if by == "vectors":
            return MENTION_SCORING if trained and self._space.has_rows("text") else ALIAS_SCORING
        chosen = scoring or (TRAINED_SCORING if trained else PLAIN_SCORING)
        chosen = chosen.by_names(self._space.manifest.names_alone)
        return chosen.with_kinds((one.kind for one in self._asked), trained=trained)

    def _chosen_use(self, by: FoundBy) -> _Use:
        has_texts, has_names = self._space.has_rows("text"), self._space.has_rows("alias")
        scoring, alone = self.scoring, by == "vectors"
        words = next((one for one in MEASURES if one == by), None)
        if words:
            return _Use(False, False, False, False, words)
        # A fit found that words count, or not; where nothing was fitted they are there to be seen.
        told = scoring.counts("bm25") or "bm25" not in scoring.weights.by_kind
        has_words = by == "all" and all(one.words for one in self._space.segments.values())
        words = "bm25" if has_words and told else None
        if by == "names" or not (has_texts or has_names):
            return _Use(
                names=True, name_vectors=False, contexts=False, texts_bring=False, words=words
            )
        if self.scoring is MENTION_SCORING:
            return _Use(names=False, name_vectors=False, contexts=True, texts_bring=True)
        return _Use(
            names=not alone,
            name_vectors=alone
            or not has_texts
            or scoring.counts("alias")
            or self._remembered is not None,
            contexts=not alone and has_texts,
            # Where the context counts for every candidate, it must be able to bring candidates.
            texts_bring=has_texts and (not has_names or scoring.counts("context")),
            words=words,
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

    def _with_windows(
        self,
        batch: _Batch,
        tables: Mapping[str, list[Found]],
        places: Sequence[int],
        mentions: Sequence[MentionInText],
        opens: Callable[[int], bool],
    ) -> tuple[_Batch, dict[str, list[Found]], list[int]]:
        """Read the texts of those mentions for which they can decide something.

        From here on each of these is one by itself.
        """
        is_open = [self._use.contexts and opens(at) for at in range(len(batch.own))]
        closed: dict[int, int] = {}
        rows: list[int] = []
        read: dict[int, MentionInText] = {}
        now: list[int] = []
        for place, mention in zip(places, mentions, strict=True):
            if is_open[place] or place not in closed:
                closed[place] = len(rows)
                if is_open[place]:
                    read[len(rows)] = mention
                rows.append(place)
            now.append(closed[place])
        vectors: list[FloatArray | None] = [None] * len(rows)
        if read:
            found = self._read((), list(read.values())).contexts
            for row, vector in zip(read, found, strict=True):
                vectors[row] = vector
        expanded = _Batch(
            batch.surfaces,
            [batch.own[row] for row in rows],
            [batch.long[row] for row in rows],
            PooledContexts(self._space, self._measure, vectors, vectors),
            batch.recalled,
            unread=frozenset(range(len(rows))) - read.keys(),
        )
        return expanded, {kb: [one[row] for row in rows] for kb, one in tables.items()}, now

    @property
    def _reads_all(self) -> bool:
        """Whether the texts of all mentions are read: where they bring candidates."""
        return self._use.texts_bring or self._token_search is not None

    def _openness(self, tables: Mapping[str, list[Found]]) -> Callable[[int], bool]:
        """Whether a mention is open, worked out once: memory changes nothing of it."""
        return cache(lambda at: self._is_open({kb: found[at] for kb, found in tables.items()}))

    def _is_open(self, found: Mapping[str, Found]) -> bool:
        """Whether several entities that are not the same thing bear the name of a mention."""
        named = {
            kb: one.entities[one.evidence["exact"] > 0]
            for kb, one in found.items()
            if one.evidence["exact"].any()
        }
        if len(named) < 2 or any(len(rows) > 1 for rows in named.values()):
            return any(len(rows) > 1 for rows in named.values())
        return not all(
            self._is_same(*pair)
            for pair in combinations([(kb, int(rows[0])) for kb, rows in named.items()], 2)
        )

    def _is_same(self, left: tuple[str, int], right: tuple[str, int]) -> bool:
        """Whether entities of two KBs, given by their rows, are one thing: accepted, or alike."""
        if self._counterparts:
            _, others, _ = self._counterparts.of_rows(left[0], np.array([left[1]]), right[0])
            if right[1] in others:
                return True
        ids = [EntityId(kb, self._space.segments[kb].keys[row]) for kb, row in (left, right)]
        return self.nearness(ids[0], ids[1]) >= LEAST_NEARNESS

    def _with_context(self, found: Found, at: int, batch: _Batch, segment: Segment) -> Found:
        """Add the context, for the candidates for which it counts."""
        values = np.zeros(len(found.entities), dtype=np.float32)
        if self._use.contexts and at in batch.unread:
            values[found.evidence["exact"] > 0] = MEAN_CONTEXT
        elif self._use.contexts:
            exact = found.evidence["exact"] > 0
            counts = np.flatnonzero(exact | (self.scoring.counts("context")))
            scores = (
                batch.contexts.scores(at, found.entities[counts], segment) if len(counts) else None
            )
            if scores is not None:
                values[counts] = scores
        named = found.evidence["exact"] * values
        return Found(found.entities, {**found.evidence, "context": values, "named_context": named})

    def _ranked(self, segment: Segment, found: Found, limit: int) -> list[Candidate]:
        scores = self.scoring.weights_in(segment.kb).score(found.evidence)
        return self._made(segment, found, scores, self._order(segment, found, scores)[:limit])

    def _order(self, segment: Segment, found: Found, scores: FloatArray) -> IntArray:
        """The places of the candidates, best first."""
        popularity = segment.popularity[found.entities]
        return np.lexsort((found.entities, -popularity, -scores))

    def _made(
        self, segment: Segment, found: Found, scores: FloatArray, places: IntArray
    ) -> list[Candidate]:
        """The candidates at some places, with their scores, and what these are made of."""
        weights = self.scoring.weights_in(segment.kb)
        columns = np.stack([values[places] for values in found.evidence.values()], axis=1)
        rounded = columns.astype(np.float64).round(4).tolist()
        made = []
        for place, values in zip(places.tolist(), rounded, strict=True):
            evidence = dict(zip(found.evidence, values, strict=True))
            score, parts = float(scores[place]), weights.parts(evidence)
            if place in found.described:
                known = found.described[place]
                made.append(replace(known, score=score, evidence=evidence, parts=parts))
                continue
            row = found.entities[place]
            made.append(
                Candidate(
                    id=EntityId(segment.kb, segment.keys[row]),
                    title=segment.titles[row],
                    score=score,
                    popularity=float(segment.popularity[row]),
                    evidence=evidence,
                    parts=parts,
                )
            )
        return made


def _of_length_one(vectors: FloatArray) -> FloatArray:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-9), dtype=np.float32)


def _long_forms(mentions: Sequence[MentionInText]) -> list[str]:
    """What each mention is short for: in its own text, or in another window of its document."""
    texts: dict[str, dict[str, None]] = {}
    for mention in mentions:
        texts.setdefault(mention.document or mention.text, {})[mention.text] = None
    return [
        next(
            filter(
                None,
                (
                    mention.name or long_form_of(mention.surface, text)
                    for text in (mention.text, *texts[mention.document or mention.text])
                ),
            ),
            "",
        )
        for mention in mentions
    ]


def _values_of(entities: IntArray, values: Mapping[int, float]) -> FloatArray:
    """The values of some entities, which are all there; 0 of the others."""
    told = np.zeros(len(entities), dtype=np.float32)
    for row, value in values.items():
        told[np.searchsorted(entities, row)] = value
    return told


def _score_of(found: Found, scores: FloatArray, rows: IntArray) -> FloatArray:
    """The scores of some entities; 0 of those that are no candidates."""
    places, here = places_in(found.entities, rows)
    told = np.zeros(len(rows), dtype=np.float32)
    told[here] = scores[places[here]]
    return told


def joint_ranking(by_kb: ByKB, kbs: Sequence[str]) -> list[Candidate]:
    """All KBs in one list: by score, then popularity, then KB order, then key."""
    ranked = [one for kb in kbs for one in by_kb.get(kb, ())]
    return sorted(ranked, key=lambda one: (-one.score, -one.popularity))
