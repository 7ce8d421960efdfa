"""Overlaps, their verdicts, and counterparts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, permutations

import pytest

from kglink.errors import UnknownNameError, UsageError
from kglink.records import EntityId, Overlap
from kglink.store import Store, overlaps
from store_support import Stopped, broken_off, entity, job

pytest_plugins = ["store_fixtures"]

# Added in this order, which is not the alphabet's.
NAMES = ("wiki", "doid", "hp")


def name(text: str) -> EntityId:
    """An id by its text."""
    return EntityId.parse(text)


def pair(left: str, right: str, probability: float = 0.9, **evidence: float) -> Overlap:
    """An overlap by the texts of its ids."""
    return Overlap(name(left), name(right), probability, evidence)


@pytest.fixture
def filled(store: Store) -> Store:
    """Three KBs of nine entities each."""
    for kb in NAMES:
        store.ingest(job(kb), [entity(str(number)) for number in range(1, 10)])
    return store


# ------------------------------------------------------------------------------------ round trip
def test_overlaps_come_back_as_they_were(filled: Store) -> None:
    pairs = [pair("wiki:1", "doid:2", 0.25, name=1, text=0.1 + 0.2), pair("wiki:2", "doid:1", 1)]
    assert filled.save_overlaps("wiki", "doid", pairs) == 2
    turned = [replace(p, left=p.right, right=p.left) for p in pairs]
    assert list(filled.overlaps("doid", "wiki")) == [turned[1], turned[0]]
    assert list(filled.overlaps("wiki", "doid")) == [pairs[1], pairs[0]]
    assert list(filled.overlaps("wiki")) == [pairs[1], pairs[0]]
    assert list(filled.overlaps()) == [turned[1], turned[0]]
    assert list(filled.overlaps(right="doid")) == [pairs[1], pairs[0]]
    assert list(filled.overlaps(min_probability=0.26)) == [turned[1]]
    assert list(filled.overlaps("hp")) == []


def test_overlaps_over_many_pages(store: Store) -> None:
    for kb in ("a", "b"):
        store.ingest(job(kb), [entity(f"{number:04}") for number in range(4100)])
    pairs = [
        pair(f"a:{number:04}", f"b:{4099 - number:04}", number / 5000) for number in range(4100)
    ]
    assert store.save_overlaps("b", "a", iter(pairs)) == 4100
    assert list(store.overlaps()) == pairs


def test_saving_replaces_the_pairs_of_those_two_kbs(filled: Store) -> None:
    filled.save_overlaps("wiki", "doid", [pair("wiki:1", "doid:1"), pair("wiki:2", "doid:2")])
    filled.save_overlaps("wiki", "hp", [pair("hp:1", "wiki:1")])
    filled.save_overlaps("doid", "wiki", [pair("doid:3", "wiki:3"), pair("doid:2", "wiki:2", 0.1)])
    assert list(filled.overlaps()) == [
        pair("doid:2", "wiki:2", 0.1),
        pair("doid:3", "wiki:3"),
        pair("hp:1", "wiki:1"),
    ]


def test_a_kb_that_is_removed_during_the_search_gets_no_overlaps(filled: Store) -> None:
    def found() -> Iterator[Overlap]:
        yield pair("hp:1", "wiki:1")
        filled.remove_kb("hp")

    with pytest.raises(UnknownNameError, match="'hp'"):
        filled.save_overlaps("wiki", "hp", found())
    filled.ingest(job("hp"), [entity("1")])  # perhaps another vocabulary, with the same ids
    assert list(filled.overlaps()) == []


def test_a_broken_off_save_changes_nothing(filled: Store) -> None:
    filled.save_overlaps("wiki", "doid", [pair("wiki:1", "doid:1")])
    with pytest.raises(Stopped):
        filled.save_overlaps("wiki", "doid", broken_off([pair("wiki:2", "doid:2")], 1))
    assert list(filled.overlaps("wiki")) == [pair("wiki:1", "doid:1")]


def test_the_source_of_overlaps_may_read_the_store(filled: Store) -> None:
    def found() -> Iterator[Overlap]:
        for left in filled.entities("wiki"):
            for right in filled.get_entities([EntityId("doid", left.key)]):
                yield Overlap(EntityId("wiki", left.key), right, 1.0)

    assert filled.save_overlaps("wiki", "doid", found()) == 9


# -------------------------------------------------------------------------------------- verdicts
def test_verdicts_live_through_new_runs_updates_and_removal(filled: Store) -> None:
    filled.save_overlaps("wiki", "doid", [pair("wiki:1", "doid:1"), pair("wiki:2", "doid:2")])
    filled.set_verdict(name("doid:1"), name("wiki:1"), "wrong")
    filled.set_verdict(name("wiki:2"), name("doid:2"), "correct")
    judged = [
        replace(pair("wiki:1", "doid:1", 0.4), verdict="wrong", source="review"),
        replace(pair("wiki:2", "doid:2", 1.0), verdict="correct", source="review"),
    ]
    # The first pair is found again, the second is not.
    filled.save_overlaps("wiki", "doid", [pair("wiki:1", "doid:1", 0.4), pair("wiki:3", "doid:3")])
    assert list(filled.overlaps("wiki")) == [*judged, pair("wiki:3", "doid:3")]
    filled.ingest(job("wiki", fingerprint="2"), [entity("2")])
    assert list(filled.overlaps("wiki")) == [judged[1]]
    filled.remove_kb("doid")
    assert list(filled.overlaps()) == []
    filled.ingest(job("wiki", fingerprint="3"), [entity("1"), entity("2"), entity("3")])
    filled.ingest(job("doid"), [entity(str(number)) for number in range(1, 10)])
    assert list(filled.overlaps("wiki")) == judged


def test_a_verdict_can_be_taken_back(filled: Store) -> None:
    filled.save_overlaps("wiki", "doid", [pair("wiki:1", "doid:1", name=1)])
    filled.set_verdict(name("wiki:1"), name("doid:1"), "unclear")
    assert [found.verdict for found in filled.overlaps()] == ["unclear"]
    filled.set_verdict(name("wiki:1"), name("doid:1"), None)
    assert list(filled.overlaps("wiki")) == [pair("wiki:1", "doid:1", name=1)]
    filled.save_overlaps("wiki", "doid", [])
    assert list(filled.overlaps()) == []


def test_a_pair_that_nothing_speaks_for_goes_with_its_verdict(filled: Store) -> None:
    """It was an accepted overlap that nobody had found and nobody had called correct."""
    pair_of = name("wiki:1"), name("doid:1")
    filled.set_verdict(*pair_of, "correct")
    filled.set_verdict(*pair_of, None)
    assert list(filled.overlaps()) == []
    filled.save_overlaps("wiki", "doid", [pair("wiki:1", "doid:1", name=1)])
    filled.set_verdict(*pair_of, "correct")
    filled.save_overlaps("wiki", "doid", [])  # a later search does not find it
    filled.set_verdict(*pair_of, None)
    assert list(filled.overlaps()) == []
    assert filled.counterparts([name("wiki:1")]) == {}


def test_parts_are_the_whole(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Overlaps of one KB and of two, page by page, against all of them sifted."""
    for kb in "cabd":
        store.ingest(job(kb), [entity(str(number)) for number in range(9)])
    for left, right in combinations("abcd", 2):
        pairs = [pair(f"{left}:{n}", f"{right}:{n * n % 9}", n / 9, name=1) for n in range(9)]
        store.save_overlaps(left, right, pairs)
    store.remove_entities("c", ["4"])
    monkeypatch.setattr(overlaps, "BATCH", 5)
    everything = list(store.overlaps())
    assert len(everything) == 54 - 5  # c:4 is in one as left, in four as right
    for kb in "abcd":
        mine = [one for one in everything if kb in (one.left.kb, one.right.kb)]
        assert list(store.overlaps(kb)) == [
            one if one.left.kb == kb else replace(one, left=one.right, right=one.left)
            for one in mine
        ]
    for left, right in permutations("abcd", 2):
        both = [one for one in everything if {one.left.kb, one.right.kb} == {left, right}]
        found = list(store.overlaps(left, right))
        assert {one.left.kb for one in found} == {left}
        assert [sorted((one.left, one.right)) for one in found] == [
            sorted((one.left, one.right)) for one in both
        ]


