"""A store of an older schema is brought up to date, and nothing in it is lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from alembic.config import Config
from sqlalchemy import inspect, text

from kglink.errors import StoreError
from kglink.records import EntityId
from kglink.store import Store, database
from kglink.store.database import Database
from kglink.store.memory import Learnt
from kglink.store.schema import VERSION_TABLE
from store_support import dump, entity, job

pytest_plugins = ["store_fixtures"]

#: A further revision, as it will be written one day: a new table, filled from an old one.
FURTHER = """
import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = "0006", "0005", None, None


def upgrade():
    titles = op.create_table("titles", sa.Column("title", sa.Text, primary_key=True))
    old = sa.table("entities", sa.column("title"))
    op.execute(sa.insert(titles).from_select(["title"], sa.select(old.c.title)))
"""


@pytest.fixture
def old(url: str) -> str:
    """A store of this schema with two KBs, a verdict and an overlap."""
    with Store.open(url) as store:
        for kb in ("doid", "hp"):
            store.ingest(job(kb), [entity("1", f"One of {kb}", "Uno", xrefs=("X:1",))])
        store.set_verdict(EntityId("doid", "1"), EntityId("hp", "1"), "wrong")
    return url


@pytest.fixture
def newer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """This kglink with one more revision; the file that holds it."""
    script = tmp_path / "v0006_titles.py"
    script.write_text(FURTHER)
    plain = database.alembic_config

    def config() -> Config:
        found = plain()
        own = Path(database.__file__).parent / "migrations" / "versions"
        found.set_main_option("version_locations", os.pathsep.join(map(str, (own, tmp_path))))
        return found

    monkeypatch.setattr(database, "alembic_config", config)
    monkeypatch.setattr(database, "SCHEMA_VERSION", "0006")
    return script


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
    old: str, newer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer.write_text(FURTHER + '    raise InterruptedError("in the middle")\n')
    with pytest.raises(InterruptedError):
        Store.open(old)
    monkeypatch.undo()
    with Store.open(old) as store:
        assert store.kb("doid").entities == 1
        db = Database(old)
        with db.read() as connection:
            assert "titles" not in inspect(connection).get_table_names()
        db.close()


def test_a_newer_store_is_refused_by_this_kglink(
    old: str, newer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Store.open(old).close()
    monkeypatch.undo()
    with pytest.raises(StoreError, match="schema 0006, this kglink reads up to 0005"):
        Store.open(old)


def test_a_store_that_learnt_before_sources_were_listed_still_knows_them(url: str) -> None:
    Store.open(url).close()
    db = Database(url)
    with db.write() as connection:
        for table in ("learnt", "removed_entities", "source_words", "source_kinds"):
            connection.execute(text(f"DROP TABLE {table}"))
        connection.execute(text("ALTER TABLE kbs DROP COLUMN last_id"))
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '0001'"))  # noqa: S608 - our own table
        rows = [("k", "kelp", "x", "1"), ("k", "kelps", "", ""), ("k", "old", "", "-")]
        for key, folded, kb, one in rows:
            connection.execute(
                text("INSERT INTO memories VALUES (:key, :folded, :kb, :one, 'notes', 1, :folded)"),
                {"key": key, "folded": folded, "kb": kb, "one": one},
            )
    db.close()
    with Store.open(url) as store:
        assert store.learnt() == [Learnt("notes", "", 0, 2)]
        assert len([*store.all_meanings()]) == 3
        store.ingest(job(), [entity("1"), entity("2")])
        store.remove_entities("kb", ["2"])
        assert store.removed_in(EntityId("kb", "2")) == 2
