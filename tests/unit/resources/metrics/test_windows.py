"""Windows of metrics."""

import pytest

from warmroute.core import limits
from warmroute.resources.metrics.alarms import MetricId, Query, Statistic
from warmroute.resources.metrics.windows import MetricWindows

BUSY = MetricId("ConcurrentRequests", component="a")
CALLS = MetricId("Invocations", component="a")


def read(windows, metric, statistic, *, period_s=10, count=1):
    return windows.points(Query(metric, statistic), period_s=period_s, count=count)


@pytest.fixture
def windows():
    return MetricWindows()


def test_every_statistic_of_a_period(windows):
    for value in (2.0, 4.0):
        windows.observe(BUSY, value)
    windows.roll()
    windows.observe(BUSY, 9.0)
    windows.roll()

    found = {one: read(windows, BUSY, one, period_s=20)[0] for one in Statistic}

    assert found == {
        Statistic.SUM: 15.0,
        Statistic.AVERAGE: 5.0,
        Statistic.MINIMUM: 2.0,
        Statistic.MAXIMUM: 9.0,
        Statistic.SAMPLE_COUNT: 3.0,
    }


def test_periods_lie_end_to_end_newest_first_and_the_open_window_is_in_none(windows):
    for value in (1.0, 2.0, 3.0, 4.0):
        windows.observe(BUSY, value)
        windows.roll()
    windows.observe(BUSY, 99.0)

    assert read(windows, BUSY, Statistic.SUM, count=5) == (4.0, 3.0, 2.0, 1.0, None)
    assert read(windows, BUSY, Statistic.SUM, period_s=20, count=2) == (7.0, 3.0)


def test_nothing_that_happened_is_a_sum_of_zero_without_an_average(windows):
    windows.count(CALLS, 0)
    windows.roll()

    assert read(windows, CALLS, Statistic.SUM) == (0.0,)
    assert read(windows, CALLS, Statistic.AVERAGE) == (None,)


def test_what_was_never_counted_has_no_value(windows):
    windows.roll()
    assert read(windows, CALLS, Statistic.SUM) == (None,)


@pytest.mark.parametrize(
    ("amount", "of", "average", "most", "least"),
    [(3, None, 1.0, 1.0, 1.0), (1, 4, 0.25, 1.0, 0.0), (0, 4, 0.0, 0.0, 0.0), (4, 2, 1.0, 1.0, 1.0)],
)
def test_the_average_of_a_count_is_its_share(windows, amount, of, average, most, least):
    windows.count(CALLS, amount, of=of)
    windows.roll()

    assert read(windows, CALLS, Statistic.AVERAGE) == (average,)
    assert read(windows, CALLS, Statistic.MAXIMUM) == (most,)
    assert read(windows, CALLS, Statistic.MINIMUM) == (least,)


def test_the_oldest_window_goes_when_there_are_too_many(windows):
    windows.observe(BUSY, 7.0)
    for _ in range(limits.METRIC_WINDOWS_MAX):
        windows.roll()
    assert read(windows, BUSY, Statistic.SUM, count=limits.METRIC_WINDOWS_MAX)[-1] == 7.0

    windows.roll()

    assert read(windows, BUSY, Statistic.SUM, count=limits.METRIC_WINDOWS_MAX + 1)[-2:] == (None, None)
