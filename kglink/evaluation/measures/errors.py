"""Why mentions are answered wrongly: each mention with what was answered and what was right.

An answer is the first candidate of all KBs, the mention's place given, or what linking the raw text
gave.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from kglink.evaluation.measures.end_to_end import Answer, Gold, JudgedText, overlapping
from kglink.evaluation.measures.retrieval import RERANKED
from kglink.evaluation.rankings import JSON_KEYS, Rank, RankedMention, Ranker, rank_mentions
from kglink.evaluation.retrieval import LearntFrom
from kglink.records import Candidate, Document, Entity, EntityId, MentionInText
from kglink.store import Store
from kglink.text.fold import fold

#: What can be wrong with an answer; the first that holds is the reason.
REASONS: Mapping[str, str] = MappingProxyType(
    {
        "not detected": "no answer overlaps the mention",
        "other ends": "an answer overlaps the mention, but has other ends",
        "NIL mistaken": "an entity was answered where none is right, or none though a right one "
        "was a candidate",
        "counterpart": "the same thing in another KB was answered",
        "not retrieved": "no right entity is among the candidates",
        "outranked": "a right entity is among the candidates, and another one was answered",
    }
)
#: In the place of a KB: no entity, and no answer; the brackets keep them apart from KBs.
NIL_ROW, NOTHING = "[NIL]", "[nothing]"
#: The first count of each group of frequency and ambiguity.
_TIMES = (0, 1, 2, 10, 100)
_BEARERS = (0, 1, 2, 3, 10)


class ErrorSummary:
    """How many mentions are right, and how many are wrong for each reason, in all and by group.

    ``groups`` are ``kb``, ``type``, ``ambiguity`` (how many entities bear the surface), and where
    it is known what was learnt from, ``frequency`` (how many mentions that were learnt from mean
    the gold) and ``surfaces`` (seen or unseen). A mention with golds in two KBs counts in both.
    """

    def __init__(self, kbs: Sequence[str] = (), learnt_from: Sequence[str] = ()) -> None:
        self.kbs = tuple(kbs)
        self.learnt_from = tuple(learnt_from)
        self.all: Counter[str | None] = Counter()
        self._groups: dict[str, dict[str, Counter[str | None]]] = {}
        self._confusion: Counter[tuple[str, str]] = Counter()
        self._right: Counter[tuple[str, str]] = Counter()
        self._typed: set[str] = set()

    def add(self, case: Case) -> None:
        """Count a mention."""
        self.all[case.reason] += 1
        self._typed |= {gold.kb for gold in case.gold if case.type_of(gold)}
        for name, group in _groups(case):
            self._groups.setdefault(name, {}).setdefault(group, Counter())[case.reason] += 1
        golds = sorted({gold.kb for gold in case.gold}, key=lambda kb: (kb not in self.kbs, kb))
        answer = case.answer.kb if case.answer else ""
        gold = answer if answer in golds else golds[0] if golds else NIL_ROW
        pair = (gold, answer or (NOTHING if case.found is None else NIL_ROW))
        self._confusion[pair] += 1
        self._right[pair] += case.reason is None

    @property
    def mentions(self) -> int:
        """How many there are."""
        return self.all.total()

    def groups(self) -> dict[str, dict[str, Counter[str | None]]]:
        """The counts of each group: types by their size, other groups in their own order.

        A KB none of whose golds has a type has no group of types.
        """
        places = {kb: place for place, kb in enumerate(self.kbs)}
        orders: dict[str, Callable[[str], Any]] = {
            "kb": lambda kb: (places.get(kb, len(places)), kb),
            "type": lambda group: (-self._groups["type"][group].total(), group),
            "frequency": _first_number,
            "ambiguity": _first_number,
            "surfaces": str,
        }
        found = {
            name: {
                group: self._groups[name][group] for group in sorted(self._groups[name], key=key)
            }
            for name, key in orders.items()
            if name in self._groups and (name != "type" or self._typed)
        }
        for kb in found.get("kb", {}).keys() - self._typed:
            found.get("type", {}).pop(f"{kb}: [none]", None)
        return found

    def as_json(self) -> dict[str, Any]:
        """In the shape of ``kglink eval --errors --json``."""
        return {
            **_counts(self.all),
            "learnt_from": list(self.learnt_from),
            "groups": {
                name: [{"group": group, **_counts(counts)} for group, counts in groups.items()]
                for name, groups in self.groups().items()
            },
            "confusion": [
                {"gold": gold, "answer": answer, "mentions": count, "right": self._right[pair]}
                for pair, count in sorted(self._confusion.items())
                for gold, answer in (pair,)
            ],
        }


def _counts(counts: Counter[str | None]) -> dict[str, Any]:
    return {
        "mentions": counts.total(),
        "right": counts[None],
        "reasons": {reason: counts[reason] for reason in REASONS},
    }


def _groups(case: Case) -> Iterator[tuple[str, str]]:
    """The groups that a mention is of, each once."""
    kbs = dict.fromkeys(gold.kb for gold in case.gold) or (NIL_ROW,)
    yield from (("kb", kb) for kb in kbs)
    types = dict.fromkeys(f"{gold.kb}: {case.type_of(gold) or '[none]'}" for gold in case.gold)
    yield from (("type", kind) for kind in types or (NIL_ROW,))
    yield "ambiguity", _range(case.bearers, _BEARERS)
    if case.times_learnt is not None and case.gold:
        yield "frequency", _range(case.times_learnt, _TIMES)
    if case.seen is not None:
        yield "surfaces", "seen" if case.seen else "unseen"


def _range(count: int, starts: Sequence[int]) -> str:
    """The name of the group of a count: ``2-9``, ``10+``."""
    at = bisect_right(starts, count) - 1
    if at + 1 == len(starts):
        return f"{starts[at]}+"
    last = starts[at + 1] - 1
    return f"{starts[at]}-{last}" if last > starts[at] else f"{starts[at]}"


def _first_number(group: str) -> int:
    return int(group.rstrip("+").partition("-")[0])


#: How many characters are shown on each side of a mention.
_CONTEXT = 160
#: Mentions whose facts are read from the store together.
_BATCH = 256


@dataclass(frozen=True, slots=True)
class Case:
    """One mention, what was answered, and why that is wrong."""

    docs: str
    mention: MentionInText
    gold: tuple[EntityId, ...]
    """What is right; nothing: no entity is (NIL)."""
    answer: EntityId | None
    """None: no entity (NIL), or no answer at all."""
    found: tuple[int, int] | None
    """The place of the answer; None: there is no answer."""
    reason: str | None = None
    """One of `REASONS`; None: the answer is right."""
    confidence: float | None = None
    ranks: Mapping[str, Rank] = field(default_factory=dict)
    """Of the first right entity in each pool, after re-ranking, the mention's place given."""
    candidates: tuple[Candidate, ...] = ()
    bearers: int = 0
    """How many entities of the KBs bear the surface."""
    seen: bool | None = None
    """Whether the surface was learnt from; None: nobody knows."""
    times_learnt: int | None = None
    """How many mentions that were learnt from mean one of the golds."""
    entities: Mapping[EntityId, Entity] = field(default_factory=dict)
    """What the store says of the golds and the first candidates."""

    def as_json(self) -> dict[str, Any]:
        """A line of ``kglink eval --errors-to``."""
        one = self.mention
        places = {candidate.id: at for at, candidate in enumerate(self.candidates, 1)}
        scores = {candidate.id: candidate.score for candidate in self.candidates}
        return {
            "docs": self.docs,
            "document": one.document,
            "start": one.start,
            "end": one.end,
            "mention": one.surface,
            "context_left": one.text[max(0, one.start - _CONTEXT) : one.start],
            "context_right": one.text[one.end : one.end + _CONTEXT],
            "reason": self.reason,
            "gold": [
                {**self._named(gold), "rank": places.get(gold), "score": scores.get(gold)}
                for gold in self.gold
            ],
            "answer": None if self.answer is None else self._named(self.answer),
            "found": None if self.found is None else list(self.found),
            "confidence": self.confidence,
            "ranks": {JSON_KEYS.get(pool, pool): rank for pool, rank in self.ranks.items()},
            "candidates": [
                {**self._named(candidate.id), "score": candidate.score}
                for candidate in self.candidates[:RERANKED]
            ],
            "bearers": self.bearers,
            "seen": self.seen,
            "times_learnt": self.times_learnt,
        }

    def type_of(self, entity: EntityId) -> str:
        """The type of a gold or candidate; empty where the store knows none."""
        return self.entities[entity].type if entity in self.entities else ""

    def _named(self, entity: EntityId) -> dict[str, str]:
        title = self.entities[entity].title if entity in self.entities else ""
        return {"id": str(entity), "title": title, "type": self.type_of(entity)}


