"""Databases that nobody should believe, and stores that nobody may write."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from kglink.errors import RecordError, StoreError
from kglink.records import EntityId, Overlap
from kglink.store import Store, backends, prepared
from kglink.store.backends import SQLite
from kglink.store.database import Database
from store_support import entity, job, keys


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with one KB, in a folder of its own."""
    made = tmp_path / "workspace" / "kglink.db"
    made.parent.mkdir()
    with Store.open(f"sqlite:///{made}") as store:
        store.ingest(job(), [entity(str(number), "x" * 50) for number in range(3000)])
    return made


# -------------------------------------------------------------------------------- hostile
@pytest.mark.parametrize(
    ("kind", "statement"),
    [
        ("view", "CREATE VIEW bait AS SELECT 1"),
        ("view", "DROP TABLE parents; CREATE VIEW parents AS SELECT 1 AS entity_id"),
        (
            "trigger",
            "CREATE TRIGGER bait AFTER UPDATE ON kbs BEGIN DELETE FROM entities; END",
        ),
        ("table", "CREATE VIRTUAL TABLE bait USING fts5(x)"),
    ],
)
def test_what_runs_when_it_is_read_is_refused(path: Path, kind: str, statement: str) -> None:
    planted = sqlite3.connect(path)
    planted.executescript(statement)
    planted.close()
    with pytest.raises(StoreError, match=f"holds a {kind} .* that runs when it is read") as caught:
        Store.open(f"sqlite:///{path}")
    assert caught.value.hint


@pytest.mark.parametrize(
    "planted",
    ["no JSON", "{}", "null", "[" * 100_000, ""],
    ids=["text", "object", "null", "deep", ""],
)
@pytest.mark.parametrize(
    ("column", "read"),
    [
        ("kbs.links_to", lambda store: store.kbs()),
        ("overlaps.evidence", lambda store: list(store.overlaps())),
    ],
)
def test_a_column_that_is_no_json_is_told(
    path: Path, column: str, read: Callable[[Store], object], planted: str
) -> None:
    table, _, name = column.partition(".")
    if table == "overlaps":
        planted = planted.replace("{}", "[]")
        with Store.open(f"sqlite:///{path}") as store:
            store.ingest(job("other"), [entity("0", "x")])
            infos = [info.name for info in store.kbs()]
            ids = EntityId(infos[0], "0"), EntityId(infos[1], "0")
            store.save_overlaps(infos[0], infos[1], [Overlap(*ids, 0.5, {"name": 1.0})])
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"UPDATE {table} SET {name} = ?", (planted,))  # noqa: S608 - our words
    with (
        Store.open(f"sqlite:///{path}") as store,
        pytest.raises(StoreError, match=f"the store is damaged: {column} holds") as caught,
    ):
        read(store)
    assert caught.value.hint


def test_the_schema_of_a_file_is_not_trusted(path: Path) -> None:
    """A default, index or check may call only functions that do no harm."""
    db = Database(f"sqlite:///{path}")
    with db.read() as connection:
        settings = ("trusted_schema", "cell_size_check")
        found = [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in settings]
    db.close()
    assert found == [0, 1]


def test_an_empty_file_is_no_empty_store(path: Path) -> None:
    path.write_bytes(b"")
    for create in (True, False):
        with pytest.raises(StoreError, match="is an empty file: what the store held") as caught:
            Store.open(f"sqlite:///{path}", create=create)
        assert "Restore it from a copy" in caught.value.hint
    assert path.read_bytes() == b""


def test_a_new_store_is_never_an_empty_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_args: object) -> None:
        raise InterruptedError

    monkeypatch.setattr(SQLite, "_connect", die)
    new = tmp_path / "kglink.db"
    with pytest.raises(InterruptedError):
        Store.open(f"sqlite:///{new}")
    assert new.stat().st_size > 0
    monkeypatch.undo()
    with Store.open(f"sqlite:///{new}") as store:
        assert store.check() == []
    assert [found.name for found in tmp_path.iterdir()] == ["kglink.db"]


def test_a_damaged_store_from_elsewhere_is_found_when_it_is_opened(path: Path) -> None:
    copy = path.with_name("copy.db")
    shutil.copyfile(path, copy)
    with Store.open(f"sqlite:///{copy}") as store:
        assert len(keys(store)) == 3000
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 40_000] = b"\xff" * 40_000
    broken = path.with_name("broken.db")
    broken.write_bytes(content)
    with pytest.raises(StoreError, match=r"broken\.db is damaged") as caught:
        Store.open(f"sqlite:///{broken}")
    assert "Restore it" in caught.value.hint


