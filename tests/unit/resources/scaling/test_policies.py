"""Scaling policies."""

import pytest

from tests.unit.resources.scaling_api import COMPONENT, STEP, TRACKING, VARIANT, ScalingApi
from warmroute.core import limits
from warmroute.resources.errors import ApiCode, ApiError
from warmroute.resources.scaling.policies import check_steps


@pytest.fixture
def api():
    made = ScalingApi()
    made.register()
    made.register(COMPONENT, least=0)
    return made


def alarm_names(answer):
    return [one["AlarmName"] for one in answer["Alarms"]]


def test_the_answer_names_policy_and_alarms(api):
    put = api.track("follow")
    assert put["PolicyARN"].endswith(":resource/sagemaker/endpoint/llm/variant/a:policyName/follow")
    assert alarm_names(put) == [
        "TargetTracking-endpoint/llm/variant/a-AlarmHigh-id-3",
        "TargetTracking-endpoint/llm/variant/a-AlarmLow-id-3",
    ]
    assert put["Alarms"][0]["AlarmARN"].startswith("arn:aws:cloudwatch:eu-west-1:123456789012:alarm:Target")
    assert alarm_names(api.step("when-slow")) == ["slow"]
    assert alarm_names(api.step("any", COMPONENT)) == [
        "NoCapacityInvocationFailures-inference-component/chat"
    ]


def test_policies_are_described_as_they_were_put(api):
    api.track("follow")
    api.step("step")
    first, second = api.call("DescribeScalingPolicies", **VARIANT)["ScalingPolicies"]
    assert (first["PolicyType"], second["PolicyType"]) == ("TargetTrackingScaling", "StepScaling")
    assert first["TargetTrackingScalingPolicyConfiguration"] == TRACKING
    assert second["StepScalingPolicyConfiguration"] == STEP
    assert second["Alarms"] == []


def test_putting_again_changes_the_configuration_and_keeps_what_is_left_out(api):
    first = api.step("p")
    assert api.step("p", Cooldown=5)["PolicyARN"] == first["PolicyARN"]
    api.call("PutScalingPolicy", **VARIANT, PolicyName="p")
    (policy,) = api.policies()
    assert policy.step["Cooldown"] == 5
    api.track("t")
    api.call("PutScalingPolicy", **VARIANT, PolicyName="t")
    assert len(api.policies()) == 2


def test_a_configuration_says_of_which_type_a_new_policy_is(api):
    api.call("PutScalingPolicy", **VARIANT, PolicyName="p", StepScalingPolicyConfiguration=STEP)
    assert api.policies()[0].step == STEP


STEP_MEMBER = {"StepScalingPolicyConfiguration": STEP}
TRACKING_MEMBER = {"TargetTrackingScalingPolicyConfiguration": TRACKING}


@pytest.mark.parametrize(
    ("request_", "part"),
    [
        ({}, "PolicyType must be given"),
        ({"PolicyType": "StepScaling"}, "must be given for a policy of type StepScaling"),
        ({"PolicyType": "PredictiveScaling"}, "PredictiveScaling is not supported by warmroute"),
        ({"PredictiveScalingPolicyConfiguration": {}}, "PredictiveScaling is not supported"),
        ({"PolicyType": "StepScaling", **TRACKING_MEMBER}, "is given for a policy of type StepScaling"),
        (STEP_MEMBER | TRACKING_MEMBER, "are both given"),
    ],
)
def test_type_and_configuration_must_fit(api, request_, part):
    assert part in api.refused("PutScalingPolicy", **VARIANT, PolicyName="p", **request_).message


def test_a_policy_keeps_its_type(api):
    api.step("p")
    error = api.refused(
        "PutScalingPolicy", **VARIANT, PolicyName="p", PolicyType="TargetTrackingScaling", **TRACKING_MEMBER
    )
    assert "cannot become TargetTrackingScaling" in error.message


def test_a_policy_needs_a_target(api):
    api.call("DeregisterScalableTarget", **VARIANT)
    error = api.refused("PutScalingPolicy", **VARIANT, PolicyName="p", **STEP_MEMBER)
    assert error.code is ApiCode.OBJECT_NOT_FOUND
    assert "No scalable target registered" in error.message


