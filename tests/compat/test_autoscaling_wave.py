"""A load wave over real routers and model servers, scaled as boto3 set it up, on a clock that runs fast."""

import json
import math
import re
import threading
import time
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from tests.clients import ONCE, boto3_client
from tests.running import wait_until

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(300)]

STUB = Path(__file__).parents[1] / "stub_server.py"
SPEED = 60
"""An hour in a minute: scaling in, which takes 15 minutes, takes 15 seconds."""
SETTINGS = f"""
[autoscaling]
speed = {SPEED}

[instance_types."ml.four"]
provider = "local"
instances_max = 2
accelerators = 4
memory_mb = 8192

[images."stub"]
command = ["{{python}}", "{STUB}", "--port", "{{port}}", "--name", "{{port}}"]

[alarms."many-at-once"]
metric = "ConcurrentRequests"
statistic = "Maximum"
endpoint = "plain"
variant = "AllTraffic"
period_s = 10
threshold = 3
policies = ["two-more"]
"""
COMPONENT = {
    "ServiceNamespace": "sagemaker",
    "ResourceId": "inference-component/chat",
    "ScalableDimension": "sagemaker:inference-component:DesiredCopyCount",
}
VARIANT = {
    "ServiceNamespace": "sagemaker",
    "ResourceId": "endpoint/plain/variant/AllTraffic",
    "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
}


class Cluster:
    """One warmroute, and boto3's clients for it."""

    def __init__(self, server):
        self.server = server
        self.sagemaker = self.client("sagemaker")
        self.scaling = self.client("application-autoscaling")

    def client(self, service):
        return boto3_client(service, self.server.url, retries=ONCE, max_pool_connections=20)

    def copies(self):
        config = self.sagemaker.describe_inference_component(InferenceComponentName="chat")["RuntimeConfig"]
        return config["DesiredCopyCount"], config["CurrentCopyCount"]

    def instances(self):
        (variant,) = self.sagemaker.describe_endpoint(EndpointName="plain")["ProductionVariants"]
        return variant["DesiredInstanceCount"], variant["CurrentInstanceCount"]

    def activities(self, resource):
        found = self.scaling.describe_scaling_activities(**resource)["ScalingActivities"]
        return [
            (one["Description"], one["Cause"].partition(" triggered policy ")[2], one["StatusCode"])
            for one in reversed(found)
        ]

    def settled_activities(self, resource):
        """Return the activities once none is under way."""
        self.wait(lambda: "InProgress" not in {status for _, _, status in self.activities(resource)})
        return self.activities(resource)

    def wait(self, what, seconds=60.0):
        wait_until(what, seconds=seconds, explain=self.server.log_text)


