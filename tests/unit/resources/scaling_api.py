"""Operations of Application Auto Scaling over a store in memory."""

import itertools

import pytest

from warmroute.adapters.store.memory import MemoryStore
from warmroute.resources.arns import Place
from warmroute.resources.errors import ApiError
from warmroute.resources.lifecycle import ComponentStatus, EndpointStatus
from warmroute.resources.metrics.alarms import Alarm, MetricId, Query, Statistic
from warmroute.resources.records import (
    Deployment,
    EndpointRecord,
    InferenceComponentRecord,
    Launch,
    VariantRecord,
)
from warmroute.resources.scaling.operations import SCALING_OPERATIONS
from warmroute.resources.scaling.records import (
    ScalableTargetRecord,
    ScalingPolicyRecord,
    ScheduledActionRecord,
)
from warmroute.resources.scaling.requests import ScalingContext

PLACE = Place("eu-west-1", "123456789012")
NOW_S = 1_796_000_000.0
VARIANT = {
    "ServiceNamespace": "sagemaker",
    "ResourceId": "endpoint/llm/variant/a",
    "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
}
COMPONENT = {
    "ServiceNamespace": "sagemaker",
    "ResourceId": "inference-component/chat",
    "ScalableDimension": "sagemaker:inference-component:DesiredCopyCount",
}
STEP = {
    "AdjustmentType": "ChangeInCapacity",
    "StepAdjustments": [{"MetricIntervalLowerBound": 0, "ScalingAdjustment": 1}],
}
TRACKING = {
    "TargetValue": 5.0,
    "PredefinedMetricSpecification": {"PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"},
}
SLOW = Alarm(
    "slow",
    {"m": Query(MetricId("ModelLatency", "llm", "a"), Statistic.AVERAGE)},
    1e6,
    policies=("when-slow",),
)


def endpoint(count=1, status=EndpointStatus.IN_SERVICE, **changes):
    deployment = Deployment("c", (VariantRecord("a", 1, Launch("ml.local", "m"), count),), 1.0)
    return EndpointRecord("llm", "arn", status, 1.0, 1.0, **{"active": deployment} | changes)


def component(count=0, status=ComponentStatus.IN_SERVICE, **changes):
    return InferenceComponentRecord("chat", "arn", "llm", "a", status, 1.0, 1.0, count=count, **changes)


class ScalingApi:
    """Calls operations as the service does, on a variant and a component that exist."""

    def __init__(self, store=None):
        self.store = store or MemoryStore()
        self.now_s = NOW_S
        self.ids = itertools.count(1)
        self.put(endpoint(), component())

    def call(self, operation, **request):
        context = ScalingContext(PLACE, self.now_s, lambda: f"id-{next(self.ids)}", (SLOW,))
        with self.store.transaction() as tables:
            outcome = SCALING_OPERATIONS[operation](request, tables, context)
            for record in outcome.put:
                tables.put_scaling(record)
            for record in outcome.remove:
                tables.remove_scaling(record)
        return outcome.output

    def refused(self, operation, **request):
        with pytest.raises(ApiError) as caught:
            self.call(operation, **request)
        return caught.value

    def put(self, *records):
        with self.store.transaction() as tables:
            for record in records:
                tables.put(record)

    def register(self, resource=VARIANT, least=1, most=4, **more):
        return self.call("RegisterScalableTarget", **resource, MinCapacity=least, MaxCapacity=most, **more)

    def step(self, name, resource=VARIANT, **changes):
        return self.call(
            "PutScalingPolicy",
            **resource,
            PolicyName=name,
            PolicyType="StepScaling",
            StepScalingPolicyConfiguration=STEP | changes,
        )

    def track(self, name, resource=VARIANT, **changes):
        return self.call(
            "PutScalingPolicy",
            **resource,
            PolicyName=name,
            PolicyType="TargetTrackingScaling",
            TargetTrackingScalingPolicyConfiguration=TRACKING | changes,
        )

    def target(self, resource=VARIANT):
        with self.store.transaction() as tables:
            return tables.scaling_record(ScalableTargetRecord, resource["ResourceId"])

    def policies(self):
        with self.store.transaction() as tables:
            return tables.scaling_records(ScalingPolicyRecord)

    def actions(self):
        with self.store.transaction() as tables:
            return tables.scaling_records(ScheduledActionRecord)
