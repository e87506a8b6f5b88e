"""Where facts go: totals for control's metrics page, and the access log."""

import os
from collections.abc import Callable

from warmroute.core.events import FailureCause, Invocation
from warmroute.core.fleet import Target
from warmroute.dataplane.ports import Clock
from warmroute.observe import catalogue
from warmroute.observe.access_log import AccessLines
from warmroute.observe.projection import Projection
from warmroute.routing.health import HealthChange

BUFFERED_LINES_MAX = 10_000
"""Access log lines kept until the next write; beyond it they are counted as lost."""

BATCH = 64
"""Invocations folded into totals and log lines at once: 0.2 ms of work."""


class AccessLog:
    """Appends lines to a file, many at a time.

    Args:
        path: ``-`` for standard output, empty for no log.
    """

    def __init__(self, path: str) -> None:
        self.lost = 0
        self._lines: list[bytes] = []
        self._descriptor: int | None = None
        if path == "-":
            self._descriptor = 1
        elif path:
            self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    @property
    def wanted(self) -> bool:
        """Whether lines go anywhere."""
        return self._descriptor is not None

    def add(self, line: bytes) -> None:
        """Keep a line for the next write."""
        if len(self._lines) >= BUFFERED_LINES_MAX:
            self.lost += 1
            return
        self._lines.append(line)

    def flush(self) -> None:
        """Write what was kept; what the file does not take is counted as lost."""
        if not self._lines or self._descriptor is None:
            return
        data = memoryview(b"".join(self._lines))
        count = len(self._lines)
        self._lines = []
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError:
            self.lost += count

    def close(self) -> None:
        """Write what was kept and close the file."""
        self.flush()
        if self._descriptor is not None and self._descriptor > 2:
            os.close(self._descriptor)
        self._descriptor = None


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

    def attempt_failed(self, target: Target, cause: FailureCause, *, again: bool) -> None:
        """Count the failure."""
        self._projection.attempt_failed(target.target_id, cause, again=again)

    def health_changed(self, change: HealthChange) -> None:
        """Count an ejection and pass the change on."""
        if change.ejected:
            self._projection.count(catalogue.EJECTIONS, (change.target_id, change.reason))
        self._on_health(change)
