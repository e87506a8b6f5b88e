"""The alarms that are there without being declared, and which alarms a scaling policy acts on.

*Built in* are alarms for every variant and component; deployments and step policies name them.
*Target tracking* makes two of its own for each policy. *Declared* alarms come from the settings, and name
the policies that act on them.

A step scaling policy acts on

1. the declared alarms whose ``policies`` hold its name or its ARN;
2. the built-in alarm of its resource whose name its own name is, or ends with after a ``-``: a policy
   ``scale-out-NoCapacityInvocationFailures`` acts on the alarm of that kind;
3. where neither gives one: a policy of a component that adds copies acts on
   ``NoCapacityInvocationFailures``, so that scripts that bind it in CloudWatch leave zero unchanged.

Choice: all of that, because CloudWatch's API, in which an alarm names the policies, is not served.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from warmroute.resources.errors import ApiError, invalid
from warmroute.resources.metrics.alarms import Alarm, Comparison, MetricId, MissingData, Query, Statistic
from warmroute.resources.metrics.expressions import Expression
from warmroute.resources.metrics.names import (
    CONCURRENT_PER_COPY,
    CONCURRENT_PER_MODEL,
    ERRORS_5XX,
    MODEL_ERRORS,
    NO_CAPACITY,
    PER_COPY,
    PER_INSTANCE,
)
from warmroute.resources.records import JsonObject
from warmroute.resources.scaling.customized_metrics import ONLY, customized
from warmroute.resources.scaling.records import ScalingPolicyRecord
from warmroute.resources.scaling.scalable import Scalable, ScalableComponent, ScalableVariant, parse

MINUTE_S: Final = 60
OUT_PERIODS: Final = 3
"""Values above the target that scale out, of either kind of metric."""
IN_S: Final = 900
"""Values below nine tenths of the target for so long scale in: 15 of a minute, 90 of ten seconds."""
IN_SHARE: Final = 0.9
"""Choice, as the alarms that AWS makes: between it and the target nothing happens."""
ERROR_SHARE: Final = 0.05
"""Share of failed invocations at which the built-in alarms about errors go off."""
BUILT_IN: Final = (NO_CAPACITY, ERRORS_5XX, MODEL_ERRORS)
"""The kinds of built-in alarm; the first is there for components only."""


@dataclass(frozen=True, slots=True)
class _Predefined:
    """A PredefinedMetricType: the metric, its statistic, its period in seconds, and what it is for."""

    metric: str
    statistic: Statistic
    period_s: int
    component: bool


PREDEFINED: Final = {
    "SageMakerVariantInvocationsPerInstance": _Predefined(PER_INSTANCE, Statistic.SUM, 60, component=False),
    "SageMakerVariantConcurrentRequestsPerModelHighResolution": _Predefined(
        CONCURRENT_PER_MODEL, Statistic.AVERAGE, 10, component=False
    ),
    "SageMakerInferenceComponentInvocationsPerCopy": _Predefined(PER_COPY, Statistic.SUM, 60, component=True),
    "SageMakerInferenceComponentConcurrentRequestsPerCopyHighResolution": _Predefined(
        CONCURRENT_PER_COPY, Statistic.AVERAGE, 10, component=True
    ),
}
"""Choice: of concurrent requests the average over ten seconds, because the arrivals of one moment should not
cost an instance; a customized metric takes the maximum."""


def metric_of(name: str, scalable: Scalable) -> MetricId:
    """Return a metric of what is scaled."""
    match scalable:
        case ScalableVariant(endpoint, variant):
            return MetricId(name, endpoint=endpoint, variant=variant)
        case ScalableComponent(component):
            return MetricId(name, component=component)


def built_in_name(kind: str, scalable: Scalable) -> str:
    """Return the name of a built-in alarm, for example ``Invocation5XXErrors-endpoint/llm/variant/a``."""
    return f"{kind}-{scalable.resource_id}"


def built_in(scalable: Scalable) -> tuple[Alarm, ...]:
    """Return the built-in alarms of a variant or component."""
    errors = tuple(
        Alarm(
            name=built_in_name(kind, scalable),
            queries={ONLY: Query(metric_of(kind, scalable), Statistic.AVERAGE)},
            threshold=ERROR_SHARE,
            missing=MissingData.NOT_BREACHING,
        )
        for kind in (ERRORS_5XX, MODEL_ERRORS)
    )
    if isinstance(scalable, ScalableVariant):
        return errors
    no_capacity = Alarm(
        name=built_in_name(NO_CAPACITY, scalable),
        queries={ONLY: Query(metric_of(NO_CAPACITY, scalable), Statistic.SUM)},
        threshold=1.0,
        missing=MissingData.NOT_BREACHING,
    )
    return (no_capacity, *errors)


def is_built_in(name: str) -> bool:
    """Return whether a built-in alarm has this name when its variant or component exists."""
    kind, _, resource_id = name.partition("-")
    scalable = parse(resource_id)
    return scalable is not None and any(alarm.name == name for alarm in built_in(scalable)) and bool(kind)


def tracked(config: JsonObject, scalable: Scalable) -> tuple[dict[str, Query], Expression | None, int]:
    """Return what a TargetTrackingScalingPolicyConfiguration reads, and its period in seconds.

    Raises:
        ApiError: The metric is not one that this resource has.
    """
    if "CustomizedMetricSpecification" in config:
        return (*customized(config["CustomizedMetricSpecification"]), MINUTE_S)
    named = config["PredefinedMetricSpecification"]["PredefinedMetricType"]
    found = PREDEFINED.get(named)
    is_component = isinstance(scalable, ScalableComponent)
    if found is None or found.component is not is_component:
        allowed = [name for name, one in PREDEFINED.items() if one.component is is_component]
        raise invalid(
            f"PredefinedMetricType {named} is not supported for {scalable.resource_id}. "
            f"Allowed are {', '.join(allowed)}."
        )
    return {ONLY: Query(metric_of(found.metric, scalable), found.statistic)}, None, found.period_s


def tracking_names(policy: ScalingPolicyRecord) -> tuple[str, str]:
    """Return the names of a target tracking policy's alarms: for scaling out, and in."""
    start = f"TargetTracking-{policy.resource_id}-Alarm"
    return f"{start}High-{policy.policy_id}", f"{start}Low-{policy.policy_id}"


