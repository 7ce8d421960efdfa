"""Reads documents with their mentions and golds, and mappings between codes, a page at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Row, Select, case, func, select
from sqlalchemy.engine import Connection

from kglink.records import CodeMapping, Document, EntityId, Mention
from kglink.store.database import key_ranges
from kglink.store.golds import gold_exists
from kglink.store.kbs import kb_id, kb_ids
from kglink.store.schema import GIVEN, NIL, documents, golds, kbs, mappings, mentions

DOCUMENTS_PAGE = 64  # a document may hold megabytes
MAPPINGS_PAGE = 2000
#: Characters of the text on each side of a mention that is shown.
AROUND = 60

#: The golds of a document's mention.
_Golds = dict[tuple[int, int], dict[EntityId, None]]
_ReadGolds = Callable[[Connection, list[int]], _Golds]


def read_documents(
    connection: Connection,
    kb: str | None = None,
    split: str | None = None,
    *,
    unresolved: bool = False,
) -> Iterator[Document]:
    """The documents of one KB or of all, in the order of KBs and of the documents' ids.

    With ``unresolved`` golds of entities that are not there are kept, in their sources' words
    where nothing was ever found for them.
    """
    numbers = list(kb_ids(connection).values()) if kb is None else [kb_id(connection, kb)]
    for number in numbers:
        for query in _pages(connection, number, split):
            found = _documents(connection, query, _kept_golds if unresolved else _golds)
            yield from found.values()


class GoldRow(NamedTuple):
    """A gold as it is stored: under the KB "" in its source's words, else an entity."""

    position: int
    kb: str
    key: str


class Annotated(NamedTuple):
    """A document, and of each of its mentions all that is stored of its golds."""

    document: Document
    golds: Sequence[Sequence[GoldRow]]


def read_annotated(connection: Connection, kb: str, split: str | None) -> Iterator[Annotated]:
    """The documents of a KB with what its golds were before their entities were found."""
    for query in _pages(connection, kb_id(connection, kb), split):
        found = _documents(connection, query, _golds)
        rows: dict[tuple[int, int], list[GoldRow]] = defaultdict(list)
        for row in _gold_rows(connection, list(found)):
            rows[row.document_id, row.mention].append(GoldRow(row.position, row.kb, row.key))
        for number, document in found.items():
            yield Annotated(document, [rows[number, at] for at in range(len(document.mentions))])


def learning_split(connection: Connection, kb: str, split: str) -> str | None:
    """The split that is learnt from; of none named train, or all documents where there is none."""
    has_train = not split and count_documents(connection, kb, "train") > 0
    return split or ("train" if has_train else None)


def _pages(connection: Connection, number: int, split: str | None) -> Iterator[Select[Any]]:
    """Queries for the documents of a KB, a page each."""
    d = documents.c
    chosen = [] if split is None else [d.split == split]
    for page in key_ranges(connection, documents, number, DOCUMENTS_PAGE, *chosen):
        where = [d.kb_id == number, page.holds(d.key), *chosen]
        yield select(d.id, d.key, d.text, d.title, d.split).where(*where).order_by(d.key)


def count_documents(connection: Connection, kb: str, split: str | None = None) -> int:
    """How many documents a KB has, in one split or in all."""
    d = documents.c
    chosen = [] if split is None else [d.split == split]
    query = select(func.count()).where(d.kb_id == kb_id(connection, kb), *chosen)
    return connection.execute(query).scalar_one()


class Snippet(NamedTuple):
    """A mention with the words around it; ``kb`` is the KB of the document."""

    kb: str
    document: str
    start: int
    end: int
    left: str
    surface: str
    right: str


class MentionsOf(NamedTuple):
    """How many mentions mean an entity, in how many documents, and the first of them."""

    mentions: int
    documents: int
    examples: tuple[Snippet, ...]


