"""What a decision was made from, for people."""

from typing import Final

from warmroute.core.decision import Foreseen, Lease, RoutingRequest
from warmroute.core.fleet import RoutingStrategy
from warmroute.routing.books import VariantBook
from warmroute.routing.key import characters_of
from warmroute.routing.kvbook import Visit
from warmroute.routing.ledger import TargetRow
from warmroute.routing.pool import InstanceRows
from warmroute.routing.rendezvous import weights

ORDER_TOLD_MAX: Final = 8
"""Targets of an order that are told: overflow goes hardly further, and a header has to hold them."""


def foreseen(lease: Lease) -> Foreseen | None:
    """Return what KV_AWARE knew of a lease's target when it was taken; None with another strategy."""
    visit = lease.visit
    if not isinstance(visit, Visit):
        return None
    own = max(visit.characters - characters_of(visit.depth), 1)
    return Foreseen(
        blocks=len(visit.chain),
        held_blocks=visit.depth,
        pending_characters=max(round(visit.work) - own, 0),
        trust=visit.shelf.trust.value,
    )


def order(book: VariantBook, request: RoutingRequest) -> list[str]:
    """Return the first targets of a key's own order, in which PREFIX_AWARE goes on when they are full.

    Args:
        book: The variant.
        request: With its key, component and adapter.

    Returns:
        Target ids, at most `ORDER_TOLD_MAX`; none without a key or with another strategy. Where targets are
        copies, those of the key's first instance come first.
    """
    key = request.key
    if key is None or book.routing.strategy is not RoutingStrategy.PREFIX_AWARE:
        return []
    pool = book.pool_of(request.component, request.adapter)
    rows = _in_order(key, pool.candidates)
    if pool.instances is not None:
        instances = _instances_in_order(key, pool.instances)
        rows = [row for instance in instances[:ORDER_TOLD_MAX] for row in _in_order(key, instance.rows)]
    return [row.target.target_id for row in rows[:ORDER_TOLD_MAX]]


def _in_order(key: int, rows: list[TargetRow]) -> list[TargetRow]:
    scores = weights(key, rows)
    return [rows[at] for at in sorted(range(len(rows)), key=scores.__getitem__, reverse=True)]


def _instances_in_order(key: int, instances: list[InstanceRows]) -> list[InstanceRows]:
    scores = weights(key, instances)
    return [instances[at] for at in sorted(range(len(instances)), key=scores.__getitem__, reverse=True)]
