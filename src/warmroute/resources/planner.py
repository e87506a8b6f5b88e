"""What is to be done next for one endpoint: records and facts in, new records and actions out.

Called again and again, by time and by every change; each call starts from the records alone, so that
a crash between any two actions costs nothing but the time until the next call.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from warmroute.core import limits
from warmroute.core.ids import InstanceId
from warmroute.core.machines import Image, InstanceType, ProviderKind
from warmroute.resources.alarms import AlarmState
from warmroute.resources.deployment import alarm_names, execution_s_max
from warmroute.resources.instances import Failed, Observed, advance
from warmroute.resources.lifecycle import EndpointStatus, move
from warmroute.resources.records import (
    UNSTAMPED,
    Deployment,
    EndpointRecord,
    InstanceRecord,
    InstanceState,
    Launch,
    RolloutPhase,
    VariantRecord,
)
from warmroute.resources.rollout import (
    Group,
    give_up_going_back,
    go_back,
    go_on,
    shifted,
    shown,
    switched,
    turn_back,
    waits_for,
    wanted,
)

_LIVE = (InstanceState.STARTING, InstanceState.IN_SERVICE)
_WITH_INSTANCES = (
    EndpointStatus.CREATING,
    EndpointStatus.IN_SERVICE,
    EndpointStatus.UPDATING,
    EndpointStatus.ROLLING_BACK,
    EndpointStatus.UPDATE_ROLLBACK_FAILED,
)


@dataclass(frozen=True, slots=True)
class Rules:
    """What stays the same between two plans.

    Attributes:
        instance_types: Declared ones, by name.
        images: Declared ones, by name.
        drain_s: A draining instance is stopped then at the latest.
    """

    instance_types: Mapping[str, InstanceType] = field(default_factory=dict)
    images: Mapping[str, Image] = field(default_factory=dict)
    drain_s: float = limits.INSTANCE_DRAIN_S

    def is_fixed(self, instance_type: str) -> bool:
        """Whether servers of a type are not ours: they cannot be started anew, only waited for."""
        declared = self.instance_types.get(instance_type)
        return declared is not None and declared.provider is ProviderKind.STATIC

    def image(self, launch: Launch) -> Image | None:
        """Return the image of a launch; None when it is not declared."""
        declared = self.instance_types.get(launch.instance_type)
        name = launch.image or (declared.image if declared is not None else None)
        return self.images.get(name) if name is not None else None

    def startup_s(self, variant: VariantRecord) -> float:
        """Return how long an instance may take to become ready, in seconds."""
        if variant.startup_s is not None:
            return variant.startup_s
        image = self.image(variant.launch)
        return (image or Image(name="")).startup_s_max


@dataclass(frozen=True, slots=True)
class World:
    """What is known beside the records.

    Attributes:
        observed: Of every instance that its provider lists.
        refused: Why a provider refused to start an instance.
        busy: Instances with an action under way; no second one is ordered.
        now_s: Epoch seconds.
        acked_version: Every live router decides with this fleet or a later one.
        since_s: When this process made its first plan, epoch seconds: nothing it had no time for is late.
        new_id: Makes instance ids.
        alarms: How each declared alarm stands, by name.
    """

    observed: Mapping[InstanceId, Observed]
    refused: Mapping[InstanceId, str]
    busy: frozenset[InstanceId]
    now_s: float
    acked_version: int
    since_s: float
    new_id: Callable[[], InstanceId]
    alarms: Mapping[str, AlarmState] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done, in this order: write the records, then act.

    Attributes:
        endpoint: As it is now; None when it is gone.
        instances: All that remain, new ones included.
        start: To be started.
        stop: To be stopped.
    """

    endpoint: EndpointRecord | None
    instances: tuple[InstanceRecord, ...]
    start: tuple[InstanceRecord, ...] = ()
    stop: tuple[InstanceId, ...] = ()


