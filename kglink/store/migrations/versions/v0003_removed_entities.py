"""Which revision took an entity away."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """From 0002 to 0003."""
    name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    kb_id = sa.Column("kb_id", sa.Integer, sa.ForeignKey("kbs.id"), primary_key=True)
    kb_id.autoincrement = False
    op.create_table(
        "removed_entities",
        kb_id,
        sa.Column("key", name, primary_key=True),
        sa.Column("revision", sa.Integer, nullable=False),
        sqlite_with_rowid=False,
    )
