"""DescribeEndpoint and ListEndpoints. Source: output shapes of the ``sagemaker`` service model."""

from collections import Counter
from collections.abc import Mapping

from warmroute.core.ids import VariantName
from warmroute.resources.arns import Kind
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
    shown = endpoint.active or endpoint.pending
    assert shown is not None, "config_name asserts it"
    document |= shown.echo
    document["ProductionVariants"] = [_variant(endpoint, variant, serving) for variant in shown.variants]
    if endpoint.failure_reason is not None:
        document["FailureReason"] = endpoint.failure_reason
    if endpoint.last_policy is not None:
        document["LastDeploymentConfig"] = endpoint.last_policy
    changing = (EndpointStatus.CREATING, EndpointStatus.UPDATING)
    if endpoint.pending is not None and endpoint.status in changing:
        document["PendingDeploymentSummary"] = _pending(endpoint.pending, serving)
    return document


def _variant(
    endpoint: EndpointRecord, variant: VariantRecord, serving: Mapping[tuple[VariantName, int], int]
) -> JsonObject:
    wanted = variant
    if endpoint.status is EndpointStatus.UPDATING and endpoint.pending is not None:
        wanted = endpoint.pending.variant(variant.name) or variant
    current = serving.get(variant.group, 0)
    document = _summary(variant) | {
        "CurrentWeight": variant.weight,
        "DesiredWeight": wanted.weight,
        "CurrentInstanceCount": current,
        "DesiredInstanceCount": wanted.count,
    }
    status = _VARIANT_STATUS.get(endpoint.status)
    if status is not None:
        document["VariantStatus"] = [{"Status": status, "StartTime": endpoint.modified_s}]
    return document


def _pending(deployment: Deployment, serving: Mapping[tuple[VariantName, int], int]) -> JsonObject:
    return {
        "EndpointConfigName": deployment.config_name,
        "StartTime": deployment.started_s,
        "ProductionVariants": [
            _summary(variant)
            | {
                "CurrentWeight": 0.0,
                "DesiredWeight": variant.weight,
                "CurrentInstanceCount": serving.get(variant.group, 0),
                "DesiredInstanceCount": variant.count,
                "InstanceType": variant.launch.instance_type,
                "VariantStatus": [{"Status": "Creating", "StartTime": deployment.started_s}],
            }
            for variant in deployment.variants
        ],
    }


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
