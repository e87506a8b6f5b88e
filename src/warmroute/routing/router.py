"""The router's face: decide and reserve in one step, and fold facts back in.

No await, no clock, no hidden randomness: time and the random source are given. Live, asyncio calls
it; in a simulation a heap of events does.
"""

from random import Random

from warmroute.core.decision import Assigned, Decision, Reason, Refusal, Refused, RoutingRequest
from warmroute.core.events import AttemptEvent, CacheEvent, Cancelled, Completed, Failed, FirstToken
from warmroute.core.fleet import Fleet, RoutingStrategy, Target, TargetState, Variant
from warmroute.routing import variants
from warmroute.routing.health import HealthChange
from warmroute.routing.key import TEXT_BLOCK_CHARACTERS, partition
from warmroute.routing.ledger import Ledger, TargetRow
from warmroute.routing.policies.least_outstanding import pick_least_outstanding
from warmroute.routing.policies.prefix_aware import pick_prefix_aware
from warmroute.routing.policies.random_choice import pick_random


class VariantBook:
    """A variant as routing keeps it: its settings, its rows and its ledger.

    Attributes:
        candidates: Rows that may take a lease: in service and not ejected.
        key_head: The constant part of the variant's routing keys.
        prefix_length: How much of a prompt the key takes; 0 when the strategy makes no key.
        wants_chain: Whether requests shall carry the chain of their text blocks.
    """

    __slots__ = (
        "candidates", "endpoint", "key_head", "ledger", "name", "on_probation", "prefix_length",
        "routing", "rows", "wants_chain", "weight",
    )  # fmt: skip

    def __init__(self, endpoint: str, variant: Variant) -> None:
        self.endpoint = endpoint
        self.name = variant.name
        self.key_head = partition(endpoint=endpoint, variant=variant.name)
        self.ledger = Ledger()
        self.rows: dict[str, TargetRow] = {}
        self.candidates: list[TargetRow] = []
        self.on_probation = False
        self.renew(variant)

    def renew(self, variant: Variant) -> None:
        """Take over the variant's new description."""
        self.weight = variant.weight
        self.routing = variant.routing
        self.wants_chain = variant.routing.strategy is RoutingStrategy.KV_AWARE
        self.prefix_length = TEXT_BLOCK_CHARACTERS if self.wants_chain else variant.routing.prefix_length or 0
        self._keep(variant.targets)

    def retire(self) -> None:
        """Give up every target; rows with open leases stay until those are released."""
        self._keep(())

    def _keep(self, targets: tuple[Target, ...]) -> None:
        present = {target.target_id for target in targets}
        for target in targets:
            row = self.rows.get(target.target_id)
            if row is None:
                self.rows[target.target_id] = TargetRow(target)
            else:
                row.renew(target)
        for target_id, row in list(self.rows.items()):
            if target_id not in present:
                row.gone = True
                if row.in_flight == 0:
                    del self.rows[target_id]
        self.refresh()

    def refresh(self) -> None:
        """Recompute the candidates, in an order that does not depend on history."""
        rows = sorted(self.rows.values(), key=lambda row: row.name)
        serving = [row for row in rows if not row.gone and row.target.state is TargetState.IN_SERVICE]
        self.candidates = [row for row in serving if not row.health.ejected]
        self.on_probation = any(row.health.probation for row in self.candidates)

    @property
    def serving(self) -> list[TargetRow]:
        """Rows in service, ejected ones included."""
        return [
            row for row in self.rows.values() if not row.gone and row.target.state is TargetState.IN_SERVICE
        ]


class EndpointBook:
    """An endpoint as routing keeps it."""

    __slots__ = ("in_service", "name", "variants")

    def __init__(self, name: str) -> None:
        self.name = name
        self.in_service = False
        self.variants: dict[str, VariantBook] = {}