def test_a_pair_that_nothing_found_can_be_judged(filled: Store) -> None:
    filled.set_verdict(name("wiki:1"), name("doid:1"), "correct")
    filled.set_verdict(name("wiki:2"), name("doid:2"), "wrong")
    filled.set_verdict(name("wiki:3"), name("doid:3"), None)
    found = [(str(o.left), str(o.right), o.probability, o.verdict) for o in filled.overlaps()]
    assert found == [("doid:1", "wiki:1", 1.0, "correct"), ("doid:2", "wiki:2", 0.0, "wrong")]


def test_a_pair_that_no_search_finds_any_more_is_as_probable_as_was_said(filled: Store) -> None:
    filled.save_overlaps("wiki", "doid", [pair("wiki:1", "doid:1", 0.8, name=1)])
    filled.set_verdict(name("wiki:1"), name("doid:1"), "unclear")
    assert filled.counterparts([name("wiki:1")])
    filled.save_overlaps("wiki", "doid", [])
    assert filled.counterparts([name("wiki:1")]) == {}
    filled.set_verdict(name("wiki:1"), name("doid:1"), "correct")
    assert [found.probability for found in filled.overlaps()] == [1.0]
    filled.set_verdict(name("wiki:1"), name("doid:1"), "unclear")
    assert [found.probability for found in filled.overlaps()] == [0.0]


