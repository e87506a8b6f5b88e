"""Stock boto3's application-autoscaling client against the control plane, over HTTP on its own thread."""

import itertools
from dataclasses import dataclass, field

import pytest
from botocore.exceptions import ClientError

from tests.clients import refused
from tests.served import Served
from warmroute.adapters.control_http import api_app
from warmroute.adapters.service_model import load_scaling_schema
from warmroute.adapters.store.memory import MemoryStore
from warmroute.app.autoscaling import SCALING_PREFIX
from warmroute.controlplane.scaling.service import ScalingService
from warmroute.controlplane.service import Calls
from warmroute.resources.arns import Place
from warmroute.resources.lifecycle import ComponentStatus, EndpointStatus
from warmroute.resources.metrics.alarms import Alarm, MetricId, Query, Statistic
from warmroute.resources.records import (
    Deployment,
    EndpointRecord,
    InferenceComponentRecord,
    Launch,
    VariantRecord,
)

REGION, ACCOUNT = "eu-central-1", "111122223333"
NOW_S = 1_796_000_000.0
VARIANT = {
    "ServiceNamespace": "sagemaker",
    "ResourceId": "endpoint/llm/variant/AllTraffic",
    "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
}
COMPONENT = {
    "ServiceNamespace": "sagemaker",
    "ResourceId": "inference-component/chat",
    "ScalableDimension": "sagemaker:inference-component:DesiredCopyCount",
}
TRACKING = {
    "TargetValue": 5.0,
    "PredefinedMetricSpecification": {
        "PredefinedMetricType": "SageMakerVariantConcurrentRequestsPerModelHighResolution"
    },
    "ScaleInCooldown": 60,
}
STEP = {
    "AdjustmentType": "ChangeInCapacity",
    "MetricAggregationType": "Maximum",
    "Cooldown": 60,
    "StepAdjustments": [{"MetricIntervalLowerBound": 0, "ScalingAdjustment": 1}],
}
SLOW = Alarm(
    "slow-answers",
    {"m": Query(MetricId("ModelLatency", "llm", "AllTraffic"), Statistic.AVERAGE)},
    1e6,
    policies=("out-when-slow",),
)


class Stopped:
    def wall_s(self):
        return NOW_S


class NoSageMaker:
    async def call(self, operation, body, *, principal, request_id):
        raise AssertionError("no call of SageMaker's API is made here")


@dataclass
class Scaling(Served):
    """Application Auto Scaling's part of a control plane."""

    schema: object
    store: MemoryStore = field(default_factory=MemoryStore)

    def make_app(self):
        ids = itertools.count(1)

        async def get_schema():
            return self.schema

        service = ScalingService(
            store=self.store,
            schema=get_schema,
            place=Place(REGION, ACCOUNT),
            clock=Stopped(),
            calls=Calls({}),
            new_id=lambda: f"id-{next(ids)}",
            declared=(SLOW,),
        )
        return api_app(NoSageMaker(), {SCALING_PREFIX: service})


@pytest.fixture(scope="module")
def schema():
    return load_scaling_schema()


@pytest.fixture
def served(schema):
    with Scaling(schema) as running:
        launch = Launch("ml.local", "m")
        deployment = Deployment("c", (VariantRecord("AllTraffic", 1, launch, 1),), NOW_S)
        with running.store.transaction() as tables:
            tables.put(
                EndpointRecord("llm", "arn", EndpointStatus.IN_SERVICE, NOW_S, NOW_S, active=deployment)
            )
            component = InferenceComponentRecord(
                "chat", "arn", "llm", "AllTraffic", ComponentStatus.IN_SERVICE, NOW_S, NOW_S, count=0
            )
            tables.put(component)
        yield running


@pytest.fixture
def client(served):
    made = served.client("application-autoscaling", REGION)
    yield made
    made.close()


# --- Targets ---------------------------------------------------------------------------------


