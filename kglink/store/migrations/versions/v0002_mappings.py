"""Codes of cross-references, golds of several entities of one KB, mappings, sources of verdicts."""

import sqlalchemy as sa
from alembic import op

from kglink.text.codes import code_of

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_PAGE = 5000


def upgrade() -> None:
    """From 0001 to 0002."""
    _add_codes()
    _rebuild_golds()
    _create_mappings()
    op.add_column(
        "overlaps", sa.Column("source", _NAME, nullable=False, server_default=sa.text("''"))
    )
    op.add_column(
        "kbs", sa.Column("mappings", sa.BigInteger, nullable=False, server_default=sa.text("0"))
    )


def _add_codes() -> None:
    op.add_column("xrefs", sa.Column("code", _NAME, nullable=False, server_default=sa.text("''")))
    x = sa.table("xrefs", *map(sa.column, ("entity_id", "position", "xref", "code")))
    place = (x.c.entity_id, x.c.position)
    change = (
        sa.update(x)
        .values(code=sa.bindparam("code_"))
        .where(*(column == sa.bindparam(f"{column.name}_") for column in place))
    )
    query = sa.select(*place, x.c.xref).order_by(*place).limit(_PAGE)
    connection = op.get_bind()
    page = connection.execute(query).all()
    while page:
        rows = [
            {"entity_id_": entity, "position_": position, "code_": code_of(xref)}
            for entity, position, xref in page
        ]
        connection.execute(change, rows)
        page = connection.execute(query.where(sa.tuple_(*place) > page[-1][:2])).all()
    op.create_index("ix_xrefs_code", "xrefs", ["code", "entity_id"])


def _rebuild_golds() -> None:
    """The key of an entity joins the primary key, which no database can alter in place."""
    numbers = ("document_id", "mention", "position")
    op.create_table(
        "golds_of_sets",
        sa.Column(numbers[0], _ID, primary_key=True, autoincrement=False),
        *(
            sa.Column(name, sa.Integer, primary_key=True, autoincrement=False)
            for name in numbers[1:]
        ),
        *(sa.Column(name, _NAME, primary_key=True) for name in ("kb", "key")),
        sa.ForeignKeyConstraint(
            ["document_id", "mention"],
            ["mentions.document_id", "mentions.position"],
            name="fk_golds_mention",
        ),
        sqlite_with_rowid=False,
    )
    columns = (*numbers, "kb", "key")
    old, new = (sa.table(name, *map(sa.column, columns)) for name in ("golds", "golds_of_sets"))
    op.execute(sa.insert(new).from_select(columns, sa.select(old)))
    op.drop_table("golds")
    op.rename_table("golds_of_sets", "golds")


def _create_mappings() -> None:
    def text(name: str) -> sa.Column[str]:
        return sa.Column(name, sa.Text, nullable=False)

    def name(name: str) -> sa.Column[str]:
        return sa.Column(name, _NAME, nullable=False)

    op.create_table(
        "mappings",
        sa.Column("id", _ID, primary_key=True, autoincrement=False),
        sa.Column("kb_id", sa.Integer, sa.ForeignKey("kbs.id"), nullable=False),
        name("key"),
        text("subject"),
        name("subject_code"),
        text("object"),
        name("object_code"),
        text("predicate"),
        sa.Column("confidence", sa.Float(53), nullable=False),
        text("verdict"),
        text("content_hash"),
        sa.Column("run", sa.Integer, nullable=False),
        sa.Column("record", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("kb_id", "key", name="uq_mappings_kb_key"),
    )
    op.create_index("ix_mappings_subject", "mappings", ["subject_code"])
    op.create_index("ix_mappings_object", "mappings", ["object_code"])
