"""The router's face: decide and reserve in one step, and fold facts back in.

No await, no clock, no hidden randomness: time and the random source are given. Live, asyncio calls
it; in a simulation a heap of events does.
"""

from collections.abc import Sequence
from random import Random
from typing import Final, assert_never

from warmroute.core.decision import (
    NEW_SESSION,
    Decision,
    Lease,
    Reason,
    Refusal,
    Refused,
    RoutingRequest,
)
from warmroute.core.events import (
    AttemptEvent,
    CacheEvent,
    Cancelled,
    Completed,
    Failed,
    FirstToken,
)
from warmroute.core.fleet import Fleet, RoutingStrategy, Target, TargetState
from warmroute.routing import variants
from warmroute.routing.adapter_sets import busy_from, wants_growth
from warmroute.routing.assigning import assign, note_visit
from warmroute.routing.books import KV_TUNING, EndpointBook, VariantBook
from warmroute.routing.health import HealthChange
from warmroute.routing.key import order_key
from warmroute.routing.kvbook import KvTuning
from warmroute.routing.ledger import TargetRow
from warmroute.routing.policies.cold_adapter import pick_for_cold_adapter
from warmroute.routing.policies.kv_aware import pick_kv_aware
from warmroute.routing.policies.least_outstanding import pick_least_outstanding
from warmroute.routing.policies.prefix_aware import pick_prefix_aware
from warmroute.routing.policies.random_choice import pick_random
from warmroute.routing.pool import InstanceRows, Pool, by_instance
from warmroute.routing.sessions import Session, SessionTable

# Bound once: on Python 3.11 to look a member up in its enum takes 0.1 µs, and a decision needs several.
_PREFIX_AWARE: Final = RoutingStrategy.PREFIX_AWARE
_LEAST_OUTSTANDING_REQUESTS: Final = RoutingStrategy.LEAST_OUTSTANDING_REQUESTS
_RANDOM: Final = RoutingStrategy.RANDOM
_KV_AWARE: Final = RoutingStrategy.KV_AWARE
_ONLY_CANDIDATE: Final = Reason.ONLY_CANDIDATE

__all__ = ["EndpointBook", "Router", "VariantBook"]


