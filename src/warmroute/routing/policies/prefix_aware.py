"""PREFIX_AWARE: the first candidate below the threshold in the key's own rendezvous order.

Overflow follows the same order every time, so a hot prefix spills to the same second home and warms
it. When every candidate is at or above the threshold the least loaded one takes the request.

Where candidates are copies on instances, the order is that of the instances, and within each that of its
copies: a prefix has one home copy, overflows to the other copies on the same instance first, and leaves
the instance only when all of them are full.

Source: sagemaker service model, PrefixAwareRoutingConfig (the threshold is reached at
in-flight >= ConcurrencyThreshold); where AWS is silent, ``docs/policies/prefix-aware.md``.
"""

from collections.abc import Sequence
from random import Random
from typing import Final

from warmroute.core.decision import Reason
from warmroute.routing.ledger import TargetRow
from warmroute.routing.policies.least_outstanding import pick_least_outstanding
from warmroute.routing.pool import InstanceRows
from warmroute.routing.rendezvous import rank, weights

# Bound once: on Python 3.11 to look a member up in its enum takes 0.1 µs.
_AFFINITY: Final = Reason.AFFINITY
_OVERFLOW: Final = Reason.OVERFLOW
_SATURATED: Final = Reason.SATURATED


def pick_prefix_aware(
    candidates: Sequence[TargetRow],
    rng: Random,
    *,
    key: int | None,
    threshold: int,
    instances: Sequence[InstanceRows] | None = None,
) -> tuple[TargetRow, Reason, int]:
    """Return a candidate (of at least one), the reason, and its rank in the key's order.

    Args:
        candidates: Targets that may be picked.
        rng: Breaks ties where load decides.
        key: Routing key; None for a request without any text, which load decides.
        threshold: In-flight count at which a target is passed over.
        instances: The candidates by instance, where they are copies on instances.

    Cost:
        One hash per candidate, and when the home is full one look at every candidate. With copies, one per
        instance and one per copy of the instance that is picked. Nothing is sorted.
    """
    if key is None:
        row, _, _ = pick_least_outstanding(candidates, rng)
        return row, Reason.NO_KEY, -1
    if instances is not None:
        return _pick_copy(candidates, instances, rng, key=key, threshold=threshold)
    scores = weights(key, candidates)
    home = candidates[scores.index(max(scores))]
    if home.in_flight < threshold:
        return home, _AFFINITY, 0
    below = [position for position, row in enumerate(candidates) if row.in_flight < threshold]
    if below:
        position = max(below, key=scores.__getitem__)
        return candidates[position], _OVERFLOW, rank(scores, position)
    row, _, _ = pick_least_outstanding(candidates, rng)
    return row, _SATURATED, rank(scores, candidates.index(row))


def _pick_copy(
    candidates: Sequence[TargetRow],
    instances: Sequence[InstanceRows],
    rng: Random,
    *,
    key: int,
    threshold: int,
) -> tuple[TargetRow, Reason, int]:
    scores = weights(key, instances)
    home = instances[scores.index(max(scores))].rows
    row = home[0]
    if len(home) > 1:
        copy_scores = weights(key, home)
        row = home[copy_scores.index(max(copy_scores))]
    only = len(instances) == 1
    if row.in_flight < threshold:
        return row, Reason.ONLY_INSTANCE if only else _AFFINITY, 0
    below = [row for row in candidates if row.in_flight < threshold]
    if below:
        roomy = {row.target.instance_id for row in below}
        places = [place for place, at in enumerate(instances) if at.instance_id in roomy]
        copies = [
            row for row in instances[max(places, key=scores.__getitem__)].rows if row.in_flight < threshold
        ]
        row = copies[0]
        if len(copies) > 1:
            copy_scores = weights(key, copies)
            row = copies[copy_scores.index(max(copy_scores))]
        reason: Reason = _OVERFLOW
    else:
        row, _, _ = pick_least_outstanding(candidates, rng)
        reason = _SATURATED
    return row, Reason.ONLY_INSTANCE if only else reason, _rank(row, instances, scores, key)


def _rank(row: TargetRow, instances: Sequence[InstanceRows], scores: Sequence[int], key: int) -> int:
    """Return how many copies come before a row: those on earlier instances, and earlier ones on its own."""
    instance_id = row.target.instance_id
    (place,) = [place for place, at in enumerate(instances) if at.instance_id == instance_id]
    mine, copies = scores[place], instances[place].rows
    earlier = sum([len(instances[other].rows) for other, score in enumerate(scores) if score > mine])
    return earlier + rank(weights(key, copies), copies.index(row))
