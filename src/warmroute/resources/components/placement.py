"""Which host a copy of an inference component goes to, and which of its devices it gets.

SPREAD takes the host with the fewest copies of the component, BINPACK the fullest host that has room; the
host's id breaks ties, so that equal records give equal placements.

Choice: what a setting does not say of an instance type is not bounded: memory and CPU cores everywhere, and
accelerators of a static type. A static type's host is one server that runs already and carries one copy.
Choice: a component without SchedulingConfig is spread.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from warmroute.core.ids import InstanceId
from warmroute.core.machines import InstanceType, ProviderKind
from warmroute.resources.records import ComponentSpecification, CopyNeeds, CopySpecification, InstanceRecord


@dataclass(slots=True)
class Host:
    """A host slot with what is free on it; a copy that is placed takes its part.

    Attributes:
        instance_id: Of the host.
        instance_type: As declared.
        devices: Accelerators that no copy has.
        memory_mb: Memory that no copy has reserved; None for no bound.
        cpus: Cores that no copy has reserved; None for no bound.
        components: The component of every copy on it.
    """

    instance_id: InstanceId
    instance_type: InstanceType
    devices: list[int]
    memory_mb: int | None
    cpus: float | None
    components: list[str]

    @property
    def is_fixed(self) -> bool:
        """Whether it is a server that runs already."""
        return self.instance_type.provider is ProviderKind.STATIC


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a copy goes.

    Attributes:
        host: The host slot.
        specification: What the copy is on instances of that type.
        devices: The host's devices that it gets.
    """

    host: Host
    specification: CopySpecification
    devices: tuple[int, ...]


def host_of(
    instance_id: InstanceId,
    instance_type: InstanceType,
    devices: Sequence[int],
    copies: Iterable[InstanceRecord],
) -> Host:
    """Return a host with what is left on it.

    Args:
        instance_id: Of the host.
        instance_type: As declared.
        devices: All it has.
        copies: Those on it. One that waits for its failed predecessor to be gone has the predecessor's part.
    """
    copies = tuple(copies)
    replaced = {copy.replaces for copy in copies}
    host = Host(instance_id, instance_type, list(devices), instance_type.memory_mb, instance_type.cpus, [])
    for copy in copies:
        if copy.instance_id not in replaced:
            _take(host, copy.needs or CopyNeeds(0), copy.devices, copy.component)
    return host


def place(specification: ComponentSpecification, component: str, hosts: Iterable[Host]) -> Placed | None:
    """Find a host for one more copy, and take its part there.

    Args:
        specification: Of the component; only hosts of its instance types count.
        component: Its name.
        hosts: Those that may take copies; the one that is found is changed.

    Returns:
        None when it fits nowhere.
    """
    found: list[tuple[Host, CopySpecification]] = []
    for host in hosts:
        copy = specification.for_type(host.instance_type.name)
        if copy is not None and _fits(host, copy.needs):
            found.append((host, copy))
    if not found:
        return None
    host, copy = min(found, key=lambda one: _rank(one[0], one[1], component))
    devices = tuple(sorted(host.devices)[: copy.needs.accelerators])
    _take(host, copy.needs, devices, component)
    return Placed(host, copy, devices)


def _rank(host: Host, copy: CopySpecification, component: str) -> tuple[int, int, str]:
    of_component, of_all = host.components.count(component), len(host.components)
    if copy.binpack:
        return (-of_all, len(host.devices), host.instance_id)
    return (of_component, of_all, host.instance_id)


def _fits(host: Host, needs: CopyNeeds) -> bool:
    if host.is_fixed and host.components:
        return False
    declared = host.instance_type
    # Of a server that runs already only the number is known; its devices are its own matter.
    devices = declared.accelerators or needs.accelerators if host.is_fixed else len(host.devices)
    if devices < needs.accelerators:
        return False
    if declared.memory_mb is not None and max(needs.memory_mb, needs.memory_mb_max or 0) > declared.memory_mb:
        return False
    if host.memory_mb is not None and host.memory_mb < needs.memory_mb:
        return False
    return host.cpus is None or host.cpus >= needs.cpus


def _take(host: Host, needs: CopyNeeds, devices: Sequence[int], component: str) -> None:
    host.devices = [device for device in host.devices if device not in devices]
    host.memory_mb = None if host.memory_mb is None else host.memory_mb - needs.memory_mb
    host.cpus = None if host.cpus is None else host.cpus - needs.cpus
    host.components.append(component)
