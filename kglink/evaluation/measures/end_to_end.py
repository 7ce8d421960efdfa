"""Raw text in, links out: what a user of ``kglink link`` gets, judged by annotated texts.

*Detection*: the places of mentions, whatever they mean. *Links*: the place and a right entity, as
GERBIL's InKB experiments have it: mentions with gold in the evaluated KBs, and answers with an
entity of them; what has none does not count. A match is *strict* where both ends agree, else the
two overlap. Each mention and each answer is matched once; equal places first, then those that
share the most characters, then in reading order.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from kglink.evaluation.annotated import AnnotatedText, Annotation, annotation_of
from kglink.evaluation.rankings import Counterparts
from kglink.evaluation.significance import Interval, text_intervals
from kglink.linking.pipeline import Linker
from kglink.records import EntityId, LinkedDocument, OnProgress, Progress, TextInput
from kglink.shown import Shown

#: Bins of confidence, of equal width.
BINS = 10


class PrecisionRecall(NamedTuple):
    """Precision, recall and F1; where there is nothing to find and nothing was found all are 1."""

    precision: float
    recall: float
    f1: float

    @classmethod
    def of(cls, right: int, found: int, gold: int) -> PrecisionRecall:
        """From how many answers are right, how many there are, and how many mentions."""
        if not found and not gold:
            return cls(1.0, 1.0, 1.0)
        return cls(
            right / found if found else 0.0,
            right / gold if gold else 0.0,
            2 * right / (found + gold),
        )


class Score:
    """Counts over texts, and each text's own figures."""

    def __init__(self) -> None:
        self.right = self.found = self.gold = 0
        self._counts: list[tuple[int, int, int]] = []

    def add(self, right: int, found: int, gold: int) -> None:
        """Count one text."""
        self.right += right
        self.found += found
        self.gold += gold
        self._counts.append((right, found, gold))

    @property
    def micro(self) -> PrecisionRecall:
        """The figures of all mentions together."""
        return PrecisionRecall.of(self.right, self.found, self.gold)

    def intervals(self) -> tuple[Interval, Interval, Interval]:
        """The 95% intervals of `micro`."""
        return text_intervals(self._counts)

    def macro(self, *, complete: bool) -> PrecisionRecall:
        """The mean of the texts' figures; where annotated in part, of texts with a mention."""
        texts = [PrecisionRecall.of(*one) for one in self._counts if complete or one[2]]
        if not texts:
            return PrecisionRecall(0.0, 0.0, 0.0)
        return PrecisionRecall(*(sum(each) / len(texts) for each in zip(*texts, strict=True)))

    def as_json(self, *, complete: bool) -> dict[str, object]:
        """Counts and figures in the shape of ``kglink eval --json``.

        Where there is nothing to find no figure is known.
        """
        fields = PrecisionRecall._fields
        known = {name for name in fields if self.gold and (complete or name == "recall")}

        def known_only(values: Iterable[object]) -> dict[str, object]:
            named = zip(fields, values, strict=True)
            return {name: value if name in known else None for name, value in named}

        return {
            "gold": self.gold,
            "found": self.found,
            "right": self.right,
            "micro": known_only(self.micro),
            "intervals": known_only(map(list, self.intervals())),
            "macro": known_only(self.macro(complete=complete)),
        }


class Reliability:
    """Whether answers are right as often as they say."""

    def __init__(self) -> None:
        self._answers = [0] * BINS
        self._right = [0] * BINS
        self._confidence = [0.0] * BINS
        self._squares = 0.0

    def add(self, confidence: float, *, right: bool) -> None:
        """Count an answer."""
        at = min(int(confidence * BINS), BINS - 1)
        self._answers[at] += 1
        self._right[at] += right
        self._confidence[at] += confidence
        self._squares += (confidence - right) ** 2

    @property
    def answers(self) -> int:
        """How many there are."""
        return sum(self._answers)

    @property
    def ece(self) -> float | None:
        """Expected calibration error: how far confidence is from the share of right answers.

        The mean over all answers of the difference in their bin; None without answers.
        """
        if not self.answers:
            return None
        bins = zip(self._right, self._confidence, strict=True)
        return sum(abs(right - confidence) for right, confidence in bins) / self.answers

    @property
    def brier(self) -> float | None:
        """The mean square of the difference between confidence and 1 (right) or 0 (wrong)."""
        return self._squares / self.answers if self.answers else None

    def as_json(self) -> dict[str, object]:
        """The errors, and the bins of the reliability curve; means of an empty bin are null."""
        counts = zip(self._answers, self._right, self._confidence, strict=True)
        bins = [
            {
                "from": at / BINS,
                "to": (at + 1) / BINS,
                "answers": answers,
                "confidence": confidence / answers if answers else None,
                "right": right / answers if answers else None,
            }
            for at, (answers, right, confidence) in enumerate(counts)
        ]
        return {"answers": self.answers, "ece": self.ece, "brier": self.brier, "bins": bins}


