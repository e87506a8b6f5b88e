"""Taking the lease that a decision names, and telling KV_AWARE how its attempt goes."""

from typing import Final

from warmroute.core.decision import Assigned, Reason, RoutingRequest
from warmroute.core.events import AttemptEvent, Completed, Failed, FailureCause, FirstToken
from warmroute.routing.books import VariantBook
from warmroute.routing.kvbook import Visit
from warmroute.routing.ledger import TargetRow

_NOBODY_THERE: Final = (FailureCause.CONNECT_FAILED, FailureCause.LOADING)
"""What a target answers whose server is away or has just begun: it may have lost its cache."""


def note_visit(event: AttemptEvent, book: VariantBook, row: TargetRow | None, now_ns: int) -> None:
    """Let KV_AWARE know how an attempt goes, unless what it knew of the target is void by now."""
    visit = event.lease.visit
    assert isinstance(visit, Visit), "visits come from decide"
    kv = book.kv
    if kv is None or row is None or row.shelf is not visit.shelf:
        return
    if isinstance(event, FirstToken):
        kv.computed(visit, now_ns)
    else:
        kv.ended(visit, now_ns, event if isinstance(event, Completed) else None)
        if isinstance(event, Failed) and event.cause in _NOBODY_THERE:
            kv.away(visit.shelf)


def assign(
    book: VariantBook,
    row: TargetRow,
    reason: Reason,
    *,
    rank: int,
    candidates: int,
    request: RoutingRequest | None = None,
    now_ns: int = 0,
    adapter: str = "",
) -> Assigned:
    """Reserve a place on the row that was picked; with a request, for a strategy that did not pick it."""
    in_flight = row.in_flight
    lease = book.ledger.take(row, book, adapter)
    if request is not None and book.kv is not None and row.shelf is not None:
        lease.visit = book.kv.sent_anyhow(row.shelf, request, now_ns)
    if row.health.probation:
        row.probe = lease
    return Assigned(
        lease=lease, variant=book.name, strategy=book.routing.strategy, reason=reason,
        rank=rank, in_flight=in_flight, candidates=candidates,
    )  # fmt: skip
