"""Where an adapter is loaded first: no copy has it, whatever the variant's strategy.

The first in the adapter's own rendezvous order over the copies of its base component, so that every
router and every request picks the same one until it is loaded there; with a threshold, the first that has
room. Nothing is known of SageMaker's rule but that an adapter's requests stay on a sticky set of instances.
"""

from collections.abc import Sequence
from random import Random
from sys import maxsize

from warmroute.core.decision import Reason
from warmroute.routing.ledger import TargetRow
from warmroute.routing.policies.prefix_aware import pick_prefix_aware
from warmroute.routing.pool import InstanceRows


def pick_for_cold_adapter(
    candidates: Sequence[TargetRow],
    rng: Random,
    *,
    key: int,
    threshold: int | None,
    instances: Sequence[InstanceRows] | None,
) -> tuple[TargetRow, Reason, int]:
    """Return a candidate (of at least one), the reason, and its rank in the adapter's order.

    Args:
        candidates: Copies of the base component.
        rng: Breaks ties where load decides.
        key: The adapter's, from `order_key`.
        threshold: In-flight count at which a copy is passed over; None for never.
        instances: The candidates by instance, where they are copies on instances.
    """
    row, _, rank = pick_prefix_aware(
        candidates, rng, key=key, threshold=maxsize if threshold is None else threshold, instances=instances
    )
    return row, Reason.ADAPTER_NOT_LOADED, rank
