"""DescribeInferenceComponent and ListInferenceComponents.

Source: output shapes of the ``sagemaker`` service model.

Choice: an adapter reports its base's variant, in Describe as in List, where it is required.
Choice: CurrentCopyCount counts copies in service; PlacementStatus is there when any is.
"""

from collections import Counter

from warmroute.resources.arns import Kind
from warmroute.resources.components.operations import find_component
from warmroute.resources.listing import Listing, page
from warmroute.resources.records import (
    ComponentSpecification,
    InferenceComponentRecord,
    InstanceRecord,
    InstanceState,
    JsonObject,
)
from warmroute.resources.tables import Context, Outcome, Tables


def describe_inference_component(request: JsonObject, tables: Tables, context: Context) -> Outcome:
    """Return a component as it is now."""
    component = find_component(request, tables, context)
    return Outcome(output=component_document(component, tables.instances(component.endpoint), context))


def component_document(
    component: InferenceComponentRecord, instances: tuple[InstanceRecord, ...], context: Context
) -> JsonObject:
    """Return DescribeInferenceComponentOutput.

    Args:
        component: Its record.
        instances: Those of its endpoint, copies included.
        context: Knows ARNs.
    """
    document: JsonObject = {
        "InferenceComponentName": component.name,
        "InferenceComponentArn": component.arn,
        "EndpointName": component.endpoint,
        "EndpointArn": context.place.arn(Kind.ENDPOINT, component.endpoint),
        "VariantName": component.variant,
        "CreationTime": component.created_s,
        "LastModifiedTime": component.modified_s,
        "InferenceComponentStatus": str(component.status),
    }
    document |= _specifications(component.specification)
    if not component.base:
        document["RuntimeConfig"] = _runtime(component, instances)
    if component.failure_reason is not None:
        document["FailureReason"] = component.failure_reason
    if component.last_policy is not None:
        document["LastDeploymentConfig"] = component.last_policy
    return document


def _specifications(specification: ComponentSpecification) -> JsonObject:
    document = specification.document
    if "Specification" in document:
        return {"Specification": _summary(document["Specification"])}
    return {"Specifications": [_summary(item) for item in document["Specifications"]]}


def _summary(item: JsonObject) -> JsonObject:
    """Return a specification with the image as it is deployed, in place of the image as it was given."""
    if "Container" not in item:
        return item
    container = {member: value for member, value in item["Container"].items() if member != "Image"}
    image = item["Container"].get("Image")
    if image is not None:
        container["DeployedImage"] = {"SpecifiedImage": image, "ResolvedImage": image}
    return item | {"Container": container}


def _runtime(component: InferenceComponentRecord, instances: tuple[InstanceRecord, ...]) -> JsonObject:
    serving = [
        record
        for record in instances
        if record.component == component.name and record.state is InstanceState.IN_SERVICE
    ]
    document: JsonObject = {"DesiredCopyCount": component.count, "CurrentCopyCount": len(serving)}
    if serving:
        by_type = Counter(record.launch.instance_type for record in serving)
        document["PlacementStatus"] = [
            {"InstanceType": name, "CurrentCopyCount": by_type[name]} for name in sorted(by_type)
        ]
    return document


def list_inference_components(request: JsonObject, tables: Tables, context: Context) -> Outcome:
    """Return a page of components."""
    listing = Listing(
        operation="ListInferenceComponents",
        sort_keys={
            "Name": lambda record: record.name,
            "CreationTime": lambda record: record.created_s,
            "Status": lambda record: str(record.status),
        },
    )
    records, token = page(listing, request, tables.inference_components())
    output: JsonObject = {
        "InferenceComponents": [
            {
                "InferenceComponentName": record.name,
                "InferenceComponentArn": record.arn,
                "EndpointName": record.endpoint,
                "EndpointArn": context.place.arn(Kind.ENDPOINT, record.endpoint),
                "VariantName": record.variant,
                "CreationTime": record.created_s,
                "LastModifiedTime": record.modified_s,
                "InferenceComponentStatus": str(record.status),
            }
            for record in records
        ]
    }
    return Outcome(output=output | token)
