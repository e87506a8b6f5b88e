"""Every answer against SageMaker's own output shapes, in every state an endpoint can be in."""

from dataclasses import replace

import msgspec
import pytest
from botocore.parsers import create_parser

from tests.service_models import load_service_model
from warmroute.adapters.service_model import load_schema
from warmroute.resources.lifecycle import EndpointStatus
from warmroute.resources.operations import OPERATIONS
from warmroute.resources.records import InstanceRecord, InstanceState
from warmroute.resources.validate import validate

ROUTING = {
    "RoutingStrategy": "PREFIX_AWARE",
    "PrefixAwareRoutingConfig": {"PrefixLength": 4096, "ConcurrencyThreshold": 10},
}
POLICY = {
    "BlueGreenUpdatePolicy": {
        "TrafficRoutingConfiguration": {"Type": "ALL_AT_ONCE", "WaitIntervalInSeconds": 0},
        "TerminationWaitInSeconds": 0,
    }
}


@pytest.fixture(scope="module")
def schema():
    return load_schema(())


@pytest.fixture(scope="module")
def service_model():
    return load_service_model("sagemaker")


@pytest.fixture
def check(api, schema, service_model):
    """Call an operation and hold its answer to the shape."""

    def call(operation, **request):
        validate(schema.inputs[operation], request)
        output = api.call(operation, **request)
        shape = schema.outputs.get(operation)
        if shape is None:
            assert output == {}
            return output
        assert validate(shape, output) == output, "a member that SageMaker does not have"
        response = {"status_code": 200, "headers": {}, "body": msgspec.json.encode(output)}
        botocore_shape = service_model.operation_model(operation).output_shape
        parsed = create_parser("json").parse(response, botocore_shape)
        assert set(botocore_shape.required_members) <= set(parsed)
        return output

    return call


@pytest.fixture
def resources(check, make_variant):
    tags = [{"Key": "team", "Value": "x"}]
    return [
        check(
            "CreateModel",
            ModelName="m",
            PrimaryContainer={
                "Image": "img",
                "Environment": {"A": "1"},
                "ModelDataUrl": "file:///m.gguf",
                "ImageConfig": {"RepositoryAccessMode": "Platform"},
                "ContainerMetricsConfig": {"MetricsEndpoints": [{"MetricsEndpointPath": "/metrics"}]},
            },
            VpcConfig={"SecurityGroupIds": ["sg-1"], "Subnets": ["s-1"]},
            ExecutionRoleArn="arn:aws:iam::123456789012:role/sm",
            InferenceExecutionConfig={"Mode": "Serial"},
            Tags=tags,
        )["ModelArn"],
        check(
            "CreateEndpointConfig",
            EndpointConfigName="c",
            ProductionVariants=[
                make_variant(
                    RoutingConfig=ROUTING,
                    InstanceType="ml.g5.xlarge",
                    InitialVariantWeight=0.5,
                    VolumeSizeInGB=10,
                    EnableSSMAccess=True,
                    ManagedInstanceScaling={"Status": "DISABLED", "MinInstanceCount": 1},
                    ContainerStartupHealthCheckTimeoutInSeconds=600,
                ),
                make_variant(VariantName="w", InstanceType="ml.g5.xlarge"),
            ],
            KmsKeyId="key",
            MetricsConfig={"EnableEnhancedMetrics": True},
            ExecutionRoleArn="arn:aws:iam::123456789012:role/sm",
            Tags=tags,
        )["EndpointConfigArn"],
        check(
            "CreateEndpoint", EndpointName="ep", EndpointConfigName="c", DeploymentConfig=POLICY, Tags=tags
        )["EndpointArn"],
    ]


def test_models_configs_and_tags(check, resources):
    check("DescribeModel", ModelName="m")
    check("DescribeEndpointConfig", EndpointConfigName="c")
    for arn in resources:
        check("AddTags", ResourceArn=arn, Tags=[{"Key": "k", "Value": "v"}])
        check("ListTags", ResourceArn=arn)
        check("DeleteTags", ResourceArn=arn, TagKeys=["k"])
    for index in range(3):
        check("CreateModel", ModelName=f"m{index}", PrimaryContainer={})
    assert "NextToken" in check("ListModels", MaxResults=2)
    check("ListEndpointConfigs")
    check("ListEndpoints")
    check("DeleteModel", ModelName="m")
    check("DeleteEndpointConfig", EndpointConfigName="c")


