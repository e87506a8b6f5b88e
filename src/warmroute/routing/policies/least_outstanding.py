"""LEAST_OUTSTANDING_REQUESTS: the exact minimum of in-flight requests, ties at random."""

from collections.abc import Sequence
from random import Random
from typing import Final

from warmroute.core.decision import Reason
from warmroute.routing.ledger import TargetRow

_LEAST_OUTSTANDING: Final = Reason.LEAST_OUTSTANDING
"""Bound once: on Python 3.11 to look a member up in its enum takes 0.1 µs."""


def pick_least_outstanding(candidates: Sequence[TargetRow], rng: Random) -> tuple[TargetRow, Reason, int]:
    """Return a candidate (of at least one) with the fewest requests in flight, the reason, and no rank.

    Ties are broken at random: at low load most decisions are ties, and the first of the list would
    take them all.
    """
    least = min([row.in_flight for row in candidates])
    ties = [row for row in candidates if row.in_flight == least]
    return ties[int(rng.random() * len(ties))], _LEAST_OUTSTANDING, -1
