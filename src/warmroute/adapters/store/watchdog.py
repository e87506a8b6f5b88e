"""Cuts a connection whose other side says nothing for too long.

Time-outs of a database server do not help when the server itself hangs, and those of TCP do not while
its kernel answers. A client library that waits for it would hold up the loop without end; shutting the
socket down makes it return with an error.
"""

import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterator


class Watchdog:
    """One thread that watches one connection at a time."""

    def __init__(self, limit_s: float) -> None:
        """Prepare.

        Args:
            limit_s: Longest time in ``over``, in seconds.
        """
        self._limit_s = limit_s
        self._condition = threading.Condition()
        self._descriptor: int | None = None
        self._due_s = 0.0
        self._idle = False
        self._closed = False
        self._thread = threading.Thread(target=self._watch, name="store watchdog", daemon=True)
        self._thread.start()

    @contextlib.contextmanager
    def over(self, descriptor: int) -> Iterator[None]:
        """Shut the socket down should the block take longer than the limit.

        Args:
            descriptor: Stays open until the block ends.
        """
        with self._condition:
            self._descriptor, self._due_s = descriptor, time.monotonic() + self._limit_s
            if self._idle:
                self._condition.notify()
        try:
            yield
        finally:
            with self._condition:
                self._descriptor = None

    def close(self) -> None:
        """End the thread."""
        with self._condition:
            self._closed = True
            self._condition.notify()
        self._thread.join()

    def _watch(self) -> None:
        with self._condition:
            while not self._closed:
                # A block that ended is noticed when its time would have been up: no wake-up per block.
                left_s = self._due_s - time.monotonic()
                if left_s > 0:
                    self._condition.wait(left_s)
                elif self._descriptor is None:
                    self._idle = True
                    self._condition.wait()
                    self._idle = False
                else:
                    _shut_down(self._descriptor)
                    self._descriptor = None


def _shut_down(descriptor: int) -> None:
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as connection:
        connection.shutdown(socket.SHUT_RDWR)
