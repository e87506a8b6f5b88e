"""Migrations, for Alembic."""
