"""The highest id that an entity of each KB ever had."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_BITS = 1 << 32


def upgrade() -> None:
    """From 0004 to 0005."""
    op.add_column("kbs", sa.Column("last_id", sa.BigInteger, nullable=False, server_default="0"))
    kbs = sa.table("kbs", sa.column("id", sa.BigInteger), sa.column("last_id"))
    entities = sa.table("entities", sa.column("id"), sa.column("kb_id"))
    ids = entities.c.id
    first = sa.cast(kbs.c.id, sa.BigInteger) * _BITS
    of_kb = sa.select(sa.func.coalesce(sa.func.max(ids), 0))
    # What an interrupted update has staged is published later, and is new then.
    own = entities.c.kb_id == kbs.c.id, ids >= first, ids < first + _BITS
    highest = of_kb.where(*own).correlate(kbs).scalar_subquery()
    op.execute(sa.update(kbs).values(last_id=highest))
