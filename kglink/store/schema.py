"""The tables of the entity store.

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

from typing import NamedTuple

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
    Table,
    Text,
    UniqueConstraint,
)

#: The Alembic revision that this code reads and writes; the last of ``migrations/versions``.
SCHEMA_VERSION = "0002"
VERSION_TABLE = "kglink_schema"

#: Longest key and document id, and longest folded name that is indexed: what fits into an index
#: entry of PostgreSQL (2,704 bytes) at four bytes a character.
MAX_KEY = 512

#: Added to the number of a KB in records that no reader may see.
STAGED, RETIRED = 1 << 24, 2 << 24

_ID_BITS = 32

#: What is known of a mention's gold (``mentions.gold``).
UNKNOWN, NIL, GIVEN = 0, 1, 2


class IdRange(NamedTuple):
    """The half-open range of ids that belong to one KB."""

    first: int
    stop: int


def id_range(kb_id: int) -> IdRange:
    """The ids of the entities and of the documents of a KB."""
    return IdRange(kb_id << _ID_BITS, (kb_id + 1) << _ID_BITS)


# SQLite only makes a column called INTEGER its row id; PostgreSQL needs 64 bits for it.
_Id = BigInteger().with_variant(Integer(), "sqlite")
# Code-point order on both, whatever the locale of the server.
_Name = Text().with_variant(Text(collation="C"), "postgresql")

metadata = MetaData()

kbs = Table(
    "kbs",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", _Name, nullable=False, unique=True),
    Column("adapter", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("settings", Text, nullable=False),  # JSON
    Column("links_to", Text, nullable=False),  # JSON
    Column("licence", Text, nullable=False),
    Column("revision", Integer, nullable=False),  # 0 until the first ingest is done
    Column("run", Integer, nullable=False),
    Column("removing", SmallInteger, nullable=False),
    Column("entities", BigInteger, nullable=False),
    Column("with_description", BigInteger, nullable=False),
    Column("aliases", BigInteger, nullable=False),
    Column("documents", BigInteger, nullable=False),
    Column("mentions", BigInteger, nullable=False),
    Column("mappings", BigInteger, nullable=False),
    Column("updated_at", Text, nullable=False),
)

# The last revision of each KB that was removed: a KB of its name goes on from there, so that no
# revision of a name ever comes twice.
removed_kbs = Table(
    "removed_kbs",
    metadata,
    Column("name", _Name, primary_key=True),
    Column("revision", Integer, nullable=False),
)

ingests = Table(
    "ingests",
    metadata,
    Column("kb_id", Integer, ForeignKey("kbs.id"), primary_key=True, autoincrement=False),
    Column("fingerprint", Text, nullable=False),
    Column("read", BigInteger, nullable=False),  # records committed
    Column("complete", SmallInteger, nullable=False),  # the source was read to its end
    Column("counts", Text, nullable=False),  # JSON
    Column("holder", Text, nullable=False),
    Column("started_at", Text, nullable=False),
)

entities = Table(
    "entities",
    metadata,
    Column("id", _Id, primary_key=True, autoincrement=False),
    Column("kb_id", Integer, nullable=False),
    Column("key", _Name, nullable=False),
    Column("title", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("url", Text, nullable=False),
    Column("popularity", Float(53), nullable=False),
    Column("language", Text, nullable=False),
    Column("content_hash", Text, nullable=False),
    Column("run", Integer, nullable=False),  # the ingest that saw it last
    Column("record", BigInteger, nullable=False),  # its number in that ingest's source
    UniqueConstraint("kb_id", "key", name="uq_entities_kb_key"),
)

aliases = Table(
    "aliases",
    metadata,
    Column("entity_id", _Id, ForeignKey("entities.id"), primary_key=True, autoincrement=False),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("surface", Text, nullable=False),
    Column("folded", _Name, nullable=False),
    Column("kind", Text, nullable=False),
    Column("count", BigInteger, nullable=False),
    Index("ix_aliases_folded", "folded", "entity_id"),
    sqlite_with_rowid=False,
)

xrefs = Table(
    "xrefs",
    metadata,
    Column("entity_id", _Id, ForeignKey("entities.id"), primary_key=True, autoincrement=False),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("xref", Text, nullable=False),
    # Its one form (`kglink.text.codes`), by which it is found; empty where it is no code.
    Column("code", _Name, nullable=False),
    Index("ix_xrefs_code", "code", "entity_id"),
    sqlite_with_rowid=False,
)

# Keys, not ids: a parent need not be there, and may come later.
parents = Table(
    "parents",
    metadata,
    Column("entity_id", _Id, ForeignKey("entities.id"), primary_key=True, autoincrement=False),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("key", Text, nullable=False),
    sqlite_with_rowid=False,
)

documents = Table(
    "documents",
    metadata,
    Column("id", _Id, primary_key=True, autoincrement=False),
    Column("kb_id", Integer, nullable=False),
    Column("key", _Name, nullable=False),
    Column("title", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("split", Text, nullable=False),
    Column("content_hash", Text, nullable=False),
    Column("run", Integer, nullable=False),
    Column("record", BigInteger, nullable=False),
    UniqueConstraint("kb_id", "key", name="uq_documents_kb_key"),
)

mentions = Table(
    "mentions",
    metadata,
    Column("document_id", _Id, ForeignKey("documents.id"), primary_key=True, autoincrement=False),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("start", BigInteger, nullable=False),
    Column("end", BigInteger, nullable=False),
    Column("surface", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("quality", Text, nullable=False),
    Column("gold", SmallInteger, nullable=False),
    sqlite_with_rowid=False,
)

# A gold as the source has it stands under the KB name "", with its full text as key. Entities
# found by key take its place; those found through cross-references stand beside it, so that a
# later run looks for them anew.
golds = Table(
    "golds",
    metadata,
    Column("document_id", _Id, primary_key=True, autoincrement=False),
    Column("mention", Integer, primary_key=True, autoincrement=False),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("kb", _Name, primary_key=True),
    Column("key", _Name, primary_key=True),
    ForeignKeyConstraint(
        ["document_id", "mention"],
        ["mentions.document_id", "mentions.position"],
        name="fk_golds_mention",
    ),
    sqlite_with_rowid=False,
)

# What a source says of two codes, whichever KBs they are of. ``verdict`` is empty for a mere
# cross-reference.
mappings = Table(
    "mappings",
    metadata,
    Column("id", _Id, primary_key=True, autoincrement=False),
    Column("kb_id", Integer, nullable=False),
    Column("key", _Name, nullable=False),
    Column("subject", Text, nullable=False),
    Column("subject_code", _Name, nullable=False),
    Column("object", Text, nullable=False),
    Column("object_code", _Name, nullable=False),
    Column("predicate", Text, nullable=False),
    Column("confidence", Float(53), nullable=False),
    Column("verdict", Text, nullable=False),
    Column("content_hash", Text, nullable=False),
    Column("run", Integer, nullable=False),
    Column("record", BigInteger, nullable=False),
    UniqueConstraint("kb_id", "key", name="uq_mappings_kb_key"),
    Index("ix_mappings_subject", "subject_code"),
    Index("ix_mappings_object", "object_code"),
)

# ``left_kb < right_kb`` always; the reader turns a pair round where it was asked for so.
overlaps = Table(
    "overlaps",
    metadata,
    Column("left_kb", _Name, primary_key=True),
    Column("left_key", _Name, primary_key=True),
    Column("right_kb", _Name, primary_key=True),
    Column("right_key", _Name, primary_key=True),
    Column("probability", Float(53), nullable=False),
    Column("evidence", Text, nullable=False),  # JSON
    Column("verdict", Text),
    # Where the verdict comes from: ``kb:NAME`` for the mappings of a KB.
    Column("source", _Name, nullable=False),
    # What was judged: hashes of title and description, NULL where nobody looked at them.
    Column("left_text_hash", Text),
    Column("right_text_hash", Text),
    Index("ix_overlaps_right", "right_kb", "right_key"),
    sqlite_with_rowid=False,
)

# What surfaces meant in the documents of ``source``. ``key`` is one for all inflections of
# ``folded``. Entities are named by KB and key, so that memory survives updates; NIL has neither.
memories = Table(
    "memories",
    metadata,
    Column("key", _Name, primary_key=True),
    Column("folded", _Name, primary_key=True),
    Column("kb", _Name, primary_key=True),
    Column("entity", _Name, primary_key=True),
    Column("source", _Name, primary_key=True),
    Column("count", Float(53), nullable=False),
    Column("surface", Text, nullable=False),  # as it was written, once of all times
    Index("ix_memories_source", "source"),
    sqlite_with_rowid=False,
)

# The sources that memory was learnt from, and how. ``split`` is empty where none was named, and
# ``revision`` is that of the documents which were counted.
learnt = Table(
    "learnt",
    metadata,
    Column("source", _Name, primary_key=True),
    Column("split", Text, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("surfaces", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

# The last finished search of each pair of KBs, ``left_kb < right_kb``.
overlap_runs = Table(
    "overlap_runs",
    metadata,
    Column("left_kb", _Name, primary_key=True),
    Column("right_kb", _Name, primary_key=True),
    Column("method", Text, nullable=False),
    Column("settings_fingerprint", Text, nullable=False),
    Column("candidates", BigInteger, nullable=False),
    Column("kept", BigInteger, nullable=False),
    Column("left_revision", Integer, nullable=False),
    Column("right_revision", Integer, nullable=False),
    Column("finished_at", Text, nullable=False),
    sqlite_with_rowid=False,
)

# One row. ``identity`` is drawn once and tells this store from all others. ``origin`` tells the
# file from its copies: one that was brought here is checked once. ``overlaps`` is another after
# every change of an overlap.
store_state = Table(
    "store_state",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("identity", Text, nullable=False),
    Column("origin", Text, nullable=False),
    Column("overlaps", Text, nullable=False),
    Column("memory", Text, nullable=False),
)
