"""Alarms that are there by themselves, and what binds policies to alarms."""

import pytest

from tests.unit.resources.scaling_api import STEP, TRACKING
from warmroute.resources.errors import ApiError
from warmroute.resources.metrics.alarms import Alarm, Comparison, MetricId, MissingData, Statistic
from warmroute.resources.scaling.alarms import (
    PREDEFINED,
    bound,
    built_in,
    every_alarm,
    is_built_in,
    tracked,
    tracking,
)
from warmroute.resources.scaling.records import ScalingPolicyRecord
from warmroute.resources.scaling.scalable import ScalableComponent, ScalableVariant

VARIANT, COMPONENT = ScalableVariant("llm", "a"), ScalableComponent("chat")


def policy(name="p", of=COMPONENT, **changes):
    return ScalingPolicyRecord(of.resource_id, "d", 1.0, name, "id", **{"step": STEP} | changes)


def test_a_component_has_an_alarm_for_want_of_copies():
    alarms = {alarm.name: alarm for alarm in built_in(COMPONENT)}
    alarm = alarms["NoCapacityInvocationFailures-inference-component/chat"]
    assert alarm.queries["m"].metric == MetricId("NoCapacityInvocationFailures", component="chat")
    assert alarm.queries["m"].statistic is Statistic.SUM
    assert (alarm.threshold, alarm.comparison, alarm.period_s) == (1.0, Comparison.GREATER_OR_EQUAL, 60)
    assert alarm.missing is MissingData.NOT_BREACHING


def test_variants_and_components_have_alarms_about_errors():
    assert [alarm.name for alarm in built_in(VARIANT)] == [
        "Invocation5XXErrors-endpoint/llm/variant/a",
        "InvocationModelErrors-endpoint/llm/variant/a",
    ]
    assert all(alarm.threshold == 0.05 for alarm in built_in(VARIANT))
    assert len(built_in(COMPONENT)) == 3


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Invocation5XXErrors-endpoint/llm/variant/a", True),
        ("NoCapacityInvocationFailures-inference-component/chat", True),
        ("NoCapacityInvocationFailures-endpoint/llm/variant/a", False),
        ("Invocations-endpoint/llm/variant/a", False),
        ("Invocation5XXErrors", False),
        ("-", False),
    ],
)
def test_built_in_alarms_are_known_by_their_names(name, expected):
    assert is_built_in(name) is expected


@pytest.mark.parametrize(
    ("kind", "of", "metric", "statistic", "period_s"),
    [
        ("SageMakerVariantInvocationsPerInstance", VARIANT, "InvocationsPerInstance", "Sum", 60),
        (
            "SageMakerVariantConcurrentRequestsPerModelHighResolution",
            VARIANT, "ConcurrentRequestsPerModel", "Average", 10,
        ),
        ("SageMakerInferenceComponentInvocationsPerCopy", COMPONENT, "InvocationsPerCopy", "Sum", 60),
        (
            "SageMakerInferenceComponentConcurrentRequestsPerCopyHighResolution",
            COMPONENT, "ConcurrentRequestsPerCopy", "Average", 10,
        ),
    ],
)  # fmt: skip
def test_predefined_metrics(kind, of, metric, statistic, period_s):
    config = {"TargetValue": 5.0, "PredefinedMetricSpecification": {"PredefinedMetricType": kind}}
    queries, expression, period = tracked(config, of)
    assert queries["m"].metric.name == metric
    assert (queries["m"].statistic, expression, period) == (statistic, None, period_s)
    other = COMPONENT if of is VARIANT else VARIANT
    with pytest.raises(ApiError, match="is not supported for"):
        tracked(config, other)


def test_every_predefined_metric_is_for_one_kind_of_resource():
    assert sorted(one.component for one in PREDEFINED.values()) == [False, False, True, True]