def plan(endpoint: EndpointRecord, instances: tuple[InstanceRecord, ...], world: World, rules: Rules) -> Plan:
    """Work out the next step for one endpoint.

    Args:
        endpoint: Its record.
        instances: Its instances.
        world: What was observed.
        rules: Declarations and bounds.
    """
    records, failures = _advance(instances, world, rules)
    endpoint = _abort(endpoint, records, failures, world)
    endpoint = _go_on(endpoint, records, world)
    endpoint = _confirm(endpoint, records, world)
    records = _fit(endpoint, records, failures, world, rules)
    records = [record for record in records if not _is_gone(record, world)]
    if endpoint.status is EndpointStatus.DELETING and not records:
        return Plan(endpoint=None, instances=())
    serving = _serving(records)
    records = [_mark_served(record, endpoint, serving) for record in records]
    present = {record.instance_id for record in records}
    return Plan(
        endpoint=endpoint,
        instances=tuple(records),
        start=tuple(record for record in records if _is_due(record, present, world)),
        stop=tuple(
            record.instance_id
            for record in records
            if record.state is InstanceState.STOPPING and record.instance_id not in world.busy
        ),
    )


def stamp(
    endpoint: EndpointRecord, instances: tuple[InstanceRecord, ...], version: int
) -> tuple[EndpointRecord, tuple[InstanceRecord, ...]]:
    """Write the version of the fleet that shows the planned records into what waits for it."""
    if endpoint.awaits == UNSTAMPED:
        endpoint = replace(endpoint, awaits=version)
    stamped = tuple(
        replace(record, drain_version=version) if record.drain_version == UNSTAMPED else record
        for record in instances
    )
    return endpoint, stamped


def _advance(
    instances: tuple[InstanceRecord, ...], world: World, rules: Rules
) -> tuple[list[InstanceRecord], list[Failed]]:
    records: list[InstanceRecord] = []
    failures: list[Failed] = []
    for record in instances:
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


def _serving(records: list[InstanceRecord]) -> Counter[Group]:
    """Return how many instances of each variant and revision are in service."""
    return Counter(record.group for record in records if record.state is InstanceState.IN_SERVICE)


def _abort(
    endpoint: EndpointRecord, records: list[InstanceRecord], failures: list[Failed], world: World
) -> EndpointRecord:
    """Give up a deployment that cannot be finished or must not be, or the rollback of one."""
    pending = endpoint.pending
    if pending is None:
        return endpoint
    if endpoint.status is EndpointStatus.ROLLING_BACK:
        return _give_up(endpoint, records, failures, world)
    if endpoint.status not in (EndpointStatus.CREATING, EndpointStatus.UPDATING):
        return endpoint
    reason = _why_hopeless(endpoint, pending, records, failures, world)
    reason = reason or _why_to_turn_back(endpoint, pending, failures, world)
    if reason is None:
        return endpoint
    creating = endpoint.status is EndpointStatus.CREATING
    if not creating:
        endpoint = turn_back(endpoint, _serving(records))
    return replace(
        endpoint,
        status=move(endpoint.status, EndpointStatus.FAILED if creating else EndpointStatus.ROLLING_BACK),
        failure_reason=reason[: limits.FAILURE_REASON_CHARACTERS_MAX],
        modified_s=world.now_s,
    )


def _why_hopeless(
    endpoint: EndpointRecord,
    pending: Deployment,
    records: list[InstanceRecord],
    failures: list[Failed],
    world: World,
) -> str | None:
    """Return why the instances of a deployment cannot be had; None as long as they may."""
    groups = {variant.group for variant in pending.all_variants}
    fatal = next((one for one in failures if one.fatal and one.record.group in groups), None)
    if fatal is not None:
        return fatal.reason
    serving, shifting = _serving(records), shifted(endpoint) is not None
    if not shifting and all(serving[group] >= count for group, count in waits_for(endpoint).items()):
        return None
    before = {variant.group for variant in endpoint.active.all_variants} if endpoint.active else set()
    for record in records:
        # A server that is not ours and stopped answering is waited for without end, an update is not.
        lost = record.state is InstanceState.STARTING and record.in_service_s is not None
        # With a share of the traffic on it, not even that long.
        late = world.now_s >= pending.started_s + record.startup_s or (
            shifting and record.group not in before
        )
        if lost and late and record.group in groups:
            return f"An instance of production variant {record.variant} has stopped answering health checks."
    return None


