"""Parents of entities: kept, compared, removed; free where there are none."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine, event, func, select
from sqlalchemy.engine import Connection

from kglink.errors import RecordError, UsageError
from kglink.records import Entity, EntityId
from kglink.store import Store
from kglink.store.database import Database
from kglink.store.entity_reader import WantedEntities
from kglink.store.schema import parents
from store_support import Stopped, broken_off, content_hashes, entity, job

pytest_plugins = ["store_fixtures"]


def child(key: str, *broader: str) -> Entity:
    """An entity with parents."""
    return entity(key, parents=broader)


def read(store: Store, kb: str = "kb") -> dict[str, tuple[str, ...]]:
    """The parents of each entity of a KB."""
    return {entity.key: entity.parents for entity in store.entities(kb)}


# ------------------------------------------------------------------------------------ round trip
def test_parents_come_back_in_their_order(store: Store) -> None:
    records = [child("a", "c", "b", "not here"), child("b"), child("c", "c", "c")]
    store.ingest(job(), records)
    store.ingest(job("other"), [child("a", "z")])
    wanted = {"a": ("c", "b", "not here"), "b": (), "c": ("c", "c")}
    assert read(store) == wanted
    ids = [EntityId("kb", key) for key in "abc"] + [EntityId("other", "a")]
    found = store.get_entities(ids)
    assert [found[name].parents for name in ids] == [*wanted.values(), ("z",)]


def test_parents_over_many_pages(store: Store) -> None:
    count = 4100
    store.ingest(job(), (child(f"{n:04}", f"{n // 2:04}", f"{n // 3:04}") for n in range(count)))
    assert read(store) == {f"{n:04}": (f"{n // 2:04}", f"{n // 3:04}") for n in range(count)}


def test_other_parents_are_a_change(store: Store) -> None:
    store.ingest(job(), [child("a", "b"), child("b", "c"), child("c"), child("d", "a", "b")])
    update = [child("a", "b"), child("b"), child("c", "b"), child("d", "b", "a")]
    summary = store.ingest(job(fingerprint="2"), update)
    assert (summary.unchanged, summary.changed, summary.revision) == (1, 3, 2)
    assert read(store) == {"a": ("b",), "b": (), "c": ("b",), "d": ("b", "a")}


def test_no_two_ways_to_give_the_same_keys_are_taken_for_one(store: Store, url: str) -> None:
    """Parents, cross-references and titles are told apart, wherever the border lies."""
    ways = [
        Entity("k", "t", xrefs=("a", "b")),
        Entity("k", "t", xrefs=("a",), parents=("b",)),
        Entity("k", "t", parents=("a", "b")),
        Entity("k", "t", parents=("b", "a")),
        Entity("k", "t", parents=("a", "b", "")),
        Entity("k", "1", xrefs=("a",), parents=("t",)),
        Entity("k", "1", description="t", xrefs=("a",)),
    ]
    hashes: list[str] = []
    for number, way in enumerate(ways):
        store.ingest(job(fingerprint=str(number)), [way])
        hashes += content_hashes(url).values()
    assert len(set(hashes)) == len(ways)


def test_a_bad_parent_is_refused(store: Store) -> None:
    for bad in ("a\0b", "\ud800"):
        with pytest.raises(RecordError, match=r"NUL|surrogate"):
            store.ingest(job(), [child("a", bad)])


# --------------------------------------------------------------------------------------- removal
def rows(url: str) -> int:
    """How many rows the table of parents has."""
    db = Database(url)
    try:
        return int(db.rows(select(func.count()).select_from(parents))[0][0])
    finally:
        db.close()


def test_parents_go_with_their_entities(url: str) -> None:
    with Store.open(url) as store:
        store.ingest(job(), [child("a", "b", "c"), child("b", "c")])
        store.ingest(job("other"), [child("a", "z")])
        assert rows(url) == 4
        store.ingest(job(fingerprint="2"), [child("b", "c")])
        assert rows(url) == 2
        store.remove_kb("kb")
        assert rows(url) == 1
        assert store.check() == []


def test_an_interrupted_ingest_goes_on_with_parents(store: Store) -> None:
    records = [child(f"{n}", f"{n + 1}") for n in range(9)]
    with pytest.raises(Stopped):
        store.ingest(job(batch_size=2), broken_off(records, 5))
    assert store.ingest(job(batch_size=2), records).resumed_from == 4
    assert read(store) == {f"{n}": (f"{n + 1}",) for n in range(9)}


# ------------------------------------------------------------------------------------------ cost
def test_kbs_without_parents_are_not_asked_for_them(url: str) -> None:
    """One look at the first row of a page's KB is all that it costs."""
    asked: list[str] = []

    def listen(_connection: Connection, _cursor: object, sql: str, *_: object) -> None:
        if "parents" in sql:
            asked.append(sql)

    with Store.open(url) as store:
        store.ingest(job("flat"), [child("a"), child("b")])
        store.ingest(job("deep"), [child("a", "b"), child("b")])
        event.listen(Engine, "before_cursor_execute", listen)
        try:
            assert read(store, "flat") == {"a": (), "b": ()}
            assert [sql.count("JOIN") for sql in asked] == [0]
            asked.clear()
            assert read(store, "deep") == {"a": ("b",), "b": ()}
            assert [sql.count("JOIN") for sql in asked] == [0, 1]
        finally:
            event.remove(Engine, "before_cursor_execute", listen)


