"""DescribeEndpoint and ListEndpoints. Source: output shapes of the ``sagemaker`` service model."""

from collections import Counter
from collections.abc import Mapping
from typing import assert_never

from warmroute.resources.arns import Kind
from warmroute.resources.deployments.rollout import Group, shown, steps
from warmroute.resources.endpoint_configs import routing_document
from warmroute.resources.errors import not_found
from warmroute.resources.lifecycle import EndpointStatus
from warmroute.resources.listing import Listing, page
from warmroute.resources.records import (
    Deployment,
    EndpointRecord,
    InstanceRecord,
    InstanceState,
    JsonObject,
    RolloutPhase,
    VariantRecord,
)
from warmroute.resources.tables import Context, Outcome, Tables

_VARIANT_STATUS = {
    EndpointStatus.CREATING: "Creating",
    EndpointStatus.UPDATING: "Updating",
    EndpointStatus.ROLLING_BACK: "Updating",
    EndpointStatus.DELETING: "Deleting",
}


def describe_endpoint(request: JsonObject, tables: Tables, context: Context) -> Outcome:
    """Return an endpoint as it is now."""
    name = request["EndpointName"]
    endpoint = tables.endpoint(name)
    if endpoint is None:
        raise not_found("endpoint", context.place.arn(Kind.ENDPOINT, name))
    return Outcome(output=endpoint_document(endpoint, tables.instances(endpoint.name)))


def endpoint_document(endpoint: EndpointRecord, instances: tuple[InstanceRecord, ...]) -> JsonObject:
    """Return DescribeEndpointOutput."""
    serving = Counter(record.group for record in instances if record.state is InstanceState.IN_SERVICE)
    document: JsonObject = {
        "EndpointName": endpoint.name,
        "EndpointArn": endpoint.arn,
        "EndpointConfigName": endpoint.config_name,
        "EndpointStatus": str(endpoint.status),
        "CreationTime": endpoint.created_s,
        "LastModifiedTime": endpoint.modified_s,
    }
    main = endpoint.active or endpoint.pending
    assert main is not None, "config_name asserts it"
    document |= main.echo
    document["ProductionVariants"] = [_variant(endpoint, variant, serving) for variant in main.variants]
    for shown_variant, variant in zip(document["ProductionVariants"], main.variants, strict=True):
        if variant.pools:
            shown_variant["InstancePools"] = _pools(variant, instances)
    if main.shadow is not None:
        document["ShadowProductionVariants"] = [_variant(endpoint, main.shadow, serving)]
    if endpoint.failure_reason is not None:
        document["FailureReason"] = endpoint.failure_reason
    if endpoint.last_policy is not None:
        document["LastDeploymentConfig"] = endpoint.last_policy
    if endpoint.pending is not None and _is_deploying(endpoint, endpoint.pending):
        pending = document["PendingDeploymentSummary"] = _pending(endpoint, endpoint.pending, serving)
        for shown_variant, variant in zip(
            pending["ProductionVariants"], endpoint.pending.variants, strict=True
        ):
            if variant.pools:
                del shown_variant["InstanceType"]
                shown_variant["InstancePools"] = _pools(variant, instances)
    return document


def _is_deploying(endpoint: EndpointRecord, pending: Deployment) -> bool:
    """Return whether what is pending is another configuration, and not only other weights or counts."""
    if endpoint.status not in (EndpointStatus.CREATING, EndpointStatus.UPDATING):
        return False
    active = endpoint.active
    if active is None or active.config_name != pending.config_name:
        return True
    return {one.group for one in active.all_variants} != {one.group for one in pending.all_variants}


def _variant(endpoint: EndpointRecord, variant: VariantRecord, serving: Mapping[Group, int]) -> JsonObject:
    wanted = variant
    if endpoint.status is EndpointStatus.UPDATING and endpoint.pending is not None:
        wanted = endpoint.pending.variant(variant.name) or variant
    groups = {one.group for one in endpoint.mixed if one.name == variant.name} | {variant.group}
    document = _summary(variant) | {
        "CurrentWeight": _weight_now(endpoint, variant, serving),
        "DesiredWeight": wanted.weight,
        "CurrentInstanceCount": sum(serving.get(group, 0) for group in groups),
        "DesiredInstanceCount": wanted.count,
    }
    status = _VARIANT_STATUS.get(endpoint.status)
    if status is not None:
        document["VariantStatus"] = [_status(endpoint, status, since_s=endpoint.modified_s, old=True)]
    return document


