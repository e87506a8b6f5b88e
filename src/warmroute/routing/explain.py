"""What a decision was made from, for people."""

from warmroute.core.decision import Foreseen, Lease
from warmroute.routing.key import TEXT_BLOCK_CHARACTERS
from warmroute.routing.kvbook import Visit


def foreseen(lease: Lease) -> Foreseen | None:
    """Return what KV_AWARE knew of a lease's target when it was taken; None with another strategy."""
    visit = lease.visit
    if not isinstance(visit, Visit):
        return None
    own = max(visit.characters - visit.depth * TEXT_BLOCK_CHARACTERS, 1)
    return Foreseen(
        blocks=len(visit.chain),
        held_blocks=visit.depth,
        pending_characters=max(round(visit.work) - own, 0),
        trust=visit.shelf.trust.value,
    )
