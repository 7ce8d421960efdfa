"""The first schema."""

import secrets

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """From nothing to 0001."""
    _create_kbs()
    _create_entities()
    _create_documents()
    _create_mappings()
    _create_overlaps()


def _create_kbs() -> None:
    op.create_table(
        "kbs",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", _NAME, nullable=False, unique=True),
        *_text("adapter", "source", "settings", "links_to", "licence"),
        *_integer("revision", "run"),
        sa.Column("removing", sa.SmallInteger, nullable=False),
        *_number("entities", "with_description", "aliases", "documents", "mentions", "mappings"),
        *_text("updated_at"),
    )
    op.create_table("removed_kbs", *_key("name"), *_integer("revision"))
    op.create_table(
        "ingests",
        sa.Column(
            "kb_id", sa.Integer, sa.ForeignKey("kbs.id"), primary_key=True, autoincrement=False
        ),
        *_text("fingerprint"),
        *_number("read"),
        sa.Column("complete", sa.SmallInteger, nullable=False),
        *_text("counts", "holder", "started_at"),
    )


def _create_entities() -> None:
    op.create_table(
        "entities",
        *_record("key"),
        *_text("title", "description", "type", "url"),
        sa.Column("popularity", sa.Float(53), nullable=False),
        *_text("language", "content_hash"),
        *_seen(),
        sa.UniqueConstraint("kb_id", "key", name="uq_entities_kb_key"),
    )
    op.create_table(
        "aliases",
        *_part("entity_id", "entities.id"),
        *_text("surface"),
        *_names("folded"),
        *_text("kind"),
        *_number("count"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_aliases_folded", "aliases", ["folded", "entity_id"])
    op.create_table(
        "xrefs",
        *_part("entity_id", "entities.id"),
        *_text("xref"),
        *_names("code"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_xrefs_code", "xrefs", ["code", "entity_id"])
    op.create_table(
        "parents", *_part("entity_id", "entities.id"), *_text("key"), sqlite_with_rowid=False
    )


def _create_documents() -> None:
    op.create_table(
        "documents",
        *_record("key"),
        *_text("title", "text", "split", "content_hash"),
        *_seen(),
        sa.UniqueConstraint("kb_id", "key", name="uq_documents_kb_key"),
    )
    op.create_table(
        "mentions",
        *_part("document_id", "documents.id"),
        *_number("start", "end"),
        *_text("surface", "type", "quality"),
        sa.Column("gold", sa.SmallInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "golds",
        sa.Column("document_id", _ID, primary_key=True, autoincrement=False),
        sa.Column("mention", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
        *_key("kb", "key"),
        sa.ForeignKeyConstraint(
            ["document_id", "mention"],
            ["mentions.document_id", "mentions.position"],
            name="fk_golds_mention",
        ),
        sqlite_with_rowid=False,
    )


def _create_mappings() -> None:
    op.create_table(
        "mappings",
        *_record("key"),
        *_text("subject"),
        *_names("subject_code"),
        *_text("object"),
        *_names("object_code"),
        *_text("predicate"),
        sa.Column("confidence", sa.Float(53), nullable=False),
        *_text("verdict", "content_hash"),
        *_seen(),
        sa.UniqueConstraint("kb_id", "key", name="uq_mappings_kb_key"),
    )
    op.create_index("ix_mappings_subject", "mappings", ["subject_code"])
    op.create_index("ix_mappings_object", "mappings", ["object_code"])


def _create_overlaps() -> None:
    op.create_table(
        "overlaps",
        *_key("left_kb", "left_key", "right_kb", "right_key"),
        sa.Column("probability", sa.Float(53), nullable=False),
        *_text("evidence"),
        sa.Column("verdict", sa.Text),
        *_names("source"),
        sa.Column("left_text_hash", sa.Text),
        sa.Column("right_text_hash", sa.Text),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_overlaps_right", "overlaps", ["right_kb", "right_key"])
    op.create_table(
        "memories",
        *_key("key", "folded", "kb", "entity", "source"),
        sa.Column("count", sa.Float(53), nullable=False),
        *_text("surface"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_memories_source", "memories", ["source"])
    op.create_table(
        "overlap_runs",
        *_key("left_kb", "right_kb"),
        *_text("method", "settings_fingerprint"),
        *_number("candidates", "kept"),
        *_integer("left_revision", "right_revision"),
        *_text("finished_at"),
        sqlite_with_rowid=False,
    )
    state = op.create_table(
        "store_state",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        *_text("identity", "origin", "overlaps", "memory"),
    )
    tokens = {name: secrets.token_hex(8) for name in ("identity", "overlaps", "memory")}
    op.bulk_insert(state, [{"id": 1, "origin": "", **tokens}])


# ------------------------------------------------------------------------------- columns
def _record(key: str) -> list[sa.Column[int] | sa.Column[str]]:
    """The first columns of what a source brings."""
    return [
        sa.Column("id", _ID, primary_key=True, autoincrement=False),
        *_integer("kb_id"),
        *_names(key),
    ]


def _seen() -> list[sa.Column[int]]:
    return [*_integer("run"), *_number("record")]


def _part(owner: str, target: str) -> list[sa.Column[int]]:
    return [
        sa.Column(owner, _ID, sa.ForeignKey(target), primary_key=True, autoincrement=False),
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
    ]


def _key(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, _NAME, primary_key=True) for name in names]


def _names(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, _NAME, nullable=False) for name in names]


def _text(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text, nullable=False) for name in names]


def _integer(*names: str) -> list[sa.Column[int]]:
    return [sa.Column(name, sa.Integer, nullable=False) for name in names]


def _number(*names: str) -> list[sa.Column[int]]:
    return [sa.Column(name, sa.BigInteger, nullable=False) for name in names]
