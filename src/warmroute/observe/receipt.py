"""The decision receipt: why a request went where it went. Never any prompt text."""

import msgspec

from warmroute.core.events import Invocation


class Receipt(msgspec.Struct, frozen=True, omit_defaults=True):
    """What ``x-warmroute-decision`` tells.

    Attributes:
        instance: Target that served the invocation.
        variant: Its variant.
        strategy: RoutingStrategy of the variant.
        reason: Why this target.
        rank: Place in the key's order, 0 = home; absent where the strategy has no order.
        in_flight: Requests in flight on it when it was picked.
        candidates: Targets that could have been picked.
        attempts: Tries made, this one included.
    """

    instance: str
    variant: str
    strategy: str
    reason: str
    in_flight: int
    candidates: int
    attempts: int
    rank: int | None = None


def receipt(record: Invocation, candidates: int) -> bytes:
    """Return the receipt of an invocation's last attempt as one line of JSON."""
    return msgspec.json.encode(
        Receipt(
            instance=record.target,
            variant=record.variant,
            strategy=record.strategy,
            reason=record.reason,
            in_flight=record.in_flight,
            candidates=candidates,
            attempts=record.attempts,
            rank=record.rank if record.rank >= 0 else None,
        )
    )
