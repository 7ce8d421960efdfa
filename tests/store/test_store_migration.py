"""A store of an older schema is brought up to date, and nothing in it is lost."""

from __future__ import annotations

import pytest
from sqlalchemy import inspect, text
from sqlalchemy.exc import DBAPIError

from kglink.errors import StoreError
from kglink.records import EntityId
from kglink.store import Store, database, schema
from kglink.store.database import Database
from kglink.store.memory import Learnt
from kglink.store.schema import STEPS, VERSION_TABLE
from store_support import dump, entity, job

pytest_plugins = ["store_fixtures"]

#: A further schema, as it will be written one day: a new table, filled from an old one.
FURTHER = (
    "CREATE TABLE titles (title {name} PRIMARY KEY) {by_key}",
    "INSERT INTO titles SELECT title FROM entities",
)


@pytest.fixture
def old(url: str) -> str:
    """A store of this schema with two KBs, a verdict and an overlap."""
    with Store.open(url) as store:
        for kb in ("doid", "hp"):
            store.ingest(job(kb), [entity("1", f"One of {kb}", "Uno", xrefs=("X:1",))])
        store.set_verdict(EntityId("doid", "1"), EntityId("hp", "1"), "wrong")
    return url


def shape(url: str) -> dict[str, object]:
    """The columns, keys and indexes of all tables of a store."""
    db = Database(url)
    with db.read() as connection:
        found = inspect(connection)
        tables: dict[str, object] = {
            name: (
                {one["name"]: (repr(one["type"]), one["nullable"]) for one in columns},
                found.get_pk_constraint(name)["constrained_columns"],
                [one["referred_table"] for one in found.get_foreign_keys(name)],
                sorted(str(one["column_names"]) for one in found.get_indexes(name)),
            )
            for name in found.get_table_names()
            if (columns := found.get_columns(name))
        }
    db.close()
    return tables


@pytest.fixture
def newer(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[str, ...]]:
    """This kglink with one more schema; its steps."""
    steps = STEPS | {"0007": FURTHER}
    monkeypatch.setattr(schema, "STEPS", steps)
    monkeypatch.setattr(database, "SCHEMA_VERSION", "0007")
    return steps


def test_an_older_store_is_brought_up_to_date_and_loses_nothing(
    old: str, request: pytest.FixtureRequest
) -> None:
    before = dump(old)
    request.getfixturevalue("newer")
    with Store.open(old) as store:
        assert store.check() == []
        assert [(o.verdict, o.stale) for o in store.overlaps()] == [("wrong", False)]
        assert store.ingest(job("hp", fingerprint="2"), [entity("2")]).removed == 1
    db = Database(old)
    assert db.rows(text("SELECT title FROM titles ORDER BY title")) == [  # type: ignore[arg-type]  # any statement will do
        ("One of doid",), ("One of hp",),
    ]  # fmt: skip
    db.close()
    assert dump(old)["aliases"][:2] == before["aliases"][:2]


def test_an_older_store_is_only_changed_as_a_whole(
    old: str, newer: dict[str, tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    newer["0007"] = (*FURTHER, "no statement at all")
    with pytest.raises(DBAPIError):
        Store.open(old)
    monkeypatch.undo()
    with Store.open(old) as store:
        assert store.kb("doid").entities == 1
        db = Database(old)
        with db.read() as connection:
            assert "titles" not in inspect(connection).get_table_names()
        db.close()


def test_a_newer_store_is_refused_by_this_kglink(
    old: str, newer: dict[str, tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    Store.open(old).close()
    monkeypatch.undo()
    with pytest.raises(StoreError, match="schema 0007, this kglink reads up to 0006"):
        Store.open(old)


def test_a_store_that_learnt_before_sources_were_listed_still_knows_them(url: str) -> None:
    Store.open(url).close()
    made = shape(url)
    db = Database(url)
    with db.write() as connection:
        for table in ("learnt", "removed_entities", "source_words", "source_kinds"):
            connection.execute(text(f"DROP TABLE {table}"))
        connection.execute(text("ALTER TABLE kbs DROP COLUMN last_id"))
        connection.execute(text("ALTER TABLE memories DROP COLUMN small"))
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '0001'"))  # noqa: S608 - our own table
        rows = [("kelp", "x", "1"), ("Kelps", "", ""), ("old", "", "-")]
        for surface, kb, one in rows:
            connection.execute(
                text("INSERT INTO memories VALUES ('k', :folded, :kb, :one, 'notes', 1, :surface)"),
                {"folded": surface.lower(), "kb": kb, "one": one, "surface": surface},
            )
    db.close()
    with Store.open(url) as store:
        assert shape(url) == made
        assert store.learnt() == [Learnt("notes", "", 0, 2)]
        assert {one.surface: one.small for one in store.all_meanings()} == {
            "kelp": 1, "Kelps": 1, "old": 1,
        }  # fmt: skip
        store.ingest(job(), [entity("1"), entity("2")])
        store.remove_entities("kb", ["2"])
        assert store.removed_in(EntityId("kb", "2")) == 2
