"""Run by Alembic: uses the connection it is given, so that migrating and opening share one transaction."""

from alembic import context

from warmroute.adapters.store.tables import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA)
with context.begin_transaction():
    context.run_migrations()
