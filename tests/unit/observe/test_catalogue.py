import re

import pytest

from warmroute.observe import catalogue
from warmroute.observe.catalogue import METRICS, SECONDS_BOUNDS, Metric, MetricKind


def test_every_metric_that_is_defined_is_listed_once():
    defined = [value for value in vars(catalogue).values() if isinstance(value, Metric)]
    assert sorted(metric.name for metric in METRICS) == sorted(metric.name for metric in defined)
    assert len({metric.name for metric in METRICS}) == len(METRICS)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_names_are_prometheus_names_with_the_unit_last(metric):
    assert re.fullmatch(r"warmroute_[a-z][a-z_]*[a-z]", metric.name)
    assert metric.name.endswith("_total") == (metric.kind is MetricKind.COUNTER)
    assert metric.name.endswith("_seconds") == (metric.kind is MetricKind.HISTOGRAM)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_labels_are_distinct_names_and_never_one_a_caller_chooses(metric):
    assert len(set(metric.labels)) == len(metric.labels)
    chosen_here = {
        "endpoint",
        "variant",
        "target",
        "component",
        "adapter",
        "session",
        "route",
        "outcome",
        "problem",
        "strategy",
        "reason",
        "cause",
        "status",
        "trust",
        "why",
    }
    assert set(metric.labels) <= chosen_here


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_meanings_are_whole_sentences(metric):
    assert metric.meaning[0].isupper() or metric.meaning[0].isdigit()
    assert metric.meaning.endswith(".")


def test_bounds_grow_and_cover_a_cached_prompt_and_the_longest_stream():
    assert list(SECONDS_BOUNDS) == sorted(set(SECONDS_BOUNDS))
    assert SECONDS_BOUNDS[0] <= 0.001
    assert SECONDS_BOUNDS[-1] >= 480
