"""A router that also tells what it was asked and what it answered. The router itself knows nothing of it."""

from collections.abc import Callable, Mapping
from random import Random

from warmroute.core.decision import Assigned, Decision, Lease, RoutingRequest
from warmroute.core.events import AttemptEvent, CacheEvent, FirstToken
from warmroute.core.fleet import Fleet
from warmroute.routing.health import HealthChange
from warmroute.routing.log import (
    UNKNOWN,
    DeadlineMet,
    Decided,
    FleetApplied,
    Health,
    Line,
    SessionAdopted,
    SessionClosed,
    SessionOpened,
    VariantChosen,
    alias,
    attempt_told,
    cache_told,
    in_hex,
    without_secrets,
)
from warmroute.routing.router import EndpointBook, Router, VariantBook
from warmroute.routing.sessions import Session

Note = Callable[[Line], bool]
"""Takes a line; False when it will take no more."""


class RecordedRouter(Router):
    """A `Router` whose calls and answers become the lines of a decision log.

    Args:
        rng: Source of every random choice. The log's first line, written by who made it, has its seed.
        note: Takes each line, right after the call it tells of.
        hide: What stands for a session id.

    Cost:
        Three lines per request; ``docs/how-to/why-did-this-request-go-there.md`` has the time they take.
    """

    def __init__(self, rng: Random, note: Note, *, hide: Callable[[str], str] = alias) -> None:
        super().__init__(rng)
        self._scribe = Scribe(note, hide)

    def apply_fleet(self, fleet: Fleet) -> bool:
        """Replace the fleet, and tell it."""
        applied = super().apply_fleet(fleet)
        if self._scribe.writes:
            self._scribe.fleet_applied(fleet, self.endpoints, applied=applied)
        return applied

    def choose_variant(
        self, endpoint: EndpointBook, target_variant: str | None, *, component: str = "", session: str = ""
    ) -> VariantBook | None:
        """Return the variant that serves an invocation, and tell it."""
        book = super().choose_variant(endpoint, target_variant, component=component, session=session)
        if self._scribe.writes:
            asked = (target_variant, component, session)
            self._scribe.variant_chosen(endpoint, asked, book)
        return book

    def shadow_of(self, endpoint: EndpointBook) -> VariantBook | None:
        """Return the shadow variant that a copy goes to, and tell it."""
        book = super().shadow_of(endpoint)
        if self._scribe.writes and book is not None:
            self._scribe.shadow_chosen(endpoint, book)
        return book

    def decide(
        self, book: VariantBook, request: RoutingRequest, now_ns: int, tried: tuple[str, ...] = ()
    ) -> Decision:
        """Pick a target and reserve a place on it, and tell both the request and the decision."""
        decision = super().decide(book, request, now_ns, tried)
        if self._scribe.writes:
            self._scribe.decided(book, request, now_ns=now_ns, tried=tried, decision=decision)
        return decision

    def apply(self, event: AttemptEvent, now_ns: int) -> HealthChange | None:
        """Fold in what happened to an attempt, and tell it."""
        change = super().apply(event, now_ns)
        if self._scribe.writes:
            self._scribe.attempt_told(event, now_ns=now_ns, change=change)
        return change

    def open_session(self, lease: Lease, session_id: str, deadline_ns: int, now_ns: int) -> bool:
        """Pin a session to the target that has begun it, and tell it."""
        opened = super().open_session(lease, session_id, deadline_ns, now_ns)
        if self._scribe.writes:
            number, session = self._scribe.number_of_lease(lease), self._scribe.hide(session_id)
            self._scribe.tell(SessionOpened(now_ns, number, session, deadline_ns, opened))
        return opened

    def adopt_session(self, endpoint: str, session_id: str, session: Session, now_ns: int) -> bool:
        """Pin a session that was opened elsewhere, and tell it."""
        opened = super().adopt_session(endpoint, session_id, session, now_ns)
        if self._scribe.writes:
            at = (session.variant, session.revision, session.target_id, session.generation)
            told = (endpoint, self._scribe.hide(session_id), *at, session.deadline_ns, opened)
            self._scribe.tell(SessionAdopted(now_ns, *told))
        return opened

    def close_session(self, lease: Lease, session_id: str) -> bool:
        """Forget a session that its model server has closed, and tell it."""
        closed = super().close_session(lease, session_id)
        if self._scribe.writes:
            number, session = self._scribe.number_of_lease(lease), self._scribe.hide(session_id)
            self._scribe.tell(SessionClosed(number, session, closed))
        return closed

    def learn(self, event: CacheEvent, now_ns: int) -> None:
        """Fold in what is known of a target's cache, and tell it."""
        super().learn(event, now_ns)
        if self._scribe.writes:
            self._scribe.tell(cache_told(event, now_ns=now_ns))

    def on_deadline(self, now_ns: int) -> list[HealthChange]:
        """Do what is due, and tell it; a call before the deadline does nothing and is not told."""
        due_ns = self.next_deadline_ns()
        changes = super().on_deadline(now_ns)
        if self._scribe.writes and due_ns is not None and due_ns <= now_ns:
            self._scribe.tell(DeadlineMet(now_ns, tuple(_health(change) for change in changes)))
        return changes


