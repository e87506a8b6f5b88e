"""The store in a SQL database: SQLite in the data directory, or what a URL names.

Calls run on the event loop's own thread. A transaction on SQLite takes 0.1 to 1 ms, control's loop is
not on any request's path, and a transaction that nothing can come between is what makes a plan safe
against a call that arrives meanwhile; a thread would need locks for that.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine, Select, create_engine, delete, event, insert, select, update
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import SQLAlchemyError

from warmroute.adapters.store.documents import Record, decode, encode
from warmroute.adapters.store.migrate import migrate
from warmroute.adapters.store.reads import ResourceReads
from warmroute.adapters.store.tables import INSTANCES, NOTES, RESOURCES
from warmroute.core.errors import ConfigurationError
from warmroute.core.ids import EndpointName, InstanceId
from warmroute.resources.arns import Kind
from warmroute.resources.records import (
    KIND_OF,
    EndpointRecord,
    InstanceRecord,
    Resource,
)

BUSY_S: Final = 5.0
"""How long a transaction waits for another process's; ours take about a millisecond."""
FILE_NAME: Final = "warmroute.db"


class SqlTransaction(ResourceReads):
    """One transaction on one connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def _one(self, statement: Select[Any], record_type: type[Record]) -> Record | None:
        document = self._connection.scalar(statement)
        return None if document is None else decode(document, record_type)

    def _get(self, kind: Kind, name: str, record_type: type[Record]) -> Record | None:
        columns = RESOURCES.c
        return self._one(
            select(columns.document).where(columns.kind == str(kind), columns.name == name), record_type
        )

    def _all(self, kind: Kind, record_type: type[Record]) -> tuple[Record, ...]:
        columns = RESOURCES.c
        statement = select(columns.document).where(columns.kind == str(kind)).order_by(columns.name)
        return tuple(decode(document, record_type) for document in self._connection.scalars(statement))

    def endpoint_like(self, name: str) -> EndpointRecord | None:
        """Return the endpoint whose name differs in nothing but case."""
        columns = RESOURCES.c
        kind, folded = str(Kind.ENDPOINT), name.lower()
        statement = select(columns.document).where(columns.kind == kind, columns.folded_name == folded)
        return self._one(statement.limit(1), EndpointRecord)

    def instances(self, endpoint: EndpointName | None = None) -> tuple[InstanceRecord, ...]:
        """Return the instances of an endpoint, or all, oldest first."""
        columns = INSTANCES.c
        statement = select(columns.document).order_by(columns.created_s, columns.instance_id)
        if endpoint is not None:
            statement = statement.where(columns.endpoint == endpoint)
        return tuple(decode(document, InstanceRecord) for document in self._connection.scalars(statement))

    def put(self, record: Resource) -> None:
        """Write a resource."""
        columns = RESOURCES.c
        kind = str(KIND_OF[type(record)])
        values = {"document": encode(record)}
        there = update(RESOURCES).where(columns.kind == kind, columns.name == record.name)
        if self._connection.execute(there.values(**values)).rowcount == 0:
            key = {"kind": kind, "name": record.name, "folded_name": record.name.lower()}
            self._connection.execute(insert(RESOURCES).values(**key, **values))

    def remove(self, record: Resource) -> None:
        """Delete a resource."""
        columns = RESOURCES.c
        kind = str(KIND_OF[type(record)])
        self._connection.execute(delete(RESOURCES).where(columns.kind == kind, columns.name == record.name))

    def put_instance(self, record: InstanceRecord) -> None:
        """Write an instance."""
        values = {
            "endpoint": record.endpoint,
            "created_s": record.created_s,
            "document": encode(record),
        }
        there = update(INSTANCES).where(INSTANCES.c.instance_id == record.instance_id)
        if self._connection.execute(there.values(**values)).rowcount == 0:
            self._connection.execute(insert(INSTANCES).values(instance_id=record.instance_id, **values))

    def remove_instance(self, instance_id: InstanceId) -> None:
        """Delete an instance."""
        self._connection.execute(delete(INSTANCES).where(INSTANCES.c.instance_id == instance_id))

    def note(self, name: str) -> str | None:
        """Return a note."""
        text: str | None = self._connection.scalar(select(NOTES.c.text).where(NOTES.c.name == name))
        return text

    def set_note(self, name: str, text: str) -> None:
        """Write a note."""
        there = update(NOTES).where(NOTES.c.name == name)
        if self._connection.execute(there.values(text=text)).rowcount == 0:
            self._connection.execute(insert(NOTES).values(name=name, text=text))


class SqlStore:
    """Implements ``controlplane.ports.Store``."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @contextmanager
    def transaction(self) -> Iterator[SqlTransaction]:
        """Begin; commit at the end of the block, or undo everything when it raises."""
        with self._engine.begin() as connection:
            yield SqlTransaction(connection)

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()


def open_store(url: str, data_dir: Path) -> SqlStore:
    """Open the store and bring its tables up to date.

    Args:
        url: SQLAlchemy URL; empty for a SQLite file in the data directory.
        data_dir: Exists.

    Raises:
        ConfigurationError: The database cannot be opened, or a newer warmroute wrote it.
    """
    try:
        parsed = make_url(url) if url else URL.create("sqlite", database=str(data_dir / FILE_NAME))
        engine = _sqlite(parsed) if parsed.get_backend_name() == "sqlite" else _server(parsed)
        migrate(engine)
    except (SQLAlchemyError, OSError, ValueError) as error:
        raise ConfigurationError(
            f"The store {url or data_dir / FILE_NAME} cannot be opened: {error}"
        ) from None
    return SqlStore(engine)


def _server(url: URL) -> Engine:
    return create_engine(url, isolation_level="SERIALIZABLE", pool_pre_ping=True)


def _sqlite(url: URL) -> Engine:
    if url.database and url.database != ":memory:":
        # Made before SQLite makes it, for this user alone; its -wal and -shm files take the same mode.
        os.close(os.open(url.database, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    engine = create_engine(url, connect_args={"timeout": BUSY_S, "check_same_thread": False})

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: object) -> None:
        # The driver's own idea of when to begin is switched off: it lets two transactions read and
        # then both write. IMMEDIATE below takes the write lock first.
        connection.isolation_level = None
        connection.execute("PRAGMA journal_mode = WAL")
        # A crash of the process loses nothing; a crash of the machine ends every local instance anyway.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine
