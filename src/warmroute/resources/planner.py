"""What is to be done next for one endpoint: records and facts in, new records and actions out.

Called again and again, by time and by every change; each call starts from the records alone, so that
a crash between any two actions costs nothing but the time until the next call.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from warmroute.core import limits
from warmroute.core.ids import InstanceId
from warmroute.resources.components.hosts import Slots, settle_host, slots_of
from warmroute.resources.deployments.progress import in_service, progress
from warmroute.resources.deployments.rollout import Group, shown, wanted
from warmroute.resources.instances import Failed, advance
from warmroute.resources.lifecycle import EndpointStatus
from warmroute.resources.lora.places import stamp_places
from warmroute.resources.records import (
    UNSTAMPED,
    EndpointRecord,
    InferenceComponentRecord,
    InstanceRecord,
    InstanceState,
    Launch,
    VariantRecord,
)
from warmroute.resources.world import Rules, World

__all__ = ["Plan", "Rules", "World", "backoff_s", "plan", "stamp"]

_LIVE = (InstanceState.STARTING, InstanceState.IN_SERVICE)
_WITH_INSTANCES = (
    EndpointStatus.CREATING,
    EndpointStatus.IN_SERVICE,
    EndpointStatus.UPDATING,
    EndpointStatus.ROLLING_BACK,
    EndpointStatus.UPDATE_ROLLBACK_FAILED,
)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done, in this order: write the records, then act.

    Attributes:
        endpoint: As it is now; None when it is gone.
        instances: All that remain, new ones included.
        start: To be started.
        stop: To be stopped.
        components: Inference components of the endpoint that remain.
    """

    endpoint: EndpointRecord | None
    instances: tuple[InstanceRecord, ...]
    start: tuple[InstanceRecord, ...] = ()
    stop: tuple[InstanceId, ...] = ()
    components: tuple[InferenceComponentRecord, ...] = ()


def plan(endpoint: EndpointRecord, instances: tuple[InstanceRecord, ...], world: World, rules: Rules) -> Plan:
    """Work out the next step for one endpoint.

    Args:
        endpoint: Its record.
        instances: Its instances.
        world: What was observed.
        rules: Declarations and bounds.
    """
    slots = world.slots if world.slots is not None else slots_of(rules.instance_types, instances)
    records, failures = _advance(endpoint, instances, slots, world, rules)
    endpoint = progress(endpoint, records, failures, world)
    records = _fit(endpoint, records, failures, world, rules, slots=slots)
    records = [record for record in records if not world.is_gone(record)]
    if endpoint.status is EndpointStatus.DELETING and not records:
        return Plan(endpoint=None, instances=())
    serving = in_service(records)
    records = [_mark_served(record, endpoint, serving) for record in records]
    present = {record.instance_id for record in records}
    return Plan(
        endpoint=endpoint,
        instances=tuple(records),
        start=tuple(record for record in records if _is_due(record, present, world)),
        stop=tuple(
            record.instance_id
            for record in records
            if record.state is InstanceState.STOPPING
            and not record.carries_copies
            and record.instance_id not in world.busy
        ),
    )


def stamp(
    endpoint: EndpointRecord, instances: tuple[InstanceRecord, ...], version: int
) -> tuple[EndpointRecord, tuple[InstanceRecord, ...]]:
    """Write the version of the fleet that shows the planned records into what waits for it."""
    if endpoint.awaits == UNSTAMPED:
        endpoint = replace(endpoint, awaits=version)
    return endpoint, tuple(_stamped(record, version) for record in instances)


def _stamped(record: InstanceRecord, version: int) -> InstanceRecord:
    if record.adapters and (places := stamp_places(record.adapters, version)) is not record.adapters:
        record = replace(record, adapters=places)
    return replace(record, drain_version=version) if record.drain_version == UNSTAMPED else record


def _advance(
    endpoint: EndpointRecord,
    instances: tuple[InstanceRecord, ...],
    slots: Slots,
    world: World,
    rules: Rules,
) -> tuple[list[InstanceRecord], list[Failed]]:
    records: list[InstanceRecord] = []
    failures: list[Failed] = []
    groups = _wanted(endpoint)
    for record in instances:
        moved: InstanceRecord | Failed
        if record.carries_copies:
            variant = groups.get(record.group)
            pools = (variant.pools if variant is not None else ()) or (record.launch,)
            copies = world.carried.get(record.instance_id, 0)
            moved = settle_host(record, pools, slots, copies=copies, now_s=world.now_s)
        else:
            moved = advance(
                record,
                observed=world.observed.get(record.instance_id),
                refused=world.refused.get(record.instance_id),
                busy=record.instance_id in world.busy,
                now_s=world.now_s,
                acked_version=world.acked_version,
                since_s=world.since_s,
                fixed=rules.is_fixed(record.launch.instance_type),
                drain_s=rules.drain_s,
            )
        if isinstance(moved, Failed):
            failures.append(moved)
            records.append(replace(record, state=InstanceState.STOPPING, reason=moved.reason))
        else:
            records.append(moved)
    return records, failures


