"""The supervisor: starts the control process and the routers, restarts what dies, and stops them in order."""

import contextlib
import os
import selectors
import signal
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from warmroute.app import processes
from warmroute.app.options import EXIT_CONFIGURATION
from warmroute.app.processes import Child, ChildSpec
from warmroute.app.timing import Backoff, StopSchedule
from warmroute.core import limits
from warmroute.core.errors import ConfigurationError

_HURRY_S = 2.0
"""What is left of a shutdown after a second signal."""
_KILL_S = 0.2
"""How long the kernel may take to end a killed process before it is left to itself."""


@dataclass(slots=True)
class _Member:
    """A child over its lives: the running one, or the time of the next start."""

    spec: ChildSpec
    backoff: Backoff = field(default_factory=Backoff)
    child: Child | None = None
    start_at_s: float = 0.0
    starts: int = 0


@dataclass(slots=True)
class _Log:
    """A child's standard error on its way to ours, line by line."""

    name: str
    rest: bytes = b""

    def take(self, data: bytes) -> bytes:
        """Return the lines that ``data`` completes, stamped; at the end of file whatever is left."""
        *lines, self.rest = (self.rest + data).split(b"\n")
        if self.rest and (not data or len(self.rest) > limits.LOG_LINE_BYTES_MAX):
            lines.append(self.rest)
            self.rest = b""
        stamp = _stamp(self.name)
        return b"".join(stamp + line + b"\n" for line in lines)


