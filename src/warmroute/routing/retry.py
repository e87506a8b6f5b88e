"""The retry contract: another target only when the request cannot have been executed.

Pure, so that the simulator obeys the same rule. The budget keeps a failing fleet from being hit
several times per invocation: retries over a sliding window may not exceed a share of the invocations.
"""

from warmroute.core.events import FailureCause
from warmroute.core.limits import ATTEMPTS_MAX, RETRY_BUDGET_FLOOR, RETRY_BUDGET_RATIO

WINDOW_NS = 10_000_000_000
"""Window of the budget. Two are kept, so that it slides without a list of times."""


class RetryBudget:
    """Counts invocations and retries over the last one to two windows."""

    __slots__ = ("_began_ns", "_invocations", "_past_invocations", "_past_retries", "_retries")

    def __init__(self) -> None:
        self._began_ns = 0
        self._invocations = self._retries = 0
        self._past_invocations = self._past_retries = 0

    def invocation(self, now_ns: int) -> None:
        """Count an invocation's first attempt."""
        self._slide(now_ns)
        self._invocations += 1

    def take(self, now_ns: int) -> bool:
        """Take one retry from the budget; False when it is spent."""
        self._slide(now_ns)
        allowed = (self._invocations + self._past_invocations) * RETRY_BUDGET_RATIO + RETRY_BUDGET_FLOOR
        if self._retries + self._past_retries + 1 > allowed:
            return False
        self._retries += 1
        return True

    def _slide(self, now_ns: int) -> None:
        elapsed = now_ns - self._began_ns
        if elapsed < WINDOW_NS:
            return
        recent = elapsed < 2 * WINDOW_NS
        self._past_invocations = self._invocations if recent else 0
        self._past_retries = self._retries if recent else 0
        self._invocations = self._retries = 0
        # One window on, not now: a window that ended late must not keep the past for longer than two.
        self._began_ns = self._began_ns + WINDOW_NS if recent else now_ns


def may_try_again(cause: FailureCause, *, attempts: int, budget: RetryBudget, now_ns: int) -> bool:
    """Return whether an invocation whose attempt failed may have another one.

    Args:
        cause: How the last attempt failed.
        attempts: Attempts made so far, that one included.
        budget: Charged with one retry when the answer is yes.
        now_ns: The time.
    """
    return cause.nothing_ran and attempts < ATTEMPTS_MAX and budget.take(now_ns)
