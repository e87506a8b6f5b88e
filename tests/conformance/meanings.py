"""What members of a request require of each other, and values that are refused for what they mean."""

import copy

from tests.conformance import scaling_meanings
from tests.conformance.facts import ADAPTER, SPECIFICATION, VARIANT
from tests.conformance.meaning import Meaning, is_not

PREFIX = {"PrefixLength": 4096, "ConcurrencyThreshold": 10}


def repair(operation, path, request):
    """Return a request in which what the node at ``path`` requires of others is so."""
    request = copy.deepcopy(request)
    names = [step for step in path if isinstance(step, str)]
    match operation, names:
        case "CreateModel", ["Containers", *_]:
            request.pop("PrimaryContainer", None)
        case "CreateEndpointConfig", ["DataCaptureConfig", *rest] if rest != ["EnableCapture"]:
            request["DataCaptureConfig"].setdefault("EnableCapture", False)
        case "CreateEndpointConfig", ["ProductionVariants" | "ShadowProductionVariants" as member, *rest]:
            for variant in request[member]:
                _repair_variant(variant, rest)
        case "CreateInferenceComponent" | "UpdateInferenceComponent", names:
            _repair_component(request, names)
        case "UpdateEndpointWeightsAndCapacities", ["DesiredWeightsAndCapacities", *rest] if not rest:
            for item in request["DesiredWeightsAndCapacities"]:
                item["VariantName"] = "v"
        case "CreateEndpoint" | "UpdateEndpoint", ["DeploymentConfig", *rest]:
            _repair_deployment(request["DeploymentConfig"], rest)
        case "UpdateEndpoint", ["ExcludeRetainedVariantProperties", *_]:
            request["RetainAllVariantProperties"] = True
        case _:
            scaling_meanings.repair(operation, names, request)
    return request


def _repair_variant(variant, rest):
    for member, value in VARIANT.items():
        variant.setdefault(member, value)
    if "InstancePools" in variant:
        variant.pop("InstanceType", None)
        for number, pool in enumerate(variant["InstancePools"], 1):
            pool.setdefault("Priority", number)
    scaling = variant.get("ManagedInstanceScaling")
    if scaling is not None and "ManagedInstanceScaling" in rest:
        scaling.setdefault("MinInstanceCount", 1)
        scaling.setdefault("MaxInstanceCount", 2)
    routing = variant.get("RoutingConfig")
    if routing is None:
        return
    if "PrefixAwareRoutingConfig" in rest:
        routing["RoutingStrategy"] = "PREFIX_AWARE"
    if routing["RoutingStrategy"] == "PREFIX_AWARE":
        routing["PrefixAwareRoutingConfig"] = PREFIX | routing.get("PrefixAwareRoutingConfig", {})


def _repair_component(request, names):
    if names[0] == "Specifications":
        request.pop("Specification", None)
    if names[0] == "DeploymentConfig":
        _repair_batches(request["DeploymentConfig"], names, "COPY_COUNT")
    for number, item in enumerate(request.get("Specifications", ())):
        _repair_specification(item, names)
        if len(request["Specifications"]) > 1:
            item["InstanceType"] = f"ml.g5.{(1, 2, 4, 8, 12)[number]}xlarge".replace(".1x", ".x")
    if "Specification" in request:
        _repair_specification(request["Specification"], names)
    if any("BaseInferenceComponentName" in item for item in request.get("Specifications", [{}])):
        request.pop("RuntimeConfig", None)
    if "BaseInferenceComponentName" in request.get("Specification", {}):
        request.pop("RuntimeConfig", None)


def _repair_specification(item, names):
    if "BaseInferenceComponentName" in names:
        base = item["BaseInferenceComponentName"]
        item.clear()
        item.update(copy.deepcopy(ADAPTER) | {"BaseInferenceComponentName": base})
        return
    if "Container" in names:
        item.pop("ModelName", None)
        item["Container"].setdefault("Image", "img")
    else:
        item.setdefault("ModelName", SPECIFICATION["ModelName"])
    if "MaxMemoryRequiredInMb" in names:
        item["ComputeResourceRequirements"]["MinMemoryRequiredInMb"] = 128
    for member, value in SPECIFICATION["ComputeResourceRequirements"].items():
        item.setdefault("ComputeResourceRequirements", {}).setdefault(member, value)


def _repair_deployment(policy, rest):
    routing = policy.get("BlueGreenUpdatePolicy", {}).get("TrafficRoutingConfiguration")
    for member, kind in (("CanarySize", "CANARY"), ("LinearStepSize", "LINEAR")):
        if routing is not None and (member in rest or routing["Type"] == kind):
            size = routing.setdefault(member, {})
            routing["Type"] = kind
            _repair_size(size, "INSTANCE_COUNT", rest if member in rest else [])
    _repair_batches(policy, rest, "INSTANCE_COUNT")


def _repair_batches(policy, names, count):
    for member in ("MaximumBatchSize", "RollbackMaximumBatchSize"):
        size = policy.get("RollingUpdatePolicy", {}).get(member)
        if size is not None:
            _repair_size(size, count, names if member in names else [])


