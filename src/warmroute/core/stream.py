"""Messages between control and the routers.

Down: ``Publish`` carries a whole fleet. Up: a router says hello, acknowledges versions, and reports
what it finds out about instances, which adapters it uses and wants, and what it counted.
"""

from dataclasses import dataclass, field

from warmroute.core.fleet import Fleet
from warmroute.core.ids import ComponentName, EndpointName, TargetId


@dataclass(frozen=True, slots=True)
class Publish:
    """Control → router: this is the fleet now."""

    fleet: Fleet


@dataclass(frozen=True, slots=True)
class Hello:
    """Router → control, first on every connection."""

    router: str
    pid: int
    fleet_version: int


@dataclass(frozen=True, slots=True)
class Applied:
    """Router → control: every decision from now on is made with this version."""

    version: int


@dataclass(frozen=True, slots=True)
class TargetReport:
    """Router → control: what is open on a target, and whether it was ejected.

    Sent when either changes for a target that drains or is ejected, so that control knows when a
    draining target is idle and when an instance looks broken from where the traffic is.

    Attributes:
        target_id: Which target.
        generation: Of it.
        in_flight: Leases open on it.
        ejected: Whether it takes none for now.
        reason: For people.
        sessions: Sessions pinned to it, which hold it up like leases: nowhere else can they go on.
    """

    target_id: TargetId
    generation: int
    in_flight: int
    ejected: bool
    reason: str = ""
    sessions: int = 0


@dataclass(frozen=True, slots=True)
class Counters:
    """Router → control, about once a second: totals since the router started.

    Attributes:
        values: (metric name, labels as ``(name, value)`` pairs, total).
        histograms: (metric name, labels, bucket counts in the catalogue's bounds, sum).
    """

    values: tuple[tuple[str, tuple[tuple[str, str], ...], float], ...] = ()
    histograms: tuple[tuple[str, tuple[tuple[str, str], ...], tuple[int, ...], float], ...] = field(
        default=()
    )


@dataclass(frozen=True, slots=True)
class AdapterWanted:
    """Router → control: an adapter is loaded nowhere, or every place that it has is busy.

    Repeated about once a second while it is so.

    Attributes:
        endpoint: Whose adapter.
        component: Its base component.
        adapter: Its name.
        places: How many places the router knows: one more is wanted.
    """

    endpoint: EndpointName
    component: ComponentName
    adapter: ComponentName
    places: int


@dataclass(frozen=True, slots=True)
class AdapterUse:
    """What a router does with an adapter on a target.

    Attributes:
        target_id: The copy.
        generation: Of it.
        adapter: By its name.
        in_flight: Leases open there for this adapter.
        taken: Leases taken for it since the router knows the target's generation.
    """

    target_id: TargetId
    generation: int
    adapter: ComponentName
    in_flight: int
    taken: int


@dataclass(frozen=True, slots=True)
class AdapterUses:
    """Router → control: uses that changed since the last such message.

    The first one on a connection tells them all. One that follows a fleet is sent before that is
    acknowledged, so that nothing is unloaded under a lease that control does not know of.
    """

    uses: tuple[AdapterUse, ...] = ()


FromRouter = Hello | Applied | TargetReport | Counters | AdapterWanted | AdapterUses
