"""The store in a SQL database: SQLite in the data directory, or what a URL names.

Calls run on the event loop's own thread. A transaction takes 0.1 to 1 ms on SQLite and 1 to 3 ms on a
PostgreSQL of the same machine, control's loop is not on any request's path, and a transaction that
nothing can come between is what makes a plan safe against a call that arrives meanwhile; a thread would
need locks for that. What a database that does not answer may cost the loop is bounded: see ``_Patience``.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine, Select, delete, insert, select, update
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from warmroute.adapters.store.database import Database, shown
from warmroute.adapters.store.documents import Record, decode, encode
from warmroute.adapters.store.migrate import migrate
from warmroute.adapters.store.postgresql import open_postgresql
from warmroute.adapters.store.reads import ResourceReads
from warmroute.adapters.store.scaling import SqlScaling
from warmroute.adapters.store.sqlite import open_sqlite
from warmroute.adapters.store.tables import INSTANCES, NOTES, RESOURCES
from warmroute.controlplane.ports import StoreConflict, StoreUnavailable
from warmroute.core import limits
from warmroute.core.errors import ConfigurationError
from warmroute.core.ids import EndpointName, InstanceId
from warmroute.resources.arns import Kind
from warmroute.resources.records import (
    KIND_OF,
    EndpointRecord,
    InstanceRecord,
    Resource,
)

FILE_NAME: Final = "warmroute.db"
_QUICK_S: Final = 1.0
"""A connection that breaks sooner is made anew and the transaction run again; otherwise time is spent."""
_AGAIN_S: Final = 0.2
"""Between two tries to open a database at the start."""


class SqlTransaction(ResourceReads, SqlScaling):
    """One transaction on one connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def _one(self, statement: Select[Any], record_type: type[Record]) -> Record | None:
        document = self._connection.scalar(statement)
        return None if document is None else decode(document, record_type)

    def _get(self, kind: Kind, name: str, record_type: type[Record]) -> Record | None:
        if "\0" in name:
            return None  # PostgreSQL knows no such text; nothing has such a name.
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
        if "\0" in name:
            return None
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


class _Patience:
    """Keeps a database that does not answer from taking all of the loop's time.

    A try that took long and failed is followed by as long a time in which calls fail at once: at most
    half of the loop's time is lost, one bounded try at a time.
    """

    def __init__(self) -> None:
        self._until_s = 0.0
        self._why = ""

    def check(self) -> None:
        """Raise while the last failure is too fresh."""
        if time.monotonic() < self._until_s:
            raise StoreUnavailable(self._why)

    def failed(self, took_s: float, why: str) -> None:
        """Remember a failure."""
        self._until_s, self._why = time.monotonic() + took_s, why


class SqlStore:
    """Implements ``controlplane.ports.Store``."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._patience = _Patience()

    @property
    def engine(self) -> Engine:
        """SQLAlchemy's engine, for migrations and tests."""
        return self._database.engine

    @contextmanager
    def transaction(self) -> Iterator[SqlTransaction]:
        """Begin; commit at the end of the block, or undo everything when it raises.

        Raises:
            StoreUnavailable: See ``controlplane.ports.Store``.
        """
        self._patience.check()
        begin_s = time.monotonic()
        committing = False
        try:
            with (
                self._database.engine.connect() as connection,
                self._database.bounded(connection),
                connection.begin(),
            ):
                yield SqlTransaction(connection)
                committing = True
        except (DBAPIError, PoolTimeoutError) as error:
            raise self._failure(error, committing=committing, took_s=time.monotonic() - begin_s) from None

    def close(self) -> None:
        """Close all connections and let go of the database."""
        self._database.engine.dispose()
        self._database.release()

    def _failure(
        self, error: DBAPIError | PoolTimeoutError, *, committing: bool, took_s: float
    ) -> StoreUnavailable:
        text = f"The store {self._database.name} cannot be used: {_said(error)}"
        if isinstance(error, DBAPIError):
            if self._database.is_conflict(error):
                return StoreConflict(text)
            if error.connection_invalidated and committing:
                return StoreUnavailable(f"{text}. It is not known whether the last change was made.")
            if error.connection_invalidated and took_s < _QUICK_S:
                return StoreConflict(text)
        self._patience.failed(took_s, text)
        return StoreUnavailable(text)


def _said(error: SQLAlchemyError) -> str:
    """Return what a driver said, on one line and without the statement."""
    lines = str(getattr(error, "orig", None) or error).split("\n")
    return " ".join(line.strip() for line in lines if line.strip()).rstrip(".")


def open_store(url: str, data_dir: Path, *, wait_s: float = limits.STORE_WAIT_S) -> SqlStore:
    """Open the store, hold it for this process and bring its tables up to date.

    Args:
        url: SQLAlchemy URL; empty for a SQLite file in the data directory.
        data_dir: Exists.
        wait_s: How long a database server may not answer, or be held by another process, in seconds.

    Raises:
        ConfigurationError: The database cannot be opened, another control process uses it, or a newer
            warmroute wrote it.
    """
    name = shown(url) if url else str(data_dir / FILE_NAME)
    try:
        parsed = make_url(url) if url else URL.create("sqlite", database=str(data_dir / FILE_NAME))
    except (SQLAlchemyError, ValueError):
        # The parser repeats parts of what it was given, a password perhaps.
        raise ConfigurationError(
            f"The store {name} cannot be opened: it is not a URL such as "
            "postgresql://user:password@host/database, with special characters percent-encoded"
        ) from None
    try:
        database = _database(parsed)
    except (SQLAlchemyError, OSError, ValueError) as error:
        raise ConfigurationError(f"The store {name} cannot be opened: {error}") from None
    give_up_s = time.monotonic() + wait_s
    while (problem := _migrated(database)) is not None:
        if parsed.get_backend_name() == "sqlite" or time.monotonic() >= give_up_s:
            database.engine.dispose()
            database.release()
            raise ConfigurationError(f"The store {name} cannot be opened: {problem}")
        time.sleep(_AGAIN_S)
    return SqlStore(database)


def _database(url: URL) -> Database:
    backend = url.get_backend_name()
    if backend == "sqlite":
        return open_sqlite(url)
    if backend == "postgresql":
        return open_postgresql(url)
    raise ValueError(f"its URL begins with {backend}://, allowed are sqlite:// and postgresql://")


def _migrated(database: Database) -> str | None:
    """Bring the tables up to date; return why that is not possible now, None when it is done."""
    try:
        migrate(database.engine)
    except StoreUnavailable as held:
        return str(held)
    except SQLAlchemyError as error:
        return _said(error)
    except ConfigurationError:
        database.engine.dispose()
        database.release()
        raise
    return None
