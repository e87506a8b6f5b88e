"""The decision receipt: why a request went where it went. Never any prompt text."""

from collections.abc import Sequence

import msgspec

from warmroute.core.decision import Foreseen
from warmroute.core.events import Invocation


class Receipt(msgspec.Struct, frozen=True, omit_defaults=True):
    """What ``x-warmroute-decision`` tells.

    Attributes:
        instance: The instance that served the invocation, or carries the copy that did.
        variant: Its variant.
        strategy: RoutingStrategy of the variant.
        reason: Why this target.
        rank: Place in the key's order, 0 = home; absent where the strategy has no order.
        in_flight: Requests in flight on it when it was picked.
        candidates: Targets that could have been picked.
        attempts: Tries made, this one included.
        copy: The copy of the inference component that served it.
        component: Inference component.
        adapter: LoRA adapter on it.
        order: The first targets of the key's own order, in which requests overflow: copies of one instance
            stand together. Absent where the strategy has no order.
        blocks: Whole text blocks of the prompt; this and what follows under KV_AWARE only.
        held_blocks: How many of them, from the first on, it was thought to hold in its cache.
        pending_characters: Of prompts before this one that it had still to compute.
        trust: How well its cache is known.
    """

    instance: str
    variant: str
    strategy: str
    reason: str
    in_flight: int
    candidates: int
    attempts: int
    copy: str = ""
    component: str = ""
    adapter: str = ""
    order: tuple[str, ...] = ()
    rank: int | None = None
    blocks: int | None = None
    held_blocks: int | None = None
    pending_characters: int | None = None
    trust: str | None = None


def receipt(
    record: Invocation, candidates: int, foreseen: Foreseen | None = None, *, instance: str = "",
    order: Sequence[str] = (),
) -> bytes:  # fmt: skip
    """Return the receipt of an invocation's last attempt as one line of JSON.

    Args:
        record: Of the invocation.
        candidates: Targets that could have been picked.
        foreseen: What KV_AWARE knew.
        instance: That carries the target; ``""`` where the target is an instance.
        order: The key's own.
    """
    on_a_copy = instance not in ("", record.target)
    return msgspec.json.encode(
        Receipt(
            instance=instance if on_a_copy else record.target,
            copy=record.target if on_a_copy else "",
            component=record.component,
            adapter=record.adapter,
            order=tuple(order),
            variant=record.variant,
            strategy=record.strategy,
            reason=record.reason,
            in_flight=record.in_flight,
            candidates=candidates,
            attempts=record.attempts,
            rank=record.rank if record.rank >= 0 else None,
            blocks=foreseen.blocks if foreseen else None,
            held_blocks=foreseen.held_blocks if foreseen else None,
            pending_characters=foreseen.pending_characters if foreseen else None,
            trust=foreseen.trust if foreseen else None,
        )
    )
