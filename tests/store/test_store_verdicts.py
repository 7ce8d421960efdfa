"""Verdicts: what they were given on, how long they live, who gave them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kglink.errors import UsageError
from kglink.records import Alias, CodeMapping, Entity, EntityId, Overlap, Verdict
from kglink.store import Store
from store_support import entity, job

pytest_plugins = ["store_fixtures"]

LEFT, RIGHT = EntityId("doid", "D:1"), EntityId("hp", "H:1")
PAIR = Overlap(LEFT, RIGHT, 0.9, {"name": 1.0})
REVIEWED = replace(PAIR, verdict="correct", source="review")


@pytest.fixture
def filled(store: Store) -> Store:
    """Two KBs of three entities each; the first ones overlap, and were judged so."""
    for kb in ("doid", "hp"):
        store.ingest(job(kb), records(kb))
    store.save_overlaps("doid", "hp", [PAIR])
    store.set_verdict(RIGHT, LEFT, "correct")
    return store


def records(kb: str, **given: Any) -> list[Entity]:
    """The entities of a KB, ``given`` being said of the first one."""
    letter = kb[0].upper()
    first = replace(Entity(f"{letter}:1", "One", "First."), **given)
    return [first, entity(f"{letter}:2"), entity(f"{letter}:3")]


def update(store: Store, kb: str, **given: Any) -> None:
    """Read a KB again, with ``given`` said of its first entity."""
    store.ingest(job(kb, fingerprint=repr(given)), records(kb, **given))


def judged(store: Store) -> list[tuple[str | None, bool]]:
    """The verdict on each overlap, and whether it is out of date."""
    return [(found.verdict, found.stale) for found in store.overlaps()]


# ----------------------------------------------------------------------------------------- stale
@pytest.mark.parametrize("kb", ["doid", "hp"])
@pytest.mark.parametrize(
    ("changed", "stale"),
    [
        ({"description": "Another."}, True),
        ({"description": ""}, True),
        ({"title": "Uno"}, True),
        ({"title": "OneFirst.", "description": ""}, True),
        ({"aliases": (Alias("1"),)}, False),
        ({"type": "number", "parents": ("D:2",), "xrefs": ("X:1",), "popularity": 2.0}, False),
    ],
)
def test_a_changed_text_makes_a_verdict_stale(
    filled: Store, kb: str, changed: dict[str, Any], stale: bool
) -> None:
    assert list(filled.overlaps()) == [REVIEWED]
    update(filled, kb, **changed)
    assert judged(filled) == [("correct", stale)]
    assert filled.counterparts([LEFT]) == {LEFT: (RIGHT,)}  # it counts all the same
    update(filled, kb)
    assert judged(filled) == [("correct", False)]


def test_what_stood_before_can_be_put_back(filled: Store) -> None:
    before = filled.judgement(LEFT, RIGHT)
    assert before
    assert (before.verdict, before.source) == ("correct", "review")
    assert filled.judgement(RIGHT, LEFT) == before
    update(filled, "hp", description="Another.")
    filled.set_verdicts([(LEFT, RIGHT, "wrong")], "list.tsv")
    filled.put_back(RIGHT, LEFT, before)
    found = filled.overlap(LEFT, RIGHT)
    assert found
    assert (found.verdict, found.source, found.stale) == ("correct", "review", True)
    update(filled, "hp")
    assert list(filled.overlaps()) == [REVIEWED]
    assert filled.overlap(RIGHT, LEFT) == replace(REVIEWED, left=RIGHT, right=LEFT)
    filled.put_back(LEFT, RIGHT, None)
    assert filled.judgement(LEFT, RIGHT) is None
    assert list(filled.overlaps()) == [PAIR]
    assert filled.overlap(LEFT, EntityId("hp", "H:2")) is None


def test_the_verdict_of_a_mapping_is_put_back_as_one(filled: Store) -> None:
    pair = EntityId("doid", "D:2"), EntityId("hp", "H:2")
    filled.ingest(job("pairs"), [CodeMapping("D:2", "H:2", verdict="wrong")])
    before = filled.judgement(*pair)
    filled.set_verdict(*pair, "correct")
    filled.put_back(*pair, before)
    (back,) = (one for one in filled.overlaps("doid", "hp") if one.verdict == "wrong")
    assert (back.source, back.stale) == ("kb:pairs", False)
    filled.remove_kb("pairs")
    assert filled.judgement(*pair) is None


def test_what_two_kbs_say_stays_when_one_goes(filled: Store) -> None:
    pair = EntityId("doid", "D:2"), EntityId("hp", "H:2")
    for kb in ("pairs", "others"):
        filled.ingest(job(kb), [CodeMapping("D:2", "H:2", verdict="correct")])
    for gone, rest in (("pairs", "others"), ("others", "")):
        filled.remove_kb(gone)
        judgement = filled.judgement(*pair)
        assert (judgement.source if judgement else "") == (f"kb:{rest}" if rest else "")
    assert filled.overlap(*pair) is None


def test_a_later_search_takes_its_evidence_from_what_mappings_say(filled: Store) -> None:
    pair = EntityId("doid", "D:2"), EntityId("hp", "H:2")
    filled.ingest(job("pairs"), [CodeMapping("D:2", "H:2", verdict="correct")])
    filled.save_overlaps("doid", "hp", [Overlap(*pair, 0.9, {"name": 1.0})])
    found = filled.overlap(*pair)
    assert found
    assert found.was_found
    assert found.judged_by_kb == "pairs"
    filled.save_overlaps("doid", "hp", [])
    said = filled.overlap(*pair)
    assert said
    assert not said.was_found
    assert said.verdict == "correct"
    filled.remove_kb("pairs")
    assert filled.overlap(*pair) is None


def test_what_a_mapping_says_counts_again_when_a_person_says_nothing(filled: Store) -> None:
    pair = EntityId("doid", "D:2"), EntityId("hp", "H:2")
    filled.ingest(job("pairs"), [CodeMapping("D:2", "H:2", verdict="correct")])
    filled.set_verdict(*pair, "wrong")
    filled.set_verdict(*pair, None)
    assert [(one.verdict, one.judged_by_kb) for one in (filled.overlap(*pair),) if one] == [
        ("correct", "pairs")
    ]


def test_judging_again_is_judging_what_is_there(filled: Store) -> None:
    update(filled, "hp", description="Another.")
    filled.set_verdict(LEFT, RIGHT, "wrong")
    assert judged(filled) == [("wrong", False)]
    update(filled, "hp")
    assert judged(filled) == [("wrong", True)]
    filled.set_verdict(LEFT, RIGHT, None)
    assert judged(filled) == [(None, False)]


def test_a_verdict_outlives_new_runs_updates_and_its_kbs(filled: Store) -> None:
    update(filled, "doid", description="Another.")
    filled.save_overlaps("hp", "doid", [])
    not_found = replace(REVIEWED, stale=True, evidence={}, probability=1.0)  # by this run
    assert list(filled.overlaps()) == [not_found]
    filled.save_overlaps("hp", "doid", [replace(PAIR, probability=0.2, evidence={})])
    found = replace(REVIEWED, probability=0.2, evidence={})
    assert list(filled.overlaps()) == [replace(found, stale=True)]
    for kb in ("doid", "hp"):
        filled.remove_kb(kb)
        assert list(filled.overlaps()) == []
        update(filled, kb)
    assert list(filled.overlaps()) == [found]


def test_mappings_are_of_codes_not_of_texts(filled: Store) -> None:
    said = [CodeMapping("D:2", "H:2", verdict="correct")]
    filled.ingest(job("pairs"), said)
    (found,) = filled.overlaps(judged=True, min_probability=0.95)
    assert (found.left.key, found.source, found.stale) == ("D:2", "kb:pairs", False)
    filled.ingest(job("hp", fingerprint="2"), [entity("H:1", "One"), entity("H:2", "New name")])
    assert [(o.left.key, o.stale) for o in filled.overlaps()] == [("D:1", True), ("D:2", False)]


def test_the_removal_of_a_kb_called_review_takes_no_review_back(filled: Store) -> None:
    filled.ingest(job("review"), [CodeMapping("D:2", "H:2", verdict="correct")])
    assert len(list(filled.overlaps())) == 2
    filled.remove_kb("review")
    assert list(filled.overlaps()) == [REVIEWED]


# --------------------------------------------------------------------------------------- filters
def test_overlaps_by_what_was_said_of_them(filled: Store) -> None:
    others = [EntityId("doid", "D:2"), EntityId("doid", "D:3")]
    filled.save_overlaps("doid", "hp", [Overlap(one, RIGHT, 0.5) for one in others])
    filled.set_verdict(others[0], RIGHT, "wrong")
    renamed = [*records("doid")[:1], entity("D:2", "New"), entity("D:3")]
    filled.ingest(job("doid", fingerprint="2"), renamed)

    def left(**wanted: Any) -> list[str]:
        return [found.left.key for found in filled.overlaps(**wanted)]

    assert left() == ["D:1", "D:2", "D:3"]
    assert left(judged=True) == ["D:1", "D:2"]
    assert left(stale=True) == left(stale=True, judged=True) == ["D:2"]


# ------------------------------------------------------------------------------------------ many
@pytest.mark.slow
def test_many_verdicts_at_once(store: Store) -> None:
    count = 4500
    for kb in ("a", "b"):
        store.ingest(job(kb), [entity(f"{number:04}") for number in range(count)])
    pairs = [(EntityId("a", f"{n:04}"), EntityId("b", f"{n:04}")) for n in range(count)]
    store.save_overlaps("a", "b", [Overlap(*pair, 0.5, {"name": 1.0}) for pair in pairs[:1000]])
    verdicts: list[Verdict] = ["correct", "wrong", "unclear"]
    said = [
        (left, right, verdicts[n % 3]) if n % 2 else (right, left, verdicts[n % 3])
        for n, (left, right) in enumerate(pairs)
    ]
    assert store.set_verdicts(iter(said), "list.tsv") == count
    found = list(store.overlaps())
    assert [o.verdict for o in found] == [verdicts[n % 3] for n in range(count)]
    assert [o.probability for o in found] == [
        0.5 if n < 1000 else float(n % 3 == 0) for n in range(count)
    ]
    assert {(o.source, o.stale) for o in found} == {("list.tsv", False)}
    assert store.set_verdicts(((*pair, None) for pair in pairs[:2]), "list.tsv") == 2
    assert [(o.verdict, o.source) for o in store.overlaps()][:3] == [
        (None, ""), (None, ""), ("unclear", "list.tsv")
    ]  # fmt: skip


def test_of_two_verdicts_on_a_pair_the_later_counts(filled: Store) -> None:
    filled.set_verdicts([(LEFT, RIGHT, "wrong"), (RIGHT, LEFT, "unclear")], "")
    assert list(filled.overlaps()) == [replace(PAIR, verdict="unclear")]


def test_a_batch_with_a_mistake_judges_nothing(filled: Store) -> None:
    said: list[tuple[EntityId, EntityId, Verdict | None]]
    said = [(LEFT, RIGHT, "wrong"), (EntityId("doid", "D:9"), RIGHT, "wrong")]
    with pytest.raises(UsageError, match="there is no entity doid:D:9"):
        filled.set_verdicts(said)
    with pytest.raises(UsageError, match="'kb:pairs' is no source"):
        filled.set_verdict(LEFT, RIGHT, "wrong", "kb:pairs")
    assert list(filled.overlaps()) == [REVIEWED]
