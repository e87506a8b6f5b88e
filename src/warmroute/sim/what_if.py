"""Asks another strategy about the requests of a decision log: how many would have gone elsewhere?

Requests come and end when they did. How long they would have taken elsewhere nobody knows, so this tells
where they would have gone, not how fast they would have been.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from random import Random
from typing import assert_never

from warmroute.core.decision import Assigned, Lease
from warmroute.core.events import AttemptEvent, Cancelled, Completed, Failed, FirstToken
from warmroute.core.fleet import Endpoint, Fleet, Routing, RoutingStrategy, Variant
from warmroute.routing.log import (
    AttemptTold,
    Began,
    CacheTold,
    DeadlineMet,
    Decided,
    Ended,
    FleetApplied,
    Line,
    LogError,
    SessionAdopted,
    SessionClosed,
    SessionOpened,
    VariantChosen,
    asked_of,
    attempt_event,
)
from warmroute.routing.router import Router, VariantBook
from warmroute.sim.replay import ReplayError, read, seed_of, tell


@dataclass(slots=True)
class WhatIf:
    """What came of it.

    Attributes:
        requests: First attempts that were assigned; attempts after a failure are not asked about.
        elsewhere: How many of them would have gone to another target, or to none.
        without_key: How many have no routing key in the log.
        recorded: Requests by target, as they went.
        imagined: Requests by target, as they would have gone.
    """

    requests: int = 0
    elsewhere: int = 0
    without_key: int = 0
    recorded: Counter[str] = field(default_factory=Counter)
    imagined: Counter[str] = field(default_factory=Counter)


class _Imagined:
    """A router with another strategy, and the recorded leases as it has them."""

    def __init__(self, routing: Routing, rng: Random) -> None:
        self.found = WhatIf()
        self._routing = routing
        self._router = Router(rng)
        self._books: dict[int, VariantBook] = {}
        self._shadows: set[int] = set()
        self._leases: dict[int, tuple[Lease, str]] = {}

    def take(self, line: Line) -> None:
        """Go on by one line."""
        router = self._router
        match line:
            case FleetApplied():
                router.apply_fleet(self._other(line.fleet))
            case VariantChosen() if line.book:
                self._choose(line)
            case Decided() if line.lease and not line.tried and line.book not in self._shadows:
                self._decide(line)
            case AttemptTold() | SessionOpened() | SessionClosed() if line.lease in self._leases:
                self._tell(line, *self._leases[line.lease])
            case CacheTold() | DeadlineMet() | SessionAdopted():
                tell(router, line)
            case Began() | Ended() | VariantChosen() | Decided():
                pass
            case AttemptTold() | SessionOpened() | SessionClosed():
                pass  # about an attempt that was not asked about
            case _:
                assert_never(line)

    def _choose(self, line: VariantChosen) -> None:
        """The draw between variants, and between a variant's revisions, is none of the strategy's."""
        if line.shadow:  # copies are no requests; their decisions are left out
            self._shadows.add(line.book)
            return
        book = self._router.endpoints[line.endpoint].variants.get((line.variant, line.revision))
        if book is not None:
            self._books[line.book] = book

    def _decide(self, line: Decided) -> None:
        found = self.found
        decision = self._router.decide(self._books[line.book], asked_of(line), line.now_ns)
        found.requests += 1
        found.without_key += not line.key
        found.recorded[line.target] += 1
        if isinstance(decision, Assigned):
            target_id = decision.target.target_id
            found.imagined[target_id] += 1
            found.elsewhere += target_id != line.target
            self._leases[line.lease] = decision.lease, line.target
        else:
            found.elsewhere += 1

    def _tell(self, line: AttemptTold | SessionOpened | SessionClosed, lease: Lease, recorded: str) -> None:
        match line:
            case AttemptTold():
                event = attempt_event(line, lease)
                if lease.target.target_id != recorded:
                    event = _without_blame(event)
                self._router.apply(event, line.now_ns)
                if not isinstance(event, FirstToken):
                    del self._leases[line.lease]
            case SessionOpened():
                self._router.open_session(lease, line.session, line.deadline_ns, line.now_ns)
            case SessionClosed():
                self._router.close_session(lease, line.session)
            case _:
                assert_never(line)

    def _other(self, fleet: Fleet) -> Fleet:
        return replace(fleet, endpoints=tuple(self._other_endpoint(each) for each in fleet.endpoints))

    def _other_endpoint(self, endpoint: Endpoint) -> Endpoint:
        return replace(endpoint, variants=tuple(self._other_variant(each) for each in endpoint.variants))

    def _other_variant(self, variant: Variant) -> Variant:
        routing = self._routing
        if routing.strategy is RoutingStrategy.PREFIX_AWARE and routing.concurrency_threshold is None:
            threshold = variant.routing.concurrency_threshold
            if threshold is None:
                raise ReplayError(
                    f"variant {variant.name} has no ConcurrencyThreshold in the log; say which one to assume "
                    "with --set concurrency_threshold=N"
                )
            routing = replace(routing, concurrency_threshold=threshold)
        return replace(variant, routing=replace(routing, prefix_length=variant.routing.prefix_length))


def _without_blame(event: AttemptEvent) -> AttemptEvent:
    """Return what an attempt's fact says about a target that it never was on."""
    match event:
        case Completed():
            return Completed(event.lease)
        case Failed():
            return Cancelled(event.lease)
        case FirstToken() | Cancelled():
            return event
        case _:
            assert_never(event)


def what_if(data: Iterable[bytes], strategy: RoutingStrategy, *, threshold: int | None = None) -> WhatIf:
    """Let another strategy decide about the requests of a log.

    Args:
        data: The file, line by line, with the line feeds.
        strategy: Which one.
        threshold: Of PREFIX_AWARE; None for the variants' own.

    Raises:
        ReplayError: The log is none or damaged, or a variant has no threshold.
    """
    lines = read(data)
    number, began = next(lines)
    assert isinstance(began, Began), "read returns it first"
    try:
        rng = Random(seed_of(began))  # noqa: S311  (ties and draws)
        imagined = _Imagined(Routing(strategy, concurrency_threshold=threshold), rng)
        for number, line in lines:  # noqa: B007  (named in the error)
            imagined.take(line)
    except LogError as error:
        raise ReplayError(f"line {number}: {error}") from error
    except KeyError as error:
        raise ReplayError(
            f"line {number}: it speaks of {error}, of which the log has not told before"
        ) from None
    return imagined.found
