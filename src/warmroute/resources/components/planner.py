"""What is to be done next for an endpoint with inference components: its hosts, and the copies on them.

Hosts are planned as instances are (``planner``); then, for each component, copies are placed on them, moved
off those that leave, exchanged by a rollout, and taken away. Like the planner it starts from the records
alone, so that a crash between any two actions costs nothing but the time until the next call.

Choice: copies on a host that leaves move: each stays until its successor serves elsewhere, and while there
is room for it nowhere else it stays where it is, and the host with it.
Choice: copies of a component whose variant an update took away end; the component stays.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from warmroute.core.ids import InstanceId
from warmroute.resources.components.copies import (
    LIVE,
    NO_HARDWARE,
    advance_copies,
    come_back,
    leave,
    lost_copies,
    new_copy,
    order_of_leaving,
    successor,
)
from warmroute.resources.components.host_scaling import Missing, Scaled, scale_hosts
from warmroute.resources.components.hosts import carried
from warmroute.resources.components.placement import Host, host_of, place
from warmroute.resources.components.progress import (
    CHANGING,
    Wish,
    advance_component,
    confirm_component,
    give_up,
    without_endpoint,
    without_place,
)
from warmroute.resources.instances import Failed
from warmroute.resources.lifecycle import ComponentStatus, EndpointStatus
from warmroute.resources.planner import Plan, plan
from warmroute.resources.records import (
    UNSTAMPED,
    EndpointRecord,
    InferenceComponentRecord,
    InstanceRecord,
    InstanceState,
)
from warmroute.resources.world import Rules, World

_SERVED = (*CHANGING, ComponentStatus.IN_SERVICE)
_ENDED = (EndpointStatus.DELETING, EndpointStatus.FAILED)


@dataclass(slots=True)
class _Board:
    """What one plan works on.

    Attributes:
        endpoint: The endpoint, its hosts planned already.
        copies: By id.
        failures: Copies that have just failed.
        hosts: Host slots that exist, by id.
        ids: Of each component's copies.
        missing: Copies that fit on no host.
    """

    endpoint: EndpointRecord
    copies: dict[InstanceId, InstanceRecord]
    failures: list[Failed]
    hosts: dict[InstanceId, InstanceRecord]
    ids: dict[str, list[InstanceId]] = field(default_factory=dict)
    missing: list[Missing] = field(default_factory=list)

    def __post_init__(self) -> None:
        for copy in self.copies.values():
            self.ids.setdefault(copy.component, []).append(copy.instance_id)

    def add(self, copy: InstanceRecord) -> None:
        """Add a new copy."""
        self.copies[copy.instance_id] = copy
        self.ids.setdefault(copy.component, []).append(copy.instance_id)

    def is_open(self, host: InstanceId | None) -> bool:
        """Whether a host may take copies."""
        record = self.hosts.get(host) if host is not None else None
        return record is not None and record.state is InstanceState.IN_SERVICE

    def of(self, component: str) -> list[InstanceRecord]:
        """Return a component's copies."""
        return [self.copies[instance_id] for instance_id in self.ids.get(component, ())]


def plan_endpoint(
    endpoint: EndpointRecord,
    instances: tuple[InstanceRecord, ...],
    components: tuple[InferenceComponentRecord, ...],
    world: World,
    rules: Rules,
) -> Plan:
    """Work out the next step for one endpoint and its components.

    Args:
        endpoint: Its record.
        instances: Its instances, hosts and copies.
        components: Those of the endpoint, adapters included; adapters are not touched.
        world: What was observed.
        rules: Declarations and bounds.
    """
    copies = [record for record in instances if record.component]
    rest = tuple(record for record in instances if not record.component)
    if not copies and not components:
        return plan(endpoint, rest, world, rules)
    base = plan(endpoint, rest, replace(world, carried=carried(copies)), rules)
    if base.endpoint is None:  # no host is left, hence no copy
        left = (without_endpoint(component, world.now_s) for component in components)
        return replace(base, components=tuple(one for one in left if one is not None))
    records, failures = advance_copies(copies, world, rules)
    hosts = {record.instance_id: record for record in base.instances if record.carries_copies}
    board = _Board(base.endpoint, records, failures, hosts)
    planned = [_plan_component(component, board, world, rules) for component in components]
    scaled = scale_hosts(
        board.endpoint,
        hosts=list(board.hosts.values()),
        copies=list(board.copies.values()),
        components=[component for component in planned if component is not None],
        missing=board.missing,
        world=world,
        rules=rules,
    )
    remain = [_settle(component, board, scaled, world) for component in planned if component is not None]
    return _joined(base, board, scaled, remain, world)