def _why_to_turn_back(
    endpoint: EndpointRecord, pending: Deployment, failures: list[Failed], world: World
) -> str | None:
    """Return why a deployment has to be rolled back although its instances can be had."""
    rollout = endpoint.rollout
    terminating = rollout is not None and rollout.phase is RolloutPhase.TERMINATING
    bound = execution_s_max(pending.policy)
    late = bound is not None and world.now_s >= pending.started_s + bound
    if late and not terminating and endpoint.status is EndpointStatus.UPDATING:
        return f"The deployment took longer than MaximumExecutionTimeoutInSeconds, {bound:g} s."
    if terminating or shifted(endpoint) is None:
        return None
    for name in alarm_names(pending.policy):
        if world.alarms.get(name) is AlarmState.ALARM:
            return f"Alarm {name} of AutoRollbackConfiguration is in state ALARM."
    before = {variant.group for variant in endpoint.active.all_variants} if endpoint.active else set()
    groups = {variant.group for variant in pending.variants} - before
    ended = (one for one in failures if one.record.group in groups and one.record.in_service_s is not None)
    return next((one.reason for one in ended), None)


def _give_up(
    endpoint: EndpointRecord, records: list[InstanceRecord], failures: list[Failed], world: World
) -> EndpointRecord:
    """Give up a rollback whose old instances do not come back, once no new one has their place any more."""
    assert endpoint.active is not None, "only an endpoint that served can roll back"
    old = {variant.group for variant in endpoint.active.variants}
    failed = next(
        (one for one in failures if one.record.group in old and one.attempts >= limits.INSTANCE_ATTEMPTS_MAX),
        None,
    )
    leaving = (InstanceState.DRAINING, InstanceState.STOPPING)
    if failed is None or any(r.state in leaving and r.group not in old for r in records):
        return endpoint
    reason = f"{endpoint.failure_reason or ''} The rollback failed: {failed.reason}".strip()
    return replace(
        give_up_going_back(endpoint, _serving(records)),
        status=move(endpoint.status, EndpointStatus.UPDATE_ROLLBACK_FAILED),
        failure_reason=reason[: limits.FAILURE_REASON_CHARACTERS_MAX],
        modified_s=world.now_s,
    )


def _go_on(endpoint: EndpointRecord, records: list[InstanceRecord], world: World) -> EndpointRecord:
    """Take a deployment further: to its next step, or to its end once all it adds is in service."""
    serving = _serving(records)
    if endpoint.pending is None:
        return endpoint
    match endpoint.status:
        case EndpointStatus.ROLLING_BACK:
            return go_back(endpoint, serving)
        case EndpointStatus.UPDATING if endpoint.rollout is not None:
            return go_on(endpoint, serving, now_s=world.now_s, acked=_is_acked(endpoint, world))
        case EndpointStatus.CREATING | EndpointStatus.UPDATING:
            ready = all(serving[group] >= count for group, count in waits_for(endpoint).items())
            return switched(endpoint) if ready else endpoint
        case _:
            return endpoint


def _is_acked(endpoint: EndpointRecord, world: World) -> bool:
    """Return whether every router knows what the endpoint awaits; False when it awaits nothing."""
    return endpoint.awaits not in (None, UNSTAMPED) and world.acked_version >= (endpoint.awaits or 0)


