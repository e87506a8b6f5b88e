"""The one place that starts tasks: it keeps the reference, so that none is lost or forgotten."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

_log = logging.getLogger(__name__)


class Tasks:
    """A set of running tasks.

    A task that ends with an exception is logged; the exception goes no further. Errors that callers
    should see are values or callbacks of the coroutine itself.
    """

    __slots__ = ("_running",)

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._running)

    def spawn(self, coroutine: Coroutine[Any, Any, Any], *, name: str) -> Callable[[], None]:
        """Start a coroutine as a task; return what cancels it."""
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._running.add(task)
        task.add_done_callback(self._done)

        def cancel() -> None:
            task.cancel()

        return cancel

    async def cancel_all(self) -> None:
        """Cancel every task and wait for their ends."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("task %s ended with %r", task.get_name(), error, exc_info=error)
