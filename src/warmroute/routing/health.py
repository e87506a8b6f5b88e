"""Passive health: what the traffic itself says about a target.

Only failures that the instance caused count; a caller's mistake or disconnect never does. A target
that fails is ejected for a while, then is on probation: it takes one request at a time, and its next
answer decides. Connection refusals eject at once, since nothing can be lost; failures that a bad
request might provoke need a run of them, and never eject more than half of a variant's targets.
"""

from dataclasses import dataclass

from warmroute.core.events import FailureCause

CONSECUTIVE_FAILURES_MAX = 5
"""Failures in a row that eject. Envoy's outlier detection has the same default."""
EJECTION_NS_MIN = 1_000_000_000
"""First ejection; doubles with each further one in a row."""
EJECTION_NS_MAX = 30_000_000_000
"""Longest ejection: an instance that came back is found within this time."""
EJECTED_SHARE_MAX = 0.5
"""Share of a variant's targets that failures other than refused connections may eject."""


class HealthRecord:
    """A target's recent past.

    Attributes:
        ejected: It gets no lease.
        until_ns: When the ejection ends.
        probation: It takes one request at a time until one succeeds.
        consecutive: Failures since the last success.
        ejections: In a row, without a success between them.
    """

    __slots__ = ("consecutive", "ejected", "ejections", "probation", "until_ns")

    def __init__(self) -> None:
        self.ejected = False
        self.until_ns = 0
        self.probation = False
        self.consecutive = 0
        self.ejections = 0

    def succeed(self) -> bool:
        """Note a success; True when that ended a probation."""
        self.consecutive = 0
        if self.ejected:
            # An answer to a request from before the ejection: it proves nothing about now.
            return False
        recovered = self.probation
        self.probation = False
        self.ejections = 0
        return recovered

    def fail(self, cause: FailureCause, *, now_ns: int, others_ejected: int, targets: int) -> bool:
        """Note a failure; True when it ejects the target.

        Args:
            cause: How the attempt failed.
            now_ns: The time.
            others_ejected: Targets of the variant that are ejected already.
            targets: Targets of the variant in all.
        """
        if cause is FailureCause.STALE_CONNECTION or self.ejected:
            return False  # a connection that idled too long is nobody's failure
        self.consecutive += 1
        certain = cause in (FailureCause.CONNECT_FAILED, FailureCause.LOADING)
        if not certain:
            if not self.probation and self.consecutive < CONSECUTIVE_FAILURES_MAX:
                return False
            if others_ejected + 1 > targets * EJECTED_SHARE_MAX:
                return False
        self.ejected = True
        self.probation = False
        self.until_ns = now_ns + min(EJECTION_NS_MIN << min(self.ejections, 8), EJECTION_NS_MAX)
        self.ejections += 1
        return True

    def parole(self) -> None:
        """End the ejection: on probation from now on."""
        self.ejected = False
        self.probation = True


@dataclass(frozen=True, slots=True)
class HealthChange:
    """A target was ejected, or came back (to probation, or to full service)."""

    target_id: str
    generation: int
    ejected: bool
    reason: str
