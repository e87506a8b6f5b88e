"""One plan for everything: every endpoint with its instances and inference components."""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from warmroute.controlplane.ports import Transaction
from warmroute.core.ids import InstanceId
from warmroute.resources.components.hosts import slots_of
from warmroute.resources.components.planner import plan_endpoint, stamp_component
from warmroute.resources.components.progress import without_endpoint
from warmroute.resources.lifecycle import CHANGING, COMPONENT_CHANGING, EndpointStatus
from warmroute.resources.planner import Plan, stamp
from warmroute.resources.records import (
    EndpointRecord,
    InferenceComponentRecord,
    InstanceRecord,
    InstanceState,
    RolloutPhase,
)
from warmroute.resources.world import Rules, World


@dataclass(frozen=True, slots=True)
class Records:
    """What the store holds.

    Attributes:
        endpoints: All endpoints.
        instances: All instances, hosts and copies, oldest first.
        components: All inference components.
    """

    endpoints: tuple[EndpointRecord, ...]
    instances: tuple[InstanceRecord, ...]
    components: tuple[InferenceComponentRecord, ...]

    @classmethod
    def read(cls, transaction: Transaction) -> "Records":
        """Read them in one transaction."""
        return cls(transaction.endpoints(), transaction.instances(), transaction.inference_components())


def plan_all(records: Records, world: World, rules: Rules) -> list[Plan]:
    """Plan every endpoint, in order.

    Each plan takes into account what the ones before it decided, so that no room is given out twice.

    Args:
        records: What the store holds.
        world: What was observed.
        rules: Declarations and bounds.

    Returns:
        One plan for each endpoint.
    """
    instances: dict[str, list[InstanceRecord]] = {}
    for record in records.instances:
        instances.setdefault(record.endpoint, []).append(record)
    components: dict[str, list[InferenceComponentRecord]] = {}
    for component in records.components:
        components.setdefault(component.endpoint, []).append(component)
    world = replace(world, slots=slots_of(rules.instance_types, records.instances))
    return [
        plan_endpoint(
            endpoint,
            tuple(instances.get(endpoint.name, ())),
            tuple(components.get(endpoint.name, ())),
            world,
            rules,
        )
        for endpoint in records.endpoints
    ]


def write_plans(
    transaction: Transaction, records: Records, plans: list[Plan], version: int, *, now_s: float
) -> bool:
    """Write what the plans changed.

    Args:
        transaction: The one that ``records`` were read in.
        records: As they were.
        plans: One for each endpoint.
        version: Of the fleet that shows the plans.
        now_s: Epoch seconds.

    Returns:
        Whether they changed anything.
    """
    before = {record.instance_id: record for record in records.instances}
    components = {component.name: component for component in records.components}
    changed = False
    for endpoint, one in zip(records.endpoints, plans, strict=True):
        for component in one.components:
            stamped = stamp_component(component, version)
            if components.pop(component.name, None) != stamped:
                transaction.put(stamped)
                changed = True
        if one.endpoint is None:
            transaction.remove(endpoint)
            changed = True
            continue
        stamped_endpoint, instances = stamp(one.endpoint, one.instances, version)
        if stamped_endpoint != endpoint:
            transaction.put(stamped_endpoint)
            changed = True
        for record in instances:
            if before.pop(record.instance_id, None) != record:
                transaction.put_instance(record)
                changed = True
    # Left over: instances that are gone, and any whose endpoint is.
    for instance_id in before:
        transaction.remove_instance(instance_id)
    known = {str(endpoint.name) for endpoint in records.endpoints}
    orphans = _write_orphans(transaction, components.values(), known, now_s)
    return changed or bool(before) or orphans


def _write_orphans(
    transaction: Transaction,
    components: Iterable[InferenceComponentRecord],
    known: AbstractSet[str],
    now_s: float,
) -> bool:
    """Write components that no plan has: those that are gone, and those whose endpoint is."""
    changed = False
    for component in components:
        after = None if component.endpoint in known else without_endpoint(component, now_s)
        if after is None:
            transaction.remove(component)
        elif after != component:
            transaction.put(after)
        changed = changed or after != component
    return changed


def is_quiet(one: Plan) -> bool:
    """Whether a plan waits for nothing that must be seen within less than a second."""
    if one.endpoint is None:
        return False
    rollout = one.endpoint.rollout
    bakes = rollout is not None and rollout.phase in (RolloutPhase.BAKING, RolloutPhase.TERMINATING)
    at_rest = one.endpoint.status not in CHANGING or (
        bakes and one.endpoint.status is EndpointStatus.UPDATING
    )
    occupied = {record.host for record in one.instances if record.state is InstanceState.IN_SERVICE}
    busy = any(_is_under_way(record, occupied) for record in one.instances)
    changing = any(component.status in COMPONENT_CHANGING for component in one.components)
    return at_rest and not changing and not busy


def _is_under_way(record: InstanceRecord, occupied: AbstractSet[InstanceId | None]) -> bool:
    """Whether the next step for an instance is ours, or comes by itself in a moment."""
    match record.state:
        case InstanceState.IN_SERVICE:
            return False
        case InstanceState.DRAINING:
            return record.instance_id not in occupied  # else its copies have nowhere to go, maybe for long
        case InstanceState.STARTING | InstanceState.STOPPING:
            return True
