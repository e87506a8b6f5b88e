"""The ledger: which leases are open on which target. One book per variant.

A lease is taken in the same step as the pick and released exactly once, on every path. The count of
a target is never negative: a second release is a broken assumption and raises; a release for an
older generation of a target is void.
"""

from warmroute.core.decision import Lease
from warmroute.core.fleet import Target
from warmroute.routing.adapter_count import AdapterCount
from warmroute.routing.health import HealthRecord
from warmroute.routing.kvindex import Shelf


class TargetRow:
    """What routing keeps about one target. Mutable on purpose: read and written on every decision.

    Attributes:
        target: As the fleet describes it.
        name: The target's id as bytes, the input of the rendezvous order.
        in_flight: Open leases of the present generation.
        health: Recent failures, ejection and probation.
        probe: The open lease of a target on probation. Only its end says how the target is now;
            leases from before the ejection may stay open for minutes.
        gone: No longer in the fleet; the row lives on until its leases are released.
        shelf: What is known of its cache; None unless the variant's strategy is KV_AWARE.
        adapters: Leases by LoRA adapter, of those that are loaded or have a lease; None while there was none.
    """

    __slots__ = ("adapters", "gone", "health", "in_flight", "name", "probe", "shelf", "target")

    def __init__(self, target: Target) -> None:
        self.target = target
        self.name = target.target_id.encode()
        self.in_flight = 0
        self.health = HealthRecord()
        self.probe: Lease | None = None
        self.gone = False
        self.shelf: Shelf | None = None
        self.adapters: dict[str, AdapterCount] | None = None

    def __repr__(self) -> str:
        state = "gone" if self.gone else self.target.state.value
        if self.health.ejected:
            state += ", ejected"
        return f"<{self.target.target_id} #{self.target.generation} {state}, {self.in_flight} in flight>"

    @property
    def probing(self) -> bool:
        """Whether the target is on probation and the one request it may have is under way."""
        return self.health.probation and self.probe is not None

    def renew(self, target: Target) -> None:
        """Take over a new description; a new generation starts with no leases and no past."""
        if target.generation != self.target.generation:
            self.in_flight = 0
            self.health = HealthRecord()
            self.probe = None
            self.shelf = None
            self.adapters = None
        self.target = target
        self.gone = False
        if self.adapters is not None:
            for adapter in [each for each, count in self.adapters.items() if not count.in_flight]:
                if adapter not in target.adapters:
                    del self.adapters[adapter]


class Ledger:
    """The open leases of one variant."""

    __slots__ = ("open_leases", "void_releases")

    def __init__(self) -> None:
        self.open_leases = 0
        """Leases taken and not yet released, void ones included: what exchanges still hold."""
        self.void_releases = 0

    def take(self, row: TargetRow, book: object, adapter: str = "") -> Lease:
        """Reserve a place on a target.

        Args:
            row: The target's.
            book: Where the release will look for it.
            adapter: LoRA adapter on the target that the lease is for, or ``""``.
        """
        row.in_flight += 1
        self.open_leases += 1
        lease = Lease(row.target, row.target.generation, book)
        if adapter:
            lease.adapter = adapter
            counts = row.adapters
            if counts is None:
                counts = row.adapters = {}
            count = counts.get(adapter)
            if count is None:
                count = counts[adapter] = AdapterCount()
            count.in_flight += 1
            count.taken += 1
        return lease

    def release(self, lease: Lease, row: TargetRow | None) -> bool:
        """Give a lease back.

        Args:
            lease: From `take`; must not have been released.
            row: The target's present row, None when it is no longer known.

        Returns:
            Whether it counted; False for a lease of an older generation.
        """
        assert not lease.released, f"lease on {lease.target.target_id} released twice"
        lease.released = True
        self.open_leases -= 1
        assert self.open_leases >= 0, "more leases released than taken"
        if row is None or row.target.generation != lease.generation:
            self.void_releases += 1
            return False
        row.in_flight -= 1
        assert row.in_flight >= 0, f"negative in-flight count on {lease.target.target_id}"
        if lease.adapter:
            assert row.adapters is not None, "a lease for an adapter is counted"
            count = row.adapters[lease.adapter]
            count.in_flight -= 1
            if not count.in_flight and lease.adapter not in row.target.adapters:
                del row.adapters[lease.adapter]
        return True
