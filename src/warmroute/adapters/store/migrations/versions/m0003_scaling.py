"""A table for autoscaling."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table."""
    name = sa.String(1024).with_variant(sa.String(1024, collation="C"), "postgresql")
    op.create_table(
        "scaling",
        sa.Column("kind", sa.String(32), primary_key=True),
        sa.Column("resource_id", name, primary_key=True),
        sa.Column("name", name, primary_key=True),
        sa.Column("document", sa.Text, nullable=False),
    )


def downgrade() -> None:
    """Drop it."""
    op.drop_table("scaling")