def _repair_size(size, count, names):
    """Make a size fit: one of the four instances, or half of them in percent."""
    if "Value" in names:
        size["Type"] = count
        return
    if "Type" not in names:
        size["Type"] = "CAPACITY_PERCENT"
    size["Value"] = 1 if size["Type"] == count else 50


# --- Values that are refused for what they mean -----------------------------------------------------


MEANINGS = (
    Meaning("ListModels", "NextToken", "NextToken is not one that this operation returned"),
    Meaning("ListEndpointConfigs", "NextToken", "NextToken is not one that this operation returned"),
    Meaning("ListEndpoints", "NextToken", "NextToken is not one that this operation returned"),
    Meaning("ListTags", "NextToken", "NextToken is not one that ListTags returned"),
    Meaning("DescribeModel", "ModelName", "Could not find model", is_not("m")),
    Meaning("DeleteModel", "ModelName", "Could not find model", is_not("m")),
    Meaning("DescribeEndpointConfig", "EndpointConfigName", "Could not find endpoint conf", is_not("c")),
    Meaning("DeleteEndpointConfig", "EndpointConfigName", "Could not find endpoint conf", is_not("c")),
    Meaning("CreateEndpoint", "EndpointConfigName", "Could not find endpoint configuration", is_not("c")),
    Meaning("UpdateEndpoint", "EndpointConfigName", "Could not find endpoint configuration", is_not("c2")),
    Meaning("DescribeEndpoint", "EndpointName", "Could not find endpoint", is_not("ep")),
    Meaning("UpdateEndpoint", "EndpointName", "Could not find endpoint", is_not("ep")),
    Meaning("UpdateEndpointWeightsAndCapacities", "EndpointName", "Could not find endpoint", is_not("ep")),
    Meaning("DeleteEndpoint", "EndpointName", "Could not find endpoint", is_not("ep")),
    Meaning(
        "UpdateEndpointWeightsAndCapacities",
        "VariantName",
        "is/are not present within endpoint configuration",
        is_not("v"),
    ),
    Meaning("CreateEndpointConfig", "ModelNameOverride", "Could not find model", is_not("m")),
    Meaning("ListInferenceComponents", "NextToken", "NextToken is not one that this operation returned"),
    Meaning("CreateInferenceComponent", "EndpointName", "Could not find endpoint", is_not("hosts")),
    Meaning("CreateInferenceComponent", "VariantName", "is/are not present within endpoint", is_not("v")),
    Meaning("CreateInferenceComponent", "ModelName", "Could not find model", is_not("m")),
    Meaning(
        "CreateInferenceComponent", "BaseInferenceComponentName", "Could not find inference", is_not("comp")
    ),
    Meaning("UpdateInferenceComponent", "ModelName", "Could not find model", is_not("m")),
    Meaning("UpdateInferenceComponent", "InferenceComponentName", "Could not find inf", is_not("comp")),
    Meaning("UpdateInferenceComponent", "BaseInferenceComponentName", "is no adapter"),
    Meaning("DescribeInferenceComponent", "InferenceComponentName", "Could not find inf", is_not("comp")),
    Meaning("DeleteInferenceComponent", "InferenceComponentName", "Could not find inf", is_not("other")),
    Meaning(
        "UpdateInferenceComponentRuntimeConfig", "InferenceComponentName", "Could not find", is_not("comp")
    ),
    Meaning("CreateEndpoint", "AlarmName", "names alarms that do not exist", is_not("a")),
    Meaning("UpdateInferenceComponent", "AlarmName", "names alarms that do not exist", is_not("a")),
    Meaning("UpdateEndpoint", "AlarmName", "names alarms that do not exist", is_not("a")),
    Meaning("AddTags", "ResourceArn", "names no model, endpoint"),
    Meaning("ListTags", "ResourceArn", "names no model, endpoint"),
    Meaning("DeleteTags", "ResourceArn", "names no model, endpoint"),
    Meaning("CreateModel", "Mode", "Mode MultiModel", lambda value: value == "MultiModel"),
    Meaning("CreateModel", "Containers", "A model of 15 containers", lambda value: len(value) > 1),
    Meaning("CreateModel", "Containers", "has no container", lambda value: not value),
    Meaning("CreateEndpointConfig", "ModelName", "Could not find model", is_not("m")),
    Meaning(
        "CreateEndpointConfig",
        "ShadowProductionVariants",
        "there must be one production variant and one shadow variant",
        lambda value: len(value) > 1,
    ),
    Meaning(
        "CreateEndpointConfig", "EnableCapture", "DataCaptureConfig is not supported", lambda value: value
    ),
    Meaning(
        "CreateEndpointConfig",
        "ManagedInstanceScaling.Status",
        "ManagedInstanceScaling of variant",
        lambda value: value == "ENABLED",
    ),
)
"""Checked to be refused with these words; a value that no row covers has to be accepted."""


def meaning_of(operation, dotted, value):
    """Return the row of a value that is refused although the model allows it; None for none."""
    for row in (*MEANINGS, *scaling_meanings.MEANINGS):
        end = dotted == row.dotted or dotted.endswith(f".{row.dotted}")
        if row.operation == operation and end and row.applies(value):
            return row
    return None
