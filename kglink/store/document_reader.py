"""Reads documents with their mentions and golds, and mappings between codes, a page at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sqlalchemy import Integer, case, cast, func, select
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

#: The golds of each mention, by the number of its document and its position.
_Golds = dict[tuple[int, int], list["GoldRow"]]


def read_documents(
    connection: Connection,
    kb: str | None = None,
    split: str | None = None,
    *,
    name: str | None = None,
    unresolved: bool = False,
) -> Iterator[Document]:
    """The documents of one KB or of all, in the order of KBs and of the documents' ids.

    ``name`` is the id of those that are wanted, if not all are.
    With ``unresolved`` golds of entities that are not there are kept, in their sources' words
    where nothing was ever found for them.
    """
    numbers = list(kb_ids(connection).values()) if kb is None else [kb_id(connection, kb)]
    for number in numbers:
        for document, _ in _annotated(connection, number, split, name, unresolved=unresolved):
            yield document


class GoldRow(NamedTuple):
    """A gold as it is stored: under the KB "" in its source's words, else an entity."""

    position: int
    kb: str
    key: str
    is_there: bool = True
    """Whether its entity is there now, if that was asked."""


class Annotated(NamedTuple):
    """A document, and of each of its mentions all that is stored of its golds."""

    document: Document
    golds: Sequence[Sequence[GoldRow]]


def read_annotated(connection: Connection, kb: str, split: str | None) -> Iterator[Annotated]:
    """The documents of a KB with what its golds were before their entities were found."""
    return _annotated(connection, kb_id(connection, kb), split)


def learning_split(connection: Connection, kb: str, split: str) -> str | None:
    """The split that is learnt from; of none named train, or all documents where there is none."""
    has_train = not split and count_documents(connection, kb, "train") > 0
    return split or ("train" if has_train else None)


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
    """The number of mentions of an entity, of their documents, and the first of them."""

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
    window = begin + 1, m.end + AROUND - begin  # PostgreSQL's substr takes no bigint
    query = (
        select(kbs.c.name, d.key, m.start, m.end, m.surface, begin)
        .add_columns(func.substr(d.text, *(cast(one, Integer) for one in window)))
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
        for row in connection.execute(query.where(page)):
            yield CodeMapping(row[0], row[1], row[2], row[3], row[4] or None)


def _annotated(
    connection: Connection,
    number: int,
    split: str | None,
    name: str | None = None,
    *,
    unresolved: bool = False,
) -> Iterator[Annotated]:
    """The documents of a KB, in the order of their keys."""
    d = documents.c
    wanted = ((d.split, split), (d.key, name))
    chosen = [column == value for column, value in wanted if value is not None]
    query = select(d.id, d.key, d.text, d.title, d.split).where(d.kb_id == number, *chosen)
    place = tuple(golds.primary_key)
    golds_query = select(*place, gold_exists()).order_by(*place)
    for page in key_ranges(connection, documents, number, DOCUMENTS_PAGE, *chosen):
        rows = connection.execute(query.where(page).order_by(d.key)).all()
        ids = [row.id for row in rows]
        golds_of: _Golds = defaultdict(list)
        of_page = golds_query.where(golds.c.document_id.in_(ids))
        for owner, mention, *gold in connection.execute(of_page):
            golds_of[owner, mention].append(GoldRow(*gold))
        mentions_of = _mentions(connection, ids, golds_of, unresolved)
        for row in rows:
            own = mentions_of[row.id]
            document = Document(row.key, row.text, tuple(own), row.title, row.split)
            yield Annotated(document, [golds_of[row.id, at] for at in range(len(own))])


def _mentions(
    connection: Connection, ids: list[int], golds_of: _Golds, unresolved: bool
) -> dict[int, list[Mention]]:
    """The mentions of each document."""
    m = mentions.c
    query = select(mentions).where(m.document_id.in_(ids)).order_by(m.document_id, m.position)
    found: dict[int, list[Mention]] = defaultdict(list)
    for row in connection.execute(query).mappings():
        stored = golds_of[row["document_id"], row["position"]]
        answered = {one.position for one in stored if one.kb}
        kept = (
            EntityId(one.kb, one.key)
            for one in stored
            if one.is_there or (unresolved and (one.kb or one.position not in answered))
        )
        # A gold whose entities are all gone, or never came, says nothing: it is no NIL.
        known = (tuple(dict.fromkeys(kept)) or None) if row["gold"] == GIVEN else None
        gold = () if row["gold"] == NIL else known
        gone = dict.fromkeys(
            EntityId(one.kb, one.key) for one in stored if one.kb and not one.is_there
        )
        said = row["surface"], gold, row["type"], row["quality"]
        found[row["document_id"]].append(Mention(row["start"], row["end"], *said, gone=tuple(gone)))
    return found
