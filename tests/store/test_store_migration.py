"""A store of schema 0002 with data in it is brought up to date, and nothing in it is lost."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from sqlalchemy import MetaData, Table, insert

from kglink.records import Alias, CodeMapping, Entity, EntityId, Overlap, OverlapRun
from kglink.store import Store
from kglink.store.database import Database
from kglink.store.migrate import upgrade
from store_support import job

pytest_plugins = ["store_fixtures"]

DOID, HP = 1 << 32, 2 << 32
ONE = Entity("D:1", "One", "First.", "t", "u", 0.5, "en", (Alias("Uno", "synonym", 2),), ("X:1",))
#: All that 0002 hashed of it, in that order.
HASHED = (
    *("One", "First.", "t", "u", "0.5", "en"),
    *("2", "One", "title", "1", "Uno", "synonym", "2", "X:1"),
)


def digest(*parts: str) -> str:
    """The content hash as it was taken before there were parents."""
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


@pytest.fixture
def old(url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store as the last schema had it: two KBs, a KB of mappings, and three overlaps."""
    with monkeypatch.context() as patched:
        patched.setattr("kglink.store.database.SCHEMA_VERSION", "0002")
        patched.setattr("kglink.store.migrate.upgrade", lambda c: upgrade(c, "0002"))
        db = Database(url)
    described = dict.fromkeys(("source", "licence", "updated_at"), "") | {"adapter": "jsonl"}
    described |= {"settings": "{}", "links_to": "[]"}
    zero = dict.fromkeys(("dirty", "removing", "with_description", "documents", "mentions"), 0)
    kbs = [
        {"id": number, "name": name, "entities": count, "aliases": count, "mappings": mapped}
        | {"revision": 1, "run": 1, **described, **zero}
        for number, name, count, mapped in ((1, "doid", 2, 0), (2, "hp", 2, 0), (3, "pairs", 0, 1))
    ]
    plain = ("Any", "", "", "", 0.0, "", "h", 1, 2)
    rows: dict[str, list[Any]] = {
        "kbs": kbs,
        "entities": [
            (DOID, 1, *("D:1", "One", "First.", "t", "u", 0.5, "en"), digest(*HASHED), 1, 1),
            *((DOID + 1, 1, "D:2", *plain), (HP, 2, "H:1", *plain), (HP + 1, 2, "H:2", *plain)),
        ],
        "aliases": [(DOID, 0, "One", "one", "title", 1), (DOID, 1, "Uno", "uno", "synonym", 2)],
        "xrefs": [(DOID, 0, "X:1", "X:1")],
        "overlaps": [
            ("doid", left, "hp", right, 0.75, '{"name": 1}', verdict, source)
            for left, right, verdict, source in (
                *(("D:1", "H:1", "wrong", ""), ("D:1", "H:2", "correct", "pairs")),
                ("D:2", "H:1", None, ""),
            )
        ],
    }
    with db.write() as connection:
        for name, values in rows.items():
            table = Table(name, MetaData(), autoload_with=connection, resolve_fks=False)
            connection.execute(insert(table).values(values))
    db.close()
    return url


def test_entities_are_what_they_were(old: str) -> None:
    with Store.open(old) as store:
        assert store.check() == []
        stored = next(store.entities("doid"))
        assert stored.entity == Entity(
            *(ONE.key, ONE.title, ONE.description, ONE.type, ONE.url, ONE.popularity, ONE.language),
            aliases=(Alias("One", "title"), *ONE.aliases),
            xrefs=ONE.xrefs,
        )
        assert stored.content_hash == digest(*HASHED)


def test_the_same_source_finds_them_unchanged(old: str) -> None:
    with Store.open(old) as store:
        summary = store.ingest(job("doid", fingerprint="2"), [ONE])
        assert (summary.unchanged, summary.changed, summary.removed) == (1, 0, 1)


def test_verdicts_stand_and_are_not_stale(old: str) -> None:
    left, right = EntityId("doid", "D:1"), EntityId("hp", "H:1")
    with Store.open(old) as store:
        store.ingest(job("hp", fingerprint="2"), [Entity("H:1", "New"), Entity("H:2", "New")])
        assert [(o.verdict, o.stale, o.source) for o in store.overlaps("doid", "hp")] == [
            ("wrong", False, ""), ("correct", False, "kb:pairs"), (None, False, ""),
        ]  # fmt: skip
        store.set_verdict(left, right, "wrong")
        store.ingest(job("hp", fingerprint="3"), [Entity("H:1", "Newer"), Entity("H:2", "New")])
        assert [o.stale for o in store.overlaps("doid", "hp")] == [True, False, False]


def test_verdicts_of_mappings_still_go_with_their_kb(old: str) -> None:
    with Store.open(old) as store:
        store.ingest(job("pairs"), [CodeMapping("D:2", "H:2", verdict="correct")])
        assert [(str(o.right), o.verdict, o.source) for o in store.overlaps("doid", "hp")] == [
            ("hp:H:1", "wrong", ""), ("hp:H:2", None, ""),
            ("hp:H:1", None, ""), ("hp:H:2", "correct", "kb:pairs"),
        ]  # fmt: skip
        store.remove_kb("pairs")
        assert [o.verdict for o in store.overlaps()] == ["wrong", None, None]


def test_runs_and_state_begin_empty(old: str) -> None:
    with Store.open(old) as store:
        assert store.overlap_runs() == []
        state = store.overlap_state()
        run = OverlapRun("doid", "hp", "full", "f", 2, 1, 1, 1, "2026-01-01T00:00:00+00:00")
        found = Overlap(EntityId("doid", "D:2"), EntityId("hp", "H:2"), 0.5)
        store.save_overlaps("doid", "hp", [found], run)
        assert store.overlap_runs() == [run]
        assert store.overlap_state() != state
