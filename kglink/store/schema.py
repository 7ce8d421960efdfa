"""The tables of the entity store, and the steps that bring those of an older one up to date.

Three rules make the store fast and kill-proof.

- An integer id of an entity or document holds the number of its KB in its upper bits, so all rows
  of a KB are one id range: they lie together, two processes that add different KBs never draw the
  same id, and a KB is counted or removed by range.
- Readers see the records whose ``kb_id`` is the number of a KB with a revision. An update writes
  what it brings with ``kb_id + STAGED``. When all of it is there, one transaction gives these rows
  their KB's number and removes those that they replace. Where these are many, the rest of them get
  ``kb_id + RETIRED``, by which they are removed afterwards. The first ingest of a KB needs no
  stage: until it is done the KB has no revision.
- Gold and overlaps name entities by KB and key, not by id: they outlive an update that takes an
  entity away, are not shown meanwhile, and come back with it.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
    insert,
    update,
)
from sqlalchemy.engine import Connection
from sqlalchemy.schema import SchemaItem
from sqlalchemy.types import TypeEngine

#: The schema that this code reads and writes, to which the last of `STEPS` leads. A new store is
#: made by `make_tables` and has it at once.
SCHEMA_VERSION = "0006"
VERSION_TABLE = "kglink_schema"

#: Longest key and document id, and longest folded name that is indexed: what fits into an index
#: entry of PostgreSQL (2,704 bytes) at four bytes a character.
MAX_KEY = 512

#: Added to the number of a KB in records that no reader may see.
STAGED, RETIRED = 1 << 24, 2 << 24

_ID_BITS = 32

#: What is known of a mention's gold (``mentions.gold``).
UNKNOWN, NIL, GIVEN = 0, 1, 2


def id_range(kb_id: int) -> tuple[int, int]:
    """The half-open range of the ids of a KB's entities, and of its documents."""
    return kb_id << _ID_BITS, (kb_id + 1) << _ID_BITS


# SQLite only makes a column called INTEGER its row id; PostgreSQL needs 64 bits for it.
_Id = BigInteger().with_variant(Integer(), "sqlite")
# Code-point order on both, whatever the locale of the server.
_Name = Text().with_variant(Text(collation="C"), "postgresql")


def _columns(kind: TypeEngine[Any] | type[TypeEngine[Any]], *names: str) -> list[Column[Any]]:
    return [Column(name, kind, nullable=False) for name in names]


def _key(*names: str) -> list[Column[str]]:
    return [Column(name, _Name, primary_key=True) for name in names]


def _record() -> list[Column[Any]]:
    """The first columns of what a source brings."""
    own = Column("id", _Id, primary_key=True, autoincrement=False)
    return [own, *_columns(Integer, "kb_id"), *_columns(_Name, "key")]


def _seen() -> list[Column[Any]]:
    """Its last columns: hash, the ingest that saw it last, its number in that ingest's source."""
    return [
        *_columns(Text, "content_hash"), *_columns(Integer, "run"), *_columns(BigInteger, "record")
    ]  # fmt: skip


def _part(owner: str, table: str) -> list[Column[Any]]:
    """The first columns of what belongs to a record: its record, and which of the parts it is."""
    target = ForeignKey(f"{table}.id")
    return [
        Column(owner, _Id, target, primary_key=True, autoincrement=False),
        Column("position", Integer, primary_key=True, autoincrement=False),
    ]


metadata = MetaData()
#: It stands beside the tables of any schema, and says which that is.
schema_version = Table(
    VERSION_TABLE, MetaData(), Column("version_num", String(32), primary_key=True)
)


def _keyed_table(name: str, *items: SchemaItem) -> Table:
    """A table that SQLite keeps in the order of its primary key."""
    return Table(name, metadata, *items, sqlite_with_rowid=False)


kbs = Table(
    "kbs",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", _Name, nullable=False, unique=True),
    *_columns(Text, "adapter", "source"),
    *_columns(Text, "settings", "links_to"),  # JSON
    *_columns(Text, "licence"),
    *_columns(Integer, "revision", "run"),  # revision: 0 until the first ingest is done
    *_columns(SmallInteger, "removing"),
    *_columns(BigInteger, "entities", "with_description", "aliases"),
    *_columns(BigInteger, "documents", "mentions", "mappings"),
    *_columns(Text, "updated_at"),
    # The highest id that an entity of a revision had: no id comes twice, so that those above it
    # are what has changed since.
    Column("last_id", BigInteger, nullable=False, server_default="0"),
)

# The last revision of each KB that was removed: a KB of its name goes on from there, so that no
# revision of a name ever comes twice.
removed_kbs = Table("removed_kbs", metadata, *_key("name"), *_columns(Integer, "revision"))

