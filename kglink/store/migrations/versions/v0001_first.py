"""The first schema: where older stores begin; `make_tables` makes those of today."""

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None
