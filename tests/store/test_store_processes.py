"""Several processes at one store, and disks that are full."""

from __future__ import annotations

import itertools
import os
import re
import socket
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, make_url, text

import store_child
from kglink.errors import StoreError, UnknownNameError
from kglink.files.atomic import file_lock
from kglink.records import Entity, EntityId, Overlap
from kglink.store import IngestJob, Store, backends
from kglink.store.backends import SQLite
from store_support import entity, job, keys

pytest_plugins = ["store_fixtures"]

CHILD = Path(store_child.__file__)


def start(url: str, kb: str, count: int, *options: str) -> subprocess.Popen[str]:
    """A process that ingests a KB."""
    pipe = subprocess.PIPE
    command = [sys.executable, str(CHILD), url, kb, str(count), *options]
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def child_job(**given: Any) -> IngestJob:
    """The job of a child process."""
    return job(adapter="none", source="child", fingerprint="1", **given)


@pytest.mark.slow
def test_two_processes_add_two_kbs_at_once(url: str) -> None:
    # Both are in the middle of their ingest before either may go on.
    children = [
        start(url, kb, 3000, "--batch-size", "50", "--wait-after", "100") for kb in ("a", "b")
    ]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "waiting\n"
    for child in children:
        assert child.communicate("\n", timeout=60) == ("", "")
        assert child.returncode == 0
    with Store.open(url) as store:
        expected = sorted(record.key for record in store_child.records(3000, 1))
        assert keys(store, "a") == keys(store, "b") == expected
        assert store.check() == []


@pytest.mark.slow
def test_readers_see_whole_revisions_while_two_processes_write(url: str) -> None:
    with Store.open(url) as store:
        for kb in ("a", "b", "c"):
            store.ingest(child_job(kb=kb), store_child.records(600, 1))
        before = {kb: list(store.entities(kb)) for kb in ("a", "b", "c")}
        assert len(before["a"]) == 600
        children = [
            start(url, kb, 600, "--version", "2", "--batch-size", "50", "--wait-after", "300")
            for kb in ("a", "b")
        ]
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == "waiting\n"
        reading = store.entities("a")
        begun = [next(reading)]
        for kb, entities in before.items():  # both are in the middle of an update
            assert list(store.entities(kb)) == entities
            assert store.kb(kb).revision == 1
        children[1].kill()
        children[1].communicate()
        assert children[0].communicate("\n", timeout=60) == ("", "")
        assert [*begun, *reading] == before["a"]
        after = sorted(store_child.records(600, 2), key=lambda entity: entity.key)
        assert [entity.key for entity in store.entities("a")] == [one.key for one in after]
        assert list(store.entities("b")) == before["b"]
        assert list(store.entities("c")) == before["c"]
        assert [store.kb(kb).revision for kb in ("a", "b", "c")] == [2, 1, 1]


@pytest.mark.slow
def test_the_first_opening_by_two_processes_at_once(url: str) -> None:
    children = [start(url, kb, 10) for kb in ("a", "b", "c")]
    for child in children:
        assert child.communicate(timeout=60) == ("", "")
    with Store.open(url) as store:
        assert sorted(info.name for info in store.kbs()) == ["a", "b", "c"]


@pytest.mark.slow
def test_one_kb_is_added_by_one_process_at_a_time(url: str) -> None:
    child = start(url, "kb", 100, "--batch-size", "10", "--wait-after", "30")
    assert child.stdout is not None
    assert child.stdout.readline() == "waiting\n"
    all_records = list(store_child.records(100, 1))
    with Store.open(url) as store:
        holder = re.escape(f"process {child.pid} on {socket.gethostname()}")
        with pytest.raises(StoreError, match=f"'kb' is being changed by {holder}"):
            store.ingest(child_job(), all_records)
        with pytest.raises(StoreError, match=holder):
            store.remove_kb("kb")
        assert store.check() == []  # unfinished, but at work
        store.ingest(job("other"), [entity("1")])
        child.kill()
        child.communicate()
        # A dead holder holds nothing, and its last batch counts.
        assert store.ingest(child_job(batch_size=10), all_records).resumed_from == 30