@pytest.mark.parametrize("updating", [False, True])
def test_endpoints_in_every_status(check, api, resources, updating):
    record = api.endpoint()
    launch = record.pending.variants[0].launch
    for number, state in enumerate(InstanceState):
        api.put_instance(InstanceRecord(f"i-{number}", "ep", "v", 1, launch, 60.0, 1.0, 1.0, state=state))
    for status in EndpointStatus:
        active = record.pending if updating or status is not EndpointStatus.CREATING else None
        pending = replace(record.pending, config_name="c2") if updating or active is None else None
        changes = {"active": active, "pending": pending, "failure_reason": "why", "last_policy": POLICY}
        api.put(replace(record, status=status, **changes))
        assert check("DescribeEndpoint", EndpointName="ep")["EndpointStatus"] == status
        check("ListEndpoints", StatusEquals=str(status))


def test_updates_and_deletion(check, api, resources):
    def serve():
        record = api.endpoint()
        api.put(
            replace(
                record, status=EndpointStatus.IN_SERVICE, active=record.pending or record.active, pending=None
            )
        )

    serve()
    check("UpdateEndpoint", EndpointName="ep", EndpointConfigName="c", RetainAllVariantProperties=True)
    serve()
    check(
        "UpdateEndpointWeightsAndCapacities",
        EndpointName="ep",
        DesiredWeightsAndCapacities=[{"VariantName": "v", "DesiredWeight": 0.1, "DesiredInstanceCount": 3}],
    )
    serve()
    check("DeleteEndpoint", EndpointName="ep")


def test_all_operations_are_served():
    assert len(OPERATIONS) == 23


def test_components_and_adapters(check, api):
    pools = [{"InstanceType": "ml.g5.xlarge", "Priority": 1}, {"InstanceType": "ml.g6.xlarge", "Priority": 2}]
    scaling = {"Status": "ENABLED", "MinInstanceCount": 0, "MaxInstanceCount": 2}
    variant = {"VariantName": "v", "InstancePools": pools, "ManagedInstanceScaling": scaling}
    check(
        "CreateEndpointConfig",
        EndpointConfigName="c",
        ProductionVariants=[variant],
        ExecutionRoleArn="arn:aws:iam::123456789012:role/sm",
    )
    check("DescribeEndpointConfig", EndpointConfigName="c")
    check("CreateEndpoint", EndpointName="ep", EndpointConfigName="c")
    needs = {"MinMemoryRequiredInMb": 1024, "NumberOfAcceleratorDevicesRequired": 1}
    container = {"Image": "img", "ArtifactUrl": "file:///m", "Environment": {"A": "1"}}
    specification = {
        "Container": container,
        "ComputeResourceRequirements": needs,
        "StartupParameters": {"ContainerStartupHealthCheckTimeoutInSeconds": 60},
        "SchedulingConfig": {"PlacementStrategy": "BINPACK"},
        "DataCacheConfig": {"EnableCaching": True},
    }
    name = {"InferenceComponentName": "ic"}
    check(
        "CreateInferenceComponent",
        **name,
        EndpointName="ep",
        VariantName="v",
        Specification=specification,
        RuntimeConfig={"CopyCount": 2},
        Tags=[{"Key": "k", "Value": "v"}],
    )
    check("DescribeInferenceComponent", **name)
    adapter = {"BaseInferenceComponentName": "ic", "Container": {"ArtifactUrl": "s3://b/a.tar.gz"}}
    arn = check(
        "CreateInferenceComponent", InferenceComponentName="lora", EndpointName="ep", Specification=adapter
    )
    check("DescribeInferenceComponent", InferenceComponentName="lora")
    check("ListTags", ResourceArn=arn["InferenceComponentArn"])
    assert "NextToken" in check("ListInferenceComponents", MaxResults=1)
    with api.store.transaction() as tables:
        base, lora = tables.inference_component("ic"), tables.inference_component("lora")
    api.put(replace(base, status="InService", active=base.pending, pending=None))
    api.put_instance(
        InstanceRecord(
            "i-2",
            "ep",
            "v",
            1,
            replace(base.pending.copies[0].launch, instance_type="ml.g5.xlarge"),
            60.0,
            1.0,
            1.0,
            state=InstanceState.IN_SERVICE,
            component="ic",
        )
    )
    check("DescribeInferenceComponent", **name)
    several = [
        specification | {"InstanceType": "ml.g5.xlarge"},
        specification | {"InstanceType": "ml.g6.xlarge"},
    ]
    rolling = {"MaximumBatchSize": {"Type": "CAPACITY_PERCENT", "Value": 50}, "WaitIntervalInSeconds": 0}
    check(
        "UpdateInferenceComponent",
        **name,
        Specifications=several,
        DeploymentConfig={"RollingUpdatePolicy": rolling},
    )
    with api.store.transaction() as tables:
        base = tables.inference_component("ic")
    api.put(replace(base, status="InService", active=base.pending, pending=None, failure_reason="why"))
    check("DescribeInferenceComponent", **name)
    check("UpdateInferenceComponentRuntimeConfig", **name, DesiredRuntimeConfig={"CopyCount": 0})
    api.put(replace(lora, status="Failed"))
    check("DeleteInferenceComponent", InferenceComponentName="lora")