def test_a_target_is_registered_described_changed_and_deregistered(client):
    arn = client.register_scalable_target(
        **VARIANT, MinCapacity=1, MaxCapacity=4, Tags={"team": "a"}, RoleARN="arn:aws:iam::1:role/x"
    )["ScalableTargetARN"]
    assert arn == f"arn:aws:application-autoscaling:{REGION}:{ACCOUNT}:scalable-target/id-1"

    again = client.register_scalable_target(**VARIANT, SuspendedState={"DynamicScalingInSuspended": True})
    assert again["ScalableTargetARN"] == arn
    (target,) = client.describe_scalable_targets(ServiceNamespace="sagemaker")["ScalableTargets"]
    assert target.pop("CreationTime").timestamp() == NOW_S
    assert target == VARIANT | {
        "MinCapacity": 1,
        "MaxCapacity": 4,
        "RoleARN": "arn:aws:iam::1:role/x",
        "ScalableTargetARN": arn,
        "SuspendedState": {
            "DynamicScalingInSuspended": True,
            "DynamicScalingOutSuspended": False,
            "ScheduledScalingSuspended": False,
        },
    }

    client.put_scaling_policy(
        **VARIANT, PolicyName="p", PolicyType="StepScaling", StepScalingPolicyConfiguration=STEP
    )
    client.deregister_scalable_target(**VARIANT)
    assert client.describe_scalable_targets(ServiceNamespace="sagemaker")["ScalableTargets"] == []
    assert client.describe_scaling_policies(ServiceNamespace="sagemaker")["ScalingPolicies"] == []
    code, text = refused(client.deregister_scalable_target, **VARIANT)
    assert code == "ObjectNotFoundException"
    assert "No scalable target registered for service namespace: sagemaker" in text


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"MaxCapacity": 4}, "MinCapacity must be given"),
        ({"MinCapacity": 5, "MaxCapacity": 4}, "Maximum capacity cannot be less than minimum capacity"),
        ({"MinCapacity": -1, "MaxCapacity": 4}, "From 0 to 1000"),
        ({"MinCapacity": 1, "MaxCapacity": 1001}, "From 0 to 1000"),
        ({"ResourceId": "endpoint/no/variant/a", "MinCapacity": 1, "MaxCapacity": 2}, "does not exist"),
        ({"ResourceId": "endpoint/llm/variant/no", "MinCapacity": 1, "MaxCapacity": 2}, "does not exist"),
        ({"ResourceId": "endpoint/llm", "MinCapacity": 1, "MaxCapacity": 2}, "Unsupported service namespace"),
        (
            {"ScalableDimension": COMPONENT["ScalableDimension"], "MinCapacity": 1, "MaxCapacity": 2},
            "Unsupported service namespace",
        ),
        (
            {"ScalableDimension": "sagemaker:variant:DesiredProvisionedConcurrency"},
            "Unsupported service namespace",
        ),
        ({"ServiceNamespace": "ecs"}, "ServiceNamespace ecs is not supported by warmroute"),
        ({"ServiceNamespace": "bogus"}, "Member must satisfy enum value set"),
    ],
)
def test_a_registration_that_means_nothing_is_refused(client, changes, part):
    code, text = refused(client.register_scalable_target, **VARIANT | changes)
    assert code == "ValidationException"
    assert part in text


def test_an_adapter_has_no_copies_to_scale(served, client):
    with served.store.transaction() as tables:
        tables.put(
            InferenceComponentRecord(
                "lora", "arn", "llm", "AllTraffic", ComponentStatus.IN_SERVICE, NOW_S, NOW_S, base="chat"
            )
        )
    code, text = refused(
        client.register_scalable_target,
        **COMPONENT | {"ResourceId": "inference-component/lora"},
        MinCapacity=0,
        MaxCapacity=2,
    )
    assert code == "ValidationException"
    assert "is an adapter" in text


def test_tags_of_a_target(client):
    arn = client.register_scalable_target(**VARIANT, MinCapacity=1, MaxCapacity=4)["ScalableTargetARN"]
    client.tag_resource(ResourceARN=arn, Tags={"a": "1", "b": "2"})
    client.untag_resource(ResourceARN=arn, TagKeys=["a", "c"])
    assert client.list_tags_for_resource(ResourceARN=arn)["Tags"] == {"b": "2"}
    too_many = {f"k{at}": "v" for at in range(50)}
    assert refused(client.tag_resource, ResourceARN=arn, Tags=too_many)[0] == "TooManyTagsException"
    other = f"{arn}0"
    assert refused(client.list_tags_for_resource, ResourceARN=other)[0] == "ResourceNotFoundException"


