"""ManagedInstanceScaling: hosts come when a copy fits on none, and go when they are not needed.

Source: shapes ProductionVariantManagedInstanceScaling and …ScaleInPolicy of the ``sagemaker`` service model.

Choice: without ScaleInPolicy every idle host above the minimum is released after ``limits.HOST_IDLE_S``. With
one, MaximumStepSize hosts are released at a time, idle ones first, CooldownInMinutes after the last change of
the endpoint, of its components, copies or hosts. CONSOLIDATION also releases hosts whose copies fit on the
others; it moves nothing while a component is changing or a copy is missing.
"""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from warmroute.core import limits
from warmroute.core.ids import InstanceId, VariantName
from warmroute.resources.components.copies import LIVE
from warmroute.resources.components.hosts import Slots, slots_of
from warmroute.resources.components.placement import Host, host_of, place
from warmroute.resources.components.progress import CHANGING
from warmroute.resources.lifecycle import EndpointStatus
from warmroute.resources.records import (
    UNSTAMPED,
    ComponentSpecification,
    EndpointRecord,
    InferenceComponentRecord,
    InstanceRecord,
    InstanceState,
    VariantRecord,
)
from warmroute.resources.world import Rules, World

_LEAVING = (InstanceState.DRAINING, InstanceState.STOPPING)


@dataclass(frozen=True, slots=True)
class Missing:
    """A copy that is wanted and fits on no host.

    Attributes:
        component: Of which component.
        variant: On which variant.
        specification: What it is.
    """

    component: str
    variant: VariantName
    specification: ComponentSpecification


