"""SQLite: a file of this user, held by one control process at a time."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from typing import Any, Final

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError

from warmroute.adapters.store.database import Database
from warmroute.core import limits
from warmroute.core.errors import ConfigurationError

LOCK_SUFFIX: Final = ".lock"


def open_sqlite(url: URL) -> Database:
    """Open a database file, making it if it is not there.

    Raises:
        ConfigurationError: Another control process uses it.
        OSError: It cannot be made.
    """
    path = url.database or ""
    in_file = path not in ("", ":memory:") and not path.startswith("file:")
    lock = None
    if in_file:
        # Made before SQLite makes it, for this user alone; its -wal and -shm files take the same mode.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        lock = _hold(path)

    def release() -> None:
        if lock is not None:
            os.close(lock)

    return Database(
        engine=_engine(url),
        name=path or "in memory",
        bounded=_unbounded,
        is_conflict=_is_conflict,
        release=release,
    )


def _hold(path: str) -> int:
    lock = os.open(path + LOCK_SUFFIX, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(lock, 32, 0).decode("ascii", "replace").strip() or "unknown"
        os.close(lock)
        raise ConfigurationError(
            f"The store {path} is in use by another control process, {holder}; "
            "stop that one, or choose another data directory or server.store_url."
        ) from None
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    return lock


def _engine(url: URL) -> Engine:
    connect_args = {"timeout": limits.STORE_STATEMENT_S, "check_same_thread": False}
    engine = create_engine(url, connect_args=connect_args, hide_parameters=True)

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


@contextlib.contextmanager
def _unbounded(_connection: Connection) -> Iterator[None]:
    """A file needs no watching: the driver itself stops waiting for a lock."""
    yield


def _is_conflict(_error: DBAPIError) -> bool:
    """One process, one writer: there is nobody to come between."""
    return False
