"""Where facts go: totals for control's metrics page, and the access log."""

import os
import select
import stat
from collections.abc import Callable

from warmroute.core.errors import ConfigurationError
from warmroute.core.events import FailureCause, Invocation, ShadowCopyEnded
from warmroute.core.fleet import Target
from warmroute.dataplane.ports import Clock
from warmroute.observe import catalogue
from warmroute.observe.access_log import AccessLines
from warmroute.observe.projection import Projection
from warmroute.routing.health import HealthChange

BUFFERED_LINES_MAX = 10_000
"""Access log lines kept until they can be written; beyond it they are counted as lost."""

PIECE_BYTES_MAX = 4096
"""Of one write to a pipe or the like: it takes so much at once whenever poll(2) says that it takes anything,
and does not mix it with what other routers write. Source: PIPE_BUF in pipe(7)."""

BATCH = 64
"""Invocations folded into totals and log lines at once: 0.2 ms of work."""

_STANDARD_OUTPUT = 1


class AccessLog:
    """Appends lines to a file, many at a time, and never waits for who reads them.

    Args:
        path: ``-`` for standard output, empty for no log.

    Raises:
        ConfigurationError: The file cannot be opened.
    """

    def __init__(self, path: str) -> None:
        self.lost = 0
        self._lines: list[bytes] = []
        self._descriptor: int | None = None
        self._poll: select.poll | None = None
        if not path:
            return
        try:
            self._descriptor = descriptor = _standard_output() if path == "-" else _opened(path)
            regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        except OSError as error:
            raise ConfigurationError(
                f"The access log {path} cannot be opened: {error.strerror}. access_log.path must be a file "
                'that this user can write, "-" for standard output, or "off".'
            ) from None
        if not regular:
            self._poll = select.poll()
            self._poll.register(descriptor, select.POLLOUT)

    @property
    def wanted(self) -> bool:
        """Whether lines go anywhere."""
        return self._descriptor is not None

    @property
    def narrow(self) -> bool:
        """Whether they go where only a little is taken at once, such as a pipe: it is best written often."""
        return self._poll is not None

    def add(self, line: bytes) -> None:
        """Keep a line for the next write."""
        if len(self._lines) >= BUFFERED_LINES_MAX:
            self.lost += 1
            return
        self._lines.append(line)

    def flush(self) -> None:
        """Write what was kept.

        What a pipe does not take now is kept for the next time; what fails is counted as lost.
        """
        if not self._lines or self._descriptor is None:
            return
        lines = self._lines
        if self._poll is not None:
            del lines[: self._write_pieces(self._descriptor, self._poll, lines)]
            return
        self._lines = []
        data = memoryview(b"".join(lines))
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError:
            self.lost += len(lines)

    def _write_pieces(self, descriptor: int, poll: select.poll, lines: list[bytes]) -> int:
        """Write as many lines as are taken without waiting; return how many are done with."""
        done = 0
        try:
            while done < len(lines) and poll.poll(0):
                end = done + 1
                size = len(lines[done])
                while end < len(lines) and size + len(lines[end]) <= PIECE_BYTES_MAX:
                    size += len(lines[end])
                    end += 1
                written = os.write(descriptor, b"".join(lines[done:end])[:PIECE_BYTES_MAX])
                while done < end and written >= len(lines[done]):
                    written -= len(lines[done])
                    done += 1
                if written:
                    lines[done] = lines[done][written:]
        except BlockingIOError:
            return done  # another router was faster
        except OSError:
            self.lost += len(lines) - done
            return len(lines)
        return done

    def close(self) -> None:
        """Write what can be written, count the rest as lost, and close the file."""
        self.flush()
        if self._descriptor is not None:
            self.lost += len(self._lines)
            self._lines = []
            if self._descriptor != _STANDARD_OUTPUT:
                os.close(self._descriptor)
        self._descriptor = None


def _opened(path: str) -> int:
    # O_NONBLOCK matters to a FIFO alone: without it, opening waits for who reads it.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    return os.open(path, flags, 0o600)


def _standard_output() -> int:
    """Return standard output, or where it is a pipe or a terminal a descriptor of it that does not wait.

    It shares no flags with the one that others write to, who expect theirs to wait. A file is left as
    it is, for the place in it is shared; a socket cannot be opened a second time.
    """
    if stat.S_ISREG(os.fstat(_STANDARD_OUTPUT).st_mode):
        return _STANDARD_OUTPUT
    try:
        return os.open(
            f"/proc/self/fd/{_STANDARD_OUTPUT}", os.O_WRONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
        )
    except OSError:
        return _STANDARD_OUTPUT


class Telemetry:
    """Implements `ports.Observer`.

    Args:
        projection: The totals.
        log: The access log.
        clock: For the log's time stamps.
        on_health: Told of every ejection and recovery.
    """

    def __init__(
        self,
        *,
        projection: Projection,
        log: AccessLog,
        clock: Clock,
        on_health: Callable[[HealthChange], None],
    ) -> None:
        self._projection = projection
        self._log = log
        self._clock = clock
        self._on_health = on_health
        self._ended: list[Invocation] = []
        self._lines = AccessLines()

    def invocation_ended(self, invocation: Invocation) -> None:
        """Keep the record for the next round of folding, which comes after `BATCH` of them.

        Together they cost half of what they cost one by one, between two requests each.
        """
        self._ended.append(invocation)
        if len(self._ended) >= BATCH:
            self.fold()

    def fold(self) -> None:
        """Fold what was kept into the totals, and write its lines."""
        ended = self._ended
        self._ended = []
        projection = self._projection
        for invocation in ended:
            projection.invocation_ended(invocation)
        if self._log.wanted:
            # Records carry monotonic times; the log's are of the wall clock.
            lines = self._lines
            offset_s = self._clock.wall_s() - self._clock.now_ns() / 1e9
            for invocation in ended:
                self._log.add(lines.line(invocation, offset_s + invocation.ended_ns / 1e9))
            if self._log.narrow:
                self._log.flush()

    def attempt_failed(self, target: Target, cause: FailureCause, *, again: bool) -> None:
        """Count the failure."""
        self._projection.attempt_failed(target.target_id, cause, again=again)

    def health_changed(self, change: HealthChange) -> None:
        """Count an ejection and pass the change on."""
        if change.ejected:
            self._projection.count(catalogue.EJECTIONS, (change.target_id, change.reason))
        self._on_health(change)

    def shadow_copy_ended(self, copy: ShadowCopyEnded) -> None:
        """Count it."""
        self._projection.shadow_copy_ended(copy)