class Scribe:
    """Makes the lines: gives variants and leases their numbers.

    Args:
        note: Takes each line.
        hide: What stands for a session id.

    Attributes:
        writes: Whether lines are still taken.
        hide: As given.
    """

    __slots__ = ("_book_count", "_books", "_lease_count", "_leases", "_note", "hide", "writes")

    def __init__(self, note: Note, hide: Callable[[str], str]) -> None:
        self.writes = True
        self.hide = hide
        self._note = note
        self._books: dict[VariantBook, int] = {}
        self._book_count = 0
        # By their addresses, which stay theirs: a lease that is open is held by its exchange.
        self._leases: dict[int, int] = {}
        self._lease_count = 0

    def tell(self, line: Line) -> None:
        """Pass a line on; after one that is not taken, no more are made."""
        if not self._note(line):
            self.writes = False
            self._books.clear()
            self._leases.clear()

    def fleet_applied(self, fleet: Fleet, endpoints: Mapping[str, EndpointBook], *, applied: bool) -> None:
        """Tell a fleet, and forget the numbers of variants that are gone with nothing open: nobody has them.

        Args:
            fleet: As it came.
            endpoints: As they are now.
            applied: Whether the fleet is in force.
        """
        self.tell(FleetApplied(without_secrets(fleet), applied))
        present = {book for endpoint in endpoints.values() for book in endpoint.books()}
        for book in list(self._books):
            if book not in present and not book.ledger.open_leases:
                del self._books[book]

    def variant_chosen(
        self, endpoint: EndpointBook, asked: tuple[str | None, str, str], book: VariantBook | None
    ) -> None:
        """Tell a choice of a variant.

        Args:
            endpoint: Whose variants.
            asked: TargetVariant, component and session id.
            book: What was chosen.
        """
        variant, component, session = asked
        if variant is not None and not endpoint.named(variant):
            variant = UNKNOWN
        if component and not any(component in each.components for each in endpoint.variants.values()):
            component = UNKNOWN
        told = (endpoint.name, variant, component, self.hide(session))
        if book is None:
            self.tell(VariantChosen(*told))
        else:
            self.tell(VariantChosen(*told, book.name, self._number_of(book), book.revision))

    def shadow_chosen(self, endpoint: EndpointBook, book: VariantBook) -> None:
        """Tell that a copy of an invocation goes to a shadow variant."""
        number = self._number_of(book)
        self.tell(
            VariantChosen(endpoint.name, variant=book.name, book=number, revision=book.revision, shadow=True)
        )

    def decided(
        self, book: VariantBook, request: RoutingRequest, *, now_ns: int, tried: tuple[str, ...],
        decision: Decision,
    ) -> None:  # fmt: skip
        """Tell a request and what was decided."""
        key = "" if request.key is None else f"{request.key:016x}"
        asked = (
            now_ns, self._number_of(book), key, request.characters, in_hex(request.chain),
            request.component, request.adapter, self.hide(request.session), tried,
        )  # fmt: skip
        if not isinstance(decision, Assigned):
            self.tell(Decided(*asked, refusal=decision.refusal.value))
            return
        lease = decision.lease
        self._lease_count += 1
        self._leases[id(lease)] = self._lease_count
        self.tell(
            Decided(
                *asked, self._lease_count, lease.target.target_id, lease.generation, decision.variant,
                decision.strategy.value, decision.reason.value, decision.rank, decision.in_flight,
                decision.candidates,
            )
        )  # fmt: skip

    def attempt_told(self, event: AttemptEvent, *, now_ns: int, change: HealthChange | None) -> None:
        """Tell a fact about an attempt; its lease's number is forgotten with its end."""
        lease = self.number_of_lease(event.lease)
        if not isinstance(event, FirstToken):
            self._leases.pop(id(event.lease), None)
        told = None if change is None else _health(change)
        self.tell(attempt_told(event, now_ns=now_ns, lease=lease, change=told))

    def number_of_lease(self, lease: Lease) -> int:
        """Return a lease's number; 0 for one of which nothing was told."""
        return self._leases.get(id(lease), 0)

    def _number_of(self, book: VariantBook) -> int:
        number = self._books.get(book)
        if number is None:
            self._book_count += 1
            number = self._books[book] = self._book_count
        return number


def _health(change: HealthChange) -> Health:
    return Health(change.target_id, change.generation, change.ejected, change.reason)
