"""Which production variant serves an invocation."""

from collections.abc import Sequence
from random import Random


def draw(weights: Sequence[float], rng: Random) -> int | None:
    """Return a position, drawn in proportion to the weights.

    Args:
        weights: One non-negative weight per variant; 0 receives nothing.
        rng: Source of randomness.

    Returns:
        The position; None when there is no variant or every weight is 0.

    Source:
        sagemaker service model, ProductionVariant: share of traffic = weight / sum of weights.
    """
    if len(weights) == 1:
        return 0 if weights[0] > 0 else None
    total = sum(weights)
    if total <= 0:
        return None
    point = rng.random() * total
    last = None
    for position, weight in enumerate(weights):
        if weight > 0:
            last = position
            point -= weight
            if point < 0:
                break
    return last
