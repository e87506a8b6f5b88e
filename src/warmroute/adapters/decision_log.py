"""The file of the decision log. Whatever happens to it, traffic goes on: then the log just ends."""

import contextlib
import errno
import logging
import os
import stat
from pathlib import Path
from typing import Final

from warmroute.core.errors import ConfigurationError
from warmroute.routing.log import Ended, Line, encode

BATCH: Final = 64
"""Lines turned into JSON at once: 0.1 ms of work, between two requests."""
BUFFERED_BYTES_MAX: Final = 256 * 1024
"""What is kept between two writes, which come once a second, or when so much is there."""

_log = logging.getLogger(__name__)


class DecisionLog:
    """Appends lines to a new file, many at a time, until it is as long as it may be.

    A log is of use from its first line on, so it is never rotated: it stops. The file of an earlier router
    at the same place is kept as ``<name>.1``.

    Args:
        path: A file that need not exist.
        bytes_max: Length at which the log stops.

    Attributes:
        stopped: ``full``, ``failed``, or ``""`` while it goes on.

    Raises:
        ConfigurationError: The file cannot be opened.
    """

    def __init__(self, path: str, *, bytes_max: int) -> None:
        self.stopped = ""
        self._path = path
        self._bytes_max = bytes_max
        self._lines: list[Line] = []
        self._buffer: list[bytes] = []
        self._buffered = 0
        self._length = 0
        try:
            self._descriptor: int | None = _opened(path)
        except OSError as error:
            raise ConfigurationError(_refusal(path, error.strerror or str(error))) from None

    def add(self, line: Line) -> bool:
        """Keep a line for the next write; False when the log has stopped."""
        self._lines.append(line)
        if len(self._lines) >= BATCH:
            self._encode()
        return not self.stopped

    def flush(self) -> None:
        """Write what was kept."""
        self._encode()
        self._write()

    def close(self) -> None:
        """Write what was kept, and how the log ends, and close the file."""
        if not self.stopped:
            self._lines.append(Ended("stopped"))
            self.flush()
        self._close()

    def _encode(self) -> None:
        lines, self._lines = self._lines, []
        if self.stopped or not lines:
            return
        try:
            data = encode(lines)
        except (ValueError, TypeError) as error:
            self._stop("failed", f"a line of it cannot be written: {error}")
            return
        if self._length + len(data) > self._bytes_max:
            self._buffer.append(encode([Ended("full")]))
            self._write()
            self._stop("full", f"it has reached router.decision_log_bytes_max = {self._bytes_max}")
            return
        self._length += len(data)
        self._buffer.append(data)
        self._buffered += len(data)
        if self._buffered >= BUFFERED_BYTES_MAX:
            self._write()

    def _write(self) -> None:
        data = memoryview(b"".join(self._buffer))
        self._buffer = []
        self._buffered = 0
        if self._descriptor is None:
            return
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError as error:
            self._stop("failed", f"it cannot be written: {error.strerror}")

    def _stop(self, how: str, why: str) -> None:
        if not self.stopped:
            self.stopped = how
            _log.warning("The decision log %s ends here, and serving goes on: %s.", self._path, why)
        self._close()

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor = None


def check(path: str) -> None:
    """Look whether a log can be begun there, changing nothing.

    Raises:
        ConfigurationError: It cannot.
    """
    file = Path(path)
    if not file.parent.is_dir():
        problem = os.strerror(errno.ENOENT if not file.parent.exists() else errno.ENOTDIR)
    elif not os.access(file.parent, os.W_OK | os.X_OK):
        problem = os.strerror(errno.EACCES)
    elif file.exists() and not file.is_file():
        problem = "it exists and is no file"
    else:
        return
    raise ConfigurationError(_refusal(path, problem))


def _refusal(path: str, problem: str) -> str:
    return (
        f"The decision log {path} cannot be opened: {problem}. "
        "router.decision_log must name a file in a directory that this user can write to."
    )


def _opened(path: str) -> int:
    """Open a new file, the one before out of the way. What is no file (a FIFO, a device) is refused."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISREG(Path(path).stat().st_mode):
            Path(path).replace(f"{path}.1")
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOCTTY
    return os.open(path, flags, 0o600)
