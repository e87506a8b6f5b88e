from dataclasses import replace

import pytest

from warmroute.controlplane.health import HealthBook, period_s
from warmroute.controlplane.ports import Health
from warmroute.core import limits
from warmroute.resources.records import InstanceRecord, InstanceState, Launch

RECORD = InstanceRecord("i-1", "ep", "v", 1, Launch("t", "m"), 60.0, 100.0, 100.0)
GOOD, BAD = Health(ready=True, model_name="llm"), Health(ready=False)


def test_failures_are_counted_in_a_row_and_news_are_told():
    checkup = HealthBook().checkup("i-1", 1)
    assert [checkup.record(health) for health in (BAD, BAD, GOOD, GOOD, BAD)] == [
        True,
        True,
        True,
        False,
        True,
    ]
    assert (checkup.probes, checkup.failures, checkup.last) == (5, 1, BAD)


def test_a_new_name_is_news():
    checkup = HealthBook().checkup("i-1", 1)
    checkup.record(GOOD)
    assert checkup.record(Health(ready=True, model_name="other"))


def test_a_new_generation_starts_from_nothing():
    book = HealthBook()
    first = book.checkup("i-1", 1)
    first.record(GOOD)
    assert book.checkup("i-1", 1) is first
    assert book.checkup("i-1", 2).probes == 0


def test_others_are_forgotten():
    book = HealthBook()
    kept, gone = book.checkup("i-1", 1), book.checkup("i-2", 1)
    book.keep_only({"i-1"})
    assert book.checkup("i-1", 1) is kept
    assert book.checkup("i-2", 1) is not gone


@pytest.mark.parametrize(("age_s", "expected"), [(-5.0, 0.1), (0.0, 0.1), (10.0, 0.5), (500.0, 1.0)])
def test_starting_instances_are_asked_often_at_first(age_s, expected):
    assert period_s(RECORD, 100.0 + age_s) == expected


def test_instances_in_service_are_asked_at_a_steady_pace():
    assert period_s(replace(RECORD, state=InstanceState.IN_SERVICE), 9e9) == limits.HEALTH_PERIOD_S
