"""Bind the listening sockets, once, before any child process starts."""

import errno
import socket

from warmroute.core import limits
from warmroute.core.errors import ConfigurationError

_ON_THIS_MACHINE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  (what a wildcard is called by)


def listen(*, host: str, port: int, host_key: str, port_flag: str) -> socket.socket:
    """Return a socket that listens on ``host``; its children inherit it by its descriptor.

    Args:
        host: Name or address.
        port: 0 takes any free one.
        host_key: Setting that names the host, for messages.
        port_flag: Flag that chooses the port, for messages.

    Raises:
        ConfigurationError: There is no such address, or the port is taken or not allowed.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise ConfigurationError(f"{host_key} = {host}: not an address here: {error.strerror}") from None
    family, kind, protocol, _, address = found[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(limits.LISTEN_BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigurationError(_explain(error, host, port, host_key, port_flag)) from None
    return listener


def url_of(listener: socket.socket) -> str:
    """Return the base URL of a listener as a client on this machine would write it."""
    host, port = listener.getsockname()[:2]
    host = _ON_THIS_MACHINE.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _explain(error: OSError, host: str, port: int, host_key: str, port_flag: str) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return f"{port_flag} {port}: another process listens on {host}:{port}; choose another port"
        case errno.EACCES:
            return f"{port_flag} {port}: this user may not listen on it; choose a port from 1024 up"
        case errno.EADDRNOTAVAIL:
            return f"{host_key} = {host}: this machine has no such address"
        case _:
            return f"{host_key} = {host}, {port_flag} {port}: cannot listen: {error.strerror}"
