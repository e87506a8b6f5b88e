"""What the service model does not say: which resources there are, and how the smallest request succeeds.

Whoever serves a new operation adds its row to ``BASES``; what its members require of each other goes into
``meanings``.
"""

from dataclasses import replace
from typing import Any

from tests.conformance.world import ACCOUNT, REGION, TYPE
from warmroute.resources.lifecycle import ComponentStatus
from warmroute.resources.operations import OPERATIONS

ARN = f"arn:aws:sagemaker:{REGION}:{ACCOUNT}"
VARIANT = {"VariantName": "v", "ModelName": "m", "InstanceType": TYPE, "InitialInstanceCount": 4}
NEEDS = {"MinMemoryRequiredInMb": 1024, "NumberOfAcceleratorDevicesRequired": 1}
SPECIFICATION = {"ModelName": "m", "ComputeResourceRequirements": NEEDS}
ADAPTER = {"BaseInferenceComponentName": "comp", "Container": {"ArtifactUrl": "s3://b/adapter.tar.gz"}}
ROLE = f"arn:aws:iam::{ACCOUNT}:role/sm"

BASES: dict[str, dict[str, Any]] = {
    "CreateModel": {"ModelName": "new", "PrimaryContainer": {"Image": "img"}},
    "DescribeModel": {"ModelName": "m"},
    "ListModels": {},
    "DeleteModel": {"ModelName": "m"},
    "CreateEndpointConfig": {"EndpointConfigName": "new", "ProductionVariants": [VARIANT]},
    "DescribeEndpointConfig": {"EndpointConfigName": "c"},
    "ListEndpointConfigs": {},
    "DeleteEndpointConfig": {"EndpointConfigName": "c"},
    "CreateEndpoint": {"EndpointName": "new", "EndpointConfigName": "c"},
    "DescribeEndpoint": {"EndpointName": "ep"},
    "ListEndpoints": {},
    "UpdateEndpoint": {"EndpointName": "ep", "EndpointConfigName": "c2"},
    "UpdateEndpointWeightsAndCapacities": {
        "EndpointName": "ep",
        "DesiredWeightsAndCapacities": [{"VariantName": "v", "DesiredWeight": 0.5}],
    },
    "DeleteEndpoint": {"EndpointName": "ep"},
    "CreateInferenceComponent": {
        "InferenceComponentName": "new",
        "EndpointName": "hosts",
        "Specification": SPECIFICATION,
        "RuntimeConfig": {"CopyCount": 1},
    },
    "DescribeInferenceComponent": {"InferenceComponentName": "comp"},
    "ListInferenceComponents": {},
    "UpdateInferenceComponent": {"InferenceComponentName": "comp", "Specification": SPECIFICATION},
    "UpdateInferenceComponentRuntimeConfig": {
        "InferenceComponentName": "comp",
        "DesiredRuntimeConfig": {"CopyCount": 1},
    },
    "DeleteInferenceComponent": {"InferenceComponentName": "other"},
    "AddTags": {"ResourceArn": f"{ARN}:model/bare"},
    "ListTags": {"ResourceArn": f"{ARN}:model/m"},
    "DeleteTags": {"ResourceArn": f"{ARN}:model/m", "TagKeys": ["k"]},
}
"""By operation: what makes the smallest request of the model one that succeeds in ``populate``'s world."""


async def populate(world):
    """Make the resources that ``BASES`` names, and let the endpoint come into service."""
    tags = [{"Key": "k", "Value": "v"}]
    for name in ("m", "bare"):
        await world.do(
            "CreateModel", ModelName=name, PrimaryContainer={"Image": "img"}, Tags=tags if name == "m" else []
        )
    await world.do("CreateEndpointConfig", EndpointConfigName="c", ProductionVariants=[VARIANT], Tags=tags)
    routed = VARIANT | {"RoutingConfig": {"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"}}
    await world.do("CreateEndpointConfig", EndpointConfigName="c2", ProductionVariants=[routed])
    await world.do("CreateEndpoint", EndpointName="ep", EndpointConfigName="c", Tags=tags)
    await world.settle()
    described = await world.do("DescribeEndpoint", EndpointName="ep")
    assert described["EndpointStatus"] == "InService"
    if "CreateInferenceComponent" in OPERATIONS:
        await _populate_components(world, tags)


async def _populate_components(world, tags):
    hosts = {"VariantName": "v", "InstanceType": TYPE, "InitialInstanceCount": 1}
    await world.do(
        "CreateEndpointConfig", EndpointConfigName="h", ProductionVariants=[hosts], ExecutionRoleArn=ROLE
    )
    await world.do("CreateEndpoint", EndpointName="hosts", EndpointConfigName="h", Tags=tags)
    await world.settle()
    for name, specification in (("comp", SPECIFICATION), ("other", SPECIFICATION), ("adapter", ADAPTER)):
        await world.do(
            "CreateInferenceComponent",
            InferenceComponentName=name,
            EndpointName="hosts",
            Specification=specification,
            Tags=tags,
        )
        with world.store.transaction() as transaction:
            record = transaction.inference_component(name)
            transaction.put(
                replace(record, status=ComponentStatus.IN_SERVICE, active=record.pending, pending=None)
            )
