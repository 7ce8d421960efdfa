"""A merge adds to a KB and changes it; entities are removed one by one."""

from __future__ import annotations

import pytest

from kglink.errors import ShrinkError, UnknownNameError
from kglink.records import Document, EntityId, Mention, Overlap, Record
from kglink.store import Store
from store_support import Stopped, broken_off, dump, entity, job, keys

pytest_plugins = ["store_fixtures"]


def test_a_merge_adds_and_changes_and_removes_nothing(store: Store) -> None:
    text = Document("d", "two", (Mention(0, 3, "two", (EntityId("", "2"),)),))
    before: list[Record] = [entity("1"), entity("2"), entity("3"), text]
    store.ingest(job(), before)
    more: list[Record] = [entity("2", "Two, new"), entity("3"), entity("4"), Document("e", "x")]
    merged = store.ingest(job(source="more", adapter="csv", fingerprint="2", merge=True), more)
    assert str(merged) == "+1 ~1 -0 =1, documents +1 ~0 -0 =0"
    assert [one.title for one in store.entities("kb")] == [
        "Title of 1", "Two, new", "Title of 3", "Title of 4",
    ]  # fmt: skip
    first, second = store.documents("kb")
    assert first.mentions[0].gold == (EntityId("kb", "2"),)
    assert second.id == "e"
    info = store.kb("kb")
    assert (info.revision, info.entities, info.documents) == (2, 4, 2)
    assert (info.source, info.adapter) == ("kb.jsonl", "jsonl")  # of its own source, not of more


def test_a_merge_that_is_cut_off_shows_nothing_and_goes_on(store: Store) -> None:
    store.ingest(job(), [entity("1")])
    more = job(source="more", fingerprint="2", merge=True, batch_size=1)
    with pytest.raises(Stopped):
        store.ingest(more, broken_off([entity("1", "new"), entity("2")], 2))
    assert [one.title for one in store.entities("kb")] == ["Title of 1"]
    done = store.ingest(more, [entity("1", "new"), entity("2"), entity("3")])
    assert done.resumed_from > 0
    assert [one.title for one in store.entities("kb")] == ["new", "Title of 2", "Title of 3"]


def test_the_whole_truth_takes_away_what_was_merged(store: Store) -> None:
    store.ingest(job(), [entity("1")])
    store.ingest(job(fingerprint="2", merge=True), [entity("2")])
    store.ingest(job(fingerprint="3"), [entity("1")])
    assert keys(store) == ["1"]


def test_a_merge_makes_a_kb_and_keeps_what_its_documents_link_to(store: Store) -> None:
    store.ingest(job("other", merge=True), [entity("1")])
    store.ingest(job("kb", links_to=("other",)), [Document("d", "x")])
    store.ingest(job("kb", fingerprint="2", merge=True), [entity("2")])
    assert store.kb("kb").links_to == ("other",)


def test_removing_entities_is_an_update(store: Store, url: str) -> None:
    store.ingest(job("a"), [entity("1"), entity("2"), entity("3")])
    store.ingest(job("b"), [entity("x")])
    pair = EntityId("a", "1"), EntityId("b", "x")
    store.save_overlaps("a", "b", [Overlap(*pair, 0.5)])
    store.set_verdict(*pair, "correct")
    assert store.remove_entities("a", ["1", "3"]) == 2
    assert keys(store, "a") == ["2"]
    assert list(store.overlaps("a", "b")) == []
    assert (store.kb("a").revision, store.kb("a").entities, store.kb("a").aliases) == (2, 1, 1)
    assert store.check() == []
    assert "Title of 1" not in str(dump(url)["aliases"])
    store.ingest(job("a", fingerprint="2", merge=True), [entity("1")])
    (back,) = store.overlaps("a", "b")
    assert back.verdict == "correct"
    with pytest.raises(UnknownNameError, match="unknown entity of a 'no'"):
        store.remove_entities("a", ["2", "no"])
    assert keys(store, "a") == ["1", "2"]


def test_the_revision_that_took_an_entity_away_is_known_until_it_comes_back(store: Store) -> None:
    def removed(key: str, kb: str = "kb") -> int | None:
        return store.removed_in(EntityId(kb, key))

    store.ingest(job(), [entity("1"), entity("2"), entity("3")])
    store.ingest(job("other"), [entity("2")])
    store.ingest(job(fingerprint="2"), [entity("1", "changed"), entity("4")])
    assert [removed(key) for key in ("1", "2", "3", "4", "5")] == [None, 2, 2, None, None]
    assert removed("2", "other") is None
    store.remove_entities("kb", ["4"])
    store.ingest(job(fingerprint="3", merge=True), [entity("2")])
    assert [removed(key) for key in ("1", "2", "3", "4")] == [None, None, 2, 3]
    store.ingest(job(fingerprint="4"), [entity("3"), entity("4")])
    assert [removed(key) for key in ("1", "2", "3", "4")] == [5, 5, None, None]
    with pytest.raises(Stopped):
        store.ingest(job(fingerprint="5", batch_size=1), broken_off([entity("9")], 1))
    assert removed("3") is None
    store.ingest(job(fingerprint="6"), [Document("d", "documents alone take nothing away")])
    assert removed("3") is None
    store.remove_kb("kb")
    store.ingest(job(), [entity("1")])
    assert removed("2") is None


def test_a_refused_update_takes_nothing_away(store: Store) -> None:
    store.ingest(job(), [entity(str(number)) for number in range(300)])
    with pytest.raises(ShrinkError):
        store.ingest(job(fingerprint="2"), [entity("0", title="Another")])
    assert store.removed_in(EntityId("kb", "1")) is None
    assert store.kb("kb").complete
    assert not store.check()
    # The next one begins anew, and what was refused has left nothing.
    assert str(store.ingest(job(fingerprint="2", allow_shrink=True), [entity("0")])) == (
        "+0 ~0 -299 =1"
    )
