import pytest

from warmroute.app.timing import Backoff, StopSchedule


def test_the_delay_doubles_up_to_five_seconds():
    backoff = Backoff()
    assert [backoff.after(1.0) for _ in range(8)] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


def test_half_a_minute_of_running_begins_anew():
    backoff = Backoff()
    for _ in range(5):
        backoff.after(29.9)
    assert [backoff.after(30.0), backoff.after(0.0)] == [0.1, 0.2]


def test_ten_seconds_are_divided_as_documented():
    schedule = StopSchedule.of(10.0)
    assert (schedule.drain_s, schedule.routers_end_s, schedule.end_s) == (7.0, 8.0, 9.7)
    assert schedule.control_s == pytest.approx(1.53)


@pytest.mark.parametrize("total_s", [1.0, 2.0, 5.0, 10.0, 60.0, 3600.0])
def test_every_part_has_time_and_the_whole_ends_before_the_limit(total_s):
    schedule = StopSchedule.of(total_s)
    assert 0 < schedule.drain_s < schedule.routers_end_s < schedule.end_s < total_s
    assert 0 < schedule.control_s < schedule.end_s - schedule.routers_end_s
