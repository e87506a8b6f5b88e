"""Declared alarms."""

import pytest

from warmroute.app.alarms import alarms_of
from warmroute.app.config import Sources, load
from warmroute.core import limits
from warmroute.core.errors import ConfigurationError
from warmroute.resources.metrics.alarms import Comparison, MetricId, MissingData, Query, Statistic

ONE = """
[alarms."slow"]
metric = "ModelLatency"
endpoint = "llm"
variant = "a"
threshold = 1_000_000
"""
SEVERAL = """
[alarms."share"]
expression = "bad / all"
threshold = 0.1

[[alarms."share".metrics]]
id = "bad"
metric = "InvocationModelErrors"
statistic = "Sum"
component = "chat"

[[alarms."share".metrics]]
id = "all"
metric = "Invocations"
statistic = "Sum"
component = "chat"
"""


def read(tmp_path, text):
    (tmp_path / "warmroute.toml").write_text(text)
    return alarms_of(load(Sources(directory=tmp_path)))


def test_an_alarm_on_one_metric_has_the_defaults_of_the_page(tmp_path):
    (alarm,) = read(tmp_path, ONE)
    assert alarm.name == "slow"
    assert dict(alarm.queries) == {"m": Query(MetricId("ModelLatency", "llm", "a"), Statistic.AVERAGE)}
    assert (alarm.threshold, alarm.comparison) == (1e6, Comparison.GREATER_OR_EQUAL)
    assert (alarm.period_s, alarm.evaluation_periods, alarm.datapoints_to_alarm) == (60, 1, 1)
    assert (alarm.missing, alarm.policies, alarm.expression) == (MissingData.MISSING, (), None)


def test_every_key_is_taken(tmp_path):
    more = """
statistic = "Maximum"
comparison = "LessThanThreshold"
period_s = 10
evaluation_periods = 6
datapoints_to_alarm = 3
missing = "breaching"
policies = ["p", "arn:q"]
"""
    (alarm,) = read(tmp_path, ONE + more)
    assert alarm.queries["m"].statistic is Statistic.MAXIMUM
    assert alarm.comparison is Comparison.LESS
    assert (alarm.period_s, alarm.evaluation_periods, alarm.datapoints_to_alarm) == (10, 6, 3)
    assert (alarm.missing, alarm.policies) == (MissingData.BREACHING, ("p", "arn:q"))


def test_all_values_must_breach_when_nothing_else_is_said(tmp_path):
    (alarm,) = read(tmp_path, ONE + "evaluation_periods = 5\n")
    assert alarm.datapoints_to_alarm == 5


def test_an_expression_reads_its_metrics(tmp_path):
    (alarm,) = read(tmp_path, SEVERAL)
    assert sorted(alarm.queries) == ["all", "bad"]
    assert alarm.expression.value({"bad": 1.0, "all": 4.0}) == 0.25


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (ONE.replace("ModelLatency", "Latency"), "no such metric; there are Invocations"),
        (ONE.replace('variant = "a"', ""), "is a metric of endpoint and variant or component"),
        (ONE + 'component = "c"', "is a metric of endpoint and variant or component"),
        (ONE.replace("ModelLatency", "InvocationsPerCopy"), "is a metric of component"),
        (ONE.replace('metric = "ModelLatency"', ""), "give either metric, or metrics"),
        (ONE + 'expression = "m"', "needs metrics in place of metric"),
        (ONE + "period_s = 15", "must be a multiple of 10"),
        (ONE + "datapoints_to_alarm = 2", "must not be more than evaluation_periods"),
        (ONE + "period_s = 3600\nevaluation_periods = 2", "metrics are kept for 3600 s"),
        (ONE.replace('"slow"', '" "'), "1 to 255 characters"),
        (ONE.replace('"slow"', f'"{"x" * 256}"'), "1 to 255 characters"),
        (ONE.replace("1_000_000", '"many"'), "must be a number"),
        (ONE + 'comparison = "More"', "must be one of"),
        (SEVERAL.replace("bad / all", "bad / none"), "not one of its metrics"),
        (SEVERAL.replace("bad / all", ""), "cannot be read"),
        (SEVERAL.replace('id = "all"', 'id = "bad"'), "each id may be given once"),
        (SEVERAL.replace('id = "all"', 'id = "All"'), "the first a small letter"),
        (SEVERAL.replace('metric = "Invocations"', 'metric = "None"'), "metrics.1.metric = None"),
    ],
)
def test_a_declaration_that_does_not_fit_is_told_by_its_key(tmp_path, text, part):
    with pytest.raises(ConfigurationError) as caught:
        read(tmp_path, text)
    assert "alarms" in str(caught.value)
    assert part in str(caught.value)


def test_there_is_a_greatest_number_of_alarms_and_of_metrics(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "ALARMS_DECLARED_MAX", 1)
    read(tmp_path, ONE)
    with pytest.raises(ConfigurationError, match="at most 1 are allowed"):
        read(tmp_path, ONE + SEVERAL)
    monkeypatch.setattr(limits, "TRACKING_METRICS_MAX", 1)
    with pytest.raises(ConfigurationError, match="at most 1 are allowed"):
        read(tmp_path, SEVERAL)
