"""What memory was learnt from: the sources, each with its split and its revision."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """From 0001 to 0002."""
    name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    learnt = op.create_table(
        "learnt",
        sa.Column("source", name, primary_key=True),
        sa.Column("split", sa.Text, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("surfaces", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    memories = sa.table("memories", sa.column("source"), sa.column("folded"), sa.column("entity"))
    m = memories.c
    split = sa.literal("", sa.Text, literal_execute=True)
    never = sa.literal(0, sa.Integer, literal_execute=True)
    before = (
        sa.select(m.source, split, never, sa.func.count(m.folded.distinct()))
        .where(m.entity != "-")
        .group_by(m.source)
    )
    op.execute(sa.insert(learnt).from_select(["source", "split", "revision", "surfaces"], before))