def test_a_customized_metric_is_taken_by_the_minute():
    config = {
        "TargetValue": 5.0,
        "CustomizedMetricSpecification": {
            "MetricName": "ConcurrentRequests",
            "Namespace": "AWS/SageMaker",
            "Statistic": "Maximum",
            "Dimensions": [{"Name": "InferenceComponentName", "Value": "chat"}],
        },
    }
    queries, _, period_s = tracked(config, COMPONENT)
    assert (queries["m"].metric, period_s) == (MetricId("ConcurrentRequests", component="chat"), 60)


@pytest.mark.parametrize(
    ("kind", "out", "back"),
    [
        ("SageMakerVariantInvocationsPerInstance", 3, 15),
        ("SageMakerVariantConcurrentRequestsPerModelHighResolution", 3, 90),
    ],
)
def test_tracking_has_an_alarm_for_each_direction(kind, out, back):
    config = {"TargetValue": 10.0, "PredefinedMetricSpecification": {"PredefinedMetricType": kind}}
    high, low = tracking(policy(of=VARIANT, step=None, tracking=config))
    assert high.name == "TargetTracking-endpoint/llm/variant/a-AlarmHigh-id"
    assert low.name == "TargetTracking-endpoint/llm/variant/a-AlarmLow-id"
    assert (high.threshold, high.comparison) == (10.0, Comparison.GREATER)
    assert (low.threshold, low.comparison) == (9.0, Comparison.LESS)
    assert (high.evaluation_periods, high.datapoints_to_alarm) == (out, out)
    assert (low.evaluation_periods, low.datapoints_to_alarm) == (back, back)


# --- Which alarms a policy acts on -----------------------------------------------------------

NO_CAPACITY = "NoCapacityInvocationFailures-inference-component/chat"
DECLARED = (
    Alarm("by-name", {}, 1.0, policies=("mine", "both")),
    Alarm("by-arn", {}, 1.0, policies=("arn:p", "both")),
)


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (policy("mine"), ("by-name",)),
        (policy("both"), ("by-name", "by-arn")),
        (policy("any"), (NO_CAPACITY,)),
        (policy("NoCapacityInvocationFailures"), (NO_CAPACITY,)),
        (policy("x-InvocationModelErrors"), ("InvocationModelErrors-inference-component/chat",)),
        (policy("xInvocationModelErrors"), (NO_CAPACITY,)),
        (policy("any", of=VARIANT), ()),
        (policy("x-NoCapacityInvocationFailures", of=VARIANT), ()),
        (policy("x-Invocation5XXErrors", of=VARIANT), ("Invocation5XXErrors-endpoint/llm/variant/a",)),
        (policy("any", step={"StepAdjustments": [{"ScalingAdjustment": -1}]}), ()),
        (policy("any", step={"StepAdjustments": []}), ()),
    ],
)
def test_the_alarms_of_a_step_policy(record, expected):
    assert bound(record, "arn:other", DECLARED) == expected


def test_a_declared_alarm_may_name_a_policy_by_its_arn():
    assert bound(policy("other"), "arn:p", DECLARED) == ("by-arn",)


def test_a_tracking_policy_has_its_own_two():
    record = policy("mine", of=VARIANT, step=None, tracking=TRACKING)
    assert bound(record, "arn", DECLARED) == tuple(alarm.name for alarm in tracking(record))


def test_a_policy_that_cannot_be_followed_any_more_has_no_alarms():
    unknown = {"TargetValue": 1.0, "PredefinedMetricSpecification": {"PredefinedMetricType": "Gone"}}
    record = policy("old", of=VARIANT, step=None, tracking=unknown)
    alarms = every_alarm(scalables=[], policies=[record], declared=[])
    assert alarms == ()


def test_a_declared_alarm_comes_in_place_of_a_built_in_one():
    mine = Alarm(NO_CAPACITY, {}, 2.0)
    record = policy("t", of=VARIANT, step=None, tracking=TRACKING)
    alarms = {
        alarm.name: alarm
        for alarm in every_alarm(scalables=[VARIANT, COMPONENT], policies=[record, policy()], declared=[mine])
    }
    assert len(alarms) == 2 + 3 + 2
    assert alarms[NO_CAPACITY] is mine
