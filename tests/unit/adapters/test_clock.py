from warmroute.adapters.clock import FastClock, SystemClock
from warmroute.dataplane.ports import Clock


def test_monotonic_time_never_goes_back():
    clock: Clock = SystemClock()
    times = [clock.now_ns() for _ in range(1000)]
    assert times == sorted(times)
    assert all(isinstance(time, int) for time in times)


def test_wall_time_is_in_seconds_since_1970():
    assert 1_700_000_000 < SystemClock().wall_s() < 5_000_000_000


def test_a_fast_clock_begins_with_the_machines_and_runs_ahead_of_it():
    begin_s = SystemClock().wall_s()
    clock = FastClock(1000.0)
    first_s = clock.wall_s()
    while clock.wall_s() < first_s + 1.0:  # a millisecond
        pass
    assert first_s >= begin_s - 1.0
    assert SystemClock().wall_s() - begin_s < clock.wall_s() - begin_s
