"""What the supervisor needs of the operating system: start children, hear of their end, take in orphans."""

import contextlib
import ctypes
import functools
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_PR_SET_PDEATHSIG = 1  # Linux, <sys/prctl.h>
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """How to start a child, the first time and every time after.

    Attributes:
        name: For the logs.
        command: Argument vector.
        options: Its standard input, to the end.
        descriptors: What it inherits beside its standard streams.
        death_signal: What the kernel sends it when the supervisor dies.
    """

    name: str
    command: tuple[str, ...]
    options: bytes
    descriptors: tuple[int, ...]
    death_signal: signal.Signals


@dataclass(frozen=True, slots=True)
class Child:
    """A running child.

    Attributes:
        pid: Process id; it leads a session of its own, so that Ctrl-C reaches the supervisor alone.
        log: Read end of its standard error, not blocking.
        started_s: On the monotonic clock.
    """

    pid: int
    log: int
    started_s: float


def start(spec: ChildSpec, environment: Mapping[str, str]) -> Child:
    """Start a child.

    Raises:
        OSError: The system cannot start it.
    """
    options = os.memfd_create("options", os.MFD_CLOEXEC)
    log, log_end = os.pipe2(os.O_CLOEXEC)
    try:
        os.write(options, spec.options)
        os.lseek(options, 0, os.SEEK_SET)
        # Standard output is inherited: an access log written to it must not pass through here.
        process = subprocess.Popen(  # noqa: S603  (the command is our own)
            spec.command,
            stdin=options,
            stderr=log_end,
            pass_fds=spec.descriptors,
            env=dict(environment),
            start_new_session=True,
            preexec_fn=functools.partial(_die_with, os.getpid(), spec.death_signal),  # noqa: PLW1509  (no threads here)
        )
    except BaseException:
        os.close(log)
        raise
    finally:
        os.close(options)
        os.close(log_end)
    process.returncode = 0  # reaped by pid together with the orphans: the object must not wait for it
    os.set_blocking(log, False)
    return Child(pid=process.pid, log=log, started_s=time.monotonic())


def reap() -> Iterator[tuple[int, int]]:
    """Collect every process below this one that has ended.

    Yields:
        Process id and exit code, negative for a signal.
    """
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, os.waitstatus_to_exitcode(status)


def become_subreaper() -> None:
    """Become the parent of processes whose own parent dies: model servers outlive the control process."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def children() -> list[int]:
    """Return the ids of the processes whose parent is this one, orphans taken in included."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            fields = (directory / "stat").read_text().rpartition(")")[2].split()
            if int(fields[1]) == os.getpid():
                found.append(int(directory.name))
    return found


def send(pid: int, number: signal.Signals) -> None:
    """Signal a process; one that is gone already is no error."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def describe_exit(code: int) -> str:
    """Return how a process ended, for people."""
    if code >= 0:
        return f"exit status {code}"
    with contextlib.suppress(ValueError):
        return signal.Signals(-code).name
    return f"signal {-code}"


@contextlib.contextmanager
def signals_as_bytes(numbers: tuple[signal.Signals, ...]) -> Iterator[socket.socket]:
    """Turn signals into bytes to be read, so that one loop waits for everything.

    Yields:
        A socket, not blocking; each byte read from it is a signal's number.
    """
    reader, writer = socket.socketpair()
    reader.setblocking(False)
    writer.setblocking(False)
    before = {number: signal.signal(number, lambda *_: None) for number in numbers}
    wakeup_before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    try:
        yield reader
    finally:
        signal.set_wakeup_fd(wakeup_before)
        for number, handler in before.items():
            signal.signal(number, handler)
        reader.close()
        writer.close()


def _die_with(parent: int, number: signal.Signals) -> None:
    """Run in the child before it becomes the new program: die when the parent does."""
    _prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:  # it died before we asked
        os._exit(1)


_libc = ctypes.CDLL(None, use_errno=True)  # loaded before any fork: a child must not load libraries


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
