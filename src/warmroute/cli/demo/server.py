"""A warmroute of the demo's own: started as a user would, in a folder that is gone afterwards."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from warmroute.adapters.providers.launch import INSTANCE_DIRECTORY_VARIABLE
from warmroute.adapters.providers.logs import last_lines
from warmroute.adapters.providers.processes import marked_processes

READY_S_MAX = 30.0
"""From the start to an answer of ``/healthz``; it takes about a second."""
STOP_S_MAX = 15.0
"""From SIGTERM to the end: its own drain time, its model servers, and a margin."""
DRAIN_S = 3
_KILL_S_MAX = 5.0
_HURRY_S = 0.5
_POLL_S = 0.05


class DemoError(Exception):
    """The demo cannot go on; the text is for the user."""


class Warmroute:
    """A running ``warmroute serve``.

    Attributes:
        url: Base URL of its public listener.
    """

    def __init__(self, directory: Path) -> None:
        """Start it; ``wait_until_ready`` comes next.

        Args:
            directory: For its data, settings and log.
        """
        port, admin_port = _free_ports(2)
        self.url = f"http://127.0.0.1:{port}"
        self._directory = directory
        self._log = directory / "serve.log"
        settings = directory / "warmroute.toml"
        settings.write_text("")  # Its own, so that one in the working directory has no effect.
        command = [sys.executable, "-P", "-m", "warmroute", "serve", "--config", str(settings)]
        command += ["--data-dir", str(directory / "data"), "--drain-seconds", str(DRAIN_S)]
        command += ["--port", str(port), "--admin-port", str(admin_port)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603  (our own command line)
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=_environment(),
                start_new_session=True,  # Ctrl-C reaches the demo alone, which then stops it in order.
            )

    def wait_until_ready(self) -> None:
        """Return when it answers.

        Raises:
            DemoError: It ended, or took too long.
        """
        end = time.monotonic() + READY_S_MAX
        while True:
            self.check()
            try:
                with urllib.request.urlopen(f"{self.url}/healthz", timeout=2):  # noqa: S310  (our own URL)
                    return
            except (urllib.error.URLError, OSError):
                if time.monotonic() > end:
                    raise DemoError(
                        f"warmroute did not answer within {READY_S_MAX:.0f} s.{self.last_words()}"
                    ) from None
            time.sleep(_POLL_S)

    def check(self) -> None:
        """Do nothing while it runs.

        Raises:
            DemoError: It has ended; the text quotes its last lines.
        """
        status = self._process.poll()
        if status is not None:
            raise DemoError(f"warmroute ended with status {status}.{self.last_words()}")

    def last_words(self) -> str:
        """Return the end of its log, as a passage to put behind a sentence."""
        lines = last_lines(self._log, 12)
        return f" Its last lines:\n{lines}" if lines else ""

    def stop(self, hurry: threading.Event) -> None:
        """End it and every model server it started.

        Args:
            hurry: When set, nobody waits any more.
        """
        for number, wait_s in ((signal.SIGTERM, STOP_S_MAX), (signal.SIGKILL, _KILL_S_MAX)):
            if self._process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    self._process.send_signal(number)
            end = time.monotonic() + wait_s
            while self._process.poll() is None and time.monotonic() < end:
                if hurry.is_set():
                    end = min(end, time.monotonic() + _HURRY_S)
                    hurry.clear()
                time.sleep(_POLL_S)
        self._sweep()

    def _sweep(self) -> None:
        """Kill what a warmroute that was killed, or died, could not stop, and see it gone."""
        ours = str((self._directory / "data" / "instances").resolve()) + os.sep
        end = time.monotonic() + _KILL_S_MAX
        while time.monotonic() < end:
            marked = marked_processes(INSTANCE_DIRECTORY_VARIABLE)
            left = [stat for name, stats in marked.items() if name.startswith(ours) for stat in stats]
            if not left:
                return
            for stat in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(stat.pid, signal.SIGKILL)
            time.sleep(_POLL_S)


@contextlib.contextmanager
def running_warmroute() -> Iterator[Warmroute]:
    """Run a warmroute for the time of the block, and leave nothing behind, however the block ends.

    While it is being stopped, Ctrl-C makes it stop at once instead of breaking off the stopping.
    """
    directory = Path(tempfile.mkdtemp(prefix="warmroute-demo-"))
    try:
        server = Warmroute(directory)
        try:
            server.wait_until_ready()
            yield server
        finally:
            with _interrupts_as_event() as hurry:
                server.stop(hurry)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def _interrupts_as_event() -> Iterator[threading.Event]:
    event = threading.Event()

    def set_it(_number: int, _frame: FrameType | None) -> None:
        event.set()

    before = {
        number: signal.signal(number, set_it) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield event
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _environment() -> dict[str, str]:
    """Return our environment without settings of another warmroute."""
    return {name: value for name, value in os.environ.items() if not name.startswith("WARMROUTE_")}


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