# -------------------------------------------------------------------------------------- branches
def wanted(store: Store, kb: str = "kb", **told: tuple[str, ...]) -> str:
    """The one-letter keys of the wanted entities."""
    return "".join(store.wanted_keys(kb, WantedEntities(**told)))


def test_a_branch_is_all_that_parents_lead_up_from(store: Store) -> None:
    # a > b, c; b, c > d; d > e; e and f are each other's parents; g stands alone.
    records = [
        entity("a", type="Thing"), child("b", "a"), child("c", "a", "not here"),
        child("d", "b", "c"), entity("e", parents=("d", "f"), type="thing"), child("f", "e"),
        entity("g", type="other"),
    ]  # fmt: skip
    store.ingest(job(), records)
    store.ingest(job("two"), [child("a", "g"), child("g"), child("b", "a")])
    assert wanted(store) == "abcdefg"
    assert wanted(store, under=("a",)) == "abcdef"
    assert wanted(store, under=("d",)) == wanted(store, under=("e", "d")) == "def"
    assert wanted(store, under=("f",)) == "ef"
    assert wanted(store, under=("g", "c")) == "cdefg"
    assert wanted(store, not_under=("b",)) == "acg"
    assert wanted(store, under=("a",), not_under=("d", "g")) == "abc"
    assert wanted(store, under=("g",), not_under=("g",)) == ""
    assert wanted(store, types=("THING",)) == "ae"
    assert wanted(store, types=("thing", "other"), not_under=("d",)) == "ag"
    assert wanted(store, "two", under=("g",)) == "abg"
    assert wanted(store, "two", under=("b",)) == "b"
    assert sorted(store.types_of("kb")) == ["", "Thing", "other", "thing"]
    with pytest.raises(UsageError, match="there is no entity kb:not here"):
        wanted(store, not_under=("not here",))


def test_parents_in_circles_and_over_many_pages(store: Store) -> None:
    count = 4100
    store.ingest(
        job(), (child(f"{n:04}", f"{(n + 7) % count:04}", f"{n:04}") for n in range(count))
    )
    keys = list(store.wanted_keys("kb", WantedEntities(under=("0003",))))
    assert keys == [f"{n:04}" for n in range(count)]  # 7 and 4,100 have no divisor in common
    assert not list(store.wanted_keys("kb", WantedEntities(not_under=("0003",))))
