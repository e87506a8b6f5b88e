"""``meanings`` of Application Auto Scaling's operations."""

from tests.conformance.meaning import Meaning, is_not

DIMENSIONS = [{"Name": "EndpointName", "Value": "ep"}, {"Name": "VariantName", "Value": "v"}]
METRIC = {"MetricName": "Invocations", "Namespace": "AWS/SageMaker", "Dimensions": DIMENSIONS}
PREDEFINED = {"PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"}
STEP = {"MetricIntervalLowerBound": 0, "ScalingAdjustment": 1}


def repair(operation, names, request):
    """Make what the node at ``names`` requires of others so, in place."""
    described = operation.startswith("Describe")
    if described and names == ["ScalableDimension"]:
        member = "ResourceIds" if operation == "DescribeScalableTargets" else "ResourceId"
        request[member] = ["endpoint/ep/variant/v"] if member == "ResourceIds" else "endpoint/ep/variant/v"
    if operation == "PutScalingPolicy":
        _repair_policy(request, names)


def _repair_policy(request, names):
    if (
        "TargetTrackingScalingPolicyConfiguration" in names
        or request["PolicyType"] == "TargetTrackingScaling"
    ):
        request["PolicyType"] = "TargetTrackingScaling"
        request.pop("StepScalingPolicyConfiguration", None)
        config = request.setdefault("TargetTrackingScalingPolicyConfiguration", {"TargetValue": 50})
        if "CustomizedMetricSpecification" in config:
            _repair_customized(config["CustomizedMetricSpecification"], names)
        else:
            config["PredefinedMetricSpecification"] = PREDEFINED | config.get(
                "PredefinedMetricSpecification", {}
            )
        return
    config = request["StepScalingPolicyConfiguration"]
    if "MinAdjustmentMagnitude" in names:
        config["AdjustmentType"] = "PercentChangeInCapacity"
    config.setdefault("AdjustmentType", "ChangeInCapacity")
    steps = config.setdefault("StepAdjustments", [STEP])
    if "MetricIntervalUpperBound" in steps[0]:
        edge = steps[0]["MetricIntervalUpperBound"]
        steps[0]["MetricIntervalLowerBound"] = edge - 1
        steps.append({"MetricIntervalLowerBound": edge, "ScalingAdjustment": 1})
    else:
        steps[0].setdefault("MetricIntervalLowerBound", 0)


def _repair_customized(given, names):
    if "Metrics" not in names:
        for member, value in (METRIC | {"Statistic": "Sum"}).items():
            given.setdefault(member, value)
        _repair_dimensions(given, names)
        return
    for member in set(given) - {"Metrics", "Unit"}:
        del given[member]
    for one in given["Metrics"]:
        if "Expression" in names:
            one.pop("MetricStat", None)
            continue
        stat = one.setdefault("MetricStat", {"Metric": {}, "Stat": "Sum"})
        if names[-1] != "Stat":
            stat["Stat"] = "Sum"
        for member, value in METRIC.items():
            stat["Metric"].setdefault(member, value)
        _repair_dimensions(stat["Metric"], names)
    if "Expression" in names:
        metric = {"Id": "m1", "MetricStat": {"Metric": METRIC, "Stat": "Sum"}, "ReturnData": False}
        given["Metrics"].append(metric)
    if names[-1] == "ReturnData" and not given["Metrics"][0]["ReturnData"]:
        given["Metrics"].append({"Id": "m1", "MetricStat": {"Metric": METRIC, "Stat": "Sum"}})


def _repair_dimensions(metric, names):
    """Give a metric both its dimensions, of which the first keeps the value that is tried."""
    if "Dimensions" in names and names[-1] in ("Dimensions", "Value"):
        value = metric["Dimensions"][0]["Value"] if metric["Dimensions"] else "ep"
        metric["Dimensions"] = [DIMENSIONS[0] | {"Value": value}, DIMENSIONS[1]]


_NAMED = ("DeregisterScalableTarget", "PutScalingPolicy", "DeleteScalingPolicy", "PutScheduledAction",
          "DeleteScheduledAction", "RegisterScalableTarget")  # fmt: skip
_DESCRIBED = ("DescribeScalableTargets", "DescribeScalingPolicies", "DescribeScheduledActions",
              "DescribeScalingActivities")  # fmt: skip
_OTHER = "Unsupported service namespace, resource type or scalable dimension"
_RESOURCES = ("endpoint/ep/variant/v", "inference-component/comp")
_ALLOWED = (
    "SageMakerVariantInvocationsPerInstance",
    "SageMakerVariantConcurrentRequestsPerModelHighResolution",
)
_VARIANT, _COMPONENT = (
    "sagemaker:variant:DesiredInstanceCount",
    "sagemaker:inference-component:DesiredCopyCount",
)
_GONE, _BAD_PAGE = "ObjectNotFoundException", "InvalidNextTokenException"

MEANINGS = (
    *(Meaning(name, "NextToken", "NextToken is not one that", code=_BAD_PAGE) for name in _DESCRIBED),
    *(
        Meaning(
            name, "ServiceNamespace", "is not supported by warmroute. Only sagemaker is.", is_not("sagemaker")
        )
        for name in _NAMED
    ),
    *(Meaning(name, "ResourceId", _OTHER, is_not(*_RESOURCES)) for name in _NAMED),
    *(
        Meaning(
            name,
            "ScalableDimension",
            _OTHER,
            is_not(_COMPONENT if name == "RegisterScalableTarget" else _VARIANT),
        )
        for name in _NAMED
    ),
    Meaning("DeleteScalingPolicy", "PolicyName", "No scaling policy named", is_not("steps"), code=_GONE),
    Meaning("DeleteScheduledAction", "ScheduledActionName", "No scheduled", is_not("act"), code=_GONE),
    Meaning("PutScalingPolicy", "PolicyType", "PredictiveScaling is", lambda value: value[0] == "P"),
    Meaning("PutScalingPolicy", "PredefinedMetricType", "is not supported for", is_not(*_ALLOWED)),
    Meaning("PutScalingPolicy", "MetricName", "is not a metric of warmroute", is_not("Invocations")),
    Meaning("PutScalingPolicy", "Namespace", "is not supported by warmroute", is_not("AWS/SageMaker")),
    Meaning(
        "PutScalingPolicy",
        "PredefinedMetricSpecification",
        "is not supported for",
        lambda value: value["PredefinedMetricType"] not in _ALLOWED,
    ),
    Meaning("PutScalingPolicy", "Dimensions[].Name", "has the dimensions"),
    Meaning("PutScalingPolicy", "Stat", "is not one of", is_not("Sum")),
    Meaning("PutScalingPolicy", "Expression", "the expression", is_not("m1 / 2")),
    Meaning("PutScheduledAction", "ScalableTargetAction", "must have MinCapacity", lambda value: not value),
    Meaning("PutScheduledAction", "Schedule", "is not at(", is_not("rate(5 minutes)")),
    Meaning("PutScheduledAction", "Timezone", "is not known here", is_not("Europe/Berlin")),
    Meaning("PutScheduledAction", "EndTime", "has no time after now and before EndTime"),
    *(
        Meaning(name, "ResourceARN", "No scalable target has the ARN", code="ResourceNotFoundException")
        for name in ("TagResource", "UntagResource", "ListTagsForResource")
    ),
)