# Which revision took an entity away that has not come back.
removed_entities = _keyed_table(
    "removed_entities",
    Column("kb_id", Integer, ForeignKey("kbs.id"), primary_key=True, autoincrement=False),
    *_key("key"),
    *_columns(Integer, "revision"),
)

ingests = Table(
    "ingests",
    metadata,
    Column("kb_id", Integer, ForeignKey("kbs.id"), primary_key=True, autoincrement=False),
    *_columns(Text, "fingerprint"),
    *_columns(BigInteger, "read"),  # records committed
    *_columns(SmallInteger, "complete"),  # the source was read to its end
    *_columns(Text, "counts", "holder", "started_at"),  # counts: JSON
)

entities = Table(
    "entities",
    metadata,
    *_record(),
    *_columns(Text, "title", "description", "type", "url"),
    *_columns(Float(53), "popularity"),
    *_columns(Text, "language"),
    *_seen(),
    UniqueConstraint("kb_id", "key", name="uq_entities_kb_key"),
)

aliases = _keyed_table(
    "aliases",
    *_part("entity_id", "entities"),
    *_columns(Text, "surface"),
    *_columns(_Name, "folded"),
    *_columns(Text, "kind"),
    *_columns(BigInteger, "count"),
    Index("ix_aliases_folded", "folded", "entity_id"),
)

xrefs = _keyed_table(
    "xrefs",
    *_part("entity_id", "entities"),
    *_columns(Text, "xref"),
    # Its one form (`kglink.text.codes`), by which it is found; empty where it is no code.
    *_columns(_Name, "code"),
    Index("ix_xrefs_code", "code", "entity_id"),
)

# Keys, not ids: a parent need not be there, and may come later.
parents = _keyed_table("parents", *_part("entity_id", "entities"), *_columns(Text, "key"))

documents = Table(
    "documents",
    metadata,
    *_record(),
    *_columns(Text, "title", "text", "split"),
    *_seen(),
    UniqueConstraint("kb_id", "key", name="uq_documents_kb_key"),
)

mentions = _keyed_table(
    "mentions",
    *_part("document_id", "documents"),
    *_columns(BigInteger, "start", "end"),
    *_columns(Text, "surface", "type", "quality"),
    *_columns(SmallInteger, "gold"),
)

# A gold as the source has it stands under the KB name "", with its full text as key. Entities
# found by key take its place; those found through cross-references stand beside it, so that a
# later run looks for them anew.
golds = _keyed_table(
    "golds",
    Column("document_id", _Id, primary_key=True, autoincrement=False),
    Column("mention", Integer, primary_key=True, autoincrement=False),
    Column("position", Integer, primary_key=True, autoincrement=False),
    *_key("kb", "key"),
    ForeignKeyConstraint(
        ["document_id", "mention"],
        ["mentions.document_id", "mentions.position"],
        name="fk_golds_mention",
    ),
)

# What a source says of two codes, whichever KBs they are of. ``verdict`` is empty for a mere
# cross-reference.
mappings = Table(
    "mappings",
    metadata,
    *_record(),
    *_columns(Text, "subject"),
    *_columns(_Name, "subject_code"),
    *_columns(Text, "object"),
    *_columns(_Name, "object_code"),
    *_columns(Text, "predicate"),
    *_columns(Float(53), "confidence"),
    *_columns(Text, "verdict"),
    *_seen(),
    UniqueConstraint("kb_id", "key", name="uq_mappings_kb_key"),
    Index("ix_mappings_subject", "subject_code"),
    Index("ix_mappings_object", "object_code"),
)

# ``left_kb < right_kb`` always; the reader turns a pair round where it was asked for so.
overlaps = _keyed_table(
    "overlaps",
    *_key("left_kb", "left_key", "right_kb", "right_key"),
    *_columns(Float(53), "probability"),
    *_columns(Text, "evidence"),  # JSON
    Column("verdict", Text),
    # Where the verdict comes from: ``kb:NAME`` for the mappings of a KB.
    *_columns(_Name, "source"),
    # What was judged: hashes of title and description, NULL where nobody looked at them.
    Column("left_text_hash", Text),
    Column("right_text_hash", Text),
    Index("ix_overlaps_right", "right_kb", "right_key"),
)

# What surfaces meant in the documents of ``source``. ``key`` is one for all inflections of
# ``folded``. Entities are named by KB and key, so that memory survives updates; NIL has neither.
memories = _keyed_table(
    "memories",
    *_key("key", "folded", "kb", "entity", "source"),
    *_columns(Float(53), "count"),
    *_columns(Text, "surface"),  # as it was written, once of all times
    *_columns(Float(53), "small"),  # how many of the count had no capital of their own
    Index("ix_memories_source", "source"),
)