class Router:
    """Decides where attempts go.

    Args:
        rng: Source of every random choice.
        tuning: The numbers in KV_AWARE's rule.
    """

    def __init__(self, rng: Random, tuning: KvTuning = KV_TUNING) -> None:
        self._rng = rng
        self._tuning = tuning
        self.endpoints: dict[str, EndpointBook] = {}
        self.fleet_version = 0
        self.routers = 1
        self.adapters_wanted: dict[tuple[str, str, str], int] = {}
        """By endpoint, base component and adapter: places of a set that are all busy. Others empty it."""
        self.sessions = SessionTable()
        # Books of variants that are gone but have open leases, by endpoint, variant and revision.
        self._retired: dict[tuple[str, str, int], VariantBook] = {}

    # --- the fleet --------------------------------------------------------------------------
    def apply_fleet(self, fleet: Fleet) -> bool:
        """Replace the fleet; False when this version, or a newer one, is in force already.

        Rows of targets that stay keep their leases and health. Rows of targets that leave stay
        until their leases are released, those of variants and endpoints that leave as well: one that
        comes back by then finds its targets as loaded as they are.
        """
        if fleet.version <= self.fleet_version:
            return False
        self.fleet_version = fleet.version
        self.routers = max(fleet.routers, 1)
        names = set()
        for endpoint in fleet.endpoints:
            names.add(endpoint.name)
            book = self.endpoints.setdefault(endpoint.name, EndpointBook(endpoint.name))
            for gone in book.renew(endpoint, self._retired, self._tuning):
                self._retire(gone)
        for name in [name for name in self.endpoints if name not in names]:
            for variant_book in self.endpoints.pop(name).books():
                self._retire(variant_book)
        self._retired = {at: book for at, book in self._retired.items() if book.ledger.open_leases}
        for each in self._books():
            if each.kv is not None:
                each.kv.routers = fleet.routers
        return True

    def _retire(self, book: VariantBook) -> None:
        book.retire()
        if book.ledger.open_leases:
            self._retired[book.endpoint, book.name, book.revision] = book

    # --- deciding ---------------------------------------------------------------------------
    def choose_variant(
        self, endpoint: EndpointBook, target_variant: str | None, *, component: str = "", session: str = ""
    ) -> VariantBook | None:
        """Return the revision of a variant that serves an invocation; None when there is none (of that name).

        Args:
            endpoint: Where the invocation goes.
            target_variant: TargetVariant; overrides the draw among variants, whatever their weights.
            component: Inference component or adapter it names: only variants that have it count, and with
                one that has it nothing is left to draw.
            session: SessionId; an open session is served by the variant that it was opened on.
        """
        if session and (pinned := self.sessions.find(endpoint.name, session)) is not None:
            book = endpoint.variants.get((pinned.variant, pinned.revision))
            if book is not None and target_variant in (None, book.name):
                return book
        if target_variant is not None:
            return self._draw_revision(endpoint.named(target_variant))
        books = list(endpoint.variants.values())
        if component:
            books = [book for book in books if component in book.components]
        if len(books) == 1:  # nearly every endpoint
            return books[0] if books[0].weight > 0 else None
        position = variants.draw([book.weight for book in books], self._rng)
        return None if position is None else books[position]

    def _draw_revision(self, books: list[VariantBook]) -> VariantBook | None:
        """Return one of a variant's revisions, by their shares; the first where none has a share."""
        if len(books) < 2:
            return books[0] if books else None
        return books[variants.draw([book.share for book in books], self._rng) or 0]

    def shadow_of(self, endpoint: EndpointBook) -> VariantBook | None:
        """Return the shadow variant that a copy of an invocation goes to; None when there is none."""
        return endpoint.shadow

    def decide(
        self, book: VariantBook, request: RoutingRequest, now_ns: int, tried: tuple[str, ...] = ()
    ) -> Decision:
        """Pick a target and reserve a place on it, in one step.

        Args:
            book: From `choose_variant`.
            request: What is known of it.
            now_ns: Monotonic time.
            tried: Target ids this invocation has failed on already.

        Returns:
            An assignment whose lease must be given back through `apply`, or a refusal.

        Cost:
            1-4 µs at 7 targets; under KV_AWARE 10 to 30, as `pick_kv_aware` says.
        """
        pool, adapter = book.pool, ""
        if request.component or request.adapter or request.session:
            special = self._decide_special(book, request, now_ns, tried)
            if special is not None:
                return special
            adapter = request.adapter
            pool = book.pool_of(request.component, adapter)
        candidates, instances = pool.candidates, pool.instances
        if tried or pool.on_probation or not candidates:
            elsewhere = self._elsewhere(book, request, now_ns, tried)
            if elsewhere is not None:
                return elsewhere
            candidates = pool.free(tried)
            if instances is not None:
                instances = by_instance(candidates)
        reason: Reason
        kv = book.kv
        if len(candidates) == 1:
            has_order = request.key is not None and book.prefix_length > 0
            row, reason, rank = candidates[0], _ONLY_CANDIDATE, 0 if has_order else -1
        elif kv is not None and (request.chain or request.key is not None):
            row, reason, rank, depth = pick_kv_aware(candidates, request, kv, now_ns)
            decision = assign(book, row, reason, rank=rank, candidates=len(candidates), adapter=adapter)
            if adapter:
                self._watch_set(book, request.component, adapter, pool)
            assert row.shelf is not None, "rows of a KV_AWARE variant have shelves"
            decision.lease.visit = kv.sent(row.shelf, request, depth, at_home=rank == 0, now_ns=now_ns)
            return decision
        else:
            row, reason, rank = self._pick(book, request, candidates, instances)
        decision = assign(
            book, row, reason, rank=rank, candidates=len(candidates), request=request, now_ns=now_ns,
            adapter=adapter,
        )  # fmt: skip
        if adapter:
            self._watch_set(book, request.component, adapter, pool)
        return decision

    def _watch_set(self, book: VariantBook, component: str, adapter: str, pool: Pool) -> None:
        """Note that an adapter's set is too small, when every place of it is busy."""
        busy = busy_from(book.routing.concurrency_threshold, self.routers)
        if wants_growth(pool, book.pool_of(component), busy):
            self.adapters_wanted[book.endpoint, component, adapter] = len(pool.serving)

    def _elsewhere(
        self, book: VariantBook, request: RoutingRequest, now_ns: int, tried: tuple[str, ...]
    ) -> Decision | None:
        """Decide for another revision, or refuse; None when a target of this one may be picked."""
        other = self._takes_over(book, request, tried)
        if other is not None:
            return Router.decide(self, other, request, now_ns, tried)
        if book.pool_of(request.component, request.adapter).free(tried):
            return None
        return Refused(self._why_not(book, request.component, tried))

    def _takes_over(
        self, book: VariantBook, request: RoutingRequest, tried: tuple[str, ...]
    ) -> VariantBook | None:
        """Return another revision of a variant, for what this one cannot serve or has failed more often.

        So a deployment costs no request, however bad its model: until control turns it back, what the new
        instances refuse goes to the old ones. What began on one that has left goes to the one that is there.
        """
        endpoint = self.endpoints.get(book.endpoint)
        others = [] if endpoint is None else [each for each in endpoint.named(book.name) if each is not book]
        if not others:
            return None
        failed = book.count_of(tried)
        nothing = not book.pool_of(request.component, request.adapter).free(tried)
        for other in others:
            if not other.pool_of(request.component, request.adapter).free(tried):
                continue
            if nothing or other.count_of(tried) < failed:
                return other
        return None

    def _pick(
        self,
        book: VariantBook,
        request: RoutingRequest,
        candidates: Sequence[TargetRow],
        instances: Sequence[InstanceRows] | None,
    ) -> tuple[TargetRow, Reason, int]:
        """Return what the variant's strategy picks of two candidates or more, the reason and the rank."""
        strategy = book.routing.strategy
        if strategy is _PREFIX_AWARE:
            threshold = book.routing.concurrency_threshold
            assert threshold is not None, "control validates RoutingConfig"
            return pick_prefix_aware(
                candidates, self._rng, key=request.key, threshold=threshold, instances=instances
            )
        if strategy is _LEAST_OUTSTANDING_REQUESTS:
            return pick_least_outstanding(candidates, self._rng)
        if strategy is _RANDOM:
            return pick_random(candidates, self._rng)
        if strategy is _KV_AWARE:  # a request without text: nothing of it can be cached
            row, _, rank = pick_least_outstanding(candidates, self._rng)
            return row, Reason.NO_KEY, rank
        assert_never(strategy)

    def _decide_special(
        self, book: VariantBook, request: RoutingRequest, now_ns: int, tried: tuple[str, ...]
    ) -> Decision | None:
        """Decide what comes before any strategy; None when the strategy decides."""
        if request.session == NEW_SESSION:
            if self.sessions.full(now_ns):
                return Refused(Refusal.SESSIONS_FULL)
        elif request.session:
            return self._resume(book, request, now_ns, tried)
        if not request.adapter or book.pool_of(request.component, request.adapter).free(tried):
            return None
        candidates = book.pool_of(request.component).free(tried)
        if not candidates:
            return None
        row, reason, rank = pick_for_cold_adapter(
            candidates,
            self._rng,
            key=order_key(book.head_of(request.component, request.adapter)),
            threshold=book.routing.concurrency_threshold,
            instances=by_instance(candidates),
        )
        return assign(
            book, row, reason, rank=rank, candidates=len(candidates), request=request, now_ns=now_ns
        )

    def _resume(
        self, book: VariantBook, request: RoutingRequest, now_ns: int, tried: tuple[str, ...]
    ) -> Decision:
        """Send a session's request to the target that knows of it, which may be draining, or to none."""
        session = self.sessions.find(book.endpoint, request.session)
        if session is None or session.deadline_ns <= now_ns:
            return Refused(Refusal.SESSION_UNKNOWN)
        row = self._pinned_row(book.endpoint, session)
        if row is None:
            return Refused(Refusal.SESSION_GONE)
        if row is not book.rows.get(session.target_id) or row.target.component != request.component:
            return Refused(Refusal.SESSION_UNKNOWN)  # not on this variant, or not of this component
        if session.target_id in tried:
            return Refused(Refusal.ALL_TRIED)
        without = request.adapter and request.adapter not in row.target.adapters
        if without or row.target.state is TargetState.STARTING or row.health.ejected or row.probing:
            return Refused(Refusal.SESSION_UNAVAILABLE)
        return assign(
            book, row, Reason.SESSION, rank=-1, candidates=1, request=request, now_ns=now_ns,
            adapter=request.adapter,
        )  # fmt: skip

    def _pinned_row(self, endpoint: str, session: Session) -> TargetRow | None:
        """Return the row of a session's target; None when it left or was started anew."""
        known = self.endpoints.get(endpoint)
        book = None if known is None else known.variants.get((session.variant, session.revision))
        row = None if book is None else book.rows.get(session.target_id)
        if row is None or row.gone or row.target.generation != session.generation:
            return None
        return row

    def _why_not(self, book: VariantBook, component: str, tried: tuple[str, ...]) -> Refusal:
        serving = book.pool_of(component).serving
        if not serving:
            return Refusal.NO_COPY if component else Refusal.NO_TARGET
        if all(row.target.target_id in tried for row in serving):
            return Refusal.ALL_TRIED
        return Refusal.ALL_EJECTED

    # --- sessions ---------------------------------------------------------------------------
    def open_session(self, lease: Lease, session_id: str, deadline_ns: int, now_ns: int) -> bool:
        """Pin a session to the target that has begun it.

        Args:
            lease: Of the attempt that the model server answered with the session's id. The target may have
                begun to drain meanwhile: the session is its own all the same.
            session_id: As the model server named it.
            deadline_ns: When the model server ends it, in monotonic time.
            now_ns: Monotonic time.

        Returns:
            Whether requests with this id go there from now on; see `SessionTable.open`. False also for the
            id of a session that is open on another target, whose requests would get into this one.
        """
        book = lease.book
        assert isinstance(book, VariantBook), "leases come from decide"
        known = self.sessions.find(book.endpoint, session_id)
        if known is not None and known.deadline_ns > now_ns:
            row = self._pinned_row(book.endpoint, known)
            if row is not None and row is not book.rows.get(lease.target.target_id):
                return False
        target_id, generation = lease.target.target_id, lease.generation
        pinned = Session(book.name, target_id, generation, deadline_ns, book.revision)
        return self.sessions.open(book.endpoint, session_id, pinned, now_ns)

    def adopt_session(self, endpoint: str, session_id: str, session: Session, now_ns: int) -> bool:
        """Pin a session that another router has opened, or this one before it was started anew.

        Args:
            endpoint: Where it was opened.
            session_id: As its caller names it.
            session: What it was pinned to; whether that is still there is found out by `decide`.
            now_ns: Monotonic time.

        Returns:
            Whether requests with this id go there from now on; see `SessionTable.open`.
        """
        return self.sessions.open(endpoint, session_id, session, now_ns)

    def close_session(self, lease: Lease, session_id: str) -> bool:
        """Forget a session that its model server has closed.

        Args:
            lease: Of the attempt that the model server answered with the id of the closed session.
            session_id: Which one.

        Returns:
            Whether it was open on that target; a model server cannot close the sessions of another.
        """
        book = lease.book
        assert isinstance(book, VariantBook), "leases come from decide"
        session = self.sessions.find(book.endpoint, session_id)
        here = (book.name, book.revision, lease.target.target_id, lease.generation)
        if session is None:
            return False
        if (session.variant, session.revision, session.target_id, session.generation) != here:
            return False
        self.sessions.close(book.endpoint, session_id)
        return True

    # --- folding facts in -------------------------------------------------------------------
    def apply(self, event: AttemptEvent, now_ns: int) -> HealthChange | None:
        """Release the attempt's lease when it has ended, and note what the event says about its target.

        Returns:
            A change of the target's health that others should know of.
        """
        lease = event.lease
        book = lease.book
        assert isinstance(book, VariantBook), "leases come from decide"
        row = book.rows.get(lease.target.target_id)
        if isinstance(event, FirstToken):
            if lease.visit is not None:
                note_visit(event, book, row, now_ns)
            return None
        if not book.ledger.release(lease, row):
            return None
        assert row is not None, "a lease that counted has a row"
        if lease.visit is not None:
            note_visit(event, book, row, now_ns)
        from_before = row.health.probation and lease is not row.probe
        if lease is row.probe:
            row.probe = None
        if row.gone:
            if row.in_flight == 0:
                del book.rows[lease.target.target_id]
            return None
        if from_before:
            return None  # a request from before the ejection says nothing about now
        return self._note(event, book, row, now_ns)

    def learn(self, event: CacheEvent, now_ns: int) -> None:
        """Fold in what an engine told of its cache; void for a target or a generation that is gone."""
        for book in self._books():
            row = book.rows.get(event.target_id)
            if row is None or row.shelf is None or row.target.generation != event.generation:
                continue
            assert book.kv is not None, "only rows of a KV_AWARE variant have shelves"
            book.kv.learn(row.shelf, event, now_ns)

    def _note(
        self, event: Completed | Failed | Cancelled, book: VariantBook, row: TargetRow, now_ns: int
    ) -> HealthChange | None:
        target_id, generation = row.target.target_id, row.target.generation
        match event:
            case Cancelled():
                return None
            case Completed():
                if not row.health.succeed():
                    return None
                change = HealthChange(target_id, generation, ejected=False, reason="recovered")
            case Failed(_, cause):
                serving = book.pool_of(row.target.component).serving
                others = sum(1 for other in serving if other.health.ejected)
                if not row.health.fail(cause, now_ns=now_ns, others_ejected=others, targets=len(serving)):
                    return None
                change = HealthChange(target_id, generation, ejected=True, reason=cause.value)
        book.refresh()
        return change

    # --- time -------------------------------------------------------------------------------
    def next_deadline_ns(self) -> int | None:
        """Return when `on_deadline` wants to be called; None for not at all."""
        deadlines = [
            row.health.until_ns for book in self._books() for row in book.rows.values() if row.health.ejected
        ]
        if (session_ns := self.sessions.next_deadline_ns()) is not None:
            deadlines.append(session_ns)
        return min(deadlines, default=None)

    def on_deadline(self, now_ns: int) -> list[HealthChange]:
        """End the ejections and the sessions that are over."""
        self.sessions.expire(now_ns)
        changes = []
        for book in self._books():
            due = [row for row in book.rows.values() if row.health.ejected and row.health.until_ns <= now_ns]
            for row in due:
                row.health.parole()
                target = row.target
                changes.append(
                    HealthChange(target.target_id, target.generation, ejected=False, reason="probation")
                )
            if due:
                book.refresh()
        return changes

    # --- looking ----------------------------------------------------------------------------
    def _books(self) -> list[VariantBook]:
        return [book for endpoint in self.endpoints.values() for book in endpoint.books()]

    def open_leases(self) -> int:
        """Return the leases taken and not released, over everything: the audit's one side."""
        return sum(book.ledger.open_leases for book in (*self._books(), *self._retired.values()))

    def adapter_leases(self) -> list[tuple[Target, str, int, int]]:
        """Return target, adapter, open leases and leases ever taken, wherever an adapter was asked for."""
        return [
            (row.target, adapter, count.in_flight, count.taken)
            for book in (*self._retired.values(), *self._books())
            for row in book.rows.values()
            if row.adapters is not None
            for adapter, count in row.adapters.items()
        ]

    def targets(self) -> dict[str, tuple[Target, int, bool]]:
        """Return every known target with its in-flight count and whether it is ejected.

        Targets that left the fleet are known until their last lease is released.
        """
        return {
            row.target.target_id: (row.target, row.in_flight, row.health.ejected)
            for book in (*self._retired.values(), *self._books())
            for row in book.rows.values()
        }
