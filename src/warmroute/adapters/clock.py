"""Real time."""

import time


class SystemClock:
    """The machine's clocks."""

    def now_ns(self) -> int:
        """Return monotonic nanoseconds."""
        return time.monotonic_ns()

    def wall_s(self) -> float:
        """Return seconds since 1970."""
        return time.time()
