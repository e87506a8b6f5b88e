"""Log files of model servers: their last lines, a bound on their size, and where they go at the end."""

import codecs
import os
import re
from pathlib import Path
from typing import Final

from warmroute.controlplane.ports import LogPiece
from warmroute.core.limits import (
    ENDED_LOGS_MAX,
    EXIT_DETAIL_CHARACTERS_MAX,
    EXIT_DETAIL_LINES,
    INSTANCE_LOG_BYTES_MAX,
    INSTANCE_LOG_KEPT_BYTES,
)

_INSTANCE_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}")
"""What an id may look like before it becomes part of a path."""


class LocalLogs:
    """Implements ``controlplane.ports.InstanceLogs`` over the local provider's files."""

    def __init__(self, data_dir: Path) -> None:
        """Read below a data directory."""
        self._running = data_dir / "instances"
        self._ended = data_dir / "ended-logs"

    def read(self, instance_id: str, *, begin: int | None, bytes_max: int) -> LogPiece | None:
        """Return a part of a log; see the port."""
        if not _INSTANCE_ID.fullmatch(instance_id):
            return None
        for path, ended in (
            (self._running / instance_id / "log", False),
            (self._ended / f"{instance_id}.log", True),
        ):
            try:
                with path.open("rb") as file:
                    size = file.seek(0, os.SEEK_END)
                    start = max(0, size - bytes_max) if begin is None else begin if begin <= size else 0
                    file.seek(start)
                    return _piece(file.read(bytes_max), start, size, ended=ended)
            except (FileNotFoundError, NotADirectoryError):
                continue
        return None


def _piece(data: bytes, begin: int, size: int, *, ended: bool) -> LogPiece:
    """Decode a piece; a character that it ends inside of is left to the next one."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    text = decoder.decode(data, final=False)
    waiting = len(decoder.getstate()[0])
    if ended and begin + len(data) >= size:
        text += decoder.decode(b"", final=True)  # nothing comes after it
        waiting = 0
    return LogPiece(text=text, begin=begin, end=begin + len(data) - waiting, size=size, ended=ended)


def last_lines(path: Path, lines: int = EXIT_DETAIL_LINES) -> str:
    """Return the last lines of a log that say something; ``""`` when there are none.

    Args:
        path: The log; it need not exist.
        lines: How many at most. Together they are cut to ``EXIT_DETAIL_CHARACTERS_MAX``, at the front.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 16 * 1024))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    kept = [line.rstrip() for line in text.splitlines() if line.strip()][-lines:]
    return "\n".join(kept)[-EXIT_DETAIL_CHARACTERS_MAX:]


def cap_log(path: Path) -> None:
    """Cut a log that has outgrown ``INSTANCE_LOG_BYTES_MAX`` to its newest part, in place.

    The server goes on writing to the same file, which it has open for appending; lines it writes
    during the cut may be lost.
    """
    try:
        if path.stat().st_size <= INSTANCE_LOG_BYTES_MAX:
            return
        with path.open("r+b") as file:
            file.seek(-INSTANCE_LOG_KEPT_BYTES, os.SEEK_END)
            newest = file.read()
            file.truncate(0)
        with path.open("ab") as file:
            file.write(b"[warmroute: older lines were removed]\n" + newest)
    except FileNotFoundError:
        return


def keep_ended_log(log: Path, directory: Path, name: str) -> None:
    """Move the log of an instance that ended by itself aside, and forget the oldest such logs.

    Args:
        log: The instance's log; it need not exist.
        directory: Made when needed.
        name: Of the kept file, without suffix.
    """
    if not log.exists():
        return
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    log.replace(directory / f"{name}.log")
    kept = sorted(directory.glob("*.log"), key=lambda path: (path.stat().st_mtime_ns, path.name))
    for path in kept[:-ENDED_LOGS_MAX]:
        path.unlink(missing_ok=True)
