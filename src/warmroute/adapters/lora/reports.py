"""A router's side of LoRA adapters: tells control what it uses and what it wants.

A router imports this, so it imports little itself.
"""

from collections.abc import Iterable
from typing import Final, Protocol

from warmroute.core.fleet import Fleet
from warmroute.core.ids import ComponentName, EndpointName
from warmroute.core.stream import AdapterUse, AdapterWanted
from warmroute.dataplane.ports import Clock
from warmroute.routing.router import Router

AGAIN_NS: Final = 1_000_000_000
"""Between two questions for a place of the same adapter; the first is asked at once."""
At = tuple[str, str, str]
"""Endpoint, base component, adapter."""


class Control(Protocol):
    """Where it is told: `adapters.fleet_client.FleetClient`."""

    def adapter_uses(self, uses: list[AdapterUse]) -> None:
        """Tell of all uses there are now."""
        ...

    def want_adapter(self, wanted: AdapterWanted) -> None:
        """Ask for a place."""
        ...


class AdapterReports:
    """Implements ``dataplane.ports.AdapterLoads``.

    Args:
        router: Counts leases by adapter, and notes sets that are too small.
        control: Is told.
        clock: Time.
    """

    def __init__(self, *, router: Router, control: Control, clock: Clock) -> None:
        self._router = router
        self._control = control
        self._clock = clock
        self._asked_ns: dict[At, int] = {}
        self._any = False
        self._leaving = False

    def want(self, *, endpoint: str, component: str, adapter: str) -> bool:
        """Ask for an adapter that is loaded nowhere, once a second at most.

        Returns:
            True: a control process that is away is back within seconds.
        """
        self._ask((endpoint, component, adapter), self._places(endpoint, component, adapter))
        return True

    def fleet_applied(self, fleet: Fleet) -> None:
        """Tell what is used at the moment a fleet came into force; call it before that is acknowledged."""
        before = self._any
        self._any = any(
            component.base
            for endpoint in fleet.endpoints
            for variant in endpoint.all_variants
            for component in variant.components
        )
        if before or self._any or self._leaving:
            self._report()

    def report(self) -> None:
        """Tell what is used; call it about once a second."""
        if self._any or self._leaving:
            self._report()

    def _report(self) -> None:
        leases = self._router.adapter_leases()
        self._leaving = any(
            in_flight and name not in target.adapters for target, name, in_flight, _ in leases
        )
        self._control.adapter_uses(
            [
                AdapterUse(target.target_id, target.generation, ComponentName(name), in_flight, taken)
                for target, name, in_flight, taken in leases
            ]
        )

    def look(self, waiting: Iterable[At]) -> None:
        """Ask again for what is still wanted; call it a few times a second.

        Args:
            waiting: Adapters that invocations wait for.
        """
        if self._leaving:  # control waits for the last of their leases
            self._report()
        wanted = self._router.adapters_wanted
        if wanted:
            for at, places in wanted.items():
                self._ask(at, places)
            wanted.clear()
        for at in waiting:
            self._ask(at, self._places(*at))

    def _ask(self, at: At, places: int) -> None:
        now_ns = self._clock.now_ns()
        if now_ns < self._asked_ns.get(at, -AGAIN_NS) + AGAIN_NS:
            return
        self._asked_ns = {key: ns for key, ns in self._asked_ns.items() if now_ns < ns + AGAIN_NS}
        self._asked_ns[at] = now_ns
        self._control.want_adapter(
            AdapterWanted(EndpointName(at[0]), ComponentName(at[1]), ComponentName(at[2]), places)
        )

    def _places(self, endpoint: str, component: str, adapter: str) -> int:
        book = self._router.endpoints.get(endpoint)
        pools = [] if book is None else [each.pool_of(component, adapter) for each in book.variants.values()]
        return max((len(pool.serving) for pool in pools), default=0)