def _joined(
    base: Plan,
    board: _Board,
    scaled: Scaled,
    components: Sequence[InferenceComponentRecord],
    world: World,
) -> Plan:
    by_name = {str(component.name): component for component in components}
    copies = [
        _mark_served(copy, by_name.get(copy.component), board.endpoint)
        for copy in board.copies.values()
        if not world.is_gone(copy)
    ]
    present = {copy.instance_id for copy in copies}
    hosts = scaled.hosts
    return Plan(
        endpoint=scaled.endpoint,
        instances=(
            *(hosts.get(record.instance_id, record) for record in base.instances),
            *copies,
        ),
        start=(*base.start, *(copy for copy in copies if _is_due(copy, present, board, world))),
        stop=(
            *base.stop,
            *(
                copy.instance_id
                for copy in copies
                if copy.state is InstanceState.STOPPING and copy.instance_id not in world.busy
            ),
        ),
        components=tuple(components),
    )


def _plan_component(
    component: InferenceComponentRecord, board: _Board, world: World, rules: Rules
) -> InferenceComponentRecord | None:
    """Return a component as it is now, its copies fitted to it; None when it is gone."""
    if component.base:
        return component
    mine = board.of(component.name)
    if component.status is ComponentStatus.DELETING and all(world.is_gone(copy) for copy in mine):
        return None
    wishes: tuple[Wish, ...] = ()
    if _has_variant(component, board.endpoint):
        failures = [one for one in board.failures if one.record.component == component.name]
        failures += lost_copies(component, mine, world.now_s)
        component = give_up(component, failures, no_room=None, world=world)
        component, wishes = advance_component(component, _serving(mine), world)
    elif component.status in CHANGING and board.endpoint.status is not EndpointStatus.CREATING:
        lost = f"Variant {component.variant} of endpoint {component.endpoint} does not exist any more."
        component = without_place(component, lost, world.now_s)
    wanted = {wish.specification.revision for wish in wishes}
    for copy in mine:
        if copy.revision not in wanted and copy.state in LIVE:
            board.copies[copy.instance_id] = leave(copy, world.now_s)
    for wish in wishes:
        _fit(component, wish, board, world, rules)
    return component


def _has_variant(component: InferenceComponentRecord, endpoint: EndpointRecord) -> bool:
    active = endpoint.active
    if active is None or endpoint.status in _ENDED:
        return False
    variant = active.variant(component.variant)
    return variant is not None and variant.carries_copies


def _serving(copies: Iterable[InstanceRecord]) -> Counter[int]:
    return Counter(copy.revision for copy in copies if copy.state is InstanceState.IN_SERVICE)


def _fit(component: InferenceComponentRecord, wish: Wish, board: _Board, world: World, rules: Rules) -> None:
    """Have as many copies of one specification as are wished for."""
    revision = wish.specification.revision
    mine = [copy for copy in board.of(component.name) if copy.revision == revision]
    binpack = any(copy.binpack for copy in wish.specification.copies)
    staying = [copy for copy in mine if copy.state in LIVE and board.is_open(copy.host)]
    for copy in order_of_leaving(staying, binpack=binpack)[: max(len(staying) - wish.count, 0)]:
        board.copies[copy.instance_id] = leave(copy, world.now_s)
    missing = wish.count - len(staying)
    back = [
        copy
        for copy in mine
        if copy.state is InstanceState.DRAINING and not copy.drain_ordered and board.is_open(copy.host)
    ]
    for copy in back[: max(missing, 0)]:
        board.copies[copy.instance_id] = come_back(copy)
        missing -= 1
    failed = [one for one in board.failures if one.record.group == (f"/{component.name}", revision)]
    for one in [one for one in failed if board.is_open(one.record.host)][: max(missing, 0)]:
        board.add(successor(one, world))
        missing -= 1
    hosts = _open_hosts(component, board, rules) if missing > 0 else []
    for _ in range(missing):
        placed = place(wish.specification, component.name, hosts)
        if placed is None:
            board.missing.append(Missing(component.name, component.variant, wish.specification))
            continue
        board.add(new_copy(component, wish.specification, placed, world, rules))
    _let_move(component, wish, board, world)


