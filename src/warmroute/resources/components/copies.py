"""A component's copies: what became of them, which of them leave, and what a new one is.

A copy is an instance record, started, asked and stopped as instances are.

A copy whose health checks fail is taken out of service and not replaced, as SageMaker has it for endpoints
with inference components; it serves again when it is well. One whose server ends is replaced.

Choice: a component that is changing does not wait longer than the start-up time for a copy to get well.
Choice: a copy that ended is replaced on its own host, with its own devices, after a wait that doubles. A
component that has no copy yet gives up when the first of a row of failures is older than the start-up
time-out, and not by their number: a server that ends at once stays Creating until then.
"""

from collections.abc import Iterable
from dataclasses import replace

from warmroute.core import limits
from warmroute.core.ids import InstanceId
from warmroute.resources.components.placement import Placed
from warmroute.resources.instances import Failed, advance
from warmroute.resources.planner import backoff_s
from warmroute.resources.records import (
    UNSTAMPED,
    ComponentSpecification,
    InferenceComponentRecord,
    InstanceRecord,
    InstanceState,
)
from warmroute.resources.world import Rules, World

LIVE = (InstanceState.STARTING, InstanceState.IN_SERVICE)


def advance_copies(
    copies: Iterable[InstanceRecord], world: World, rules: Rules
) -> tuple[dict[InstanceId, InstanceRecord], list[Failed]]:
    """Return the copies as they are now, and those that failed, which stop."""
    records: dict[InstanceId, InstanceRecord] = {}
    failures: list[Failed] = []
    for copy in copies:
        moved = advance(
            copy,
            observed=world.observed.get(copy.instance_id),
            refused=world.refused.get(copy.instance_id),
            busy=copy.instance_id in world.busy,
            now_s=world.now_s,
            acked_version=world.acked_version,
            since_s=world.since_s,
            # As on SageMaker, one whose health check fails is not replaced: it serves again when it is well.
            fixed=True,
            drain_s=rules.drain_s,
        )
        if isinstance(moved, Failed):
            failures.append(_told(moved, world))
            moved = replace(copy, state=InstanceState.STOPPING, reason=moved.reason)
        records[copy.instance_id] = moved
    return records, failures


def _told(failed: Failed, world: World) -> Failed:
    """Say the failure of a copy in the words of its component, and whether it has had its time."""
    copy = failed.record
    observed = world.observed.get(copy.instance_id)
    ended = observed is not None and not observed.running
    fatal = failed.fatal
    if ended and copy.instance_id not in world.refused:
        # What this process had no time for is not late.
        late = world.now_s >= max(_first_s(copy), world.since_s) + copy.startup_s
        fatal = late and not _was_stable(copy, world)
    reason = failed.reason.replace(
        f"for production variant {copy.variant} ", f"of inference component {copy.component} ", 1
    )
    return replace(failed, reason=reason, fatal=fatal)


def _first_s(copy: InstanceRecord) -> float:
    """Return when the row of failures began that a copy is in, epoch seconds."""
    return copy.first_s if copy.first_s is not None else copy.created_s


def _was_stable(copy: InstanceRecord, world: World) -> bool:
    since_s = copy.in_service_s
    return since_s is not None and world.now_s >= since_s + limits.INSTANCE_STABLE_S


def lost_copies(
    component: InferenceComponentRecord, copies: Iterable[InstanceRecord], now_s: float
) -> list[Failed]:
    """Return the copies that stopped answering and that a change of their component waits for no more."""
    return [
        Failed(copy, f"A copy of inference component {component.name} has stopped answering.", 1, fatal=True)
        for copy in copies
        if copy.state is InstanceState.STARTING
        and copy.in_service_s is not None
        and now_s >= component.modified_s + copy.startup_s
    ]


def leave(record: InstanceRecord, now_s: float) -> InstanceRecord:
    """Return a copy that is not wanted any more: it drains when requests may be on it, else it stops."""
    if record.state is InstanceState.IN_SERVICE and record.served:
        return replace(record, state=InstanceState.DRAINING, draining_s=now_s, drain_version=UNSTAMPED)
    return replace(record, state=InstanceState.STOPPING, reason=record.reason or "not wanted")


def come_back(record: InstanceRecord) -> InstanceRecord:
    """Return a draining copy that is wanted after all."""
    return replace(record, state=InstanceState.IN_SERVICE, draining_s=None, drain_version=None)


def order_of_leaving(records: Iterable[InstanceRecord], *, binpack: bool) -> list[InstanceRecord]:
    """Return the copies of one component, those first that leave first.

    Those that start leave before those that serve, younger ones before older ones. Of serving ones, SPREAD
    takes from the host with the most copies, BINPACK from the host with the fewest, to free it.
    """
    left = list(records)
    order: list[InstanceRecord] = []
    while left:
        on_host: dict[InstanceId | None, int] = {}
        for record in left:
            on_host[record.host] = on_host.get(record.host, 0) + 1
        sign = 1 if binpack else -1
        record = min(
            left,
            key=lambda one: (
                one.state is InstanceState.IN_SERVICE,
                sign * on_host[one.host],
                -one.created_s,
                one.instance_id,
            ),
        )
        left.remove(record)
        order.append(record)
    return order


def new_copy(
    component: InferenceComponentRecord,
    specification: ComponentSpecification,
    placed: Placed,
    world: World,
    rules: Rules,
) -> InstanceRecord:
    """Return a new copy where there is room for it."""
    copy = placed.specification
    launch = replace(copy.launch, instance_type=placed.host.instance_type.name)
    return InstanceRecord(
        instance_id=world.new_id(),
        endpoint=component.endpoint,
        variant=component.variant,
        revision=specification.revision,
        launch=launch,
        startup_s=rules.startup_s(launch, copy.startup_s),
        created_s=world.now_s,
        not_before_s=world.now_s,
        component=component.name,
        host=placed.host.instance_id,
        devices=placed.devices,
        needs=copy.needs,
    )


def successor(failed: Failed, world: World) -> InstanceRecord:
    """Return the copy that takes a failed one's place, on its host and with its devices."""
    before = failed.record
    first_s = None if _was_stable(before, world) else _first_s(before)
    wait_s = backoff_s(failed.attempts)
    if first_s is not None and world.now_s < first_s + before.startup_s:
        # Tried once more when the time of the whole row is over, and not after a long wait beyond that.
        wait_s = min(wait_s, first_s + before.startup_s - world.now_s)
    return replace(
        before,
        instance_id=world.new_id(),
        state=InstanceState.STARTING,
        created_s=world.now_s,
        not_before_s=world.now_s + wait_s,
        attempt=failed.attempts + 1,
        replaces=before.instance_id,
        in_service_s=None,
        served=False,
        returns=0,
        model_name=None,
        reason="",
        draining_s=None,
        drain_version=None,
        drain_ordered=False,
        adapters=(),
        first_s=first_s,
    )


NO_HARDWARE = (
    "There is not enough hardware resources on the instances for this endpoint to create a copy of the "
    "inference component."
)
"""SageMaker's own words."""
