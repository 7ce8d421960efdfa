"""An ingest or a removal that is broken off goes on where it stopped, to the same end."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select
from sqlalchemy.engine import Connection

from kglink.errors import RecordError, StoreError
from kglink.records import Document, EntityId, Mention, Progress, Record
from kglink.store import IngestJob, Store, writers
from kglink.store.database import Database
from kglink.store.schema import documents, entities
from store_support import Stopped, broken_off, dump, entity, job, keys

pytest_plugins = ["store_fixtures"]


def records(count: int, mark: str = "") -> list[Record]:
    """Entities with a document after every third."""
    found: list[Record] = []
    for number in range(count):
        found.append(entity(f"{number}", f"Title {number}{mark}", "x", xrefs=("y",)))
        if number % 3 == 0:
            mention = Mention(0, 5, "Title", (EntityId("", f"{(number + 5) % count}"),))
            found.append(Document(f"d{number}", f"Title {number}", (mention,)))
    return found


def rows_of_all_kinds(url: str) -> dict[str, int]:
    """How many records there are, those included that readers do not see."""
    db = Database(url)
    found = {
        table.name: db.rows(select(func.count()).select_from(table))[0][0]
        for table in (entities, documents)
    }
    db.close()
    return found


def undisturbed(
    folder: Path, *steps: tuple[IngestJob, list[Record]]
) -> dict[str, list[tuple[Any, ...]]]:
    """What the store holds when nothing interrupts."""
    url = f"sqlite:///{folder / 'undisturbed.db'}"
    with Store.open(url) as store:
        for step, content in steps:
            store.ingest(step, content)
    return dump(url)


@pytest.mark.parametrize("after", [0, 1, 9, 10, 11, 25, 39, 40])
def test_the_same_job_goes_on_from_its_last_batch(
    store: Store, url: str, tmp_path: Path, after: int
) -> None:
    again, all_records = job(batch_size=10), records(30)
    with pytest.raises(Stopped):
        store.ingest(again, broken_off(all_records, after))
    seen: list[Progress] = []
    summary = store.ingest(again, all_records, progress=seen.append)
    committed = after // 10 * 10
    assert summary.resumed_from == committed
    assert seen == [Progress("reading", done) for done in range(committed + 10, 41, 10)]
    assert str(summary) == "+30 ~0 -0 =0, documents +10 ~0 -0 =0"
    assert dump(url) == undisturbed(tmp_path, (again, all_records))


def test_an_interrupted_kb_is_listed_and_nothing_of_it_is_read(store: Store) -> None:
    with pytest.raises(Stopped):
        store.ingest(job(batch_size=10), broken_off(records(30), 25))
    info = store.kb("kb")
    assert (info.complete, info.revision, info.entities, info.documents) == (False, 0, 0, 0)
    for read in (store.entities, store.documents, store.mappings, store.aliases_of):
        with pytest.raises(StoreError, match="'kb' is not complete: its first update") as caught:
            list(read("kb"))
        assert "still running, or was stopped" in caught.value.message
        assert "Otherwise run it again" in caught.value.hint
    assert store.get_entities([EntityId("kb", "1")]) == {}
    assert list(store.documents()) == []
    (problem,) = store.check()
    assert "stopped after 20 records" in problem
    store.ingest(job(batch_size=10), records(30))
    assert store.kb("kb").complete
    assert len(keys(store)) == 30
    assert store.check() == []


def test_what_made_a_kb_in_memory_is_run_again(store: Store) -> None:
    with pytest.raises(Stopped):
        store.ingest(job(adapter="memory", batch_size=10), broken_off(records(30), 25))
    (problem,) = store.check()
    assert "add-kb" not in problem
    told = "stopped after 20 records; to go on, run again what made it, such as kglink promote"
    assert told in problem


def test_another_source_starts_over(store: Store, url: str, tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        store.ingest(job(batch_size=10), broken_off(records(30), 25))
    other = job(fingerprint="2", batch_size=10)
    summary = store.ingest(other, records(12, "!"))
    assert (summary.resumed_from, summary.revision) == (0, 1)
    assert str(summary) == "+12 ~0 -0 =0, documents +4 ~0 -0 =0"
    assert dump(url) == undisturbed(tmp_path, (other, records(12, "!")))
    assert rows_of_all_kinds(url) == {"entities": 12, "documents": 4}


def test_an_interrupted_update_changes_nothing_that_readers_see(store: Store, url: str) -> None:
    store.ingest(job(), records(30))
    before = dump(url)["aliases"]
    with pytest.raises(Stopped):
        store.ingest(job(fingerprint="2", batch_size=10), broken_off(records(30, "!"), 25))
    info = store.kb("kb")
    assert (info.complete, info.updating, info.revision, info.entities) == (True, True, 1, 30)
    assert dump(url)["aliases"] == before
    # The source is as it was at first, and so is the store.
    assert str(store.ingest(job(), records(30))) == "+0 ~0 -0 =30, documents +0 ~0 -0 =10"
    assert (store.kb("kb").revision, store.kb("kb").updating) == (1, False)
    assert rows_of_all_kinds(url) == {"entities": 30, "documents": 10}


def test_a_bad_first_batch_leaves_no_trace(store: Store, url: str) -> None:
    with pytest.raises(RecordError):
        store.ingest(job(), [entity("1"), entity("")])
    assert store.kbs() == []
    store.ingest(job(), records(30))
    before = dump(url)
    with pytest.raises(RecordError):
        store.ingest(job(fingerprint="2", licence="new"), [entity("1", "New"), entity("")])
    assert dump(url) == before
    assert store.kb("kb").complete


@pytest.mark.parametrize("calls", range(12, 40, 4))
def test_an_update_that_breaks_off_anywhere_is_seen_whole_or_not_at_all(
    store: Store, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: int
) -> None:
    first, second = job(), job(fingerprint="2", allow_shrink=True)
    few: list[Record] = [entity("1"), Document("d1", "text")]
    store.ingest(first, records(30))
    with monkeypatch.context() as patched:
        patched.setattr(writers, "REMOVAL_BATCH", 7)
        patched.setattr(Database, "bulk", _failing_after(Database.bulk, calls))
        with contextlib.suppress(Stopped):
            store.ingest(second, few)
    seen = len(keys(store)), len(list(store.documents("kb")))
    assert seen in {(30, 10), (1, 1)}
    assert (store.kb("kb").entities, store.kb("kb").documents) == seen
    store.ingest(second, few)
    assert (
        dump(url)["entities"]
        == undisturbed(tmp_path, (first, records(30)), (second, few))["entities"]
    )
    assert rows_of_all_kinds(url) == {"entities": 1, "documents": 1}


def _failing_after(method: object, calls: int) -> object:
    """``Database.bulk``, breaking off at some call."""
    count = 0

    def bulk(self: Database, connection: Connection, *rest: object) -> None:
        nonlocal count
        count += 1
        if count > calls:
            raise Stopped
        method(self, connection, *rest)  # type: ignore[operator]  # patched

    return bulk


# -------------------------------------------------------------------------------------- removal
def test_a_removed_kb_is_gone_and_the_others_are_not(store: Store, url: str) -> None:
    store.ingest(job("one"), records(30))
    before = dump(url)
    store.ingest(job("two"), records(30))
    store.remove_kb("two")
    assert dump(url) == before
    assert [info.name for info in store.kbs()] == ["one"]


def test_a_removed_kb_that_comes_back_is_the_last(store: Store) -> None:
    for name in ("one", "two"):
        store.ingest(job(name), records(3))
    store.remove_kb("one")
    store.ingest(job("one"), records(3))
    assert [info.name for info in store.kbs()] == ["two", "one"]


@pytest.mark.parametrize("again", ["remove", "add"])
def test_a_broken_off_removal_is_finished_by_the_next_command(
    store: Store, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: str
) -> None:
    store.ingest(job(), records(30))
    with monkeypatch.context() as patched:
        patched.setattr(writers, "REMOVAL_BATCH", 7)
        patched.setattr(Database, "bulk", _failing_after(Database.bulk, 14))
        with pytest.raises(Stopped):
            store.remove_kb("kb")
    assert store.kbs() == []
    (problem,) = store.check()
    assert "removal stopped half-way" in problem
    if again == "remove":
        store.remove_kb("kb")
        assert all(not rows for rows in dump(url).values())
    else:
        store.ingest(job(), records(9))
        found, calm = dump(url), undisturbed(tmp_path, (job(), records(9)))
        assert {**found, "kbs": calm["kbs"]} == calm
        assert store.kb("kb").revision == 2  # a revision of a name never comes twice
    assert store.check() == []


def test_no_revision_of_a_name_comes_twice(store: Store, tmp_path: Path) -> None:
    """Also where a KB is added, removed and added within a second."""
    revisions = []
    for title in ("One", "Two", "Three"):
        store.ingest(job(fingerprint=title), [entity("1", title)])
        revisions.append(store.kb("kb").revision)
        store.ingest(job(fingerprint=f"{title} again"), [entity("1", title)])
        assert store.kb("kb").revision == revisions[-1]  # nothing in it is other than before
        store.remove_kb("kb")
    assert revisions == [1, 2, 3]
    with Store.open(f"sqlite:///{tmp_path / 'other.db'}") as other:
        assert other.identity != store.identity