def _weight_now(endpoint: EndpointRecord, variant: VariantRecord, serving: Mapping[Group, int]) -> float:
    """Return a variant's weight, or the part that this revision has of it during a deployment in steps."""
    if endpoint.rollout is None:
        return variant.weight
    found = (one for one in shown(endpoint, serving) if one.variant.group == variant.group)
    return next((one.variant.weight * one.share for one in found), 0.0)


def _status(endpoint: EndpointRecord, status: str, *, since_s: float, old: bool) -> JsonObject:
    """Return a VariantStatus: of old or new instances of a deployment in steps, or the one given."""
    rollout = endpoint.rollout
    if rollout is None or rollout.back is not None:
        return {"Status": status, "StartTime": since_s}
    count = len(steps(endpoint))
    step = f"Step {rollout.step + 1} of {count}"
    match rollout.phase:
        case RolloutPhase.PROVISIONING:
            text = f"{step}: new instances are being started."
        case RolloutPhase.SHIFTING:
            status, text = "ActivatingTraffic", f"{step}: traffic is being shifted."
        case RolloutPhase.BAKING:
            status, text = "Baking", f"{step}: alarms and health checks are being watched."
        case RolloutPhase.TERMINATING:
            status = "Deleting" if old else "Updating"
            text = "All traffic is on the new instances; the old ones wait for their end."
        case _:
            assert_never(rollout.phase)
    return {"Status": status, "StatusMessage": text, "StartTime": rollout.since_s}


def _pending(endpoint: EndpointRecord, deployment: Deployment, serving: Mapping[Group, int]) -> JsonObject:
    def described(variant: VariantRecord) -> JsonObject:
        weight = _weight_now(endpoint, variant, serving) if endpoint.rollout is not None else 0.0
        return _summary(variant) | {
            "CurrentWeight": weight,
            "DesiredWeight": variant.weight,
            "CurrentInstanceCount": serving.get(variant.group, 0),
            "DesiredInstanceCount": variant.count,
            "InstanceType": variant.launch.instance_type,
            "VariantStatus": [_status(endpoint, "Creating", since_s=deployment.started_s, old=False)],
        }

    document: JsonObject = {
        "EndpointConfigName": deployment.config_name,
        "StartTime": deployment.started_s,
        "ProductionVariants": [described(variant) for variant in deployment.variants],
    }
    if deployment.shadow is not None:
        document["ShadowProductionVariants"] = [described(deployment.shadow)]
    return document


def _pools(variant: VariantRecord, instances: tuple[InstanceRecord, ...]) -> list[JsonObject]:
    """Return how many instances of each of a variant's types are in service."""
    serving = Counter(
        record.launch.instance_type
        for record in instances
        if record.group == variant.group and record.state is InstanceState.IN_SERVICE
    )
    types = [launch.instance_type for launch in variant.pools]
    return [{"InstanceType": name, "CurrentInstanceCount": serving[name]} for name in types]


def _summary(variant: VariantRecord) -> JsonObject:
    document: JsonObject = {"VariantName": variant.name} | variant.echo
    if variant.launch.image is not None:
        document["DeployedImages"] = [
            {"SpecifiedImage": variant.launch.image, "ResolvedImage": variant.launch.image}
        ]
    if variant.routing is not None:
        document["RoutingConfig"] = routing_document(variant.routing)
    return document


def list_endpoints(request: JsonObject, tables: Tables, _context: Context) -> Outcome:
    """Return a page of endpoints."""
    listing = Listing(
        operation="ListEndpoints",
        sort_keys={
            "Name": lambda record: record.name,
            "CreationTime": lambda record: record.created_s,
            "Status": lambda record: str(record.status),
        },
    )
    records, token = page(listing, request, tables.endpoints())
    output: JsonObject = {
        "Endpoints": [
            {
                "EndpointName": record.name,
                "EndpointArn": record.arn,
                "CreationTime": record.created_s,
                "LastModifiedTime": record.modified_s,
                "EndpointStatus": str(record.status),
            }
            for record in records
        ]
    }
    return Outcome(output=output | token)
