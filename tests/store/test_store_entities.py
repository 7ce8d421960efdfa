"""Entities go in, are updated, and come out as they were."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
from sqlalchemy import create_engine, insert, text

from kglink.errors import RecordError, SourceError, StoreError, UnknownNameError, UsageError
from kglink.records import Alias, Entity, EntityId
from kglink.store import Store, StoredAlias, suggested_name
from kglink.store.database import Database
from kglink.store.schema import aliases
from store_support import Stopped, broken_off, content_hashes, dump, entity, job, keys

pytest_plugins = ["store_fixtures"]

ODD = "I\N{COMBINING DOT ABOVE} \N{FAMILY}\N{ZERO WIDTH JOINER}\N{BOY} \x01\t\r\n \u202e \U0010fffd"
FULL = Entity(
    key="Q:1/ü ×",
    title="Zoë’s Café",
    description=ODD,
    type="place",
    url="https://example.org/a?b=c&d=%20",
    popularity=0.1 + 0.2,
    language="fr",
    aliases=(Alias("Zoe's", "synonym", 7), Alias(ODD, "anchor", 2**62), Alias("CAFÉ", "redirect")),
    xrefs=("GEO:1", "GEO:1", ""),
)


# -------------------------------------------------------------------------------- round trip
def test_an_entity_comes_back_whole_with_its_title_as_first_name(store: Store) -> None:
    store.ingest(job(), [FULL])
    title = Alias("Zoë’s Café", "title")
    stored = replace(FULL, aliases=(title, *FULL.aliases))
    assert list(store.entities("kb")) == [stored]
    assert store.get_entities([EntityId("kb", FULL.key)]) == {EntityId("kb", FULL.key): stored}


def test_reading_back_and_writing_again_changes_nothing(store: Store) -> None:
    store.ingest(job(), [FULL])
    again = list(store.entities("kb"))
    assert str(store.ingest(job(), again)) == "+0 ~0 -0 =1"


def test_repeated_names_are_added_up_and_blank_ones_dropped(store: Store) -> None:
    names = (Alias("B", count=2), Alias(" \t"), Alias(""), Alias("B", count=3), Alias("A", "title"))
    store.ingest(job(), [Entity("1", "A", aliases=names)])
    (found,) = store.entities("kb")
    assert found.aliases == (Alias("A", "title"), Alias("B", count=5))


def test_names_come_with_their_folded_form(store: Store) -> None:
    store.ingest(job(), [entity("2", "Straße", "STRASSE!"), entity("1", "???")])
    assert list(store.aliases_of("kb")) == [
        StoredAlias("1", "???", "", "title", 1),
        StoredAlias("2", "Straße", "strasse", "title", 1),
        StoredAlias("2", "STRASSE!", "strasse", "alias", 1),
    ]


def test_entities_come_with_their_folded_names_in_one_reading(store: Store) -> None:
    store.ingest(job(), [entity("2", "Straße", "STRASSE!", "x" * 600), entity("1", "???")])
    found = list(store.folded_entities("kb"))
    assert [one.entity for one in found] == list(store.entities("kb"))
    assert [one.folded for one in found] == [("",), ("strasse", "strasse", "")]


def test_a_name_too_long_to_look_for_is_kept_unfolded(store: Store) -> None:
    store.ingest(job(), [entity("1", "A", "x" * 512, "y" * 513)])
    assert [name.folded for name in store.aliases_of("kb")] == ["a", "x" * 512, ""]
    assert [len(name.surface) for name in store.aliases_of("kb")] == [1, 512, 513]


def test_entities_come_in_code_point_order_over_many_pages(store: Store) -> None:
    names = [f"{number}" for number in range(4100)] + ["a", "B", "é", "\U0001f600", "\uffff"]
    store.ingest(job(), [entity(name) for name in names])
    assert keys(store) == sorted(names)
    assert [name.key for name in store.aliases_of("kb")] == sorted(names)


def test_missing_entities_are_left_out(store: Store) -> None:
    store.ingest(job(), [entity(str(number)) for number in range(1200)])
    wanted = [EntityId("kb", str(number)) for number in range(600, 1300)]
    wanted += [EntityId("no", "1"), EntityId("", "1"), EntityId("kb", "\ud800\0")]
    assert set(store.get_entities(wanted)) == set(wanted[:600])


def test_the_hash_sees_every_field_and_not_the_key(store: Store, url: str) -> None:
    changes: list[dict[str, object]] = [
        {"key": "other"},
        {"title": "t"}, {"description": "d"}, {"type": "t"}, {"url": "u"}, {"popularity": 1.0},
        {"language": "en"}, {"aliases": (Alias("x"),)}, {"aliases": (Alias("x", "synonym"),)},
        {"aliases": (Alias("x", count=2),)}, {"xrefs": ("x",)}, {"xrefs": ("x", "")},
        {"description": "x", "type": "y"}, {"description": "xy"}, {"description": "y", "type": "x"},
    ]  # fmt: skip
    plain = entity("plain", "A")
    variants = [replace(plain, **({"key": str(n)} | change)) for n, change in enumerate(changes)]  # type: ignore[arg-type]  # any field
    store.ingest(job(), [plain, *variants])
    hashes = content_hashes(url)
    assert hashes["plain"] == hashes["other"] == "8b22db7cb72608275dd69c3a1314cdd8"
    assert len(set(hashes.values())) == len(changes)


def test_language_is_filled_in_where_an_entity_says_none(store: Store) -> None:
    store.ingest(job(language="de"), [entity("1"), entity("2", language="fr")])
    assert [found.language for found in store.entities("kb")] == ["de", "fr"]


# ----------------------------------------------------------------------------------- updates
def test_an_update_adds_changes_removes_and_leaves_alone(store: Store) -> None:
    first = [entity("same"), entity("changed", "Old", "o1", "o2"), entity("gone", "G", "g")]
    assert str(store.ingest(job(), first)) == "+3 ~0 -0 =0"
    second = [entity("new"), entity("changed", "New", "n"), entity("same")]
    summary = store.ingest(job(fingerprint="2"), second)
    assert str(summary) == "+1 ~1 -1 =1"
    assert (summary.revision, summary.aliases, summary.resumed_from) == (2, 4, 0)
    assert keys(store) == ["changed", "new", "same"]
    assert [name.surface for name in store.aliases_of("kb") if name.key == "changed"] == [
        "New",
        "n",
    ]


def test_what_an_update_does_not_touch_keeps_its_rows(store: Store, url: str) -> None:
    store.ingest(job(), [entity(str(number)) for number in range(10)])
    before = {found.key: found for found in store.entities("kb")}
    store.ingest(job(fingerprint="2"), [entity(str(number)) for number in range(1, 12)])
    after = {found.key: found for found in store.entities("kb")}
    assert set(after) - set(before) == {"10", "11"}
    assert set(before) - set(after) == {"0"}
    assert all(after[key] == before[key] for key in after if key in before)


def test_removals_over_many_batches_leave_nothing_behind(store: Store, url: str) -> None:
    store.ingest(job(), [entity(str(n), "", "x", xrefs=("y",)) for n in range(4500)])
    again = job(fingerprint="2", allow_shrink=True)
    summary = store.ingest(again, [entity("7", "", "x", xrefs=("y",))])
    assert str(summary) == "+0 ~0 -4,499 =1"
    left = dump(url)
    assert [len(left[table]) for table in ("entities", "aliases", "xrefs")] == [1, 2, 1]


def test_the_revision_rises_only_when_something_changed(store: Store) -> None:
    revisions = [
        store.ingest(job(fingerprint=mark), [entity("1", title)]).revision
        for mark, title in [("1", "A"), ("1", "A"), ("2", "A"), ("3", "B"), ("4", "B")]
    ]
    assert revisions == [1, 1, 1, 2, 2]


def test_kbs_are_told_in_the_order_they_were_added(store: Store) -> None:
    records = [entity("1", "A", "a", description="d"), entity("2", "B")]
    store.ingest(job("zoo", licence="CC0"), records)
    store.ingest(job("ant", source="s", adapter="csv"), records[:1])
    store.ingest(job("zoo", fingerprint="2"), records)
    zoo, ant = store.kbs()
    assert (zoo.name, zoo.licence, zoo.revision, zoo.complete) == ("zoo", "CC0", 1, True)
    assert (zoo.entities, zoo.with_description, zoo.aliases) == (2, 1, 3)
    assert (ant.name, ant.adapter, ant.source) == ("ant", "csv", "s")
    assert store.kb("ant") == ant
    assert ant.as_json()["links_to"] == []


def test_an_unknown_kb_is_refused_with_the_nearest_name(store: Store) -> None:
    store.ingest(job("doid"), [entity("1")])
    calls = (
        lambda: store.kb("diod"),
        lambda: list(store.entities("diod")),
        lambda: list(store.bearers_of("diod", ["ant"])),
        lambda: list(store.documents("diod")),
        lambda: store.remove_kb("diod"),
        lambda: store.ingest(job(links_to=("diod",)), [entity("1")]),
    )
    for call in calls:
        with pytest.raises(UnknownNameError, match="Did you mean 'doid'"):
            call()


@pytest.mark.parametrize("name", ["", "Doctor Who", "_x", "é", "a:b", "x" * 65, "a\n", "joint"])
def test_a_bad_kb_name_is_refused_with_a_good_one(store: Store, name: str) -> None:
    with pytest.raises(UsageError, match=r"no KB name|all KBs") as caught:
        store.ingest(job(name), [entity("1")])
    good = caught.value.hint.removeprefix("For instance: ")
    store.ingest(job(good), [entity("1")])


def test_suggested_names() -> None:
    names = ["Doctor Who", "Élan!", "日本", "x" * 70, "-a-", "Joint"]
    good = ["doctor_who", "elan", "my_kb", "x" * 64, "a", "joint_kb"]
    assert [suggested_name(name) for name in names] == good


# --------------------------------------------------------------------------------- shared names
def test_shared_names_against_a_brute_force_twin(store: Store) -> None:
    words = ["Ant", "ant!", "Bee", "???", "Cat", "CAT", "dog", "Ânt"]
    pairs = list(itertools.product(words, repeat=2))
    left = [entity(f"l{n}", a, b) for n, (a, b) in enumerate(pairs)]
    right = [entity(f"r{n}", a) for n, a in enumerate(words)] + [entity("none", "Eel")]
    store.ingest(job("left"), left)
    store.ingest(job("right"), right)
    named = {kb: list(store.aliases_of(kb)) for kb in ("left", "right")}
    expected = {
        (mine.key, other.key, mine.folded)
        for mine in named["left"]
        for other in named["right"]
        if mine.folded == other.folded != ""
    }
    bearers = list(store.bearers_of("right", {mine.folded for mine in named["left"]} - {""}))
    found = {
        (mine.key, bearer.key, bearer.folded)
        for mine in named["left"]
        for bearer in bearers
        if mine.folded == bearer.folded
    }
    assert found == expected
    assert ("l0", "r0", "ant") in found
    assert "none" not in {right_key for _, right_key, _ in found}


# ------------------------------------------------------------------------------------ bad input
@pytest.mark.parametrize(
    ("bad", "what"),
    [
        (entity(""), "without an id"),
        (entity("x" * 513), "more than 512 characters"),
        (Entity("1", " "), "without a title"),
        (entity("1", popularity=math.nan), "not a finite number"),
        (entity("1", description="\ud83d"), "surrogate"),
        (entity("\udc00"), "surrogate"),
        (entity("1", "A", "a\0b"), "NUL"),
        (entity("1", xrefs=("\0",)), "NUL"),
        (entity("1\0"), "NUL"),
        (Entity("1", "A", aliases=(Alias("b", count=-1),)), "negative"),
        (Entity("1", "A", aliases=(Alias("b", count=2**63),)), "64 bits"),
    ],
)
def test_a_bad_entity_stops_or_is_skipped(store: Store, bad: Entity, what: str) -> None:
    with pytest.raises(RecordError, match="record 2 .*" + what):
        store.ingest(job(), [entity("good"), bad])
    assert store.kbs() == []
    skipping = job(on_error="skip")
    assert store.ingest(skipping, [entity("good"), bad]).added == 1
    assert skipping.problems.total == 1


@pytest.mark.parametrize("batch_size", [1, 2, 100])
def test_a_repeated_key_names_both_records(store: Store, batch_size: int) -> None:
    records = [entity("a", "First"), entity("b"), entity("a", "Second"), entity("c")]
    with pytest.raises(RecordError, match=r"record 3 \('a'\).*\n.*Record 1 "):
        store.ingest(job(batch_size=batch_size), records)
    skipping = job(on_error="skip", batch_size=batch_size)
    assert store.ingest(skipping, records).added == 3
    assert dict(skipping.problems.counts) == {"an id that an earlier record has": 1}
    assert next(store.entities("kb")).title == "First"


def test_a_repeated_key_is_found_across_an_interruption(store: Store) -> None:
    records = [entity("a"), entity("b"), entity("a", "Second")]
    with pytest.raises(Stopped):
        store.ingest(job(batch_size=1), broken_off(records, 2))
    with pytest.raises(RecordError, match=r"record 3 .*\n.*Record 1 "):
        store.ingest(job(batch_size=1), records)


def test_the_same_key_in_an_update_is_no_repetition(store: Store) -> None:
    store.ingest(job(), [entity("a")])
    assert store.ingest(job(), [entity("a")]).unchanged == 1


@pytest.mark.parametrize("records", [[], [entity("")]], ids=["empty", "all bad"])
def test_a_source_without_usable_records_leaves_the_store_as_it_was(
    store: Store, url: str, records: list[Entity]
) -> None:
    with pytest.raises(SourceError, match="no usable record in"):
        store.ingest(job(on_error="skip"), records)
    assert store.kbs() == []
    store.ingest(job(), [entity("1")])
    before = dump(url)
    with pytest.raises(SourceError, match="no usable record in") as caught:
        store.ingest(job(on_error="skip", fingerprint="2"), records)
    assert ("; bad records: 1, such as " in str(caught.value)) == bool(records)
    assert dump(url) == before
    assert store.check() == []


def test_texts_of_all_kinds_come_back(store: Store) -> None:
    """COPY and INSERT have characters of their own."""
    strange = ["a\tb", "a\nb\r", "\\N", "\\.", 'say "so"', "it's", "%s {0}", "\U0001f426 é", " x "]
    records = [entity(str(at), f"{at}", description=one) for at, one in enumerate(strange)]
    store.ingest(job(), records)
    assert [one.description for one in store.entities("kb")] == strange


def test_a_session_that_ends_in_a_bulk_write_is_explained(store: Store, url: str) -> None:
    if not url.startswith("postgresql"):
        pytest.skip("a file has no sessions")
    store.ingest(job(), [entity("a", "A")])
    other = create_engine(url, isolation_level="AUTOCOMMIT")
    row = (1, 0, "x", "x", "alias", 1)
    database = Database(url)

    def write() -> None:
        with database.write() as connection:
            session = connection.scalar(text("SELECT pg_backend_pid()"))
            with other.connect() as connected:
                connected.execute(text(f"SELECT pg_terminate_backend({session})"))
            database.bulk(connection, insert(aliases), [row])

    with pytest.raises(StoreError, match="does not answer"):
        write()
    database.close()
    other.dispose()
    assert [one.title for one in store.entities("kb")] == ["A"]
