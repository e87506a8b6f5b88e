"""What a router knows of adapters: who uses them where, and whose sets are too small.

An adapter's set is the copies that have it loaded. Control makes and changes it; a router tells control
what it uses, so that nothing is unloaded under a request, and asks for one more place when all are busy.
Requests that name no adapter cost nothing here.
"""

from warmroute.core.limits import ADAPTER_BUSY_IN_FLIGHT
from warmroute.routing.pool import Pool


def busy_from(threshold: int | None, routers: int) -> int:
    """Return the in-flight count, as one router sees it, from which a place is busy.

    Args:
        threshold: The variant's ConcurrencyThreshold; None for none.
        routers: How many routers share the traffic, each counting its own requests; at least 1.
    """
    bound = ADAPTER_BUSY_IN_FLIGHT if threshold is None else threshold
    return max(-(-bound // routers), 1)


def wants_growth(pool: Pool, base: Pool, busy: int) -> bool:
    """Whether an adapter's set should have one more place.

    Args:
        pool: The copies that have it.
        base: All copies of its base component.
        busy: From `busy_from`.
    """
    serving = pool.serving
    if not serving or len(serving) >= len(base.serving):
        return False
    return all(row.in_flight >= busy for row in serving)
