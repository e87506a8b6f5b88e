"""Endpoints and instances as documents for people: what records, providers and routers know, in one place."""

from collections.abc import Iterator

from warmroute.controlplane.changes import base_url
from warmroute.controlplane.ports import InstanceFact
from warmroute.core.fleet import Fleet, Target, Variant
from warmroute.resources.deployments.rollout import steps
from warmroute.resources.endpoint_configs import routing_document
from warmroute.resources.instances import Observed
from warmroute.resources.records import EndpointRecord, InstanceRecord, JsonObject, VariantRecord


def variant_documents(endpoint: EndpointRecord, fleet: Fleet | None) -> list[JsonObject]:
    """Return every variant and revision that an endpoint has now, those being deployed included.

    Args:
        endpoint: Its record.
        fleet: The newest; None before the first.

    Returns:
        One document per variant and revision; ``Share`` is the part of the variant's traffic that routers
        give to the revision, 0 for one that they do not know.
    """
    shown: dict[tuple[str, int], JsonObject] = {}
    for deployment in (endpoint.active, endpoint.pending):
        if deployment is None:
            continue
        for variant in deployment.all_variants:
            document = _variant(variant, _published(endpoint, variant, fleet))
            document["ConfigName"] = deployment.config_name
            document["Pending"] = deployment is endpoint.pending
            if variant is deployment.shadow:
                document["Shadow"] = True
            known = shown.setdefault((variant.name, variant.revision), document)
            known["DesiredInstanceCount"] = variant.count  # a variant that stays may get another one
    for variant in endpoint.mixed:  # what a rollback that failed has left beside
        document = _variant(variant, _published(endpoint, variant, fleet))
        shown.setdefault((variant.name, variant.revision), document | {"ConfigName": "", "Pending": False})
    return list(shown.values())


def _variant(variant: VariantRecord, published: Variant | None) -> JsonObject:
    document: JsonObject = {
        "VariantName": variant.name,
        "Revision": variant.revision,
        "InstanceType": variant.launch.instance_type,
        "DesiredInstanceCount": variant.count,
        "Weight": variant.weight,
        "Share": published.share if published is not None else 0.0,
    }
    if variant.launch.model_name:
        document["ModelName"] = variant.launch.model_name
    if variant.routing is not None:
        document["RoutingConfig"] = routing_document(variant.routing)
    return document


def _published(endpoint: EndpointRecord, variant: VariantRecord, fleet: Fleet | None) -> Variant | None:
    serves = endpoint.active is not None and variant in endpoint.active.all_variants
    # A fleet that shows one revision of a variant need not number it: it is the one that serves.
    revisions = (variant.revision, 0) if serves else (variant.revision,)
    for published in fleet.endpoints if fleet is not None else ():
        for one in published.all_variants if published.name == endpoint.name else ():
            if one.name == variant.name and one.revision in revisions:
                return one
    return None


def rollout_document(endpoint: EndpointRecord) -> JsonObject | None:
    """Return where a deployment in steps stands; None where there is none. ``Step`` counts from 0."""
    rollout = endpoint.rollout
    if rollout is None or endpoint.pending is None:
        return None
    return {
        "Step": rollout.step,
        "Steps": len(steps(endpoint)),
        "Phase": str(rollout.phase),
        "Since": rollout.since_s,
        "RollingBack": rollout.back is not None,
    }


def instance_document(
    record: InstanceRecord,
    *,
    fact: InstanceFact | None,
    observed: Observed | None,
    in_flight: int | None,
    fleet: Fleet | None,
) -> JsonObject:
    """Return what there is to know of an instance, a host slot or a copy; what is not known is left out.

    Args:
        record: Its record.
        fact: What its provider says.
        observed: What health checks say.
        in_flight: Leases open on it.
        fleet: Says which adapters routers think it has loaded.
    """
    document: JsonObject = {
        "InstanceId": record.instance_id,
        "EndpointName": record.endpoint,
        "VariantName": record.variant,
        "Revision": record.revision,
        "State": str(record.state),
        "InstanceType": record.launch.instance_type,
        "CreationTime": record.created_s,
        "Attempt": record.attempt,
    }
    known: JsonObject = {
        "InferenceComponentName": record.component or None,
        "HostInstanceId": record.host,
        "Devices": list(record.devices) or None,
        "CarriesCopies": record.carries_copies or None,
        "InServiceTime": record.in_service_s,
        "DrainingTime": record.draining_s,
        "DrainOrdered": record.drain_ordered or None,
        "ServedModelName": record.model_name,
        "Reason": record.reason or None,
        "InFlight": in_flight,
        "Url": base_url(fact) if fact is not None and fact.port else None,
        "ProcessId": fact.pid if fact is not None else None,
        "Health": observed.detail or None if observed is not None else None,
        "FailedHealthChecks": observed.failures or None if observed is not None else None,
        "Adapters": [name for target in _targets(record, fleet) for name in target.adapters] or None,
    }
    return document | {name: value for name, value in known.items() if value is not None}


def _targets(record: InstanceRecord, fleet: Fleet | None) -> Iterator[Target]:
    for endpoint in fleet.endpoints if fleet is not None else ():
        if endpoint.name == record.endpoint:
            for variant in endpoint.all_variants:
                yield from (one for one in variant.targets if str(one.target_id) == record.instance_id)
