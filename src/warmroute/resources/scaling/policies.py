"""PutScalingPolicy, DescribeScalingPolicies, DeleteScalingPolicy.

Source: operations of the same names in the ``application-autoscaling`` service model.
"""

import math
from dataclasses import replace
from itertools import pairwise
from typing import Final

from warmroute.core import limits
from warmroute.resources.errors import ApiCode, ApiError, invalid, unsupported
from warmroute.resources.records import JsonObject
from warmroute.resources.scaling.alarms import bound, tracked
from warmroute.resources.scaling.records import ScalableTargetRecord, ScalingPolicyRecord
from warmroute.resources.scaling.requests import (
    AllTables,
    ScalingContext,
    ScalingOutcome,
    chosen,
    object_not_found,
    page,
    scalable_of,
    target_of,
)
from warmroute.resources.scaling.scalable import NAMESPACE, Scalable, alarm_arn, policy_arn

_STEP: Final = "StepScalingPolicyConfiguration"
_TRACKING: Final = "TargetTrackingScalingPolicyConfiguration"
_PREDICTIVE: Final = "PredictiveScalingPolicyConfiguration"
_MEMBER_OF: Final = {"StepScaling": _STEP, "TargetTrackingScaling": _TRACKING}


def put_scaling_policy(request: JsonObject, tables: AllTables, context: ScalingContext) -> ScalingOutcome:
    """Create a policy, or replace its configuration; its cooldowns go on."""
    target = target_of(request, tables)
    scalable = scalable_of(request)
    known = tables.scaling_record(ScalingPolicyRecord, target.resource_id, request["PolicyName"])
    kind = _kind(request, known)
    others = tables.scaling_records(ScalingPolicyRecord, target.resource_id)
    if known is None:
        if len(others) >= limits.SCALING_POLICIES_MAX:
            raise ApiError(
                ApiCode.TOO_MANY,
                f"The resource has {limits.SCALING_POLICIES_MAX} scaling policies, the most allowed.",
            )
        known = _new(target, request["PolicyName"], context)
    config = request.get(_MEMBER_OF[kind])
    if config is None:
        config = known.step if kind == "StepScaling" else known.tracking
    if config is None:
        raise invalid(f"{_MEMBER_OF[kind]} must be given for a policy of type {kind}.")
    if kind == "StepScaling":
        check_steps(config)
        record = replace(known, step=config, tracking=None)
    else:
        _check_tracking(config, scalable, [one for one in others if one.name != known.name])
        record = replace(known, step=None, tracking=config)
    output = {"PolicyARN": policy_arn(context.place, record), "Alarms": _alarms(record, context)}
    return ScalingOutcome(output=output, put=(record,))


def describe_scaling_policies(
    request: JsonObject, tables: AllTables, context: ScalingContext
) -> ScalingOutcome:
    """Return a page of policies."""
    found = chosen(request, tables.scaling_records(ScalingPolicyRecord), names="PolicyNames")
    shown, token = page("DescribeScalingPolicies", request, found)
    described = [_described(policy, context) for policy in shown]
    return ScalingOutcome(output={"ScalingPolicies": described} | token)


def delete_scaling_policy(request: JsonObject, tables: AllTables, _context: ScalingContext) -> ScalingOutcome:
    """Delete a policy, and the alarms that were made for it."""
    scalable_of(request)
    policy = tables.scaling_record(ScalingPolicyRecord, request["ResourceId"], request["PolicyName"])
    if policy is None:
        raise object_not_found(f"scaling policy named {request['PolicyName']} found", request)
    return ScalingOutcome(remove=(policy,))


def _new(target: ScalableTargetRecord, name: str, context: ScalingContext) -> ScalingPolicyRecord:
    return ScalingPolicyRecord(target.resource_id, target.dimension, context.now_s, name, context.new_id())


def _described(policy: ScalingPolicyRecord, context: ScalingContext) -> JsonObject:
    config = (
        {"PolicyType": "StepScaling", _STEP: policy.step}
        if policy.step is not None
        else {"PolicyType": "TargetTrackingScaling", _TRACKING: policy.tracking}
    )
    return {
        "PolicyARN": policy_arn(context.place, policy),
        "PolicyName": policy.name,
        "ServiceNamespace": NAMESPACE,
        "ResourceId": policy.resource_id,
        "ScalableDimension": policy.dimension,
        "Alarms": _alarms(policy, context),
        "CreationTime": policy.created_s,
    } | config


def _alarms(policy: ScalingPolicyRecord, context: ScalingContext) -> list[JsonObject]:
    names = bound(policy, policy_arn(context.place, policy), context.declared)
    return [{"AlarmName": name, "AlarmARN": alarm_arn(context.place, name)} for name in names]


