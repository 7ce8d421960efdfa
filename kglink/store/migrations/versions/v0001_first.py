"""The first schema."""

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
    _create_overlaps()


def _text(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text, nullable=False) for name in names]


def _number(*names: str) -> list[sa.Column[int]]:
    return [sa.Column(name, sa.BigInteger, nullable=False) for name in names]


def _create_kbs() -> None:
    op.create_table(
        "kbs",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", _NAME, nullable=False, unique=True),
        *_text("adapter", "source", "settings", "links_to", "licence"),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("run", sa.Integer, nullable=False),
        sa.Column("dirty", sa.SmallInteger, nullable=False),
        sa.Column("removing", sa.SmallInteger, nullable=False),
        *_number("entities", "with_description", "aliases", "documents", "mentions"),
        *_text("updated_at"),
    )
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
        sa.Column("id", _ID, primary_key=True, autoincrement=False),
        sa.Column("kb_id", sa.Integer, sa.ForeignKey("kbs.id"), nullable=False),
        sa.Column("key", _NAME, nullable=False),
        *_text("title", "description", "type", "url"),
        sa.Column("popularity", sa.Float(53), nullable=False),
        *_text("language", "content_hash"),
        sa.Column("run", sa.Integer, nullable=False),
        *_number("record"),
        sa.UniqueConstraint("kb_id", "key", name="uq_entities_kb_key"),
    )
    op.create_table(
        "aliases",
        _owner("entity_id", "entities.id"),
        _position(),
        *_text("surface"),
        sa.Column("folded", _NAME, nullable=False),
        *_text("kind"),
        *_number("count"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_aliases_folded", "aliases", ["folded", "entity_id"])
    op.create_table(
        "xrefs",
        _owner("entity_id", "entities.id"),
        _position(),
        *_text("xref"),
        sqlite_with_rowid=False,
    )


def _create_documents() -> None:
    op.create_table(
        "documents",
        sa.Column("id", _ID, primary_key=True, autoincrement=False),
        sa.Column("kb_id", sa.Integer, sa.ForeignKey("kbs.id"), nullable=False),
        sa.Column("key", _NAME, nullable=False),
        *_text("title", "text", "split", "content_hash"),
        sa.Column("run", sa.Integer, nullable=False),
        *_number("record"),
        sa.UniqueConstraint("kb_id", "key", name="uq_documents_kb_key"),
    )
    op.create_table(
        "mentions",
        _owner("document_id", "documents.id"),
        _position(),
        *_number("start", "end"),
        *_text("surface", "type", "quality"),
        sa.Column("gold", sa.SmallInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "golds",
        sa.Column("document_id", _ID, primary_key=True, autoincrement=False),
        sa.Column("mention", sa.Integer, primary_key=True, autoincrement=False),
        _position(),
        sa.Column("kb", _NAME, primary_key=True),
        sa.Column("key", _NAME, nullable=False),
        sa.ForeignKeyConstraint(
            ["document_id", "mention"],
            ["mentions.document_id", "mentions.position"],
            name="fk_golds_mention",
        ),
        sqlite_with_rowid=False,
    )


def _create_overlaps() -> None:
    op.create_table(
        "overlaps",
        *(
            sa.Column(name, _NAME, primary_key=True)
            for name in ("left_kb", "left_key", "right_kb", "right_key")
        ),
        sa.Column("probability", sa.Float(53), nullable=False),
        *_text("evidence"),
        sa.Column("verdict", sa.Text),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_overlaps_right", "overlaps", ["right_kb", "right_key"])


def _owner(name: str, target: str) -> sa.Column[int]:
    return sa.Column(name, _ID, sa.ForeignKey(target), primary_key=True, autoincrement=False)


def _position() -> sa.Column[int]:
    return sa.Column("position", sa.Integer, primary_key=True, autoincrement=False)