# The sources that memory was learnt from, and how. ``split`` is empty where none was named, and
# ``revision`` is that of the documents which were counted.
learnt = _keyed_table(
    "learnt",
    *_key("source"),
    *_columns(Text, "split"),
    *_columns(Integer, "revision"),
    *_columns(BigInteger, "surfaces"),
)

# How often words stand in the documents of these sources.
source_words = _keyed_table("source_words", *_key("source", "word"), *_columns(BigInteger, "count"))

# How often names of a KB's entities whose titles end with a word were marked in these sources,
# and how often not.
source_kinds = _keyed_table(
    "source_kinds", *_key("source", "kb", "word"), *_columns(Float(53), "marked", "unmarked")
)

# The last finished search of each pair of KBs, ``left_kb < right_kb``.
overlap_runs = _keyed_table(
    "overlap_runs",
    *_key("left_kb", "right_kb"),
    *_columns(Text, "method", "settings_fingerprint"),
    *_columns(BigInteger, "candidates", "kept"),
    *_columns(Integer, "left_revision", "right_revision"),
    *_columns(Text, "finished_at"),
)

# One row. ``identity`` is drawn once and tells this store from all others. ``origin`` tells the
# file from its copies: one that was brought here is checked once. ``overlaps`` and ``memory`` are
# others after every change of an overlap, or of the memory.
store_state = Table(
    "store_state",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    *_columns(Text, "identity", "origin", "overlaps", "memory"),
)


def make_tables(connection: Connection) -> None:
    """Make all tables of a new store."""
    metadata.create_all(connection)
    schema_version.create(connection)
    connection.execute(insert(schema_version).values(version_num=SCHEMA_VERSION))
    tokens = {name: secrets.token_hex(8) for name in ("identity", "overlaps", "memory")}
    connection.execute(insert(store_state).values(id=1, origin="", **tokens))


# ------------------------------------------------------------------------------ older stores
#: The statements that lead to each schema from the one before. ``{name}`` is the type of a name,
#: and ``{by_key}`` ends a table that lies in the order of its key, as each database has them.
#: What a step says of a table stays as it was written, whatever becomes of the table later.
STEPS: dict[str, tuple[str, ...]] = {
    "0002": (
        # The sources that memory was learnt from, each with its split and its revision.
        """CREATE TABLE learnt (
            source {name} NOT NULL, split TEXT NOT NULL, revision INTEGER NOT NULL,
            surfaces BIGINT NOT NULL, PRIMARY KEY (source)
        ) {by_key}""",
        """INSERT INTO learnt SELECT source, '', 0, count(DISTINCT folded) FROM memories
        WHERE entity <> '-' GROUP BY source""",
    ),
    "0003": (
        # Which revision took an entity away.
        """CREATE TABLE removed_entities (
            kb_id INTEGER NOT NULL REFERENCES kbs (id), key {name} NOT NULL,
            revision INTEGER NOT NULL, PRIMARY KEY (kb_id, key)
        ) {by_key}""",
    ),
    "0004": (
        # Words and kinds of the sources of memory; nothing is known of those learnt before.
        """CREATE TABLE source_words (
            source {name} NOT NULL, word {name} NOT NULL, count BIGINT NOT NULL,
            PRIMARY KEY (source, word)
        ) {by_key}""",
        """CREATE TABLE source_kinds (
            source {name} NOT NULL, kb {name} NOT NULL, word {name} NOT NULL,
            marked FLOAT NOT NULL, unmarked FLOAT NOT NULL, PRIMARY KEY (source, kb, word)
        ) {by_key}""",
    ),
    "0005": (
        # The highest id that an entity of each KB ever had. What an interrupted update has staged
        # is published later, and is new then.
        "ALTER TABLE kbs ADD COLUMN last_id BIGINT NOT NULL DEFAULT 0",
        """UPDATE kbs SET last_id = (
            SELECT coalesce(max(entities.id), 0) FROM entities WHERE entities.kb_id = kbs.id
            AND entities.id >= CAST(kbs.id AS BIGINT) * 4294967296
            AND entities.id < (CAST(kbs.id AS BIGINT) + 1) * 4294967296
        )""",
    ),
    "0006": (
        # How often a surface had no capitals; what was learnt before counts in all spellings alike.
        "ALTER TABLE memories ADD COLUMN small FLOAT NOT NULL DEFAULT 0",
        "UPDATE memories SET small = count",
    ),
}


def upgrade(connection: Connection, version: str, words: Mapping[str, str]) -> None:
    """Take the steps that a store of schema ``version`` needs, in the caller's transaction."""
    for number, statements in STEPS.items():
        for statement in statements if number > version else ():
            connection.exec_driver_sql(statement.format_map(words))
    connection.execute(update(schema_version).values(version_num=max(STEPS)))
