"""What a kind of database adds to SQLAlchemy's engine, so that one store serves SQLite and PostgreSQL."""

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError


@dataclass(frozen=True, slots=True)
class Database:
    """A database that this process holds alone.

    Attributes:
        engine: Makes connections.
        name: For messages: never with a password.
        bounded: Ends a transaction that takes too long, whatever the other side does.
        is_conflict: Whether an error says that another transaction came between.
        release: Lets go of the database, after all connections are closed.
    """

    engine: Engine
    name: str
    bounded: Callable[[Connection], AbstractContextManager[None]]
    is_conflict: Callable[[DBAPIError], bool]
    release: Callable[[], None]


def shown(url: str) -> str:
    """Return a URL for messages: no password, and no query, where drivers take one too.

    A password whose ``@`` or ``:`` should have been percent-encoded is taken out whole.
    """
    place = url.partition("?")[0]
    return re.sub(r"^([^:/]+://[^:/@]*):.*@", r"\1:***@", place, flags=re.DOTALL)
