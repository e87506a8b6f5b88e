"""PREFIX_AWARE: the first candidate below the threshold in the key's own rendezvous order.

Overflow follows the same order every time, so a hot prefix spills to the same second home and warms
it. When every candidate is at or above the threshold the least loaded one takes the request.

Source: sagemaker service model, PrefixAwareRoutingConfig (the threshold is reached at
in-flight >= ConcurrencyThreshold); where AWS is silent, ``docs/policies/prefix-aware.md``.
"""

from collections.abc import Sequence
from random import Random

from warmroute.core.decision import Reason
from warmroute.routing.ledger import TargetRow
from warmroute.routing.policies.least_outstanding import pick_least_outstanding
from warmroute.routing.rendezvous import order, weights


def pick_prefix_aware(
    candidates: Sequence[TargetRow], rng: Random, *, key: int | None, threshold: int
) -> tuple[TargetRow, Reason, int]:
    """Return a candidate (of at least one), the reason, and its rank in the key's order.

    Args:
        candidates: Targets that may be picked.
        rng: Breaks ties where load decides.
        key: Routing key; None for a request without any text, which load decides.
        threshold: In-flight count at which a target is passed over.

    Cost:
        One hash per candidate; the full order is sorted only when the home is full.
    """
    if key is None:
        row, _, _ = pick_least_outstanding(candidates, rng)
        return row, Reason.NO_KEY, -1
    scores = weights(key, [row.name for row in candidates])
    home = candidates[scores.index(max(scores))]
    if home.in_flight < threshold:
        return home, Reason.AFFINITY, 0
    ranked = order(scores)
    for rank, position in enumerate(ranked):
        row = candidates[position]
        if row.in_flight < threshold:
            return row, Reason.OVERFLOW, rank
    row, _, _ = pick_least_outstanding(candidates, rng)
    return row, Reason.SATURATED, ranked.index(candidates.index(row))
