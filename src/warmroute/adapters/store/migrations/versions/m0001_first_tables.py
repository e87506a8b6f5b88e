"""First tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "resources",
        sa.Column("kind", sa.String(32), primary_key=True),
        sa.Column("name", sa.String(63), primary_key=True),
        sa.Column("folded_name", sa.String(63), nullable=False),
        sa.Column("document", sa.Text, nullable=False),
    )
    op.create_index("resources_by_folded_name", "resources", ["kind", "folded_name"])
    op.create_table(
        "instances",
        sa.Column("instance_id", sa.String(63), primary_key=True),
        sa.Column("endpoint", sa.String(63), nullable=False),
        sa.Column("created_s", sa.Float, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
    )
    op.create_index("instances_by_endpoint", "instances", ["endpoint"])
    op.create_table(
        "notes",
        sa.Column("name", sa.String(63), primary_key=True),
        sa.Column("text", sa.Text, nullable=False),
    )


def downgrade() -> None:
    """Drop them."""
    for table in ("notes", "instances", "resources"):
        op.drop_table(table)
