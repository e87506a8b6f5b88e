"""Records and facts as the fleet that routers get."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from warmroute.controlplane.ports import InstanceFact
from warmroute.core.fleet import (
    AccessKey,
    ApiKey,
    Component,
    Endpoint,
    Fleet,
    NativeMapping,
    Routing,
    Target,
    TargetState,
    Variant,
)
from warmroute.core.ids import ComponentName, InstanceId, TargetId, VariantName
from warmroute.resources.deployments.rollout import Group, Shown, shown
from warmroute.resources.lifecycle import ComponentStatus, EndpointStatus
from warmroute.resources.lora.places import shown as adapters_shown
from warmroute.resources.planner import Rules
from warmroute.resources.records import (
    EndpointRecord,
    InferenceComponentRecord,
    InstanceRecord,
    InstanceState,
    Launch,
    VariantRecord,
)

_SERVING = (
    EndpointStatus.CREATING,
    EndpointStatus.IN_SERVICE,
    EndpointStatus.UPDATING,
    EndpointStatus.ROLLING_BACK,
    EndpointStatus.UPDATE_ROLLBACK_FAILED,
)
_STATES = {
    InstanceState.IN_SERVICE: TargetState.IN_SERVICE,
    InstanceState.DRAINING: TargetState.DRAINING,
}


@dataclass(frozen=True, slots=True)
class Identity:
    """What every fleet says beside its endpoints.

    Attributes:
        region: AWS Region name.
        account: Twelve digits.
        access_keys: As declared.
        api_keys: As declared.
        session_key: Secret that routers sign the ids of sessions with.
    """

    region: str
    account: str
    access_keys: tuple[AccessKey, ...] = ()
    api_keys: tuple[ApiKey, ...] = ()
    session_key: str = field(default="", repr=False)


def build_fleet(
    endpoints: Iterable[EndpointRecord],
    instances: Iterable[InstanceRecord],
    *,
    facts: Mapping[InstanceId, InstanceFact],
    rules: Rules,
    identity: Identity,
    version: int,
    routers: int = 1,
    components: Iterable[InferenceComponentRecord] = (),
    adapter_failures: Mapping[ComponentName, str] | None = None,
) -> Fleet:
    """Build the fleet.

    Instances that start or stop are not in it, nor those that their provider does not list: a router
    could do nothing with them.

    Args:
        endpoints: All endpoints.
        instances: All instances, hosts and copies.
        facts: What is running.
        rules: Declarations.
        identity: What the fleet says beside its endpoints.
        version: Of the fleet.
        routers: How many routers decide.
        components: All inference components.
        adapter_failures: Why adapters that are loaded nowhere cannot be loaded.
    """
    failures = adapter_failures or {}
    by_endpoint: dict[str, list[InstanceRecord]] = {}
    for record in instances:
        if record.state in _STATES and record.served and record.instance_id in facts:
            by_endpoint.setdefault(record.endpoint, []).append(record)
    by_variant: dict[tuple[str, str], list[Component]] = {}
    for component in sorted(components, key=lambda component: component.name):
        if component.status is not ComponentStatus.DELETING:
            named = Component(component.name, component.base, failures.get(component.name, ""))
            by_variant.setdefault((component.endpoint, component.variant), []).append(named)
    return Fleet(
        version=version,
        region=identity.region,
        account=identity.account,
        endpoints=tuple(
            _endpoint(endpoint, by_endpoint.get(endpoint.name, []), by_variant, facts, rules)
            for endpoint in sorted(endpoints, key=lambda record: record.name)
        ),
        access_keys=identity.access_keys,
        api_keys=identity.api_keys,
        routers=routers,
        session_key=identity.session_key,
    )


def _endpoint(
    endpoint: EndpointRecord,
    records: list[InstanceRecord],
    components: Mapping[tuple[str, str], list[Component]],
    facts: Mapping[InstanceId, InstanceFact],
    rules: Rules,
) -> Endpoint:
    in_service = endpoint.active is not None and endpoint.status in _SERVING
    if endpoint.active is not None and any(variant.carries_copies for variant in endpoint.active.variants):
        targets: dict[str, list[Target]] = {}
        for copy in sorted((r for r in records if r.component), key=lambda record: record.instance_id):
            targets.setdefault(copy.variant, []).append(_target(copy, None, facts[copy.instance_id], rules))
        carrying = [
            _carrying(
                variant,
                targets.pop(variant.name, []),
                components.get((endpoint.name, variant.name), ()),
            )
            for variant in endpoint.active.variants
        ]
        # Copies of variants that an update took away, until they are drained.
        carrying += [_variant((VariantName(name), 0), None, targets[name]) for name in sorted(targets)]
        return Endpoint(endpoint.name, in_service, tuple(carrying), carries_components=True)
    instances = [record for record in records if not record.component]
    serving = Counter(record.group for record in instances if record.state is InstanceState.IN_SERVICE)
    by_group = {one.variant.group: one for one in shown(endpoint, serving)}
    shadow = _shadow(endpoint)
    # Revisions that an update took away have instances until those are drained, and no share any more.
    left = {record.group for record in instances} - set(by_group)
    if shadow is not None:
        left.discard(shadow.variant.group)

    def described(group: Group, one: Shown | None) -> Variant:
        variant = one.variant if one is not None else None
        targets = [
            _target(record, variant, facts[record.instance_id], rules)
            for record in sorted(instances, key=lambda record: record.instance_id)
            if record.group == group
        ]
        return _variant(group, one, targets)

    return Endpoint(
        name=endpoint.name,
        in_service=in_service,
        variants=tuple(described(group, by_group.get(group)) for group in (*by_group, *sorted(left))),
        shadow=described(shadow.variant.group, shadow) if shadow is not None else None,
    )


def _carrying(variant: VariantRecord, targets: list[Target], components: Iterable[Component]) -> Variant:
    """Describe a variant whose instances are host slots: its targets are the copies on them."""
    return replace(_variant(variant.group, Shown(variant, 1.0), targets), components=tuple(components))


def _shadow(endpoint: EndpointRecord) -> Shown | None:
    """Return the shadow variant with the part of the invocations that it gets copies of.

    Choice: its weight over that of the production variant, at most 1; nothing while that one's is 0.
    """
    active = endpoint.active
    if active is None or active.shadow is None:
        return None
    total = sum(variant.weight for variant in active.variants)
    return Shown(active.shadow, min(active.shadow.weight / total, 1.0) if total > 0 else 0.0)


def _variant(group: Group, one: Shown | None, targets: list[Target]) -> Variant:
    return Variant(
        name=group[0],
        revision=group[1],
        weight=one.variant.weight if one is not None else 0.0,
        routing=(one.variant.routing if one is not None else None) or Routing(),
        targets=tuple(targets),
        share=one.share if one is not None else 0.0,
    )


def _target(
    record: InstanceRecord, variant: VariantRecord | None, fact: InstanceFact, rules: Rules
) -> Target:
    launch: Launch = record.launch
    if variant is not None:
        launch = variant.launch  # A server that is not ours may be described anew by a later model.
    image = rules.image(launch)
    generation = target_generation(record, fact)
    return Target(
        target_id=TargetId(record.instance_id),
        instance_id=record.host or record.instance_id,
        generation=generation,
        host=fact.host,
        port=fact.port,
        state=_STATES[record.state],
        tls=fact.tls,
        path_prefix=fact.path_prefix,
        model_name=record.model_name,
        native=image.native if image is not None else NativeMapping.AUTO,
        hold_first_event=image.hold_first_event if image is not None else False,
        api_key=fact.api_key,
        component=record.component,
        adapters=adapters_shown(record.adapters, generation),
        adapter_prefix=(
            f"{record.model_name or ''}:" if any(place.after_base for place in record.adapters) else ""
        ),
    )


def target_generation(record: InstanceRecord, fact: InstanceFact) -> int:
    """Return the generation of an instance's target: a return into service is a new one, too."""
    return fact.generation + record.returns
