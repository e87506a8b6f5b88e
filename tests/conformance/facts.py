"""What the service model does not say: which resources there are, and how the smallest request succeeds.

Whoever serves a new operation adds its row to ``BASES``; what its members require of each other goes into
``meanings``.
"""

from dataclasses import replace
from typing import Any

from tests.conformance.world import ACCOUNT, REGION, TYPE
from warmroute.resources.lifecycle import ComponentStatus

ARN = f"arn:aws:sagemaker:{REGION}:{ACCOUNT}"
VARIANT = {"VariantName": "v", "ModelName": "m", "InstanceType": TYPE, "InitialInstanceCount": 4}
NEEDS = {"MinMemoryRequiredInMb": 1024, "NumberOfAcceleratorDevicesRequired": 1}
SPECIFICATION = {"ModelName": "m", "ComputeResourceRequirements": NEEDS}
ADAPTER = {"BaseInferenceComponentName": "comp", "Container": {"ArtifactUrl": "s3://b/adapter.tar.gz"}}
ROLE = f"arn:aws:iam::{ACCOUNT}:role/sm"

SCALED = {
    "ServiceNamespace": "sagemaker",
    "ResourceId": "endpoint/ep/variant/v",
    "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
}
COPIES = {
    "ServiceNamespace": "sagemaker",
    "ResourceId": "inference-component/comp",
    "ScalableDimension": "sagemaker:inference-component:DesiredCopyCount",
}
STEPS = {
    "AdjustmentType": "ChangeInCapacity",
    "StepAdjustments": [{"MetricIntervalLowerBound": 0, "ScalingAdjustment": 1}],
}
POLICY = SCALED | {"PolicyType": "StepScaling", "StepScalingPolicyConfiguration": STEPS}
TRACK = SCALED | {
    "PolicyType": "TargetTrackingScaling",
    "TargetTrackingScalingPolicyConfiguration": {
        "TargetValue": 7,
        "CustomizedMetricSpecification": {
            "MetricName": "ModelLatency",
            "Namespace": "AWS/SageMaker",
            "Dimensions": [
                {"Name": "EndpointName", "Value": "ep"},
                {"Name": "VariantName", "Value": "v"},
            ],
            "Statistic": "Average",
        },
    },
}
ACTION = SCALED | {"Schedule": "rate(5 minutes)", "ScalableTargetAction": {"MinCapacity": 1}}
TARGET_ARN = f"arn:aws:application-autoscaling:{REGION}:{ACCOUNT}:scalable-target/id-1"
NAMESPACE = {"ServiceNamespace": "sagemaker"}

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
    "RegisterScalableTarget": COPIES | {"MinCapacity": 1, "MaxCapacity": 4},
    "DescribeScalableTargets": NAMESPACE,
    "DeregisterScalableTarget": SCALED,
    "PutScalingPolicy": POLICY | {"PolicyName": "new"},
    "DescribeScalingPolicies": NAMESPACE,
    "DeleteScalingPolicy": SCALED | {"PolicyName": "steps"},
    "PutScheduledAction": ACTION | {"ScheduledActionName": "new"},
    "DescribeScheduledActions": NAMESPACE,
    "DeleteScheduledAction": SCALED | {"ScheduledActionName": "act"},
    "DescribeScalingActivities": NAMESPACE,
    "TagResource": {"ResourceARN": TARGET_ARN},
    "UntagResource": {"ResourceARN": TARGET_ARN, "TagKeys": ["k"]},
    "ListTagsForResource": {"ResourceARN": TARGET_ARN},
}
"""By operation: what makes the smallest request of the model one that succeeds in ``populate``'s world."""


async def populate(world):
    """Make the resources that ``BASES`` names, a second apart, and let them come into service."""
    tags = [{"Key": "k", "Value": "v"}]
    hosts = {"VariantName": "v", "InstanceType": TYPE, "InitialInstanceCount": 1}
    routed = VARIANT | {"RoutingConfig": {"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"}}
    configs = {"h": hosts, "c": VARIANT, "c2": routed, "c3": VARIANT | {"ModelName": "m3"}}
    for name, image in (("m", "img"), ("m3", "other"), ("bare", "img")):
        world.clock.now_s += 1
        own = {"Tags": tags} if name == "m" else {}
        await world.do("CreateModel", ModelName=name, PrimaryContainer={"Image": image}, **own)
    for name, variant in configs.items():
        world.clock.now_s += 1
        more = {"ExecutionRoleArn": ROLE} if name == "h" else {"Tags": tags}
        await world.do("CreateEndpointConfig", EndpointConfigName=name, ProductionVariants=[variant], **more)
    for name, used in (("hosts", "h"), ("ep", "c")):
        world.clock.now_s += 1
        await world.do("CreateEndpoint", EndpointName=name, EndpointConfigName=used, Tags=tags)
        await world.settle()
        described = await world.do("DescribeEndpoint", EndpointName=name)
        assert described["EndpointStatus"] == "InService", described
    for name, specification in (("comp", SPECIFICATION), ("other", SPECIFICATION), ("adapter", ADAPTER)):
        world.clock.now_s += 1
        await world.do(
            "CreateInferenceComponent",
            InferenceComponentName=name,
            EndpointName="hosts",
            Specification=specification,
            Tags=tags,
        )
        for _ in range(8):
            await world.step()
        await _into_service(world, name)
    bounds = {"MinCapacity": 1, "MaxCapacity": 9, "Tags": {"k": "v"}}
    target = await world.do("RegisterScalableTarget", **SCALED, **bounds)
    assert target == {"ScalableTargetARN": TARGET_ARN}
    await world.do("PutScalingPolicy", PolicyName="steps", **POLICY)
    for name in ("act", "act2"):
        await world.do("PutScheduledAction", ScheduledActionName=name, **ACTION)
    await world.do("RegisterScalableTarget", **COPIES, MinCapacity=1, MaxCapacity=4)
    await world.do("PutScalingPolicy", PolicyName="track", **TRACK)


async def _into_service(world, name):
    """Adapters come into service with what loads them, which is not here."""
    with world.store.transaction() as transaction:
        record = transaction.inference_component(name)
        assert record.status is ComponentStatus.IN_SERVICE or record.base, record
        transaction.put(
            replace(
                record,
                status=ComponentStatus.IN_SERVICE,
                active=record.active or record.pending,
                pending=None,
            )
        )
