"""Longer names, in order of their bytes."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

COLUMNS = (
    ("resources", "name", 63, 1024),
    ("resources", "folded_name", 63, 1024),
    ("notes", "name", 63, 1024),
    ("instances", "instance_id", 63, 63),
)
"""Table, column, characters before and after."""


def upgrade() -> None:
    """Make room; compare bytes, as SQLite does, where a server's own collation would mix the cases."""
    for table, column, before, after in COLUMNS:
        _change(table, column, sa.String(after, collation="C"), was=sa.String(before))


def downgrade() -> None:
    """Go back; fails when a name is too long."""
    for table, column, before, after in COLUMNS:
        _change(table, column, sa.String(before), was=sa.String(after, collation="C"))


def _change(table: str, column: str, new: sa.String, *, was: sa.String) -> None:
    # SQLite holds no column to a length, compares bytes anyway, and could only copy the table.
    if op.get_bind().dialect.name != "sqlite":
        op.alter_column(table, column, type_=new, existing_type=was, existing_nullable=False)
