from warmroute.adapters.clock import SystemClock
from warmroute.dataplane.ports import Clock


def test_monotonic_time_never_goes_back():
    clock: Clock = SystemClock()
    times = [clock.now_ns() for _ in range(1000)]
    assert times == sorted(times)
    assert all(isinstance(time, int) for time in times)


def test_wall_time_is_in_seconds_since_1970():
    assert 1_700_000_000 < SystemClock().wall_s() < 5_000_000_000
