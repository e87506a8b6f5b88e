"""PostgreSQL: one connection, which holds the database for this control process and is bounded in time.

The lock is the session's own, so the connection that writes is the one that holds it: a process that
lost its connection cannot write until it has the lock again, and a process that died loses it with its
connection. Source: PostgreSQL 15, chapters 9.27.10 (advisory locks), 13.2.3 (serializable), 20.11
(time-outs), 34.1.2 (parameters of libpq).
"""

import contextlib
import os
import socket
from collections.abc import Iterator
from typing import Any, Final

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError

from warmroute.adapters.store.database import Database, shown
from warmroute.adapters.store.watchdog import Watchdog
from warmroute.controlplane.ports import StoreUnavailable
from warmroute.core import limits
from warmroute.core.errors import ConfigurationError

EXTRA: Final = "warmroute[postgres]"
DRIVER: Final = "postgresql+psycopg"
CONFLICTS: Final = frozenset({"40001", "40P01", "23505"})
"""SQLSTATE of a serialization failure, of a deadlock, and of a row that somebody else inserted first."""
LOCK: Final = 0x77617265
"""The first half of the lock's key; the schema is the second, so that each schema can be a store."""
KEEP_ALIVE_S: Final = 10
"""Silence after which either kernel asks whether the other side is there."""
KEEP_ALIVES: Final = 3
"""Questions without an answer after which it is gone: a dead machine's lock is free after 40 s."""
_APPLICATION_CHARACTERS_MAX: Final = 63
"""PostgreSQL cuts application_name there (NAMEDATALEN)."""

_LOCK: Final = f"pg_try_advisory_lock({LOCK}, hashtext(coalesce(current_schema(), '')))"
_HOLDER: Final = f"""
SELECT a.application_name
FROM pg_locks AS l JOIN pg_stat_activity AS a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.granted AND l.classid = {LOCK}
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""  # noqa: S608  (numbers of ours)


def open_postgresql(url: URL) -> Database:
    """Prepare to use a database; nothing is connected yet.

    Raises:
        ConfigurationError: The driver is not installed.
    """
    try:
        import psycopg  # noqa: PLC0415  (an extra)
    except ImportError as error:
        raise ConfigurationError(
            f"server.store_url names PostgreSQL, whose driver psycopg is not there ({error}); "
            f"install it with pip install '{EXTRA}'."
        ) from None
    watchdog = Watchdog(limits.STORE_TRANSACTION_S)

    @contextlib.contextmanager
    def bounded(connection: Connection) -> Iterator[None]:
        raw: Any = connection.connection.driver_connection
        with watchdog.over(raw.fileno()):
            yield

    return Database(
        engine=_engine(url.set(drivername=DRIVER), psycopg.connect, watchdog),
        name=shown(url.render_as_string(hide_password=True)),
        bounded=bounded,
        is_conflict=_is_conflict,
        release=watchdog.close,
    )


def _engine(url: URL, connect: Any, watchdog: Watchdog) -> Engine:
    engine = create_engine(
        url,
        isolation_level="SERIALIZABLE",
        # One connection, which holds the lock; a second thread waits for its turn.
        pool_size=1,
        max_overflow=0,
        pool_timeout=limits.STORE_TRANSACTION_S,
        use_native_hstore=False,  # looked up with a query per connection
        hide_parameters=True,  # documents hold Environments
    )

    @event.listens_for(engine, "do_connect")
    def do_connect(_dialect: object, _record: object, arguments: Any, parameters: dict[str, Any]) -> Any:
        connection = connect(*arguments, **{**_defaults(), **parameters}, autocommit=True)
        try:
            with watchdog.over(connection.fileno()):
                _take(connection)
            connection.autocommit = False
        except BaseException:
            connection.close()
            raise
        return connection

    return engine


def _defaults() -> dict[str, Any]:
    """Return the parameters of a connection; the URL's query may say otherwise."""
    name = f"warmroute, process {os.getpid()} on {socket.gethostname()}"
    return {
        "application_name": name[:_APPLICATION_CHARACTERS_MAX],
        "connect_timeout": max(int(limits.STORE_CONNECT_S), 1),
        "keepalives_idle": KEEP_ALIVE_S,
        "keepalives_interval": KEEP_ALIVE_S,
        "keepalives_count": KEEP_ALIVES,
        "tcp_user_timeout": int(limits.STORE_STATEMENT_S * 1000),
    }


def _take(connection: Any) -> None:
    """Prepare a session and let it hold the database.

    Raises:
        StoreUnavailable: Another process does.
    """
    settings = {
        "statement_timeout": f"{limits.STORE_STATEMENT_S:g}s",
        "lock_timeout": f"{limits.STORE_STATEMENT_S:g}s",
        "idle_in_transaction_session_timeout": f"{limits.STORE_TRANSACTION_S:g}s",
        "tcp_keepalives_idle": str(KEEP_ALIVE_S),
        "tcp_keepalives_interval": str(KEEP_ALIVE_S),
        "tcp_keepalives_count": str(KEEP_ALIVES),
    }
    set_all = ", ".join("set_config(%s, %s, false)" for _ in settings)
    parameters = [text for setting in settings.items() for text in setting]
    if connection.execute(f"SELECT {set_all}, {_LOCK}", parameters).fetchone()[-1]:
        return
    row = connection.execute(_HOLDER).fetchone()
    holder = f' ("{row[0]}")' if row is not None and row[0] else ""
    raise StoreUnavailable(
        f"another control process{holder} uses this database; stop that one, or choose another "
        "database or schema"
    )


def _is_conflict(error: DBAPIError) -> bool:
    return getattr(error.orig, "sqlstate", None) in CONFLICTS
