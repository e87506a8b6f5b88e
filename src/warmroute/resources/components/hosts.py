"""Host slots: instances that carry component copies and run no server of their own.

A host is in service as soon as its instance type has room for it, and gone as soon as no copy is on it. Also
here, for instances of models too: which of several pools has room, and which accelerators an instance has.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from warmroute.core.ids import InstanceId
from warmroute.core.machines import InstanceType, ProviderKind
from warmroute.resources.instances import Failed
from warmroute.resources.records import InstanceRecord, InstanceState, Launch


@dataclass(slots=True)
class Slots:
    """What instances of each type there are, over all endpoints.

    Attributes:
        instance_types: Declared ones, by name.
        taken: Instances by type, copies not counted.
        devices: Accelerators of this machine that instances have.
    """

    instance_types: Mapping[str, InstanceType]
    taken: dict[str, int] = field(default_factory=dict)
    devices: set[int] = field(default_factory=set)

    def copy(self) -> "Slots":
        """Return a copy, to try something out on."""
        return Slots(self.instance_types, dict(self.taken), set(self.devices))

    def has_room(self, instance_type: str) -> bool:
        """Whether there may be one more instance of a type."""
        declared = self.instance_types.get(instance_type)
        if declared is None:
            return False
        most = len(declared.urls) if declared.provider is ProviderKind.STATIC else declared.instances_max
        return most is None or self.taken.get(instance_type, 0) < most

    def take(self, instance_type: str) -> tuple[int, ...]:
        """Add an instance of a type; return its accelerators, the lowest numbers that nobody has.

        Only local instances get numbers: other providers know themselves what their instances have.
        """
        self.taken[instance_type] = self.taken.get(instance_type, 0) + 1
        declared = self.instance_types.get(instance_type)
        if declared is None or declared.provider is not ProviderKind.LOCAL:
            return ()
        numbers: list[int] = []
        number = 0
        while len(numbers) < declared.accelerators:
            if number not in self.devices:
                numbers.append(number)
            number += 1
        self.devices.update(numbers)
        return tuple(numbers)

    def choose(self, launches: Sequence[Launch]) -> Launch | None:
        """Return the first launch whose instance type has room; None when none has."""
        return next((launch for launch in launches if self.has_room(launch.instance_type)), None)


def slots_of(instance_types: Mapping[str, InstanceType], records: Iterable[InstanceRecord]) -> Slots:
    """Count what there is.

    Args:
        instance_types: Declared ones, by name.
        records: All instances of all endpoints. Hosts that wait for room do not count.
    """
    slots = Slots(instance_types)
    for record in records:
        waits = record.carries_copies and record.state is InstanceState.STARTING
        if record.component or waits:
            continue
        name = record.launch.instance_type
        slots.taken[name] = slots.taken.get(name, 0) + 1
        slots.devices.update(record.devices)
    return slots


def settle_host(
    record: InstanceRecord, pools: Sequence[Launch], slots: Slots, *, copies: int, now_s: float
) -> InstanceRecord | Failed:
    """Return a host slot as it is now.

    Args:
        record: As it was.
        pools: What it may run on, the preferred type first; at least one while it waits for room.
        slots: What instances there are; it takes its part when it comes into service.
        copies: Copies on it, those that stop included.
        now_s: Epoch seconds.
    """
    match record.state:
        case InstanceState.STARTING:
            if now_s < record.not_before_s:
                return record
            launch = slots.choose(pools)
            if launch is None:
                return Failed(record, _no_room(pools, slots), record.attempt, fatal=True)
            return replace(
                record,
                state=InstanceState.IN_SERVICE,
                launch=launch,
                devices=slots.take(launch.instance_type),
                in_service_s=now_s,
            )
        case InstanceState.DRAINING:
            if copies:
                return record
            return replace(record, state=InstanceState.STOPPING, reason=record.reason or "drained")
        case InstanceState.IN_SERVICE | InstanceState.STOPPING:
            return record


def carried(copies: Iterable[InstanceRecord]) -> dict[InstanceId, int]:
    """Return how many copies are on each host, those that stop included."""
    counts: dict[InstanceId, int] = {}
    for copy in copies:
        if copy.host is not None:
            counts[copy.host] = counts.get(copy.host, 0) + 1
    return counts


def _no_room(pools: Sequence[Launch], slots: Slots) -> str:
    reasons = []
    for launch in pools:
        name = launch.instance_type
        declared = slots.instance_types.get(name)
        if declared is None:
            known = ", ".join(sorted(slots.instance_types)) or "none"
            reasons.append(f'No provider serves instance type "{name}". Declared in the settings: {known}.')
        elif declared.provider is ProviderKind.STATIC:
            reasons.append(f'Instance type "{name}" has {len(declared.urls)} URLs, all in use.')
        else:
            reasons.append(
                f'Instance type "{name}" may run {declared.instances_max} instances at once (instances_max), '
                "and all of them run."
            )
    return " ".join(reasons)
