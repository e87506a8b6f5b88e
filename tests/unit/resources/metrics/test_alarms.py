"""Alarms: states from values, and the book that keeps them."""

from dataclasses import dataclass, field

import pytest

from warmroute.resources.metrics.alarms import (
    Alarm,
    AlarmBook,
    AlarmState,
    Comparison,
    MetricId,
    MissingData,
    Query,
    Statistic,
    evaluate,
)
from warmroute.resources.metrics.expressions import parse

QUERY = Query(MetricId("Invocations", endpoint="llm"), Statistic.SUM)
ERRORS = Query(MetricId("Invocation5XXErrors", endpoint="llm"), Statistic.SUM)


@dataclass
class Source:
    """Answers from a table, newest first."""

    values: dict[Query, tuple[float | None, ...]] = field(default_factory=dict)

    def points(self, query, *, period_s, count):
        assert period_s % 10 == 0
        return (self.values.get(query, ()) + (None,) * count)[:count]


def alarm(**changes):
    return Alarm(**({"name": "busy", "queries": {"m": QUERY}, "threshold": 10.0} | changes))


@pytest.mark.parametrize(
    ("comparison", "below", "at", "above"),
    [
        (Comparison.GREATER_OR_EQUAL, False, True, True),
        (Comparison.GREATER, False, False, True),
        (Comparison.LESS, True, False, False),
        (Comparison.LESS_OR_EQUAL, True, True, False),
    ],
)
def test_comparisons_breach_as_their_names_say(comparison, below, at, above):
    assert [comparison.breached(value, 10) for value in (9, 10, 11)] == [below, at, above]


@pytest.mark.parametrize(
    ("points", "missing", "state"),
    [
        ((11.0, 11.0, 0.0), MissingData.MISSING, AlarmState.ALARM),
        ((11.0, 0.0, 0.0), MissingData.MISSING, AlarmState.OK),
        ((11.0, None, None), MissingData.MISSING, AlarmState.OK),
        ((None, None, None), MissingData.MISSING, AlarmState.INSUFFICIENT_DATA),
        ((float("nan"), None, None), MissingData.MISSING, AlarmState.INSUFFICIENT_DATA),
        ((None, None, None), MissingData.IGNORE, AlarmState.ALARM),
        ((0.0, None, None), MissingData.IGNORE, AlarmState.OK),
        ((None, None, None), MissingData.BREACHING, AlarmState.ALARM),
        ((0.0, 0.0, None), MissingData.BREACHING, AlarmState.OK),
        ((None, None, None), MissingData.NOT_BREACHING, AlarmState.OK),
        ((11.0, 11.0, None), MissingData.NOT_BREACHING, AlarmState.ALARM),
    ],
)
def test_two_of_three_values_must_breach(points, missing, state):
    watched = alarm(evaluation_periods=3, datapoints_to_alarm=2, missing=missing)
    assert evaluate(watched, points, before=AlarmState.ALARM)[0] is state


def test_the_reason_names_the_values_and_the_threshold():
    _, reason = evaluate(alarm(), (11.0,), before=AlarmState.OK)
    assert "1 of 1 periods" in reason
    assert "(10)" in reason
    assert "11" in reason


def test_an_expression_is_taken_period_by_period():
    share = alarm(
        queries={"errors": ERRORS, "all": QUERY},
        expression=parse("errors / all", ["errors", "all"]),
        evaluation_periods=3,
    )
    source = Source({QUERY: (10.0, 0.0, 4.0), ERRORS: (5.0, 0.0, 1.0)})
    assert share.points(source) == (0.5, None, 0.25)


def test_the_book_tells_what_changed_and_since_when():
    book, source = AlarmBook(), Source()
    book.define([alarm()])
    assert book.state("busy") is AlarmState.INSUFFICIENT_DATA

    assert book.evaluate(source, 100.0) == ()
    source.values[QUERY] = (11.0,)
    assert book.evaluate(source, 110.0) == ("busy",)
    assert book.evaluate(source, 120.0) == ()

    finding = book.finding("busy")
    assert finding is not None
    assert (finding.state, finding.since_s, finding.values) == (AlarmState.ALARM, 110.0, (11.0,))


def test_an_alarm_that_is_defined_the_same_again_keeps_its_state():
    book = AlarmBook()
    book.define([alarm(), alarm(name="other")])
    book.evaluate(Source({QUERY: (11.0,)}), 1.0)

    book.define([alarm(), alarm(name="other", threshold=20.0)])

    assert book.state("busy") is AlarmState.ALARM
    assert book.state("other") is AlarmState.INSUFFICIENT_DATA
    assert [one.name for one in book.alarms()] == ["busy", "other"]


def test_an_unknown_name_has_no_state():
    book = AlarmBook()
    assert book.state("none") is None
    assert book.finding("none") is None
    assert book.alarm("none") is None
