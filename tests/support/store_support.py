"""What the tests of the store share: jobs, records, a canonical dump."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from sqlalchemy import select

from kglink.records import Alias, Entity
from kglink.sources import OnError, Problems
from kglink.store import IngestJob, Store
from kglink.store.database import Database
from kglink.store.schema import (
    aliases,
    documents,
    entities,
    golds,
    ingests,
    kbs,
    mentions,
    overlaps,
    parents,
    xrefs,
)

R = TypeVar("R")


def job(kb: str = "kb", *, on_error: OnError = "stop", **given: Any) -> IngestJob:
    """An ingest job with everything filled in that a test does not care for."""
    given = {"adapter": "jsonl", "source": "kb.jsonl", "fingerprint": "1"} | given
    return IngestJob(kb, problems=Problems(on_error), **given)


def entity(key: str, title: str = "", *names: str, **given: Any) -> Entity:
    """An entity with plain aliases."""
    return Entity(key, title or f"Title of {key}", aliases=tuple(map(Alias, names)), **given)


def keys(store: Store, kb: str = "kb") -> list[str]:
    """The keys of a KB."""
    return [found.key for found in store.entities(kb)]


def content_hashes(url: str, kb: str = "kb") -> dict[str, str]:
    """The stored hash of each entity of a KB."""
    query = select(entities.c.key, entities.c.content_hash)
    query = query.join_from(entities, kbs, entities.c.kb_id == kbs.c.id)
    db = Database(url, create=False)
    try:
        return {row[0]: row[1] for row in db.rows(query.where(kbs.c.name == kb))}
    finally:
        db.close()


def dump(url: str) -> dict[str, list[tuple[Any, ...]]]:
    """All that a store holds, by table, without internal ids, run numbers and times."""
    e, a, x, d, m, g = (t.c for t in (entities, aliases, xrefs, documents, mentions, golds))
    p = parents.c
    k = kbs.c
    kb_names = "name adapter source settings links_to licence revision removing"
    kb_names += " entities with_description aliases documents mentions"
    queries = {
        "kbs": select(*(k[name] for name in kb_names.split())),
        "ingests": select(ingests.c.fingerprint, ingests.c.read),
        "entities": select(
            k.name, e.key, e.title, e.description, e.type, e.url, e.popularity, e.language,
            e.content_hash, e.record, e.run == k.run,
        ).join_from(entities, kbs, e.kb_id == k.id),
        "aliases": select(k.name, e.key, a.position, a.surface, a.folded, a.kind, a.count)
        .join_from(aliases, entities).join(kbs, e.kb_id == k.id),
        "xrefs": select(k.name, e.key, x.position, x.xref)
        .join_from(xrefs, entities).join(kbs, e.kb_id == k.id),
        "parents": select(k.name, e.key, p.position, p.key)
        .join_from(parents, entities).join(kbs, e.kb_id == k.id),
        "documents": select(
            k.name, d.key, d.title, d.text, d.split, d.content_hash, d.record, d.run == k.run
        ).join_from(documents, kbs, d.kb_id == k.id),
        "mentions": select(
            k.name, d.key, m.position, m.start, m.end, m.surface, m.type, m.quality, m.gold
        ).join_from(mentions, documents).join(kbs, d.kb_id == k.id),
        "golds": select(k.name, d.key, g.mention, g.position, g.kb, g.key)
        .join_from(golds, documents, d.id == g.document_id).join(kbs, d.kb_id == k.id),
        "overlaps": select(overlaps),
    }  # fmt: skip
    db = Database(url, create=False)
    try:
        return {table: sorted(db.rows(query), key=repr) for table, query in queries.items()}
    finally:
        db.close()


class Stopped(Exception):  # noqa: N818 - it stands for any interruption
    """What breaks off a stream in the middle."""


def broken_off(records: Iterable[R], after: int) -> Iterator[R]:
    """The first records, then an interruption."""
    yield from itertools.islice(records, after)
    raise Stopped