def test_only_a_copy_is_looked_through(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    quick = SQLite.quick_problems

    def counted(backend: SQLite, connection: object) -> list[str]:
        looked.append(backend.path.name)
        return quick(backend, connection)  # type: ignore[arg-type]  # passed on

    monkeypatch.setattr(SQLite, "quick_problems", counted)
    copy = path.with_name("copy.db")
    shutil.copyfile(path, copy)
    for where in (path, copy, copy, path):
        Store.open(f"sqlite:///{where}").close()
    assert looked == ["copy.db"]


# ------------------------------------------------------------------------------ read-only
READ = """
import json, sys
from kglink.errors import StoreError
from kglink.records import EntityId, Overlap
from kglink.store import IngestJob, Store
from kglink.records import Entity
with Store.open(f"sqlite:///{sys.argv[1]}", create=False) as store:
    found = {"kbs": [one.entities for one in store.kbs()], "read": len(list(store.entities("kb")))}
    found["problems"] = store.check()
    try:
        store.ingest(IngestJob("new", "none", "none", "1"), [Entity("1", "One")])
    except StoreError as error:
        found["written"] = str(error)
print(json.dumps(found))
"""


def test_a_store_on_a_read_only_mount_is_read(path: Path) -> None:
    folder = path.parent
    mount = f"mount --bind {folder} {folder} && mount -o remount,ro,bind {folder}"
    command = ["unshare", "--mount", "sh", "-c", f'{mount} && exec "$@"', "sh"]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*command, "true"], check=False).returncode
    ):
        pytest.skip("this system lets nobody mount here")
    ran = subprocess.run(
        [*command, sys.executable, "-c", READ, str(path)],
        check=True,
        capture_output=True,
        text=True,
    )
    found = json.loads(ran.stdout)
    assert (found["kbs"], found["read"], found["problems"]) == ([3000], 3000, [])
    assert "may not be written" in found["written"]
    assert [one.name for one in folder.iterdir()] == [path.name]


def test_a_store_that_may_not_be_written_is_read(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backends, "_is_writable", lambda _: False)
    with Store.open(f"sqlite:///{path}") as store:
        assert len(keys(store)) == 3000
        assert store.check() == []
        for write in (
            lambda: store.ingest(job("new"), [entity("1")]),
            lambda: store.remove_kb("kb"),
        ):
            with pytest.raises(StoreError, match="may not be written") as caught:
                write()
            assert "disk may be written" in caught.value.hint
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_a_reader_that_may_not_write_sees_what_a_writer_has_not_merged_yet(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(f"sqlite:///{path}") as writing:
        writing.ingest(job("more"), [entity("1")])
        assert path.with_name("kglink.db-wal").stat().st_size > 0
        with monkeypatch.context() as patched:
            patched.setattr(backends, "_is_writable", lambda _: False)
            with Store.open(f"sqlite:///{path}") as store:
                assert keys(store, "more") == ["1"]


def test_a_reader_that_may_not_write_sees_what_is_written_while_it_is_open(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(backends, "_is_writable", lambda _: False)
        reading = Store.open(f"sqlite:///{path}")
    with reading:
        assert [one.name for one in reading.kbs()] == ["kb"]
        with Store.open(f"sqlite:///{path}") as writing:
            writing.ingest(job("more"), [entity("1")])
            assert keys(reading, "more") == ["1"]
            writing.remove_kb("kb")
        assert [one.name for one in reading.kbs()] == ["more"]


def test_a_reader_that_may_not_write_keeps_its_connection_until_something_is_written(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    tune = SQLite.tune

    def counted(connection: sqlite3.Connection) -> None:
        made.append(connection)
        tune(connection)

    monkeypatch.setattr(SQLite, "tune", staticmethod(counted))
    with monkeypatch.context() as patched:
        patched.setattr(backends, "_is_writable", lambda _: False)
        reading = Store.open(f"sqlite:///{path}")
    with reading:
        for _ in range(3):
            reading.kbs()
        assert len(made) == 1
        with Store.open(f"sqlite:///{path}") as writing:
            writing.ingest(job("more"), [entity("1")])
        made.clear()
        for _ in range(3):
            assert len(reading.kbs()) == 2
        assert len(made) == 1


def test_an_error_of_the_database_tells_no_values(path: Path) -> None:
    database = Database(f"sqlite:///{path}")
    with closing(database), database.read() as connection, pytest.raises(DBAPIError) as caught:
        connection.execute(text("SELECT missing WHERE :said = 1"), {"said": "a secret"})
    assert "secret" not in str(caught.value)


# ------------------------------------------------------------------------- names that grow
def test_a_name_that_is_no_name_is_refused_before_it_is_folded(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folded: list[int] = []

    def fold(text: str) -> str:
        folded.append(len(text))
        return "x"

    monkeypatch.setattr(prepared, "fold", fold)
    huge = "\ufdfa" * 10_000_000
    records = [entity("1"), entity("2", huge), entity("3", "Three", huge)]
    with Store.open(f"sqlite:///{path}") as store:
        with pytest.raises(RecordError, match="a name of 10,000,000 characters, and 32,768") as no:
            store.ingest(job("new"), records)
        assert "raise ingest.max_name_chars" in no.value.hint
        summary = store.ingest(job("new", on_error="skip"), records)
        assert summary.added == 1
        wider = [entity("4", "y" * 33_000)]
        assert store.ingest(job("wide", longest_name=33_000), wider).added == 1
    assert max(folded) == 33_000