def _confirm(endpoint: EndpointRecord, records: list[InstanceRecord], world: World) -> EndpointRecord:
    """Call an endpoint InService when every router knows its variants, or its rollback has left nothing."""
    match endpoint.status:
        case EndpointStatus.CREATING | EndpointStatus.UPDATING:
            done = endpoint.rollout is None and _is_acked(endpoint, world)
        case EndpointStatus.ROLLING_BACK:
            known = endpoint.awaits is None or _is_acked(endpoint, world)
            left = any(_of_rollback(record, endpoint, world) for record in records)
            done = endpoint.rollout is None and known and not left
        case _:
            done = False
    if not done:
        return endpoint
    repairs = endpoint.status is EndpointStatus.ROLLING_BACK and endpoint.mixed
    after = EndpointStatus.UPDATE_ROLLBACK_FAILED if repairs else EndpointStatus.IN_SERVICE
    return replace(endpoint, status=move(endpoint.status, after), awaits=None, modified_s=world.now_s)


def _of_rollback(record: InstanceRecord, endpoint: EndpointRecord, world: World) -> bool:
    leftover = not record.served and (
        record.group not in wanted(endpoint) or record.state is InstanceState.STOPPING
    )
    return leftover and not _is_gone(record, world)


def _wanted(endpoint: EndpointRecord) -> dict[Group, VariantRecord]:
    """Return the variants that need instances now; while one is deployed, both old and new."""
    return wanted(endpoint) if endpoint.status in _WITH_INSTANCES else {}


def _fit(
    endpoint: EndpointRecord,
    records: list[InstanceRecord],
    failures: list[Failed],
    world: World,
    rules: Rules,
) -> list[InstanceRecord]:
    """Add instances where some are missing, take them away where there are too many."""
    groups = _wanted(endpoint)
    kept: dict[InstanceId, InstanceRecord] = {record.instance_id: record for record in records}
    for group in {record.group for record in records} - set(groups):
        _drop(kept, group, 0, world.now_s)
    for group, variant in groups.items():
        live = [record for record in kept.values() if record.group == group and record.state in _LIVE]
        if len(live) > variant.count:
            _drop(kept, group, variant.count, world.now_s)
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
            record = _new_instance(endpoint, variant, predecessor, world, rules)
            kept[record.instance_id] = record
    return list(kept.values())


def _drop(kept: dict[InstanceId, InstanceRecord], group: Group, count: int, now_s: float) -> None:
    """Leave ``count`` live instances of a group: those that serve before those that start, old before new."""
    live = [record for record in kept.values() if record.group == group and record.state in _LIVE]
    live.sort(key=lambda record: (record.state is not InstanceState.IN_SERVICE, record.created_s))
    for record in live[count:]:
        if record.state is InstanceState.IN_SERVICE and record.served:
            changed = replace(record, state=InstanceState.DRAINING, draining_s=now_s, drain_version=UNSTAMPED)
        else:
            changed = replace(record, state=InstanceState.STOPPING, reason=record.reason or "not wanted")
        kept[record.instance_id] = changed


def _new_instance(
    endpoint: EndpointRecord, variant: VariantRecord, predecessor: Failed | None, world: World, rules: Rules
) -> InstanceRecord:
    attempt, not_before_s = 1, world.now_s
    if predecessor is not None:
        attempt = predecessor.attempts + 1
        not_before_s += backoff_s(predecessor.attempts)
    return InstanceRecord(
        instance_id=world.new_id(),
        endpoint=endpoint.name,
        variant=variant.name,
        revision=variant.revision,
        launch=variant.launch,
        startup_s=rules.startup_s(variant),
        created_s=world.now_s,
        not_before_s=not_before_s,
        attempt=attempt,
        replaces=predecessor.record.instance_id if predecessor is not None else None,
    )


def backoff_s(failed: int) -> float:
    """Return the wait before the next start after ``failed`` failed ones in a row: 0, 1, 2, 4 … seconds."""
    return 0.0 if failed <= 1 else min(2.0 ** (failed - 2), limits.INSTANCE_BACKOFF_S_MAX)


def _is_gone(record: InstanceRecord, world: World) -> bool:
    instance_id = record.instance_id
    stopping = record.state is InstanceState.STOPPING
    return stopping and instance_id not in world.observed and instance_id not in world.busy


def _is_due(record: InstanceRecord, present: set[InstanceId], world: World) -> bool:
    return (
        record.state is InstanceState.STARTING
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