def test_a_policy_is_deleted_once(api):
    api.step("p")
    api.call("DeleteScalingPolicy", **VARIANT, PolicyName="p")
    assert api.policies() == ()
    error = api.refused("DeleteScalingPolicy", **VARIANT, PolicyName="p")
    assert error.code is ApiCode.OBJECT_NOT_FOUND


def test_there_is_a_greatest_number_of_policies(api, monkeypatch):
    monkeypatch.setattr(limits, "SCALING_POLICIES_MAX", 2)
    api.step("a")
    api.step("b")
    api.step("b")
    assert api.refused("PutScalingPolicy", **VARIANT, PolicyName="c", **STEP_MEMBER).code is ApiCode.TOO_MANY


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"TargetValue": 0.0}, "must be greater than 0"),
        ({"TargetValue": float("inf")}, "must be greater than 0"),
        ({"ScaleInCooldown": -1}, "ScaleInCooldown is -1"),
        ({"ScaleOutCooldown": -1}, "ScaleOutCooldown is -1"),
        ({"CustomizedMetricSpecification": {}}, "2 metric specifications"),
        (
            {"PredefinedMetricSpecification": {"PredefinedMetricType": "ALBRequestCountPerTarget"}},
            "is not supported for",
        ),
    ],
)
def test_a_tracking_configuration_must_be_one(api, changes, part):
    with pytest.raises(ApiError) as caught:
        api.track("p", **changes)
    assert part in caught.value.message


def test_a_tracking_configuration_needs_a_metric(api):
    member = {"TargetTrackingScalingPolicyConfiguration": {"TargetValue": 1.0}}
    assert "0 metric" in api.refused("PutScalingPolicy", **VARIANT, PolicyName="p", **member).message


def test_one_metric_is_tracked_by_one_policy(api):
    api.track("a")
    api.track("a", TargetValue=9.0)
    api.step("s")
    error = api.refused("PutScalingPolicy", **VARIANT, PolicyName="b", **TRACKING_MEMBER)
    assert "a has the same" in error.message


# --- Steps -----------------------------------------------------------------------------------


def config(*spans, **more):
    members = ("MetricIntervalLowerBound", "MetricIntervalUpperBound")
    steps = [
        {name: value for name, value in zip(members, span, strict=True) if value is not None}
        | {"ScalingAdjustment": 1}
        for span in spans
    ]
    return {"AdjustmentType": "ChangeInCapacity", "StepAdjustments": steps} | more


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ({"StepAdjustments": []}, "lacks AdjustmentType"),
        (config(), "0 members"),
        (config(*((at, at + 1) for at in range(20)), (20, None)), "21 members"),
        (config((0, None), MinAdjustmentMagnitude=1), "only with the AdjustmentType"),
        (config((0, None), Cooldown=-1), "Cooldown is -1"),
        (
            config((0, None), AdjustmentType="PercentChangeInCapacity", MinAdjustmentMagnitude=-1),
            "MinAdjustmentMagnitude is -1",
        ),
        (config((None, None)), "at least one must be given"),
        (config((5, 5)), "is not below"),
        (config((5, 1)), "is not below"),
        (config((0, 10), (5, None)), "overlap"),
        (config((0, 5), (10, None)), "leave a gap"),
        (config((0, 5)), "positive MetricIntervalUpperBound"),
        (config((-5, 0)), "negative MetricIntervalLowerBound"),
    ],
)
def test_steps_that_do_not_fit_together_are_refused(given, part):
    with pytest.raises(ApiError) as caught:
        check_steps(given)
    assert part in caught.value.message


@pytest.mark.parametrize(
    "given",
    [
        config((0, None)),
        config((None, 0)),
        config((None, -10), (-10, 0), (0, 5), (5, None)),
        config((10, None)),
        config((0, None), AdjustmentType="PercentChangeInCapacity", MinAdjustmentMagnitude=1),
        config(*((at, at + 1) for at in range(19)), (19, None)),
    ],
)
def test_steps_that_fit_are_taken(given):
    check_steps(given)