@dataclass(frozen=True, slots=True)
class Scaled:
    """What is to become of the hosts.

    Attributes:
        endpoint: With the numbers of hosts that are wanted now.
        hosts: Hosts as they are now, by id.
        hopeless: Components with a copy for which there will be no room.
    """

    endpoint: EndpointRecord
    hosts: dict[InstanceId, InstanceRecord]
    hopeless: AbstractSet[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Site:
    """A variant, with its hosts and what is on them."""

    variant: VariantRecord
    hosts: tuple[InstanceRecord, ...]
    copies: tuple[InstanceRecord, ...]
    components: tuple[InferenceComponentRecord, ...]
    missing: tuple[Missing, ...]

    @property
    def open_hosts(self) -> list[InstanceRecord]:
        """Hosts that may take copies."""
        return [host for host in self.hosts if host.state is InstanceState.IN_SERVICE]

    def on(self, host: InstanceId) -> list[InstanceRecord]:
        """Return the copies on a host, those that stop included."""
        return [copy for copy in self.copies if copy.host == host]


def scale_hosts(
    endpoint: EndpointRecord,
    *,
    hosts: Sequence[InstanceRecord],
    copies: Sequence[InstanceRecord],
    components: Sequence[InferenceComponentRecord],
    missing: Sequence[Missing],
    world: World,
    rules: Rules,
) -> Scaled:
    """Work out how many hosts each variant is to have.

    Args:
        endpoint: Its record.
        hosts: Its host slots.
        copies: Copies on them.
        components: Its components.
        missing: Copies that fit on none.
        world: What was observed.
        rules: Declarations and bounds.
    """
    kept = {host.instance_id: host for host in hosts}
    active = endpoint.active
    if active is None:
        return Scaled(endpoint, kept)
    slots = world.slots.copy() if world.slots is not None else slots_of(rules.instance_types, hosts)
    variants: list[VariantRecord] = []
    hopeless: set[str] = set()
    for variant in active.variants:
        site = _Site(
            variant,
            tuple(host for host in hosts if host.variant == variant.name),
            tuple(copy for copy in copies if copy.variant == variant.name),
            tuple(component for component in components if component.variant == variant.name),
            tuple(one for one in missing if one.variant == variant.name),
        )
        count = variant.count
        if variant.scaling is not None and _cannot_be_had(site):
            count = len(site.open_hosts)
        elif site.missing:
            count, lost = _grown(site, endpoint, slots, rules)
            hopeless |= lost
        elif variant.scaling is not None and endpoint.status is EndpointStatus.IN_SERVICE:
            released = _released(site, endpoint, world, rules)
            kept |= released
            count -= sum(host.state in _LEAVING for host in released.values())
        variants.append(replace(variant, count=count))
    if tuple(variants) != active.variants:
        endpoint = replace(endpoint, active=replace(active, variants=tuple(variants)))
    return Scaled(endpoint, kept, hopeless)


def _cannot_be_had(site: _Site) -> bool:
    """Whether a host was wanted again and again, and others have all the room of its instance type."""
    return any(
        host.state is InstanceState.STARTING and host.attempt > limits.INSTANCE_ATTEMPTS_MAX
        for host in site.hosts
    )


def _grown(site: _Site, endpoint: EndpointRecord, slots: Slots, rules: Rules) -> tuple[int, set[str]]:
    """Return how many hosts are wanted, and the components for which more would not help."""
    variant = site.variant
    if _may_change(site, endpoint):
        return variant.count, set()
    most = variant.count
    if variant.scaling is not None:
        most = max(variant.scaling.count_max, variant.count)
    new: list[Host] = []
    lost: set[str] = set()
    for one in site.missing:
        if place(one.specification, one.component, new) is not None:
            continue
        host = None
        if variant.count + len(new) < most:
            host = _new_host(one, variant, slots, rules, number=len(new))
        if host is None:
            lost.add(one.component)
        else:
            new.append(host)
            place(one.specification, one.component, [host])
    return variant.count + len(new), lost


def _may_change(site: _Site, endpoint: EndpointRecord) -> bool:
    """Whether room may come without more hosts: some are on their way, or copies are leaving."""
    if endpoint.status in (EndpointStatus.UPDATING, EndpointStatus.ROLLING_BACK):
        return True
    if len(site.open_hosts) < site.variant.count:
        return True
    opened = {host.instance_id for host in site.open_hosts}
    return any(copy.state in _LEAVING and copy.host in opened for copy in site.copies)


def _new_host(
    one: Missing, variant: VariantRecord, slots: Slots, rules: Rules, *, number: int
) -> Host | None:
    """Return an empty host of the type that a new one would have; None when the copy would not fit on it."""
    launch = slots.choose(variant.pools or (variant.launch,))
    if launch is None:
        return None
    declared = rules.instance_types[launch.instance_type]
    name = InstanceId(f"new-{number}")
    trial = host_of(name, declared, range(declared.accelerators), ())
    if place(one.specification, one.component, [trial]) is None:
        return None
    slots.take(launch.instance_type)
    return host_of(name, declared, range(declared.accelerators), ())


def _released(
    site: _Site, endpoint: EndpointRecord, world: World, rules: Rules
) -> dict[InstanceId, InstanceRecord]:
    """Return the hosts that change: those that leave, and the times since when others are idle."""
    scaling = site.variant.scaling
    assert scaling is not None, "asked for a variant that scales"
    changed = _idle_times(site, world)
    hosts = [changed.get(host.instance_id, host) for host in site.open_hosts]
    spare = min(len(hosts), site.variant.count) - scaling.count_min
    if spare <= 0:
        return changed
    idle = [host for host in hosts if host.idle_s is not None]
    idle.sort(key=lambda host: (-host.created_s, host.instance_id))
    if scaling.cooldown_s is None:
        going = [host for host in idle if world.now_s >= (host.idle_s or 0.0) + limits.HOST_IDLE_S][:spare]
    elif world.now_s < _last_change_s(site, endpoint, hosts) + scaling.cooldown_s:
        return changed
    else:
        most = min(spare, scaling.step_max)
        going = idle[:most]
        if scaling.consolidate and len(going) < most:
            going += _consolidated(site, hosts, going, most - len(going), rules)
    if not going:
        return changed
    for host in going:
        changed[host.instance_id] = replace(
            host, state=InstanceState.DRAINING, draining_s=world.now_s, drain_version=UNSTAMPED
        )
    if scaling.cooldown_s is not None:  # the next step comes a cooldown later
        left = [host for host in idle if host not in going]
        changed |= {host.instance_id: replace(host, idle_s=world.now_s) for host in left}
    return changed


def _idle_times(site: _Site, world: World) -> dict[InstanceId, InstanceRecord]:
    changed = {}
    for host in site.open_hosts:
        busy = bool(site.on(host.instance_id))
        if busy is (host.idle_s is not None):
            changed[host.instance_id] = replace(host, idle_s=None if busy else world.now_s)
    return changed


def _last_change_s(site: _Site, endpoint: EndpointRecord, hosts: Iterable[InstanceRecord]) -> float:
    times = [endpoint.modified_s]
    times += [component.modified_s for component in site.components]
    times += [copy.created_s for copy in site.copies]
    times += [max(host.created_s, host.idle_s or 0.0, host.draining_s or 0.0) for host in hosts]
    times += [host.draining_s for host in site.hosts if host.draining_s is not None]
    return max(times)


def _consolidated(
    site: _Site,
    hosts: Sequence[InstanceRecord],
    going: Sequence[InstanceRecord],
    most: int,
    rules: Rules,
) -> list[InstanceRecord]:
    """Return hosts, those with the fewest copies first, all of whose copies fit on the ones that stay."""
    if any(component.status in CHANGING for component in site.components):
        return []
    if any(copy.state is not InstanceState.IN_SERVICE for copy in site.copies):
        return []
    found: list[InstanceRecord] = []
    left = [host for host in hosts if host not in going]
    for host in sorted(left, key=lambda host: (len(site.on(host.instance_id)), -host.created_s)):
        stay = [other for other in left if other is not host and other not in found]
        moved = [copy for gone in (*found, host) for copy in site.on(gone.instance_id)]
        if len(found) < most and _fits_on(moved, stay, site, rules):
            found.append(host)
    return found


def _fits_on(
    moved: Iterable[InstanceRecord], stay: Iterable[InstanceRecord], site: _Site, rules: Rules
) -> bool:
    hosts = [
        host_of(
            host.instance_id,
            rules.instance_types[host.launch.instance_type],
            host.devices,
            [copy for copy in site.on(host.instance_id) if copy.state in LIVE],
        )
        for host in stay
        if host.launch.instance_type in rules.instance_types
    ]
    specifications = {str(component.name): component.active for component in site.components}
    for copy in moved:
        specification = specifications.get(copy.component)
        if specification is None or place(specification, copy.component, hosts) is None:
            return False
    return True