def test_targets_come_in_pages(client):
    client.register_scalable_target(**VARIANT, MinCapacity=1, MaxCapacity=4)
    client.register_scalable_target(**COMPONENT, MinCapacity=0, MaxCapacity=4)
    first = client.describe_scalable_targets(ServiceNamespace="sagemaker", MaxResults=1)
    second = client.describe_scalable_targets(
        ServiceNamespace="sagemaker", MaxResults=1, NextToken=first["NextToken"]
    )
    found = [one["ResourceId"] for page in (first, second) for one in page["ScalableTargets"]]
    assert found == [VARIANT["ResourceId"], COMPONENT["ResourceId"]]
    assert "NextToken" not in second
    by_paginator = client.get_paginator("describe_scalable_targets").paginate(
        ServiceNamespace="sagemaker", PaginationConfig={"PageSize": 1}
    )
    assert len([one for page in by_paginator for one in page["ScalableTargets"]]) == 2
    for token in ("nonsense", first["NextToken"][:-4]):
        code, _ = refused(client.describe_scalable_targets, ServiceNamespace="sagemaker", NextToken=token)
        assert code == "InvalidNextTokenException"
    code, _ = refused(
        client.describe_scaling_policies, ServiceNamespace="sagemaker", NextToken=first["NextToken"]
    )
    assert code == "InvalidNextTokenException"
    assert refused(client.describe_scalable_targets, ServiceNamespace="sagemaker", MaxResults=51)[0] == (
        "ValidationException"
    )


def test_targets_are_filtered(client):
    client.register_scalable_target(**VARIANT, MinCapacity=1, MaxCapacity=4)
    client.register_scalable_target(**COMPONENT, MinCapacity=0, MaxCapacity=4)

    def found(**filters):
        listed = client.describe_scalable_targets(**{"ServiceNamespace": "sagemaker"} | filters)
        return [one["ResourceId"] for one in listed["ScalableTargets"]]

    assert found(ResourceIds=[COMPONENT["ResourceId"]]) == [COMPONENT["ResourceId"]]
    assert found(ServiceNamespace="ecs") == []
    dimension = VARIANT["ScalableDimension"]
    assert found(ResourceIds=[COMPONENT["ResourceId"]], ScalableDimension=dimension) == []
    code, _ = refused(
        client.describe_scalable_targets, ServiceNamespace="sagemaker", ScalableDimension=dimension
    )
    assert code == "ValidationException"


# --- Policies --------------------------------------------------------------------------------


@pytest.fixture
def registered(client):
    client.register_scalable_target(**VARIANT, MinCapacity=1, MaxCapacity=4)
    client.register_scalable_target(**COMPONENT, MinCapacity=0, MaxCapacity=4)
    return client


def test_a_tracking_policy_tells_its_two_alarms(registered):
    put = registered.put_scaling_policy(
        **VARIANT,
        PolicyName="follow",
        PolicyType="TargetTrackingScaling",
        TargetTrackingScalingPolicyConfiguration=TRACKING,
    )
    start = "TargetTracking-endpoint/llm/variant/AllTraffic-Alarm"
    names = [f"{start}High-id-3", f"{start}Low-id-3"]
    assert put["PolicyARN"] == (
        f"arn:aws:autoscaling:{REGION}:{ACCOUNT}:scalingPolicy:id-3:"
        "resource/sagemaker/endpoint/llm/variant/AllTraffic:policyName/follow"
    )
    assert put["Alarms"] == [
        {"AlarmName": name, "AlarmARN": f"arn:aws:cloudwatch:{REGION}:{ACCOUNT}:alarm:{name}"}
        for name in names
    ]
    (policy,) = registered.describe_scaling_policies(**VARIANT, PolicyNames=["follow"])["ScalingPolicies"]
    assert policy["TargetTrackingScalingPolicyConfiguration"] == TRACKING
    assert policy["PolicyType"] == "TargetTrackingScaling"
    assert policy["Alarms"] == put["Alarms"]

    registered.delete_scaling_policy(**VARIANT, PolicyName="follow")
    code, text = refused(registered.delete_scaling_policy, **VARIANT, PolicyName="follow")
    assert code == "ObjectNotFoundException"
    assert "follow" in text


def put_step(client, name, resource=COMPONENT, **changes):
    return client.put_scaling_policy(
        **resource,
        PolicyName=name,
        PolicyType="StepScaling",
        StepScalingPolicyConfiguration=STEP | changes,
    )


NO_CAPACITY = "NoCapacityInvocationFailures-inference-component/chat"


