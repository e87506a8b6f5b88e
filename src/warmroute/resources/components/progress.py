"""How far an inference component has come: created, updated copy by copy, rolled back, given up.

Choice: a component whose creation fails is Failed and runs no copy. One that serves is never Failed: an
update that cannot be finished is rolled back, one of the number of copies ends with the copies there are,
and so does a rollback whose old copies cannot be had. FailureReason says why; the missing ones are tried
again and again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from warmroute.core import limits
from warmroute.resources.components.rollout import next_shares
from warmroute.resources.instances import Failed
from warmroute.resources.lifecycle import ComponentStatus, move_component
from warmroute.resources.metrics.alarms import AlarmState
from warmroute.resources.records import UNSTAMPED, ComponentSpecification, InferenceComponentRecord
from warmroute.resources.world import World

CHANGING = (ComponentStatus.CREATING, ComponentStatus.UPDATING)
_WITH_COPIES = (*CHANGING, ComponentStatus.IN_SERVICE)


@dataclass(frozen=True, slots=True)
class Wish:
    """Copies that there are to be.

    Attributes:
        specification: What they are.
        count: How many.
    """

    specification: ComponentSpecification
    count: int


def advance_component(
    component: InferenceComponentRecord, serving: Mapping[int, int], world: World
) -> tuple[InferenceComponentRecord, tuple[Wish, ...]]:
    """Take a component as far as its copies allow, and say which copies there are to be now.

    Args:
        component: Its record; no adapter.
        serving: Its copies in service, by revision.
        world: What was observed.
    """
    if component.status not in _WITH_COPIES:
        return component, ()
    active, pending, count = component.active, component.pending, component.count
    if active is None:
        assert pending is not None, "a component without copies that serve has some to come"
        if serving.get(pending.revision, 0) >= count:
            component = replace(component, active=pending, pending=None)
        return component, (Wish(pending, count),)
    if pending is None:
        return component, (Wish(active, count),)
    if pending.revision == active.revision:
        return replace(component, active=pending, pending=None, rollout=None), (Wish(pending, count),)
    assert component.rollout is not None, "copies are exchanged by a rollout"
    shares = next_shares(
        component.rollout,
        count=count,
        old_serving=serving.get(active.revision, 0),
        new_serving=serving.get(pending.revision, 0),
        now_s=world.now_s,
    )
    component = replace(component, rollout=shares.rollout)
    if not shares.done:
        return component, (Wish(active, shares.old), Wish(pending, shares.new))
    stays = active if shares.rollout.back else pending
    return replace(component, active=stays, pending=None, rollout=None), (Wish(stays, count),)


def confirm_component(
    component: InferenceComponentRecord, serving: Mapping[int, int], live: int, world: World
) -> InferenceComponentRecord:
    """Call a component InService when it has its copies and every router knows them.

    Args:
        component: Its record.
        serving: Its copies in service, by revision.
        live: Copies of every revision that serve or start.
        world: What was observed.
    """
    if component.status not in CHANGING or component.pending is not None:
        return component
    if component.awaits is None:
        assert component.active is not None, "nothing is pending"
        there = serving.get(component.active.revision, 0) >= component.count and live <= component.count
        return replace(component, awaits=UNSTAMPED) if there else component
    if component.awaits == UNSTAMPED or world.acked_version < component.awaits:
        return component
    return _settled(component, world)


def give_up(
    component: InferenceComponentRecord, failures: list[Failed], *, no_room: str | None, world: World
) -> InferenceComponentRecord:
    """End what cannot be finished or must not be.

    Args:
        component: Its record.
        failures: Copies of it that have just failed.
        no_room: Why a copy that is wanted fits nowhere; None while it may.
        world: What was observed.
    """
    if component.status not in CHANGING:
        return component
    reason = _why(component, failures, no_room, world)
    if reason is None:
        return component
    component = replace(component, failure_reason=reason[: limits.FAILURE_REASON_CHARACTERS_MAX])
    if component.active is None:
        status = move_component(component.status, ComponentStatus.FAILED)
        return replace(component, status=status, awaits=None, modified_s=world.now_s)
    if component.rollout is None:
        return _settled(component, world)
    if component.rollout.back:
        return _settled(replace(component, pending=None), world)
    return replace(component, rollout=replace(component.rollout, back=True, baked_s=None))


def _settled(component: InferenceComponentRecord, world: World) -> InferenceComponentRecord:
    status = move_component(component.status, ComponentStatus.IN_SERVICE)
    return replace(component, status=status, awaits=None, rollout=None, modified_s=world.now_s)


def _why(
    component: InferenceComponentRecord, failures: list[Failed], no_room: str | None, world: World
) -> str | None:
    newest = component.pending or component.active
    assert newest is not None, "a component that changes has a specification"
    rollout = component.rollout
    if rollout is not None and rollout.back:
        return _why_not_even_back(component, failures, no_room)
    fatal = next((one for one in failures if one.fatal and one.record.revision == newest.revision), None)
    if fatal is not None or rollout is None:
        return fatal.reason if fatal is not None else no_room
    tripped = [name for name in rollout.alarms if world.alarms.get(name) is AlarmState.ALARM]
    if tripped:
        return f"Alarm {tripped[0]} was in ALARM while inference component {component.name} was updated."
    if rollout.timeout_s is not None and world.now_s >= newest.started_s + rollout.timeout_s:
        return f"The update took longer than MaximumExecutionTimeoutInSeconds, {rollout.timeout_s:g} s."
    return no_room


def _why_not_even_back(
    component: InferenceComponentRecord, failures: list[Failed], no_room: str | None
) -> str | None:
    """Return why a rollback ends with the copies there are; None as long as the missing ones may come."""
    active = component.active
    assert active is not None, "only a component that served can roll back"
    fatal = next((one for one in failures if one.fatal and one.record.revision == active.revision), None)
    why = fatal.reason if fatal is not None else no_room
    return f"{component.failure_reason or ''} The rollback failed: {why}".strip() if why is not None else None


def without_endpoint(component: InferenceComponentRecord, now_s: float) -> InferenceComponentRecord | None:
    """Return a component whose endpoint does not exist: what it waits for will not come.

    Returns:
        None when it was being deleted, for nothing is left of it.
    """
    if component.status is ComponentStatus.DELETING:
        return None
    return without_place(component, f"Endpoint {component.endpoint} does not exist any more.", now_s)


def without_place(component: InferenceComponentRecord, reason: str, now_s: float) -> InferenceComponentRecord:
    """Return a component that can have no copy: a change of it ends, for what it waits for will not come.

    Args:
        component: Its record; not one that is being deleted.
        reason: Why it can have none.
        now_s: Epoch seconds.
    """
    if component.status not in CHANGING:
        return component
    ends = ComponentStatus.FAILED if component.active is None else ComponentStatus.IN_SERVICE
    return replace(
        component,
        status=move_component(component.status, ends),
        pending=component.pending if component.active is None else None,
        awaits=None,
        rollout=None,
        failure_reason=reason,
        modified_s=now_s,
    )