def _let_move(component: InferenceComponentRecord, wish: Wish, board: _Board, world: World) -> None:
    """Let copies go from hosts that leave, as far as successors serve elsewhere."""
    mine = [
        copy
        for copy in board.of(component.name)
        if copy.revision == wish.specification.revision and copy.state in LIVE
    ]
    staying = [copy for copy in mine if board.is_open(copy.host)]
    moving = order_of_leaving((copy for copy in mine if not board.is_open(copy.host)), binpack=False)
    needed = max(wish.count - sum(copy.state is InstanceState.IN_SERVICE for copy in staying), 0)
    for place_, copy in enumerate(moving):
        useless = copy.state is InstanceState.STARTING and len(staying) >= wish.count
        if useless or len(moving) - place_ > needed:
            board.copies[copy.instance_id] = leave(copy, world.now_s)


def _open_hosts(component: InferenceComponentRecord, board: _Board, rules: Rules) -> list[Host]:
    by_host: dict[InstanceId, list[InstanceRecord]] = {}
    for copy in board.copies.values():
        if copy.host is not None:
            by_host.setdefault(copy.host, []).append(copy)
    return [
        host_of(
            record.instance_id,
            rules.instance_types[record.launch.instance_type],
            record.devices,
            by_host.get(record.instance_id, ()),
        )
        for record in board.hosts.values()
        if record.variant == component.variant
        and board.is_open(record.instance_id)
        and record.launch.instance_type in rules.instance_types
    ]


def _settle(
    component: InferenceComponentRecord, board: _Board, scaled: Scaled, world: World
) -> InferenceComponentRecord:
    """Give up what fits nowhere, and call InService what is complete."""
    if component.base:
        return component
    if component.name in scaled.hopeless and component.status in CHANGING:
        component = _without_room(component, world)
    mine = board.of(component.name)
    live = sum(copy.state in LIVE for copy in mine)
    return confirm_component(component, _serving(mine), live, world)


def _without_room(component: InferenceComponentRecord, world: World) -> InferenceComponentRecord:
    """Exchange a batch in place where new copies have no room beside the old ones, else give up."""
    rollout = component.rollout
    if rollout is not None and rollout.beside and (rollout.back or component.count > rollout.batch):
        return replace(component, rollout=replace(rollout, beside=False))
    return give_up(component, [], no_room=NO_HARDWARE, world=world)


def _mark_served(
    copy: InstanceRecord, component: InferenceComponentRecord | None, endpoint: EndpointRecord
) -> InstanceRecord:
    in_fleet = (
        not copy.served
        and copy.state is InstanceState.IN_SERVICE
        and component is not None
        and component.status in _SERVED
        and _has_variant(component, endpoint)
    )
    return replace(copy, served=True) if in_fleet else copy


def _is_due(copy: InstanceRecord, present: set[InstanceId], board: _Board, world: World) -> bool:
    return (
        copy.state is InstanceState.STARTING
        and copy.instance_id not in world.observed
        and copy.instance_id not in world.busy
        and copy.instance_id not in world.refused
        and copy.not_before_s <= world.now_s
        and copy.replaces not in present
        and copy.host in board.hosts
    )


def stamp_component(component: InferenceComponentRecord, version: int) -> InferenceComponentRecord:
    """Write the version of the fleet that shows the planned copies into what waits for it."""
    return replace(component, awaits=version) if component.awaits == UNSTAMPED else component