#: How many of the surfaces that were missed or invented most are shown.
MOST_SURFACES = 10

_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class Answer:
    """A mention that was found, and the entity that it was linked to; None: to none (NIL)."""

    start: int
    end: int
    entity: EntityId | None
    confidence: float | None = None
    cluster: str = ""
    """Of a NIL the id of what it is together with others; empty: nobody said."""


class Gold(NamedTuple):
    """The place of an annotated mention, and the entities that are right for it."""

    start: int
    end: int
    right: frozenset[EntityId] = frozenset()


class JudgedText:
    """An annotated text with what is right in some KBs."""

    def __init__(
        self,
        source: AnnotatedText,
        kbs: Sequence[str],
        same: Mapping[EntityId, Sequence[EntityId]] | None = None,
    ) -> None:
        self.source = source
        self._kbs = frozenset(kbs)
        #: All mentions, which joint detection is judged by.
        self.mentions = [Gold(one.start, one.end) for one in source.mentions]
        #: Mentions with gold in the KBs, which links are judged by.
        self.golds = [
            Gold(
                one.start,
                one.end,
                frozenset(chain(one.gold, *((same or {}).get(gold, ()) for gold in one.gold))),
            )
            for one in source.mentions
            if one.gold and any(gold.kb in self._kbs for gold in one.gold)
        ]
        #: The places of mentions whose meaning nobody said.
        self.unknown = {(one.start, one.end) for one in source.mentions if one.gold is None}
        #: What is right at each place that has an answer; nothing where the mention is NIL.
        self.right_at = {(one.start, one.end): one.right for one in self.golds} | {
            (one.start, one.end): frozenset[EntityId]() for one in source.mentions if one.gold == ()
        }

    def links(self, answers: Sequence[Answer]) -> list[Answer]:
        """The answers with an entity of the KBs."""
        return [one for one in answers if one.entity is not None and one.entity.kb in self._kbs]

    def values(self, answers: Sequence[Answer], *, complete: bool) -> dict[str, float]:
        """The text's own F1, strict; where mentions are annotated in part, recall if it has any."""
        counts = {
            "detection": _counts(self.mentions, answers, strict=True),
            "links": _counts(self.golds, self.links(answers), strict=True, entity=True),
        }
        own = {
            name: PrecisionRecall.of(right, found, gold)
            for name, (right, found, gold) in counts.items()
            if complete or gold
        }
        return {name: one.f1 if complete else one.recall for name, one in own.items()}


#: Thresholds of links; a report says what each of them keeps.
THRESHOLDS = (0.3, 0.4, 0.5, 0.65, 0.8, 0.9)


class OperatingPoint(NamedTuple):
    """What a threshold of links keeps of every 1,000 texts."""

    threshold: float
    links: float
    right: float
    wrong: float


class PoolScores:
    """The figures of one KB alone, or of all together; ``complete``: all mentions are annotated."""

    def __init__(self, *, complete: bool) -> None:
        self._complete = complete
        self.detection = {"strict": Score(), "overlap": Score()}
        self.links = {"strict": Score(), "weak": Score()}
        self.calibration = Reliability()
        self._texts = 0
        self._kept = {threshold: [0, 0] for threshold in THRESHOLDS}  # links, right ones

    def add(
        self,
        text: JudgedText,
        answers: Sequence[Answer],
        mentions: Sequence[Gold],
        places: Sequence[Answer],
    ) -> None:
        """Count one text; detection is judged by ``mentions`` and ``places``."""
        self._texts += 1
        links = text.links(answers)
        for name, score in self.detection.items():
            score.add(*_counts(mentions, places, strict=name == "strict"))
        for name, score in self.links.items():
            score.add(*_counts(text.golds, links, strict=name == "strict", entity=True))
        for one in (*links, *(one for one in answers if one.entity is None)):
            place = one.start, one.end
            right = text.right_at.get(place)
            if right is None and self._complete and one.entity:
                right = frozenset()  # a link where nothing is to be linked
            if right is not None and one.confidence is not None:
                is_right = one.entity in right if one.entity is not None else not right
                if place not in text.unknown:
                    self.calibration.add(one.confidence, right=is_right)
                for threshold, kept in self._kept.items():
                    if one.entity is not None and one.confidence >= threshold:
                        kept[0] += 1
                        kept[1] += is_right

    def operating_points(self) -> list[OperatingPoint]:
        """What each threshold keeps; nothing where not all mentions are annotated."""
        if not self._complete or not self._texts:
            return []
        share = 1000 / self._texts
        return [
            OperatingPoint(threshold, links * share, right * share, links * share - right * share)
            for threshold, (links, right) in self._kept.items()
        ]

    def as_json(self) -> dict[str, object]:
        """In the shape of ``kglink eval --json``."""
        detection, links = (
            {name: score.as_json(complete=self._complete) for name, score in scores.items()}
            for scores in (self.detection, self.links)
        )
        return {
            "detection": detection,
            "links": links,
            "calibration": self.calibration.as_json(),
            "operating_points": [point._asdict() for point in self.operating_points()],
        }


