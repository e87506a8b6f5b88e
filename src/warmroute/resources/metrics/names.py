"""The metrics that alarms and scaling policies can read; names, dimensions and units are SageMaker's.

Source: CloudWatch metrics of endpoint invocations in SageMaker's developer guide. Those that it has not
are marked as warmroute's own.

Choice: what is counted is 0, not missing, while a resource exists and nothing is asked of it, so that
target tracking comes down from the least load to none.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

NAMESPACE: Final = "AWS/SageMaker"
"""The only Namespace of a customized metric."""


class Scope(StrEnum):
    """What a metric is of."""

    VARIANT = "variant"
    COMPONENT = "component"


BOTH: Final = frozenset(Scope)
_VARIANT: Final = frozenset({Scope.VARIANT})
_COMPONENT: Final = frozenset({Scope.COMPONENT})


@dataclass(frozen=True, slots=True)
class MetricKind:
    """One metric.

    Attributes:
        name: MetricName.
        scopes: Which resources have it.
        unit: CloudWatch's unit.
        meaning: For people.
    """

    name: str
    scopes: frozenset[Scope]
    unit: str
    meaning: str


INVOCATIONS: Final = "Invocations"
PER_INSTANCE: Final = "InvocationsPerInstance"
PER_COPY: Final = "InvocationsPerCopy"
ERRORS_4XX: Final = "Invocation4XXErrors"
ERRORS_5XX: Final = "Invocation5XXErrors"
MODEL_ERRORS: Final = "InvocationModelErrors"
MODEL_LATENCY: Final = "ModelLatency"
FIRST_BYTE_LATENCY: Final = "FirstByteLatency"
CONCURRENT: Final = "ConcurrentRequests"
CONCURRENT_PER_MODEL: Final = "ConcurrentRequestsPerModel"
CONCURRENT_PER_COPY: Final = "ConcurrentRequestsPerCopy"
NO_CAPACITY: Final = "NoCapacityInvocationFailures"

METRIC_KINDS: Final[Mapping[str, MetricKind]] = {
    kind.name: kind
    for kind in (
        MetricKind(INVOCATIONS, BOTH, "Count", "Invocations that ended and were sent to a model server."),
        MetricKind(PER_INSTANCE, _VARIANT, "Count", "Invocations, divided by the instances in service."),
        MetricKind(PER_COPY, _COMPONENT, "Count", "Invocations, divided by the copies in service."),
        MetricKind(
            ERRORS_4XX, BOTH, "Count", "Answers of model servers with a 4xx; Average is their share of all."
        ),
        MetricKind(
            ERRORS_5XX, BOTH, "Count", "Answers of model servers with a 5xx; Average is their share of all."
        ),
        MetricKind(
            MODEL_ERRORS, BOTH, "Count",
            "Invocations that a model server failed: 4xx, 5xx, no answer, an answer too late, broken or "
            "malformed; Average is their share of all.",
        ),
        MetricKind(
            MODEL_LATENCY, BOTH, "Microseconds",
            "From the sending of the last attempt to the end of the answer, of those that completed.",
        ),
        MetricKind(
            FIRST_BYTE_LATENCY, BOTH, "Microseconds",
            "From the sending of the last attempt to the first byte of the answer (warmroute's own).",
        ),
        MetricKind(
            CONCURRENT, BOTH, "None",
            "Invocations under way, streams to their last byte, looked at once a second (warmroute's own).",
        ),
        MetricKind(
            CONCURRENT_PER_MODEL, _VARIANT, "None",
            "ConcurrentRequests, divided by the instances in service.",
        ),
        MetricKind(
            CONCURRENT_PER_COPY, _COMPONENT, "None", "ConcurrentRequests, divided by the copies in service."
        ),
        MetricKind(
            NO_CAPACITY, _COMPONENT, "Count", "Invocations refused because the component had no copy."
        ),
    )
}  # fmt: skip
