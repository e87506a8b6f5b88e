"""Unix sockets for our own processes."""

import socket
from pathlib import Path

from warmroute.core import limits
from warmroute.core.errors import ConfigurationError


def bind_unix(path: str) -> socket.socket:
    """Return a listening Unix socket that only this user may connect to.

    A socket that an earlier process left at the path is replaced.

    Raises:
        ConfigurationError: There can be no socket at this path.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        Path(path).unlink(missing_ok=True)
        listener.bind(path)
        Path(path).chmod(0o600)
        listener.listen(limits.LISTEN_BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigurationError(f"There can be no socket at {path}: {error}") from None
    return listener
