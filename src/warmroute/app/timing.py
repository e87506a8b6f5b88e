"""When the supervisor does what: delays between restarts, and the parts of a shutdown. Pure."""

from dataclasses import dataclass

from warmroute.core import limits


@dataclass(slots=True)
class Backoff:
    """Delays between the restarts of one process."""

    next_delay_s: float = limits.RESTART_DELAY_S_MIN

    def after(self, uptime_s: float) -> float:
        """Return how long to wait, in seconds, after a process ran for ``uptime_s``."""
        delay_s = limits.RESTART_DELAY_S_MIN if uptime_s >= limits.RESTART_RESET_S else self.next_delay_s
        self.next_delay_s = min(2 * delay_s, limits.RESTART_DELAY_S_MAX)
        return delay_s


@dataclass(frozen=True, slots=True)
class StopSchedule:
    """A shutdown, in seconds from the signal. Each part begins early when the one before it is done.

    Attributes:
        drain_s: Routers let requests finish until then, then end them with an error.
        routers_end_s: A router that is still there is killed.
        control_s: What control has, from its own signal, to stop local instances.
        end_s: Whatever is still there is killed.
    """

    drain_s: float
    routers_end_s: float
    control_s: float
    end_s: float

    @classmethod
    def of(cls, total_s: float) -> "StopSchedule":
        """Divide ``total_s``: most of it to the requests, up to three seconds to the rest.

        One second is enough for routers to write their error events, and the two seconds after it for
        a model server without requests to leave memory (llama.cpp takes 1 to 2).
        """
        drain_s = total_s - min(3.0, 0.5 * total_s)
        routers_end_s = drain_s + min(1.0, 0.2 * total_s)
        end_s = total_s - min(0.3, 0.05 * total_s)
        return cls(
            drain_s=drain_s, routers_end_s=routers_end_s, control_s=0.9 * (end_s - routers_end_s), end_s=end_s
        )
