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
from warmroute.routing.rendezvous import rank, weights


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
        One hash per candidate, and when the home is full one look at every candidate. Nothing is sorted.
    """
    if key is None:
        row, _, _ = pick_least_outstanding(candidates, rng)
        return row, Reason.NO_KEY, -1
    scores = weights(key, candidates)
    home = candidates[scores.index(max(scores))]
    if home.in_flight < threshold:
        return home, Reason.AFFINITY, 0
    below = [position for position, row in enumerate(candidates) if row.in_flight < threshold]
    if below:
        position = max(below, key=scores.__getitem__)
        return candidates[position], Reason.OVERFLOW, rank(scores, position)
    row, _, _ = pick_least_outstanding(candidates, rng)
    return row, Reason.SATURATED, rank(scores, candidates.index(row))