@pytest.mark.parametrize(
    ("name", "resource", "expected"),
    [
        ("any-name", COMPONENT, [NO_CAPACITY]),
        ("NoCapacityInvocationFailures", COMPONENT, [NO_CAPACITY]),
        ("out-Invocation5XXErrors", COMPONENT, ["Invocation5XXErrors-inference-component/chat"]),
        ("out-Invocation5XXErrors", VARIANT, ["Invocation5XXErrors-endpoint/llm/variant/AllTraffic"]),
        ("out-when-slow", VARIANT, ["slow-answers"]),
        ("any-name", VARIANT, []),
        ("NoCapacityInvocationFailures", VARIANT, []),
    ],
)
def test_a_step_policy_tells_the_alarms_that_it_acts_on(registered, name, resource, expected):
    assert [one["AlarmName"] for one in put_step(registered, name, resource)["Alarms"]] == expected


def test_a_step_policy_that_removes_copies_does_not_act_on_a_lack_of_them(registered):
    put = put_step(
        registered, "in", StepAdjustments=[{"MetricIntervalUpperBound": 0, "ScalingAdjustment": -1}]
    )
    assert put["Alarms"] == []


def test_putting_a_policy_again_changes_it(registered):
    first = put_step(registered, "p")
    second = put_step(registered, "p", Cooldown=10)
    assert second["PolicyARN"] == first["PolicyARN"]
    (policy,) = registered.describe_scaling_policies(**COMPONENT)["ScalingPolicies"]
    assert policy["StepScalingPolicyConfiguration"]["Cooldown"] == 10
    kept = registered.put_scaling_policy(**COMPONENT, PolicyName="p")
    assert kept["PolicyARN"] == first["PolicyARN"]


CUSTOMIZED = {
    "MetricName": "InvocationModelErrors",
    "Namespace": "AWS/SageMaker",
    "Statistic": "Sum",
    "Dimensions": [
        {"Name": "EndpointName", "Value": "llm"},
        {"Name": "VariantName", "Value": "AllTraffic"},
    ],
}
MATH = [
    {
        "Id": "busy",
        "MetricStat": {
            "Stat": "Maximum",
            "Metric": {
                "MetricName": "ConcurrentRequests",
                "Namespace": "AWS/SageMaker",
                "Dimensions": CUSTOMIZED["Dimensions"],
            },
        },
        "ReturnData": False,
    },
    {"Id": "half", "Expression": "busy / 2"},
]


@pytest.mark.parametrize("specification", [CUSTOMIZED, {"Metrics": MATH}])
def test_customized_metrics_are_our_own(registered, specification):
    config = {"TargetValue": 5.0, "CustomizedMetricSpecification": specification}
    registered.put_scaling_policy(
        **VARIANT,
        PolicyName="p",
        PolicyType="TargetTrackingScaling",
        TargetTrackingScalingPolicyConfiguration=config,
    )
    (policy,) = registered.describe_scaling_policies(**VARIANT)["ScalingPolicies"]
    assert policy["TargetTrackingScalingPolicyConfiguration"] == config


def tracking_of(**changes):
    return {"TargetTrackingScalingPolicyConfiguration": {"TargetValue": 5.0} | changes}


def predefined(name, **more):
    return {"PredefinedMetricSpecification": {"PredefinedMetricType": name} | more}


GOOD = "SageMakerVariantInvocationsPerInstance"


