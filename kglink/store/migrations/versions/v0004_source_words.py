"""Words and kinds of the sources of memory; nothing is known of those learnt before."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """From 0003 to 0004."""
    name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.create_table(
        "source_words",
        sa.Column("source", name, primary_key=True),
        sa.Column("word", name, primary_key=True),
        sa.Column("count", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "source_kinds",
        sa.Column("source", name, primary_key=True),
        sa.Column("kb", name, primary_key=True),
        sa.Column("word", name, primary_key=True),
        sa.Column("marked", sa.Float(53), nullable=False),
        sa.Column("unmarked", sa.Float(53), nullable=False),
        sqlite_with_rowid=False,
    )
