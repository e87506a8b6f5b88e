"""Customized metrics."""

import pytest

from warmroute.core import limits
from warmroute.resources.errors import ApiError
from warmroute.resources.metrics.alarms import MetricId, Query, Statistic
from warmroute.resources.scaling.customized_metrics import customized

OF_VARIANT = [{"Name": "EndpointName", "Value": "llm"}, {"Name": "VariantName", "Value": "a"}]
OF_COMPONENT = [{"Name": "InferenceComponentName", "Value": "chat"}]
SINGLE = {
    "MetricName": "Invocations",
    "Namespace": "AWS/SageMaker",
    "Statistic": "Sum",
    "Dimensions": OF_VARIANT,
}


def stat(name, metric="Invocations", statistic="Sum", returns=False, dimensions=OF_VARIANT, **changes):
    return {
        "Id": name,
        "ReturnData": returns,
        "MetricStat": {
            "Stat": statistic,
            "Metric": {"MetricName": metric, "Namespace": "AWS/SageMaker", "Dimensions": dimensions}
            | changes,
        },
    }


def test_one_metric_of_a_variant_or_component():
    assert customized(SINGLE) == (
        {"m": Query(MetricId("Invocations", "llm", "a"), Statistic.SUM)},
        None,
    )
    queries, _ = customized(SINGLE | {"Dimensions": OF_COMPONENT, "Statistic": "Average"})
    assert queries == {"m": Query(MetricId("Invocations", component="chat"), Statistic.AVERAGE)}


def test_an_expression_reads_only_what_it_names():
    metrics = [
        stat("calls"),
        stat("bad", "Invocation5XXErrors"),
        stat("unused", "ModelLatency"),
        {"Id": "share", "Expression": "bad / calls"},
    ]
    queries, expression = customized({"Metrics": metrics})
    assert sorted(queries) == ["bad", "calls"]
    assert expression.value({"bad": 1.0, "calls": 4.0}) == 0.25


def test_one_of_several_metrics_may_be_returned_as_it_is():
    queries, expression = customized({"Metrics": [stat("a", returns=True), stat("b")]})
    assert (list(queries), expression) == (["a"], None)


@pytest.mark.parametrize(
    ("specification", "part"),
    [
        ({}, "lacks MetricName, Namespace, Statistic"),
        (SINGLE | {"Metrics": []}, "Only one of them"),
        (SINGLE | {"Namespace": "Mine"}, '"Mine" is not supported'),
        (SINGLE | {"Statistic": "p99"}, '"p99" is not one of Sum'),
        (SINGLE | {"MetricName": "Mine"}, "There are: Invocations"),
        (SINGLE | {"Dimensions": []}, "EndpointName and VariantName or InferenceComponentName, not none"),
        (SINGLE | {"Dimensions": OF_VARIANT[:1]}, "not EndpointName"),
        (
            SINGLE | {"MetricName": "InvocationsPerInstance", "Dimensions": OF_COMPONENT},
            "has the dimensions EndpointName and VariantName, not",
        ),
        (
            SINGLE | {"MetricName": "InvocationsPerCopy"},
            "has the dimensions InferenceComponentName, not",
        ),
        ({"Metrics": []}, "From 1 to 10"),
        ({"Metrics": [stat(f"m{at}") for at in range(limits.TRACKING_METRICS_MAX + 1)]}, "has 11 members"),
        ({"Metrics": [stat("a"), stat("a")]}, 'the Id "a"'),
        ({"Metrics": [{"Id": "e", "Expression": "1"}, {"Id": "e", "Expression": "1"}]}, 'the Id "e"'),
        ({"Metrics": [stat("a") | {"Expression": "a"}]}, "either MetricStat or Expression"),
        ({"Metrics": [{"Id": "a"}]}, "either MetricStat or Expression"),
        ({"Metrics": [stat("a")]}, "0 members of Metrics return data"),
        ({"Metrics": [stat("a", returns=True), {"Id": "b", "Expression": "a"}]}, "2 members"),
        ({"Metrics": [stat("a"), {"Id": "b", "Expression": "RATE(a)"}]}, 'Member "b" of Metrics is not'),
        ({"Metrics": [stat("a", Namespace="")]}, '"" is not supported'),
    ],
)
def test_what_does_not_fit_is_refused(specification, part):
    with pytest.raises(ApiError) as caught:
        customized(specification)
    assert part in caught.value.message


def test_as_many_metrics_as_are_allowed():
    metrics = [stat(f"m{at}", returns=at == 0) for at in range(limits.TRACKING_METRICS_MAX)]
    assert list(customized({"Metrics": metrics})[0]) == ["m0"]
