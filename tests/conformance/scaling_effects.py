"""What a scaling policy does: its alarms, and what it asks for over a grid of metrics and histories."""

from dataclasses import replace
from itertools import product

from tests.conformance.facts import BASES, STEPS
from tests.conformance.scaling_meanings import METRIC, PREDEFINED
from warmroute.resources.metrics.alarms import Alarm, AlarmState, Finding
from warmroute.resources.scaling.alarms import tracking
from warmroute.resources.scaling.decide import Reading, Vote, vote
from warmroute.resources.scaling.records import ScalingPolicyRecord

NOW_S = 10_000.0
SINCE = (None, 0.5, 100.0, 299.5, 400.0)
"""Seconds since a policy scaled: never, within a short cooldown, a long one, the default one, none."""
VALUES = [(value - 3.0, value, value + 8.0) for value in (-20.0, -1.0, 0.5, 2.0, 6.0, 30.0)]
CAPACITIES = (4, 9)


def behaviour(world, request):
    """Return, as text, what the policy of a request does."""
    with world.store.transaction() as transaction:
        policy = transaction.scaling_record(ScalingPolicyRecord, request["ResourceId"], request["PolicyName"])
    seen = [repr(tracking(policy)) if policy.tracking is not None else ""]
    for values, capacity, out_s, in_s in product(VALUES, CAPACITIES, SINCE, SINCE):
        past = replace(
            policy,
            out_s=None if out_s is None else NOW_S - out_s,
            in_s=None if in_s is None else NOW_S - in_s,
            out_from=3,
        )
        for state in _states(policy):
            readings = _readings(policy, values, state)
            asked = vote(past, readings, capacity=capacity, now_s=NOW_S)
            seen.append(str([one.capacity if isinstance(one, Vote) else "hold" for one in asked]))
    return "\n".join(seen)


def _states(policy):
    """Return the pairs of states that the alarms of a policy are tried in."""
    alarm, ok = AlarmState.ALARM, AlarmState.OK
    return [(alarm, ok), (ok, alarm)] if policy.tracking is not None else [(alarm, ok)]


def _readings(policy, values, states):
    if policy.tracking is None:
        return {"a": Reading(Alarm("a", {}, 0.0), Finding(states[0], values))}
    return {
        alarm.name: Reading(alarm, Finding(state, values))
        for alarm, state in zip(tracking(policy), states, strict=True)
    }


# --- Pairs of requests ------------------------------------------------------------------------------


def _steps(**changes):
    return BASES["PutScalingPolicy"] | {"StepScalingPolicyConfiguration": STEPS | changes}


def _tracks(**changes):
    request = dict(BASES["PutScalingPolicy"])
    del request["StepScalingPolicyConfiguration"]
    config = {"TargetValue": 5, "PredefinedMetricSpecification": PREDEFINED} | changes
    return request | {
        "PolicyType": "TargetTrackingScaling",
        "TargetTrackingScalingPolicyConfiguration": config,
    }


def _customized(**changes):
    request = _tracks(CustomizedMetricSpecification=METRIC | {"Statistic": "Sum"} | changes)
    del request["TargetTrackingScalingPolicyConfiguration"]["PredefinedMetricSpecification"]
    return request


def _several(*metrics):
    request = _customized()
    config = request["TargetTrackingScalingPolicyConfiguration"]
    config["CustomizedMetricSpecification"] = {"Metrics": list(metrics)}
    return request


def _metric(name="m1", *, data=True, stat="Sum", **changes):
    return {"Id": name, "MetricStat": {"Metric": METRIC | changes, "Stat": stat}, "ReturnData": data}


def _split(edge):
    """Two steps that meet at an edge."""
    return [
        {"MetricIntervalLowerBound": 0, "MetricIntervalUpperBound": edge, "ScalingAdjustment": 1},
        {"MetricIntervalLowerBound": edge, "ScalingAdjustment": 3},
    ]


def _of(**values):
    return [{"Name": name, "Value": value} for name, value in values.items()]


_PERCENT = {"AdjustmentType": "PercentChangeInCapacity"}
_LATENCY = {"MetricName": "ModelLatency"}
_ELSEWHERE = _of(EndpointName="other", VariantName="v")
REQUESTS = {
    "AdjustmentType": (_steps(), _steps(AdjustmentType="ExactCapacity")),
    "MetricIntervalLowerBound": (_steps(StepAdjustments=_split(2)), _steps(StepAdjustments=_split(20))),
    "MetricIntervalUpperBound": (_steps(StepAdjustments=_split(2)), _steps(StepAdjustments=_split(20))),
    "ScalingAdjustment": tuple(
        _steps(StepAdjustments=[{"MetricIntervalLowerBound": 0, "ScalingAdjustment": n}]) for n in (1, 2)
    ),
    "MinAdjustmentMagnitude": tuple(_steps(**_PERCENT, MinAdjustmentMagnitude=n) for n in (1, 5)),
    "Cooldown": (_steps(Cooldown=1), _steps(Cooldown=200)),
    "MetricAggregationType": (
        _steps(MetricAggregationType="Minimum"),
        _steps(MetricAggregationType="Maximum"),
    ),
    "TargetValue": (_tracks(), _tracks(TargetValue=50)),
    "PredefinedMetricType": (
        _tracks(),
        _tracks(
            PredefinedMetricSpecification={
                "PredefinedMetricType": "SageMakerVariantConcurrentRequestsPerModelHighResolution"
            }
        ),
    ),
    "ScaleOutCooldown": (_tracks(ScaleOutCooldown=1), _tracks(ScaleOutCooldown=200)),
    "ScaleInCooldown": (_tracks(ScaleInCooldown=1), _tracks(ScaleInCooldown=200)),
    "DisableScaleIn": (_tracks(), _tracks(DisableScaleIn=True)),
    "CustomizedMetricSpecification.MetricName": (_customized(), _customized(**_LATENCY)),
    "CustomizedMetricSpecification.Dimensions[].Value": (_customized(), _customized(Dimensions=_ELSEWHERE)),
    "Statistic": (_customized(), _customized(Statistic="Maximum")),
    "Metrics[].Expression": tuple(
        _several(_metric(data=False), {"Id": "e", "Expression": text}) for text in ("m1 / 2", "m1 / 3")
    ),
    "Metrics[].Id": (
        _several(_metric(data=False), _metric("m2", data=False, **_LATENCY), {"Id": "e", "Expression": "m1"}),
        _several(_metric("m2", data=False), _metric(data=False, **_LATENCY), {"Id": "e", "Expression": "m1"}),
    ),
    "Metric.MetricName": (_several(_metric()), _several(_metric(**_LATENCY))),
    "Metric.Dimensions[].Value": (_several(_metric()), _several(_metric(Dimensions=_ELSEWHERE))),
    "Stat": (_several(_metric()), _several(_metric(stat="Maximum"))),
    "ReturnData": (
        _several(_metric(), _metric("m2", data=False, **_LATENCY)),
        _several(_metric(data=False), _metric("m2", **_LATENCY)),
    ),
}
"""By the end of a node of PutScalingPolicy."""
ONE_VALUE = ("Namespace", "Dimensions[].Name")
"""Members that have one right value; what else is given is refused."""