@pytest.mark.parametrize(
    ("config", "part"),
    [
        (tracking_of(), "0 metric specifications"),
        (
            tracking_of(**predefined(GOOD), CustomizedMetricSpecification=CUSTOMIZED),
            "2 metric specifications",
        ),
        (tracking_of(**predefined(GOOD), TargetValue=0.0), "must be greater than 0"),
        (tracking_of(**predefined(GOOD), ScaleInCooldown=-1), "ScaleInCooldown is -1"),
        (tracking_of(**predefined(GOOD, ResourceLabel="x")), "ResourceLabel"),
        (tracking_of(**predefined("SageMakerInferenceComponentInvocationsPerCopy")), "is not supported for"),
        (tracking_of(**predefined("ALBRequestCountPerTarget")), "is not supported for"),
        (
            tracking_of(CustomizedMetricSpecification=CUSTOMIZED | {"Namespace": "Mine"}),
            '"Mine" is not supported',
        ),
        (tracking_of(CustomizedMetricSpecification=CUSTOMIZED | {"MetricName": "Mine"}), "not a metric of"),
        (tracking_of(CustomizedMetricSpecification=CUSTOMIZED | {"Dimensions": []}), "not none"),
        (
            tracking_of(
                CustomizedMetricSpecification={k: v for k, v in CUSTOMIZED.items() if k != "Statistic"}
            ),
            "lacks Statistic",
        ),
        (tracking_of(CustomizedMetricSpecification=CUSTOMIZED | {"Metrics": MATH}), "Only one of them"),
        (tracking_of(CustomizedMetricSpecification={"Metrics": []}), "From 1 to 10"),
        (
            tracking_of(CustomizedMetricSpecification={"Metrics": [MATH[0]]}),
            "0 members of Metrics return data",
        ),
        (tracking_of(CustomizedMetricSpecification={"Metrics": [MATH[0], MATH[0]]}), "two members"),
        (
            tracking_of(CustomizedMetricSpecification={"Metrics": [{"Id": "a"}]}),
            "either MetricStat or Expression",
        ),
        (
            tracking_of(
                CustomizedMetricSpecification={"Metrics": [{"Id": "a", "Expression": "SUM(METRICS())"}]}
            ),
            "is not supported by warmroute",
        ),
        (
            tracking_of(
                CustomizedMetricSpecification={
                    "Metrics": [
                        {"Id": "a", "MetricStat": {"Stat": "p99", "Metric": MATH[0]["MetricStat"]["Metric"]}}
                    ]
                }
            ),
            '"p99" is not one of',
        ),
        ({"StepScalingPolicyConfiguration": STEP}, "is given for a policy of type TargetTrackingScaling"),
        ({}, "must be given for a policy of type"),
    ],
)
def test_a_tracking_policy_that_cannot_be_followed_is_refused(registered, config, part):
    code, text = refused(
        registered.put_scaling_policy,
        **VARIANT,
        PolicyName="p",
        PolicyType="TargetTrackingScaling",
        **config,
    )
    assert code == "ValidationException"
    assert part in text


def test_one_metric_is_tracked_once(registered):
    first = {"PolicyType": "TargetTrackingScaling", **tracking_of(**predefined(GOOD))}
    registered.put_scaling_policy(**VARIANT, PolicyName="a", **first)
    registered.put_scaling_policy(**VARIANT, PolicyName="a", **first)
    code, text = refused(registered.put_scaling_policy, **VARIANT, PolicyName="b", **first)
    assert code == "ValidationException"
    assert "Only one TargetTrackingScaling policy for a given metric specification is allowed" in text


def steps(*spans):
    return {
        "StepAdjustments": [
            {
                key: value
                for key, value in (("MetricIntervalLowerBound", low), ("MetricIntervalUpperBound", high))
                if value is not None
            }
            | {"ScalingAdjustment": 1}
            for low, high in spans
        ]
    }


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        (steps(), "0 members"),
        (steps((None, None)), "at least one"),
        (steps((5, 5)), "is not below"),
        (steps((0, 10), (5, None)), "overlap"),
        (steps((0, 5), (10, None)), "leave a gap"),
        (steps((0, 5)), "positive MetricIntervalUpperBound"),
        (steps((-5, 0)), "negative MetricIntervalLowerBound"),
        (steps(*((at, at + 1) for at in range(20)), (20, None)), "21 members"),
        ({"MinAdjustmentMagnitude": 2}, "only with the AdjustmentType"),
        ({"Cooldown": -1}, "Cooldown is -1"),
    ],
)
def test_steps_that_do_not_fit_together_are_refused(registered, changes, part):
    with pytest.raises(ClientError, match=part):
        put_step(registered, "p", **changes)


@pytest.mark.parametrize(
    "changes",
    [
        steps((None, -10), (-10, 0)),
        steps((None, 0), (0, None)),
        steps((10, None)),
        {"AdjustmentType": "PercentChangeInCapacity", "MinAdjustmentMagnitude": 2},
    ],
)
def test_steps_that_fit_are_taken(registered, changes):
    put_step(registered, "p", **changes)


def test_a_policy_needs_its_target_its_type_and_one_configuration(client, registered):
    client.deregister_scalable_target(**VARIANT)
    code, text = refused(put_step, client=client, name="p", resource=VARIANT)
    assert code == "ObjectNotFoundException"
    assert "No scalable target registered" in text
    code, text = refused(registered.put_scaling_policy, **COMPONENT, PolicyName="p")
    assert "PolicyType must be given" in text
    code, text = refused(
        registered.put_scaling_policy,
        **COMPONENT,
        PolicyName="p",
        StepScalingPolicyConfiguration=STEP,
        **tracking_of(**predefined(GOOD)),
    )
    assert "are both given" in text
    put_step(registered, "p")
    code, text = refused(
        registered.put_scaling_policy,
        **COMPONENT,
        PolicyName="p",
        PolicyType="TargetTrackingScaling",
        **tracking_of(**predefined("SageMakerInferenceComponentInvocationsPerCopy")),
    )
    assert "cannot become TargetTrackingScaling" in text


