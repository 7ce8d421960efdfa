"""Candidates of mentions: names and vectors asked together, KB by KB, and scored."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cache, partial
from itertools import chain, permutations
from typing import TYPE_CHECKING

import numpy as np

from kglink.arrays import FloatArray, IntArray
from kglink.config import FoundBy
from kglink.files.tables import places_in
from kglink.linking.asked import AskedKind, ask
from kglink.linking.batch import Batch, BatchReader
from kglink.linking.contexts import Measure, TokenSearchOf, measure_of
from kglink.linking.describe import described
from kglink.linking.evidence_used import chosen_scoring, evidence_used
from kglink.linking.kinds import ranked
from kglink.linking.memory import Memory, Recalled
from kglink.linking.names import Found, NameSearch
from kglink.linking.reading import MentionReader
from kglink.linking.sameness import Counterparts, Sameness
from kglink.linking.scoring import Scoring
from kglink.linking.subject import Fields, spoken_of
from kglink.linking.usual_case import in_usual_case
from kglink.records import Candidate, MentionInText, Ranking
from kglink.space.remembered import RememberedVectors
from kglink.space.segment import Segment
from kglink.space.space import Space
from kglink.space.words import MEASURES
from kglink.text.fold import fold
from kglink.text.plain import with_common_signs

if TYPE_CHECKING:
    from kglink.store import Store

#: The best candidates of a mention, each with its KB and its place there.
_First = list[tuple[Candidate, str, int]]

#: The number of best counterparts of a KB's candidates that become candidates in another KB.
_BROUGHT_BY_COUNTERPARTS = 5
#: Context value of exact-name candidates where the mention's text was not read: the mean.
MEAN_CONTEXT = 0.43
#: What memory says of a candidate, and of its KB.
_OF_MEMORY = ("memory", "like_memory", "nil")


class CandidateSearch:
    """Finds and scores the candidates of mentions in a space.

    Without ``scoring`` it is that of a plain or of a trained encoder which was fitted on no
    mentions; for evidence of one kind alone there is but one. ``token_search`` is for a model
    that compares tokens; without it such a model's pooled vectors are compared. ``asked`` are
    plugins that give evidence besides, of candidates that are described by ``store``.
    """

    def __init__(
        self,
        space: Space,
        reader: MentionReader,
        *,
        candidates: int,
        scoring: Scoring | None = None,
        found_by: FoundBy = "all",
        token_search: TokenSearchOf | None = None,
        memory: Memory | None = None,
        remembered: RememberedVectors | None = None,
        counterparts: Counterparts | None = None,
        asked: Sequence[AskedKind] = (),
        store: Store | None = None,
    ) -> None:
        self.space = space
        self.memory = memory
        self._counterparts = counterparts
        self._candidates = candidates
        self._asked = tuple(asked) if found_by == "all" and store is not None else ()
        self._asked_depth = max((one.depth for one in self._asked), default=0)
        self._store = store
        self.scoring = chosen_scoring(
            space,
            scoring,
            found_by,
            (one.kind for one in self._asked),
            trained=reader.trained is not None,
        )
        self._remembered = remembered if self.scoring.counts("like_memory") else None
        self._use = evidence_used(
            space, self.scoring, found_by, like_memory=self._remembered is not None
        )
        self.sameness = Sameness(space, counterparts)
        self._fields = Fields(space.segments)
        trained = reader.trained
        cosine = trained is None or trained.searches_by_cosine
        measure = measure_of(space, cosine=cosine) if found_by in ("all", "vectors") else Measure()
        self.reading = BatchReader(space, reader, self._use, measure, token_search)
        self._name_search = NameSearch(
            space,
            measure,
            candidates,
            self._use.names,
            self._use.name_vectors,
            self._use.words,
            words_bring=found_by in MEASURES,
        )

    @property
    def is_led_by_names(self) -> bool:
        """Whether names come first, and texts only decide between several bearers."""
        return self._use.names and not self.reading.reads_all

    def spellings(self, word: str, kbs: Sequence[str]) -> frozenset[str]:
        """The names of some KBs that are a word, in whatever case."""
        segments = [self.space.segments[kb] for kb in kbs]
        found = (one.surfaces.take(one.names.exact(fold(word))) for one in segments)
        return frozenset(chain.from_iterable(found))

    def as_read(self, mentions: Sequence[MentionInText], kbs: Sequence[str]) -> list[MentionInText]:
        """Given mentions in their texts as these are read for some KBs."""
        spellings = cache(partial(self.spellings, kbs=kbs))
        texts = {
            text: in_usual_case(with_common_signs(text), spellings)
            for text in {one.text for one in mentions}
        }
        return [replace(one, text=texts[one.text]) for one in mentions]

    def find(
        self, mentions: Sequence[MentionInText], kbs: Sequence[str], *, limit: int | None = None
    ) -> list[dict[str, list[Candidate]]]:
        """For each mention and KB the scored candidates, best first, at most ``limit`` of them.

        Equal scores are ordered by popularity, then by key; between KBs the caller keeps the
        order of ``kbs``.
        """
        if not mentions:
            return []
        memory = self.memory if self.scoring.counts("memory") else None
        texts = (one.text for one in mentions)
        likeness = memory.likeness(texts) if memory is not None else [()] * len(mentions)
        batch, places = self.reading.read(mentions, likeness)
        if memory is not None:
            recalled = Recalled.of(memory, self._remembered, batch.surfaces)
            batch = batch._replace(recalled=recalled)
        tables = {kb: self._in_kb(batch, kb) for kb in kbs}
        # Worked out once for each mention: nothing that follows changes who bears its name.
        is_open = cache(
            lambda at: self.sameness.several_bear_the_name(
                {kb: found[at] for kb, found in tables.items()}
            )
        )
        self._doubt_memory(batch, tables, is_open)
        if not self.reading.reads_all:
            batch, rows, places = self.reading.with_windows(batch, places, mentions, is_open)
            tables = {kb: [found[row] for row in rows] for kb, found in tables.items()}
        for kb, found in tables.items():
            segment = self.space.segments[kb]
            tables[kb] = [
                self._with_context(one, at, batch, segment) for at, one in enumerate(found)
            ]
        if len(kbs) > 1:
            _level_common(list(tables.values()))
        self._add_counterparts(batch, tables)
        if len(kbs) > 1 and self.scoring.counts("subject"):
            tables, places = self._with_subject(mentions, tables, places)
        if self._asked and self._store:
            tables, places = self._with_asked(mentions, tables, places, self._store)
        best = {}
        for kb, column in tables.items():
            segment, weights = self.space.segments[kb], self.scoring.weights_in(kb)
            most = limit or self._candidates
            best[kb] = [ranked(segment, one, weights, most)[1] for one in column]
        return [{kb: column[place] for kb, column in best.items()} for place in places]

    def _in_kb(self, batch: Batch, kb: str) -> list[Found]:
        """The candidates of all mentions in one KB, with all evidence but that of other KBs."""
        segment, search = self.space.segments[kb], self._name_search
        near = batch.contexts.near(kb, self._candidates) if self._use.texts_bring else None
        column = []
        by_name = search.find(batch.surfaces, batch.forms, kb)
        for at, (forms, found) in enumerate(zip(batch.forms, by_name, strict=True)):
            likeness, cased = batch.likeness[at], batch.cased[at]
            said = batch.recalled.said(forms, segment, likeness, cased=cased)
            brought = np.array(sorted({*said.own, *said.like}), dtype=np.int64)
            if near is not None:
                brought = np.union1d(brought, near[at])
            every = search.with_more(found, brought, forms[0], segment)
            nothing = np.zeros(len(every.entities), dtype=np.float32)
            column.append(
                every.having(
                    memory=_values_of(every.entities, said.own),
                    like_memory=_values_of(every.entities, said.like),
                    nil=np.full_like(nothing, said.nil),
                    counterpart=nothing,
                    subject=nothing,
                )
            )
        return column

    def _doubt_memory(
        self, batch: Batch, tables: Mapping[str, list[Found]], is_open: Callable[[int], bool]
    ) -> None:
        """Trust memory less where several things bear a mention's name: there its text decides.

        For evidence `nil`, a KB that has the name counts as one thing more, unless a person
        corrected the name to NIL.
        """
        for at, forms in enumerate(batch.forms):
            here = {kb: found[at] for kb, found in tables.items()}
            remembered = [one.evidence[kind] for one in here.values() for kind in _OF_MEMORY]
            if not any(values.any() for values in remembered):
                continue
            bearers = {kb: int(np.count_nonzero(one.evidence["exact"])) for kb, one in here.items()}
            several = sum(bearers.values()) if is_open(at) else 1
            said_nil = batch.recalled.is_corrected_to_nil(forms)
            trust = partial(batch.recalled.trust, likeness=batch.likeness[at])
            trust_in_entities = trust(forms[:1], several)
            for kb, one in here.items():
                things = several + (bearers[kb] > 0 and not said_nil)
                if things == 1:
                    continue
                trusts = (trust_in_entities, trust_in_entities, trust(forms, things))
                doubted = {kind: one.evidence[kind] * np.float32(value)
                           for kind, value in zip(_OF_MEMORY, trusts, strict=True)}  # fmt: skip
                tables[kb][at] = one.having(**doubted)

    def _add_counterparts(self, batch: Batch, tables: dict[str, list[Found]]) -> None:
        """Let accepted overlaps share evidence, and bring what another KB finds near the top."""
        if not self._counterparts or not self.scoring.counts("counterpart") or len(tables) < 2:
            return
        weights = {kb: self.scoring.weights_in(kb) for kb in tables}
        for at in range(len(batch.forms)):
            # As they are before any sharing: what two KBs say is not counted back and forth.
            before = {kb: found[at] for kb, found in tables.items()}
            scores = {
                kb: np.maximum(weights[kb].score(found.evidence), 0) for kb, found in before.items()
            }
            for kb, other in permutations(tables, 2):
                theirs = before[other]
                owner, rows, sure = self._counterparts.of_rows(other, theirs.entities, kb)
                if len(rows):
                    segment, values = self.space.segments[kb], scores[other][owner] * sure
                    places, here = places_in(before[kb].entities, rows)
                    values[here] -= scores[kb][places[here]]  # what is no candidate scores 0
                    tables[kb][at] = self._shared(batch, at, segment, tables[kb][at], rows, values)

    def _shared(
        self,
        batch: Batch,
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
            found = self._name_search.with_more(found, new, batch.forms[at][0], segment)
            if self.scoring.counts("context"):
                found = self._with_context(found, at, batch, segment)
        places, here = places_in(found.entities, rows)
        shared = found.evidence["counterpart"].copy()
        np.maximum.at(shared, places[here], values[here])
        return found.having(counterpart=shared)

    def _with_subject(
        self,
        mentions: Sequence[MentionInText],
        tables: Mapping[str, list[Found]],
        places: Sequence[int],
    ) -> tuple[dict[str, list[Found]], list[int]]:
        """Add evidence `subject`, where the KBs are about different things."""
        fields = self._fields.of(list(tables))
        if len(set(fields.values())) <= 1:
            return dict(tables), list(places)
        bearing = [
            frozenset(fields[kb] for kb, one in zip(tables, found, strict=True) if one.is_named)
            or frozenset(fields.values())
            for found in zip(*tables.values(), strict=True)
        ]
        values = spoken_of(mentions, places, bearing)
        new_places, firsts = _numbered(
            (place, tuple(one.values())) for place, one in zip(places, values, strict=True)
        )
        told: dict[str, list[Found]] = {kb: [] for kb in tables}
        for kb, column in tables.items():
            for at in firsts:
                found, value = column[places[at]], values[at].get(fields[kb], 0.0)
                subject = np.full_like(found.evidence["subject"], value)
                told[kb].append(found.having(subject=subject))
        return told, new_places

    def _with_asked(
        self,
        mentions: Sequence[MentionInText],
        tables: Mapping[str, list[Found]],
        places: Sequence[int],
        store: Store,
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
                described(store, list(named.values()), self._asked_depth * len(tables)),
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
        new_places, firsts = _numbered(
            (place, b"".join(values[at].tobytes() for values in columns.values()))
            for at, place in enumerate(places)
        )
        asked: dict[str, list[Found]] = {kb: [] for kb in tables}
        for at in firsts:
            place = places[at]
            for kb, found in tables.items():
                own = [row for row, (_, of, _) in enumerate(first[place]) if of == kb]
                one = found[place].with_asked(
                    [first[place][row][2] for row in own],
                    [known[place].candidates[row] for row in own],
                    {kind: values[at][own] for kind, values in columns.items()},
                )
                asked[kb].append(one)
        return asked, new_places

    def _first(self, found: Mapping[str, Found]) -> _First:
        """The best candidates of a mention so far."""
        chosen = []
        for kb, own in found.items():
            segment = self.space.segments[kb]
            places, best = ranked(segment, own, self.scoring.weights_in(kb), self._asked_depth)
            chosen += [(one, kb, int(place)) for one, place in zip(best, places, strict=True)]
        return sorted(chosen, key=lambda one: (-one[0].score, -one[0].popularity))

    def with_memory(self, memory: Memory | None) -> CandidateSearch:
        """The same search with another memory."""
        other = copy(self)
        other.memory = memory
        return other

    def with_counterparts(self, counterparts: Counterparts) -> CandidateSearch:
        """The same search with other counterparts."""
        other = copy(self)
        other._counterparts = counterparts
        other.sameness = Sameness(self.space, counterparts)
        return other

    def _with_context(self, found: Found, at: int, batch: Batch, segment: Segment) -> Found:
        """Add the context, for the candidates for which it counts."""
        values = np.zeros(len(found.entities), dtype=np.float32)
        exact = found.evidence["exact"] > 0
        if self._use.contexts and at in batch.unread:
            values[exact] = MEAN_CONTEXT
        elif self._use.contexts:
            counts = np.flatnonzero(exact | (self.scoring.counts("context")))
            if len(counts):
                scores = batch.contexts.scores(at, found.entities[counts], segment)
                if scores is not None:
                    values[counts] = scores
        named = found.evidence["exact"] * values
        return found.having(context=values, named_context=named)


def _level_common(columns: Sequence[list[Found]]) -> None:
    """Make the most used thing of a name as common in every KB: some count no uses, or fewer."""
    for at, row in enumerate(zip(*columns, strict=True)):
        own = [one.evidence["common"].max(initial=0) for one in row]
        most = max(own)
        for column, one, highest in zip(columns, row, own, strict=True):
            if one.is_named and highest < most:
                common = one.evidence["common"] + one.evidence["exact"] * (most - highest)
                column[at] = one.having(common=common)


def _numbered(keys: Iterable[Hashable]) -> tuple[list[int], list[int]]:
    """The number of each key, equal ones have one; and for each number where its key is first."""
    first: dict[Hashable, int] = {}
    every = [first.setdefault(key, at) for at, key in enumerate(keys)]
    numbers = {at: number for number, at in enumerate(first.values())}
    return [numbers[at] for at in every], list(first.values())


def _values_of(entities: IntArray, values: Mapping[int, float]) -> FloatArray:
    """The values of some entities, which are all there; 0 of the others."""
    column = np.zeros(len(entities), dtype=np.float32)
    for row, value in values.items():
        column[np.searchsorted(entities, row)] = value
    return column