def test_one_kb_is_added_by_one_thread_of_a_process_at_a_time(store: Store, url: str) -> None:
    def nested() -> Iterator[Entity]:
        yield entity("1")
        with Store.open(url) as second, pytest.raises(StoreError, match="is being changed by"):
            second.ingest(job(), [entity("1")])
        yield entity("2")

    assert store.ingest(job(), nested()).added == 2


def test_a_reader_sees_the_revision_it_began_with_and_blocks_nobody(store: Store) -> None:
    store.ingest(job(), [entity(f"{number:05}") for number in range(5000)])
    reading = store.entities("kb")
    next(reading)
    store.ingest(job(fingerprint="2"), [entity(f"{number:05}") for number in range(0, 5000, 2)])
    assert len(list(reading)) == 4999
    assert len(keys(store)) == 2500


def test_a_thread_reads_one_state_while_others_write_and_read(store: Store) -> None:
    store.ingest(job(), [entity("1")])

    def add_another() -> list[str]:
        store.ingest(job(fingerprint="2"), [entity("1"), entity("2")])
        return keys(store)

    with ThreadPoolExecutor(1) as others, store.one_state():
        assert keys(store) == ["1"]
        assert others.submit(add_another).result() == ["1", "2"]
        with store.one_state(), store.snapshot() as same:
            assert keys(store) == keys(same) == ["1"]
        assert keys(store) == ["1"]
    assert keys(store) == ["1", "2"]


def test_a_state_ends_with_an_error(store: Store) -> None:
    store.ingest(job(), [entity("1")])
    with pytest.raises(UnknownNameError), store.one_state():
        store.kb("other")
    store.ingest(job(fingerprint="2"), [entity("2")])
    assert keys(store) == ["2"]


