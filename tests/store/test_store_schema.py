"""Opening, migrating, refusing and examining a store."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import inspect, text
from sqlalchemy.engine import Connection

from kglink.errors import KglinkError, StoreError, UsageError
from kglink.store import Store, database
from kglink.store.database import Database
from kglink.store.migrations import STEPS
from kglink.store.schema import SCHEMA_VERSION, VERSION_TABLE, make_tables, metadata
from store_support import entity, job

pytest_plugins = ["store_fixtures"]


def tables(url: str) -> list[str]:
    """The tables of a store."""
    db = Database(url)
    try:
        with db.read() as connection:
            return sorted(inspect(connection).get_table_names())
    finally:
        db.close()


# ------------------------------------------------------------------------------------ migrations
def test_a_new_store_has_just_the_tables_that_the_code_knows(url: str) -> None:
    assert tables(url) == sorted([*metadata.tables, VERSION_TABLE])


def test_the_last_step_leads_to_the_schema_of_the_code() -> None:
    assert list(STEPS) == sorted(STEPS)
    assert max(STEPS) == SCHEMA_VERSION


def test_a_broken_off_migration_leaves_nothing(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(connection: Connection) -> None:
        make_tables(connection)
        raise InterruptedError

    with monkeypatch.context() as patched:
        patched.setattr(database, "make_tables", stop)
        with pytest.raises(InterruptedError):
            Store.open(url)
    assert tables(url) == sorted([*metadata.tables, VERSION_TABLE])


def test_a_newer_schema_is_refused_and_left_alone(url: str) -> None:
    Store.open(url).close()
    db = Database(url)
    with db.write() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))  # noqa: S608 - our own table
    db.close()
    with pytest.raises(StoreError, match=f"schema 9999.* up to {SCHEMA_VERSION}") as caught:
        Store.open(url)
    assert "Update kglink" in caught.value.hint


# --------------------------------------------------------------------------------------- opening
def test_opening_again_finds_what_was_there(url: str) -> None:
    with Store.open(url) as store:
        store.ingest(job(), [entity("1")])
    with Store.open(url, create=False) as store:
        assert store.kb("kb").entities == 1


def test_tuning(tmp_path: Path) -> None:
    db = Database(f"sqlite:///{tmp_path / 'kglink.db'}")
    with db.read() as connection:
        pragmas = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }
    db.close()
    expected = {"journal_mode": "wal", "synchronous": 1, "foreign_keys": 1, "busy_timeout": 30000}
    assert pragmas == expected


@pytest.mark.parametrize(
    ("url", "kind", "what"),
    [
        ("no url", UsageError, "no database URL"),
        ("no_such://x", UsageError, "no database URL|no store in"),
        ("mysql://x/y", UsageError, "no store in 'mysql'"),
        ("sqlite://", UsageError, "in memory"),
        ("sqlite:///:memory:", UsageError, "in memory"),
        ("sqlite:///{folder}/none/kglink.db", StoreError, "no folder .*none"),
        ("sqlite:///{folder}/absent.db", StoreError, "no store at .*absent.db"),
        ("sqlite:///{folder}", StoreError, "no store at"),
    ],
)
def test_what_is_no_store_is_refused(
    tmp_path: Path, url: str, kind: type[KglinkError], what: str
) -> None:
    with pytest.raises(kind, match=what) as caught:
        Store.open(url.format(folder=tmp_path), create=False)
    assert caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_a_folder_cannot_become_a_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be opened"):
        Store.open(f"sqlite:///{tmp_path}")


def test_another_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "kglink.db"
    content = b"id\ttitle\n" * 1000
    path.write_bytes(content)
    with pytest.raises(StoreError, match="is no SQLite file"):
        Store.open(f"sqlite:///{path}")
    assert path.read_bytes() == content


def test_the_database_of_another_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "places.db"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE bookmarks (url TEXT)")
    other.close()
    with pytest.raises(StoreError, match="tables of another program"):
        Store.open(f"sqlite:///{path}")


def test_a_password_is_not_told() -> None:
    pytest.importorskip("psycopg", reason="the extra 'postgres' is not installed")
    with pytest.raises(StoreError, match="does not answer") as caught:
        Store.open("postgresql+psycopg://me:secret@127.0.0.1:1/none")
    assert "secret" not in str(caught.value)


# ---------------------------------------------------------------------------------------- health
def test_a_damaged_file_is_found(tmp_path: Path) -> None:
    path = tmp_path / "kglink.db"
    with Store.open(f"sqlite:///{path}") as store:
        store.ingest(job(), [entity(str(number), "x" * 500) for number in range(2000)])
        assert store.check() == []
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 40_000] = b"\xff" * 40_000
    path.write_bytes(content)
    with Store.open(f"sqlite:///{path}") as store:
        assert any("damaged" in problem for problem in store.check())
        with pytest.raises(StoreError, match="is damaged"):
            list(store.aliases_of("kb"))