class Router:
    """Decides where attempts go.

    Args:
        rng: Source of every random choice.
    """

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self.endpoints: dict[str, EndpointBook] = {}
        self.fleet_version = 0
        # Books of variants that are gone but have open leases, by endpoint and variant.
        self._retired: dict[tuple[str, str], VariantBook] = {}

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
        names = set()
        for endpoint in fleet.endpoints:
            names.add(endpoint.name)
            book = self.endpoints.setdefault(endpoint.name, EndpointBook(endpoint.name))
            book.in_service = endpoint.in_service
            wanted = {variant.name: variant for variant in endpoint.variants}
            for name in [name for name in book.variants if name not in wanted]:
                self._retire(book.variants.pop(name))
            for variant_name, variant in wanted.items():
                known = book.variants.get(variant_name)
                known = known or self._retired.pop((endpoint.name, variant_name), None)
                if known is None:
                    book.variants[variant_name] = VariantBook(endpoint.name, variant)
                else:
                    known.renew(variant)
                    book.variants[variant_name] = known
        for name in [name for name in self.endpoints if name not in names]:
            for variant_book in self.endpoints.pop(name).variants.values():
                self._retire(variant_book)
        self._retired = {at: book for at, book in self._retired.items() if book.ledger.open_leases}
        return True

    def _retire(self, book: VariantBook) -> None:
        book.retire()
        if book.ledger.open_leases:
            self._retired[book.endpoint, book.name] = book

    # --- deciding ---------------------------------------------------------------------------
    def choose_variant(self, endpoint: EndpointBook, target_variant: str | None) -> VariantBook | None:
        """Return the variant that serves an invocation; None when there is none (of that name).

        Args:
            endpoint: Where the invocation goes.
            target_variant: TargetVariant; overrides the draw by weight.
        """
        if target_variant is not None:
            return endpoint.variants.get(target_variant)
        books = list(endpoint.variants.values())
        if len(books) == 1:  # nearly every endpoint
            return books[0] if books[0].weight > 0 else None
        position = variants.draw([book.weight for book in books], self._rng)
        return None if position is None else books[position]

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
            1-4 µs at 7 targets.
        """
        key = request.key
        candidates = book.candidates
        if tried or book.on_probation:
            candidates = [row for row in candidates if row.target.target_id not in tried and not row.probing]
        if not candidates:
            return Refused(self._why_not(book, tried))
        routing = book.routing
        reason: Reason
        if len(candidates) == 1:
            has_order = key is not None and routing.strategy is RoutingStrategy.PREFIX_AWARE
            row, reason, rank = candidates[0], Reason.ONLY_CANDIDATE, 0 if has_order else -1
        else:
            match routing.strategy:
                case RoutingStrategy.PREFIX_AWARE:
                    assert routing.concurrency_threshold is not None, "control validates RoutingConfig"
                    row, reason, rank = pick_prefix_aware(
                        candidates, self._rng, key=key, threshold=routing.concurrency_threshold
                    )
                case RoutingStrategy.LEAST_OUTSTANDING_REQUESTS:
                    row, reason, rank = pick_least_outstanding(candidates, self._rng)
                case RoutingStrategy.RANDOM:
                    row, reason, rank = pick_random(candidates, self._rng)
                case RoutingStrategy.KV_AWARE:
                    row, reason, rank = pick_least_outstanding(candidates, self._rng)
        in_flight = row.in_flight
        lease = book.ledger.take(row, book)
        if row.health.probation:
            row.probe = lease
        return Assigned(
            lease=lease, variant=book.name, strategy=routing.strategy, reason=reason,
            rank=rank, in_flight=in_flight, candidates=len(candidates),
        )  # fmt: skip

    def _why_not(self, book: VariantBook, tried: tuple[str, ...]) -> Refusal:
        serving = book.serving
        if not serving:
            return Refusal.NO_TARGET
        if all(row.target.target_id in tried for row in serving):
            return Refusal.ALL_TRIED
        return Refusal.ALL_EJECTED

    # --- folding facts in -------------------------------------------------------------------
    def apply(self, event: AttemptEvent, now_ns: int) -> HealthChange | None:
        """Release the attempt's lease when it has ended, and note what the event says about its target.

        Returns:
            A change of the target's health that others should know of.
        """
        lease = event.lease
        if isinstance(event, FirstToken):
            return None
        book = lease.book
        assert isinstance(book, VariantBook), "leases come from decide"
        row = book.rows.get(lease.target.target_id)
        if not book.ledger.release(lease, row):
            return None
        assert row is not None, "a lease that counted has a row"
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
        """Fold in what is known of a target's cache."""

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
                serving = book.serving
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
        return min(deadlines, default=None)

    def on_deadline(self, now_ns: int) -> list[HealthChange]:
        """End the ejections that are over."""
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
        return [book for endpoint in self.endpoints.values() for book in endpoint.variants.values()]

    def open_leases(self) -> int:
        """Return the leases taken and not released, over everything: the audit's one side."""
        return sum(book.ledger.open_leases for book in (*self._books(), *self._retired.values()))

    def targets(self) -> dict[str, tuple[Target, int, bool]]:
        """Return every known target with its in-flight count and whether it is ejected.

        Targets that left the fleet are known until their last lease is released.
        """
        return {
            row.target.target_id: (row.target, row.in_flight, row.health.ejected)
            for book in (*self._retired.values(), *self._books())
            for row in book.rows.values()
        }