class EndToEndReport(Shown):
    """The figures of all KBs together (``joint``) and of each alone (``kb``), and what went wrong.

    ``complete`` says whether all mentions are annotated, so that precision is known; None: as it
    seems from the annotation. ``other_types`` counts mentions of types that these KBs do not hold,
    which are passed over.
    """

    def __init__(
        self,
        kbs: Sequence[str],
        annotation: Annotation,
        *,
        complete: bool | None = None,
        other_types: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self.kbs = tuple(kbs)
        self.other_types = other_types
        self.annotation = annotation
        self.complete = not annotation.partial if complete is None else complete
        self.joint = PoolScores(complete=self.complete)
        self.kb: dict[str, PoolScores] = {}
        self.nil = Score()
        #: Mentions whose meaning nobody said, or which mean what no KB of the store has.
        self.unknown = 0
        self._missed: Counter[str] = Counter()
        self._invented: Counter[str] = Counter()
        self._borders: Counter[tuple[str, str]] = Counter()

    @property
    def elsewhere(self) -> int:
        """Mentions that mean entities of other KBs alone."""
        known = self.joint.links["strict"].gold + self.nil.gold + self.unknown
        return self.annotation.mentions - known

    def add(self, text: JudgedText, answers: Sequence[Answer]) -> None:
        """Count what all KBs together gave for a text."""
        self.joint.add(text, answers, text.mentions, answers)
        nil = [Gold(one.start, one.end) for one in text.source.mentions if one.gold == ()]
        self.unknown += len(text.unknown)
        to_none = [
            one
            for one in answers
            if one.entity is None and (one.start, one.end) not in text.unknown
        ]
        self.nil.add(*_counts(nil, to_none, strict=True))

        def surface(place: Gold | Answer) -> str:
            return text.source.text[place.start : place.end]

        self._missed.update(map(surface, _alone(text.mentions, answers)))
        self._invented.update(map(surface, _alone(answers, text.mentions)))
        self._borders.update(
            (surface(gold), surface(one))
            for gold, one in _matched(text.mentions, answers, strict=False)
            if (gold.start, gold.end) != (one.start, one.end)
        )

    def add_of_kb(self, kb: str, text: JudgedText, answers: Sequence[Answer]) -> None:
        """Count what one KB alone gave for a text, of which only that KB is judged."""
        own = self.kb.setdefault(kb, PoolScores(complete=self.complete))
        own.add(text, answers, text.golds, text.links(answers))

    def missed(self) -> list[tuple[str, int]]:
        """Surfaces of mentions that no answer overlaps, the most frequent first."""
        return _most(self._missed)

    def invented(self) -> list[tuple[str, int]]:
        """Surfaces of answers that overlap no mention, the most frequent first."""
        return _most(self._invented)

    def borders(self) -> list[tuple[tuple[str, str], int]]:
        """Surfaces of mentions and of answers that overlap them but have other ends."""
        return _most(self._borders)

    def as_json(self) -> dict[str, object]:
        """In the shape of ``kglink eval --end-to-end --json``."""
        annotation, complete = self.annotation, self.complete
        invented = [{"text": text, "count": count} for text, count in self.invented()]
        return {
            "kbs": list(self.kbs),
            "complete": complete,
            "partial_because": annotation.partial or None,
            "annotation": {
                "records": annotation.records,
                "texts": annotation.texts,
                "mentions": annotation.mentions,
                "in_kbs": self.joint.links["strict"].gold,
                "nil": self.nil.gold,
                "unknown": self.unknown,
                "elsewhere": self.elsewhere,
                "marked": annotation.marked,
                "unmarked": annotation.unmarked,
                "other_types": dict(self.other_types),
            },
            "metrics": {
                "joint": self.joint.as_json(),
                "kb": {kb: scores.as_json() for kb, scores in self.kb.items()},
                "nil": self.nil.as_json(complete=complete) if self.nil.gold else None,
            },
            "missed": [{"text": text, "count": count} for text, count in self.missed()],
            "invented": invented if complete else None,
            "borders": [
                {"gold": gold, "found": found, "count": count}
                for (gold, found), count in self.borders()
            ],
        }


def answers_of(linked: LinkedDocument) -> list[Answer]:
    """What a text was linked to, as it is judged."""
    return [
        Answer(
            *(link.start, link.end, link.chosen.id if link.chosen else None),
            confidence=link.confidence,
            cluster=link.cluster,
        )
        for link in linked.links
    ]


def evaluate_answers(
    texts: Sequence[AnnotatedText],
    kbs: Sequence[str],
    answers: Callable[[Sequence[str]], Iterator[Sequence[Answer]]],
    *,
    counterparts: Counterparts | None = None,
    complete: bool | None = None,
    other_types: Mapping[str, int] = MappingProxyType({}),
    per_kb: bool = True,
    progress: OnProgress = lambda _: None,
    each: Callable[[JudgedText, Sequence[Answer]], None] = lambda text, answers: None,
) -> EndToEndReport:
    """Judge what ``answers`` gives for the texts, in their order: of all KBs, then of each alone.

    With ``counterparts`` those of a gold are right too, except where a KB is alone. ``each`` is
    called for every text with the answers of all KBs.
    """
    golds = {gold for text in texts for one in text.mentions for gold in one.gold or ()}
    same = counterparts(golds) if counterparts else {}
    report = EndToEndReport(kbs, annotation_of(texts), complete=complete, other_types=other_types)
    pools = [tuple(kbs), *((kb,) for kb in kbs if per_kb and len(kbs) > 1)]
    for number, pool in enumerate(pools):
        for at, (text, found) in enumerate(zip(texts, answers(pool), strict=True), 1):
            if number == 0:
                judged = JudgedText(text, pool, same)
                report.add(judged, found)
                each(judged, found)
            if len(pool) == 1:
                report.add_of_kb(pool[0], JudgedText(text, pool), found)
            progress(Progress(f"linked to {', '.join(pool)}", at, len(texts)))
    return report


def linked_answers(linker: Linker, texts: Sequence[AnnotatedText]) -> Iterator[Sequence[Answer]]:
    """What a linker gives for raw texts: the mentions are looked for."""
    return map(answers_of, linker.link(TextInput(text.id, text.text) for text in texts))


def _counts(
    golds: Sequence[Gold], found: Sequence[Answer], *, strict: bool, entity: bool = False
) -> tuple[int, int, int]:
    """How many answers are right, how many there are, and how many mentions."""
    return len(_matched(golds, found, strict=strict, entity=entity)), len(found), len(golds)


def _matched(
    golds: Sequence[Gold], found: Sequence[Answer], *, strict: bool, entity: bool = False
) -> list[tuple[Gold, Answer]]:
    """Mentions and answers that fit, each once; with ``entity`` the answer has to be right."""
    fitting = []
    for at, other, shared in overlapping(golds, found):
        gold, one = golds[at], found[other]
        is_same = (gold.start, gold.end) == (one.start, one.end)
        if (is_same or not strict) and (not entity or one.entity in gold.right):
            fitting.append((not is_same, -shared, gold.start, gold.end, at, other))
    pairs: list[tuple[Gold, Answer]] = []
    golds_taken: set[int] = set()
    answers_taken: set[int] = set()
    for *_, at, other in sorted(fitting):
        if at not in golds_taken and other not in answers_taken:
            golds_taken.add(at)
            answers_taken.add(other)
            pairs.append((golds[at], found[other]))
    return pairs


def overlapping(
    left: Sequence[Gold | Answer], right: Sequence[Gold | Answer]
) -> Iterator[tuple[int, int, int]]:
    """The places of overlapping members of both, and how many characters they share."""
    order = sorted(range(len(right)), key=lambda at: right[at].start)
    starts = [right[at].start for at in order]
    longest = max((one.end - one.start for one in right), default=0)
    for at, one in enumerate(left):
        near = slice(bisect_left(starts, one.start - longest), bisect_left(starts, one.end))
        for other in order[near]:
            shared = min(one.end, right[other].end) - max(one.start, right[other].start)
            if shared > 0:
                yield at, other, shared


def _alone(
    places: Sequence[Gold | Answer], others: Sequence[Gold | Answer]
) -> Iterator[Gold | Answer]:
    met = {at for at, _, _ in overlapping(places, others)}
    return (one for at, one in enumerate(places) if at not in met)


def _most(counts: Counter[_Item]) -> list[tuple[_Item, int]]:
    """The most frequent; of equals those that are first by their text."""
    return sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))[:MOST_SURFACES]
