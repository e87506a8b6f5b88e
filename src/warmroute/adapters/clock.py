"""Real time."""

import time


class SystemClock:
    """The machine's clocks: monotonic nanoseconds, and seconds since 1970.

    The functions themselves, not methods around them: they are asked several times per request.
    """

    now_ns = staticmethod(time.monotonic_ns)
    wall_s = staticmethod(time.time)
