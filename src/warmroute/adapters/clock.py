"""Real time."""

import time


class FastClock:
    """A clock that starts with the machine's and runs faster; for trying out what takes long.

    Args:
        speed: Seconds that it passes in one.
    """

    def __init__(self, speed: float) -> None:
        self._speed = speed
        self._begin_s = time.time()
        self._begin_ns = time.monotonic_ns()

    def wall_s(self) -> float:
        """Return seconds since 1970, as far as this clock has come."""
        return self._begin_s + (time.monotonic_ns() - self._begin_ns) / 1e9 * self._speed


class SystemClock:
    """The machine's clocks: monotonic nanoseconds, and seconds since 1970.

    The functions themselves, not methods around them: they are asked several times per request.
    """

    now_ns = staticmethod(time.monotonic_ns)
    wall_s = staticmethod(time.time)
