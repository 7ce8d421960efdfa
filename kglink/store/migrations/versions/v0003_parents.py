"""Parents of entities, what verdicts were given on, runs and state of overlaps."""

import secrets

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """From 0002 to 0003."""
    _create_parents()
    _widen_overlaps()
    _create_runs()
    _create_state()


def _create_parents() -> None:
    op.create_table(
        "parents",
        sa.Column(
            "entity_id", _ID, sa.ForeignKey("entities.id"), primary_key=True, autoincrement=False
        ),
        sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("key", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )


def _widen_overlaps() -> None:
    for name in ("left_text_hash", "right_text_hash"):
        op.add_column("overlaps", sa.Column(name, sa.Text))
    # Until now only KBs had a name here; from now on a review or a list may have the same.
    source = sa.column("source", sa.Text)
    named = sa.update(sa.table("overlaps", source)).where(source != "")
    op.execute(named.values(source=sa.literal("kb:").concat(source)))


def _create_runs() -> None:
    op.create_table(
        "overlap_runs",
        *(sa.Column(name, _NAME, primary_key=True) for name in ("left_kb", "right_kb")),
        *_text("method", "settings_fingerprint"),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("candidates", "kept")),
        *(
            sa.Column(name, sa.Integer, nullable=False)
            for name in ("left_revision", "right_revision")
        ),
        *_text("finished_at"),
        sqlite_with_rowid=False,
    )


def _create_state() -> None:
    state = op.create_table(
        "overlap_state",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        *_text("token"),
    )
    op.bulk_insert(state, [{"id": 1, "token": secrets.token_hex(8)}])


def _text(*names: str) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.Text, nullable=False) for name in names]
