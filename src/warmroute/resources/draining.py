"""An operator takes one instance, or one copy, out of service: what that changes in the records.

Choice: the instance takes no new invocation from now on and ends when what runs on it has ended. What
happens to the capacity is asked for with the order. With ``replace`` the number wanted stays, so that
the planner starts another one at once, beside the one that drains. Without, the number wanted shrinks by
one, and no other instance is touched; this is what servers that run already need, for nobody can start
another one in their place. Everything is in the records, so that it outlives a crash.
"""

from dataclasses import dataclass, replace

from warmroute.resources.errors import in_progress, invalid
from warmroute.resources.lifecycle import CHANGING
from warmroute.resources.records import (
    UNSTAMPED,
    Deployment,
    EndpointRecord,
    InstanceRecord,
    InstanceState,
    VariantRecord,
)


@dataclass(frozen=True, slots=True)
class Drained:
    """Records after the order.

    Attributes:
        instance: It drains, or stops where it never served.
        endpoint: Its endpoint; as it was, unless its capacity shrinks.
        replaced: Whether the planner starts another one.
    """

    instance: InstanceRecord
    endpoint: EndpointRecord
    replaced: bool


def drain(
    instance: InstanceRecord, endpoint: EndpointRecord, *, replaced: bool | None, fixed: bool, now_s: float
) -> Drained:
    """Order one instance out of service; ordered twice is ordered once.

    Args:
        instance: Which.
        endpoint: Whose.
        replaced: Whether another one is started; None where it can be, and otherwise not.
        fixed: Its server is not ours: nobody can start another one.
        now_s: Epoch seconds.

    Raises:
        ApiError: It cannot be replaced, or the capacity cannot shrink now.
    """
    if instance.state is InstanceState.STOPPING or instance.drain_ordered:
        return Drained(instance, endpoint, replaced=False)
    if instance.component and replaced is False:
        raise invalid(
            f"Instance {instance.instance_id} is a copy of inference component {instance.component}. "
            "A copy that is drained is replaced; set CopyCount of the component to have fewer."
        )
    if fixed and replaced:
        raise invalid(
            f"Instance {instance.instance_id} is a server that runs already (instance type "
            f"{instance.launch.instance_type}); warmroute cannot start another one in its place. "
            "Drain it without a replacement."
        )
    again = (bool(instance.component) or not fixed) if replaced is None else replaced
    if not again:
        endpoint = _smaller(endpoint, instance, now_s)
    return Drained(_leaving(instance, now_s), endpoint, replaced=again)


def _leaving(instance: InstanceRecord, now_s: float) -> InstanceRecord:
    reason = "drained by an operator"
    idle = not (instance.served or instance.carries_copies)
    if instance.state is InstanceState.STARTING or idle:
        return replace(instance, state=InstanceState.STOPPING, drain_ordered=True, reason=reason)
    if instance.state is InstanceState.DRAINING:
        return replace(instance, drain_ordered=True)
    return replace(
        instance,
        state=InstanceState.DRAINING,
        draining_s=now_s,
        drain_version=UNSTAMPED,
        drain_ordered=True,
        reason=reason,
    )


def _smaller(endpoint: EndpointRecord, instance: InstanceRecord, now_s: float) -> EndpointRecord:
    """Return the endpoint with one instance less wanted of the variant."""
    if endpoint.status in CHANGING:
        raise in_progress(endpoint.arn)
    active = endpoint.active
    variant = active.variant(instance.variant) if active is not None else None
    counts = variant is not None and variant.group == instance.group
    if active is None or not counts or instance.state is InstanceState.DRAINING:
        return endpoint  # It is on its way out already, and not counted.
    return replace(endpoint, active=_one_less(active, instance), modified_s=now_s)


def _one_less(active: Deployment, instance: InstanceRecord) -> Deployment:
    def fewer(one: VariantRecord) -> VariantRecord:
        return replace(one, count=max(one.count - 1, 0)) if one.name == instance.variant else one

    shadow = fewer(active.shadow) if active.shadow is not None else None
    return replace(active, variants=tuple(map(fewer, active.variants)), shadow=shadow)