def _wanted(endpoint: EndpointRecord) -> dict[Group, VariantRecord]:
    """Return the variants that need instances now; while one is deployed, both old and new."""
    return wanted(endpoint) if endpoint.status in _WITH_INSTANCES else {}


def _fit(
    endpoint: EndpointRecord,
    records: list[InstanceRecord],
    failures: list[Failed],
    world: World,
    rules: Rules,
    *,
    slots: Slots,
) -> list[InstanceRecord]:
    """Add instances where some are missing, take them away where there are too many."""
    groups = _wanted(endpoint)
    kept: dict[InstanceId, InstanceRecord] = {record.instance_id: record for record in records}
    for group in {record.group for record in records} - set(groups):
        _drop(kept, group, 0, world)
    for group, variant in groups.items():
        live = [record for record in kept.values() if record.group == group and record.state in _LIVE]
        if len(live) > variant.count:
            _drop(kept, group, variant.count, world)
        missing = variant.count - len(live)
        draining = [
            r
            for r in kept.values()
            if r.group == group and r.state is InstanceState.DRAINING and not r.drain_ordered
        ]
        for record in draining[: max(missing, 0)]:
            kept[record.instance_id] = replace(
                record, state=InstanceState.IN_SERVICE, draining_s=None, drain_version=None
            )
            missing -= 1
        failed = [one for one in failures if one.record.group == group]
        for index in range(missing):
            predecessor = failed[index] if index < len(failed) else None
            record = _new_instance(endpoint, variant, predecessor, world, rules, slots=slots)
            kept[record.instance_id] = record
    return list(kept.values())


def _drop(kept: dict[InstanceId, InstanceRecord], group: Group, count: int, world: World) -> None:
    """Leave ``count`` live instances of a group.

    Those that serve before those that start, hosts with many copies before those with few, old before new.
    """
    live = [record for record in kept.values() if record.group == group and record.state in _LIVE]
    live.sort(
        key=lambda record: (
            record.state is not InstanceState.IN_SERVICE,
            -world.carried.get(record.instance_id, 0),
            record.created_s,
        )
    )
    for record in live[count:]:
        if record.state is InstanceState.IN_SERVICE and record.served:
            changed = replace(
                record, state=InstanceState.DRAINING, draining_s=world.now_s, drain_version=UNSTAMPED
            )
        else:
            changed = replace(record, state=InstanceState.STOPPING, reason=record.reason or "not wanted")
        kept[record.instance_id] = changed


def _new_instance(
    endpoint: EndpointRecord,
    variant: VariantRecord,
    predecessor: Failed | None,
    world: World,
    rules: Rules,
    *,
    slots: Slots,
) -> InstanceRecord:
    attempt, not_before_s = 1, world.now_s
    if predecessor is not None:
        attempt = predecessor.attempts + 1
        not_before_s += backoff_s(predecessor.attempts)
    launch, devices = _place(variant, predecessor, slots)
    return InstanceRecord(
        instance_id=world.new_id(),
        endpoint=endpoint.name,
        variant=variant.name,
        revision=variant.revision,
        launch=launch,
        startup_s=rules.startup_s(launch, variant.startup_s),
        created_s=world.now_s,
        not_before_s=not_before_s,
        attempt=attempt,
        replaces=predecessor.record.instance_id if predecessor is not None else None,
        devices=devices,
        carries_copies=variant.carries_copies,
    )


def _place(
    variant: VariantRecord, predecessor: Failed | None, slots: Slots
) -> tuple[Launch, tuple[int, ...]]:
    """Return what a new instance runs and which accelerators it gets; a host finds both itself."""
    if variant.carries_copies:
        return variant.launch, ()
    if predecessor is not None and predecessor.record.devices:
        return predecessor.record.launch, predecessor.record.devices
    launch = slots.choose(variant.pools) or variant.launch
    return launch, slots.take(launch.instance_type)


def backoff_s(failed: int) -> float:
    """Return the wait before the next start after ``failed`` failed ones in a row: 0, 1, 2, 4 … seconds."""
    return 0.0 if failed <= 1 else min(2.0 ** (failed - 2), limits.INSTANCE_BACKOFF_S_MAX)


def _is_due(record: InstanceRecord, present: set[InstanceId], world: World) -> bool:
    return (
        record.state is InstanceState.STARTING
        and not record.carries_copies
        and record.instance_id not in world.observed
        and record.instance_id not in world.busy
        and record.instance_id not in world.refused
        and record.not_before_s <= world.now_s
        and record.replaces not in present
    )


def _mark_served(
    record: InstanceRecord, endpoint: EndpointRecord, serving: Mapping[Group, int]
) -> InstanceRecord:
    shadow = endpoint.active.shadow if endpoint.active is not None else None
    in_fleet = (
        not record.served
        and record.state is InstanceState.IN_SERVICE
        and (
            any(one.variant.group == record.group for one in shown(endpoint, serving))
            or (shadow is not None and shadow.group == record.group)
        )
    )
    return replace(record, served=True) if in_fleet else record
