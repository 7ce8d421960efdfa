"""Writes and removes documents with their mentions and golds.

Golds are written as the source has them, under the KB name "": `kglink.store.golds` finds their
entities when the whole source is in, so that documents may stand before the entities they name.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import bindparam, delete, insert, update
from sqlalchemy.engine import Connection

from kglink.store.batches import Plan
from kglink.store.content import PreparedDocument
from kglink.store.database import Database
from kglink.store.schema import documents, golds, mentions

_insert_documents = insert(documents)
_insert_mentions = insert(mentions)
_insert_golds = insert(golds)
_delete_golds = delete(golds).where(golds.c.document_id == bindparam("owner"))
_delete_mentions = delete(mentions).where(mentions.c.document_id == bindparam("owner"))
_delete_documents = delete(documents).where(documents.c.id == bindparam("owner"))
_mark_documents = (
    update(documents)
    .ordered_values(
        (documents.c.run, bindparam("run_")), (documents.c.record, bindparam("record_"))
    )
    .where(documents.c.id == bindparam("owner"))
)
_CHANGING = ("title", "text", "split", "content_hash", "run", "record")
_change_documents = (
    update(documents)
    .ordered_values(*((documents.c[name], bindparam(f"{name}_")) for name in _CHANGING))
    .where(documents.c.id == bindparam("owner"))
)


def write_documents(
    db: Database, connection: Connection, kb_id: int, run: int, plan: Plan[PreparedDocument]
) -> None:
    """Carry out the plan of a batch."""
    db.bulk(
        connection,
        _insert_documents,
        [(id_, kb_id, d.key, *d.fields, d.content_hash, run, d.number) for id_, d in plan.added],
    )
    _remove_mentions(db, connection, [id_ for id_, _ in plan.changed])
    db.bulk(
        connection,
        _change_documents,
        [(*d.fields, d.content_hash, run, d.number, id_) for id_, d in plan.changed],
    )
    _insert_mentions_of(db, connection, plan.added + plan.changed)
    db.bulk(connection, _mark_documents, [(run, d.number, id_) for id_, d in plan.unchanged])


def remove_documents(db: Database, connection: Connection, ids: Sequence[int]) -> None:
    """Remove documents and all that belongs to them."""
    _remove_mentions(db, connection, ids)
    db.bulk(connection, _delete_documents, [(id_,) for id_ in ids])


def _insert_mentions_of(
    db: Database, connection: Connection, placed: Sequence[tuple[int, PreparedDocument]]
) -> None:
    mention_rows = [
        (id_, position, *mention)
        for id_, document in placed
        for position, mention in enumerate(document.mentions)
    ]
    gold_rows = [
        (id_, mention, position, "", text)
        for id_, document in placed
        for mention, position, text in document.golds
    ]
    db.bulk(connection, _insert_mentions, mention_rows)
    db.bulk(connection, _insert_golds, gold_rows)


def _remove_mentions(db: Database, connection: Connection, ids: Sequence[int]) -> None:
    db.bulk(connection, _delete_golds, [(id_,) for id_ in ids])
    db.bulk(connection, _delete_mentions, [(id_,) for id_ in ids])
