"""The rows of ``coverage`` for Application Auto Scaling's operations. See ``coverage_rows``."""

from collections.abc import Mapping
from typing import Final

from warmroute.resources.coverage.tables import Structure, structure

_RESOURCE: Final = ("ServiceNamespace", "ResourceId", "ScalableDimension")
_NAMESPACE: Final = {"ServiceNamespace": "sagemaker only"}

_STEPS = structure(
    honoured=(
        "AdjustmentType", "StepAdjustments", "MinAdjustmentMagnitude", "Cooldown", "MetricAggregationType",
    ),
    notes={"MinAdjustmentMagnitude": "only with PercentChangeInCapacity"},
    inside={
        "StepAdjustments": structure(
            honoured=("MetricIntervalLowerBound", "MetricIntervalUpperBound", "ScalingAdjustment")
        )
    },
)  # fmt: skip
_DIMENSION = structure(honoured=("Name", "Value"))
_METRIC_STAT = structure(
    honoured=("Metric", "Stat"),
    stored=("Unit",),
    inside={
        "Metric": structure(
            honoured=("Dimensions", "MetricName", "Namespace"), inside={"Dimensions": _DIMENSION}
        )
    },
)
_CUSTOMIZED = structure(
    noun="CustomizedMetricSpecification",
    honoured=("MetricName", "Namespace", "Dimensions", "Statistic", "Metrics"),
    stored=("Unit",),
    notes={"MetricName": "one of warmroute's metrics", "Namespace": "AWS/SageMaker only"},
    inside={
        "Dimensions": _DIMENSION,
        "Metrics": structure(
            honoured=("Expression", "Id", "MetricStat", "ReturnData"),
            stored=("Label",),
            notes={"Expression": "one expression over the metrics, of arithmetic"},
            inside={"MetricStat": _METRIC_STAT},
        ),
    },
)
_TRACKING = structure(
    honoured=(
        "TargetValue", "PredefinedMetricSpecification", "CustomizedMetricSpecification", "ScaleOutCooldown",
        "ScaleInCooldown", "DisableScaleIn",
    ),
    inside={
        "PredefinedMetricSpecification": structure(
            noun="PredefinedMetricSpecification",
            honoured=("PredefinedMetricType",),
            refused={"ResourceLabel": "It is for other services; leave it out."},
            notes={"PredefinedMetricType": "SageMaker's, except provisioned concurrency"},
        ),
        "CustomizedMetricSpecification": _CUSTOMIZED,
    },
)  # fmt: skip


def _described(*more: str) -> Structure:
    return structure(honoured=(*more, "ServiceNamespace", "ScalableDimension", "MaxResults", "NextToken"))


SCALING_COVERAGE: Final[Mapping[str, Structure]] = {
    "RegisterScalableTarget": structure(
        noun="scalable target",
        named_by="ResourceId",
        honoured=(*_RESOURCE, "MinCapacity", "MaxCapacity", "SuspendedState", "Tags"),
        stored=("RoleARN",),
        notes=_NAMESPACE,
        inside={
            "SuspendedState": structure(
                honoured=(
                    "DynamicScalingInSuspended", "DynamicScalingOutSuspended", "ScheduledScalingSuspended",
                )
            )
        },
    ),
    "DescribeScalableTargets": _described("ResourceIds"),
    "DeregisterScalableTarget": structure(honoured=_RESOURCE),
    "PutScalingPolicy": structure(
        noun="scaling policy",
        named_by="PolicyName",
        honoured=(
            "PolicyName", *_RESOURCE, "PolicyType", "StepScalingPolicyConfiguration",
            "TargetTrackingScalingPolicyConfiguration",
        ),
        refused={
            "PredictiveScalingPolicyConfiguration": "Nothing predicts load; use target tracking or steps."
        },
        notes=_NAMESPACE | {"PolicyType": "PredictiveScaling is refused"},
        inside={
            "StepScalingPolicyConfiguration": _STEPS,
            "TargetTrackingScalingPolicyConfiguration": _TRACKING,
        },
    ),
    "DescribeScalingPolicies": _described("PolicyNames", "ResourceId"),
    "DeleteScalingPolicy": structure(honoured=("PolicyName", *_RESOURCE)),
    "PutScheduledAction": structure(
        noun="scheduled action",
        named_by="ScheduledActionName",
        honoured=(
            *_RESOURCE, "Schedule", "Timezone", "ScheduledActionName", "StartTime", "EndTime",
            "ScalableTargetAction",
        ),
        notes=_NAMESPACE,
        inside={"ScalableTargetAction": structure(honoured=("MinCapacity", "MaxCapacity"))},
    ),
    "DescribeScheduledActions": _described("ScheduledActionNames", "ResourceId"),
    "DeleteScheduledAction": structure(honoured=("ScheduledActionName", *_RESOURCE)),
    "DescribeScalingActivities": _described("ResourceId", "IncludeNotScaledActivities"),
    "TagResource": structure(honoured=("ResourceARN", "Tags")),
    "UntagResource": structure(honoured=("ResourceARN", "TagKeys")),
    "ListTagsForResource": structure(honoured=("ResourceARN",)),
}  # fmt: skip
"""By operation."""