def reason_of(case: Case, counterparts: Collection[EntityId], *, right: bool) -> str | None:
    """Why an answer is wrong: the first of `REASONS` that holds; None where it is right.

    ``counterparts`` are those of the golds in other KBs, which are ``right`` or not.
    """
    golds = {*case.gold, *(counterparts if right else ())}
    place = case.mention.start, case.mention.end
    is_candidate = any(one.id in golds for one in case.candidates)
    tests = {
        "not detected": case.found is None,
        "other ends": case.found != place,
        None: case.answer in golds or (not golds and case.answer is None),
        "NIL mistaken": not golds or (case.answer is None and is_candidate),
        "counterpart": case.answer in counterparts,
        "not retrieved": not is_candidate,
        "outranked": True,
    }
    return next(reason for reason, holds in tests.items() if holds)


class ErrorAnalysis:
    """Finds the reasons of an evaluation's mentions while it runs; `finish` is called at its end.

    ``counterparts``: the same thing in another KB is right. ``ranker`` ranks ``depth`` candidates
    of the mentions of raw texts. ``each`` is called for every mention, in order.
    """

    def __init__(
        self,
        store: Store,
        kbs: Sequence[str],
        *,
        counterparts: bool = False,
        learnt: LearntFrom | None = None,
        ranker: Ranker | None = None,
        depth: int = RERANKED,
        each: Callable[[Case], None] = lambda case: None,
    ) -> None:
        self._summary = ErrorSummary(kbs, learnt.words if learnt else ())
        self._store = store
        self._kbs = tuple(kbs)
        self._counterparts = counterparts
        self._learnt = learnt
        self._ranker = ranker
        self._depth = depth
        self._each = each
        self._waiting: list[Case] = []
        self._texts: list[tuple[JudgedText, Sequence[Answer]]] = []

    def add_ranked(self, mention: RankedMention) -> None:
        """Judge a mention whose place is given by its first candidate."""
        place = mention.start, mention.end
        answer = mention.candidates[0].id if mention.candidates else None
        self._add(
            Case(
                mention.docs,
                MentionInText(mention.text, *place, mention.document),
                mention.gold,
                answer,
                place,
                ranks=mention.reranked,
                candidates=mention.candidates,
            )
        )

    def add_answers(self, text: JudgedText, answers: Sequence[Answer]) -> None:
        """Judge the mentions of a raw text by what it was linked to."""
        if text.right_at:
            self._texts.append((text, answers))
        if sum(len(one.source.mentions) for one, _ in self._texts) >= _BATCH:
            self._judge_texts()

    def finish(self) -> ErrorSummary:
        """What was found, after the last mention."""
        self._judge_texts()
        self._tell()
        return self._summary

    def _judge_texts(self) -> None:
        """Rank the mentions of the waiting texts, and judge their answers."""
        texts, self._texts = self._texts, []
        documents = [
            Document(str(at), text.source.text, text.source.mentions)
            for at, (text, _) in enumerate(texts)
        ]
        ranked = (
            {
                (one.document, one.start, one.end): one
                for one in rank_mentions(self._ranker, documents, self._kbs, self._depth)
            }
            if self._ranker
            else {}
        )
        for at, (text, answers) in enumerate(texts):
            for case in _cases(text, answers):
                one = ranked.get((str(at), case.mention.start, case.mention.end))
                own = (one.reranked, one.candidates) if one else ({}, ())
                self._add(replace(case, ranks=own[0], candidates=own[1]))

    def _add(self, case: Case) -> None:
        self._waiting.append(case)
        if len(self._waiting) >= _BATCH:
            self._tell()

    def _tell(self) -> None:
        """Read what the store knows of the waiting mentions, and tell of them."""
        cases, self._waiting = self._waiting, []
        wanted = {
            entity: None
            for case in cases
            for entity in (*case.gold, *(one.id for one in case.candidates[:RERANKED]), case.answer)
            if entity is not None
        }
        known = self._store.get_entities(wanted)
        same = self._store.counterparts({gold for case in cases for gold in case.gold})
        surfaces = {fold(case.mention.surface) for case in cases} - {""}
        bearers: Counter[str] = Counter()
        for kb in self._kbs:
            found = {(one.folded, one.key) for one in self._store.bearers_of(kb, surfaces)}
            bearers.update(folded for folded, _ in found)
        for case in cases:
            others = {other for gold in case.gold for other in same.get(gold, ())}
            surface = case.mention.surface
            judged = replace(
                case,
                reason=reason_of(case, others, right=self._counterparts),
                bearers=bearers[fold(surface)],
                seen=self._learnt.has_seen(surface) if self._learnt else None,
                times_learnt=self._learnt.times(case.gold) if self._learnt else None,
                entities=known,
            )
            self._summary.add(judged)
            self._each(judged)


def _cases(text: JudgedText, answers: Sequence[Answer]) -> Iterator[Case]:
    """The mentions of a raw text whose meaning is known, each with its answer."""
    source = text.source
    known = [one for one in source.mentions if (one.start, one.end) in text.right_at]
    at_place = {(one.start, one.end): one for one in answers}
    nearest: dict[int, tuple[int, Answer]] = {}
    for at, other, shared in overlapping([Gold(one.start, one.end) for one in known], answers):
        if at not in nearest or shared > nearest[at][0]:
            nearest[at] = shared, answers[other]
    for at, one in enumerate(known):
        place = one.start, one.end
        answer = at_place.get(place) or (nearest[at][1] if at in nearest else None)
        mention = MentionInText(source.text, *place, source.id)
        case = Case(source.docs, mention, one.gold or (), None, None)
        if answer is not None:
            found = answer.start, answer.end
            case = replace(case, answer=answer.entity, found=found, confidence=answer.confidence)
        yield case
