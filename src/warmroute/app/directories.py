"""The files of one warmroute: where they are, who may read them, and that nobody else uses them."""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from warmroute.core.errors import ConfigurationError

SOCKET_PATH_BYTES_MAX = 100
"""Longest path of a Unix socket we use; Linux takes 107 bytes (unix(7))."""
_LONGEST_SOCKET_NAME = "control.sock"


@dataclass(frozen=True, slots=True)
class Directories:
    """Where things are.

    Attributes:
        data: The data directory, absolute.
        sockets: Unix sockets: ``run`` in the data directory, or a private directory with a short name.
    """

    data: Path
    sockets: Path

    @property
    def stream_socket(self) -> Path:
        """Control publishes fleets on it."""
        return self.sockets / "fleet.sock"

    @property
    def control_socket(self) -> Path:
        """Control's HTTP server for the SageMaker JSON API."""
        return self.sockets / _LONGEST_SOCKET_NAME

    def fleet(self, router: str) -> Path:
        """Return the file in which a router keeps the last fleet it saw."""
        return self.data / "run" / f"{router}.fleet.json"


@contextlib.contextmanager
def opened(data: Path) -> Iterator[Directories]:
    """Make the directories, hold them for this process, and take the sockets away at the end.

    Args:
        data: The data directory, absolute. Made with mode 0700; one that exists keeps its mode.

    Raises:
        ConfigurationError: It cannot be made or written, or another process holds it.
    """
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        (data / "run").mkdir(mode=0o700, exist_ok=True)
        lock = os.open(data / "warmroute.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigurationError(f"--data-dir {data}: cannot be used: {error.strerror}") from None
    try:
        _hold(lock, data)
        with _socket_directory(data) as sockets:
            yield Directories(data=data, sockets=sockets)
    finally:
        os.close(lock)


def _hold(lock: int, data: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(lock, 32, 0).decode("ascii", "replace").strip() or "unknown"
        raise ConfigurationError(
            f"--data-dir {data}: process {holder} uses it already; stop that one, or choose another directory"
        ) from None
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)


@contextlib.contextmanager
def _socket_directory(data: Path) -> Iterator[Path]:
    directory = data / "run"
    elsewhere = len(os.fsencode(directory / _LONGEST_SOCKET_NAME)) > SOCKET_PATH_BYTES_MAX
    if elsewhere:
        directory = Path(tempfile.mkdtemp(prefix="warmroute-"))
    try:
        yield directory
    finally:
        for socket in directory.glob("*.sock"):
            socket.unlink(missing_ok=True)
        if elsewhere:
            shutil.rmtree(directory, ignore_errors=True)
