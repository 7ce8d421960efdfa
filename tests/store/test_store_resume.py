"""An ingest or a removal that is broken off goes on where it stopped, to the same end."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy.engine import Connection

from kglink.errors import RecordError
from kglink.records import Document, EntityId, Mention, Progress, Record
from kglink.store import IngestJob, Store, writers
from kglink.store.database import Database
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


def undisturbed(folder: Path, *steps: tuple[IngestJob, list[Record]]) -> object:
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


def test_an_interrupted_kb_is_incomplete_but_readable(store: Store) -> None:
    with pytest.raises(Stopped):
        store.ingest(job(batch_size=10), broken_off(records(30), 25))
    info = store.kb("kb")
    assert (info.complete, info.revision, info.entities, info.documents) == (False, 0, 15, 5)
    assert len(keys(store)) == 15
    (problem,) = store.check()
    assert "stopped after 20 records" in problem
    store.ingest(job(batch_size=10), records(30))
    assert store.kb("kb").complete
    assert store.check() == []


def test_another_source_starts_over(store: Store, url: str, tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        store.ingest(job(batch_size=10), broken_off(records(30), 25))
    other = job(fingerprint="2", batch_size=10)
    summary = store.ingest(other, records(12, "!"))
    assert (summary.resumed_from, summary.revision) == (0, 1)
    assert str(summary) == "+0 ~12 -3 =0, documents +0 ~1 -1 =3"
    left = dump(url)
    assert left["kbs"] == undisturbed(tmp_path, (other, records(12, "!")))["kbs"]  # type: ignore[index]  # a dump
    assert len(left["entities"]) == 12


def test_an_interrupted_update_that_changed_something_raises_the_revision(store: Store) -> None:
    store.ingest(job(), records(30))
    with pytest.raises(Stopped):
        store.ingest(job(fingerprint="2", batch_size=10), broken_off(records(30, "!"), 25))
    assert store.kb("kb").complete is False
    # The source is as it was at first, but the store is not.
    assert store.ingest(job(), records(30)).changed == 15
    assert store.kb("kb").revision == 2


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


def test_a_killed_cleaning_up_goes_on_without_reading(
    store: Store, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = job(), job(fingerprint="2")
    few: list[Record] = [entity("1"), Document("d1", "text")]
    store.ingest(first, records(30))
    with monkeypatch.context() as patched:
        patched.setattr(writers, "REMOVAL_BATCH", 7)
        patched.setattr(Database, "bulk", _failing_after(Database.bulk, 22))
        with pytest.raises(Stopped):
            store.ingest(second, few)
    assert 0 < store.kb("kb").entities < 30
    summary = store.ingest(second, broken_off([], 0))
    assert (summary.resumed_from, summary.removed) == (2, 29)
    assert dump(url) == undisturbed(tmp_path, (first, records(30)), (second, few))


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
        assert dump(url) == undisturbed(tmp_path, (job(), records(9)))
    assert store.check() == []
