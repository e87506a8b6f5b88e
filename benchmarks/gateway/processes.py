"""Starting and, above all, ending the programs that the benchmark runs."""

import contextlib
import os
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import measure


@dataclass(eq=False, slots=True)
class Process:
    """A program that we started.

    Attributes:
        name: For people.
        popen: Its handle.
        log: File with what it printed.
    """

    name: str
    popen: subprocess.Popen[bytes]
    log: Path

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.popen.pid

    def last_words(self) -> str:
        """Return the last line it printed that says something, for an error message."""
        with contextlib.suppress(OSError):
            lines = [line.strip() for line in self.log.read_text(errors="replace").splitlines()[-20:]]
            lines = [line for line in lines if line]
            return lines[-1][:300] if lines else "it printed nothing"
        return "it printed nothing"


class Processes:
    """Everything that is running on our behalf; as a context manager, none of it outlives the block."""

    def __init__(self) -> None:
        """Start with none."""
        self._running: list[Process] = []

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """End all of them, the last one started first."""
        while self._running:
            self.stop(self._running[-1])

    @staticmethod
    def find(program: str) -> str | None:
        """Return where a program is installed, or None."""
        return measure.tool_path(program)

    def start(
        self,
        name: str,
        command: list[str],
        *,
        cpu: int,
        log: Path,
        environment: dict[str, str] | None = None,
    ) -> Process:
        """Start a program on one CPU, in a session of its own, with its output in a file.

        The CPU is set before it starts, so that a program that sizes its thread pool by the CPUs it may
        use starts one thread.
        """
        with measure.on_cpu(cpu), log.open("wb") as output:
            popen = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=os.environ | (environment or {}),
            )
        process = Process(name, popen, log)
        self._running.append(process)
        return process

    def stop(self, process: Process, *, grace_s: float = 12.0) -> None:
        """End a program and all it started: ask first, insist after ``grace_s`` (over warmroute's drain)."""
        family = {pid: measure.start_time(pid) for pid in measure.descendants(process.pid)}
        with contextlib.suppress(ProcessLookupError):
            process.popen.terminate()
        try:
            process.popen.wait(grace_s)
        except subprocess.TimeoutExpired:
            process.popen.kill()
            process.popen.wait()
        for pid, began in family.items():
            if began is not None and measure.start_time(pid) == began:  # it outlived its parent
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        if process in self._running:
            self._running.remove(process)


def free_ports(count: int) -> list[int]:
    """Return TCP ports of loopback that are free now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


class DidNotStart(Exception):  # noqa: N818  (an expected outcome: it becomes the reason in a row)
    """A program did not come up; the text says why."""


def wait_for_port(process: Process, port: int, *, seconds: float) -> None:
    """Wait until a program accepts connections.

    Raises:
        DidNotStart: It ended, or took too long.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if process.popen.poll() is not None:
            raise DidNotStart(
                f"{process.name} ended with status {process.popen.returncode}: {process.last_words()}"
            )
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=0.2):
            return
        time.sleep(0.05)
    raise DidNotStart(f"{process.name} accepted no connection within {seconds:.0f} s: {process.last_words()}")