def _kind(request: JsonObject, known: ScalingPolicyRecord | None) -> str:
    """Return the type of a policy: as given, as it is already, or as its configuration says."""
    if request.get("PolicyType") == "PredictiveScaling" or _PREDICTIVE in request:
        raise unsupported("PredictiveScaling", "Use TargetTrackingScaling, StepScaling or scheduled actions.")
    given = [kind for kind, member in _MEMBER_OF.items() if member in request]
    if len(given) == 2:
        raise invalid(
            f"{_STEP} and {_TRACKING} are both given. Only the one of the policy's type is allowed."
        )
    before = None
    if known is not None:
        before = "StepScaling" if known.step is not None else "TargetTrackingScaling"
    kind: str | None = request.get("PolicyType") or before or (given[0] if given else None)
    if kind is None:
        raise invalid(f"PolicyType must be given for a new policy: {' or '.join(_MEMBER_OF)}.")
    if given and given[0] != kind:
        raise invalid(
            f"{_MEMBER_OF[given[0]]} is given for a policy of type {kind}. Give {_MEMBER_OF[kind]}."
        )
    if before is not None and kind != before:
        raise invalid(f"The policy is of type {before}, which cannot become {kind}. Delete it first.")
    return kind


def check_steps(config: JsonObject) -> None:
    """Refuse a step configuration that does not say what to do for every breach, once.

    Raises:
        ApiError: It does not.
    """
    if "AdjustmentType" not in config:
        raise invalid(f"{_STEP} lacks AdjustmentType.")
    steps = config.get("StepAdjustments", ())
    if not 1 <= len(steps) <= limits.STEP_ADJUSTMENTS_MAX:
        raise invalid(
            f"StepAdjustments has {len(steps)} members. From 1 to {limits.STEP_ADJUSTMENTS_MAX} are allowed."
        )
    if "MinAdjustmentMagnitude" in config and config["AdjustmentType"] != "PercentChangeInCapacity":
        raise invalid(
            "MinAdjustmentMagnitude is allowed only with the AdjustmentType PercentChangeInCapacity."
        )
    _check_number(config, "Cooldown")
    _check_number(config, "MinAdjustmentMagnitude")
    spans = sorted(
        (
            float(step.get("MetricIntervalLowerBound", -math.inf)),
            float(step.get("MetricIntervalUpperBound", math.inf)),
        )
        for step in steps
    )
    for lower, upper in spans:
        if not lower < upper or (lower, upper) == (-math.inf, math.inf):
            raise invalid(
                "StepAdjustments has a step whose MetricIntervalLowerBound is not below its "
                "MetricIntervalUpperBound; at least one must be given, and a missing one means no bound."
            )
    for (_, upper), (lower, _) in pairwise(spans):
        if upper != lower:
            fault = "overlap" if upper > lower else "leave a gap"
            raise invalid(
                f"Two steps of StepAdjustments {fault}: one ends at {upper:g}, the next begins at {lower:g}."
            )
    if spans[0][0] not in (-math.inf, 0.0) and spans[0][0] < 0:
        raise invalid("A step has a negative MetricIntervalLowerBound, so one must have none at all.")
    if spans[-1][1] not in (math.inf, 0.0) and spans[-1][1] > 0:
        raise invalid("A step has a positive MetricIntervalUpperBound, so one must have none at all.")


def _check_number(config: JsonObject, member: str) -> None:
    if config.get(member, 0) < 0:
        raise invalid(f"{member} is {config[member]}. It must be 0 or more.")


def _check_tracking(config: JsonObject, scalable: Scalable, others: list[ScalingPolicyRecord]) -> None:
    metrics = [
        name for name in ("PredefinedMetricSpecification", "CustomizedMetricSpecification") if name in config
    ]
    if len(metrics) != 1:
        raise invalid(
            f"{_TRACKING} has {len(metrics)} metric specifications. Give either "
            "PredefinedMetricSpecification or CustomizedMetricSpecification."
        )
    goal = config["TargetValue"]
    if not (math.isfinite(goal) and goal > 0):
        raise invalid(f"TargetValue is {goal:g}. It must be greater than 0.")
    _check_number(config, "ScaleOutCooldown")
    _check_number(config, "ScaleInCooldown")
    tracked(config, scalable)
    for other in others:
        if other.tracking is not None and other.tracking.get(metrics[0]) == config[metrics[0]]:
            raise invalid(
                "Only one TargetTrackingScaling policy for a given metric specification is allowed; "
                f"{other.name} has the same."
            )
