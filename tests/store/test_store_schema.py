"""Opening, migrating, refusing and examining a store."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect, make_url, text
from sqlalchemy.engine import Connection

from kglink.errors import KglinkError, StoreError, UsageError
from kglink.store import Store, database
from kglink.store.database import Database
from kglink.store.schema import SCHEMA_VERSION, STEPS, VERSION_TABLE, make_tables, metadata
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


@pytest.mark.parametrize(
    ("setting", "what"),
    [
        ("default_transaction_read_only=on", "in a read-only transaction"),
        ("search_path=nowhere", "no schema has been selected"),
        ("statement_timeout=1", "due to statement timeout"),
    ],
)
def test_what_a_server_is_set_to_refuse_is_told(url: str, setting: str, what: str) -> None:
    if not url.startswith("postgresql"):
        pytest.skip("a file has no settings")
    address = make_url(url)
    options = f"{address.query['options']} -c{setting}"
    with pytest.raises(StoreError, match=f"refuses this: .*{what}") as caught:
        Store.open(address.update_query_dict({"options": options}))
    assert "revision INTEGER" not in str(caught.value)  # the statement
    assert caught.value.hint


def test_any_text_is_kept_whatever_the_encoding_of_the_session(url: str) -> None:
    if not url.startswith("postgresql"):
        pytest.skip("a file has no sessions")
    with Store.open(make_url(url).update_query_dict({"client_encoding": "latin1"})) as store:
        store.ingest(job(), [entity("a", "Цюрих")])
        assert [found.title for found in store.entities("kb")] == ["Цюрих"]


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_that_cannot_hold_all_texts_is_refused(url: str, encoding: str) -> None:
    if not url.startswith("postgresql"):
        pytest.skip("a file has one encoding")
    name = f"kglink_test_{os.getpid()}"
    server = create_engine(url, isolation_level="AUTOCOMMIT")
    with server.connect() as connection:
        made = f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0"
        connection.exec_driver_sql(made)
        with pytest.raises(StoreError, match=f"has the encoding {encoding}, not UTF8"):
            Store.open(make_url(url).set(database=name))
        connection.exec_driver_sql(f"DROP DATABASE {name}")
    server.dispose()


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
