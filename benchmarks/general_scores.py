"""Answers of any system for annotated texts, and their figures: golds by id, InKB, strict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kglink.evaluation.measures.end_to_end import PrecisionRecall, Reliability
from kglink.records import Document, EntityId, LinkedDocument

Place = tuple[int, int]


class Answer(NamedTuple):
    """What a system says of a place: an entity or, None, that the KB has none."""

    start: int
    end: int
    entity: EntityId | None
    confidence: float = 1.0
    candidates: tuple[EntityId, ...] = ()


#: The answers for each text of each set.
Answers = Mapping[str, Sequence[Sequence[Answer]]]


@dataclass(frozen=True)
class System:
    """One way to link, and what it answered."""

    name: str
    raw: Answers
    given: Answers
    """Of the annotated places."""
    deep: Answers
    """Of those that have a gold, with 64 candidates; none where that was not asked."""
    texts_a_second: float = 0.0


class Golds(NamedTuple):
    """What is known of a text: right entities by place, places that mean none, unjudged ones."""

    right: Mapping[Place, frozenset[EntityId]]
    nil: frozenset[Place]
    unjudged: frozenset[Place]

    @classmethod
    def of(cls, document: Document) -> Golds:
        """Of an annotated text."""
        return cls(
            {(one.start, one.end): frozenset(one.gold) for one in document.mentions if one.gold},
            frozenset((one.start, one.end) for one in document.mentions if one.gold == ()),
            frozenset((one.start, one.end) for one in document.mentions if one.gold is None),
        )

    def judged(self, answers: Iterable[Answer]) -> Iterator[tuple[Answer, bool]]:
        """The links to an entity, and whether each is right; not those across unjudged places."""
        for one in answers:
            across = any(one.start < end and start < one.end for start, end in self.unjudged)
            if one.entity is not None and not across:
                yield one, one.entity in self.right.get((one.start, one.end), ())


def answers_of(linked: LinkedDocument) -> list[Answer]:
    """What kglink says of a text."""
    return [
        Answer(
            link.start,
            link.end,
            link.chosen.id if link.chosen else None,
            link.confidence,
            tuple(one.id for one in link.candidates),
        )
        for link in linked.links
    ]


def raw_counts(golds: Sequence[Golds], answers: Sequence[Sequence[Answer]]) -> tuple[int, int, int]:
    """How many links are right, how many there are, and how many mentions have a gold."""
    judged = [
        right
        for own, told in zip(golds, answers, strict=True)
        for _, right in own.judged(told)
    ]  # fmt: skip
    return sum(judged), len(judged), sum(len(own.right) for own in golds)


def figures(counts: tuple[int, int, int]) -> PrecisionRecall:
    return PrecisionRecall.of(*counts)


class Given(NamedTuple):
    """Counts of mentions whose places are given."""

    golds: int
    first: int
    """Mentions whose first candidate is right."""
    among: int
    """Mentions with a right one among 64 candidates."""
    right: int
    """Mentions that are answered right."""
    nil: int
    """Mentions that mean nothing in the KB."""
    told_nil: int
    right_nil: int

    @classmethod
    def together(cls, rows: Iterable[Given]) -> Given:
        """The counts of several sets."""
        return cls(*map(sum, zip(*rows, strict=True)))


def given_counts(
    golds: Sequence[Golds],
    answers: Sequence[Sequence[Answer]],
    deep: Sequence[Sequence[Answer]] | None,
) -> Given:
    """Counts of a set; ``deep`` are the answers with 64 candidates."""
    counts = [Given(0, 0, 0, 0, 0, 0, 0)]
    for own, told, longer in zip(golds, answers, deep or [()] * len(golds), strict=True):
        among = {(one.start, one.end): one.candidates for one in longer}
        for one in told:
            place = one.start, one.end
            right, nil = own.right.get(place, frozenset()), place in own.nil
            if not right and not nil:
                continue
            counts.append(
                Given(
                    golds=int(bool(right)),
                    first=int(bool(one.candidates) and one.candidates[0] in right),
                    among=int(not right.isdisjoint(among.get(place, ()))),
                    right=int(one.entity in right),
                    nil=int(nil),
                    told_nil=int(one.entity is None),
                    right_nil=int(nil and one.entity is None),
                )
            )
    return Given.together(counts)


def raw_error(golds: Mapping[str, Sequence[Golds]], answers: Answers) -> float:
    """The calibration error of all links of raw texts."""
    calibration = Reliability()
    for name, told in answers.items():
        for own, each in zip(golds[name], told, strict=True):
            for one, right in own.judged(each):
                calibration.add(one.confidence, right=right)
    return calibration.ece or 0.0


def given_error(golds: Mapping[str, Sequence[Golds]], answers: Answers) -> float:
    """The calibration error of all answers for given places, NIL included."""
    calibration = Reliability()
    for name, told in answers.items():
        for own, each in zip(golds[name], told, strict=True):
            for one in each:
                place = one.start, one.end
                if place not in own.unjudged:
                    right = own.right.get(place, frozenset())
                    is_right = one.entity in right if one.entity else place in own.nil
                    calibration.add(one.confidence, right=is_right)
    return calibration.ece or 0.0


def right_places(golds: Golds, answers: Iterable[Answer]) -> set[Place]:
    """Where a system answers with the right entity."""
    return {(one.start, one.end) for one, right in golds.judged(answers) if right}


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table in Markdown."""
    print(f"\n| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)


def share(part: float, whole: float) -> str:
    """A share as it stands in a table."""
    return f"{part / whole:.3f}".lstrip("0") if whole and part < whole else "1" if whole else "-"


def decimals(values: Iterable[float]) -> str:
    """Figures of a cell."""
    return " ".join(f"{one:.3f}".removeprefix("0") for one in values)


def mean(rows: Iterable[tuple[int, int, int]], of: Callable[[PrecisionRecall], float]) -> float:
    """The mean of a figure over sets."""
    values = [of(figures(row)) for row in rows]
    return sum(values) / max(1, len(values))