# --------------------------------------------------------------------------------- SQLite's own
@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a SQLite store may be."""
    return tmp_path / "kglink.db"


def test_a_store_leaves_no_lock_behind(path: Path) -> None:
    with Store.open(f"sqlite:///{path}") as store:
        store.ingest(job(), [entity("1")])
    assert [found.name for found in path.parent.iterdir()] == [path.name]


def test_a_locked_store_says_so(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "BUSY_SECONDS", 0.05)
    with Store.open(f"sqlite:///{path}") as store:
        other = sqlite3.connect(path)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="is locked: another process") as caught:
            store.ingest(job(), [entity("1")])
        assert caught.value.hint
        other.rollback()
        other.close()
        assert store.ingest(job(), [entity("1")]).added == 1


@pytest.mark.slow
def test_a_full_disk_keeps_what_was_committed(path: Path) -> None:
    url = f"sqlite:///{path}"
    child = start(url, "kb", 20_000, "--batch-size", "500", "--largest-file", "2000000")
    _, said = child.communicate(timeout=60)
    assert child.returncode == 1, said
    assert "Make room on that disk and run the same command again" in said
    with Store.open(url, create=False) as store:
        assert store.kb("kb").entities == 0
        (problem,) = store.check()
        (committed,) = map(int, re.findall(r"after (\d+) records", problem.replace(",", "")))
        assert 0 < committed < 20_000
        assert committed % 500 == 0
        summary = store.ingest(child_job(), store_child.records(20_000, 1))
        assert (summary.resumed_from, summary.added) == (committed, 20_000)
        assert len(keys(store)) == 20_000
        assert store.check() == []


def test_a_database_that_may_not_grow(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def tune(connection: sqlite3.Connection) -> None:
        original(connection)
        connection.execute("PRAGMA max_page_count = 100")

    original = SQLite.tune
    url = f"sqlite:///{path}"
    with monkeypatch.context() as patched:
        patched.setattr(SQLite, "tune", staticmethod(tune))
        records = [entity(str(number), "x" * 200) for number in range(2000)]
        with Store.open(url) as store:
            with pytest.raises(StoreError, match="the disk is full") as caught:
                store.ingest(job(batch_size=100), records)
            assert "Make room" in caught.value.hint
    with Store.open(url) as store:
        assert store.ingest(job(batch_size=100), records).resumed_from > 0
        assert len(keys(store)) == 2000


def test_a_lock_file_that_cannot_be_made(path: Path) -> None:
    (path.parent / "kglink.db.kb.lock").mkdir()
    with (
        Store.open(f"sqlite:///{path}") as store,
        pytest.raises(StoreError, match=r"cannot make the lock file .*kglink\.db\.kb\.lock"),
    ):
        store.ingest(job(), [entity("1")])


def test_locks_that_killed_holders_left_go_with_the_next_change(path: Path) -> None:
    def lock(kb: str) -> Path:
        return path.with_name(f"kglink.db.{kb}.lock")

    with Store.open(f"sqlite:///{path}") as store:
        store.ingest(job("here"), [entity("1")])
        for kb in ("here", "gone", "held"):
            lock(kb).touch()
        with file_lock(lock("held")):
            store.ingest(job(), [entity("1")])
        assert [lock(kb).exists() for kb in ("here", "gone", "held", "kb")] == [0, 0, 1, 0]


@pytest.mark.parametrize("count", [1, 1000])
def test_no_room_for_overlaps_that_are_on_their_way(
    path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda *_, **__: full.open("w"))
    with Store.open(f"sqlite:///{path}") as store:
        for kb in ("a", "b"):
            store.ingest(job(kb), [entity("1")])
        overlap = Overlap(EntityId("a", "1"), EntityId("b", "1"), 1.0)
        with pytest.raises(StoreError, match="temporary file: No space left") as caught:
            store.save_overlaps("a", "b", itertools.repeat(overlap, count))
        assert "Make room" in caught.value.hint
        assert list(store.overlaps()) == []


# ------------------------------------------------------------------------- a server's sessions
def lose_locks(url: str) -> None:
    """End the sessions of PostgreSQL that hold KBs of this schema: a firewall may do that."""
    ended = (
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE pid IN (SELECT pid "
        "FROM pg_locks WHERE locktype = 'advisory') AND application_name = "
        "current_setting('application_name')"
    )
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        assert connection.execute(text(ended)).scalars().all() == [True]
    engine.dispose()


@pytest.mark.parametrize("is_taken_over", [False, True])
@pytest.mark.parametrize("version", [1, 2])
def test_a_kb_whose_session_is_lost_is_written_by_one(
    url: str, version: int, is_taken_over: bool
) -> None:
    if not url.startswith("postgresql"):
        pytest.skip("a file has no sessions")
    url = (
        make_url(url)
        .update_query_dict({"application_name": f"lost {os.getpid()}"})
        .render_as_string(False)
    )
    given = ["--version", str(version), "--batch-size", "50"]
    with Store.open(url) as store:
        if version == 2:
            store.ingest(child_job(kb="kb"), store_child.records(300, 1))
        child = start(url, "kb", 300, *given, "--wait-after", "149")
        assert child.stdout is not None
        assert child.stdout.readline() == "waiting\n"
        lose_locks(url)
        if is_taken_over:
            again = job(adapter="none", source="child", fingerprint=str(version), batch_size=50)
            done = store.ingest(again, store_child.records(300, version))
            assert done.resumed_from == 100
        _, told = child.communicate("\n", timeout=60)
        assert told.startswith("another process has taken over KB 'kb'" if is_taken_over else "")
        assert child.returncode == int(is_taken_over)
        expected = sorted(record.key for record in store_child.records(300, version))
        assert keys(store) == expected
        assert store.kb("kb").revision == version
        assert store.check() == []