class Load:
    """So many callers at once, each asking again as soon as it has its answer."""

    def __init__(self, cluster, callers, **names):
        self._runtime = cluster.client("sagemaker-runtime")
        self._names = names
        self._stop = threading.Event()
        self.failures, self.answers = [], 0
        self._threads = [threading.Thread(target=self._call, daemon=True) for _ in range(callers)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join(30)
        self._runtime.close()

    def _call(self):
        body = json.dumps({"prompt": "x", "stub": {"delay_s": 0.5}})
        while not self._stop.is_set():
            try:
                answer = self._runtime.invoke_endpoint(
                    Body=body, ContentType="application/json", **self._names
                )
                answer["Body"].read()
                self.answers += 1
            except Exception as error:
                self.failures.append(repr(error))
                time.sleep(0.1)


@pytest.fixture
def cluster(warmroute_server, tmp_path):
    (tmp_path / "scaling.toml").write_text(SETTINGS)
    server = warmroute_server("--config", tmp_path / "scaling.toml")
    server.wait_for_control()
    made = Cluster(server)
    made.sagemaker.create_model(ModelName="m", PrimaryContainer={"Image": "stub"})
    return made


def create_component(cluster):
    """Create a component without copies on an endpoint of hosts."""
    sagemaker = cluster.sagemaker
    sagemaker.create_endpoint_config(
        EndpointConfigName="hosts",
        ExecutionRoleArn="arn:aws:iam::000000000000:role/any",
        ProductionVariants=[
            {
                "VariantName": "AllTraffic",
                "InstanceType": "ml.four",
                "InitialInstanceCount": 1,
                "RoutingConfig": {"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"},
            }
        ],
    )
    sagemaker.create_endpoint(EndpointName="llm", EndpointConfigName="hosts")
    sagemaker.get_waiter("endpoint_in_service").wait(EndpointName="llm", WaiterConfig={"Delay": 1})
    sagemaker.create_inference_component(
        InferenceComponentName="chat",
        EndpointName="llm",
        VariantName="AllTraffic",
        Specification={
            "Container": {"Image": "stub"},
            "ComputeResourceRequirements": {
                "MinMemoryRequiredInMb": 1024,
                "NumberOfAcceleratorDevicesRequired": 1,
            },
        },
        RuntimeConfig={"CopyCount": 0},
    )
    described = lambda: sagemaker.describe_inference_component(InferenceComponentName="chat")
    cluster.wait(lambda: described()["InferenceComponentStatus"] == "InService")


def test_a_component_goes_from_zero_to_four_copies_and_back_with_the_load(cluster):
    create_component(cluster)
    scaling = cluster.scaling
    scaling.register_scalable_target(**COMPONENT, MinCapacity=0, MaxCapacity=4)
    scaling.put_scaling_policy(
        **COMPONENT,
        PolicyName="follow",
        PolicyType="TargetTrackingScaling",
        TargetTrackingScalingPolicyConfiguration={
            "TargetValue": 2.0,
            "PredefinedMetricSpecification": {
                "PredefinedMetricType": "SageMakerInferenceComponentConcurrentRequestsPerCopyHighResolution"
            },
        },
    )
    step = scaling.put_scaling_policy(
        **COMPONENT,
        PolicyName="leave-zero",
        PolicyType="StepScaling",
        StepScalingPolicyConfiguration={
            "AdjustmentType": "ChangeInCapacity",
            "MetricAggregationType": "Maximum",
            "Cooldown": 60,
            "StepAdjustments": [{"MetricIntervalLowerBound": 0, "ScalingAdjustment": 1}],
        },
    )
    assert [one["AlarmName"] for one in step["Alarms"]] == [
        "NoCapacityInvocationFailures-inference-component/chat"
    ]
    names = {"EndpointName": "llm", "InferenceComponentName": "chat"}
    runtime = cluster.client("sagemaker-runtime")
    asked_s = -math.inf

    def served():
        """Ask, and again after a while: the window in which a router is first heard counts for nothing."""
        nonlocal asked_s
        if cluster.copies() == (0, 0) and time.monotonic() > asked_s + 10:
            asked_s = time.monotonic()
            with pytest.raises(ClientError) as refused:
                runtime.invoke_endpoint(Body=b"{}", ContentType="application/json", **names)
            assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400
        return cluster.copies() == (1, 1)

    cluster.wait(served)
    with Load(cluster, 8, **names) as high:
        cluster.wait(lambda: cluster.copies() == (4, 4))
    with Load(cluster, 3, **names) as low:
        cluster.wait(lambda: cluster.copies() == (2, 2))
    cluster.wait(lambda: cluster.copies() == (0, 0))

    assert high.failures == []
    assert low.failures == []
    assert high.answers > 0
    assert low.answers > 0
    done = cluster.settled_activities(COMPONENT)
    assert [status for _, _, status in done] == ["Successful"] * len(done)
    counts = [int(re.findall(r"\d+", description)[0]) for description, _, _ in done]
    top = counts.index(4)
    assert counts[: top + 1] == sorted(counts[: top + 1]), "no down while the load is high"
    assert counts[top:] == sorted(counts[top:], reverse=True), "no up again after it"
    assert (counts[0], counts[-1]) == (1, 0)
    assert 2 in counts[top:]
    assert [policy for _, policy, _ in done] == ["leave-zero"] + ["follow"] * (len(done) - 1)


def test_a_variant_is_scaled_by_a_declared_alarm_a_schedule_and_its_bounds(cluster):
    sagemaker, scaling = cluster.sagemaker, cluster.scaling
    sagemaker.create_endpoint_config(
        EndpointConfigName="plain",
        ProductionVariants=[
            {
                "VariantName": "AllTraffic",
                "ModelName": "m",
                "InstanceType": "ml.local",
                "InitialInstanceCount": 1,
                "RoutingConfig": {"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"},
            }
        ],
    )
    sagemaker.create_endpoint(EndpointName="plain", EndpointConfigName="plain")
    sagemaker.get_waiter("endpoint_in_service").wait(EndpointName="plain", WaiterConfig={"Delay": 1})

    scaling.register_scalable_target(**VARIANT, MinCapacity=2, MaxCapacity=4)
    cluster.wait(lambda: cluster.instances() == (2, 2))

    put = scaling.put_scaling_policy(
        **VARIANT,
        PolicyName="two-more",
        PolicyType="StepScaling",
        StepScalingPolicyConfiguration={
            "AdjustmentType": "ChangeInCapacity",
            "StepAdjustments": [{"MetricIntervalLowerBound": 0, "ScalingAdjustment": 2}],
        },
    )
    assert [one["AlarmName"] for one in put["Alarms"]] == ["many-at-once"]
    with Load(cluster, 4, EndpointName="plain") as load:
        cluster.wait(lambda: cluster.instances() == (4, 4))
    assert load.failures == []

    scaling.put_scheduled_action(
        **VARIANT,
        ScheduledActionName="night",
        Schedule="rate(1 minute)",
        ScalableTargetAction={"MinCapacity": 1, "MaxCapacity": 1},
    )
    cluster.wait(lambda: cluster.instances() == (1, 1))
    found = cluster.settled_activities(VARIANT)
    assert [one for one in found if one[0].startswith("Setting desired")] == [
        ("Setting desired instance count to 2.", "", "Successful"),
        ("Setting desired instance count to 4.", "two-more", "Successful"),
        ("Setting desired instance count to 1.", "", "Successful"),
    ]
    assert ("Setting min capacity to 1 and max capacity to 1", "", "Successful") in found
