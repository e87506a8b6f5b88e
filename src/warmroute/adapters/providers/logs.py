"""Log files of model servers: their last lines, a bound on their size, and where they go at the end."""

import os
from pathlib import Path

from warmroute.core.limits import (
    ENDED_LOGS_MAX,
    EXIT_DETAIL_CHARACTERS_MAX,
    EXIT_DETAIL_LINES,
    INSTANCE_LOG_BYTES_MAX,
    INSTANCE_LOG_KEPT_BYTES,
)


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