class Supervisor:
    """Runs one control process and its routers until it is told to stop."""

    def __init__(
        self,
        *,
        control: ChildSpec,
        routers: tuple[ChildSpec, ...],
        total_s: float,
        keep_instances: bool,
        environment: Mapping[str, str],
        write_log: Callable[[bytes], None],
    ) -> None:
        """Prepare; nothing is started yet.

        Args:
            control: The control process.
            routers: The routers, one or more.
            total_s: From the signal to the end of everything, in seconds.
            keep_instances: Leave model servers running that control did not stop.
            environment: Of the children.
            write_log: Takes whole lines.
        """
        self._control = _Member(control)
        self._routers = [_Member(spec) for spec in routers]
        self._members = [self._control, *self._routers]
        self._schedule = StopSchedule.of(total_s)
        self._keep_instances = keep_instances
        self._environment = environment
        self._write_log = write_log
        self._selector = selectors.DefaultSelector()
        self._strangers: frozenset[int] = frozenset()
        self._stopping = False
        self._hurry_until_s = float("inf")
        self._failure = ""

    def run(self) -> None:
        """Start the children, keep them running, and stop them when a signal asks for it.

        Raises:
            ConfigurationError: A child cannot work with what it was given; its own message is in the log.
        """
        processes.become_subreaper()
        self._strangers = frozenset(processes.children())
        with processes.signals_as_bytes((signal.SIGCHLD, *_stop_signals())) as signals, self._selector:
            self._selector.register(signals, selectors.EVENT_READ, signals)
            try:
                self._watch()
            finally:
                self._stop()
        if self._failure:
            raise ConfigurationError(self._failure)

    def _watch(self) -> None:
        """Keep every member running until a signal asks to stop."""
        while not self._stopping:
            now_s = time.monotonic()
            for member in self._members:
                if member.child is None and member.start_at_s <= now_s:
                    self._start(member)
            due = [member.start_at_s for member in self._members if member.child is None]
            self._turn(until_s=min(due, default=float("inf")))

    def _start(self, member: _Member) -> None:
        member.starts += 1
        try:
            child = processes.start(member.spec, self._environment)
        except OSError as error:
            delay_s = member.backoff.after(0.0)
            member.start_at_s = time.monotonic() + delay_s
            self._say(f"{member.spec.name} cannot be started: {error}; trying again in {delay_s:g} s")
            return
        member.child = child
        self._selector.register(child.log, selectors.EVENT_READ, _Log(member.spec.name))

    def _turn(self, *, until_s: float) -> None:
        """Wait for something to happen, no longer than ``until_s``, and deal with it."""
        wait_s = min(until_s - time.monotonic(), 3600.0)
        for key, _ in self._selector.select(max(wait_s, 0.0)):
            if isinstance(key.data, _Log):
                self._forward(key.fd, key.data)
            else:
                self._hear(key.data)

    def _forward(self, log: int, lines: _Log) -> None:
        """Pass on what a child logged; close the pipe when no process writes to it any more."""
        with contextlib.suppress(BlockingIOError):
            data = os.read(log, limits.LOG_LINE_BYTES_MAX)
            self._write_log(lines.take(data))
            if not data:
                self._selector.unregister(log)
                os.close(log)

    def _hear(self, signals: socket.socket) -> None:
        """Deal with the signals that arrived."""
        for number in signals.recv(4096):
            if number == signal.SIGCHLD:
                self._collect()
            elif self._stopping:
                self._hurry_until_s = min(self._hurry_until_s, time.monotonic() + _HURRY_S)
            else:
                self._stopping = True

    def _collect(self) -> None:
        """Take note of the children that ended; orphans only have to be reaped."""
        for pid, code in processes.reap():
            for member in self._members:
                if member.child is not None and member.child.pid == pid:
                    self._ended(member, member.child, code)

    def _ended(self, member: _Member, child: Child, code: int) -> None:
        member.child = None
        if self._stopping:
            return
        if code == EXIT_CONFIGURATION and member.starts == 1:
            self._failure = f"{member.spec.name} cannot start; its log above says why"
            self._stopping = True
            return
        uptime_s = time.monotonic() - child.started_s
        delay_s = member.backoff.after(uptime_s)
        member.start_at_s = time.monotonic() + delay_s
        how = processes.describe_exit(code)
        self._say(
            f"{member.spec.name} (process {child.pid}) ended after {uptime_s:.1f} s: {how}; "
            f"starting it again in {delay_s:g} s"
        )

    def _stop(self) -> None:
        """Stop the routers, then control, then what is left, all of it within the schedule."""
        self._stopping = True
        begin_s = time.monotonic()
        self._end(self._routers, until_s=begin_s + self._schedule.routers_end_s, patient=False)
        end_s = begin_s + self._schedule.end_s
        self._end([self._control], until_s=end_s, patient=True)
        if not self._keep_instances:
            self._end_leftovers(until_s=end_s)
        self._forward_rest()

    def _end(self, members: list[_Member], *, until_s: float, patient: bool) -> None:
        """Ask the members to end, wait, and kill those that have not.

        Args:
            members: Of one kind.
            until_s: When to stop waiting.
            patient: Whether they keep a little time even after a second signal.
        """
        for member in members:
            if member.child is not None:
                processes.send(member.child.pid, signal.SIGTERM)

        def running() -> list[int]:
            return [member.child.pid for member in members if member.child is not None]

        self._wait_while(running, until_s=until_s, patient=patient)
        self._kill(running)

    def _end_leftovers(self, *, until_s: float) -> None:
        """End model servers that control left behind: it was killed, or died before it could stop them."""
        for pid in self._leftovers():
            self._say(f"control left process {pid} behind; stopping it")
            processes.send(pid, signal.SIGTERM)
        self._wait_while(self._leftovers, until_s=until_s, patient=True)
        self._kill(self._leftovers)

    def _leftovers(self) -> list[int]:
        return [pid for pid in processes.children() if pid not in self._strangers]

    def _wait_while(self, running: Callable[[], list[int]], *, until_s: float, patient: bool) -> None:
        while running():
            limit_s = min(until_s, self._hurry_until_s)
            hurried = self._hurry_until_s < float("inf")
            if time.monotonic() >= limit_s or (hurried and not patient):
                return
            self._turn(until_s=limit_s)

    def _kill(self, running: Callable[[], list[int]]) -> None:
        for pid in running():
            self._say(f"process {pid} has not ended in time; killing it")
            processes.send(pid, signal.SIGKILL)
        until_s = time.monotonic() + _KILL_S
        while running() and time.monotonic() < until_s:
            self._turn(until_s=until_s)

    def _forward_rest(self) -> None:
        """Pass on what the children logged last."""
        for key in list(self._selector.get_map().values()):
            if isinstance(key.data, _Log):
                self._forward(key.fd, key.data)

    def _say(self, text: str) -> None:
        self._write_log(_stamp("supervisor") + f"{text}\n".encode())


def _stop_signals() -> tuple[signal.Signals, ...]:
    """Return the signals that ask to stop; not SIGHUP when nohup(1) has it ignored."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return (signal.SIGTERM, signal.SIGINT)
    return (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def _stamp(name: str) -> bytes:
    """Return what a line of the log begins with: the time in UTC, to the millisecond, and who says it."""
    now_ms = time.time_ns() // 1_000_000
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now_ms // 1000))
    return f"{seconds}.{now_ms % 1000:03}Z {name} | ".encode()
