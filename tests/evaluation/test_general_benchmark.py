"""What `benchmarks/general.py` counts and `benchmarks/answers.py` compares, by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kglink.records import Alias, Document, Entity, EntityId, Mention

with pytest.MonkeyPatch.context() as patched:
    patched.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    from answers import differences
    from general_baselines import Names
    from general_scores import (
        Answer,
        Given,
        Golds,
        given_counts,
        given_error,
        raw_counts,
        raw_error,
    )

TEXT = "Paris met Hector in Troy"
PARIS, CITY, HECTOR = (EntityId("general", key) for key in ("hero", "city", "hector"))
DOCUMENT = Document(
    "1",
    TEXT,
    (
        Mention(0, 5, "Paris", (PARIS,)),
        Mention(10, 16, "Hector", ()),
        Mention(20, 24, "Troy"),
    ),
)
NAMES = Names(
    "general",
    [
        Entity("hero", "Paris", popularity=1),
        Entity("city", "Paris", popularity=9),
        Entity("hector", "Hector of Troy", aliases=(Alias("Troy"), Alias("met Hector"))),
    ],
)


def test_links_are_counted_where_something_is_judged() -> None:
    answers = [
        Answer(0, 5, PARIS, 0.75),
        Answer(10, 16, CITY, 0.25),
        Answer(10, 16, None),
        Answer(19, 24, CITY),
    ]
    golds = [Golds.of(DOCUMENT)]
    assert raw_counts(golds, [answers]) == (1, 2, 1)
    assert raw_error({"set": golds}, {"set": [answers]}) == 0.25


def test_given_places_are_counted() -> None:
    answers = [Answer(0, 5, CITY, 0.5, (CITY, PARIS)), Answer(10, 16, None), Answer(20, 24, CITY)]
    golds = [Golds.of(DOCUMENT)]
    deep = [[Answer(0, 5, CITY, 0.5, (CITY, PARIS))]]
    found = given_counts(golds, [answers], deep)
    assert found == Given(golds=1, first=0, among=1, right=0, nil=1, told_nil=1, right_nil=1)
    assert Given.together([found, found]) == tuple(2 * one for one in found)
    assert given_error({"set": golds}, {"set": [answers]}) == 0.25


def test_the_dictionary_takes_the_longest_name_and_the_most_popular_bearer() -> None:
    assert NAMES.raw(TEXT) == [
        Answer(0, 5, CITY),
        Answer(6, 16, HECTOR),
        Answer(20, 24, HECTOR),
    ]
    assert [one.candidates for one in NAMES.given(DOCUMENT)] == [(CITY, PARIS), (), (HECTOR,)]
    assert NAMES.by_spelling(["Pari"])["Pari"][:2] == (CITY, PARIS)


def test_answers_that_differ_are_told_by_their_text() -> None:
    def line(text: str, links: list[object]) -> str:
        return json.dumps({"part": "demo", "docs": "d", "way": "raw", "text": text, "links": links})

    before, now = [line("1", []), line("2", [[0, 5]])], [line("1", []), line("2", [[0, 4]])]
    assert differences(before, before) == []
    assert [one[1] for one in differences(before, now)] == [f"now:    {now[1]}"]
    assert len(differences(before, now[:1])) == 1