def test_a_given_verdict_is_kept_but_an_older_one_wins(filled: Store) -> None:
    given = [replace(pair(f"doid:{n}", f"wiki:{n}"), verdict="correct") for n in (1, 2)]
    filled.set_verdict(name("wiki:2"), name("doid:2"), "wrong")
    filled.save_overlaps("wiki", "doid", given)
    assert [found.verdict for found in filled.overlaps()] == ["correct", "wrong"]


# ----------------------------------------------------------------------------------- counterparts
def test_counterparts_are_ranked_by_probability_kb_order_and_key(filled: Store) -> None:
    filled.save_overlaps(
        "wiki",
        "doid",
        [
            pair("wiki:1", "doid:1", 0.7),
            pair("wiki:1", "doid:3", 0.5),
            pair("wiki:1", "doid:2", 0.5),
        ],
    )
    filled.save_overlaps("wiki", "hp", [pair("wiki:1", "hp:1", 0.5), pair("wiki:1", "hp:9", 0.9)])
    ids = [name(text) for text in ("wiki:1", "hp:9", "wiki:5", "no:1", "doid:none")]
    expected = [name(text) for text in ("hp:9", "doid:1", "doid:2", "doid:3", "hp:1")]
    assert filled.counterparts(ids) == {ids[0]: tuple(expected), ids[1]: (ids[0],)}
    assert filled.counterparts(ids, min_probability=0.6) == {
        ids[0]: tuple(expected[:2]),
        ids[1]: (ids[0],),
    }


def test_counterparts_follow_the_verdicts(filled: Store) -> None:
    pairs = [pair(f"wiki:{n}", f"doid:{n}", n / 10, name=1) for n in (1, 2, 8, 9)]
    filled.save_overlaps("wiki", "doid", pairs)
    for number, verdict in ((1, "correct"), (2, "unclear"), (8, "unclear"), (9, "wrong")):
        filled.set_verdict(name(f"wiki:{number}"), name(f"doid:{number}"), verdict)  # type: ignore[arg-type]  # from a list
    found = filled.counterparts(name(f"wiki:{number}") for number in range(1, 10))
    assert found == {name(f"wiki:{n}"): (name(f"doid:{n}"),) for n in (1, 8)}


def test_counterparts_of_many_ids(store: Store) -> None:
    for kb in ("a", "b"):
        store.ingest(job(kb), [entity(str(number)) for number in range(1300)])
    store.save_overlaps("a", "b", [pair(f"a:{n}", f"b:{n}") for n in range(1300)])
    found = store.counterparts(name(f"a:{number}") for number in range(1300))
    assert found == {name(f"a:{n}"): (name(f"b:{n}"),) for n in range(1300)}


# -------------------------------------------------------------------------------------- bad input
def test_bad_overlaps_are_refused(filled: Store) -> None:
    bad = [
        (pair("wiki:1", "hp:1"), "not one of doid and wiki"),
        (pair("wiki:1", "wiki:2"), "not one of"),
        (pair("wiki:1", "doid:1", 1.5), "probability 1.5"),
        (pair("wiki:1", "doid:1", float("nan")), "probability nan"),
        (pair("wiki:1", "doid:1", name=float("inf")), "not a finite number"),
    ]
    for overlap, what in bad:
        with pytest.raises(UsageError, match=what):
            filled.save_overlaps("wiki", "doid", [overlap])
    with pytest.raises(UsageError, match="two KBs"):
        filled.save_overlaps("wiki", "wiki", [])
    with pytest.raises(UnknownNameError, match="unknown KB 'no'"):
        filled.save_overlaps("wiki", "no", [])
    with pytest.raises(UnknownNameError, match="unknown KB 'no'"):
        list(filled.overlaps("no"))


def test_bad_verdicts_are_refused(filled: Store) -> None:
    with pytest.raises(UsageError, match="there is no entity doid:none"):
        filled.set_verdict(name("wiki:1"), name("doid:none"), "correct")
    with pytest.raises(UsageError, match="two KBs"):
        filled.set_verdict(name("wiki:1"), name("wiki:2"), "correct")
    with pytest.raises(UsageError, match="'maybe' is no verdict"):
        filled.set_verdict(name("wiki:1"), name("doid:1"), "maybe")  # type: ignore[arg-type]  # it is refused
