"""The judge of spans: facts of proposals, overlaps, nested mentions, what memory knows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kglink.linking.judge import FACTS, SpanJudge, default_weights, remembered_facts
from kglink.linking.scoring import NAME_SCORING
from kglink.records import NO_MENTION, Candidate, EntityId, MentionInText, Ranking
from kglink.store.kinds import Kind
from kglink.store.likeness import Likeness
from kglink.store.occurrences import Meaning
from kglink.text.name_words import name_key

TEXT = "cardiac disease and onset"
ONLY_DETECTOR = {"detector": 1.0, "known": 1.0}


class Told:
    """A memory of a few surfaces, and of how often things of a kind were marked."""

    def __init__(self, *told: tuple[str, EntityId, float], kinds: Sequence[Kind] = ()) -> None:
        self.of_kind = kinds
        self.told = [
            Meaning(name_key(name), name, one, times, name, times) for name, one, times in told
        ]

    def likeness(self, texts: Iterable[str]) -> Sequence[Likeness]:
        return [()] * len(list(texts))

    def kinds(self, entities: Iterable[tuple[str, str]]) -> Sequence[Sequence[Kind]]:
        return [self.of_kind] * len(list(entities))

    def meanings(self, keys: Iterable[str]) -> Mapping[str, Sequence[Meaning]]:
        return {key: [one for one in self.told if one.key == key] for key in set(keys)}


def proposal(
    start: int, end: int, score: float, *, given: bool = False, text: str = TEXT
) -> Ranking:
    return Ranking(MentionInText(TEXT + " " * 40, start, end, "", score, given), ())


def kept(
    rankings: Sequence[Ranking], memory: Told | None = None, *, nested: bool = False
) -> list[str]:
    judge = SpanJudge(NAME_SCORING, ONLY_DETECTOR, 0.4, nested)
    return [one.mention.surface for one in judge.keep(rankings, memory)]


CARDIAC_DISEASE, CARDIAC, DISEASE = proposal(0, 15, 0.8), proposal(0, 7, 0.9), proposal(8, 15, 0.8)


def test_of_overlapping_spans_those_stay_that_cover_the_most() -> None:
    assert kept([CARDIAC_DISEASE, CARDIAC]) == ["cardiac disease"]
    assert kept([CARDIAC, DISEASE, proposal(0, 15, 0.6)]) == ["cardiac", "disease"]
    assert kept([CARDIAC, proposal(0, 15, 0.3)]) == ["cardiac"]


def test_nested_mentions_stay_on_request_and_crossing_ones_never() -> None:
    assert kept([CARDIAC_DISEASE, CARDIAC, DISEASE], nested=True) == [
        "cardiac",
        "cardiac disease",
        "disease",
    ]
    crossing = proposal(8, 19, 0.6)
    assert kept([CARDIAC_DISEASE, crossing], nested=True) == ["cardiac disease"]


def test_given_mentions_are_not_judged() -> None:
    given = proposal(0, 7, 0.0, given=True)
    judge = SpanJudge(NAME_SCORING, ONLY_DETECTOR, 0.4)
    assert judge.keep([given, CARDIAC_DISEASE], None) == [given]


def test_words_that_were_mostly_no_mention_are_left_out() -> None:
    x = EntityId("x", "1")
    memory = Told(("onset", NO_MENTION, 30), ("onset", x, 3), ("disease", x, 3))
    onset, doubtful = proposal(20, 25, 0.7), proposal(8, 15, 0.3)
    assert kept([doubtful, onset]) == ["onset"]
    assert kept([doubtful, onset], memory) == ["disease"]


def test_a_name_that_memory_knows_is_no_mention_for_that_in_a_longer_name() -> None:
    poland = EntityId("x", "1")

    def known(text: str, *told: tuple[str, EntityId, float]) -> float:
        start = text.index("Poland")
        ranking = Ranking(MentionInText(text, start, start + 6, "", 0.5, given=False), ())
        (facts,) = remembered_facts([ranking], Told(*told))
        return facts["known"]

    seen = ("poland", poland, 3)
    assert known("They left Poland early.", seen) == pytest.approx(math.log(3.5 / 0.5))
    assert known("The Partitions of Poland began.", seen) == 0
    unmarked = ("poland", NO_MENTION, 6)
    assert known("The Partitions of Poland began.", unmarked) == pytest.approx(math.log(0.5 / 6.5))


def test_kinds_that_are_seldom_marked_are_doubted() -> None:
    gene = Candidate(EntityId("x", "1"), "Onset Gene", 0.9)
    onset = Ranking(proposal(20, 25, 0.7).mention, (gene,))

    def doubt(marked: float, unmarked: float) -> float:
        memory = Told(kinds=[Kind("notes", marked, unmarked)])
        (facts,) = remembered_facts([onset], memory)
        return facts["kind"]

    # Five of each are added to 3 marked places and 27 that are not.
    assert doubt(3, 27) == pytest.approx(math.log(8 / 32))
    assert doubt(0, 1000) == -3
    assert doubt(27, 3) == 0  # no kind is a mention because others of it are
    judge = SpanJudge(NAME_SCORING, {"detector": 1.0, "kind": 1.0}, 0.4)
    assert judge.keep([onset], None)
    assert not judge.keep([onset], Told(kinds=[Kind("notes", 3, 27)]))


def test_the_facts_of_a_proposal() -> None:
    def candidate(kb: str, key: str, score: float, exact: float) -> Candidate:
        evidence = {"name": 0.8, "exact": exact}
        return Candidate(EntityId(kb, key), key, score, evidence=evidence)

    found = (
        candidate("x", "1", 0.9, 1.0),
        candidate("y", "2", 0.85, 1.0),
        candidate("x", "3", 0.5, 1.0),
        candidate("y", "4", 0.2, 0.0),
    )
    judge = SpanJudge(NAME_SCORING, ONLY_DETECTOR, 0.4, proper={"x": 0.9})
    facts = judge.facts(Ranking(DISEASE.mention, found), {})
    assert facts["agreed"] == 1.0  # both KBs have it
    assert facts["bearers"] == pytest.approx(0.30, abs=0.01)  # two entities of the first
    assert set(facts) <= set(FACTS)
    assert facts["noun"] == 0.0  # its title is a number
    assert set(judge.facts(DISEASE, {})) == {"detector", "bias"}
    assert set(default_weights()) <= set(FACTS)


def test_a_word_in_lower_case_is_doubted_where_titles_have_capitals() -> None:
    judge = SpanJudge(NAME_SCORING, ONLY_DETECTOR, 0.4, proper={"general": 0.9, "diseases": 0.1})

    def noun(kb: str, title: str, mention: Ranking) -> float:
        candidate = Candidate(EntityId(kb, "1"), title, 0.9)
        return judge.facts(Ranking(mention.mention, (candidate,)), {})["noun"]

    assert noun("general", "disease", DISEASE) == 0.9
    assert noun("diseases", "disease", DISEASE) == 0.1
    assert noun("general", "Disease", DISEASE) == 0.0
    assert noun("other", "disease", DISEASE) == 0.0


SPANS = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 10), st.floats(0, 1)), max_size=12)


@given(SPANS, st.booleans())
def test_what_is_kept_does_not_cross(spans: list[tuple[int, int, float]], nested: bool) -> None:
    judge = SpanJudge(NAME_SCORING, ONLY_DETECTOR, 0.4, nested)
    found = judge.keep([proposal(start, start + size, score) for start, size, score in spans], None)
    places = [(one.mention.start, one.mention.end) for one in found]
    assert places == sorted(places)
    for left, right in combinations(places, 2):
        apart, inside = left[1] <= right[0], right[1] <= left[1] or left[0] == right[0]
        assert apart or (nested and inside)


@given(SPANS, st.booleans(), st.floats(0, 1), st.floats(0, 1))
def test_a_lower_threshold_only_adds_and_a_higher_one_only_removes(
    spans: list[tuple[int, int, float]], nested: bool, one: float, other: float
) -> None:
    proposed = [proposal(start, start + size, score) for start, size, score in spans]
    few, many = (
        {
            (found.mention.start, found.mention.end)
            for found in SpanJudge(NAME_SCORING, ONLY_DETECTOR, least, nested).keep(proposed, None)
        }
        for least in (max(one, other), min(one, other))
    )
    assert few <= many