def read_mentions_of(connection: Connection, entity: EntityId, limit: int) -> MentionsOf:
    """What the documents of all KBs say of an entity."""
    d, m, g = documents.c, mentions.c, golds.c
    meant = (
        select(g.document_id, g.mention)
        .distinct()
        .join_from(golds, documents, d.id == g.document_id)
        .where(g.kb == entity.kb, g.key == entity.key, d.kb_id.in_(kb_ids(connection).values()))
        .subquery()
    )
    counted = select(func.count(), func.count(meant.c.document_id.distinct()))
    count, in_documents = connection.execute(counted.select_from(meant)).one()
    here = (m.document_id == meant.c.document_id) & (m.position == meant.c.mention)
    begin = case((m.start > AROUND, m.start - AROUND), else_=0)
    query = (
        select(kbs.c.name, d.key, m.start, m.end, m.surface, begin)
        .add_columns(func.substr(d.text, begin + 1, m.end + AROUND - begin))
        .join_from(meant, mentions, here)
        .join(documents, d.id == m.document_id)
        .join(kbs, kbs.c.id == d.kb_id)
        .order_by(kbs.c.id, d.key, m.start)
        .limit(limit)
    )
    examples = []
    for kb, key, start, end, surface, first, text in connection.execute(query):
        left, right = text[: start - first], text[end - first :]
        examples.append(Snippet(kb, key, start, end, left, surface, right))
    return MentionsOf(count, in_documents, tuple(examples))


def read_mappings(connection: Connection, kb: str) -> Iterator[CodeMapping]:
    """All mappings of a KB in the order of their codes."""
    number = kb_id(connection, kb)
    m = mappings.c
    query = select(m.subject, m.object, m.predicate, m.confidence, m.verdict)
    query = query.where(m.kb_id == number).order_by(m.key)
    for page in key_ranges(connection, mappings, number, MAPPINGS_PAGE):
        for row in connection.execute(query.where(page.holds(m.key))):
            yield CodeMapping(row[0], row[1], row[2], row[3], row[4] or None)


def _documents(
    connection: Connection, query: Select[Any], read_golds: _ReadGolds
) -> dict[int, Document]:
    """The documents of a page by their ids, in its order."""
    rows = connection.execute(query).all()
    ids = [row.id for row in rows]
    found = _mentions(connection, ids, read_golds(connection, ids))
    return {
        row.id: Document(row.key, row.text, tuple(found[row.id]), row.title, row.split)
        for row in rows
    }


def _mentions(connection: Connection, ids: list[int], named: _Golds) -> dict[int, list[Mention]]:
    m = mentions.c
    query = select(mentions).where(m.document_id.in_(ids)).order_by(m.document_id, m.position)
    found: dict[int, list[Mention]] = defaultdict(list)
    for row in connection.execute(query).mappings():
        golds_ = named.get((row["document_id"], row["position"]))
        # A gold whose entities are all gone, or never came, says nothing: it is no NIL.
        known = tuple(golds_) if row["gold"] == GIVEN and golds_ else None
        gold = () if row["gold"] == NIL else known
        found[row["document_id"]].append(
            Mention(row["start"], row["end"], row["surface"], gold, row["type"], row["quality"])
        )
    return found


def _golds(connection: Connection, ids: list[int]) -> _Golds:
    g = golds.c
    query = (
        select(g.document_id, g.mention, g.kb, g.key)
        .where(g.document_id.in_(ids), gold_exists())
        .order_by(g.document_id, g.mention, g.position, g.kb, g.key)
    )
    found: dict[tuple[int, int], dict[EntityId, None]] = defaultdict(dict)
    for document, mention, kb, key in connection.execute(query):
        found[document, mention][EntityId(kb, key)] = None
    return found


def _kept_golds(connection: Connection, ids: list[int]) -> _Golds:
    """All golds: the entities that were found, else the source's own words."""
    places: dict[tuple[int, int, int], list[EntityId]] = defaultdict(list)
    for document, mention, position, kb, key in _gold_rows(connection, ids):
        places[document, mention, position].append(EntityId(kb, key))
    kept: _Golds = defaultdict(dict)
    for (document, mention, _), names in places.items():
        named = [name for name in names if name.kb]
        kept[document, mention].update(dict.fromkeys(named or names))
    return kept


def _gold_rows(connection: Connection, ids: list[int]) -> Sequence[Row[int, int, int, str, str]]:
    g = golds.c
    place = (g.document_id, g.mention, g.position, g.kb, g.key)
    return connection.execute(select(*place).where(g.document_id.in_(ids)).order_by(*place)).all()