def tracking(policy: ScalingPolicyRecord) -> tuple[Alarm, Alarm]:
    """Return the alarms of a target tracking policy: for scaling out, and in."""
    config, scalable = policy.tracking, parse(policy.resource_id)
    assert config is not None, f"policy {policy.name} does not track"
    assert scalable is not None, f"policy {policy.name} is of no resource"
    queries, expression, period_s = tracked(config, scalable)
    high, low = tracking_names(policy)
    goal = float(config["TargetValue"])
    return (
        Alarm(
            name=high, queries=queries, expression=expression, period_s=period_s, threshold=goal,
            comparison=Comparison.GREATER, evaluation_periods=OUT_PERIODS, datapoints_to_alarm=OUT_PERIODS,
        ),
        Alarm(
            name=low, queries=queries, expression=expression, period_s=period_s, threshold=goal * IN_SHARE,
            comparison=Comparison.LESS, evaluation_periods=IN_S // period_s,
            datapoints_to_alarm=IN_S // period_s,
        ),
    )  # fmt: skip


def bound(policy: ScalingPolicyRecord, arn: str, declared: Iterable[Alarm]) -> tuple[str, ...]:
    """Return the names of the alarms that a policy acts on.

    Args:
        policy: Which.
        arn: Its ARN.
        declared: The alarms of the settings.
    """
    if policy.tracking is not None:
        return tracking_names(policy)
    named = tuple(alarm.name for alarm in declared if policy.name in alarm.policies or arn in alarm.policies)
    if named:
        return named
    scalable = parse(policy.resource_id)
    assert scalable is not None, f"policy {policy.name} is of no resource"
    there = [alarm.name for alarm in built_in(scalable)]
    for kind in BUILT_IN:
        name = built_in_name(kind, scalable)
        if (policy.name == kind or policy.name.endswith(f"-{kind}")) and name in there:
            return (name,)
    if isinstance(scalable, ScalableComponent) and _adds(policy.step or {}):
        return (built_in_name(NO_CAPACITY, scalable),)
    return ()


def _adds(step: JsonObject) -> bool:
    """Whether every step of a policy asks for more."""
    steps = step.get("StepAdjustments", ())
    return bool(steps) and all(one["ScalingAdjustment"] > 0 for one in steps)


def every_alarm(
    *, scalables: Iterable[Scalable], policies: Iterable[ScalingPolicyRecord], declared: Sequence[Alarm]
) -> tuple[Alarm, ...]:
    """Return every alarm there is; a declared one comes in place of any other of its name."""
    found: dict[str, Alarm] = {}
    for scalable in scalables:
        found |= {alarm.name: alarm for alarm in built_in(scalable)}
    for policy in policies:
        if policy.tracking is not None:
            # One that another version took and this one cannot follow must not keep the others waiting.
            with suppress(ApiError):
                found |= {alarm.name: alarm for alarm in tracking(policy)}
    found |= {alarm.name: alarm for alarm in declared}
    return tuple(found.values())
