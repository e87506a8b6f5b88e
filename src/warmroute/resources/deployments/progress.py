"""How far a deployment has come: to its next step, to its end, back, or to its failure."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from warmroute.core import limits
from warmroute.resources.deployments.policy import alarm_names, execution_s_max
from warmroute.resources.deployments.rollout import (
    Group,
    give_up_going_back,
    go_back,
    go_on,
    shifted,
    switched,
    turn_back,
    waits_for,
    wanted,
)
from warmroute.resources.instances import Failed
from warmroute.resources.lifecycle import EndpointStatus, move
from warmroute.resources.metrics.alarms import AlarmState
from warmroute.resources.records import (
    UNSTAMPED,
    Deployment,
    EndpointRecord,
    InstanceRecord,
    InstanceState,
    RolloutPhase,
)
from warmroute.resources.world import World


def progress(
    endpoint: EndpointRecord, records: list[InstanceRecord], failures: list[Failed], world: World
) -> EndpointRecord:
    """Take what is being deployed as far as it goes now.

    Args:
        endpoint: Its record.
        records: Its instances as they are now.
        failures: Those that have just failed.
        world: What was observed.
    """
    endpoint = _abort(endpoint, records, failures, world)
    cramped = any(one.record.instance_id in world.refused for one in failures)
    endpoint = _go_on(endpoint, records, world, cramped=cramped)
    return _confirm(endpoint, records, world)


def in_service(records: Iterable[InstanceRecord]) -> Counter[Group]:
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
        endpoint = turn_back(endpoint, in_service(records))
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
    serving, shifting = in_service(records), shifted(endpoint) is not None
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
    why = next(
        (
            one.reason
            for one in failures
            if one.record.group in old and one.attempts >= limits.INSTANCE_ATTEMPTS_MAX
        ),
        None,
    )
    for record in records:
        # A server that is not ours is only waited for.
        lost = record.state is InstanceState.STARTING and record.in_service_s is not None
        if lost and record.group in old and world.now_s >= endpoint.modified_s + record.startup_s:
            why = f"An instance of production variant {record.variant} has stopped answering health checks."
    leaving = (InstanceState.DRAINING, InstanceState.STOPPING)
    if why is None or any(r.state in leaving and r.group not in old for r in records):
        return endpoint
    reason = f"{endpoint.failure_reason or ''} The rollback failed: {why}".strip()
    return replace(
        give_up_going_back(endpoint, in_service(records)),
        status=move(endpoint.status, EndpointStatus.UPDATE_ROLLBACK_FAILED),
        failure_reason=reason[: limits.FAILURE_REASON_CHARACTERS_MAX],
        modified_s=world.now_s,
    )


def _go_on(
    endpoint: EndpointRecord, records: list[InstanceRecord], world: World, *, cramped: bool
) -> EndpointRecord:
    """Take a deployment further: to its next step, or to its end once all it adds is in service."""
    serving = in_service(records)
    if endpoint.pending is None:
        return endpoint
    match endpoint.status:
        case EndpointStatus.ROLLING_BACK:
            return go_back(endpoint, serving, cramped=cramped)
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
    return leftover and not world.is_gone(record)
