"""kill -9 at random moments: the store opens every time, and the end is as if nothing had been."""

from __future__ import annotations

import functools
import hashlib
import itertools
import random
import subprocess
import sys
from pathlib import Path

import pytest

import store_child
from kglink.errors import RecordError, StoreError
from kglink.records import Document, Entity
from kglink.store import Store
from store_child import records
from store_support import dump, entity, job

CHILD = Path(store_child.__file__)
ENTITIES = 200_000
KILLS = 20


def start(url: str, version: int) -> subprocess.Popen[bytes]:
    """A process that ingests a version of the KB."""
    command = [sys.executable, str(CHILD), url, "kb", str(ENTITIES), "--version", str(version)]
    return subprocess.Popen(command)


def ended_within(child: subprocess.Popen[bytes], seconds: float) -> bool:
    """Whether the process came to its end by itself; it is killed otherwise."""
    try:
        code = child.wait(seconds)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
        return False
    assert code == 0
    return True


def assert_healthy(url: str, *versions: int) -> None:
    """The store opens, its pages and references are whole, and the KB is one of ``versions``."""
    with Store.open(url) as store:
        unfinished = [one.name for one in store.kbs() if one.updating or not one.complete]
        assert len(store.check()) == len(unfinished)
        for info in store.kbs():
            if not info.complete:
                with pytest.raises(StoreError, match="is not complete"):
                    next(store.entities(info.name))
                continue
            seen = hashlib.sha256()
            for entity in store.entities(info.name):
                seen.update(f"{entity.key} {entity.title}\n".encode())
            assert seen.hexdigest() in {whole(version) for version in versions}


@functools.cache
def whole(version: int) -> str:
    """A hash of what a reader sees of a version, all of it."""
    seen = hashlib.sha256()
    for key, title in sorted((one.key, one.title) for one in records(ENTITIES, version)):
        seen.update(f"{key} {title}\n".encode())
    return seen.hexdigest()


def digest(url: str) -> dict[str, str]:
    """A hash of each table."""
    return {
        table: hashlib.sha256(repr(rows).encode()).hexdigest() for table, rows in dump(url).items()
    }


@pytest.mark.slow
def test_twenty_kills_end_in_the_state_of_an_undisturbed_run(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(10**6)
    print("seed", seed)  # noqa: T201 - to repeat a failure
    chance = random.Random(seed)
    url = f"sqlite:///{tmp_path / 'killed.db'}"
    kills = 0
    # Each version after the first is an update: it adds, changes and removes.
    for version in itertools.count(1):
        while kills < KILLS and not ended_within(start(url, version), chance.uniform(0.1, 2.0)):
            kills += 1
            assert_healthy(url, version - 1, version)
        if kills == KILLS:
            assert ended_within(start(url, version), 120)
            break
    assert_healthy(url, version)
    calm = f"sqlite:///{tmp_path / 'calm.db'}"
    for step in range(1, version + 1):
        assert ended_within(start(calm, step), 120)
    assert digest(url) == digest(calm)
    with Store.open(url) as store:
        assert store.kb("kb").entities == ENTITIES
        assert store.kb("kb").revision == version


# ------------------------------------------------------------------------ updates, quickly
def seen_by_readers(url: str) -> list[str]:
    """What an export of the KB holds."""
    with Store.open(url) as store:
        return [f"{one.key} {one.title}" for one in store.entities("kb")]


def version_of(number: int, count: int) -> list[str]:
    """What readers see of a version of a small KB."""
    return [
        f"{key} {title}" for key, title in sorted((e.key, e.title) for e in records(count, number))
    ]


@pytest.mark.slow
@pytest.mark.parametrize("on_error", ["stop", "skip"])
@pytest.mark.parametrize("after", [100, 1500, 2900])
def test_a_killed_update_is_not_seen(tmp_path: Path, after: int, on_error: str) -> None:
    url, count = f"sqlite:///{tmp_path / 'kglink.db'}", 3000
    small = [sys.executable, str(CHILD), url, "kb", str(count), "--batch-size", "100"]
    small += ["--on-error", on_error]
    subprocess.run(small, check=True)
    update = [*small, "--version", "2"]
    pipe = subprocess.PIPE
    command = [*update, "--wait-after", str(after)]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "waiting\n"
        assert seen_by_readers(url) == version_of(1, count)
        child.kill()
    assert seen_by_readers(url) == version_of(1, count)
    with Store.open(url) as store:
        assert (store.kb("kb").revision, store.kb("kb").updating) == (1, True)
    subprocess.run(update, check=True)
    assert seen_by_readers(url) == version_of(2, count)


def test_a_bad_record_in_the_middle_of_an_update_is_not_a_mixture(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'kglink.db'}"
    with Store.open(url) as store:
        store.ingest(job(), [entity(str(number)) for number in range(100)])
        before = list(store.records("kb", ("entities", "documents", "mappings")))
        worse = [entity(str(number), "New") for number in range(50)] + [entity("")]
        with pytest.raises(RecordError):
            store.ingest(job(fingerprint="2", batch_size=10), worse)
        assert list(store.records("kb", ("entities", "documents", "mappings"))) == before
        skipped = job(fingerprint="2", batch_size=10, on_error="skip")
        assert str(store.ingest(skipped, worse)) == "+0 ~50 -50 =0"
        assert [one.title for one in store.entities("kb")] == ["New"] * 50


def test_a_reader_of_all_kinds_sees_one_revision(tmp_path: Path) -> None:
    """An update that is published between the entities and the documents of an export."""
    url = f"sqlite:///{tmp_path / 'kglink.db'}"
    with Store.open(url) as store:
        store.ingest(job(), [entity("1", "Old"), Document("d", "old")])
        reading = store.records("kb", ("entities", "documents"))
        first = next(reading)
        store.ingest(job(fingerprint="2"), [entity("1", "New"), Document("d", "new")])
        assert isinstance(first, Entity)
        assert first.title == "Old"
        assert list(reading) == [Document("d", "old")]
        assert [one.text for one in store.documents("kb")] == ["new"]
