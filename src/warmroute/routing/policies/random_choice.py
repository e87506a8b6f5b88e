"""RANDOM: uniform over the candidates."""

from collections.abc import Sequence
from random import Random

from warmroute.core.decision import Reason
from warmroute.routing.ledger import TargetRow


def pick_random(candidates: Sequence[TargetRow], rng: Random) -> tuple[TargetRow, Reason, int]:
    """Return any of the candidates (at least one), the reason, and no rank."""
    return candidates[int(rng.random() * len(candidates))], Reason.RANDOM, -1