def test_predictive_scaling_is_refused_by_name(registered):
    code, text = refused(
        registered.put_scaling_policy, **VARIANT, PolicyName="p", PolicyType="PredictiveScaling"
    )
    assert code == "ValidationException"
    assert "PredictiveScaling is not supported by warmroute" in text
    code, text = refused(
        registered.get_predictive_scaling_forecast,
        **VARIANT,
        PolicyName="p",
        StartTime=0,
        EndTime=1,
    )
    assert code == "UnknownOperationException"
    assert "Operation GetPredictiveScalingForecast is not supported by warmroute" in text


def test_more_policies_than_a_target_may_have_are_refused(registered):
    for at in range(50):
        put_step(registered, f"p{at}")
    with pytest.raises(registered.exceptions.LimitExceededException):
        put_step(registered, "one more")
    assert len(registered.describe_scaling_policies(**COMPONENT)["ScalingPolicies"]) == 50


# --- Scheduled actions -----------------------------------------------------------------------


def test_a_scheduled_action_is_made_described_changed_and_deleted(registered):
    registered.put_scheduled_action(
        **VARIANT,
        ScheduledActionName="morning",
        Schedule="cron(0 8 ? * MON-FRI *)",
        Timezone="Europe/Berlin",
        ScalableTargetAction={"MinCapacity": 2},
        EndTime=NOW_S + 1e6,
    )
    (action,) = registered.describe_scheduled_actions(**VARIANT)["ScheduledActions"]
    assert action.pop("CreationTime").timestamp() == NOW_S
    assert action.pop("EndTime").timestamp() == NOW_S + 1e6
    assert action == VARIANT | {
        "ScheduledActionName": "morning",
        "ScheduledActionARN": f"arn:aws:autoscaling:{REGION}:{ACCOUNT}:scheduledAction:id-3:"
        "resource/sagemaker/endpoint/llm/variant/AllTraffic:scheduledActionName/morning",
        "Schedule": "cron(0 8 ? * MON-FRI *)",
        "Timezone": "Europe/Berlin",
        "ScalableTargetAction": {"MinCapacity": 2},
    }
    registered.put_scheduled_action(**VARIANT, ScheduledActionName="morning", Schedule="rate(1 day)")
    (action,) = registered.describe_scheduled_actions(**VARIANT)["ScheduledActions"]
    assert (action["Schedule"], action["ScalableTargetAction"]) == ("rate(1 day)", {"MinCapacity": 2})
    assert "EndTime" not in action
    registered.delete_scheduled_action(**VARIANT, ScheduledActionName="morning")
    code, _ = refused(registered.delete_scheduled_action, **VARIANT, ScheduledActionName="morning")
    assert code == "ObjectNotFoundException"


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"Schedule": None}, "must be given for a new scheduled action"),
        ({"Schedule": "every day"}, "is not at"),
        ({"Schedule": "at(2020-01-01T00:00:00)"}, "has no time after now"),
        ({"Timezone": "Nowhere/Town"}, "is not known here"),
        ({"ScalableTargetAction": {}}, "must have MinCapacity"),
        ({"ScalableTargetAction": {"MinCapacity": 5, "MaxCapacity": 4}}, "Maximum capacity cannot be less"),
        ({"StartTime": NOW_S + 10, "EndTime": NOW_S + 5}, "EndTime must be later"),
        ({"ScheduledActionName": "a:b"}, "regular expression pattern"),
    ],
)
def test_a_schedule_that_means_nothing_is_refused(registered, changes, part):
    arguments = {
        **VARIANT,
        "ScheduledActionName": "a",
        "Schedule": "rate(1 day)",
        "ScalableTargetAction": {"MinCapacity": 2},
    } | changes
    given = {name: value for name, value in arguments.items() if value is not None}
    code, text = refused(registered.put_scheduled_action, **given)
    assert code == "ValidationException"
    assert part in text


def test_there_are_no_activities_before_anything_happens(registered):
    assert registered.describe_scaling_activities(**VARIANT)["ScalingActivities"] == []
